// Python's view of the solver: checks shapes, releases the interpreter, shares jobs among threads.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "algorithm.hpp"
#include "arrays.hpp"
#include "grid.hpp"
#include "minimise.hpp"
#include "narasimhan_bilmes.hpp"
#include "threads.hpp"

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
  Weights w;
  w.beta = beta, w.gamma = gamma, w.eta = eta, w.clip_level = level;
  w.clip = clip == "soft" ? Clip::kSoft : clip == "hard" ? Clip::kHard : Clip::kNone;
  w.smoothness = smoothness == "inner"      ? Smoothness::kInner
                 : smoothness == "official" ? Smoothness::kOfficial
                                            : Smoothness::kSquared;
  return w;
}

/// Algorithm 1 on several problems from several starts each; the best start of each is kept, the
/// first one where they tie, so that the answer does not depend on the threads.
void solve(const std::vector<Array<const double>>& costs,
           const std::vector<Array<const double>>& compatibilities,
           const std::vector<WeightTuple>& weights,
           const std::vector<Array<const std::int32_t>>& starts, const std::vector<int>& sides,
           int sweeps, int levels, bool resolve, int threads, Array<std::int64_t> sources,
           Array<double> merits) {
  const Grid grid = make_grid(sides);
  const auto n = static_cast<std::size_t>(grid.size);
  require(costs.size() == compatibilities.size() && costs.size() == weights.size() &&
              costs.size() == starts.size() && !costs.empty(),
          "every problem needs costs, compatibility, weights and starts");
  require(sweeps > 0 && levels > 0 && threads > 0, "counts must be positive");

  struct Job {
    std::size_t problem;
    const std::int32_t* start;
    Algorithm1::Result result;
  };
  std::vector<ProblemView> problems(costs.size());
  std::vector<Job> jobs;
  std::size_t outputs = 0;
  for (std::size_t p = 0; p < costs.size(); ++p) {
    require(costs[p].ndim() == 2 && starts[p].ndim() == 3, "costs (m, n), starts (s, m', n)");
    const std::size_t m = costs[p].shape(0), m_out = starts[p].shape(1);
    require_shape(costs[p], {m, n}, "costs must be (m, n)");
    require_shape(compatibilities[p], {m, m}, "compatibility must be (m, m)");
    require_shape(starts[p], {starts[p].shape(0), m_out, n}, "starts must be (s, m', n)");
    require(m > 0 && m_out > 0 && starts[p].shape(0) > 0, "a problem must not be empty");
    for (std::size_t s = 0; s < starts[p].size(); ++s)
      require(starts[p].data()[s] >= 0 && static_cast<std::size_t>(starts[p].data()[s]) < m,
              "starts must be inputs");
    problems[p] = {static_cast<int>(m), static_cast<int>(m_out), costs[p].data(),
                   compatibilities[p].data(), make_weights(weights[p])};
    for (std::size_t s = 0; s < starts[p].shape(0); ++s)
      jobs.push_back({p, starts[p].data() + s * m_out * n, {}});
    outputs += m_out;
  }
  require(sources.size() == outputs * static_cast<std::size_t>(levels) * n, "sources' size");
  require_shape(merits, {costs.size(), static_cast<std::size_t>(sweeps)}, "merits' shape");

  const nb::gil_scoped_release release;
  run_jobs(static_cast<int>(jobs.size()), threads, [&](int k) {
    Job& job = jobs[static_cast<std::size_t>(k)];
    Algorithm1 algorithm(grid, problems[job.problem], Settings{sweeps, levels, resolve});
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
    std::copy(best->merits.begin(), best->merits.end(),
              merits.data() + p * static_cast<std::size_t>(sweeps));
    const int* label = best->labels.data();
    for (int j = 0; j < problems[p].outputs; ++j, to += levels * grid.size)
      for (const int k : grid.location)
        for (int l = 0; l < levels; ++l) to[l * grid.size + k] = first_input + *label++;
    first_input += problems[p].inputs;
  }
}

/// The inner step alone: labels that (nearly) minimise unary + charges; returns whether the answer
/// is known to be optimal.
bool minimise(Array<const double> unary, Array<const double> charge, const std::vector<int>& sides,
              Array<const std::int32_t> start, Array<std::int32_t> labels) {
  const Grid grid = make_grid(sides);
  const auto n = static_cast<std::size_t>(grid.size);
  const std::size_t count = unary.ndim() == 2 ? unary.shape(0) : 0;
  require(count > 0, "unary must be (labels, n)");
  require_shape(unary, {count, n}, "unary must be (labels, n)");
  require_shape(charge, {count, count}, "charge must be (labels, labels)");
  require_shape(start, {n}, "start must be (n,)");
  require_shape(labels, {n}, "labels must be (n,)");
  for (std::size_t k = 0; k < n; ++k)
    require(start.data()[k] >= 0 && static_cast<std::size_t>(start.data()[k]) < count,
            "start must be labels");

  const nb::gil_scoped_release release;
  Minimiser minimiser(grid);
  minimiser.problem().clear();
  std::vector<double> least(unary.data(), unary.data() + n);
  for (std::size_t a = 1; a < count; ++a)
    for (std::size_t k = 0; k < n; ++k) least[k] = std::min(least[k], unary.data()[a * n + k]);
  for (std::size_t a = 0; a < count; ++a) {
    float* row = minimiser.problem().add_label();
    for (std::size_t t = 0; t < n; ++t) {
      const auto k = static_cast<std::size_t>(grid.location[t]);
      row[t] = static_cast<float>(unary.data()[a * n + k] - least[k]);
    }
  }
  minimiser.problem().charges.reset(static_cast<int>(count), 0);
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b <= a; ++b)
      minimiser.problem().charges.set(static_cast<int>(a), static_cast<int>(b),
                                      static_cast<float>(charge.data()[a * count + b]));
  std::vector<int> x(n);
  for (std::size_t t = 0; t < n; ++t) x[t] = start.data()[grid.location[t]];
  const bool optimal = minimiser.minimise(x.data());
  for (std::size_t t = 0; t < n; ++t) labels.data()[grid.location[t]] = x[t];
  return optimal;
}

