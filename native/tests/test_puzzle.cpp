// Checks LayerCut against MinCut, cut after cut, and the bounds of masks against their definition.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <vector>

#include "puzzle/masks.hpp"

namespace {

using namespace comixup;

long checks = 0;
long failures = 0;

void check(bool ok, const char* what) {
  ++checks;
  if (ok) return;
  if (++failures <= 20) std::printf("FAILED: %s\n", what);
}

int product(const std::vector<int>& sides) {
  int size = 1;
  for (const int side : sides) size *= side;
  return size;
}

// ---- Sets ---------------------------------------------------------------------------------------

template <int W>
void test_sets() {
  constexpr int kSize = BitSet<W>::kSize;
  std::mt19937 random(W);
  for (int by = 1; by < kSize; ++by) {
    BitSet<W> set;
    std::vector<bool> has(kSize);
    for (int i = 0; i < kSize / 2; ++i) {
      const int k = static_cast<int>(random() % kSize);
      has[k] = i % 3 != 0;
      has[k] ? set.insert(k) : set.remove(k);
    }
    const BitSet<W> shifted_up = set.shifted_up(by), shifted_down = set.shifted_down(by);
    bool right = true;
    std::vector<int> up, down, expected;
    for (int k = 0; k < kSize; ++k) {
      right = right && set.has(k) == has[k];
      right = right && shifted_up.has(k) == (k >= by && has[k - by]);
      right = right && shifted_down.has(k) == (k + by < kSize && has[k + by]);
      if (has[k]) expected.push_back(k);
    }
    check(right, "sets hold what they were given, and shift");
    set.for_each([&](int k) { up.push_back(k); });
    set.for_each_down([&](int k) { down.insert(down.begin(), k); });
    check(up == expected && down == expected, "all numbers are visited, in order");
    check(set.empty() == expected.empty() && BitSet<W>().empty(), "empty or not");
  }
}

// ---- Cuts ---------------------------------------------------------------------------------------

/// One cut after another, with other excesses each time and ever fewer nodes: as if from scratch.
template <int W>
void test_cuts(const std::vector<int>& sides, int largest, std::mt19937& random) {
  const int n = product(sides);
  const std::vector<Axis> axes = neighbour_axes(sides);
  std::vector<int> strides, axis_of;
  for (const Axis& axis : axes) strides.push_back(axis.stride);
  const EdgeList edges = grid_edges(sides);
  for (const auto& [a, b] : edges)
    axis_of.push_back(
        static_cast<int>(std::find(strides.begin(), strides.end(), b - a) - strides.begin()));
  const Topology graph(n, edges);
  MinCut expected(graph);
  LayerCut<W> cut(strides);
  const auto number = [&](int most) {
    return static_cast<int>(random() % static_cast<unsigned>(most + 1));
  };
  int ones = 0, zeros = 0;
  for (int round = 0; round < 30; ++round) {
    BitSet<W> nodes;
    for (int k = 0; k < n; ++k) nodes.insert(k, number(9) > 0);
    std::vector<int> excess(n), weight(edges.size());
    for (int& w : weight) w = number(largest);
    for (int& w : excess) w = number(4 * largest) - 2 * largest;
    cut.clear(nodes);
    for (int k = 0; k < n; ++k) cut.set_excess(k, excess[k]);
    for (std::size_t e = 0; e < edges.size(); ++e)
      if (nodes.has(edges[e].first) && nodes.has(edges[e].second))
        cut.add_edge(axis_of[e], edges[e].first, weight[e]);
      else
        weight[e] = 0;

    for (int again = 0; again < 4; ++again) {
      const BitSet<W> found = cut.solve();
      expected.clear();
      // A node that has left keeps its pairs, and its label is 0 whatever it costs.
      for (int k = 0; k < n; ++k) expected.add_unary(k, 0, nodes.has(k) ? -excess[k] : 1e6);
      for (std::size_t e = 0; e < edges.size(); ++e)
        expected.add_potts(static_cast<int>(e), weight[e]);
      expected.solve();
      bool same = true;
      for (int k = 0; k < n; ++k) {
        same = same && found.has(k) == (expected.label(k) > 0);
        (found.has(k) ? ones : zeros) += nodes.has(k);
      }
      check(same, "the smallest best set");

      for (int k = 0; k < n; ++k) {
        if (!nodes.has(k)) continue;
        if (number(5) == 0) {
          nodes.remove(k);
          cut.remove_node(k);
        } else {
          const int change = number(2 * largest) - largest;
          excess[k] += change;
          cut.add_excess(k, change);
        }
      }
      bool left = true;
      for (int k = 0; k < n; ++k) left = left && cut.nodes().has(k) == nodes.has(k);
      check(left, "who has left is gone");
    }
  }
  check(n < 4 || (ones > 0 && zeros > 0), "both labels occur");
}

// ---- Bounds -------------------------------------------------------------------------------------

void test_bounds(const std::vector<int>& sides, int levels, std::mt19937& random) {
  const int n = product(sides);
  const EdgeList edges = grid_edges(sides);
  PuzzleBounds bounds(n, neighbour_axes(sides), levels);
  Checkpoint checkpoint;
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int round = 0; round < 10; ++round) {
    std::vector<double> unary(n * (levels + 1)), weight(edges.size());
    for (double& w : weight) w = uniform(random) * (round + 1) * 0.4 * levels;
    for (int k = 0; k < n; ++k) {
      std::vector<double> slope(levels);
      for (double& s : slope) s = normal(random);
      std::sort(slope.begin(), slope.end());
      for (int l = 0; l < levels; ++l) unary[(l + 1) * n + k] = unary[l * n + k] + slope[l];
    }
    if (round % 2 > 0) {  // integers, so that some steps cost nothing
      for (double& w : weight) w = std::rint(w) * levels * levels;
      for (int k = 0; k < n; ++k)
        for (int l = 0; l <= levels; ++l) unary[l * n + k] = l * (l + k % 7 - 4);
    }
    bounds.read(unary.data(), weight.data());
    bounds.find(checkpoint);
    const std::vector<double> low(bounds.low(), bounds.low() + n);
    const std::vector<double> high(bounds.high(), bounds.high() + n);

    // Location by location, one label at a time, until nothing changes.
    const auto cost = [&](const std::vector<double>& x, int k, int label) {
      double sum = unary[label * n + k];
      for (std::size_t e = 0; e < edges.size(); ++e) {
        const auto [a, b] = edges[e];
        if (a != k && b != k) continue;
        const double apart = (label - x[a == k ? b : a]) / levels;
        sum += weight[e] * apart * apart;
      }
      return sum;
    };
    std::vector<double> up(n, 0.0), down(n, levels);
    for (bool changed = true; changed;) {
      changed = false;
      for (int k = 0; k < n; ++k) {
        const int a = static_cast<int>(up[k]), b = static_cast<int>(down[k]);
        if (a < levels && cost(up, k, a + 1) < cost(up, k, a)) ++up[k], changed = true;
        if (b > 0 && cost(down, k, b - 1) < cost(down, k, b)) --down[k], changed = true;
      }
    }
    check(low == up && high == down, "bounds are as told");
  }
  std::vector<double> concave(n * (levels + 1));
  std::fill_n(concave.begin() + n, n, 1.0);  // label 1 costs more than both its neighbours
  const std::vector<double> weight(edges.size());
  bool rejected = false;
  try {
    bounds.read(concave.data(), weight.data());
  } catch (const std::invalid_argument&) {
    rejected = true;
  }
  check(rejected == (levels > 1), "unaries that are not convex are rejected");
}

}  // namespace

int main() {
  test_sets<1>();
  test_sets<4>();
  std::mt19937 random(1);
  for (const int largest : {1, 3, 1000}) {
    for (const auto& sides : std::vector<std::vector<int>>{
             {1}, {1, 1}, {5}, {64}, {8, 8}, {2, 32}, {32, 2}, {7, 9}, {4, 4, 4}, {2, 1, 3}})
      test_cuts<1>(sides, largest, random);
    for (const auto& sides : std::vector<std::vector<int>>{
             {65}, {256}, {16, 16}, {2, 128}, {3, 80}, {64, 4}, {6, 6, 7}, {2, 64, 2}, {3, 3}})
      test_cuts<4>(sides, largest, random);
  }
  for (const int levels : {1, 2, 3})
    for (const auto& sides : std::vector<std::vector<int>>{
             {1}, {6}, {2, 2}, {3, 5}, {8, 8}, {1, 7}, {9, 4}, {3, 2, 5}, {16, 16}})
      test_bounds(sides, levels, random);
  std::printf("%ld checks, %ld failures\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
