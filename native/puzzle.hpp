// Puzzle Mix's mask: exact minimisation of a labelling energy with convex pairs on a grid.
//
// Location k takes a label x[k] in 0..L, which stands for z[k] = x[k] / L. Minimised is
//   E(x) = sum_k unary[x[k]][k] + sum_{edges (a, b)} v (x[a] - x[b])^2,   v = weight / L^2 >= 0.
//
// Where the unaries are convex in the label, E is L-natural-convex (Murota, "Discrete Convex
// Analysis", 2003): x is a minimum if and only if no set of locations gains by going one label up
// together, and none by going one down. Either question is a binary problem in y[k] = "k moves",
//   E(x +- y) - E(x) = sum_k step[k] y[k] + sum_edges v [y[a] != y[b]],
//   step[k] = unary[x[k] +- 1][k] - unary[x[k]][k] +- sum_neighbours 2 v (x[k] - x[neighbour]),
// which is submodular: a minimum cut answers it. From a good guess nearly all locations are seen to
// stay without a cut, so that most cuts have a few nodes and many are not made at all.
//
// Unaries that are not convex make one cut with L nodes per location (Ishikawa, "Exact Optimization
// for Markov Random Fields with Convex Priors", PAMI 2003). Both ways are exact.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "maxflow.hpp"

namespace comixup {

using EdgeList = std::vector<std::pair<int, int>>;

/// Neighbouring locations of a grid in row-major order, axis by axis, as `comixup._grid.edges`.
inline EdgeList grid_edges(const std::vector<int>& sides) {
  int size = 1;
  for (const int side : sides) size *= side;
  EdgeList edges;
  int inner = size;  // locations that share all coordinates up to this axis
  for (const int side : sides) {
    const int stride = inner / side;
    for (int k = 0; k < size; ++k)
      if (k % inner + stride < inner) edges.emplace_back(k, k + stride);
    inner = stride;
  }
  return edges;
}

/// Solves one energy after another on one grid; all memory is allocated once.
class PuzzleSolver {
 public:
  PuzzleSolver(const std::vector<int>& sides, int levels)
      : levels_(levels), edges_(grid_edges(sides)), graph_(count(sides), edges_), cut_(graph_) {
    const auto n = static_cast<std::size_t>(graph_.num_nodes);
    pair_.resize(edges_.size());
    pairs_at_.resize(n);
    step_.resize(n);
    pull_.resize(n);
    free_.resize(n);
  }

  int num_locations() const { return graph_.num_nodes; }
  std::size_t num_edges() const { return edges_.size(); }

  /// Writes the labels of least energy.
  ///
  /// `unary` is (L + 1, n), finite; `weight` has one number per edge, finite and not negative.
  void solve(const double* unary, const double* weight, std::int32_t* labels) {
    unary_ = unary;
    x_ = labels;
    std::fill(pairs_at_.begin(), pairs_at_.end(), 0.0);
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      pair_[e] = weight[e] / (static_cast<double>(levels_) * levels_);
      pairs_at_[index(edges_[e].first)] += pair_[e];
      pairs_at_[index(edges_[e].second)] += pair_[e];
    }
    if (!convex()) return solve_at_once();
    guess();
    while (move(+1)) continue;
    while (move(-1)) {
      while (move(-1)) continue;
      while (move(+1)) continue;
    }
  }

 private:
  /// Second differences above this share of the unaries' size, below zero, are rounding errors.
  static constexpr double kRounding = 1e-13;
  static constexpr int kGuessSweeps = 6;

  static int count(const std::vector<int>& sides) {
    int size = 1;
    for (const int side : sides) size *= side;
    return size;
  }
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  double unary(int label, int k) const { return unary_[index(label * graph_.num_nodes + k)]; }
  double pair_of(int arc) const { return pair_[index(arc / 2)]; }

