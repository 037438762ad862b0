// Labels between which all minima of Puzzle Mix's energy lie; see masks.hpp.
//
// Going up from label 0, location by location and one label at a time for as long as that pays by
// itself, leads to labels that no minimum lies below; going down from label L, to labels that no
// minimum lies above. In which order locations are looked at does not matter, for a step that pays
// still pays after others have made theirs. So several of them are visited at once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "common/checkpoint.hpp"
#include "common/limits.hpp"
#include "common/vec4f.hpp"

// GCC unrolls loops of four before it vectorizes them, and then does not: on 8 x 8 cells that makes
// masks take 1.5 times as long.
#if defined(__GNUC__) && !defined(__clang__)
#define COMIXUP_KEEP_LOOP _Pragma("GCC unroll 1")
#else
#define COMIXUP_KEEP_LOOP
#endif

namespace comixup {

/// An axis of a grid along which locations have neighbors.
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

/// Computes the bounds of a sequence of energies; all memory is allocated once.
class PuzzleBounds {
 public:
  PuzzleBounds(int size, const std::vector<Axis>& axes, int levels)
      : axes_(axes), n_(size), levels_(levels), size_(padded(size)) {
    for (const Axis& axis : axes) margin_ = std::max(margin_, padded(axis.stride));
    const auto length = index(margin_ + size_ + margin_);
    weight_.resize(axes.size(), std::vector<double>(length));
    for (auto* labels : {&low_, &high_, &new_low_, &new_high_}) labels->resize(length);
    weights_at_.resize(index(size_));
    step_cost_.resize(index(size_ * levels));
  }

  /// Reads an energy; throws std::invalid_argument unless its unaries are convex in the label.
  void read(const double* unary, const double* weight) {
    require(is_convex(unary), "unary must be convex in the label");
    read_weights(weight);
    for (int l = 0; l < levels_; ++l) {
      const double *here = unary + index(l) * index(n_), *next = here + n_;
      double* cost = &step_cost_[index(l * size_)];
      for (int k = 0; k < n_; ++k)
        cost[k] = next[k] - here[k] + weights_at_[index(k)] * (2 * l + 1);
    }
  }

  /// Computes `low` and `high`.
  void find(Checkpoint& checkpoint) {
    std::fill_n(&low_[index(margin_)], size_, 0.0);
    std::fill_n(&high_[index(margin_)], size_, static_cast<double>(levels_));
    if (axes_.size() == 2 && levels_ == 2)
      sweep<2, 2>(checkpoint);  // the usual case
    else
      sweep<0, 0>(checkpoint);
  }

  /// The bounds as numbers, for locations 0..n - 1.
  const double* low() const { return &low_[index(margin_)]; }
  const double* high() const { return &high_[index(margin_)]; }

  /// v, the weight of (x[k] - x[k'])^2, where k' is k's next neighbor along an axis; 0 without
  /// one.
  const double* weight(std::size_t axis) const { return &weight_[axis][index(margin_)]; }

  /// Cost for each location of a step from `label` to the next, without the saving by its
  /// neighbors' labels: twice their sum, weighted by v. Increases with `label`.
  const double* step_cost(int label) const { return &step_cost_[index(label * size_)]; }

 private:
  /// Negative second differences up to this fraction of the unaries' size are rounding errors.
  static constexpr double kRounding = 1e-12;

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  /// Whether all second differences along the labels are positive, up to rounding.
  bool is_convex(const double* unary) const {
    std::int64_t concave = 0;  // counted without branches
    for (int l = 1; l < levels_; ++l) {
      const double *here = unary + index(l) * index(n_), *before = here - n_, *after = here + n_;
      for (int k = 0; k < n_; ++k) {
        const double size = std::fabs(before[k]) + std::fabs(here[k]) + std::fabs(after[k]);
        concave += before[k] + after[k] - 2 * here[k] < -kRounding * size;
      }
    }
    return concave == 0;
  }

