// Bindings of pixels/maps.hpp.
#include "pixels/maps.hpp"

#include <nanobind/stl/array.h>

#include "bindings/arrays.hpp"

using namespace nanobind::literals;

namespace comixup {
namespace {

/// Maps that one thread sees to before another is worth its start.
constexpr std::size_t kPixelsPerThread = 1 << 19;

/// Fills `out` (m, 2 + cells + 3) from maps (m, *size), padded to three dimensions.
void summarise_maps(Array<const float> maps, const Sides& grid, const Sides& window, int threads,
                    Array<double> out) {
  require_threads(threads);
  require(maps.ndim() == 4 && maps.size() > 0, "maps must be (m, d, h, w)");
  const Sides size = {maps.shape(1), maps.shape(2), maps.shape(3)};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    require(grid[axis] > 0 && size[axis] % grid[axis] == 0, "grid must divide the size");
    require(window[axis] > 0 && window[axis] <= size[axis], "window must fit into the size");
  }
  const std::size_t m = maps.shape(0), length = MapSummary::length(grid), pixels = volume(size);
  require_shape(out, {m, length}, "out must be (m, 2 + cells + 3)");

  const std::size_t most = m * pixels / kPixelsPerThread + 1;
  const std::size_t jobs = std::min({m, most, static_cast<std::size_t>(threads)});
  run_released(static_cast<int>(jobs), threads, [&](int job, Checkpoint& checkpoint) {
    MapSummary summary(size, grid, window);
    for (std::size_t i = static_cast<std::size_t>(job); i < m; i += jobs) {
      summary.run(maps.data() + i * pixels, out.data() + i * length);
      checkpoint.after(8 * pixels);
    }
  });
}

}  // namespace

void bind_maps(nb::module_& m) {
  m.def("summarise_maps", &summarise_maps, "maps"_a, "grid"_a, "window"_a, "threads"_a,
        "out"_a.noconvert());
}

}  // namespace comixup
