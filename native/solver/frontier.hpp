// Exact minimization of a labelling's energy by dynamic programming over the frontier.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "common/vec4f.hpp"
#include "common/vec8f.hpp"
#include "solver/grid.hpp"

namespace comixup {

/// The remaining labels of each location, with their costs.
class Choices {
 public:
  void reset(int locations, int capacity) {
    capacity_ = static_cast<std::size_t>(capacity) + kLanes;  // whole lanes may be read
    counts_.assign(locations, 0);
    if (labels_.size() < locations * capacity_) {
      labels_.resize(locations * capacity_);
      costs_.resize(locations * capacity_);
    }
  }
  void add(int t, int label, float cost) { add_if(t, label, cost, true); }
  /// Adds a label if it is `wanted`, without a branch.
  void add_if(int t, int label, float cost, bool wanted) {
    labels(t)[counts_[t]] = label;
    costs(t)[counts_[t]] = cost;
    counts_[t] += wanted;
  }
  /// Pads labels to whole lanes with label 0.
  void pad(int t) { std::fill_n(labels(t) + counts_[t], kLanes, 0); }
  /// Sets the labels of location t to those with a finite cost in a row of `size`.
  void take_finite(int t, const float* row, int size) {
    int* label = labels(t);
    float* cost = costs(t);
    int count = 0;
    for (int a = 0; a < size; ++a) {  // without branches
      label[count] = a;
      cost[count] = row[a];
      count += row[a] < std::numeric_limits<float>::infinity();
    }
    counts_[t] = count;
    pad(t);
  }

  int count(int t) const { return counts_[t]; }
  const int* counts() const { return counts_.data(); }
  const int* labels(int t) const { return labels_.data() + t * capacity_; }
  int* labels(int t) { return labels_.data() + t * capacity_; }
  const float* costs(int t) const { return costs_.data() + t * capacity_; }
  float* costs(int t) { return costs_.data() + t * capacity_; }

 private:
  std::size_t capacity_ = 0;
  std::vector<int> counts_, labels_;
  std::vector<float> costs_;
};

/// Pairwise costs V between labels of neighbors, symmetric, not negative; rows, also the last, are
/// padded to whole lanes and for lookups.
class PairwiseCosts {
 public:
  /// Sets V to `off_diagonal` between any two labels, and to 0 between equal ones.
  void reset(int labels, float off_diagonal) {
    stride_ = padded(labels);
    largest_ = off_diagonal_ = off_diagonal;
    table_.assign(static_cast<std::size_t>(labels) * stride_ + kLookup, off_diagonal);
    for (int a = 0; a < labels; ++a) entry(a, a) = 0;
    alike_ = labels;
  }
  void set(int a, int b, float pairwise) {
    entry(a, b) = entry(b, a) = pairwise;
    largest_ = std::max(largest_, pairwise);
    alike_ = std::min(alike_, std::max(a, b));
  }

  /// Among the first labels, up to this one, V is `off_diagonal` off the diagonal and 0 on it.
  int alike() const { return alike_; }
  float off_diagonal() const { return off_diagonal_; }

  /// An upper bound of the pairwise costs.
  float largest() const { return largest_; }

  int stride() const { return stride_; }
  const float* row(int a) const { return table_.data() + static_cast<std::size_t>(a) * stride_; }

 private:
  float& entry(int a, int b) { return table_[static_cast<std::size_t>(a) * stride_ + b]; }

  int stride_ = 0, alike_ = 0;
  float largest_ = 0, off_diagonal_ = 0;
  std::vector<float> table_;
};

class Frontier {
 public:
  explicit Frontier(const Grid& grid)
      : grid_(grid), begin_(grid.size + 1), rest_(grid.size), chosen_(grid.size) {}

  /// Returns whether `minimize` would compare at most `limit` sums, given each location's number of
  /// labels, at least one.
  bool fits(const int* counts, double limit) const {
    if (grid_.size > limit) return false;
    double total = 0;
    for (int t = 0; t < grid_.size && total <= limit; ++t) {
      double window = counts[t];  // products, not a running quotient: divisions are slow
      for (int s = std::max(0, t - grid_.width); s < t; ++s) window *= counts[s];
      total += window;
    }
    return total <= limit;
  }
  bool fits(const Choices& choices, double limit) const { return fits(choices.counts(), limit); }

  /// Writes the labelling of least energy to `labels` and returns its energy.
  ///
  /// table_t[x] is the least energy of locations 0..t over all but the last `width` of them, whose
  /// labels are x, the newest varying fastest. All tables are kept: walking back over them finds
  /// the minimizer without storing any decision.
  float minimize(const Choices& choices, const PairwiseCosts& pairwise, int* labels) {
    lay_out(choices);
    tables_[0] = 0;  // before the first location: one empty labelling of cost 0
    const float* from = tables_.data();
    for (int t = 0; t < grid_.size; ++t) {
      float* to = tables_.data() + begin_[t];
      step(choices, pairwise, t, from, to);
      from = to;
    }
    return walk_back(choices, pairwise, labels);
  }

 private:
  void lay_out(const Choices& choices) {
    int total = 1, most = 1;
    for (int t = 0; t < grid_.size; ++t) {
      int rest = 1;
      for (int s = std::max(0, t - grid_.width + 1); s < t; ++s) rest *= choices.count(s);
      rest_[t] = rest;
      most = std::max(most, choices.count(t));
      begin_[t] = total;
      total += rest * choices.count(t);
    }
    begin_[grid_.size] = total;
    total += kLanes;  // padding, see `relax`
    if (static_cast<int>(tables_.size()) < total) tables_.resize(total);
    if (static_cast<int>(stays_.size()) < most * kLanes) {
      removed_.resize(most * kLanes);
      stays_.resize(most * kLanes);
    }
  }

