// Four doubles handled as one: two times two everywhere, and truly one on x86 processors with AVX2.
// Both make the same sums in the same order, so results agree everywhere.
#pragma once

#include "common/vec8f.hpp"

namespace comixup {

constexpr int kQuad = 4;

#if defined(__GNUC__)

struct PlainQuad {
  using Doubles = double __attribute__((vector_size(16)));
  using Stored = double __attribute__((vector_size(16), aligned(8), may_alias));
  Doubles low, high;

  static PlainQuad from(const double* at) {
    return {*reinterpret_cast<const Stored*>(at), *reinterpret_cast<const Stored*>(at + 2)};
  }
  static PlainQuad everywhere(double value) { return {value - Doubles{}, value - Doubles{}}; }
  void to(double* at) const {
    *reinterpret_cast<Stored*>(at) = low;
    *reinterpret_cast<Stored*>(at + 2) = high;
  }
  double sum() const { return (low[0] + low[1]) + (high[0] + high[1]); }
};
inline PlainQuad operator+(const PlainQuad& a, const PlainQuad& b) {
  return {a.low + b.low, a.high + b.high};
}
inline PlainQuad operator-(const PlainQuad& a, const PlainQuad& b) {
  return {a.low - b.low, a.high - b.high};
}
inline PlainQuad operator*(const PlainQuad& a, const PlainQuad& b) {
  return {a.low * b.low, a.high * b.high};
}
/// 1 where a < b, else 0.
inline PlainQuad less(const PlainQuad& a, const PlainQuad& b) {
  const auto one = 1 - PlainQuad::Doubles{}, none = PlainQuad::Doubles{};
  return {a.low < b.low ? one : none, a.high < b.high ? one : none};
}
/// 1 where a <= b, else 0.
inline PlainQuad at_most(const PlainQuad& a, const PlainQuad& b) {
  const auto one = 1 - PlainQuad::Doubles{}, none = PlainQuad::Doubles{};
  return {a.low <= b.low ? one : none, a.high <= b.high ? one : none};
}

#else

struct PlainQuad {
  double lane[kQuad];

  template <typename F>
  static PlainQuad map(F&& f) {
    return {{f(0), f(1), f(2), f(3)}};
  }
  static PlainQuad from(const double* at) {
    return map([&](int y) { return at[y]; });
  }
  static PlainQuad everywhere(double value) { return {{value, value, value, value}}; }
  void to(double* at) const {
    for (int y = 0; y < kQuad; ++y) at[y] = lane[y];
  }
  double sum() const { return (lane[0] + lane[1]) + (lane[2] + lane[3]); }
};
inline PlainQuad operator+(const PlainQuad& a, const PlainQuad& b) {
  return PlainQuad::map([&](int y) { return a.lane[y] + b.lane[y]; });
}
inline PlainQuad operator-(const PlainQuad& a, const PlainQuad& b) {
  return PlainQuad::map([&](int y) { return a.lane[y] - b.lane[y]; });
}
inline PlainQuad operator*(const PlainQuad& a, const PlainQuad& b) {
  return PlainQuad::map([&](int y) { return a.lane[y] * b.lane[y]; });
}
inline PlainQuad less(const PlainQuad& a, const PlainQuad& b) {
  return PlainQuad::map([&](int y) { return a.lane[y] < b.lane[y] ? 1.0 : 0.0; });
}
inline PlainQuad at_most(const PlainQuad& a, const PlainQuad& b) {
  return PlainQuad::map([&](int y) { return a.lane[y] <= b.lane[y] ? 1.0 : 0.0; });
}

#endif

inline PlainQuad quad_beside(const PlainOctet&) { return PlainQuad(); }

#if defined(__GNUC__) && defined(__x86_64__)

struct Avx2Quad {
  using Doubles = double __attribute__((vector_size(32)));
  using Stored = double __attribute__((vector_size(32), aligned(8), may_alias));
  Doubles lane;

  static Avx2Quad from(const double* at) { return {*reinterpret_cast<const Stored*>(at)}; }
  static Avx2Quad everywhere(double value) { return {value - Doubles{}}; }
  void to(double* at) const { *reinterpret_cast<Stored*>(at) = lane; }
  double sum() const { return (lane[0] + lane[1]) + (lane[2] + lane[3]); }
};
inline Avx2Quad operator+(const Avx2Quad& a, const Avx2Quad& b) { return {a.lane + b.lane}; }
inline Avx2Quad operator-(const Avx2Quad& a, const Avx2Quad& b) { return {a.lane - b.lane}; }
inline Avx2Quad operator*(const Avx2Quad& a, const Avx2Quad& b) { return {a.lane * b.lane}; }
inline Avx2Quad less(const Avx2Quad& a, const Avx2Quad& b) {
  return {a.lane < b.lane ? 1 - Avx2Quad::Doubles{} : Avx2Quad::Doubles{}};
}
inline Avx2Quad at_most(const Avx2Quad& a, const Avx2Quad& b) {
  return {a.lane <= b.lane ? 1 - Avx2Quad::Doubles{} : Avx2Quad::Doubles{}};
}
inline Avx2Quad quad_beside(const Avx2Octet&) { return Avx2Quad(); }

#endif

/// Calls a job with the kind of quad that suits this machine.
template <typename Job>
void with_quads(Job&& job) {
  with_octets([&](auto octet) { job(quad_beside(octet)); });
}

}  // namespace comixup
