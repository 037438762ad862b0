// The inner step of Algorithm 1: a labelling of one output of least, or nearly least, energy
//   sum_t unary[x_t][t] + sum over neighbours of charge[x_t][x_t'].
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
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
  static constexpr double kExactWork = 200000;
  /// Sums that one move may compare before a minimum cut takes over.
  static constexpr double kMoveWork = 1 << 15;
  /// Energies are compared up to this, relative to the largest cost: single precision's rounding.
  static constexpr float kTie = 2e-6f;

  explicit Minimiser(const Grid& grid)
      : grid_(grid),
        frontier_(grid),
        topology_(grid.size, edge_list(grid)),
        cut_(topology_),
        local_(grid.size),
        trial_(grid.size),
        edges_(static_cast<int>(grid.edges.size())) {}

  // ---- The problem of one step: candidate labels, their costs, and the charges between them.

  void reset() { num_labels_ = 0; }

  /// Adds a label; its costs at all locations are to be written to the row returned.
  float* add_label() {
    const auto size = static_cast<std::size_t>(num_labels_ + 1) * grid_.size;
    if (unary_.size() < size) unary_.resize(2 * size);
    return unary_.data() + static_cast<std::size_t>(num_labels_++) * grid_.size;
  }
  int num_labels() const { return num_labels_; }
  const float* unary(int label) const {
    return unary_.data() + static_cast<std::size_t>(label) * grid_.size;
  }
  Charges& charges() { return charges_; }

  /// Improves `labels`, the labelling to start from (-1: any), and returns whether the result is
  /// known to be optimal.
  bool minimise(int* labels) {
    eliminate();
    for (int t = 0; t < grid_.size; ++t)
      if (!allowed(t, labels[t])) labels[t] = cheapest(t);
    if (frontier_.work(choices_) <= kExactWork) {
      frontier_.minimise(choices_, charges_, labels);
      return true;
    }
    improve_by_moves(labels);
    return false;
  }

 private:
  static std::vector<std::pair<int, int>> edge_list(const Grid& grid) {
    std::vector<std::pair<int, int>> list;
    for (const auto& edge : grid.edges) list.emplace_back(edge.earlier, edge.later);
    return list;
  }

  // ---- Elimination: labels that some other label beats whatever the neighbours hold.

  /// Leaves in `choices_` the labels that may still be optimal.
  void eliminate() {
    const int n = grid_.size;
    find_bounds();
    choices_.reset(n, num_labels_ + 1);
    for (int a = 0; a < num_labels_; ++a) {
      const float* cost = unary(a);
      for (int t = 0; t < n; ++t) choices_.add_if(t, a, cost[t], cost[t] <= bound_[t]);
    }
    const auto size = static_cast<std::size_t>(n) * charges_.stride();
    if (lowest_.size() < size) lowest_.resize(size), highest_.resize(size);
    for (int t = 0; t < n; ++t) find_reach(t);
    // Each label gone weakens what its neighbours can claim; a few rounds find nearly all.
    stale_.assign(n, 1);
    for (int round = 0; round < kRounds; ++round) {
      bool changed = false;
      for (int t = 0; t < n; ++t) {
        if (!stale_[t] || choices_.count(t) == 1) continue;
        stale_[t] = 0;
        if (!drop_dominated(t)) continue;
        changed = true;
        find_reach(t);
        for (const int other : grid_.neighbours[t]) stale_[other] = 1;
      }
      if (!changed) break;
    }
  }

  /// bound_[t]: a label that costs more than this at t is beaten by the cheapest one there, even
  /// if every neighbour favours it as much as any charge can.
  void find_bounds() {
    const int n = grid_.size;
    float dearest = 0;
    for (int a = 0; a < num_labels_; ++a)
      for (int b = 0; b <= a; ++b) dearest = std::max(dearest, charges_.row(a)[b]);
    bound_.assign(unary(0), unary(0) + n);
    for (int a = 1; a < num_labels_; ++a) {
      const float* cost = unary(a);
      for (int t = 0; t < n; ++t) bound_[t] = std::min(bound_[t], cost[t]);
    }
    scale_ = dearest;
    for (int t = 0; t < n; ++t) scale_ = std::max(scale_, std::fabs(bound_[t]));
    tie_ = kTie * scale_;
    for (int t = 0; t < n; ++t)
      bound_[t] += dearest * static_cast<float>(grid_.neighbours[t].size()) + tie_;
  }

  /// The least and the most that location t, with the labels left to it, can charge a neighbour
  /// for holding each label.
  void find_reach(int t) {
    const int stride = charges_.stride();
    float* low = lowest_.data() + static_cast<std::size_t>(t) * stride;
    float* high = highest_.data() + static_cast<std::size_t>(t) * stride;
    const int* labels = choices_.labels(t);
    for (int c = 0; c < stride; c += kLanes) {
      Lanes lowest = load(charges_.row(labels[0]) + c), highest = lowest;
      for (int a = 1; a < choices_.count(t); ++a) {
        const Lanes charge = load(charges_.row(labels[a]) + c);
        lowest = least(lowest, charge);
        highest = most(highest, charge);
      }
      lowest.store(low + c);
      highest.store(high + c);
    }
  }

  /// Drops each label at t whose cost and charges, at their least, exceed those of some other label
  /// at their most.
  bool drop_dominated(int t) {
    int* labels = choices_.labels(t);
    float* costs = choices_.costs(t);
    const int count = choices_.count(t);
    const int stride = charges_.stride();
    float ceiling = std::numeric_limits<float>::infinity();
    for (int a = 0; a < count; ++a) {
      float most = costs[a];
      for (const int other : grid_.neighbours[t])
        most += highest_[static_cast<std::size_t>(other) * stride + labels[a]];
      ceiling = std::min(ceiling, most);
    }
    ceiling += tie_;
    int kept = 0;
    for (int a = 0; a < count; ++a) {
      float least = costs[a];
      for (const int other : grid_.neighbours[t])
        least += lowest_[static_cast<std::size_t>(other) * stride + labels[a]];
      labels[kept] = labels[a];
      costs[kept] = costs[a];
      kept += least <= ceiling;
    }
    choices_.truncate(t, kept);
    return kept < count;
  }

  int cheapest(int t) const {
    const float* costs = choices_.costs(t);
    return choices_.labels(t)[std::min_element(costs, costs + choices_.count(t)) - costs];
  }

  bool allowed(int t, int label) const {
    const int* labels = choices_.labels(t);
    return std::find(labels, labels + choices_.count(t), label) != labels + choices_.count(t);
  }

  // ---- Moves, where too many labels survive for an exact solution.

  void improve_by_moves(int* labels) {
    collect_survivors();
    bool improved = true;
    while (improved) {
      improved = false;
      for (const int label : survivors_) improved |= fuse(labels, label);
      if (wide_) improved |= swap_pairs(labels);
    }
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
    cut_.clear();
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
      cut_.add_unary(t, cost0, cost1);
    }
    if (!any) return false;
    const float* from0 = charges_.row(zero);
    const float* from1 = charges_.row(one);
    for (int e = 0; e < edges_; ++e)
      if (local_[grid_.edges[e].earlier] && local_[grid_.edges[e].later])
        cut_.add_pair(e, from0[zero], from0[one], from1[zero], from1[one]);
    cut_.solve();
    for (int t = 0; t < grid_.size; ++t)
      if (local_[t]) trial_[t] = cut_.label(t) ? one : zero;
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

  static constexpr int kRounds = 3;

  const Grid& grid_;
  Frontier frontier_;
  Topology topology_;
  MinCut cut_;
  int num_labels_ = 0;
  std::vector<float> unary_;  // (labels, n)
  Charges charges_;
  Choices choices_, pair_;
  std::vector<float> bound_, lowest_, highest_;
  std::vector<char> local_, stale_;
  std::vector<int> trial_, survivors_;
  std::vector<char> alive_;
  int edges_;
  float scale_ = 0;
  float tie_ = 0;
  bool wide_ = false;
};

}  // namespace comixup
