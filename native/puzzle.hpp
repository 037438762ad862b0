// Puzzle Mix's mask: exact minimisation of a labelling energy with convex pairs on a grid.
//
// Location k takes a label x[k] in 0..L, which stands for z[k] = x[k] / L. Minimised is
//   E(x) = sum_k unary[x[k]][k] + sum_{edges (a, b)} v (x[a] - x[b])^2,   v = weight / L^2 >= 0.
//
// Where the unaries are convex in the label, E is L-natural-convex (Murota, "Discrete Convex
// Analysis", 2003), and two facts make it easy:
//  * Going up from label 0, location by location and one label at a time for as long as that pays
//    by itself, leads to labels that no minimum lies below; going down from label L, to labels that
//    no minimum lies above. Where both agree, which is mostly so, the label is known.
//  * Labels x that no minimum lies below are a minimum if and only if no set of locations gains by
//    going one label up together. That is a binary problem in y[k] = "k goes up",
//      E(x + y) - E(x) = sum_k step[k] y[k] + sum_edges v [y[a] != y[b]],
//      step[k] = unary[x[k] + 1][k] - unary[x[k]][k] + sum_neighbours 2 v (x[k] - x[neighbour]),
//    which is submodular: a minimum cut answers it, and its smallest set leads to no label above a
//    minimum. So at most L cuts go up, and one more tells that nothing is left to gain.
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
    for (auto* array : {&pairs_at_, &toward_, &step_}) array->resize(n);
    climb_.resize(n * index(levels));
    high_.resize(n);
    free_.resize(n);
    nodes_.resize(n + 1);
    inside_.resize(edges_.size() + 1);
    degree_ = 2 * static_cast<int>(sides.size());
    std::vector<int> next(n);
    for (int k = 0; k < graph_.num_nodes; ++k) {
      next[index(k)] = k * degree_;
      slots_.insert(slots_.end(), index(degree_), Slot{k, 0.0});
    }
    for (const auto& [a, b] : edges_) {
      slots_[index(next[index(a)])].neighbour = b;
      slots_[index(next[index(b)])].neighbour = a;
      slot_of_.push_back(next[index(a)]++);
      slot_of_.push_back(next[index(b)]++);
    }
  }

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
      for (const std::size_t end : {2 * e, 2 * e + 1}) slots_[index(slot_of_[end])].pair = pair_[e];
    }
    if (!convex()) return solve_at_once();
    find_climbs();
    sink(high_.data());
    rise(x_);  // last: it leaves `toward_` as the moves need it
    while (move_up()) continue;
  }

 private:
  /// Second differences above this share of the unaries' size, below zero, are rounding errors.
  static constexpr double kRounding = 1e-13;

  static int count(const std::vector<int>& sides) {
    int size = 1;
    for (const int side : sides) size *= side;
    return size;
  }
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  double unary(int label, int k) const { return unary_[index(label * graph_.num_nodes + k)]; }

  bool convex() const {
    for (int k = 0; k < graph_.num_nodes; ++k)
      for (int l = 1; l < levels_; ++l) {
        const double before = unary(l - 1, k), here = unary(l, k), after = unary(l + 1, k);
        const double size = std::fabs(before) + std::fabs(here) + std::fabs(after);
        if (before + after - 2 * here < -kRounding * size) return false;
      }
    return true;
  }

  /// climb[k][l]: what going from label l to l + 1 costs location k alone, but for what its
  /// neighbours' labels save it, 2 toward[k]. It rises with l.
  void find_climbs() {
    const int n = graph_.num_nodes;
    for (int k = 0; k < n; ++k)
      for (int l = 0; l < levels_; ++l)
        climb_[index(k * levels_ + l)] =
            unary(l + 1, k) - unary(l, k) + pairs_at_[index(k)] * (2 * l + 1);
  }

  /// The least labels that no location gains by leaving upwards.
  void rise(std::int32_t* x) {
    std::fill_n(x, graph_.num_nodes, 0);
    std::fill(toward_.begin(), toward_.end(), 0.0);
    sweep(x, [](double climb, double saved) { return climb < saved; });
  }

  /// The greatest labels that no location gains by leaving downwards.
  void sink(std::int32_t* x) {
    std::fill_n(x, graph_.num_nodes, levels_);
    for (std::size_t k = 0; k < toward_.size(); ++k) toward_[k] = pairs_at_[k] * levels_;
    sweep(x, [](double climb, double saved) { return climb <= saved; });
  }

  /// Visits locations to and fro until none changes its label: the number of climbs that pay.
  template <typename Pays>
  void sweep(std::int32_t* x, Pays&& pays) {
    const int n = graph_.num_nodes;
    bool changed = true;
    for (bool forward = true; changed; forward = !forward) {
      changed = false;
      for (int i = 0; i < n; ++i) {
        const int k = forward ? i : n - 1 - i;
        const double* climb = &climb_[index(k * levels_)];
        const double saved = 2 * toward_[index(k)];
        int label = pays(climb[0], saved);
        if (levels_ == 2)  // the usual case, without a loop
          label += pays(climb[1], saved);
        else
          for (int l = 1; l < levels_; ++l) label += pays(climb[l], saved);
        if (label == x[k]) continue;
        tell_neighbours(k, label - x[k]);
        x[k] = label;
        changed = true;
      }
    }
  }

  /// Keeps toward[k], the sum of k's pairs times its neighbours' labels, up to date.
  void tell_neighbours(int k, int change) {
    const Slot* slot = &slots_[index(k * degree_)];
    for (int i = 0; i < degree_; ++i) toward_[index(slot[i].neighbour)] += slot[i].pair * change;
  }

  /// Moves the smallest best set of locations one label up; returns whether any moved.
  bool move_up() {
    // Lists without branches: which locations and edges are free cannot be foretold.
    const int n = graph_.num_nodes;
    int count = 0;
    for (int k = 0; k < n; ++k) {
      free_[index(k)] = x_[k] < high_[index(k)];
      nodes_[index(count)] = k;
      count += free_[index(k)];
    }
    int count_inside = 0;  // edges between two free locations
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      inside_[index(count_inside)] = static_cast<int>(e);
      count_inside += free_[index(edges_[e].first)] & free_[index(edges_[e].second)];
    }
    // Pairs with locations that stay are part of the step, those inside are not.
    for (int i = 0; i < count; ++i) {
      const int k = nodes_[index(i)];
      step_[index(k)] = climb_[index(k * levels_ + x_[k])] - 2 * toward_[index(k)];
    }
    for (int i = 0; i < count_inside; ++i) {
      const auto e = index(inside_[index(i)]);
      step_[index(edges_[e].first)] -= pair_[e];
      step_[index(edges_[e].second)] -= pair_[e];
    }
    bool hope = false;  // somewhere it has to begin to pay
    for (int i = 0; i < count; ++i) hope |= step_[index(nodes_[index(i)])] < 0;
    if (!hope) return false;

    cut_.clear();
    for (int i = 0; i < count; ++i)
      cut_.add_unary(nodes_[index(i)], 0, step_[index(nodes_[index(i)])]);
    for (int i = 0; i < count_inside; ++i)
      cut_.add_potts(inside_[index(i)], pair_[index(inside_[index(i)])]);
    cut_.solve();
    bool moved = false;
    for (int k = 0; k < n; ++k)
      if (cut_.label(k)) {
        ++x_[k];
        tell_neighbours(k, 1);
        moved = true;
      }
    return moved;
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
  /// A neighbour of a location; in spare slots itself, at no cost, so that all have as many.
  struct Slot {
    int neighbour;
    double pair;
  };
  int degree_ = 0;
  std::vector<Slot> slots_;   // `degree_` of them for each location
  std::vector<int> slot_of_;  // each edge, seen from its first and from its second end
  std::vector<double> climb_;
  std::vector<double> toward_;  // sum of v times the neighbour's label
  std::vector<double> step_;
  std::vector<std::int32_t> high_;  // labels that no minimum lies above
  std::vector<char> free_;
  std::vector<int> nodes_, inside_;  // free locations, and edges between them
  std::unique_ptr<Whole> whole_;
};

}  // namespace comixup
