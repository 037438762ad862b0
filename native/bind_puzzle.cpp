// Python's view of puzzle.hpp and transport.hpp.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "arrays.hpp"
#include "puzzle.hpp"
#include "threads.hpp"
#include "transport.hpp"

using namespace nanobind::literals;

namespace comixup {
namespace {

/// Jobs per thread: enough to even out their times, few enough to share a solver's memory.
constexpr int kJobsPerThread = 4;

/// Locations that take no longer than starting a thread for them.
constexpr std::size_t kLocationsPerThread = 1 << 12;

/// Calls solve(solver, s) for samples 0..count - 1, with one solver from make() for each job.
template <typename Make, typename Solve>
void for_each_sample(std::size_t count, std::size_t locations, int threads, Make&& make,
                     Solve&& solve) {
  threads = std::min(threads, static_cast<int>(count * locations / kLocationsPerThread) + 1);
  const auto most = static_cast<std::size_t>(threads) * kJobsPerThread;
  const std::size_t jobs = threads == 1 ? 1 : std::min(count, most);
  const nb::gil_scoped_release release;
  run_jobs(static_cast<int>(jobs), threads, [&](int job) {
    auto solver = make();
    for (auto s = static_cast<std::size_t>(job); s < count; s += jobs) solve(solver, s);
  });
}

std::size_t product(const std::vector<int>& sides) {
  std::size_t size = 1;
  for (const int side : sides) size *= static_cast<std::size_t>(side);
  return size;
}

constexpr double kLargest = std::numeric_limits<double>::max();

bool all_between(const Array<const double>& values, double low, double high) {
  const double* value = values.data();
  const std::size_t count = values.size();
  int wrong = 0;  // counted to the end, without branches
  for (std::size_t i = 0; i < count; ++i) wrong += !((value[i] >= low) & (value[i] <= high));
  return wrong == 0;
}

/// Fills `labels` (m, n) with the minima of m energies: `unary` (m, L + 1, n), `weights` (m,
/// edges).
void puzzle_masks(Array<const double> unary, Array<const double> weights,
                  const std::vector<int>& sides, int threads, Array<std::int32_t> labels) {
  require_sides(sides);
  require(threads > 0, "threads must be positive");
  require(unary.ndim() == 3 && unary.shape(1) > 1 && unary.shape(2) == product(sides),
          "unary must be (m, L + 1, n) with L > 0");
  const std::size_t m = unary.shape(0), n = unary.shape(2);
  const std::size_t edges = grid_edges(sides).size();
  require_shape(weights, {m, edges}, "weights must be (m, edges)");
  require_shape(labels, {m, n}, "labels must be (m, n)");
  const int levels = static_cast<int>(unary.shape(1)) - 1;
  require(all_between(unary, -kLargest, kLargest), "unary must be finite");
  require(all_between(weights, 0, kLargest), "weights must be finite and not negative");
  for_each_sample(
      m, n, threads, [&] { return PuzzleSolver(sides, levels); },
      [&](PuzzleSolver& solver, std::size_t s) {
        solver.solve(unary.data() + s * (levels + 1) * n, weights.data() + s * edges,
                     labels.data() + s * n);
      });
}

/// Fills `block_at` (m, n) with the block that each place receives; see transport.hpp.
void puzzle_transport(Array<const float> saliency, Array<const std::uint8_t> granted,
                      const std::vector<int>& sides, double eps, int threads,
                      Array<std::int32_t> block_at) {
  require_sides(sides);
  require(threads > 0 && eps >= 0, "threads must be positive, eps not negative");
  require(saliency.ndim() == 2 && saliency.shape(1) == product(sides), "saliency must be (m, n)");
  const std::size_t m = saliency.shape(0), n = saliency.shape(1);
  require_shape(granted, {m, n}, "granted must be (m, n)");
  require_shape(block_at, {m, n}, "block_at must be (m, n)");
  for_each_sample(
      m, n, threads, [&] { return Transport(sides, eps); },
      [&](Transport& transport, std::size_t s) {
        transport.solve(saliency.data() + s * n, granted.data() + s * n, block_at.data() + s * n);
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
