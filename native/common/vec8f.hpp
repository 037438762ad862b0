// Eight floats handled as one: two times four everywhere, and truly one on x86 processors with
// AVX2. Both make the same sums in the same order, so results agree everywhere.
#pragma once

#include "common/vec4f.hpp"

// What takes octets is not itself compiled for AVX2, only what it is inlined into: `flatten` below.
// That needs GCC, and a build with optimisation; otherwise the plain octets serve.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__OPTIMIZE__)
#define COMIXUP_HAS_AVX2 1
#include <immintrin.h>
#else
#define COMIXUP_HAS_AVX2 0
#endif

namespace comixup {

constexpr int kOctet = 8;
constexpr int kLookup = 16;  // lists up to this size are looked up at once

struct PlainOctet {
  Lanes low, high;

  static PlainOctet from(const float* at) { return {load(at), load(at + kLanes)}; }
  static PlainOctet everywhere(float value) { return {all_lanes(value), all_lanes(value)}; }
  /// One number in the lower half, another in the upper one.
  static PlainOctet halves(float low, float high) { return {all_lanes(low), all_lanes(high)}; }
  /// The same four numbers in both halves.
  static PlainOctet twice(const float* at) { return {load(at), load(at)}; }

  /// Numbers from two places.
  static PlainOctet join(const float* low, const float* high) { return {load(low), load(high)}; }

  /// Places in a list, four and four.
  struct Places {
    const int *low, *high;
  };
  /// The numbers at these places of a list that has `size`, and room for kLookup.
  static PlainOctet look_up(const float* list, int /*size*/, const Places& at) {
    return {gather(list, at.low), gather(list, at.high)};
  }

  void to(float* at) const { to(at, at + kLanes); }
  void to(float* at_low, float* at_high) const {
    store(low, at_low);
    store(high, at_high);
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

#if COMIXUP_HAS_AVX2

#define COMIXUP_AVX2 __attribute__((target("avx2")))

struct Avx2Octet {
  __m256 lane;

  COMIXUP_AVX2 static Avx2Octet from(const float* at) { return {_mm256_loadu_ps(at)}; }
  COMIXUP_AVX2 static Avx2Octet everywhere(float value) { return {_mm256_set1_ps(value)}; }
  COMIXUP_AVX2 static Avx2Octet halves(float low, float high) {
    return {_mm256_set_m128(_mm_set1_ps(high), _mm_set1_ps(low))};
  }
  COMIXUP_AVX2 static Avx2Octet twice(const float* at) { return join(at, at); }
  COMIXUP_AVX2 static Avx2Octet join(const float* low, const float* high) {
    return {_mm256_set_m128(_mm_loadu_ps(high), _mm_loadu_ps(low))};
  }

  struct Places {
    __m256i lane;
    COMIXUP_AVX2 Places(const int* low, const int* high)
        : lane(_mm256_castps_si256(
              join(reinterpret_cast<const float*>(low), reinterpret_cast<const float*>(high))
                  .lane)) {}
  };
  COMIXUP_AVX2 static Avx2Octet look_up(const float* list, int size, const Places& at) {
    if (size > kLookup) return {_mm256_i32gather_ps(list, at.lane, sizeof(float))};
    const __m256 first = _mm256_permutevar8x32_ps(from(list).lane, at.lane);
    const __m256 second = _mm256_permutevar8x32_ps(from(list + kOctet).lane, at.lane);
    const __m256i is_second = _mm256_cmpgt_epi32(at.lane, _mm256_set1_epi32(kOctet - 1));
    return {_mm256_blendv_ps(first, second, _mm256_castsi256_ps(is_second))};
  }

  COMIXUP_AVX2 void to(float* at) const { _mm256_storeu_ps(at, lane); }
  COMIXUP_AVX2 void to(float* low, float* high) const {
    _mm_storeu_ps(low, _mm256_castps256_ps128(lane));
    _mm_storeu_ps(high, _mm256_extractf128_ps(lane, 1));
  }
  COMIXUP_AVX2 Avx2Octet swapped() const { return {_mm256_permute2f128_ps(lane, lane, 1)}; }
  template <int kLane>
  COMIXUP_AVX2 Avx2Octet spread() const {
    return {_mm256_permute_ps(lane, kLane * 0b01010101)};
  }
};
COMIXUP_AVX2 inline Avx2Octet operator+(const Avx2Octet& a, const Avx2Octet& b) {
  return {_mm256_add_ps(a.lane, b.lane)};
}
COMIXUP_AVX2 inline Avx2Octet operator*(const Avx2Octet& a, const Avx2Octet& b) {
  return {_mm256_mul_ps(a.lane, b.lane)};
}
COMIXUP_AVX2 inline Avx2Octet least(const Avx2Octet& a, const Avx2Octet& b) {
  return {_mm256_min_ps(b.lane, a.lane)};
}

/// Compiles a job and all it calls for AVX2.
template <typename Job>
COMIXUP_AVX2 __attribute__((flatten)) void with_avx2(Job&& job) {
  job(Avx2Octet{});
}

inline bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

#endif

/// Two octets of one kind: loops over labels are short, and two at a time halve what they cost
/// beside the sums.
template <typename Octet>
struct OctetPair {
  Octet first, second;

  static OctetPair from(const float* at) { return {Octet::from(at), Octet::from(at + kOctet)}; }
  static OctetPair everywhere(float value) {
    return {Octet::everywhere(value), Octet::everywhere(value)};
  }
  void to(float* at) const {
    first.to(at);
    second.to(at + kOctet);
  }
};
template <typename Octet>
OctetPair<Octet> operator+(const OctetPair<Octet>& a, const OctetPair<Octet>& b) {
  return {a.first + b.first, a.second + b.second};
}
template <typename Octet>
OctetPair<Octet> least(const OctetPair<Octet>& a, const OctetPair<Octet>& b) {
  return {least(a.first, b.first), least(a.second, b.second)};
}

/// Calls a job with the kind of octet that suits this machine.
template <typename Job>
void with_octets(Job&& job) {
#if COMIXUP_HAS_AVX2
  if (has_avx2()) return with_avx2(job);
#endif
  job(PlainOctet{});
}

}  // namespace comixup
