// The inner step of Algorithm 1: a labelling of one output of least, or nearly least, energy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <vector>

#include "common/checkpoint.hpp"
#include "common/vec4f.hpp"
#include "solver/eliminate.hpp"
#include "solver/four_wide.hpp"
#include "solver/frontier.hpp"
#include "solver/grid.hpp"
#include "solver/inner_problem.hpp"
#include "solver/moves.hpp"
#include "solver/shortlist.hpp"

namespace comixup {

class Minimizer {
 public:
  /// Most sums that an exact solution may compare. Measured, like the constants below: see "The
  /// inner step" in docs/solver.md.
  static constexpr double kExactWork = 6000;
  /// Largest grid without moves after a restricted solution: see `minimize`.
  static constexpr int kSmallGrid = 25;
  static constexpr double kMovesFrom = 0.7;

  Minimizer(const Grid& grid, Checkpoint& checkpoint)
      : grid_(grid),
        checkpoint_(checkpoint),
        problem_(grid),
        elimination_(grid, problem_, checkpoint),
        frontier_(grid),
        moves_(grid, problem_, elimination_, frontier_, checkpoint),
        trial_(grid.size) {
    if (FourWide::suits(grid)) four_wide_.emplace(grid);
  }

  /// The problem to minimize; fill it before every step.
  InnerProblem& problem() { return problem_; }

  /// Improves `labels`, the labelling to start from (-1: any), and returns whether the result is
  /// known to be optimal.
  bool minimize(int* labels) {
    checkpoint_.after(static_cast<std::size_t>(grid_.size) * problem_.num_labels());
    // Where pairwise costs dominate, ranks do not show which labels are promising.
    if (four_wide_ && problem_.num_labels() <= kMostTags && !pairwise_costs_dominate())
      return minimize_four_wide(labels);
    return minimize_anywhere(labels);
  }

 private:
  // ---- Grids four locations wide.

  bool minimize_four_wide(int* labels) {
    const float tie = Elimination::kTie * problem_.pairwise.largest();
    const bool stable = four_wide_->minimize(problem_, tie, trial_.data());
    take_if_better(labels, tie);
    if (!stable) {
      elimination_.run();
      improve_by_moves(labels);
    }
    return problem_.num_labels() <= Shortlist::kSize;
  }

  // ---- Any grid.

  bool minimize_anywhere(int* labels) {
    elimination_.run();
    if (frontier_.fits(elimination_.choices(), kExactWork)) {
      frontier_.minimize(elimination_.choices(), problem_.pairwise, labels);
      return true;
    }
    for (int t = 0; t < grid_.size; ++t)
      if (!elimination_.allowed(t, labels[t]))
        labels[t] = elimination_.cheapest(t);  // a dominated label is never needed
    start_.assign(labels, labels + grid_.size);
    solve_restricted(labels);
    // Promising labels were judged by the present ones; repeat if most of these changed.
    int same = 0;
    for (int t = 0; t < grid_.size; ++t) same += labels[t] == start_[t];
    if (2 * same < grid_.size) solve_restricted(labels);
    // On a small grid the result is nearly always optimal, and moves gain hardly anything, unless
    // most labels were dropped, or pairwise costs dominate.
    if (grid_.size > kSmallGrid || left_out() > kMovesFrom || pairwise_costs_dominate())
      improve_by_moves(labels);
    return false;
  }

  void improve_by_moves(int* labels) {
    while (moves_.improve(labels) && solve_restricted(labels)) {
    }
  }

  // ---- Restriction, if slightly too many labels survive for an exact solution.

  /// Drops the least promising labels, those with the largest gap to the best one at their
  /// location, until an exact solution over the rest is cheap, and computes it. The present labels
  /// are kept, so it is at least as good. Returns whether it is better.
  bool solve_restricted(int* labels) {
    if (!restrict_to_budget(labels)) return false;
    frontier_.minimize(restricted_, problem_.pairwise, trial_.data());
    return take_if_better(labels, elimination_.tie());
  }

