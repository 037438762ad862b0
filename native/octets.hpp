// Eight floats handled as one: two times four everywhere, and truly one on x86 processors with
// AVX2. Both make the same sums in the same order, so results agree everywhere.
#pragma once

#include "lanes.hpp"

namespace comixup {

constexpr int kOctet = 8;

struct PlainOctet {
  Lanes low, high;

  static PlainOctet from(const float* at) { return {load(at), load(at + kLanes)}; }
  static PlainOctet everywhere(float value) { return {all_lanes(value), all_lanes(value)}; }
  /// One number in the lower half, another in the upper one.
  static PlainOctet halves(float low, float high) { return {all_lanes(low), all_lanes(high)}; }
  /// The same four numbers in both halves.
  static PlainOctet twice(const float* at) { return {load(at), load(at)}; }

  void to(float* at) const {
    store(low, at);
    store(high, at + kLanes);
  }
  PlainOctet swapped() const { return {high, low}; }
  /// Lane kLane of each half, all over that half.
  template <int kLane>
  PlainOctet spread() const {
    return {all_lanes(low.lane[kLane]), all_lanes(high.lane[kLane])};
  }
};
inline PlainOctet operator+(const PlainOctet& a, const PlainOctet& b) {
  return {a.low + b.low, a.high + b.high};
}
inline PlainOctet operator*(const PlainOctet& a, const PlainOctet& b) {
  return {a.low * b.low, a.high * b.high};
}
inline PlainOctet least(const PlainOctet& a, const PlainOctet& b) {
  return {least(a.low, b.low), least(a.high, b.high)};
}

#if defined(__GNUC__) && defined(__x86_64__)

struct Avx2Octet {
  using Floats = float __attribute__((vector_size(4 * kOctet)));
  /// The same in memory: not memcpy, which the compiler makes two times four out of.
  using Stored = float __attribute__((vector_size(4 * kOctet), aligned(4), may_alias));
  Floats lane;

  static Avx2Octet from(const float* at) { return {*reinterpret_cast<const Stored*>(at)}; }
  static Avx2Octet everywhere(float value) { return {value - Floats{}}; }
  static Avx2Octet halves(float a, float b) { return {Floats{a, a, a, a, b, b, b, b}}; }
  static Avx2Octet twice(const float* at) {
    return {Floats{at[0], at[1], at[2], at[3], at[0], at[1], at[2], at[3]}};
  }

  void to(float* at) const { *reinterpret_cast<Stored*>(at) = lane; }
  Avx2Octet swapped() const {
    return {Floats{lane[4], lane[5], lane[6], lane[7], lane[0], lane[1], lane[2], lane[3]}};
  }
  template <int k>
  Avx2Octet spread() const {
    return {Floats{lane[k], lane[k], lane[k], lane[k], lane[k + 4], lane[k + 4], lane[k + 4],
                   lane[k + 4]}};
  }
};
inline Avx2Octet operator+(const Avx2Octet& a, const Avx2Octet& b) { return {a.lane + b.lane}; }
inline Avx2Octet operator*(const Avx2Octet& a, const Avx2Octet& b) { return {a.lane * b.lane}; }
inline Avx2Octet least(const Avx2Octet& a, const Avx2Octet& b) {
  return {b.lane < a.lane ? b.lane : a.lane};
}

/// Compiles a job and all it calls for AVX2.
template <typename Job>
__attribute__((target("avx2"), flatten)) void with_avx2(Job&& job) {
  job(Avx2Octet{});
}

inline bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

#endif

/// Calls a job with the kind of octet that suits this machine.
template <typename Job>
void with_octets(Job&& job) {
#if defined(__GNUC__) && defined(__x86_64__)
  if (has_avx2()) return with_avx2(job);
#endif
  job(PlainOctet{});
}

}  // namespace comixup