  /// Fills the table of location t from the previous one.
  void step(const Choices& choices, const PairwiseCosts& pairwise, int t, const float* from,
            float* to) {
    const int num_y = choices.count(t);
    const int oldest = t - grid_.width;  // leaves the frontier, if there is one
    const int num_x = oldest >= 0 ? choices.count(oldest) : 1;
    const int rest = rest_[t];
    // The location before t varies fastest; if it is a neighbor of t, its pairwise costs are added
    // here.
    const bool beside = grid_.beside[t];
    const int num_l = beside ? choices.count(t - 1) : 1;

    // From the last group of labels to the first: see `relax` for why.
    for (int first = (num_y - 1) / kLanes * kLanes; first >= 0; first -= kLanes) {
      const int* label_y = choices.labels(t) + first;
      store(Vec4f{}, removed_.data());
      for (int x = 0; x < num_x && oldest >= 0; ++x)
        store(gather(pairwise.row(choices.labels(oldest)[x]), label_y), &removed_[x * kLanes]);
      const Vec4f cost = load(choices.costs(t) + first);
      store(cost, stays_.data());
      for (int l = 0; l < num_l && beside; ++l)
        store(gather(pairwise.row(choices.labels(t - 1)[l]), label_y) + cost, &stays_[l * kLanes]);
      relax(from, rest, num_x, num_l, to + first, num_y);
    }
    for (const int other : grid_.between[t])
      add_pairwise(choices, pairwise, t, other, to, rest * num_y);
  }

  /// to[r][y] = min_x (from[x][r] + removed[x][y]) + stays[r % num_l][y] for up to kLanes labels y.
  ///
  /// All lanes are written, also those past the last label: they overlap the next row's first
  /// labels, which are written later, or the padding at the end of the tables.
  void relax(const float* from, int rest, int num_x, int num_l, float* to, int num_y) {
    switch (num_x) {
      case 1:
        return relax<1>(from, rest, 1, num_l, to, num_y);
      case 2:
        return relax<2>(from, rest, 2, num_l, to, num_y);
      case 3:
        return relax<3>(from, rest, 3, num_l, to, num_y);
      case 4:
        return relax<4>(from, rest, 4, num_l, to, num_y);
      default:
        return relax<5>(from, rest, num_x, num_l, to, num_y);
    }
  }

  /// The first `kHeld` labels' pairwise costs are held in registers.
  template <int kHeld>
  void relax(const float* from, int rest, int num_x, int num_l, float* to, int num_y) {
    Vec4f held[kHeld];
    for (int x = 0; x < kHeld; ++x) held[x] = load(removed_.data() + x * kLanes);
    for (int r = 0; r < rest;)
      for (int l = 0; l < num_l; ++l, ++r) {
        Vec4f best = held[0] + from[r];
        for (int x = 1; x < kHeld; ++x) best = min(best, held[x] + from[x * rest + r]);
        for (int x = kHeld; x < num_x; ++x)
          best = min(best, load(removed_.data() + x * kLanes) + from[x * rest + r]);
        store(best + load(stays_.data() + l * kLanes), to + r * num_y);
      }
  }

  /// Adds the pairwise costs between location t and an earlier one that stays in the frontier.
  static void add_pairwise(const Choices& choices, const PairwiseCosts& pairwise, int t, int other,
                           float* to, int to_size) {
    const int num_x = choices.count(other), num_y = choices.count(t);
    int between = 1;  // labellings of the locations after `other` and before t
    for (int s = other + 1; s < t; ++s) between *= choices.count(s);
    for (float* out = to; out < to + to_size;)
      for (int x = 0; x < num_x; ++x) {
        const float* row = pairwise.row(choices.labels(other)[x]);
        for (int r = 0; r < between; ++r)
          for (int y = 0; y < num_y; ++y) *out++ += row[choices.labels(t)[y]];
      }
  }

  /// Walks back from the least entry of the last table.
  float walk_back(const Choices& choices, const PairwiseCosts& pairwise, int* labels) {
    const int n = grid_.size, width = grid_.width;
    const float* last = tables_.data() + begin_[n - 1];
    int state = static_cast<int>(std::min_element(last, last + begin_[n] - begin_[n - 1]) - last);
    const float least = last[state];
    for (int t = n - 1; t >= std::max(0, n - width); --t) {
      chosen_[t] = state % choices.count(t);
      state /= choices.count(t);
    }
    for (int t = n - 1; t >= width; --t) {
      // The label of the location that left the frontier at t, given those that stayed.
      const int oldest = t - width;
      int rest = 0;
      for (int s = oldest + 1; s < t; ++s) rest = rest * choices.count(s) + chosen_[s];
      const int rest_size = rest_[t];
      const float* from = tables_.data() + begin_[t - 1] + rest;
      const float* row = pairwise.row(choices.labels(t)[chosen_[t]]);
      const int* label_x = choices.labels(oldest);
      int best = 0;
      for (int x = 1; x < choices.count(oldest); ++x)
        if (from[x * rest_size] + row[label_x[x]] < from[best * rest_size] + row[label_x[best]])
          best = x;
      chosen_[oldest] = best;
    }
    for (int t = 0; t < n; ++t) labels[t] = choices.labels(t)[chosen_[t]];
    return least;
  }

  const Grid& grid_;
  std::vector<int> begin_;  // where each location's table begins
  std::vector<int> rest_;   // labellings of the locations that stay in the frontier at each step
  std::vector<float> tables_;
  std::vector<float> removed_,
      stays_;  // a step's pairwise costs, per label that leaves or stays beside
  std::vector<int> chosen_;
};

}  // namespace comixup
