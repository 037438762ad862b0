// The inner problem of Algorithm 1: candidate labels for one output, the unary cost of each at
// every location, and the pairwise costs between labels of neighbours. The energy of a labelling x
// is
//   sum_t unary[x_t][t] + sum over neighbours of pairwise[x_t][x_t'].
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

/// Turns energies into the single precision numbers of the inner step.
///
/// They are counted in a unit close to the largest of them, so that none is too large or too small
/// for single precision whatever the scale of the problem. The unit is a power of two: it changes
/// no digit.
class EnergyUnit {
 public:
  explicit EnergyUnit(double largest) {
    if (largest > 0) per_energy_ = std::ldexp(1.0, std::min(-std::ilogb(largest), kMostShift));
  }
  /// An energy that is not negative; what is far beyond the largest is cut off.
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

  /// Adds a label; its costs at all locations are to be written to the row returned, which has
  /// room for whole Vec16f.
  float* add_label() {
    const auto size = static_cast<std::size_t>(num_labels_ + 1) * row_size_;
    if (unary_.size() < size) unary_.resize(2 * size);
    return unary_.data() + static_cast<std::size_t>(num_labels_++) * row_size_;
  }
  /// Forgets all but the first `count` labels.
  void keep_labels(int count) { num_labels_ = count; }

  int num_labels() const { return num_labels_; }
  const float* unary(int label) const {
    return unary_.data() + static_cast<std::size_t>(label) * row_size_;
  }
  /// From one label's row of costs to the next one's.
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
