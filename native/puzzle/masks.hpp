// Puzzle Mix's mask: exact minimisation of a labelling energy with convex pairs on a grid.
//
// Location k takes a label x[k] in 0..L, which stands for z[k] = x[k] / L. Minimised is
//   E(x) = sum_k unary[x[k]][k] + sum_{edges (a, b)} v (x[a] - x[b])^2,   v = weight / L^2 >= 0.
//
// The unaries have to be convex in the label, as those of Puzzle Mix are (linear terms and the log
// of a binomial distribution). Then E is L-natural-convex (Murota, "Discrete Convex Analysis",
// 2003), and two facts make it easy:
//  * What locations gain one by one bounds all minima from below and from above; where both bounds
//    agree, the label is known: bounds.hpp.
//  * Labels x that no minimum lies below are a minimum if and only if no set of locations gains by
//    going one label up together. That is a binary problem in y[k] = "k goes up",
//      E(x + y) - E(x) = sum_k step[k] y[k] + sum_edges v [y[a] != y[b]],
//      step[k] = unary[x[k] + 1][k] - unary[x[k]][k] + sum_neighbours 2 v (x[k] - x[neighbour]),
//    which is submodular: a minimum cut answers it, and its smallest set leads to no label above a
//    minimum. So at most L cuts go up, and one more tells that nothing is left to gain. From one
//    to the next only the steps change, and only where locations or their neighbours went up, so
//    the flow of one cut serves the next (layer_cut.hpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/checkpoint.hpp"
#include "common/maxflow.hpp"
#include "puzzle/bounds.hpp"
#include "puzzle/layer_cut.hpp"

namespace comixup {

using EdgeList = std::vector<std::pair<int, int>>;

/// Neighbouring locations of a grid in row-major order, axis by axis, as `comixup.core.grid.edges`.
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
      : sides_(sides),
        axes_(neighbour_axes(sides)),
        n_(count(sides)),
        levels_(levels),
        bounds_(n_, axes_, levels) {
    std::vector<int> strides;
    for (const Axis& axis : axes_) strides.push_back(axis.stride);
    if (n_ <= BitSet<kSmall>::kSize)
      small_.emplace(strides);
    else if (n_ <= BitSet<kMedium>::kSize)
      medium_.emplace(strides);
  }

  /// Writes the labels of least energy.
  ///
  /// `unary` is (L + 1, n), convex in the label (else throws std::invalid_argument); `weight` has
  /// one number per edge, not negative. Sums of all of them are finite.
  void solve(const double* unary, const double* weight, std::int32_t* labels,
             Checkpoint& checkpoint) {
    x_ = labels;
    checkpoint.after(16 * index(n_) * index(levels_));
    bounds_.read(unary, weight);
    bounds_.find(checkpoint);
    for (int k = 0; k < n_; ++k) x_[k] = static_cast<std::int32_t>(bounds_.low()[k]);
    if (small_)
      ascend(*small_);
    else if (medium_)
      ascend(*medium_);
    else
      while (raise_labels(checkpoint)) continue;
  }

 private:
  /// Words for the locations of an 8 x 8 and of a 16 x 16 grid.
  static constexpr int kSmall = 1, kMedium = 4;

  /// The numbers of a cut, all together, stay below two to this power.
  static constexpr int kBits = 60;

  static int count(const std::vector<int>& sides) {
    int size = 1;
    for (const int side : sides) size *= side;
    return size;
  }
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int num_axes() const { return static_cast<int>(axes_.size()); }

  // ---- Grids whose locations fit into a few words.

  /// Moves the smallest best set of locations one label up, until there is none.
  template <int W>
  void ascend(LayerCut<W>& cut) {
    BitSet<W> free;
    for (int k = 0; k < n_; ++k) free.insert(k, bounds_.low()[k] < bounds_.high()[k]);
    if (free.empty()) return;
    find_scale(free);
    begin(cut, free);
    for (;;) {
      const BitSet<W> up = cut.solve();
      if (up.empty()) return;
      raise_labels(cut, up);
    }
  }

  /// Finds the power of two that makes integers of costs, as in maxflow.hpp: integers and ordinary
  /// floats lose nothing.
  template <int W>
  void find_scale(const BitSet<W>& free) {
    double bound = 0;  // of all steps that free locations may ever meet, and of their pairs
    const double *first = bounds_.step_cost(0), *last = bounds_.step_cost(levels_ - 1);
    free.for_each([&](int k) {
      bound +=
          std::fabs(first[k]) + std::fabs(last[k]) + (2 * levels_ + 2) * bounds_.weights_at()[k];
    });
    int exponent = 0;
    std::frexp(bound, &exponent);
    scale_ = PowerOfTwo(kBits - exponent);
  }
  std::int64_t quantise(double cost) const { return static_cast<std::int64_t>(scale_.times(cost)); }

