// Summaries of saliency maps: range, cell means, most salient location.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <vector>

namespace comixup {

/// Three sides; fewer dimensions have leading sides of 1.
using Sides = std::array<std::size_t, 3>;

inline std::size_t volume(const Sides& sides) { return sides[0] * sides[1] * sides[2]; }

/// Summarizes maps of one size, reusing its buffers.
class MapSummary {
 public:
  /// `grid` must divide `size` along every side, and `window` must fit into it.
  MapSummary(const Sides& size, const Sides& grid, const Sides& window)
      : size_(size),
        grid_(grid),
        window_(window),
        smooth_(volume(size)),
        sums_(size[1] * size[2]) {}

  /// Numbers per map: least, largest, a mean for each cell, three coordinates.
  static std::size_t length(const Sides& grid) { return 2 + volume(grid) + 3; }

  void run(const float* map, double* to) {
    find_range_and_cells(map, to);
    find_peak(map, to + 2 + volume(grid_));
  }

 private:
  void find_range_and_cells(const float* map, double* to) const {
    double* cells = to + 2;
    const Sides block = {size_[0] / grid_[0], size_[1] / grid_[1], size_[2] / grid_[2]};
    std::fill_n(cells, volume(grid_), 0.0);
    float low = map[0], high = map[0];
    bool all_numbers = true;
    for (std::size_t z = 0; z < size_[0]; ++z)
      for (std::size_t y = 0; y < size_[1]; ++y) {
        const float* row = map + (z * size_[1] + y) * size_[2];
        double* cell = cells + ((z / block[0]) * grid_[1] + y / block[1]) * grid_[2];
        for (std::size_t c = 0; c < grid_[2]; ++c) {
          double sum = 0;
          for (std::size_t x = c * block[2]; x < (c + 1) * block[2]; ++x) {
            low = std::min(low, row[x]);
            high = std::max(high, row[x]);
            all_numbers &= row[x] == row[x];
            sum += row[x];
          }
          cell[c] += sum;
        }
      }
    const double share = 1.0 / static_cast<double>(volume(block));
    for (std::size_t c = 0; c < volume(grid_); ++c) cells[c] *= share;
    const double not_a_number = std::numeric_limits<double>::quiet_NaN();
    to[0] = all_numbers ? low : not_a_number;
    to[1] = all_numbers ? high : not_a_number;
  }

  /// The first location where the sum over the window is largest.
  void find_peak(const float* map, double* to) {
    const std::size_t rows = size_[0] * size_[1], columns = size_[2];
    const std::size_t ends[3] = {size_[0] - window_[0] + 1, size_[1] - window_[1] + 1,
                                 size_[2] - window_[2] + 1};
    for (std::size_t r = 0; r < rows; ++r)  // along rows
      slide(map + r * columns, &smooth_[r * columns], 1, 1, window_[2], ends[2]);
    for (std::size_t z = 0; z < size_[0]; ++z)  // across rows, all columns at once
      slide(&smooth_[z * size_[1] * columns], &smooth_[z * size_[1] * columns], columns, ends[2],
            window_[1], ends[1]);
    slide(smooth_.data(), smooth_.data(), size_[1] * columns, ends[1] * columns, window_[0],
          ends[0]);
    double most = -1;
    for (std::size_t z = 0; z < ends[0]; ++z)
      for (std::size_t y = 0; y < ends[1]; ++y)
        for (std::size_t x = 0; x < ends[2]; ++x) {
          const double value = smooth_[(z * size_[1] + y) * columns + x];
          if (value > most) {
            most = value;
            to[0] = static_cast<double>(z), to[1] = static_cast<double>(y);
            to[2] = static_cast<double>(x);
          }
        }
    if (most < 0) to[0] = to[1] = to[2] = 0;  // all NaN
  }

  /// Sums of `window` successive vectors of `width` numbers, `stride` apart; may work in place.
  template <typename T>
  void slide(const T* from, double* to, std::size_t stride, std::size_t width, std::size_t window,
             std::size_t count) {
    if (window == 1 && static_cast<const void*>(from) == to) return;
    std::fill_n(sums_.begin(), width, 0.0);
    for (std::size_t k = 0; k < window; ++k)
      for (std::size_t x = 0; x < width; ++x) sums_[x] += from[k * stride + x];
    for (std::size_t k = 0; k < count; ++k)
      for (std::size_t x = 0; x < width; ++x) {
        const double leaving = from[k * stride + x];
        to[k * stride + x] = sums_[x];
        if (k + 1 < count) sums_[x] += from[(k + window) * stride + x] - leaving;
      }
  }

  const Sides size_, grid_, window_;
  std::vector<double> smooth_, sums_;
};

}  // namespace comixup