  /// Computes `restricted_`; returns false if even the present and the best labels are too many.
  bool restrict_to_budget(const int* labels) {
    const Choices& choices = elimination_.choices();
    const int n = grid_.size;
    if (n > kExactWork) return false;
    const auto size = static_cast<std::size_t>(n) * problem_.pairwise.stride();
    if (gaps_.size() < size) gaps_.resize(size);
    restricted_.reset(n, problem_.num_labels() + 1);
    float largest_gap = 0;
    for (int t = 0; t < n; ++t) largest_gap = std::max(largest_gap, find_gaps(t, labels));
    // within_[s][t]: how many labels at t have a gap in the first s bins (bin 0: no gap).
    const float scale = largest_gap > kNoGap ? static_cast<float>(kGapBins) / largest_gap : 0.0f;
    const auto bin = [scale](float gap) { return static_cast<int>(gap * scale + 0.999f); };
    within_.assign(static_cast<std::size_t>(kGapBins + 2) * n, 0);
    for (int t = 0; t < n; ++t)
      for (int a = 0; a < choices.count(t); ++a)
        ++within_[bin(gaps(t)[choices.labels(t)[a]]) * n + t];
    for (int s = n; s < kGapBins * n; ++s) within_[s] += within_[s - n];
    const auto fits = [&](int s) { return frontier_.fits(&within_[s * n], kExactWork); };
    if (!fits(0)) return false;
    int limit = 0;  // the most bins that fit
    for (int more = kGapBins / 2; more > 0; more /= 2)
      if (fits(limit + more)) limit += more;
    for (int t = 0; t < n; ++t) {
      for (int a = 0; a < choices.count(t); ++a) {
        const int label = choices.labels(t)[a];
        restricted_.add_if(t, label, choices.costs(t)[a], bin(gaps(t)[label]) <= limit);
      }
      restricted_.pad(t);
    }
    return true;
  }

  /// Computes the gap of each remaining label at t to the best one, 0 for the present label;
  /// returns the largest. A label's pairwise cost is the mean of its lower bound and its value for
  /// the present neighbors.
  float find_gaps(int t, const int* present) {
    const int stride = problem_.pairwise.stride();
    checkpoint_.after(8 * stride);
    const float* rows[2 * Neighbours::kMost];
    int num_rows = 0;
    for (const int other : grid_.neighbours[t]) {
      rows[num_rows++] = elimination_.lowest(other);
      rows[num_rows++] = problem_.pairwise.row(present[other]);
    }
    float* gap = gaps(t);
    Vec4f best = broadcast(Elimination::kInfinity);
    for (int c = 0; c < stride; c += kLanes) {
      Vec4f pairwise = Vec4f{};
      for (int r = 0; r < num_rows; ++r) pairwise = pairwise + load(rows[r] + c);
      const Vec4f total = load(elimination_.costs(t) + c) + pairwise * 0.5f;
      best = min(best, total);
      store(total, gap + c);
    }
    const float least_total = min_lane(best);
    float most = 0;
    const Choices& choices = elimination_.choices();
    for (int a = 0; a < choices.count(t); ++a) {
      float& entry = gap[choices.labels(t)[a]];
      entry = choices.labels(t)[a] == present[t] ? 0 : entry - least_total;
      most = std::max(most, entry);
    }
    return most;
  }

  /// The fraction of labels dropped by the restriction.
  double left_out() const {
    const Choices& choices = elimination_.choices();
    const int n = grid_.size;
    const double all = std::accumulate(choices.counts(), choices.counts() + n, 0.0);
    return 1 - std::accumulate(restricted_.counts(), restricted_.counts() + n, 0.0) / all;
  }

  /// Whether at every location unary costs differ by less than the largest pairwise cost.
  bool pairwise_costs_dominate() const {
    for (int t = 0; t < grid_.size; t += kLanes) {
      Vec4f low = load(problem_.unary(0) + t), high = low;
      for (int a = 1; a < problem_.num_labels(); ++a) {
        const Vec4f cost = load(problem_.unary(a) + t);
        low = min(low, cost);
        high = max(high, cost);
      }
      const Vec4f range = high + negative(low);
      for (int y = 0; y < kLanes && t + y < grid_.size; ++y)
        if (range.lane[y] >= problem_.pairwise.largest()) return false;
    }
    return true;
  }

  /// Copies `trial_` to `labels` if it is better by more than rounding, or those are no labelling;
  /// returns whether it did.
  bool take_if_better(int* labels, float tie) const {
    if (*std::min_element(labels, labels + grid_.size) >= 0 &&
        problem_.energy(labels) - problem_.energy(trial_.data()) <= tie)
      return false;
    std::copy(trial_.begin(), trial_.end(), labels);
    return true;
  }

  float* gaps(int t) {
    return gaps_.data() + static_cast<std::size_t>(t) * problem_.pairwise.stride();
  }

  static constexpr int kGapBins = 16;
  static constexpr float kNoGap = 1e-30f;

  const Grid& grid_;
  Checkpoint& checkpoint_;
  InnerProblem problem_;
  Elimination elimination_;
  Frontier frontier_;
  Moves moves_;
  Choices restricted_;
  std::vector<float> gaps_;  // (n, labels)
  std::vector<int> within_, start_, trial_;
  std::optional<FourWide> four_wide_;
};

}  // namespace comixup
