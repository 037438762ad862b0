// The inner step of Algorithm 1: a labelling of one output of least, or nearly least, energy
//   sum_t unary[x_t][t] + sum over neighbours of charge[x_t][x_t'].
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "frontier.hpp"
#include "grid.hpp"
#include "lanes.hpp"
#include "maxflow.hpp"

namespace comixup {

class Minimiser {
 public:
  /// Sums that an exact solution of the whole step may compare before moves take over. Chosen by
  /// measurement: see "The inner step" in docs/solver.md.
  static constexpr double kExactWork = 6000;
  /// Where moves follow a restricted solution: see `minimise`.
  static constexpr int kSmallGrid = 25;
  static constexpr double kMovesFrom = 0.7;
  /// Sums that one move may compare before a minimum cut takes over.
  static constexpr double kMoveWork = 1 << 15;
  /// Energies are compared up to this, relative to the largest cost: single precision's rounding.
  static constexpr float kTie = 2e-6f;

  explicit Minimiser(const Grid& grid)
      : grid_(grid),
        frontier_(grid),
        row_size_(padded(grid.size)),
        cheapest_(padded(grid.size)),
        local_(grid.size),
        trial_(grid.size),
        edges_(static_cast<int>(grid.edges.size())) {}

  // ---- The problem of one step: candidate labels, their costs, and the charges between them.

  void reset() { num_labels_ = 0; }

  /// Adds a label; its costs at all locations are to be written to the row returned, which has
  /// room for whole lanes.
  float* add_label() {
    const auto size = static_cast<std::size_t>(num_labels_ + 1) * row_size_;
    if (unary_.size() < size) unary_.resize(2 * size);
    return unary_.data() + static_cast<std::size_t>(num_labels_++) * row_size_;
  }
  int num_labels() const { return num_labels_; }
  /// Forgets all but the first `count` labels.
  void keep_labels(int count) { num_labels_ = count; }
  const float* unary(int label) const {
    return unary_.data() + static_cast<std::size_t>(label) * row_size_;
  }
  Charges& charges() { return charges_; }

  /// Improves `labels`, the labelling to start from (-1: any), and returns whether the result is
  /// known to be optimal.
  bool minimise(int* labels) {
    eliminate();
    const double work = frontier_.work(choices_);
    if (work <= kExactWork) {
      frontier_.minimise(choices_, charges_, labels);
      return true;
    }
    for (int t = 0; t < grid_.size; ++t)
      if (!allowed(t, labels[t])) labels[t] = cheapest(t);  // a dominated label is never missed
    start_.assign(labels, labels + grid_.size);
    solve_restricted(labels);
    // Which labels are promising was judged by the present ones; where most were wrong, again.
    int same = 0;
    for (int t = 0; t < grid_.size; ++t) same += labels[t] == start_[t];
    if (2 * same < grid_.size) solve_restricted(labels);
    // On a small grid that is optimal nearly always, and moves find next to nothing, unless it had
    // to leave out most, or charges rule so that the costs do not tell which labels matter.
    if (grid_.size > kSmallGrid || left_out() > kMovesFrom || spread() < charges_.largest())
      while (improve_by_moves(labels) && solve_restricted(labels)) {
      }
    return false;
  }

 private:
  struct Cut {
    explicit Cut(const Grid& grid) : topology(grid.size, edge_list(grid)), minimum(topology) {}
    static std::vector<std::pair<int, int>> edge_list(const Grid& grid) {
      std::vector<std::pair<int, int>> list;
      for (const auto& edge : grid.edges) list.emplace_back(edge.earlier, edge.later);
      return list;
    }
    Topology topology;
    MinCut minimum;
  };

  // ---- Elimination: labels that some other label beats whatever the neighbours hold.

  /// Leaves in `choices_` the labels that may still be optimal.
  ///
  /// The loops run over all labels and all locations, also those already settled: at these sizes a
  /// branch that is predicted wrongly costs more than the arithmetic it saves.
  void eliminate() {
    const int n = grid_.size;
    lay_out_costs();
    choices_.reset(n, num_labels_ + 1);
    eliminate_round();  // a second one, with what the first has found, costs more than it saves
    for (int t = 0; t < n; ++t) choices_.take_finite(t, row(costs_, t), num_labels_);
  }

