// Labels between which all minima of Puzzle Mix's energy lie; see masks.hpp.
//
// Going up from label 0, location by location and one label at a time for as long as that pays by
// itself, leads to labels that no minimum lies below; going down from label L, to labels that no
// minimum lies above. In which order locations are looked at does not matter, for a step that pays
// still pays after others have made theirs. So several of them are looked at at once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/checkpoint.hpp"
#include "puzzle/vec4d.hpp"

namespace comixup {

/// An axis of a grid along which locations have neighbours.
struct Axis {
  int stride;  // from a location to the next one
  int block;   // locations that share all coordinates up to this axis
};

/// The axes with more than one location, in order.
inline std::vector<Axis> neighbour_axes(const std::vector<int>& sides) {
  int block = 1;
  for (const int side : sides) block *= side;
  std::vector<Axis> axes;
  for (const int side : sides) {
    if (side > 1) axes.push_back({block / side, block});
    block /= side;
  }
  return axes;
}

/// Reads one energy after another and finds its bounds; all memory is allocated once.
class PuzzleBounds {
 public:
  PuzzleBounds(int size, const std::vector<Axis>& axes, int levels)
      : axes_(axes), n_(size), levels_(levels), size_(padded(size, kQuad)) {
    for (const Axis& axis : axes) margin_ = std::max(margin_, padded(axis.stride, kQuad));
    const auto length = index(margin_ + size_ + margin_);
    pair_.resize(axes.size(), std::vector<double>(length));
    for (auto* labels : {&low_, &high_, &new_low_, &new_high_}) labels->resize(length);
    pairs_at_.resize(index(size_));
    climb_.resize(index(size_ * levels));
  }

  /// Reads an energy; returns whether its unaries are convex. Else the bounds cannot be found.
  bool read(const double* unary, const double* weight) {
    bool convex = true;
    with_quads([&](auto) { convex = read_now(unary, weight); });
    return convex;
  }

  /// Finds `low` and `high`, by the kind of quad that suits this machine.
  void find(Checkpoint& checkpoint) {
    with_quads([&](auto quad) { find<decltype(quad)>(checkpoint); });
  }
  template <typename Quad>
  void find(Checkpoint& checkpoint) {
    std::fill_n(&low_[index(margin_)], size_, 0.0);
    std::fill_n(&high_[index(margin_)], size_, static_cast<double>(levels_));
    if (axes_.size() == 2 && levels_ == 2)
      sweep<2, 2, Quad>(checkpoint);  // the usual case
    else
      sweep<0, 0, Quad>(checkpoint);
  }

  /// The bounds as numbers, for locations 0..n - 1; `low` is 0 around them, too.
  const double* low() const { return &low_[index(margin_)]; }
  const double* high() const { return &high_[index(margin_)]; }

  /// The factor of (x[k] - x[k'])^2, where k' is k's next neighbour along an axis; 0 without one.
  const double* pair(int axis) const { return &pair_[index(axis)][index(margin_)]; }

  /// The sum of these factors over all of a location's neighbours.
  const double* pairs_at() const { return pairs_at_.data(); }

  /// What going from `label` to the next one costs each location alone, but for what its
  /// neighbours' labels save it: twice the sum of their labels, times the pairs. Rises with
  /// `label`.
  const double* climb(int label) const { return &climb_[index(label * size_)]; }

