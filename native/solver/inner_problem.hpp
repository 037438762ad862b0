// The inner problem of Algorithm 1: candidate labels for one output, the unary cost of each at
// every location, and the pairwise costs between labels of neighbors. The energy of a labelling x
// is
//   sum_t unary[x_t][t] + sum over neighbors of pairwise[x_t][x_t'].
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "common/vec4f.hpp"
#include "common/vec8f.hpp"
#include "solver/frontier.hpp"
#include "solver/grid.hpp"

namespace comixup {

/// Converts energies to the single precision of the inner step.
///
/// The unit is close to the largest energy, so that single precision suffices at any scale of the
/// problem. It is a power of two: scaling is exact.
class EnergyUnit {
 public:
  explicit EnergyUnit(double largest) {
    if (largest > 0) per_energy_ = std::ldexp(1.0, std::min(-std::ilogb(largest), kMostShift));
  }
  /// Converts an energy that is not negative; clamped far beyond the largest.
  float operator()(double energy) const {
    return static_cast<float>(std::min(energy * per_energy_, kFar));
  }
  /// The same in double precision, of any sign.
  double wide(double energy) const { return energy * per_energy_; }

 private:
  static constexpr int kMostShift = 1000;  // keeps the factor finite
  static constexpr double kFar = 0x1p64;   // keeps sums over a grid finite
  double per_energy_ = 1;
};

class InnerProblem {
 public:
  explicit InnerProblem(const Grid& grid) : grid_(grid), row_size_(padded(grid.size, 2 * kVec8f)) {}

  void clear() { num_labels_ = 0; }

  /// Adds a label and returns the row to write its costs at all locations to, padded to whole
  /// Vec16f.
  float* add_label() {
    const auto size = static_cast<std::size_t>(num_labels_ + 1) * row_size_;
    if (unary_.size() < size) unary_.resize(2 * size);
    return unary_.data() + static_cast<std::size_t>(num_labels_++) * row_size_;
  }
  /// Removes all but the first `count` labels.
  void keep_labels(int count) { num_labels_ = count; }

  int num_labels() const { return num_labels_; }
  const float* unary(int label) const {
    return unary_.data() + static_cast<std::size_t>(label) * row_size_;
  }
  /// Stride between the rows of costs of two labels.
  int row_size() const { return row_size_; }

  double energy(const int* labels) const {
    double sum = 0;
    for (int t = 0; t < grid_.size; ++t) sum += unary(labels[t])[t];
    for (const auto& edge : grid_.edges)
      sum += pairwise.row(labels[edge.earlier])[labels[edge.later]];
    return sum;
  }

  PairwiseCosts pairwise;

 private:
  const Grid& grid_;
  const int row_size_;
  int num_labels_ = 0;
  std::vector<float> unary_;  // (labels, n), rows padded to whole Vec16f
};

}  // namespace comixup