/// The rival of appendix D; returns the iterations it took.
int narasimhan_bilmes(Array<const double> cost, Array<const double> compatibility, double beta,
                      double gamma, double total_clip, Array<const std::int32_t> start,
                      const std::vector<int>& sides, int iterations, std::uint64_t seed,
                      Array<std::int32_t> labels) {
  const Grid grid = make_grid(sides);
  const auto n = static_cast<std::size_t>(grid.size);
  require(cost.ndim() == 2 && start.ndim() == 2, "cost (m, n), start (m', n)");
  const std::size_t m = cost.shape(0), outputs = start.shape(0);
  require_shape(cost, {m, n}, "cost must be (m, n)");
  require_shape(compatibility, {m, m}, "compatibility must be (m, m)");
  require_shape(start, {outputs, n}, "start must be (m', n)");
  require_shape(labels, {outputs, n}, "labels must be (m', n)");
  for (std::size_t s = 0; s < start.size(); ++s)
    require(start.data()[s] >= 0 && static_cast<std::size_t>(start.data()[s]) < m,
            "start must be inputs");

  const nb::gil_scoped_release release;
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
    for (std::size_t j = 0; j < outputs; ++j) x[j * n + t] = start.data()[j * n + k];
  }
  NarasimhanBilmes rival(grid, problem, total_clip, seed);
  const int taken = rival.run(x.data(), visited.data(), iterations);
  for (std::size_t t = 0; t < n; ++t)
    for (std::size_t j = 0; j < outputs; ++j)
      labels.data()[j * n + static_cast<std::size_t>(grid.location[t])] = x[j * n + t];
  return taken;
}

}  // namespace
}  // namespace comixup

NB_MODULE(_native, m) {
  m.doc() = "The compiled kernel of comixup.";
  m.def("solve", &comixup::solve, "costs"_a, "compatibilities"_a, "weights"_a, "starts"_a, "grid"_a,
        "sweeps"_a, "levels"_a, "resolve"_a, "threads"_a, "sources"_a.noconvert(),
        "merits"_a.noconvert());
  m.def("minimise", &comixup::minimise, "unary"_a, "charge"_a, "grid"_a, "start"_a,
        "labels"_a.noconvert());
  m.def("narasimhan_bilmes", &comixup::narasimhan_bilmes, "cost"_a, "compatibility"_a, "beta"_a,
        "gamma"_a, "total_clip"_a, "start"_a, "grid"_a, "iterations"_a, "seed"_a,
        "labels"_a.noconvert());
  comixup::bind_blocks(m);
  comixup::bind_maps(m);
  comixup::bind_puzzle(m);
}
