// Moves: exact choices between two labels at every location, until none improves.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/checkpoint.hpp"
#include "common/maxflow.hpp"
#include "solver/eliminate.hpp"
#include "solver/frontier.hpp"
#include "solver/grid.hpp"
#include "solver/inner_problem.hpp"

namespace comixup {

class Moves {
 public:
  /// Most sums that one fusion may compare; minimum cuts are used above.
  static constexpr double kFusionWork = 1 << 15;

  Moves(const Grid& grid, const InnerProblem& problem, const Elimination& elimination,
        Frontier& frontier, Checkpoint& checkpoint)
      : grid_(grid),
        problem_(problem),
        elimination_(elimination),
        frontier_(frontier),
        checkpoint_(checkpoint),
        takes_part_(grid.size),
        trial_(grid.size) {}

  /// Returns whether any move helped.
  bool improve(int* labels) {
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

  void collect_survivors() {
    alive_.assign(problem_.num_labels(), 0);
    for (int t = 0; t < grid_.size; ++t)
      for (int a = 0; a < elimination_.choices().count(t); ++a)
        alive_[elimination_.choices().labels(t)[a]] = 1;
    survivors_.clear();
    for (int a = 0; a < problem_.num_labels(); ++a)
      if (alive_[a]) survivors_.push_back(a);
    wide_ = false;
  }

  /// Chooses exactly, at every location, between the current label and `label` (an expansion move
  /// that needs no submodularity). On too wide grids, only swap moves are made.
  bool fuse(int* labels, int label) {
    checkpoint_.after(16 * grid_.size);
    if (best_case(labels, label) <= elimination_.tie()) return false;
    pair_.reset(grid_.size, 2);
    for (int t = 0; t < grid_.size; ++t) {
      pair_.add(t, labels[t], problem_.unary(labels[t])[t]);
      if (labels[t] != label && elimination_.allowed(t, label))
        pair_.add(t, label, problem_.unary(label)[t]);
      pair_.pad(t);
    }
    if (!frontier_.fits(pair_, kFusionWork)) {
      wide_ = true;
      return false;
    }
    frontier_.minimize(pair_, problem_.pairwise, trial_.data());
    return accept(labels);
  }

  /// Returns an upper bound of the gain of changing locations to `label`: pairwise costs are not
  /// negative, so a location gains at most its present unary and pairwise cost less the label's.
  double best_case(const int* labels, int label) const {
    double gain = 0;
    const float* cost = problem_.unary(label);
    for (int t = 0; t < grid_.size; ++t) {
      if (labels[t] == label) continue;
      const float* pairwise = problem_.pairwise.row(labels[t]);
      float present = problem_.unary(labels[t])[t] - cost[t];
      for (const int other : grid_.neighbours[t]) present += pairwise[labels[other]];
      gain += std::max(0.0f, present);
    }
    return gain;
  }

  /// Makes swap moves for all pairs of labels, each by an exact minimum cut, as for every form of
  /// smoothness V(a, a) + V(b, b) <= 2 V(a, b).
  bool swap_pairs(int* labels) {
    bool improved = false;
    for (std::size_t a = 0; a < survivors_.size(); ++a)
      for (std::size_t b = a + 1; b < survivors_.size(); ++b)
        improved |= swap(labels, survivors_[a], survivors_[b]);
    return improved;
  }

  bool swap(int* labels, int zero, int one) {
    checkpoint_.after(16 * grid_.size);
    bool any = false;
    if (!cut_) cut_ = std::make_unique<Cut>(grid_);
    MinCut& cut = cut_->minimum;
    cut.clear();
    for (int t = 0; t < grid_.size; ++t) {
      trial_[t] = labels[t];
      takes_part_[t] = (labels[t] == zero && elimination_.allowed(t, one)) ||
                       (labels[t] == one && elimination_.allowed(t, zero));
      if (!takes_part_[t]) continue;
      any = true;
      float cost0 = problem_.unary(zero)[t], cost1 = problem_.unary(one)[t];
      for (const int other : grid_.neighbours[t]) {
        const bool fixed = !((labels[other] == zero && elimination_.allowed(other, one)) ||
                             (labels[other] == one && elimination_.allowed(other, zero)));
        if (fixed) {
          cost0 += problem_.pairwise.row(zero)[labels[other]];
          cost1 += problem_.pairwise.row(one)[labels[other]];
        }
      }
      cut.add_unary(t, cost0, cost1);
    }
    if (!any) return false;
    const float* from0 = problem_.pairwise.row(zero);
    const float* from1 = problem_.pairwise.row(one);
    for (int e = 0; e < static_cast<int>(grid_.edges.size()); ++e)
      if (takes_part_[grid_.edges[e].earlier] && takes_part_[grid_.edges[e].later])
        cut.add_pair(e, from0[zero], from0[one], from1[zero], from1[one]);
    cut.solve(checkpoint_);
    for (int t = 0; t < grid_.size; ++t)
      if (takes_part_[t]) trial_[t] = cut.label(t) ? one : zero;
    return accept(labels);
  }

  /// Copies `trial_` to `labels` if it is better by more than rounding.
  bool accept(int* labels) {
    if (problem_.energy(labels) - problem_.energy(trial_.data()) <= elimination_.tie())
      return false;
    std::copy(trial_.begin(), trial_.end(), labels);
    return true;
  }

  const Grid& grid_;
  const InnerProblem& problem_;
  const Elimination& elimination_;
  Frontier& frontier_;
  Checkpoint& checkpoint_;
  std::unique_ptr<Cut> cut_;  // created on first use: most grids never need it
  Choices pair_;
  std::vector<char> takes_part_, alive_;
  std::vector<int> trial_, survivors_;
  bool wide_ = false;  // whether some fusion was too large
};

}  // namespace comixup