  bool convex() const {
    for (int k = 0; k < graph_.num_nodes; ++k)
      for (int l = 1; l < levels_; ++l) {
        const double before = unary(l - 1, k), here = unary(l, k), after = unary(l + 1, k);
        const double size = std::fabs(before) + std::fabs(here) + std::fabs(after);
        if (before + after - 2 * here < -kRounding * size) return false;
      }
    return true;
  }

  /// The best label of each location on its own, then given its neighbours', again and again.
  void guess() {
    const int n = graph_.num_nodes;
    for (int k = 0; k < n; ++k) x_[k] = static_cast<std::int32_t>(best_label(k, 0.0, 0.0));
    bool changed = true;
    for (int sweep = 0; sweep < kGuessSweeps && changed; ++sweep) {
      changed = false;
      for (int i = 0; i < n; ++i) {
        const int k = sweep % 2 ? n - 1 - i : i;
        double toward = 0;
        for (int a = graph_.first[k]; a < graph_.first[k + 1]; ++a) {
          const int arc = graph_.out_arcs[a];
          toward += pair_of(arc) * x_[graph_.head[arc]];
        }
        const int label = best_label(k, pairs_at_[index(k)], toward);
        changed = changed || label != x_[k];
        x_[k] = static_cast<std::int32_t>(label);
      }
    }
  }

  /// The label l that minimises unary[l] + pairs l^2 - 2 toward l: what depends on x[k] alone.
  int best_label(int k, double pairs, double toward) const {
    int best = 0;
    double least = unary(0, k);
    for (int l = 1; l <= levels_; ++l) {
      const double value = unary(l, k) + (pairs * l - 2 * toward) * l;
      if (value < least) least = value, best = l;
    }
    return best;
  }