  /// Sets up the first cut. A step includes pairs with locations that stay, and not those of two
  /// free ones, which are arcs.
  template <int W>
  void begin(LayerCut<W>& cut, const BitSet<W>& free) {
    cut.clear(free);
    free.for_each([&](int k) { cut.set_excess(k, -quantise(bounds_.step_cost(x_[k])[k])); });
    for (int a = 0; a < num_axes(); ++a) {
      const int stride = axes_[index(a)].stride;
      const double *v = bounds_.weight(a), *low = bounds_.low();
      const BitSet<W> next_free = free.shifted_down(stride), last_free = free.shifted_up(stride);
      free.for_each([&](int k) {
        const std::int64_t next = quantise(v[k]), last = quantise(v[k - stride]);
        const int next_label = static_cast<int>(low[k + stride]);
        const int last_label = static_cast<int>(low[k - stride]);
        cut.add_excess(k, next * (2 * next_label + next_free.has(k)) +
                              last * (2 * last_label + last_free.has(k)));
        if (next_free.has(k)) cut.add_edge(a, k, next);
      });
    }
  }

  /// Moves locations up, and turns the cut into the question that is asked from there.
  template <int W>
  void raise_labels(LayerCut<W>& cut, const BitSet<W>& up) {
    up.for_each([&](int k) {
      const int label = ++x_[k];
      if (label < levels_)
        cut.add_excess(
            k, quantise(bounds_.step_cost(label - 1)[k]) - quantise(bounds_.step_cost(label)[k]));
    });
    for (int a = 0; a < num_axes(); ++a) {
      const int stride = axes_[index(a)].stride;
      const double* v = bounds_.weight(a);
      const BitSet<W> before_free = up & cut.nodes().shifted_down(stride);
      const BitSet<W> behind_free = up & cut.nodes().shifted_up(stride);
      before_free.for_each([&](int k) { cut.add_excess(k + stride, 2 * quantise(v[k])); });
      behind_free.for_each([&](int k) { cut.add_excess(k - stride, 2 * quantise(v[k - stride])); });
    }
    up.for_each([&](int k) {
      if (x_[k] == static_cast<int>(bounds_.high()[k])) cut.remove_node(k);
    });
  }

  // ---- Larger grids.

  /// Moves the smallest best set of locations one label up; returns whether any moved.
  bool raise_labels(Checkpoint& checkpoint) {
    if (!large_) large_ = std::make_unique<Graph>(n_, grid_edges(sides_));
    MinCut& cut = large_->cut;
    cut.clear();
    const auto is_free = [&](int k) { return x_[k] < bounds_.high()[k]; };
    for (int k = 0; k < n_; ++k)
      if (is_free(k)) cut.add_unary(k, 0, bounds_.step_cost(x_[k])[k]);
    int edge = 0;
    for (int a = 0; a < num_axes(); ++a) {
      const Axis axis = axes_[index(a)];
      for (int k = 0; k < n_; ++k) {
        if (k % axis.block + axis.stride >= axis.block) continue;
        const int next = k + axis.stride;
        const double v = bounds_.weight(a)[k];
        const bool inside = is_free(k) && is_free(next);
        if (is_free(k)) cut.add_unary(k, 0, -v * (2 * x_[next] + inside));
        if (is_free(next)) cut.add_unary(next, 0, -v * (2 * x_[k] + inside));
        if (inside) cut.add_potts(edge, v);
        ++edge;
      }
    }
    cut.solve(checkpoint);
    bool moved = false;
    for (int k = 0; k < n_; ++k) {
      x_[k] += cut.label(k);
      moved |= cut.label(k) > 0;
    }
    return moved;
  }

  /// A graph for cuts by trees, made when it is first needed.
  struct Graph {
    Graph(int nodes, const EdgeList& edges) : graph(nodes, edges), cut(graph) {}
    Topology graph;
    MinCut cut;
  };

  std::vector<int> sides_;
  std::vector<Axis> axes_;
  int n_, levels_;
  PuzzleBounds bounds_;
  std::int32_t* x_ = nullptr;
  PowerOfTwo scale_{0};
  std::optional<LayerCut<kSmall>> small_;  // one of these two, or none
  std::optional<LayerCut<kMedium>> medium_;
  std::unique_ptr<Graph> large_;
};

}  // namespace comixup
