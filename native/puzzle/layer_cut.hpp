// Minimum cuts on grids of up to 64 W locations, searched a whole layer at a time.
//
// The graph, its flow and its integers are those of maxflow.hpp: nodes of positive excess want
// label 1, nodes of negative excess label 0, and sending flow along an arc changes no energy. What
// differs is the search for a path from positive to negative excess. A set of nodes is a few
// machine words, so all nodes one step further are found by a shift and a mask for each direction
// of the grid, and a breadth first search takes no more than some hundred instructions: the trees
// of Boykov and Kolmogorov, and their repair, have nothing left to save. Paths are shortest ones,
// so the graph bounds their number whatever the capacities (Edmonds & Karp, J. ACM 1972).
//
// What it buys: with MinCut in its stead masks take 1.3 times as long on 4 x 4 cells, 2.1 times on
// 8 x 8 and 1.85 times on 16 x 16 ("Builds of the kernel" in benchmarks/RECORDS.md).
//
// The flow stays after a cut: excesses may change, nodes may leave, and the next cut goes on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "puzzle/bit_set.hpp"

namespace comixup {

/// Finds one cut after another; all memory is allocated by the constructor. The sum of all sizes of
/// excesses and capacities must stay below 2^61.
template <int W>
class LayerCut {
 public:
  using Set = BitSet<W>;

  /// `strides`: how far apart neighbours are in row-major order, for each axis that has any.
  explicit LayerCut(const std::vector<int>& strides)
      : arcs_(2 * strides.size()), excess_(Set::kSize), layers_(Set::kSize + 1) {
    for (std::size_t axis = 0; axis < strides.size(); ++axis) {
      arcs_[2 * axis].step = strides[axis];
      arcs_[2 * axis + 1].step = -strides[axis];
    }
  }

  /// Forgets the graph and begins another one on these nodes, without arcs.
  void clear(const Set& nodes) {
    nodes_ = nodes;
    for (Arcs& arcs : arcs_) std::fill_n(arcs.residual, Set::kSize, 0);
  }

  /// Joins node k to the next one along an axis, both ways.
  void add_edge(int axis, int k, std::int64_t capacity) {
    Arcs &up = arcs_[2 * index(axis)], &down = arcs_[2 * index(axis) + 1];
    up.residual[k + up.step] = down.residual[k] = capacity;
  }

  /// A node's excess: what label 0 costs it more than label 1, and what has flowed to it.
  void set_excess(int k, std::int64_t excess) { excess_[index(k)] = excess; }
  void add_excess(int k, std::int64_t change) { excess_[index(k)] += change; }

  /// Gives node k label 0 for good: what can still flow to it is gone.
  void remove_node(int k) {
    nodes_.remove(k);
    for (std::size_t d = 0; d < arcs_.size(); ++d) {
      const int neighbour = k - arcs_[d].step;
      if (neighbour < 0 || neighbour >= Set::kSize) continue;
      excess_[index(neighbour)] -= arcs_[d].residual[k];
      arcs_[d].residual[k] = arcs_[d ^ 1].residual[neighbour] = 0;
    }
  }

  /// The nodes that have not left.
  const Set& nodes() const { return nodes_; }

  /// Returns the smallest set of nodes that take label 1 in a minimum.
  Set solve() {
    bool any = false;  // somewhere it has to begin
    nodes_.for_each([&](int k) { any |= excess_[index(k)] > 0; });
    if (!any) return Set();
    push_excess();
    find_sets();
    for (;;) {
      Set front = source_, seen = source_;
      layers_[0] = front;
      for (int depth = 1;; ++depth) {
        Set next;
        for (const Arcs& arcs : arcs_) next = next | (moved(front, arcs.step) & arcs.open);
        front = without(next, seen);
        if (front.empty()) return seen;
        layers_[index(depth)] = front;
        seen = seen | front;
        const Set hits = front & sink_;
        if (hits.empty()) continue;
        hits.for_each([&](int k) {
          while (sink_.has(k) && augment(k, depth)) continue;
        });
        break;
      }
    }
  }

 private:
  /// The arcs of one direction, each known by the node that it leads to.
  struct Arcs {
    int step;
    Set open;  // where residual > 0
    std::int64_t residual[Set::kSize];
  };
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static Set moved(const Set& set, int step) {
    return step > 0 ? set.shifted_up(step) : set.shifted_down(-step);
  }

  /// Cancels most excess against opposite excess without a search, as MinCut::sweep does: once to
  /// neighbours of higher numbers, once to those of lower ones.
  void push_excess() {
    nodes_.for_each([&](int k) { push_excess<0>(k); });
    nodes_.for_each_down([&](int k) { push_excess<1>(k); });
  }
  /// Hands half of what is left to each neighbour, all of it to the last.
  template <int kBack>
  void push_excess(int k) {
    if (excess_[index(k)] == 0) return;
    for (std::size_t d = kBack; d < arcs_.size(); d += 2) {
      const std::int64_t left = excess_[index(k)];
      push(k, d, d + 2 < arcs_.size() ? left / 2 : left);
    }
  }
  /// Moves as much as possible of a (signed) share of the excess of k in a direction.
  void push(int k, std::size_t direction, std::int64_t share) {
    Arcs &there = arcs_[direction], &back = arcs_[direction ^ 1];
    const int head = k + there.step;
    if (head < 0 || head >= Set::kSize) return;
    const std::int64_t amount = std::max(-back.residual[k], std::min(share, there.residual[head]));
    there.residual[head] -= amount;
    back.residual[k] += amount;
    excess_[index(k)] -= amount;
    excess_[index(head)] += amount;
  }

  /// Finds the sets that the search goes by.
  void find_sets() {
    source_ = sink_ = Set();
    for (Arcs& arcs : arcs_) arcs.open = Set();
    nodes_.for_each([&](int k) {
      source_.insert(k, excess_[index(k)] > 0);
      sink_.insert(k, excess_[index(k)] < 0);
      for (Arcs& arcs : arcs_) arcs.open.insert(k, arcs.residual[k] > 0);
    });
  }

  /// Sends what it can along one path through the layers to node k; returns whether there is one.
  bool augment(int k, int depth) {
    std::int64_t amount = -excess_[index(k)];
    int node = k;
    for (int layer = depth - 1; layer >= 0; --layer) {
      std::size_t d = 0;
      while (!(arcs_[d].open.has(node) && layers_[index(layer)].has(node - arcs_[d].step)))
        if (++d == arcs_.size()) return false;
      path_[layer] = static_cast<unsigned char>(d);
      amount = std::min(amount, arcs_[d].residual[node]);
      node -= arcs_[d].step;
    }
    amount = std::min(amount, excess_[index(node)]);
    if ((excess_[index(node)] -= amount) == 0) {
      source_.remove(node);
      layers_[0].remove(node);
    }
    for (int layer = 0; layer < depth; ++layer) {
      Arcs &there = arcs_[path_[layer]], &back = arcs_[path_[layer] ^ 1];
      back.residual[node] += amount;
      back.open.insert(node);
      node += there.step;
      there.residual[node] -= amount;
      if (there.residual[node] == 0) there.open.remove(node);
    }
    if ((excess_[index(k)] += amount) == 0) sink_.remove(k);
    return true;
  }

  std::vector<Arcs> arcs_;
  std::vector<std::int64_t> excess_;
  Set nodes_, source_, sink_;  // all nodes, those of positive and those of negative excess
  std::vector<Set> layers_;
  unsigned char path_[Set::kSize];  // the direction of each step
};

}  // namespace comixup