  /// Turns the costs to one row per location and strikes out what is beaten by the cheapest label
  /// there even if every neighbour favours it as much as any charge can.
  void lay_out_costs() {
    const int n = grid_.size, stride = charges_.stride();
    const auto size = static_cast<std::size_t>(n + 1) * stride;
    if (costs_.size() < size) {
      costs_.resize(size);
      lowest_.resize(size);
      highest_.resize(size);
    }
    std::fill_n(row(lowest_, n), stride, 0.0f);  // the neighbour that is not there charges nothing
    std::fill_n(row(highest_, n), stride, 0.0f);
    for (int t = 0; t < n; t += kLanes) {
      Lanes cheapest = load(unary(0) + t);
      for (int a = 1; a < num_labels_; ++a) cheapest = least(cheapest, load(unary(a) + t));
      store(cheapest, &cheapest_[t]);
    }
    float scale = charges_.largest();
    for (int t = 0; t < n; ++t) scale = std::max(scale, std::fabs(cheapest_[t]));
    tie_ = kTie * scale;
    for (int t = 0; t < n; ++t) {
      const auto degree = static_cast<float>(grid_.neighbours[t].size());
      const float bound = cheapest_[t] + charges_.largest() * degree + tie_;
      float* to = row(costs_, t);
      const float* from = unary_.data() + t;
      for (int a = 0; a < num_labels_; ++a, from += row_size_) to[a] = *from;
      for (int a = num_labels_; a < stride; ++a) to[a] = kNever;
      for (int c = 0; c < stride; c += kLanes) {
        const Lanes cost = load(to + c);
        store(where_at_most(cost, bound, cost, kNever), to + c);
      }
    }
  }

  void eliminate_round() {
    switch (charges_.stride() / kLanes) {
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
          choices_.take_finite(t, row(costs_, t), num_labels_);
          find_reach_of_choices(t);
        }
        drop_dominated();
    }
  }

  void drop_dominated() {
    const bool planar = grid_.max_degree <= 4;
    for (int t = 0; t < grid_.size; ++t) planar ? drop_dominated<4>(t) : drop_dominated<6>(t);
  }

