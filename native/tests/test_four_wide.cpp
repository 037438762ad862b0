// Checks FourWide against the general dynamic program, and one Vec8f against the other.
#include <algorithm>
#include <random>
#include <vector>

#include "solver/four_wide.hpp"
#include "tests/checks.hpp"

namespace {

using namespace comixup;

/// Random unary and pairwise costs; those among the first `alike` labels are equal.
void fill(InnerProblem& problem, int n, int labels, int alike, float beta, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(0, 1);
  problem.clear();
  for (int a = 0; a < labels; ++a) {
    float* row = problem.add_label();
    std::generate_n(row, n, [&] { return uniform(random); });
  }
  problem.pairwise.reset(labels, beta);
  for (int a = alike; a < labels; ++a)
    for (int b = 0; b <= a; ++b) problem.pairwise.set(a, b, a == b ? 0 : beta * uniform(random));
}

double least_energy(const Grid& grid, const InnerProblem& problem) {
  Choices choices;
  choices.reset(grid.size, problem.num_labels() + 1);
  for (int t = 0; t < grid.size; ++t) {
    for (int a = 0; a < problem.num_labels(); ++a) choices.add(t, a, problem.unary(a)[t]);
    choices.pad(t);
  }
  std::vector<int> labels(grid.size);
  Frontier(grid).minimize(choices, problem.pairwise, labels.data());
  return problem.energy(labels.data());
}

/// The largest gain of changing one location.
double best_single_change(const Grid& grid, const InnerProblem& problem, std::vector<int> labels) {
  const double present = problem.energy(labels.data());
  double best = 0;
  for (int t = 0; t < grid.size; ++t) {
    const int before = labels[t];
    for (labels[t] = 0; labels[t] < problem.num_labels(); ++labels[t])
      best = std::max(best, present - problem.energy(labels.data()));
    labels[t] = before;
  }
  return best;
}

void test_which_grids_suit() {
  for (const auto& sides : std::vector<std::vector<int>>{{4, 4}, {4, 7}, {9, 4}, {1, 4, 4}})
    check(FourWide::suits(Grid(sides)), "rows of four suit");
  for (const auto& sides : std::vector<std::vector<int>>{{16}, {3, 4}, {5, 5}, {2, 2, 6}, {4, 500}})
    check(!FourWide::suits(Grid(sides)), "other grids, and huge ones, do not");
}

void test_answers() {
  constexpr float kTie = 1e-5f;
  std::mt19937 random(1);
  int optimal = 0, steps = 0;
  for (const auto& sides : std::vector<std::vector<int>>{{4, 4}, {4, 5}, {7, 4}}) {
    const Grid grid(sides);
    FourWide four_wide(grid);
    InnerProblem problem(grid);
    for (int round = 0; round < 60; ++round) {
      const int labels = 1 + round % 8, alike = round % 3 == 0 ? labels : round % (labels + 1);
      fill(problem, grid.size, labels, alike, round % 2 == 0 ? 0.1f : 0.3f, random);
      std::vector<int> plain(grid.size), best(grid.size);
      const bool stable = four_wide.minimize<PortableVec8f>(problem, kTie, plain.data());
      const bool stable_again = four_wide.minimize(problem, kTie, best.data());
      check(plain == best && stable == stable_again, "the width of the registers changes nothing");

      const double energy = problem.energy(plain.data());
      const double least = least_energy(grid, problem);
      check(energy >= least - kTie, "not below the minimum");
      if (labels <= Shortlist::kSize)
        check(energy <= least + kTie, "exact if no label is left out");
      optimal += energy <= least + kTie;
      ++steps;

      const double gain = best_single_change(grid, problem, plain);
      check(stable ? gain <= 2 * kTie : gain > 0, "stable if no single change helps");
    }
  }
  check(optimal >= 0.9 * steps, "mostly optimal");
}

}  // namespace

int main() {
  test_which_grids_suit();
  test_answers();
  return comixup::report();
}