 private:
  /// Second differences above this share of the unaries' size, below zero, are rounding errors.
  static constexpr double kRounding = 1e-13;

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  bool read_now(const double* unary, const double* weight) {
    const double factor = 1 / (static_cast<double>(levels_) * levels_);
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      const Axis axis = axes_[a];
      double* pair = &pair_[a][index(margin_)];
      for (int begin = 0; begin < n_; begin += axis.block)
        for (int k = begin; k < begin + axis.block - axis.stride; ++k) pair[k] = *weight++ * factor;
    }
    std::fill(pairs_at_.begin(), pairs_at_.end(), 0.0);
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      const double *pair = &pair_[a][index(margin_)], *before = pair - axes_[a].stride;
      for (int k = 0; k < size_; ++k) pairs_at_[index(k)] += pair[k] + before[k];
    }
    for (int l = 0; l < levels_; ++l) {
      const double *here = unary + index(l) * index(n_), *next = here + n_;
      double* climb = &climb_[index(l * size_)];
      for (int k = 0; k < n_; ++k) climb[k] = next[k] - here[k] + pairs_at_[index(k)] * (2 * l + 1);
    }
    std::int64_t concave = 0;  // counted to the end, without branches
    for (int l = 1; l < levels_; ++l) {
      const double *here = unary + index(l) * index(n_), *before = here - n_, *after = here + n_;
      for (int k = 0; k < n_; ++k) {
        const double size = std::fabs(before[k]) + std::fabs(here[k]) + std::fabs(after[k]);
        concave += before[k] + after[k] - 2 * here[k] < -kRounding * size;
      }
    }
    return concave == 0;
  }

  /// Visits locations to and fro until none changes either of its labels: the numbers of climbs
  /// that pay. `kAxes` and `kLevels` are those of the grid, or 0 if they are not known in advance.
  template <int kAxes, int kLevels, typename Quad>
  void sweep(Checkpoint& checkpoint) {
    const int axes = kAxes > 0 ? kAxes : static_cast<int>(axes_.size());
    const int levels = kLevels > 0 ? kLevels : levels_;
    const Quad none = Quad::everywhere(0);
    bool changed = true;
    for (bool forward = true; changed; forward = !forward) {
      const double *low = &low_[index(margin_)], *high = &high_[index(margin_)];
      double *new_low = &new_low_[index(margin_)], *new_high = &new_high_[index(margin_)];
      Quad change = none;  // low rises and high sinks: nothing cancels
      for (int i = 0; i < size_; i += kQuad) {
        const int k = forward ? i : size_ - kQuad - i;
        Quad toward_low = none, toward_high = none;
        for (int a = 0; a < axes; ++a) {
          const int stride = axes_[index(a)].stride;
          const double* pair = &pair_[index(a)][index(margin_ + k)];
          const Quad next = Quad::from(pair), last = Quad::from(pair - stride);
          // Labels found in this sweep serve at once, but not those of the last moment: to read
          // across two numbers just written makes a processor wait.
          const bool early = stride < kQuad;
          const double* next_low = (early || forward ? low : new_low) + k + stride;
          const double* last_low = (early || !forward ? low : new_low) + k - stride;
          const double* next_high = (early || forward ? high : new_high) + k + stride;
          const double* last_high = (early || !forward ? high : new_high) + k - stride;
          toward_low = toward_low + (next * Quad::from(next_low) + last * Quad::from(last_low));
          toward_high = toward_high + (next * Quad::from(next_high) + last * Quad::from(last_high));
        }
        toward_low = toward_low + toward_low;
        toward_high = toward_high + toward_high;
        Quad pays_low = none, pays_high = none;
        for (int l = 0; l < levels; ++l) {
          const Quad climb = Quad::from(&climb_[index(l * size_ + k)]);
          pays_low = pays_low + less(climb, toward_low);
          pays_high = pays_high + at_most(climb, toward_high);
        }
        change = change + ((pays_low - Quad::from(low + k)) + (Quad::from(high + k) - pays_high));
        pays_low.to(new_low + k);
        pays_high.to(new_high + k);
      }
      changed = change.sum() > 0;
      checkpoint.after(4 * climb_.size());
      low_.swap(new_low_);
      high_.swap(new_high_);
    }
  }

  std::vector<Axis> axes_;
  int n_, levels_;
  int size_;                               // n, padded to whole chunks
  int margin_ = 0;                         // zeros on either side, so that all have neighbours
  std::vector<std::vector<double>> pair_;  // for each axis
  std::vector<double> pairs_at_, climb_, low_, high_, new_low_, new_high_;
};

}  // namespace comixup
