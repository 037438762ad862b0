// Elimination of dominated labels: another label is better whatever the neighbors' labels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "common/checkpoint.hpp"
#include "common/vec4f.hpp"
#include "solver/frontier.hpp"
#include "solver/grid.hpp"
#include "solver/inner_problem.hpp"

namespace comixup {

class Elimination {
 public:
  /// Tolerance of energies relative to the largest cost: single precision's rounding.
  static constexpr float kTie = 2e-6f;
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  Elimination(const Grid& grid, const InnerProblem& problem, Checkpoint& checkpoint)
      : grid_(grid), problem_(problem), checkpoint_(checkpoint), cheapest_(padded(grid.size)) {}

  /// Writes the labels that may still be optimal to `choices_`.
  ///
  /// Loops cover all labels and locations, even settled ones: at these sizes a mispredicted branch
  /// costs more than the arithmetic it saves.
  void run() {
    const int n = grid_.size;
    lay_out_costs();
    choices_.reset(n, problem_.num_labels() + 1);
    checkpoint_.after(n);
    eliminate_round();  // a second round costs more than it saves
    for (int t = 0; t < n; ++t) choices_.take_finite(t, row(costs_, t), problem_.num_labels());
  }

  /// The remaining labels of every location.
  const Choices& choices() const { return choices_; }
  /// Energy differences up to this are rounding errors.
  float tie() const { return tie_; }
  /// The unary cost of each label at t, infinite if eliminated.
  const float* costs(int t) const { return row(costs_, t); }
  /// The least pairwise cost between location t and a neighbor with each label.
  const float* lowest(int t) const { return row(lowest_, t); }

  int cheapest(int t) const {
    const float* cost = choices_.costs(t);
    return choices_.labels(t)[std::min_element(cost, cost + choices_.count(t)) - cost];
  }

  bool allowed(int t, int label) const { return label >= 0 && row(costs_, t)[label] < kInfinity; }

 private:
  /// Transposes the costs to one row per location and eliminates labels worse than the cheapest one
  /// even if every neighbor favors them by the largest pairwise cost.
  void lay_out_costs() {
    const int n = grid_.size, stride = problem_.pairwise.stride();
    const auto size = static_cast<std::size_t>(n + 1) * stride;
    if (costs_.size() < size) {
      costs_.resize(size);
      lowest_.resize(size);
      highest_.resize(size);
      checkpoint_.after(4 * size);
    }
    std::fill_n(row(lowest_, n), stride, 0.0f);  // a missing neighbor costs nothing
    std::fill_n(row(highest_, n), stride, 0.0f);
    for (int t = 0; t < n; t += kLanes) {
      Vec4f cheapest = load(problem_.unary(0) + t);
      for (int a = 1; a < problem_.num_labels(); ++a)
        cheapest = min(cheapest, load(problem_.unary(a) + t));
      store(cheapest, &cheapest_[t]);
      checkpoint_.after(problem_.num_labels());
    }
    float scale = problem_.pairwise.largest();
    for (int t = 0; t < n; ++t) scale = std::max(scale, std::fabs(cheapest_[t]));
    tie_ = kTie * scale;
    for (int t = 0; t < n; ++t) {
      const auto degree = static_cast<float>(grid_.neighbours[t].size());
      const float bound = cheapest_[t] + problem_.pairwise.largest() * degree + tie_;
      float* to = row(costs_, t);
      const float* from = problem_.unary(0) + t;
      for (int a = 0; a < problem_.num_labels(); ++a, from += problem_.row_size()) to[a] = *from;
      for (int a = problem_.num_labels(); a < stride; ++a) to[a] = kInfinity;
      for (int c = 0; c < stride; c += kLanes) {
        const Vec4f cost = load(to + c);
        store(where_at_most(cost, bound, cost, kInfinity), to + c);
      }
      checkpoint_.after(4 * stride);
    }
  }

  void eliminate_round() {
    switch (problem_.pairwise.stride() / kLanes) {
      case 1:
        return eliminate_round<1>();
      case 2:
        return eliminate_round<2>();
      case 3:
        return eliminate_round<3>();
      case 4:
        return eliminate_round<4>();
      default:  // with so many labels, looping over the remaining ones pays off
        for (int t = 0; t < grid_.size; ++t) {
          choices_.take_finite(t, row(costs_, t), problem_.num_labels());
          find_bounds_of_choices(t);
        }
        drop_dominated();
    }
  }

