// Sharing independent jobs among threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/checkpoint.hpp"

namespace comixup {

/// Starts an operating system thread; throws if none is available.
struct StartThread {
  template <typename Work>
  std::thread operator()(const Work& work) const {
    return std::thread(work);
  }
};

/// Runs job(k, checkpoint) for k = 0 .. count - 1 on up to `threads` threads, this one included.
///
/// If no more threads can be started, the existing ones do the work. The first exception of a job,
/// or of `check`, which this thread calls periodically, stops all others and is rethrown here.
template <typename Job, typename Start = StartThread>
void run_jobs(int count, int threads, std::function<void()> check, const Job& job,
              const Start& start = Start()) {
  StopSource source(check);
  std::atomic<int> next{0};
  std::mutex mutex;  // of what follows
  std::condition_variable finished;
  std::exception_ptr failure;
  int running = 0;

  const auto fail = [&] {  // call it in a catch block
    const std::lock_guard<std::mutex> lock(mutex);
    if (!failure) failure = std::current_exception();
    source.stop();
  };
  const auto work = [&](bool on_callers_thread) {
    try {
      Checkpoint checkpoint(source, on_callers_thread);
      for (int k = next++; k < count && !source.stopped(); k = next++) job(k, checkpoint);
    } catch (...) {
      fail();
    }
  };
  const auto work_elsewhere = [&] {
    work(false);
    const std::lock_guard<std::mutex> lock(mutex);
    --running;
    finished.notify_one();
  };

  std::vector<std::thread> team;
  const int wanted = std::max(0, std::min(threads, count) - 1);
  team.reserve(static_cast<std::size_t>(wanted));
  for (int t = 0; t < wanted; ++t) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      ++running;
    }
    try {
      team.push_back(start(work_elsewhere));
    } catch (...) {  // a limit of the system, or of its memory
      const std::lock_guard<std::mutex> lock(mutex);
      --running;
      break;
    }
  }
  work(true);
  std::unique_lock<std::mutex> lock(mutex);
  while (!finished.wait_for(lock, StopSource::kInterval, [&] { return running == 0; })) {
    if (failure) continue;
    lock.unlock();
    try {
      check();
    } catch (...) {
      fail();
    }
    lock.lock();
  }
  lock.unlock();
  for (auto& thread : team) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace comixup
