// A few floats handled as one: the width every 64-bit processor has, so results agree everywhere.
#pragma once

#include <cstring>

namespace comixup {

constexpr int kLanes = 4;

#if defined(__GNUC__)

using LaneVector = float __attribute__((vector_size(4 * kLanes)));

struct Lanes {
  LaneVector lane;
  void store(float* to) const { std::memcpy(to, &lane, sizeof(lane)); }
};
inline Lanes operator+(const Lanes& a, const Lanes& b) { return {a.lane + b.lane}; }
inline Lanes operator+(const Lanes& a, float b) { return {a.lane + b}; }
inline Lanes least(const Lanes& a, const Lanes& b) { return {b.lane < a.lane ? b.lane : a.lane}; }
inline Lanes most(const Lanes& a, const Lanes& b) { return {b.lane > a.lane ? b.lane : a.lane}; }

#else

struct Lanes {
  float lane[kLanes];
  void store(float* to) const { std::memcpy(to, lane, sizeof(lane)); }
};
inline Lanes operator+(const Lanes& a, const Lanes& b) {
  Lanes sum;
  for (int y = 0; y < kLanes; ++y) sum.lane[y] = a.lane[y] + b.lane[y];
  return sum;
}
inline Lanes operator+(const Lanes& a, float b) {
  Lanes sum;
  for (int y = 0; y < kLanes; ++y) sum.lane[y] = a.lane[y] + b;
  return sum;
}
inline Lanes least(const Lanes& a, const Lanes& b) {
  Lanes result;
  for (int y = 0; y < kLanes; ++y) result.lane[y] = b.lane[y] < a.lane[y] ? b.lane[y] : a.lane[y];
  return result;
}
inline Lanes most(const Lanes& a, const Lanes& b) {
  Lanes result;
  for (int y = 0; y < kLanes; ++y) result.lane[y] = b.lane[y] > a.lane[y] ? b.lane[y] : a.lane[y];
  return result;
}

#endif

inline Lanes load(const float* from) {
  Lanes result;
  std::memcpy(&result.lane, from, sizeof(result.lane));
  return result;
}

/// The least multiple of kLanes that holds `size`.
constexpr int padded(int size) { return (size + kLanes - 1) / kLanes * kLanes; }

}  // namespace comixup
