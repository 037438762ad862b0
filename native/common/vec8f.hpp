// Vec8f: eight floats, as two Vec4f everywhere (PortableVec8f) or in one register on x86 processors
// with AVX2 (Avx2Vec8f). Both add in the same order, so that results are the same.
#pragma once

#include "common/vec4f.hpp"

// Templates over Vec8f are not themselves compiled for AVX2, only the function that they are
// inlined into: `flatten` below. That requires GCC with optimization; else the portable ones are
// used.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__OPTIMIZE__)
#define COMIXUP_HAS_AVX2 1
#include <immintrin.h>
#else
#define COMIXUP_HAS_AVX2 0
#endif

namespace comixup {

constexpr int kVec8f = 8;
constexpr int kLookup = 16;  // lists up to this size fit in registers

struct PortableVec8f {
  Vec4f low, high;

  static PortableVec8f load(const float* at) {
    return {comixup::load(at), comixup::load(at + kLanes)};
  }
  static PortableVec8f broadcast(float value) {
    return {comixup::broadcast(value), comixup::broadcast(value)};
  }
  /// One number in the lower half, another in the upper one.
  static PortableVec8f halves(float low, float high) {
    return {comixup::broadcast(low), comixup::broadcast(high)};
  }
  /// The same four numbers in both halves.
  static PortableVec8f twice(const float* at) { return {comixup::load(at), comixup::load(at)}; }

  /// Four numbers from one address, four from another.
  static PortableVec8f join(const float* low, const float* high) {
    return {comixup::load(low), comixup::load(high)};
  }

  /// Indices into a list, four and four.
  struct Indices {
    const int *low, *high;
  };
  /// Gathers from a list of `size` numbers, padded to kLookup.
  static PortableVec8f look_up(const float* list, int /*size*/, const Indices& at) {
    return {gather(list, at.low), gather(list, at.high)};
  }

  void store(float* at) const { store(at, at + kLanes); }
  void store(float* at_low, float* at_high) const {
    comixup::store(low, at_low);
    comixup::store(high, at_high);
  }
  PortableVec8f swap_halves() const { return {high, low}; }
  /// Broadcasts lane kLane of each half within that half.
  template <int kLane>
  PortableVec8f broadcast_lane() const {
    return {comixup::broadcast(low.lane[kLane]), comixup::broadcast(high.lane[kLane])};
  }
};
inline PortableVec8f operator+(const PortableVec8f& a, const PortableVec8f& b) {
  return {a.low + b.low, a.high + b.high};
}
inline PortableVec8f operator*(const PortableVec8f& a, const PortableVec8f& b) {
  return {a.low * b.low, a.high * b.high};
}
inline PortableVec8f min(const PortableVec8f& a, const PortableVec8f& b) {
  return {min(a.low, b.low), min(a.high, b.high)};
}

#if COMIXUP_HAS_AVX2

#define COMIXUP_AVX2 __attribute__((target("avx2")))

struct Avx2Vec8f {
  __m256 lane;

  COMIXUP_AVX2 static Avx2Vec8f load(const float* at) { return {_mm256_loadu_ps(at)}; }
  COMIXUP_AVX2 static Avx2Vec8f broadcast(float value) { return {_mm256_set1_ps(value)}; }
  COMIXUP_AVX2 static Avx2Vec8f halves(float low, float high) {
    return {_mm256_set_m128(_mm_set1_ps(high), _mm_set1_ps(low))};
  }
  COMIXUP_AVX2 static Avx2Vec8f twice(const float* at) { return join(at, at); }
  COMIXUP_AVX2 static Avx2Vec8f join(const float* low, const float* high) {
    return {_mm256_set_m128(_mm_loadu_ps(high), _mm_loadu_ps(low))};
  }

  struct Indices {
    __m256i lane;
    COMIXUP_AVX2 Indices(const int* low, const int* high)
        : lane(_mm256_castps_si256(
              join(reinterpret_cast<const float*>(low), reinterpret_cast<const float*>(high))
                  .lane)) {}
  };
  COMIXUP_AVX2 static Avx2Vec8f look_up(const float* list, int size, const Indices& at) {
    if (size > kLookup) return {_mm256_i32gather_ps(list, at.lane, sizeof(float))};
    const __m256 first = _mm256_permutevar8x32_ps(load(list).lane, at.lane);
    const __m256 second = _mm256_permutevar8x32_ps(load(list + kVec8f).lane, at.lane);
    const __m256i is_second = _mm256_cmpgt_epi32(at.lane, _mm256_set1_epi32(kVec8f - 1));
    return {_mm256_blendv_ps(first, second, _mm256_castsi256_ps(is_second))};
  }

  COMIXUP_AVX2 void store(float* at) const { _mm256_storeu_ps(at, lane); }
  COMIXUP_AVX2 void store(float* low, float* high) const {
    _mm_storeu_ps(low, _mm256_castps256_ps128(lane));
    _mm_storeu_ps(high, _mm256_extractf128_ps(lane, 1));
  }
  COMIXUP_AVX2 Avx2Vec8f swap_halves() const { return {_mm256_permute2f128_ps(lane, lane, 1)}; }
  template <int kLane>
  COMIXUP_AVX2 Avx2Vec8f broadcast_lane() const {
    return {_mm256_permute_ps(lane, kLane * 0b01010101)};
  }
};
COMIXUP_AVX2 inline Avx2Vec8f operator+(const Avx2Vec8f& a, const Avx2Vec8f& b) {
  return {_mm256_add_ps(a.lane, b.lane)};
}
COMIXUP_AVX2 inline Avx2Vec8f operator*(const Avx2Vec8f& a, const Avx2Vec8f& b) {
  return {_mm256_mul_ps(a.lane, b.lane)};
}
COMIXUP_AVX2 inline Avx2Vec8f min(const Avx2Vec8f& a, const Avx2Vec8f& b) {
  return {_mm256_min_ps(b.lane, a.lane)};
}

/// Runs a job, compiled with all its callees for AVX2.
template <typename Job>
COMIXUP_AVX2 __attribute__((flatten)) void with_avx2(Job&& job) {
  job(Avx2Vec8f{});
}

inline bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

#endif

/// Two Vec8f: processing two at a time halves the overhead of short loops over labels.
template <typename Vec8f>
struct Vec16f {
  Vec8f first, second;

  static Vec16f load(const float* at) { return {Vec8f::load(at), Vec8f::load(at + kVec8f)}; }
  static Vec16f broadcast(float value) {
    return {Vec8f::broadcast(value), Vec8f::broadcast(value)};
  }
  void store(float* at) const {
    first.store(at);
    second.store(at + kVec8f);
  }
};
template <typename Vec8f>
Vec16f<Vec8f> operator+(const Vec16f<Vec8f>& a, const Vec16f<Vec8f>& b) {
  return {a.first + b.first, a.second + b.second};
}
template <typename Vec8f>
Vec16f<Vec8f> min(const Vec16f<Vec8f>& a, const Vec16f<Vec8f>& b) {
  return {min(a.first, b.first), min(a.second, b.second)};
}

/// Calls a job with the fastest Vec8f of this machine.
template <typename Job>
void with_vec8f(Job&& job) {
#if COMIXUP_HAS_AVX2
  if (has_avx2()) return with_avx2(job);
#endif
  job(PortableVec8f{});
}

}  // namespace comixup
