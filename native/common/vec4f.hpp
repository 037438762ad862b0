// A few floats handled as one: the width every 64-bit processor has, so results agree everywhere.
#pragma once

#include <cstdint>
#include <cstring>

namespace comixup {

constexpr int kLanes = 4;

/// The least multiple of `lanes` that holds `size`.
constexpr int padded(int size, int lanes = kLanes) { return (size + lanes - 1) / lanes * lanes; }

#if defined(__GNUC__)

using LaneVector = float __attribute__((vector_size(4 * kLanes)));

struct Lanes {
  LaneVector lane;
};
inline Lanes all_lanes(float value) { return {value - LaneVector{}}; }  // less 0: nothing to do
inline Lanes operator+(const Lanes& a, const Lanes& b) { return {a.lane + b.lane}; }
inline Lanes operator+(const Lanes& a, float b) { return {a.lane + b}; }
inline Lanes operator*(const Lanes& a, const Lanes& b) { return {a.lane * b.lane}; }
inline Lanes operator*(const Lanes& a, float b) { return {a.lane * b}; }
inline Lanes minus(const Lanes& a) { return {-a.lane}; }
inline Lanes least(const Lanes& a, const Lanes& b) { return {b.lane < a.lane ? b.lane : a.lane}; }
inline Lanes most(const Lanes& a, const Lanes& b) { return {b.lane > a.lane ? b.lane : a.lane}; }
inline Lanes gather(const float* from, const int* at) {
  return {LaneVector{from[at[0]], from[at[1]], from[at[2]], from[at[3]]}};
}
/// The same lane of four.
inline Lanes column(const Lanes* rows, int lane) {
  return {
      LaneVector{rows[0].lane[lane], rows[1].lane[lane], rows[2].lane[lane], rows[3].lane[lane]}};
}
/// value where key <= bound, else `otherwise`.
inline Lanes where_at_most(const Lanes& key, float bound, const Lanes& value, float otherwise) {
  return {key.lane <= bound ? value.lane : Lanes{}.lane + otherwise};
}

#else

struct Lanes {
  float lane[kLanes];
};
template <typename F>
Lanes map(F&& f) {
  Lanes result;
  for (int y = 0; y < kLanes; ++y) result.lane[y] = f(y);
  return result;
}
inline Lanes all_lanes(float value) {
  return map([&](int) { return value; });
}
inline Lanes gather(const float* from, const int* at) {
  return map([&](int y) { return from[at[y]]; });
}
inline Lanes column(const Lanes* rows, int lane) {
  return map([&](int y) { return rows[y].lane[lane]; });
}
inline Lanes operator+(const Lanes& a, const Lanes& b) {
  return map([&](int y) { return a.lane[y] + b.lane[y]; });
}
inline Lanes operator+(const Lanes& a, float b) {
  return map([&](int y) { return a.lane[y] + b; });
}
inline Lanes operator*(const Lanes& a, const Lanes& b) {
  return map([&](int y) { return a.lane[y] * b.lane[y]; });
}
inline Lanes operator*(const Lanes& a, float b) {
  return map([&](int y) { return a.lane[y] * b; });
}
inline Lanes minus(const Lanes& a) {
  return map([&](int y) { return -a.lane[y]; });
}
inline Lanes least(const Lanes& a, const Lanes& b) {
  return map([&](int y) { return b.lane[y] < a.lane[y] ? b.lane[y] : a.lane[y]; });
}
inline Lanes most(const Lanes& a, const Lanes& b) {
  return map([&](int y) { return b.lane[y] > a.lane[y] ? b.lane[y] : a.lane[y]; });
}
inline Lanes where_at_most(const Lanes& key, float bound, const Lanes& value, float otherwise) {
  return map([&](int y) { return key.lane[y] <= bound ? value.lane[y] : otherwise; });
}

#endif

inline Lanes load(const float* from) {
  Lanes result;
  std::memcpy(&result.lane, from, sizeof(result.lane));
  return result;
}
inline void store(const Lanes& lanes, float* to) {
  std::memcpy(to, &lanes.lane, sizeof(lanes.lane));
}
inline float least_of(const Lanes& a) {
  float result = a.lane[0];
  for (int y = 1; y < kLanes; ++y) result = a.lane[y] < result ? a.lane[y] : result;
  return result;
}

// ---- Small numbers kept in the lowest bits of floats, so that sorting the ones sorts the others.

constexpr int kMostTags = 256;
constexpr std::uint32_t kTagBits = kMostTags - 1;

inline Lanes tagged(const Lanes& a, int tag) {
  std::uint32_t bits[kLanes];
  std::memcpy(bits, &a.lane, sizeof(bits));
  for (std::uint32_t& b : bits) b = (b & ~kTagBits) | static_cast<std::uint32_t>(tag);
  Lanes result;
  std::memcpy(&result.lane, bits, sizeof(bits));
  return result;
}
inline void tags(const Lanes& a, int* to) {
  std::uint32_t bits[kLanes];
  std::memcpy(bits, &a.lane, sizeof(bits));
  for (int y = 0; y < kLanes; ++y) to[y] = static_cast<int>(bits[y] & kTagBits);
}

}  // namespace comixup
