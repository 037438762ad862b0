// Bindings of pixels/blocks.hpp.
#include "pixels/blocks.hpp"

#include <cstdint>
#include <functional>
#include <vector>

#include "bindings/arrays.hpp"

using namespace nanobind::literals;

namespace comixup {
namespace {

/// Any dtype, for copies.
using AnyArray = nb::ndarray<nb::c_contig, nb::device::cpu>;
/// (m', L, cells).
struct Sources {
  std::size_t outputs, levels, cells;
  std::vector<std::int64_t> inputs;
  const std::int64_t* of(int output) const {
    return inputs.data() + static_cast<std::size_t>(output) * levels * cells;
  }
};

/// Least number of bytes for which another thread pays off.
constexpr std::size_t kBytesPerThread = 1 << 22;

template <typename T>
void take_means(const BlockLayout& layout, const AnyArray& images, const Sources& z, int threads,
                AnyArray& out) {
  const auto* from = static_cast<const T*>(images.data());
  auto* to = static_cast<T*>(out.data());
  run_released(static_cast<int>(z.outputs), threads, [&](int j, Checkpoint& checkpoint) {
    mean_blocks(layout, from, z.of(j), z.levels, z.cells, to + j * layout.image_size);
    checkpoint.after(z.levels * layout.image_size);
  });
}

void take_copies(const BlockLayout& layout, const AnyArray& images, const Sources& z, int threads,
                 AnyArray& out) {
  const auto* from = static_cast<const unsigned char*>(images.data());
  auto* to = static_cast<unsigned char*>(out.data());
  run_released(static_cast<int>(z.outputs), threads, [&](int j, Checkpoint& checkpoint) {
    copy_blocks(layout, from, z.of(j), to + j * layout.image_size);
    checkpoint.after(layout.image_size / 4);
  });
}

/// Whether two arrays have bytes in common.
bool overlap(const AnyArray& a, const AnyArray& b) {
  const auto *begin_a = static_cast<const char*>(a.data()), *end_a = begin_a + a.nbytes();
  const auto *begin_b = static_cast<const char*>(b.data()), *end_b = begin_b + b.nbytes();
  const std::less<const char*> before;
  return before(begin_a, end_b) && before(begin_b, end_a);
}

/// Fills `out` (m', elements) from `images` (m, elements) by `sources` (m', L, cells).
void mix_blocks(AnyArray images, Array<const std::int64_t> sources,
                Array<const std::int64_t> row_cell, Array<const std::int64_t> column_begin,
                int threads, AnyArray out) {
  require(images.ndim() == 2 && out.ndim() == 2 && images.shape(1) == out.shape(1),
          "images (m, elements) and out (m', elements)");
  require(images.dtype() == out.dtype(), "out must have the images' dtype");
  require(sources.ndim() == 3 && sources.shape(0) == out.shape(0) && sources.shape(1) > 0 &&
              sources.shape(0) <= kMostLabels,
          "sources must be (m', L, cells)");
  require(row_cell.ndim() == 1 && column_begin.ndim() == 1 && column_begin.shape(0) > 1,
          "row_cell (rows,) and column_begin (columns + 1,)");
  require_threads(threads);
  if (out.size() == 0) return;
  require(!overlap(images, out), "out must not share memory with the images");
  const Sources z{sources.shape(0), sources.shape(1), sources.shape(2),
                  copy_below(sources, images.shape(0), "sources must be inputs")};

  const std::size_t columns = column_begin.shape(0) - 1;
  const bool copies = sources.shape(1) == 1;
  const std::size_t item = copies ? images.itemsize() : 1;  // copies are by bytes
  BlockLayout layout;
  layout.image_size = images.shape(1) * item;
  for (std::size_t c = 0; c <= columns; ++c) {
    const std::int64_t begin = column_begin.data()[c];
    require(begin >= (c == 0 ? 0 : column_begin.data()[c - 1]) &&
                static_cast<std::size_t>(begin) <= images.shape(1),
            "column_begin must rise from 0 to the length of a row");
    layout.column_begin.push_back(static_cast<std::size_t>(begin) * item);
  }
  const std::size_t row_size = layout.column_begin.back(), rows = row_cell.shape(0);
  require(column_begin.data()[0] == 0 && rows > 0 && layout.image_size % rows == 0 &&
              row_size == layout.image_size / rows,
          "rows must make up an image");
  std::vector<std::size_t> band_of(z.cells, rows);
  for (std::size_t r = 0; r < rows; ++r) {
    const auto cell = static_cast<std::size_t>(row_cell.data()[r]);
    require(row_cell.data()[r] >= 0 && cell <= z.cells && columns <= z.cells - cell,
            "row_cell must be cells");
    if (band_of[cell] >= layout.bands.size()) {
      band_of[cell] = layout.bands.size();
      layout.bands.push_back({cell, {}});
    }
    layout.bands[band_of[cell]].row_begin.push_back(r * row_size);
  }
  const std::size_t useful = out.nbytes() / kBytesPerThread + 1;
  threads = static_cast<int>(std::min(static_cast<std::size_t>(threads), useful));

  if (copies)
    take_copies(layout, images, z, threads, out);
  else if (images.dtype() == nb::dtype<float>())
    take_means<float>(layout, images, z, threads, out);
  else if (images.dtype() == nb::dtype<double>())
    take_means<double>(layout, images, z, threads, out);
  else if (images.dtype().code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) &&
           images.dtype().bits == 16)
    take_means<BFloat16>(layout, images, z, threads, out);
  else
    require(false, "images must be float32, float64 or bfloat16 where levels are above 1");
}

}  // namespace

void bind_blocks(nb::module_& m) {
  m.def("mix_blocks", &mix_blocks, "images"_a.noconvert(), "sources"_a, "row_cell"_a,
        "column_begin"_a, "threads"_a, "out"_a.noconvert());
}

}  // namespace comixup
