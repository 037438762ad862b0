// Checks run_jobs: every job runs once, even if threads cannot be started, and an exception on one
// thread stops all.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "common/threads.hpp"
#include "tests/checks.hpp"

namespace {

using namespace comixup;

void nothing() {}

/// Starts some threads and then fails like the system.
struct StartSome {
  int* left;
  template <typename Work>
  std::thread operator()(const Work& work) const {
    if ((*left)-- <= 0)
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    return std::thread(work);
  }
};

void test_every_job_runs_once() {
  for (const int count : {0, 1, 2, 7, 100})
    for (const int threads : {1, 2, 5, 100})
      for (const int available : {0, 1, 3, 1000}) {
        std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
        int left = available;
        run_jobs(
            count, threads, nothing,
            [&](int k, Checkpoint&) { ++runs[static_cast<std::size_t>(k)]; }, StartSome{&left});
        bool once = true;
        for (const auto& number : runs) once = once && number == 1;
        check(once, "every job runs once");
      }
}

void test_work_stays_shared_among_the_threads_there_are() {
  // Two jobs that wait for each other need two threads: this one, and the one that can be started.
  int left = 1;
  std::atomic<int> arrived{0};
  run_jobs(
      2, 8, nothing,
      [&](int, Checkpoint&) {
        ++arrived;
        while (arrived < 2) std::this_thread::yield();
      },
      StartSome{&left});
  check(arrived == 2, "the thread that could be started takes part");
}

/// Works until stopped.
void work_forever(Checkpoint& checkpoint) {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    checkpoint.after(1 << 17);
  }
}

template <typename Run>
bool throws(const char* message, Run&& run) {
  try {
    run();
  } catch (const std::runtime_error& error) {
    return std::string(error.what()) == message;
  }
  return false;
}

void test_an_exception_stops_all_threads() {
  for (const int failing : {0, 1, 3})
    check(throws("job",
                 [&] {
                   run_jobs(4, 4, nothing, [&](int k, Checkpoint& checkpoint) {
                     if (k == failing) throw std::runtime_error("job");
                     work_forever(checkpoint);
                   });
                 }),
          "what a job throws");
  check(throws("job",
               [&] {
                 run_jobs(1000, 2, nothing,
                          [](int, Checkpoint&) { throw std::runtime_error("job"); });
               }),
        "where all of them throw");
}

void test_the_check_stops_all_threads() {
  using Clock = std::chrono::steady_clock;
  for (const int threads : {1, 3})
    for (const bool caller_waits : {false, true}) {
      const auto begin = Clock::now();
      const auto caller = std::this_thread::get_id();
      int calls = 0;
      std::atomic<int> elsewhere{0};
      const auto stop = [&] {
        check(std::this_thread::get_id() == caller, "checks are made on the caller's thread");
        if (++calls == 2) throw std::runtime_error("check");
      };
      check(throws("check",
                   [&] {
                     run_jobs(threads, threads, stop, [&](int, Checkpoint& checkpoint) {
                       const bool on_caller = std::this_thread::get_id() == caller;
                       if (!on_caller) ++elsewhere;
                       if (on_caller && caller_waits && threads > 1) {
                         while (elsewhere < threads - 1) std::this_thread::yield();
                         return;  // and only waits for the others
                       }
                       work_forever(checkpoint);
                     });
                   }),
            "what the check throws");
      check(calls == 2, "no check after one that threw");
      check(Clock::now() - begin < std::chrono::seconds(10), "within the time of two checks");
    }
}

void test_a_checkpoint_of_its_own_never_stops() {
  Checkpoint checkpoint;
  for (int k = 0; k < 100; ++k) checkpoint.after(std::size_t{1} << 40);
  check(true, "no exception");
}

}  // namespace

int main() {
  test_every_job_runs_once();
  test_work_stays_shared_among_the_threads_there_are();
  test_an_exception_stops_all_threads();
  test_the_check_stops_all_threads();
  test_a_checkpoint_of_its_own_never_stops();
  return comixup::report();
}
