// Sharing independent jobs among threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace comixup {

/// Runs job(0) .. job(count - 1) on up to `threads` threads; rethrows what a job throws.
template <typename Job>
void run_jobs(int count, int threads, Job&& job) {
  std::atomic<int> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (int k = next++; k < count; k = next++) job(k);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> team;
  for (int t = 1; t < std::min(threads, count); ++t) team.emplace_back(work);
  work();
  for (auto& thread : team) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace comixup
