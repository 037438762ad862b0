// Labels by themselves: a label is a multiset of L inputs, kept as a sorted list.
#pragma once

#include <cmath>
#include <vector>

#include "solver/problem.hpp"

namespace comixup {

/// Pairwise costs V between labels, and the prior's bonus for blends.
///
/// V(z, z') is in units of 1 / (2 L^2): integers in all forms, so that sums are exact.
class LabelRules {
 public:
  LabelRules(int levels, Smoothness form)
      : levels_(levels), form_(form), log_factorial_(levels + 1, 0) {
    for (int l = 2; l <= levels; ++l) log_factorial_[l] = log_factorial_[l - 1] + std::log(l);
  }

  /// V = 1, the maximum.
  int most_units() const { return 2 * levels_ * levels_; }

  /// L^2 sum_i z_i z'_i.
  int inner(const int* a, const int* b) const {
    int matches = 0;
    for (int x = 0; x < levels_; ++x)
      for (int y = 0; y < levels_; ++y) matches += a[x] == b[y];
    return matches;
  }
  /// V(z, z') given z.z', z.z and z'.z' (times L^2).
  int units(int inner, int norm_a, int norm_b) const {
    if (form_ == Smoothness::kInner) return most_units() - 2 * inner;
    const int squared = norm_a + norm_b - 2 * inner;
    if (form_ == Smoothness::kSquared) return squared;
    const bool any_pure = norm_a == levels_ * levels_ || norm_b == levels_ * levels_;
    return squared == 0 || (any_pure && inner > 0) ? squared : most_units();
  }

  /// (1/L) log of the number of orders in which a label can be drawn.
  double bonus(const int* label) const {
    double orders = log_factorial_[levels_];
    for (int l = 0, run = 0; l < levels_; ++l) {
      ++run;
      if (l + 1 == levels_ || label[l + 1] != label[l]) {
        orders -= log_factorial_[run];
        run = 0;
      }
    }
    return orders / levels_;
  }

 private:
  const int levels_;
  const Smoothness form_;
  std::vector<double> log_factorial_;
};

}  // namespace comixup
