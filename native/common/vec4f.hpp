// Vec4f: four floats in one SIMD register, the width that every 64-bit processor has, so that
// results are the same on all of them.
#pragma once

#include <cstdint>
#include <cstring>

namespace comixup {

constexpr int kLanes = 4;

/// Rounds `size` up to a multiple of `lanes`.
constexpr int padded(int size, int lanes = kLanes) { return (size + lanes - 1) / lanes * lanes; }

#if defined(__GNUC__)

using FloatVector = float __attribute__((vector_size(4 * kLanes)));

struct Vec4f {
  FloatVector lane;
};
inline Vec4f broadcast(float value) { return {value - FloatVector{}}; }  // minus 0: a no-op
inline Vec4f operator+(const Vec4f& a, const Vec4f& b) { return {a.lane + b.lane}; }
inline Vec4f operator+(const Vec4f& a, float b) { return {a.lane + b}; }
inline Vec4f operator*(const Vec4f& a, const Vec4f& b) { return {a.lane * b.lane}; }
inline Vec4f operator*(const Vec4f& a, float b) { return {a.lane * b}; }
inline Vec4f negative(const Vec4f& a) { return {-a.lane}; }
inline Vec4f min(const Vec4f& a, const Vec4f& b) { return {b.lane < a.lane ? b.lane : a.lane}; }
inline Vec4f max(const Vec4f& a, const Vec4f& b) { return {b.lane > a.lane ? b.lane : a.lane}; }
inline Vec4f gather(const float* from, const int* at) {
  return {FloatVector{from[at[0]], from[at[1]], from[at[2]], from[at[3]]}};
}
/// The same lane of four.
inline Vec4f column(const Vec4f* rows, int lane) {
  return {
      FloatVector{rows[0].lane[lane], rows[1].lane[lane], rows[2].lane[lane], rows[3].lane[lane]}};
}
/// value where key <= bound, else `otherwise`.
inline Vec4f where_at_most(const Vec4f& key, float bound, const Vec4f& value, float otherwise) {
  return {key.lane <= bound ? value.lane : Vec4f{}.lane + otherwise};
}

#else

struct Vec4f {
  float lane[kLanes];
};
template <typename F>
Vec4f map(F&& f) {
  Vec4f result;
  for (int y = 0; y < kLanes; ++y) result.lane[y] = f(y);
  return result;
}
inline Vec4f broadcast(float value) {
  return map([&](int) { return value; });
}
inline Vec4f gather(const float* from, const int* at) {
  return map([&](int y) { return from[at[y]]; });
}
inline Vec4f column(const Vec4f* rows, int lane) {
  return map([&](int y) { return rows[y].lane[lane]; });
}
inline Vec4f operator+(const Vec4f& a, const Vec4f& b) {
  return map([&](int y) { return a.lane[y] + b.lane[y]; });
}
inline Vec4f operator+(const Vec4f& a, float b) {
  return map([&](int y) { return a.lane[y] + b; });
}
inline Vec4f operator*(const Vec4f& a, const Vec4f& b) {
  return map([&](int y) { return a.lane[y] * b.lane[y]; });
}
inline Vec4f operator*(const Vec4f& a, float b) {
  return map([&](int y) { return a.lane[y] * b; });
}
inline Vec4f negative(const Vec4f& a) {
  return map([&](int y) { return -a.lane[y]; });
}
inline Vec4f min(const Vec4f& a, const Vec4f& b) {
  return map([&](int y) { return b.lane[y] < a.lane[y] ? b.lane[y] : a.lane[y]; });
}
inline Vec4f max(const Vec4f& a, const Vec4f& b) {
  return map([&](int y) { return b.lane[y] > a.lane[y] ? b.lane[y] : a.lane[y]; });
}
inline Vec4f where_at_most(const Vec4f& key, float bound, const Vec4f& value, float otherwise) {
  return map([&](int y) { return key.lane[y] <= bound ? value.lane[y] : otherwise; });
}

#endif

inline Vec4f load(const float* from) {
  Vec4f result;
  std::memcpy(&result.lane, from, sizeof(result.lane));
  return result;
}
inline void store(const Vec4f& lanes, float* to) {
  std::memcpy(to, &lanes.lane, sizeof(lanes.lane));
}
inline float min_lane(const Vec4f& a) {
  float result = a.lane[0];
  for (int y = 1; y < kLanes; ++y) result = a.lane[y] < result ? a.lane[y] : result;
  return result;
}

// ---- Indices in the lowest bits of floats, so that sorting by value moves them too.

constexpr int kMostTags = 256;
constexpr std::uint32_t kTagBits = kMostTags - 1;

inline Vec4f tagged(const Vec4f& a, int tag) {
  std::uint32_t bits[kLanes];
  std::memcpy(bits, &a.lane, sizeof(bits));
  for (std::uint32_t& b : bits) b = (b & ~kTagBits) | static_cast<std::uint32_t>(tag);
  Vec4f result;
  std::memcpy(&result.lane, bits, sizeof(bits));
  return result;
}
inline void tags(const Vec4f& a, int* to) {
  std::uint32_t bits[kLanes];
  std::memcpy(bits, &a.lane, sizeof(bits));
  for (int y = 0; y < kLanes; ++y) to[y] = static_cast<int>(bits[y] & kTagBits);
}

}  // namespace comixup
