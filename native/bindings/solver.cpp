// Bindings of solver/: checks arguments, releases the interpreter, shares jobs among threads.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/arrays.hpp"
#include "solver/algorithm.hpp"
#include "solver/grid.hpp"
#include "solver/minimize.hpp"
#include "solver/narasimhan_bilmes.hpp"

using namespace nanobind::literals;

namespace comixup {
namespace {

using WeightTuple = std::tuple<double, double, double, std::string, double, std::string>;

Grid make_grid(const std::vector<int>& sides) {
  require_sides(sides);
  return Grid(sides);
}

Weights make_weights(const WeightTuple& values) {
  const auto& [beta, gamma, eta, clip, level, smoothness] = values;
  for (const double weight : {beta, gamma, eta})
    require(is_between(weight, 0, kMostWeight), "weights must be numbers from 0 to 1e30");
  require(is_between(level, 0, kMostEnergy), "the clip level must be a number from 0 to 1e100");
  require(clip == "soft" || clip == "hard" || clip == "none", "clip must be soft, hard or none");
  require(smoothness == "squared" || smoothness == "inner" || smoothness == "official",
          "smoothness must be squared, inner or official");
  Weights w;
  w.beta = beta, w.gamma = gamma, w.eta = eta, w.clip_level = level;
  w.clip = clip == "soft" ? Clip::kSoft : clip == "hard" ? Clip::kHard : Clip::kNone;
  w.smoothness = smoothness == "inner"      ? Smoothness::kInner
                 : smoothness == "official" ? Smoothness::kOfficial
                                            : Smoothness::kSquared;
  return w;
}

/// Checks costs (m, n) and A (m, m), and that m' outputs are not too many; returns m.
int require_problem(const Array<const double>& cost, const Array<const double>& compatibility,
                    std::size_t outputs, std::size_t n) {
  const std::size_t m = cost.ndim() == 2 ? cost.shape(0) : 0;
  require_shape(cost, {m, n}, "costs must be (m, n)");
  require_shape(compatibility, {m, m}, "compatibility must be (m, m)");
  require(m > 0 && outputs > 0, "a problem must not be empty");
  require(m <= kMostLabels && outputs <= kMostLabels / n,
          "a problem must have at most 2^28 labels");
  require(all_between(cost, -kMostCost, kMostCost),
          "costs must be finite and at most 1e32 in size");
  require(all_between(compatibility, 0.0, kMostWeight),
          "compatibility must be finite, not negative and at most 1e30");
  return static_cast<int>(m);
}

/// Runs Algorithm 1 on several problems from several starts each; keeps the best start of each, the
/// first one in a tie, so that the result does not depend on the threads.
void solve(const std::vector<Array<const double>>& costs,
           const std::vector<Array<const double>>& compatibilities,
           const std::vector<WeightTuple>& weights,
           const std::vector<Array<const std::int32_t>>& starts, const std::vector<int>& sides,
           int sweeps, int levels, bool resolve, int threads, Array<std::int64_t> sources,
           Array<double> objective_values) {
  const Grid grid = make_grid(sides);
  const auto n = static_cast<std::size_t>(grid.size);
  require(costs.size() == compatibilities.size() && costs.size() == weights.size() &&
              costs.size() == starts.size() && !costs.empty(),
          "every problem needs costs, compatibility, weights and starts");
  require(sweeps > 0 && levels > 0, "counts must be positive");
  require(levels <= kMostLevels, "levels must be at most 16");
  require_threads(threads);

  struct Job {
    std::size_t problem;
    const std::int32_t* start;
    Algorithm1::Result result;
  };
  std::vector<ProblemView> problems(costs.size());
  std::vector<std::vector<std::int32_t>> labels(costs.size());
  std::vector<Job> jobs;
  std::size_t outputs = 0;
  for (std::size_t p = 0; p < costs.size(); ++p) {
    require(starts[p].ndim() == 3, "starts must be (s, m', n)");
    const std::size_t count = starts[p].shape(0), m_out = starts[p].shape(1);
    const int m = require_problem(costs[p], compatibilities[p], m_out, n);
    require_shape(starts[p], {count, m_out, n}, "starts must be (s, m', n)");
    require(count > 0 && count <= kMostLabels, "a problem must not be empty");
    labels[p] = copy_below(starts[p], static_cast<std::size_t>(m), "starts must be inputs");
    problems[p] = {m, static_cast<int>(m_out), costs[p].data(), compatibilities[p].data(),
                   make_weights(weights[p])};
    for (std::size_t s = 0; s < count; ++s)
      jobs.push_back({p, labels[p].data() + s * m_out * n, {}});
    outputs += m_out;
  }
  require(jobs.size() <= kMostLabels, "there must be at most 2^28 starts");
  require(sources.size() == outputs * static_cast<std::size_t>(levels) * n, "sources' size");
  require_shape(objective_values, {costs.size(), static_cast<std::size_t>(sweeps)},
                "objective_values' shape");

  run_released(static_cast<int>(jobs.size()), threads, [&](int k, Checkpoint& checkpoint) {
    Job& job = jobs[static_cast<std::size_t>(k)];
    Algorithm1 algorithm(grid, problems[job.problem], Settings{sweeps, levels, resolve},
                         checkpoint);
    algorithm.run(job.start);
    job.result = algorithm.take_result();
  });

  std::int64_t* to = sources.data();
  std::int64_t first_input = 0;
  auto job = jobs.begin();
  for (std::size_t p = 0; p < problems.size(); ++p) {
    const Algorithm1::Result* best = &job->result;
    for (; job != jobs.end() && job->problem == p; ++job)
      if (job->result.better_than(*best)) best = &job->result;
    std::copy(best->objective_values.begin(), best->objective_values.end(),
              objective_values.data() + p * static_cast<std::size_t>(sweeps));
    const int* label = best->labels.data();
    for (int j = 0; j < problems[p].outputs; ++j, to += levels * grid.size)
      for (const int k : grid.location)
        for (int l = 0; l < levels; ++l) to[l * grid.size + k] = first_input + *label++;
    first_input += problems[p].inputs;
  }
}

/// The inner step alone: labels that (nearly) minimize unary and pairwise costs; returns whether
/// they are known to be optimal.
bool minimize(Array<const double> unary, Array<const double> pairwise,
              const std::vector<int>& sides, Array<const std::int32_t> start,
              Array<std::int32_t> labels) {
  const Grid grid = make_grid(sides);
  const auto n = static_cast<std::size_t>(grid.size);
  const std::size_t count = unary.ndim() == 2 ? unary.shape(0) : 0;
  require(count > 0 && count <= kMostLocations, "unary must be (labels, n)");
  require_shape(unary, {count, n}, "unary must be (labels, n)");
  require_shape(pairwise, {count, count}, "pairwise must be (labels, labels)");
  require_shape(start, {n}, "start must be (n,)");
  require_shape(labels, {n}, "labels must be (n,)");
  const auto first = copy_below(start, count, "start must be labels");
  require(all_between(unary, -kMostCost, kMostCost),
          "unary must be finite and at most 1e32 in size");
  require(all_between(pairwise, 0.0, kMostWeight),
          "pairwise must be finite, not negative and at most 1e30");

  bool optimal = false;
  run_released(1, 1, [&](int, Checkpoint& checkpoint) {
    Minimizer minimizer(grid, checkpoint);
    minimizer.problem().clear();
    std::vector<double> least(unary.data(), unary.data() + n);
    for (std::size_t a = 1; a < count; ++a)
      for (std::size_t k = 0; k < n; ++k) least[k] = std::min(least[k], unary.data()[a * n + k]);
    double largest = *std::max_element(pairwise.data(), pairwise.data() + pairwise.size());
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t k = 0; k < n; ++k)
        largest = std::max(largest, unary.data()[a * n + k] - least[k]);
    const EnergyUnit unit(largest);
    for (std::size_t a = 0; a < count; ++a) {
      float* row = minimizer.problem().add_label();
      for (std::size_t t = 0; t < n; ++t) {
        const auto k = static_cast<std::size_t>(grid.location[t]);
        row[t] = unit(unary.data()[a * n + k] - least[k]);
      }
    }
    minimizer.problem().pairwise.reset(static_cast<int>(count), 0);
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b <= a; ++b)
        minimizer.problem().pairwise.set(static_cast<int>(a), static_cast<int>(b),
                                         unit(pairwise.data()[a * count + b]));
    std::vector<int> x(n);
    for (std::size_t t = 0; t < n; ++t) x[t] = first[static_cast<std::size_t>(grid.location[t])];
    optimal = minimizer.minimize(x.data());
    for (std::size_t t = 0; t < n; ++t) labels.data()[grid.location[t]] = x[t];
  });
  return optimal;
}

