// Checks the bounds of masks against their definition.
#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

#include "puzzle/masks.hpp"
#include "tests/checks.hpp"

namespace {

using namespace comixup;

int product(const std::vector<int>& sides) {
  int size = 1;
  for (const int side : sides) size *= side;
  return size;
}

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
  std::fill_n(concave.begin() + n, n, 1.0);  // label 1 costs more than both its neighbors
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
  std::mt19937 random(1);
  for (const int levels : {1, 2, 3})
    for (const auto& sides : std::vector<std::vector<int>>{
             {1}, {6}, {2, 2}, {3, 5}, {8, 8}, {1, 7}, {9, 4}, {3, 2, 5}, {16, 16}})
      test_bounds(sides, levels, random);
  return comixup::report();
}
