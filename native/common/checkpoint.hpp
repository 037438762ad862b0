// Stopping a long computation: each of its threads checks now and then whether to continue.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <utility>

namespace comixup {

/// Thrown on the threads of a computation that has been stopped on another one.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "the computation was stopped"; }
};

/// What the threads of one computation share: whether it has been stopped.
class StopSource {
 public:
  /// The caller's check is run this often, on the caller's thread.
  static constexpr std::chrono::milliseconds kInterval{50};

  /// `check` throws if the computation is to stop.
  explicit StopSource(std::function<void()> check)
      : check_(std::move(check)), last_check_(std::chrono::steady_clock::now()) {}

  void stop() { stopped_.store(true, std::memory_order_relaxed); }
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  /// To be called on the caller's thread alone.
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

/// What one thread holds of it. Algorithms report how much they have done; the clock, which is slow
/// to read on some machines, is looked at about once a millisecond.
class Checkpoint {
 public:
  /// Never stops.
  Checkpoint() = default;
  Checkpoint(StopSource& source, bool on_callers_thread)
      : source_(&source), on_callers_thread_(on_callers_thread) {}

  /// Counts work, in units of a nanosecond or so; throws if the computation is to stop.
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