/// The baseline of appendix D.2; returns the iterations it took.
int narasimhan_bilmes(Array<const double> cost, Array<const double> compatibility, double beta,
                      double gamma, double total_clip, Array<const std::int32_t> start,
                      const std::vector<int>& sides, int iterations, std::uint64_t seed,
                      Array<std::int32_t> labels) {
  const Grid grid = make_grid(sides);
  const auto n = static_cast<std::size_t>(grid.size);
  require(start.ndim() == 2, "start must be (m', n)");
  const std::size_t outputs = start.shape(0);
  const auto m = static_cast<std::size_t>(require_problem(cost, compatibility, outputs, n));
  require(outputs * n <= kMostLabels / m, "there must be at most 2^28 elements");
  require_shape(start, {outputs, n}, "start must be (m', n)");
  require_shape(labels, {outputs, n}, "labels must be (m', n)");
  const auto first = copy_below(start, m, "start must be inputs");
  for (const double weight : {beta, gamma})
    require(is_between(weight, 0, kMostWeight), "weights must be numbers from 0 to 1e30");
  require(total_clip <= kMostEnergy, "total_clip must be at most 1e100, or minus infinity");
  require(iterations > 0, "iterations must be positive");

  int taken = 0;
  run_released(1, 1, [&](int, Checkpoint& checkpoint) {
    ProblemView problem;
    problem.inputs = static_cast<int>(m);
    problem.outputs = static_cast<int>(outputs);
    problem.compatibility = compatibility.data();
    problem.weights.beta = beta;
    problem.weights.gamma = gamma;
    std::vector<double> visited(m * n);
    std::vector<int> x(outputs * n);
    for (std::size_t t = 0; t < n; ++t) {
      const auto k = static_cast<std::size_t>(grid.location[t]);
      for (std::size_t i = 0; i < m; ++i) visited[i * n + t] = cost.data()[i * n + k];
      for (std::size_t j = 0; j < outputs; ++j) x[j * n + t] = first[j * n + k];
    }
    NarasimhanBilmes baseline(grid, problem, total_clip, seed, checkpoint);
    taken = baseline.run(x.data(), visited.data(), iterations);
    for (std::size_t t = 0; t < n; ++t)
      for (std::size_t j = 0; j < outputs; ++j)
        labels.data()[j * n + static_cast<std::size_t>(grid.location[t])] = x[j * n + t];
  });
  return taken;
}

}  // namespace

void bind_solver(nb::module_& m) {
  m.def("solve", &solve, "costs"_a, "compatibilities"_a, "weights"_a, "starts"_a, "grid"_a,
        "sweeps"_a, "levels"_a, "resolve"_a, "threads"_a, "sources"_a.noconvert(),
        "objective_values"_a.noconvert());
  m.def("minimize", &minimize, "unary"_a, "pairwise"_a, "grid"_a, "start"_a,
        "labels"_a.noconvert());
  m.def("narasimhan_bilmes", &narasimhan_bilmes, "cost"_a, "compatibility"_a, "beta"_a, "gamma"_a,
        "total_clip"_a, "start"_a, "grid"_a, "iterations"_a, "seed"_a, "labels"_a.noconvert());
}

}  // namespace comixup
