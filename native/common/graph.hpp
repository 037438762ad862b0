// Graphs for minimum cuts: arrays and queues of numbered nodes, and the topology of a graph.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

namespace comixup {

/// Fixed-size array indexed by int, the type of node, edge and arc numbers.
template <typename T>
class IntArray {
 public:
  explicit IntArray(int size, T value = T()) : data_(static_cast<std::size_t>(size), value) {}
  T& operator[](int i) { return data_[static_cast<std::size_t>(i)]; }
  const T& operator[](int i) const { return data_[static_cast<std::size_t>(i)]; }
  void fill(T value) { std::fill(data_.begin(), data_.end(), value); }
  std::size_t size() const { return data_.size(); }

 private:
  std::vector<T> data_;
};

/// FIFO queue of nodes without duplicates.
class NodeQueue {
 public:
  explicit NodeQueue(int nodes) : next_(nodes, kAbsent) {}
  bool empty() const { return front_ == kEnd; }

  void push(int v) {
    if (next_[v] != kAbsent) return;
    next_[v] = kEnd;
    (empty() ? front_ : next_[back_]) = v;
    back_ = v;
  }

  int pop() {
    const int v = front_;
    front_ = next_[v];
    next_[v] = kAbsent;
    return v;
  }

 private:
  enum : int { kEnd = -1, kAbsent = -2 };
  IntArray<int> next_;
  int front_ = kEnd;
  int back_ = kEnd;
};

/// Static topology of an undirected graph, built once per grid and reused by every cut.
///
/// Edge e = (a, b) gives arc 2e from a to b and arc 2e+1 from b to a, so the sister (reverse) of an
/// arc is arc ^ 1. The arcs leaving v are out_arcs[first[v]] .. out_arcs[first[v + 1] - 1]: those
/// to lower numbered nodes, then, from first_forward[v] on, those to higher numbered nodes.
struct Topology {
  int num_nodes;
  int num_edges;
  IntArray<int> head;
  IntArray<int> first;
  IntArray<int> first_forward;
  IntArray<int> out_arcs;

  /// Edges join two different nodes; parallel edges are allowed.
  Topology(int nodes, const std::vector<std::pair<int, int>>& edges)
      : num_nodes(nodes),
        num_edges(static_cast<int>(edges.size())),
        head(2 * num_edges),
        first(nodes + 1),
        first_forward(nodes),
        out_arcs(2 * num_edges) {
    int arc = 0;
    for (const auto& edge : edges) {
      assert(edge.first != edge.second);
      head[arc++] = edge.second;
      head[arc++] = edge.first;
    }
    for (arc = 0; arc < 2 * num_edges; ++arc) ++first[tail(arc) + 1];
    for (int v = 0; v < nodes; ++v) first[v + 1] += first[v];
    IntArray<int> end(nodes);  // one past the arcs of v placed so far
    for (int v = 0; v < nodes; ++v) end[v] = first[v];
    for (arc = 0; arc < 2 * num_edges; ++arc) {
      if (head[arc] < tail(arc)) out_arcs[end[tail(arc)]++] = arc;
    }
    for (int v = 0; v < nodes; ++v) first_forward[v] = end[v];
    for (arc = 0; arc < 2 * num_edges; ++arc) {
      if (head[arc] > tail(arc)) out_arcs[end[tail(arc)]++] = arc;
    }
  }

  int tail(int arc) const { return head[arc ^ 1]; }
};

}  // namespace comixup