  void read_weights(const double* weight) {
    const double factor = 1 / (static_cast<double>(levels_) * levels_);
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      const Axis axis = axes_[a];
      double* v = &weight_[a][index(margin_)];
      for (int begin = 0; begin < n_; begin += axis.block)
        for (int k = begin; k < begin + axis.block - axis.stride; ++k) v[k] = *weight++ * factor;
    }
    std::fill(weights_at_.begin(), weights_at_.end(), 0.0);
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      const double *next = &weight_[a][index(margin_)], *last = next - axes_[a].stride;
      for (int k = 0; k < size_; ++k) weights_at_[index(k)] += next[k] + last[k];
    }
  }

  /// Visits locations forward and backward, kLanes at a time, until no bound changes. `kAxes` and
  /// `kLevels` are those of the grid, or 0 if not known at compile time.
  template <int kAxes, int kLevels>
  void sweep(Checkpoint& checkpoint) {
    const int axes = kAxes > 0 ? kAxes : static_cast<int>(axes_.size());
    const int levels = kLevels > 0 ? kLevels : levels_;
    bool changed = true;
    for (bool forward = true; changed; forward = !forward) {
      const double *low = &low_[index(margin_)], *high = &high_[index(margin_)];
      double *new_low = &new_low_[index(margin_)], *new_high = &new_high_[index(margin_)];
      double change[kLanes] = {};  // low rises and high sinks: nothing cancels
      for (int i = 0; i < size_; i += kLanes) {
        const int k = forward ? i : size_ - kLanes - i;
        double saved_low[kLanes] = {}, saved_high[kLanes] = {};  // by the neighbors' labels
        for (int a = 0; a < axes; ++a) {
          const int stride = axes_[index(a)].stride;
          const double* next = &weight_[index(a)][index(margin_ + k)];
          const double* last = next - stride;
          // Labels of this sweep are used at once, except those just written: a load that overlaps
          // two stores stalls the processor.
          const bool near = stride < kLanes;
          const double* next_low = (near || forward ? low : new_low) + k + stride;
          const double* last_low = (near || !forward ? low : new_low) + k - stride;
          const double* next_high = (near || forward ? high : new_high) + k + stride;
          const double* last_high = (near || !forward ? high : new_high) + k - stride;
          COMIXUP_KEEP_LOOP
          for (int y = 0; y < kLanes; ++y) {
            saved_low[y] += next[y] * next_low[y] + last[y] * last_low[y];
            saved_high[y] += next[y] * next_high[y] + last[y] * last_high[y];
          }
        }
        double pays_low[kLanes] = {}, pays_high[kLanes] = {};
        for (int l = 0; l < levels; ++l) {
          const double* cost = &step_cost_[index(l * size_ + k)];
          COMIXUP_KEEP_LOOP
          for (int y = 0; y < kLanes; ++y) {
            pays_low[y] += cost[y] < 2 * saved_low[y] ? 1.0 : 0.0;
            pays_high[y] += cost[y] <= 2 * saved_high[y] ? 1.0 : 0.0;
          }
        }
        COMIXUP_KEEP_LOOP
        for (int y = 0; y < kLanes; ++y) {
          change[y] += (pays_low[y] - low[k + y]) + (high[k + y] - pays_high[y]);
          new_low[k + y] = pays_low[y];
          new_high[k + y] = pays_high[y];
        }
      }
      changed = std::accumulate(change, change + kLanes, 0.0) > 0;
      checkpoint.after(4 * step_cost_.size());
      low_.swap(new_low_);
      high_.swap(new_high_);
    }
  }

  std::vector<Axis> axes_;
  int n_, levels_;
  int size_;                                 // n, padded to whole lanes
  int margin_ = 0;                           // zeros on either side, so that all have neighbors
  std::vector<std::vector<double>> weight_;  // for each axis
  std::vector<double> weights_at_;           // the sum over all of a location's neighbors
  std::vector<double> step_cost_, low_, high_, new_low_, new_high_;
};

}  // namespace comixup
