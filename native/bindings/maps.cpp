// Bindings of pixels/maps.hpp and pixels/memory.hpp.
#include "pixels/maps.hpp"

#include <nanobind/stl/array.h>

#include <algorithm>
#include <vector>

#include "bindings/arrays.hpp"
#include "pixels/memory.hpp"

using namespace nanobind::literals;

namespace comixup {
namespace {

/// Least number of pixels for which another thread pays off.
constexpr std::size_t kPixelsPerThread = 1 << 19;

/// Fills `out` (m, 2 + cells + 3) from maps (m, *size), padded to three dimensions.
void summarize_maps(Array<const float> maps, const Sides& grid, const Sides& window, int threads,
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

/// Writes the maps of gradients (m, channels, pixels), or (m, pixels, channels) with channels last,
/// to the rows of `next` (examples, cells), keeping the larger value of each cell. `numbers` are
/// the cells that pixels show, (m, pixels), or (1, pixels) if equal for all images; `maps` are the
/// previous maps. Returns the number of skipped gradients, zero or not finite.
std::size_t write_maps(Array<const float> gradients, Array<const std::uint8_t> numbers,
                       bool channels_last, Array<const std::int64_t> rows,
                       Array<const std::uint8_t> maps, float momentum, int threads,
                       Array<std::uint8_t> next) {
  require_threads(threads);
  require(gradients.ndim() == 3 && gradients.size() > 0, "gradients must be (m, channels, pixels)");
  const std::size_t m = gradients.shape(0), channels = gradients.shape(channels_last ? 2 : 1),
                    pixels = gradients.shape(channels_last ? 1 : 2);
  require(numbers.ndim() == 2 && numbers.shape(1) == pixels &&
              (numbers.shape(0) == m || numbers.shape(0) == 1),
          "numbers must be (m, pixels) or (1, pixels)");
  require(maps.ndim() == 2 && maps.size() > 0 && maps.shape(1) < 255, "1 to 254 cells");
  const std::size_t examples = maps.shape(0), cells = maps.shape(1);
  require_shape(next, {examples, cells}, "next must be (examples, cells)");
  require_shape(rows, {m}, "rows must be (m,)");
  require(is_between(momentum, 0, 1), "momentum must be a number from 0 to 1");
  const auto row_of = copy_below(rows, examples, "rows must be below the number of examples");

  std::vector<std::uint8_t> fresh(m * cells), usable(m);
  const std::size_t most = m * pixels * channels / kPixelsPerThread + 1;
  const std::size_t jobs = std::min({m, most, static_cast<std::size_t>(threads)});
  const std::size_t step = numbers.shape(0) == 1 ? 0 : pixels;
  run_released(static_cast<int>(jobs), threads, [&](int job, Checkpoint& checkpoint) {
    MapWriter writer(channels, pixels, cells, channels_last, momentum);
    for (std::size_t i = static_cast<std::size_t>(job); i < m; i += jobs) {
      const std::size_t row = static_cast<std::size_t>(row_of[i]);
      usable[i] = writer.run(gradients.data() + i * channels * pixels, numbers.data() + i * step,
                             maps.data() + row * cells, fresh.data() + i * cells);
      checkpoint.after(2 * channels * pixels);
    }
  });
  // Sequentially: an example may be in a batch twice.
  for (std::size_t i = 0; i < m; ++i) {
    std::uint8_t* to = next.data() + static_cast<std::size_t>(row_of[i]) * cells;
    for (std::size_t c = 0; c < cells; ++c) to[c] = std::max(to[c], fresh[i * cells + c]);
  }
  return m - static_cast<std::size_t>(std::count(usable.begin(), usable.end(), 1));
}

/// Fills `out` (m, pixels) with saliency read from the rows of `maps` (examples, cells); `numbers`
/// as in `write_maps`.
void read_maps(Array<const std::uint8_t> maps, Array<const std::int64_t> rows,
               Array<const std::uint8_t> numbers, Array<float> out) {
  require(maps.ndim() == 2 && maps.size() > 0 && maps.shape(1) < 255, "1 to 254 cells");
  require(out.ndim() == 2, "out must be (m, pixels)");
  const std::size_t m = out.shape(0), pixels = out.shape(1), cells = maps.shape(1);
  require(numbers.ndim() == 2 && numbers.shape(1) == pixels &&
              (numbers.shape(0) == m || numbers.shape(0) == 1),
          "numbers must be (m, pixels) or (1, pixels)");
  require_shape(rows, {m}, "rows must be (m,)");
  const auto row_of = copy_below(rows, maps.shape(0), "rows must be below the number of examples");
  const std::size_t step = numbers.shape(0) == 1 ? 0 : pixels;
  for (std::size_t i = 0; i < m; ++i)
    read_map(maps.data() + static_cast<std::size_t>(row_of[i]) * cells, cells,
             numbers.data() + i * step, pixels, out.data() + i * pixels);
}

}  // namespace

void bind_maps(nb::module_& m) {
  m.def("summarize_maps", &summarize_maps, "maps"_a, "grid"_a, "window"_a, "threads"_a,
        "out"_a.noconvert());
  m.def("read_maps", &read_maps, "maps"_a, "rows"_a, "numbers"_a, "out"_a.noconvert());
  m.def("write_maps", &write_maps, "gradients"_a, "numbers"_a, "channels_last"_a, "rows"_a,
        "maps"_a, "momentum"_a, "threads"_a, "next"_a.noconvert());
}

}  // namespace comixup
