// Elimination: labels that some other label beats whatever the neighbours hold.
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
  /// Energies are compared up to this, relative to the largest cost: single precision's rounding.
  static constexpr float kTie = 2e-6f;
  static constexpr float kNever = std::numeric_limits<float>::infinity();

  Elimination(const Grid& grid, const InnerProblem& problem, Checkpoint& checkpoint)
      : grid_(grid), problem_(problem), checkpoint_(checkpoint), cheapest_(padded(grid.size)) {}

  /// Leaves in `choices_` the labels that may still be optimal.
  ///
  /// The loops run over all labels and all locations, also those already settled: at these sizes a
  /// branch that is predicted wrongly costs more than the arithmetic it saves.
  void run() {
    const int n = grid_.size;
    lay_out_costs();
    choices_.reset(n, problem_.num_labels() + 1);
    checkpoint_.after(n);
    eliminate_round();  // a second one, with what the first has found, costs more than it saves
    for (int t = 0; t < n; ++t) choices_.take_finite(t, row(costs_, t), problem_.num_labels());
  }

  /// The labels left at every location.
  const Choices& choices() const { return choices_; }
  /// Differences of energy up to this are rounding.
  float tie() const { return tie_; }
  /// What each label costs at t, infinite for those struck out.
  const float* costs(int t) const { return row(costs_, t); }
  /// The least that location t can charge a neighbour for holding each label.
  const float* lowest(int t) const { return row(lowest_, t); }

  int cheapest(int t) const {
    const float* cost = choices_.costs(t);
    return choices_.labels(t)[std::min_element(cost, cost + choices_.count(t)) - cost];
  }

  bool allowed(int t, int label) const { return label >= 0 && row(costs_, t)[label] < kNever; }

 private:
  /// Turns the costs to one row per location and strikes out what is beaten by the cheapest label
  /// there even if every neighbour favours it as much as any charge can.
  void lay_out_costs() {
    const int n = grid_.size, stride = problem_.charges.stride();
    const auto size = static_cast<std::size_t>(n + 1) * stride;
    if (costs_.size() < size) {
      costs_.resize(size);
      lowest_.resize(size);
      highest_.resize(size);
      checkpoint_.after(4 * size);
    }
    std::fill_n(row(lowest_, n), stride, 0.0f);  // the neighbour that is not there charges nothing
    std::fill_n(row(highest_, n), stride, 0.0f);
    for (int t = 0; t < n; t += kLanes) {
      Lanes cheapest = load(problem_.unary(0) + t);
      for (int a = 1; a < problem_.num_labels(); ++a)
        cheapest = least(cheapest, load(problem_.unary(a) + t));
      store(cheapest, &cheapest_[t]);
      checkpoint_.after(problem_.num_labels());
    }
    float scale = problem_.charges.largest();
    for (int t = 0; t < n; ++t) scale = std::max(scale, std::fabs(cheapest_[t]));
    tie_ = kTie * scale;
    for (int t = 0; t < n; ++t) {
      const auto degree = static_cast<float>(grid_.neighbours[t].size());
      const float bound = cheapest_[t] + problem_.charges.largest() * degree + tie_;
      float* to = row(costs_, t);
      const float* from = problem_.unary(0) + t;
      for (int a = 0; a < problem_.num_labels(); ++a, from += problem_.row_size()) to[a] = *from;
      for (int a = problem_.num_labels(); a < stride; ++a) to[a] = kNever;
      for (int c = 0; c < stride; c += kLanes) {
        const Lanes cost = load(to + c);
        store(where_at_most(cost, bound, cost, kNever), to + c);
      }
      checkpoint_.after(4 * stride);
    }
  }

  void eliminate_round() {
    switch (problem_.charges.stride() / kLanes) {
      case 1:
        return eliminate_round<1>();
      case 2:
        return eliminate_round<2>();
      case 3:
        return eliminate_round<3>();
      case 4:
        return eliminate_round<4>();
      default:  // so many labels that going through those left at a location pays
        for (int t = 0; t < grid_.size; ++t) {
          choices_.take_finite(t, row(costs_, t), problem_.num_labels());
          find_reach_of_choices(t);
        }
        drop_dominated();
    }
  }

  void drop_dominated() {
    const bool planar = grid_.max_degree <= 4;
    for (int t = 0; t < grid_.size; ++t) {
      planar ? drop_dominated<4>(t) : drop_dominated<6>(t);
      checkpoint_.after(4 * problem_.charges.stride());
    }
  }

  void find_reach_of_choices(int t) {
    const int stride = problem_.charges.stride(), count = choices_.count(t);
    checkpoint_.after(static_cast<std::size_t>(stride) * count);
    const int* labels = choices_.labels(t);
    for (int c = 0; c < stride; c += kLanes) {
      Lanes low = load(problem_.charges.row(labels[0]) + c), high = low;
      for (int a = 1; a < count; ++a) {
        const Lanes charge = load(problem_.charges.row(labels[a]) + c);
        low = least(low, charge);
        high = most(high, charge);
      }
      store(low, row(lowest_, t) + c);
      store(high, row(highest_, t) + c);
    }
  }

  /// Groups of kLanes labels are handled kGroups at a time, all held in registers.
  template <int kGroups>
  void eliminate_round() {
    for (int t = 0; t < grid_.size; ++t) find_reach<kGroups>(t);
    checkpoint_.after(static_cast<std::size_t>(grid_.size) * problem_.num_labels() * kGroups);
    drop_dominated();
  }

  /// The least and the most that location t, with the labels left to it, charges a neighbour for
  /// holding each label.
  template <int kGroups>
  void find_reach(int t) {
    const float* cost = row(costs_, t);
    Lanes low[kGroups], high[kGroups];
    for (int g = 0; g < kGroups; ++g) low[g] = all_lanes(kNever), high[g] = Lanes{};
    const float* charges = problem_.charges.row(0);
    for (int a = 0; a < problem_.num_labels(); ++a, charges += problem_.charges.stride()) {
      // 0 for a label that is left, NaN for one that is not: comparisons pass over it.
      const float left = cost[a] - cost[a];
      for (int g = 0; g < kGroups; ++g) {
        const Lanes charge = load(charges + g * kLanes) + left;
        low[g] = least(low[g], charge);
        high[g] = most(high[g], charge);
      }
    }
    for (int g = 0; g < kGroups; ++g) {
      store(low[g], row(lowest_, t) + g * kLanes);
      store(high[g], row(highest_, t) + g * kLanes);
    }
  }

  /// Strikes out each label at t whose cost and charges, at their least, exceed those of some
  /// other label at their most.
  template <int kSlots>
  void drop_dominated(int t) {
    const int stride = problem_.charges.stride();
    const int* neighbours = grid_.neighbours[t].begin();
    const float* low[kSlots];
    const float* high[kSlots];
    for (int d = 0; d < kSlots; ++d) {
      low[d] = row(lowest_, neighbours[d]);
      high[d] = row(highest_, neighbours[d]);
    }
    float* cost = row(costs_, t);
    Lanes ceilings = all_lanes(kNever);
    for (int c = 0; c < stride; c += kLanes) {
      Lanes most_total = load(cost + c);
      for (int d = 0; d < kSlots; ++d) most_total = most_total + load(high[d] + c);
      ceilings = least(ceilings, most_total);
    }
    const float ceiling = least_of(ceilings) + tie_;
    for (int c = 0; c < stride; c += kLanes) {
      const Lanes present = load(cost + c);
      Lanes least_total = present;
      for (int d = 0; d < kSlots; ++d) least_total = least_total + load(low[d] + c);
      store(where_at_most(least_total, ceiling, present, kNever), cost + c);
    }
  }

  float* row(std::vector<float>& table, int t) {
    return table.data() + static_cast<std::size_t>(t) * problem_.charges.stride();
  }
  const float* row(const std::vector<float>& table, int t) const {
    return table.data() + static_cast<std::size_t>(t) * problem_.charges.stride();
  }

  const Grid& grid_;
  const InnerProblem& problem_;
  Checkpoint& checkpoint_;
  Choices choices_;
  std::vector<float> costs_;             // (n, labels), infinite for those struck out
  std::vector<float> lowest_, highest_;  // (n, labels): what t can charge a neighbour
  std::vector<float> cheapest_;
  float tie_ = 0;
};

}  // namespace comixup