  void find_reach_of_choices(int t) {
    const int stride = charges_.stride(), count = choices_.count(t);
    const int* labels = choices_.labels(t);
    for (int c = 0; c < stride; c += kLanes) {
      Lanes low = load(charges_.row(labels[0]) + c), high = low;
      for (int a = 1; a < count; ++a) {
        const Lanes charge = load(charges_.row(labels[a]) + c);
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
    drop_dominated();
  }

  /// The least and the most that location t, with the labels left to it, charges a neighbour for
  /// holding each label.
  template <int kGroups>
  void find_reach(int t) {
    const float* cost = row(costs_, t);
    Lanes low[kGroups], high[kGroups];
    for (int g = 0; g < kGroups; ++g) low[g] = Lanes{} + kNever, high[g] = Lanes{};
    const float* charges = charges_.row(0);
    for (int a = 0; a < num_labels_; ++a, charges += charges_.stride()) {
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
    const int stride = charges_.stride();
    const int* neighbours = grid_.neighbours[t].begin();
    const float* low[kSlots];
    const float* high[kSlots];
    for (int d = 0; d < kSlots; ++d) {
      low[d] = row(lowest_, neighbours[d]);
      high[d] = row(highest_, neighbours[d]);
    }
    float* cost = row(costs_, t);
    Lanes ceilings = Lanes{} + kNever;
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
    return table.data() + static_cast<std::size_t>(t) * charges_.stride();
  }
  const float* row(const std::vector<float>& table, int t) const {
    return table.data() + static_cast<std::size_t>(t) * charges_.stride();
  }

  int cheapest(int t) const {
    const float* cost = choices_.costs(t);
    return choices_.labels(t)[std::min_element(cost, cost + choices_.count(t)) - cost];
  }

  bool allowed(int t, int label) const { return label >= 0 && row(costs_, t)[label] < kNever; }

  // ---- Restriction, where a few labels too many survive for an exact solution.

  /// Leaves out the least promising labels, those that lag farthest behind the best one at their
  /// location, until an exact solution over the rest is cheap, and takes that. The present labels
  /// stay, so it is at least as good. Returns whether it is better.
  bool solve_restricted(int* labels) {
    if (!restrict_to_budget(labels)) return false;
    frontier_.minimise(restricted_, charges_, trial_.data());
    return accept(labels);
  }

  /// Finds `restricted_`; returns false if even the present labels and the best are too many.
  bool restrict_to_budget(const int* labels) {
    const int n = grid_.size;
    restricted_.reset(n, num_labels_ + 1);
    float most_lag = 0;
    for (int t = 0; t < n; ++t) most_lag = std::max(most_lag, find_lags(t, labels));
    // within_[s][t]: how many labels at t lag by at most s shades (0: not at all).
    const float scale = static_cast<float>(kShades) / most_lag;
    const auto shade = [scale](float lag) { return static_cast<int>(lag * scale + 0.999f); };
    within_.assign(static_cast<std::size_t>(kShades + 2) * n, 0);
    for (int t = 0; t < n; ++t) {
      const float* lag = row(highest_, t);
      for (int a = 0; a < choices_.count(t); ++a) ++within_[shade(lag[a]) * n + t];
    }
    for (int s = n; s < kShades * n; ++s) within_[s] += within_[s - n];
    int limit = kShades - 1;
    while (limit >= 0 && frontier_.work(within_.data() + limit * n) > kExactWork) --limit;
    if (limit < 0) return false;
    for (int t = 0; t < n; ++t) {
      const float* lag = row(highest_, t);
      for (int a = 0; a < choices_.count(t); ++a)
        restricted_.add_if(t, choices_.labels(t)[a], choices_.costs(t)[a], shade(lag[a]) <= limit);
      restricted_.pad(t);
    }
    return true;
  }

  /// How far each label left at t lags behind the best one there, 0 for the present label; returns
  /// the most. A label's charges are taken half way between the least they can be and what the
  /// present neighbours make them.
  float find_lags(int t, const int* present) {
    float* lag = row(highest_, t);  // what it held is no longer needed
    float best = kNever, most = 0;
    for (int a = 0; a < choices_.count(t); ++a) {
      const int label = choices_.labels(t)[a];
      float charge = 0;
      for (const int other : grid_.neighbours[t])
        charge += row(lowest_, other)[label] + charges_.row(label)[present[other]];
      lag[a] = choices_.costs(t)[a] + charge / 2;
      best = std::min(best, lag[a]);
    }
    for (int a = 0; a < choices_.count(t); ++a) {
      lag[a] = choices_.labels(t)[a] == present[t] ? 0 : lag[a] - best;
      most = std::max(most, lag[a]);
    }
    return most;
  }

  /// The share of labels that the restriction left out.
  double left_out() const {
    const int n = grid_.size;
    const double all = std::accumulate(choices_.counts(), choices_.counts() + n, 0);
    return 1 - std::accumulate(restricted_.counts(), restricted_.counts() + n, 0) / all;
  }

  /// The most that the costs of the labels left differ at a location.
  float spread() const {
    float most = 0;
    for (int t = 0; t < grid_.size; ++t) {
      const float* cost = choices_.costs(t);
      const auto [low, high] = std::minmax_element(cost, cost + choices_.count(t));
      most = std::max(most, *high - *low);
    }
    return most;
  }

  // ---- Moves, where too many labels survive for an exact solution.

  /// Returns whether any move helped.
  bool improve_by_moves(int* labels) {
    collect_survivors();
    bool any = false;
    for (bool improved = true; improved;) {
      improved = false;
      const auto count = static_cast<int>(survivors_.size());
      for (int next = 0, idle = 0; idle < count; next = (next + 1) % count, ++idle)
        if (fuse(labels, survivors_[next])) {
          any = true;
          idle = 0;
        }
      if (wide_) improved = swap_pairs(labels);
      any |= improved;
    }
    return any;
  }

  void collect_survivors() {
    alive_.assign(num_labels_, 0);
    for (int t = 0; t < grid_.size; ++t)
      for (int a = 0; a < choices_.count(t); ++a) alive_[choices_.labels(t)[a]] = 1;
    survivors_.clear();
    for (int a = 0; a < num_labels_; ++a)
      if (alive_[a]) survivors_.push_back(a);
    wide_ = false;
  }

  /// Chooses exactly, at every location, between the current label and `label` (an expansion
  /// move that needs no submodularity). Where the grid is too wide, leaves it to swap moves.
  bool fuse(int* labels, int label) {
    if (best_case(labels, label) <= tie_) return false;
    pair_.reset(grid_.size, 2);
    for (int t = 0; t < grid_.size; ++t) {
      pair_.add(t, labels[t], unary(labels[t])[t]);
      if (labels[t] != label && allowed(t, label)) pair_.add(t, label, unary(label)[t]);
      pair_.pad(t);
    }
    if (frontier_.work(pair_) > kMoveWork) {
      wide_ = true;
      return false;
    }
    frontier_.minimise(pair_, charges_, trial_.data());
    return accept(labels);
  }

  /// Returns the most that changing any locations to `label` can gain: charges are not negative,
  /// so a location gains at most its present cost and charges less the label's cost.
  double best_case(const int* labels, int label) const {
    double gain = 0;
    const float* cost = unary(label);
    for (int t = 0; t < grid_.size; ++t) {
      if (labels[t] == label) continue;
      const float* charge = charges_.row(labels[t]);
      float present = unary(labels[t])[t] - cost[t];
      for (const int other : grid_.neighbours[t]) present += charge[labels[other]];
      gain += std::max(0.0f, present);
    }
    return gain;
  }

  /// Exchanges two labels wherever that helps, for all pairs: each an exact minimum cut, since
  /// V(a, a) + V(b, b) <= 2 V(a, b) for every form of charge.
  bool swap_pairs(int* labels) {
    bool improved = false;
    for (std::size_t a = 0; a < survivors_.size(); ++a)
      for (std::size_t b = a + 1; b < survivors_.size(); ++b)
        improved |= swap(labels, survivors_[a], survivors_[b]);
    return improved;
  }

  bool swap(int* labels, int zero, int one) {
    bool any = false;
    if (!cut_) cut_ = std::make_unique<Cut>(grid_);
    MinCut& cut = cut_->minimum;
    cut.clear();
    for (int t = 0; t < grid_.size; ++t) {
      trial_[t] = labels[t];
      local_[t] = (labels[t] == zero && allowed(t, one)) || (labels[t] == one && allowed(t, zero));
      if (!local_[t]) continue;
      any = true;
      float cost0 = unary(zero)[t], cost1 = unary(one)[t];
      for (const int other : grid_.neighbours[t]) {
        const bool fixed = !((labels[other] == zero && allowed(other, one)) ||
                             (labels[other] == one && allowed(other, zero)));
        if (fixed) {
          cost0 += charges_.row(zero)[labels[other]];
          cost1 += charges_.row(one)[labels[other]];
        }
      }
      cut.add_unary(t, cost0, cost1);
    }
    if (!any) return false;
    const float* from0 = charges_.row(zero);
    const float* from1 = charges_.row(one);
    for (int e = 0; e < edges_; ++e)
      if (local_[grid_.edges[e].earlier] && local_[grid_.edges[e].later])
        cut.add_pair(e, from0[zero], from0[one], from1[zero], from1[one]);
    cut.solve();
    for (int t = 0; t < grid_.size; ++t)
      if (local_[t]) trial_[t] = cut.label(t) ? one : zero;
    return accept(labels);
  }

  /// Takes `trial_` over if it is better by more than rounding.
  bool accept(int* labels) {
    if (energy(labels) - energy(trial_.data()) <= tie_) return false;
    std::copy(trial_.begin(), trial_.end(), labels);
    return true;
  }

  double energy(const int* labels) const {
    double sum = 0;
    for (int t = 0; t < grid_.size; ++t) sum += unary(labels[t])[t];
    for (const auto& edge : grid_.edges)
      sum += charges_.row(labels[edge.earlier])[labels[edge.later]];
    return sum;
  }

  static constexpr int kShades = 16;  // how finely lags are told apart
  static constexpr float kNever = std::numeric_limits<float>::infinity();

  const Grid& grid_;
  Frontier frontier_;
  std::unique_ptr<Cut> cut_;  // made when first needed: most grids never do
  const int row_size_;
  int num_labels_ = 0;
  std::vector<float> unary_;  // (labels, n), rows padded to whole lanes
  Charges charges_;
  Choices choices_, restricted_, pair_;
  std::vector<float> costs_, lowest_, highest_;  // (n, stride of the charges)
  std::vector<float> cheapest_;
  std::vector<int> within_;
  std::vector<char> local_, alive_;
  std::vector<int> start_, trial_, survivors_;
  int edges_;
  float tie_ = 0;
  bool wide_ = false;
};

}  // namespace comixup