  /// Moves the smallest best set of locations one label up or down; returns whether any moved.
  bool move(int direction) {
    const int n = graph_.num_nodes;
    for (int k = 0; k < n; ++k) {
      const int to = x_[k] + direction;
      free_[index(k)] = to >= 0 && to <= levels_;
      step_[index(k)] = free_[index(k)] ? unary(to, k) - unary(x_[k], k) : 0.0;
      pull_[index(k)] = pairs_at_[index(k)];
    }
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      const auto [a, b] = edges_[e];
      const double slope = 2 * pair_[e] * ((x_[a] - x_[b]) * direction);
      step_[index(a)] += slope;
      step_[index(b)] -= slope;
    }
    if (!find_movable()) return false;
    return cut_movable(direction);
  }

  /// Narrows `free_` to the locations that might move; returns false if none can gain.
  ///
  /// pull[k] is what k saves at most if it moves: its pairs with neighbours that might move too,
  /// less its pairs with those that stay. A step that costs no less is never worth while.
  bool find_movable() {
    const int n = graph_.num_nodes;
    staying_.clear();
    for (int k = 0; k < n; ++k)
      if (!free_[index(k)]) staying_.push_back(k);
    for (int k = 0; k < n; ++k) settle(k);
    while (!staying_.empty()) {
      const int k = staying_.back();
      staying_.pop_back();
      for (int a = graph_.first[k]; a < graph_.first[k + 1]; ++a) {
        const int arc = graph_.out_arcs[a], other = graph_.head[arc];
        pull_[index(other)] -= 2 * pair_of(arc);
        settle(other);
      }
    }
    // Moving has to begin to pay somewhere: at a step below nothing, pairs with stayers included.
    for (int k = 0; k < n; ++k)
      if (free_[index(k)] && step_[index(k)] + 0.5 * (pairs_at_[index(k)] - pull_[index(k)]) < 0)
        return true;
    return false;
  }

  void settle(int k) {
    if (!free_[index(k)] || step_[index(k)] < pull_[index(k)]) return;
    free_[index(k)] = false;
    staying_.push_back(k);
  }

  bool cut_movable(int direction) {
    const int n = graph_.num_nodes;
    cut_.clear();
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      const auto [a, b] = edges_[e];
      if (free_[index(a)] && free_[index(b)])
        cut_.add_pair(static_cast<int>(e), 0, pair_[e], pair_[e], 0);
    }
    for (int k = 0; k < n; ++k)
      if (free_[index(k)])
        cut_.add_unary(k, 0, step_[index(k)] + 0.5 * (pairs_at_[index(k)] - pull_[index(k)]));
    cut_.solve();
    double change = 0;  // in the energy as given: the cut rounds, if ever so little
    for (int k = 0; k < n; ++k)
      if (cut_.label(k)) change += step_[index(k)];
    for (std::size_t e = 0; e < edges_.size(); ++e)
      if (cut_.label(edges_[e].first) != cut_.label(edges_[e].second)) change += pair_[e];
    if (!(change < 0)) return false;
    for (int k = 0; k < n; ++k)
      if (cut_.label(k)) x_[k] += direction;
    return true;
  }

  /// One cut for any unaries: node (k, l) has label 1 if and only if x[k] > l.
  ///
  /// For edge (a, b), v (x[a] - x[b])^2 = sum over l, l' of v c(l - l') [x[a] > l][x[b] <= l'] and
  /// the same with a and b exchanged, with c(0) = 1, c(d) = 2 for d > 0, and 0 for d < 0.
  void solve_at_once() {
    const int n = graph_.num_nodes, L = levels_;
    if (!whole_) whole_ = std::make_unique<Whole>(*this);
    MinCut& cut = whole_->cut;
    cut.clear();
    double forbidden = 1;  // more than all other terms together
    for (int k = 0; k < n; ++k)
      for (int l = 0; l < L; ++l) {
        const double rise = unary(l + 1, k) - unary(l, k);
        cut.add_unary(k * L + l, 0, rise);
        forbidden += std::fabs(rise);
      }
    for (const double v : pair_) forbidden += v * L * L;
    int edge = 0;
    for (int k = 0; k < n; ++k)
      for (int l = 1; l < L; ++l)
        cut.add_pair(edge++, 0, forbidden, 0, 0);  // x > l needs x > l - 1
    for (const double v : pair_)
      for (int l = 0; l < L; ++l)
        for (int below = 0; below < L; ++below) {
          const double ab = v * (l == below ? 1 : l > below ? 2 : 0);
          const double ba = v * (l == below ? 1 : l < below ? 2 : 0);
          cut.add_pair(edge++, 0, ba, ab, 0);
        }
    cut.solve();
    for (int k = 0; k < n; ++k) {
      x_[k] = 0;
      for (int l = 0; l < L; ++l) x_[k] += cut.label(k * L + l);
    }
  }

  /// The graph of `solve_at_once`, made when it is first needed.
  struct Whole {
    explicit Whole(const PuzzleSolver& solver)
        : graph(solver.graph_.num_nodes * solver.levels_, edges(solver)), cut(graph) {}
    static EdgeList edges(const PuzzleSolver& solver) {
      const int L = solver.levels_;
      EdgeList list;
      for (int k = 0; k < solver.graph_.num_nodes; ++k)
        for (int l = 1; l < L; ++l) list.emplace_back(k * L + l - 1, k * L + l);
      for (const auto& [a, b] : solver.edges_)
        for (int l = 0; l < L; ++l)
          for (int below = 0; below < L; ++below) list.emplace_back(a * L + l, b * L + below);
      return list;
    }
    Topology graph;
    MinCut cut;
  };

  int levels_;
  EdgeList edges_;
  Topology graph_;
  MinCut cut_;
  const double* unary_ = nullptr;
  std::int32_t* x_ = nullptr;
  std::vector<double> pair_;      // v of each edge
  std::vector<double> pairs_at_;  // sum of v over a location's edges
  std::vector<double> step_, pull_;
  std::vector<char> free_;
  std::vector<int> staying_;  // locations whose neighbours are yet to hear that they stay
  std::unique_ptr<Whole> whole_;
};

}  // namespace comixup
