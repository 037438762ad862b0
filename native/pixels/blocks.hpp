// Mixing pixels: every cell of an output is copied from one input, or is the mean of several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace comixup {

/// A bfloat16 number: the upper half of a float.
struct BFloat16 {
  std::uint16_t bits;
};

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(BFloat16 x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline void narrow(float x, float& to) { to = x; }
inline void narrow(double x, double& to) { to = x; }
inline void narrow(float x, BFloat16& to) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  // To the nearest, ties to even, as torch does; a NaN must not be rounded into an infinity.
  to.bits =
      static_cast<std::uint16_t>(is_nan ? 0x7fc0u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// The layout of an image's cells in memory. A row is one line of pixels: of one channel, or of all
/// channels for channels_last images.
struct BlockLayout {
  /// Adjacent cells and the rows that they cover.
  struct Band {
    std::size_t first_cell;
    std::vector<std::size_t> row_begin;
  };
  std::size_t image_size = 0;             ///< elements of one image
  std::vector<Band> bands;                ///< all cells, by the rows they cover
  std::vector<std::size_t> column_begin;  ///< where each cell along a row begins; then its length

  /// Calls visit(cell, rows, first element of a row, elements of a row) for each cell.
  template <typename Visit>
  void for_each_cell(Visit&& visit) const {
    for (const Band& band : bands)
      for (std::size_t c = 0; c + 1 < column_begin.size(); ++c)
        visit(band.first_cell + c, band.row_begin, column_begin[c],
              column_begin[c + 1] - column_begin[c]);
  }
};

/// Copies the rows of one cell.
template <typename T>
void copy_cell(const T* from, const std::vector<std::size_t>& rows, std::size_t begin,
               std::size_t count, T* to) {
  constexpr std::size_t kChunk = 16 / sizeof(T), kShort = 8 * kChunk;
  if (count % kChunk == 0 && count <= kShort) {  // cheaper than memcpy's dispatch for so few bytes
    for (const std::size_t row : rows)
      for (std::size_t x = row + begin; x < row + begin + count; x += kChunk)
        std::memcpy(to + x, from + x, kChunk * sizeof(T));
  } else {
    for (const std::size_t row : rows)
      std::memcpy(to + row + begin, from + row + begin, count * sizeof(T));
  }
}

/// One output from its `sources`, one input per cell.
template <typename T>
void copy_blocks(const BlockLayout& layout, const T* images, const std::int64_t* sources, T* to) {
  layout.for_each_cell([&](std::size_t cell, const std::vector<std::size_t>& rows,
                           std::size_t begin, std::size_t count) {
    const auto source = static_cast<std::size_t>(sources[cell]);
    copy_cell(images + source * layout.image_size, rows, begin, count, to);
  });
}

/// One output from its `sources` (levels, cells): each cell is the mean of its inputs.
template <typename T>
void mean_blocks(const BlockLayout& layout, const T* images, const std::int64_t* sources,
                 std::size_t levels, std::size_t cells, T* to) {
  using Wide = decltype(widen(T{}));
  std::vector<Wide> share;  // of each level in the mean of those up to it
  for (std::size_t l = 0; l < levels; ++l) share.push_back(static_cast<Wide>(1.0 / (l + 1.0)));
  layout.for_each_cell([&](std::size_t cell, const std::vector<std::size_t>& rows,
                           std::size_t begin, std::size_t count) {
    const auto input = [&](std::size_t level) {
      return images + static_cast<std::size_t>(sources[level * cells + cell]) * layout.image_size;
    };
    const T* first = input(0);
    bool pure = true;
    for (std::size_t l = 1; l < levels; ++l) pure = pure && input(l) == first;
    if (pure) {
      copy_cell(first, rows, begin, count, to);
    } else if (levels == 2) {  // the usual case, without the loop that would prevent SIMD
      const T* second = input(1);
      for (const std::size_t row : rows)
        for (std::size_t x = row + begin; x < row + begin + count; ++x) {
          const Wide a = widen(first[x]);
          narrow(a + (widen(second[x]) - a) * share[1], to[x]);
        }
    } else {
      for (const std::size_t row : rows)
        for (std::size_t x = row + begin; x < row + begin + count; ++x) {
          Wide mean = widen(first[x]);  // running mean: exact for equal pixels
          for (std::size_t l = 1; l < levels; ++l) mean += (widen(input(l)[x]) - mean) * share[l];
          narrow(mean, to[x]);
        }
    }
  });
}

}  // namespace comixup