  void drop_dominated() {
    const bool planar = grid_.max_degree <= 4;
    for (int t = 0; t < grid_.size; ++t) {
      planar ? drop_dominated<4>(t) : drop_dominated<6>(t);
      checkpoint_.after(4 * problem_.pairwise.stride());
    }
  }

  void find_bounds_of_choices(int t) {
    const int stride = problem_.pairwise.stride(), count = choices_.count(t);
    checkpoint_.after(static_cast<std::size_t>(stride) * count);
    const int* labels = choices_.labels(t);
    for (int c = 0; c < stride; c += kLanes) {
      Vec4f low = load(problem_.pairwise.row(labels[0]) + c), high = low;
      for (int a = 1; a < count; ++a) {
        const Vec4f pairwise = load(problem_.pairwise.row(labels[a]) + c);
        low = min(low, pairwise);
        high = max(high, pairwise);
      }
      store(low, row(lowest_, t) + c);
      store(high, row(highest_, t) + c);
    }
  }

  /// Processes kGroups groups of kLanes labels at a time, in registers.
  template <int kGroups>
  void eliminate_round() {
    for (int t = 0; t < grid_.size; ++t) find_bounds<kGroups>(t);
    checkpoint_.after(static_cast<std::size_t>(grid_.size) * problem_.num_labels() * kGroups);
    drop_dominated();
  }

  /// Computes the least and the largest pairwise cost between location t, over its remaining
  /// labels, and a neighbor with each label.
  template <int kGroups>
  void find_bounds(int t) {
    const float* cost = row(costs_, t);
    Vec4f low[kGroups], high[kGroups];
    for (int g = 0; g < kGroups; ++g) low[g] = broadcast(kInfinity), high[g] = Vec4f{};
    const float* from = problem_.pairwise.row(0);
    for (int a = 0; a < problem_.num_labels(); ++a, from += problem_.pairwise.stride()) {
      // 0 for a remaining label, NaN for others: comparisons skip them.
      const float left = cost[a] - cost[a];
      for (int g = 0; g < kGroups; ++g) {
        const Vec4f pairwise = load(from + g * kLanes) + left;
        low[g] = min(low[g], pairwise);
        high[g] = max(high[g], pairwise);
      }
    }
    for (int g = 0; g < kGroups; ++g) {
      store(low[g], row(lowest_, t) + g * kLanes);
      store(high[g], row(highest_, t) + g * kLanes);
    }
  }

  /// Eliminates each label at t whose least total cost exceeds some other label's largest one.
  template <int kSlots>
  void drop_dominated(int t) {
    const int stride = problem_.pairwise.stride();
    const int* neighbours = grid_.neighbours[t].begin();
    const float* low[kSlots];
    const float* high[kSlots];
    for (int d = 0; d < kSlots; ++d) {
      low[d] = row(lowest_, neighbours[d]);
      high[d] = row(highest_, neighbours[d]);
    }
    float* cost = row(costs_, t);
    Vec4f ceilings = broadcast(kInfinity);
    for (int c = 0; c < stride; c += kLanes) {
      Vec4f most_total = load(cost + c);
      for (int d = 0; d < kSlots; ++d) most_total = most_total + load(high[d] + c);
      ceilings = min(ceilings, most_total);
    }
    const float ceiling = min_lane(ceilings) + tie_;
    for (int c = 0; c < stride; c += kLanes) {
      const Vec4f present = load(cost + c);
      Vec4f least_total = present;
      for (int d = 0; d < kSlots; ++d) least_total = least_total + load(low[d] + c);
      store(where_at_most(least_total, ceiling, present, kInfinity), cost + c);
    }
  }

  float* row(std::vector<float>& table, int t) {
    return table.data() + static_cast<std::size_t>(t) * problem_.pairwise.stride();
  }
  const float* row(const std::vector<float>& table, int t) const {
    return table.data() + static_cast<std::size_t>(t) * problem_.pairwise.stride();
  }

  const Grid& grid_;
  const InnerProblem& problem_;
  Checkpoint& checkpoint_;
  Choices choices_;
  std::vector<float> costs_;             // (n, labels), infinite for those eliminated
  std::vector<float> lowest_, highest_;  // (n, labels): pairwise costs with a neighbor
  std::vector<float> cheapest_;
  float tie_ = 0;
};

}  // namespace comixup
