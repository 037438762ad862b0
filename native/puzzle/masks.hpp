// Puzzle Mix's mask: exact minimization of a labelling energy with convex pairs on a grid.
//
// Location k takes a label x[k] in 0..L, which stands for z[k] = x[k] / L. Minimized is
//   E(x) = sum_k unary[x[k]][k] + sum_{edges (a, b)} v (x[a] - x[b])^2,   v = weight / L^2 >= 0.
//
// The unaries have to be convex in the label, as those of Puzzle Mix are (linear terms and the log
// of a binomial distribution). Then E is L-natural-convex (Murota, "Discrete Convex Analysis",
// 2003), and two facts make it easy:
//  * Steps of single locations bound all minima from below and from above; where the bounds agree,
//    the label is known: bounds.hpp.
//  * Labels x that no minimum lies below are a minimum if and only if no set of locations gains by
//    going one label up together. That is a binary problem in y[k] = "k goes up",
//      E(x + y) - E(x) = sum_k step[k] y[k] + sum_edges v [y[a] != y[b]],
//      step[k] = unary[x[k] + 1][k] - unary[x[k]][k] + sum_neighbors 2 v (x[k] - x[neighbor]),
//    which is submodular: a minimum cut answers it, and its smallest set leads to no label above a
//    minimum. So at most L cuts go up, and one more tells that nothing is left to gain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/checkpoint.hpp"
#include "common/maxflow.hpp"
#include "puzzle/bounds.hpp"

namespace comixup {

using EdgeList = std::vector<std::pair<int, int>>;

/// Neighboring locations of a grid in row-major order, axis by axis, as `comixup.core.grid.edges`.
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

/// Minimizes a sequence of energies on one grid; all memory is allocated once.
class PuzzleSolver {
 public:
  PuzzleSolver(const std::vector<int>& sides, int levels)
      : axes_(neighbour_axes(sides)),
        n_(count(sides)),
        levels_(levels),
        bounds_(n_, axes_, levels),
        graph_(n_, grid_edges(sides)),
        cut_(graph_) {}
  PuzzleSolver(const PuzzleSolver&) = delete;  // the cut has a pointer to the graph

  /// Writes the labels of least energy.
  ///
  /// `unary` is (L + 1, n), convex in the label (else throws std::invalid_argument); `weight` has
  /// one number per edge, not negative. Sums of all of them are finite.
  void solve(const double* unary, const double* weight, std::int32_t* labels,
             Checkpoint& checkpoint) {
    checkpoint.after(16 * static_cast<std::size_t>(n_) * static_cast<std::size_t>(levels_));
    bounds_.read(unary, weight);
    bounds_.find(checkpoint);
    for (int k = 0; k < n_; ++k) labels[k] = static_cast<std::int32_t>(bounds_.low()[k]);
    while (raise_labels(labels, checkpoint)) continue;
  }

 private:
  static int count(const std::vector<int>& sides) {
    int size = 1;
    for (const int side : sides) size *= side;
    return size;
  }

  /// Moves the smallest best set of locations one label up; returns whether any moved. A step
  /// includes pairs with locations that stay, and not those of two free ones, which are arcs.
  bool raise_labels(std::int32_t* x, Checkpoint& checkpoint) {
    const auto is_free = [&](int k) { return x[k] < bounds_.high()[k]; };
    cut_.clear();
    bool any_free = false;
    for (int k = 0; k < n_; ++k) {
      if (!is_free(k)) continue;
      any_free = true;
      cut_.add_unary(k, 0, bounds_.step_cost(x[k])[k]);
    }
    if (!any_free) return false;
    int edge = 0;
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      const double* v = bounds_.weight(a);
      for (int begin = 0; begin < n_; begin += axes_[a].block)
        for (int k = begin; k < begin + axes_[a].block - axes_[a].stride; ++k, ++edge) {
          const int next = k + axes_[a].stride;
          const bool inside = is_free(k) && is_free(next);
          if (is_free(k)) cut_.add_unary(k, 0, -v[k] * (2 * x[next] + inside));
          if (is_free(next)) cut_.add_unary(next, 0, -v[k] * (2 * x[k] + inside));
          if (inside) cut_.add_potts(edge, v[k]);
        }
    }
    cut_.solve(checkpoint);
    bool moved = false;
    for (int k = 0; k < n_; ++k) {
      x[k] += cut_.label(k);
      moved |= cut_.label(k) > 0;
    }
    return moved;
  }

  const std::vector<Axis> axes_;
  const int n_, levels_;
  PuzzleBounds bounds_;
  const Topology graph_;
  MinCut cut_;
};

}  // namespace comixup
