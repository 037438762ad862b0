// Stops long computations: each thread checks periodically whether to continue.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <utility>

namespace comixup {

/// Thrown on the other threads of a stopped computation.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "the computation was stopped"; }
};

/// The stop flag shared by the threads of a computation.
class StopSource {
 public:
  /// Interval of the caller's check, on the caller's thread.
  static constexpr std::chrono::milliseconds kInterval{50};

  /// `check` throws to stop the computation.
  explicit StopSource(std::function<void()> check)
      : check_(std::move(check)), last_check_(std::chrono::steady_clock::now()) {}

  void stop() { stopped_.store(true, std::memory_order_relaxed); }
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  /// Call it on the caller's thread only.
  void check_if_due() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_check_ < kInterval) return;
    last_check_ = now;
    check_();
  }

 private:
  std::function<void()> check_;
  std::chrono::steady_clock::time_point last_check_;
  std::atomic<bool> stopped_{false};
};

/// A thread's handle to a StopSource. Algorithms report their work; the clock, slow to read on some
/// machines, is read about once per millisecond.
class Checkpoint {
 public:
  /// Never stops.
  Checkpoint() = default;
  Checkpoint(StopSource& source, bool on_callers_thread)
      : source_(&source), on_callers_thread_(on_callers_thread) {}

  /// Counts work, in units of about a nanosecond; throws if the computation was stopped.
  void after(std::size_t work) {
    work_ += work;
    if (work_ >= kWorkPerLook) look();
  }

 private:
  static constexpr std::size_t kWorkPerLook = std::size_t{1} << 19;

  void look() {
    work_ = 0;
    if (source_ == nullptr) return;
    if (source_->stopped()) throw Stopped();
    if (on_callers_thread_) source_->check_if_due();
  }

  StopSource* source_ = nullptr;
  bool on_callers_thread_ = false;
  std::size_t work_ = 0;
};

}  // namespace comixup
