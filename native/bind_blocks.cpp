// Python's view of blocks.hpp.
#include <cstdint>

#include "arrays.hpp"
#include "blocks.hpp"
#include "threads.hpp"

using namespace nanobind::literals;

namespace comixup {
namespace {

/// Any dtype: a copy needs to know none.
using AnyArray = nb::ndarray<nb::c_contig, nb::device::cpu>;
using Sources = Array<const std::int64_t>;

/// Mixing fewer bytes than this takes no longer than starting a thread for them.
constexpr std::size_t kBytesPerThread = 1 << 22;

template <typename T>
void take_means(const BlockLayout& layout, const AnyArray& images, const Sources& z, int threads,
                AnyArray& out) {
  const std::size_t levels = z.shape(1), cells = z.shape(2);
  const auto* from = static_cast<const T*>(images.data());
  auto* to = static_cast<T*>(out.data());
  const nb::gil_scoped_release release;
  run_jobs(static_cast<int>(z.shape(0)), threads, [&](int j) {
    mean_blocks(layout, from, z.data() + j * levels * cells, levels, cells,
                to + j * layout.image_size);
  });
}

void take_copies(const BlockLayout& layout, const AnyArray& images, const Sources& z, int threads,
                 AnyArray& out) {
  const auto* from = static_cast<const unsigned char*>(images.data());
  auto* to = static_cast<unsigned char*>(out.data());
  const nb::gil_scoped_release release;
  run_jobs(static_cast<int>(z.shape(0)), threads, [&](int j) {
    copy_blocks(layout, from, z.data() + j * z.shape(2), to + j * layout.image_size);
  });
}

/// Fills `out` (m', elements) from `images` (m, elements) by `sources` (m', L, cells).
void mix_blocks(AnyArray images, Sources sources, Array<const std::int64_t> row_cell,
                Array<const std::int64_t> column_begin, int threads, AnyArray out) {
  require(images.ndim() == 2 && out.ndim() == 2 && images.shape(1) == out.shape(1),
          "images (m, elements) and out (m', elements)");
  require(images.dtype() == out.dtype(), "out must have the images' dtype");
  require(sources.ndim() == 3 && sources.shape(0) == out.shape(0) && sources.shape(1) > 0,
          "sources must be (m', L, cells)");
  require(row_cell.ndim() == 1 && column_begin.ndim() == 1 && column_begin.shape(0) > 1,
          "row_cell (rows,) and column_begin (columns + 1,)");
  require(threads > 0, "threads must be positive");
  for (std::size_t s = 0; s < sources.size(); ++s)
    require(sources.data()[s] >= 0 && static_cast<std::size_t>(sources.data()[s]) < images.shape(0),
            "sources must be inputs");

  const std::size_t columns = column_begin.shape(0) - 1;
  const bool copies = sources.shape(1) == 1;
  const std::size_t item = copies ? images.itemsize() : 1;  // copies are made of bytes
  BlockLayout layout;
  layout.image_size = images.shape(1) * item;
  for (std::size_t c = 0; c <= columns; ++c) {
    const std::int64_t begin = column_begin.data()[c];
    require(begin >= (c == 0 ? 0 : column_begin.data()[c - 1]), "column_begin must rise from 0");
    layout.column_begin.push_back(static_cast<std::size_t>(begin) * item);
  }
  require(column_begin.data()[0] == 0 &&
              layout.column_begin.back() * row_cell.shape(0) == layout.image_size,
          "rows must make up an image");
  std::vector<std::size_t> band_of(sources.shape(2), row_cell.shape(0));
  for (std::size_t r = 0; r < row_cell.shape(0); ++r) {
    const auto cell = static_cast<std::size_t>(row_cell.data()[r]);
    require(row_cell.data()[r] >= 0 && cell + columns <= sources.shape(2),
            "row_cell must be cells");
    if (band_of[cell] >= layout.bands.size()) {
      band_of[cell] = layout.bands.size();
      layout.bands.push_back({cell, {}});
    }
    layout.bands[band_of[cell]].row_begin.push_back(r * layout.column_begin.back());
  }
  threads = std::min(threads, static_cast<int>(out.nbytes() / kBytesPerThread) + 1);

  if (copies)
    take_copies(layout, images, sources, threads, out);
  else if (images.dtype() == nb::dtype<float>())
    take_means<float>(layout, images, sources, threads, out);
  else if (images.dtype() == nb::dtype<double>())
    take_means<double>(layout, images, sources, threads, out);
  else if (images.dtype().code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) &&
           images.dtype().bits == 16)
    take_means<BFloat16>(layout, images, sources, threads, out);
  else
    require(false, "images must be float32, float64 or bfloat16 where levels are above 1");
}

}  // namespace

void bind_blocks(nb::module_& m) {
  m.def("mix_blocks", &mix_blocks, "images"_a.noconvert(), "sources"_a, "row_cell"_a,
        "column_begin"_a, "threads"_a, "out"_a.noconvert());
}

}  // namespace comixup
