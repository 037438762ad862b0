// Bindings of puzzle/masks.hpp and puzzle/transport.hpp.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bindings/arrays.hpp"
#include "puzzle/masks.hpp"
#include "puzzle/transport.hpp"

using namespace nanobind::literals;

namespace comixup {
namespace {

/// Jobs per thread: enough to balance the load, few enough to reuse a solver's memory.
constexpr int kJobsPerThread = 4;

/// Least number of locations for which another thread pays off.
constexpr std::size_t kLocationsPerThread = 1 << 12;

/// Calls solve(solver, s) for samples 0..count - 1, with one solver from make() for each job.
template <typename Make, typename Solve>
void for_each_sample(std::size_t count, std::size_t locations, int threads, Make&& make,
                     Solve&& solve) {
  const std::size_t useful = count * locations / kLocationsPerThread + 1;
  threads = static_cast<int>(std::min(static_cast<std::size_t>(threads), useful));
  const auto most = static_cast<std::size_t>(threads) * kJobsPerThread;
  const std::size_t jobs = threads == 1 ? 1 : std::min(count, most);
  run_released(static_cast<int>(jobs), threads, [&](int job, Checkpoint& checkpoint) {
    auto solver = make();
    for (auto s = static_cast<std::size_t>(job); s < count; s += jobs) solve(solver, s, checkpoint);
  });
}

/// Fills `labels` (m, n) with the minima of m energies: `unary` (m, L + 1, n), `weights` (m,
/// edges).
void puzzle_masks(Array<const double> unary, Array<const double> weights,
                  const std::vector<int>& sides, int threads, Array<std::int32_t> labels) {
  const std::size_t n = require_sides(sides);
  require_threads(threads);
  require(unary.ndim() == 3 && unary.shape(1) > 1 && unary.shape(1) <= kMostLevels + 1 &&
              unary.shape(2) == n,
          "unary must be (m, L + 1, n) with L from 1 to 16");
  const std::size_t m = unary.shape(0);
  const std::size_t edges = grid_edges(sides).size();
  require_shape(weights, {m, edges}, "weights must be (m, edges)");
  require_shape(labels, {m, n}, "labels must be (m, n)");
  const int levels = static_cast<int>(unary.shape(1)) - 1;
  require(all_between(unary, -kMostEnergy, kMostEnergy),
          "unary must be finite and at most 1e100 in size");
  require(all_between(weights, 0.0, kMostEnergy),
          "weights must be finite and not negative, and at most 1e100");
  for_each_sample(
      m, n, threads, [&] { return PuzzleSolver(sides, levels); },
      [&](PuzzleSolver& solver, std::size_t s, Checkpoint& checkpoint) {
        solver.solve(unary.data() + s * (levels + 1) * n, weights.data() + s * edges,
                     labels.data() + s * n, checkpoint);
      });
}

/// Fills `block_at` (m, n) with the block that each location receives; see transport.hpp.
void puzzle_transport(Array<const float> saliency, Array<const std::uint8_t> granted,
                      const std::vector<int>& sides, double eps, int threads,
                      Array<std::int32_t> block_at) {
  const std::size_t n = require_sides(sides);
  require_threads(threads);
  require(is_between(eps, 0, kMostWeight), "eps must be a number from 0 to 1e30");
  require(saliency.ndim() == 2 && saliency.shape(1) == n, "saliency must be (m, n)");
  const std::size_t m = saliency.shape(0);
  require_shape(granted, {m, n}, "granted must be (m, n)");
  require_shape(block_at, {m, n}, "block_at must be (m, n)");
  const auto most = static_cast<float>(kMostWeight);
  require(all_between(saliency, -most, most), "saliency must be finite and at most 1e30 in size");
  for_each_sample(
      m, n, threads, [&] { return Transport(sides, eps); },
      [&](Transport& transport, std::size_t s, Checkpoint& checkpoint) {
        transport.solve(saliency.data() + s * n, granted.data() + s * n, block_at.data() + s * n,
                        checkpoint);
      });
}

}  // namespace

void bind_puzzle(nb::module_& m) {
  m.def("puzzle_masks", &puzzle_masks, "unary"_a, "weights"_a, "grid"_a, "threads"_a,
        "labels"_a.noconvert());
  m.def("puzzle_transport", &puzzle_transport, "saliency"_a, "granted"_a, "grid"_a, "eps"_a,
        "threads"_a, "block_at"_a.noconvert());
}

}  // namespace comixup
