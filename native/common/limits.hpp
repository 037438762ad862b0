// Limits of arguments, checked once by the bindings. Within them no index overflows and no sum
// becomes infinite or NaN, so that no algorithm has to check again.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <vector>

namespace comixup {

/// Most locations of a grid, labels (outputs x locations), levels and threads: as in
/// `core/problem.py` and `core/solve.py`.
constexpr std::size_t kMostLocations = std::size_t{1} << 20;
constexpr std::size_t kMostLabels = std::size_t{1} << 28;
constexpr int kMostLevels = 16;
constexpr int kMostThreads = 1024;

/// Largest magnitude of entries of A and of weights; of costs, which may include a prior; and of
/// Puzzle Mix's energies, which are products of its weights.
constexpr double kMostWeight = 1e30;
constexpr double kMostCost = 1e32;
constexpr double kMostEnergy = 1e100;

inline void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

/// Whether all numbers lie within limits; NaN does not.
template <typename T>
bool all_between(const T* values, std::size_t count, T low, T high) {
  int outside = 0;  // counted without branches
  for (std::size_t i = 0; i < count; ++i) outside |= !((values[i] >= low) & (values[i] <= high));
  return outside == 0;
}
inline bool is_between(double value, double low, double high) {
  return value >= low && value <= high;
}

inline void require_threads(int threads) {
  require(threads > 0 && threads <= kMostThreads, "threads must be from 1 to 1024");
}

/// Returns the number of locations of a grid; throws for invalid sides.
inline std::size_t require_sides(const std::vector<int>& sides) {
  require(!sides.empty() && sides.size() <= 3, "grid must have 1 to 3 sides");
  std::size_t size = 1;
  for (const int side : sides) {
    require(side > 0, "grid sides must be positive");
    size *= static_cast<std::size_t>(side);
    require(size <= kMostLocations, "grid must have at most 2^20 locations");
  }
  return size;
}

}  // namespace comixup
