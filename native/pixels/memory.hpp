// Writes and reads a saliency memory's maps: one byte per cell of an example, from an image's
// gradient. Readable twins are `joined` and `looked_up` in src/comixup/core/memory.py.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace comixup {

/// Writes the value of the cell that each pixel shows to `to`; 0 if it shows none. An example
/// without a map, all zero, is uniformly salient.
inline void read_map(const std::uint8_t* map, std::size_t cells, const std::uint8_t* numbers,
                     std::size_t pixels, float* to) {
  std::array<float, 256> values{};
  const bool known = std::any_of(map, map + cells, [](std::uint8_t b) { return b > 0; });
  for (std::size_t c = 0; c < cells; ++c) values[c + 1] = known ? map[c] : 1;
  for (std::size_t k = 0; k < pixels; ++k) to[k] = values[numbers[k]];
}

/// Computes maps from gradients of one size, reusing its buffers.
class MapWriter {
 public:
  /// Cells are numbered from 1 to `cells`, at most 254; pixels with other numbers show none.
  MapWriter(std::size_t channels, std::size_t pixels, std::size_t cells, bool channels_last,
            float momentum)
      : channels_(channels),
        pixels_(pixels),
        cells_(cells),
        channels_last_(channels_last),
        momentum_(momentum) {}

  /// Writes the new map of an example to `map` and returns true, or writes zeros and returns false
  /// if the gradient is zero or not finite. An image that shows no cell writes zeros, but returns
  /// true.
  ///
  /// `gradient` is (channels, pixels), or (pixels, channels) with channels last; `numbers` are the
  /// cells that the pixels show; `before` is the example's last map, all zero if there is none.
  bool run(const float* gradient, const std::uint8_t* numbers, const std::uint8_t* before,
           std::uint8_t* map) {
    sums_.fill(0);
    counts_.fill(0);
    for (std::size_t begin = 0; begin < pixels_; begin += kChunk) {
      const std::size_t count = std::min(kChunk, pixels_ - begin);
      channels_last_ ? square_last(gradient + begin * channels_, count)
                     : square_first(gradient + begin, count);
      add(numbers + begin, count);
    }
    return join(before, map);
  }

 private:
  static constexpr std::size_t kChunk = 256;

  void square_first(const float* from, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) norms_[k] = from[k] * from[k];
    for (std::size_t channel = 1; channel < channels_; ++channel) {
      const float* values = from + channel * pixels_;
      for (std::size_t k = 0; k < count; ++k) norms_[k] += values[k] * values[k];
    }
  }

  void square_last(const float* from, std::size_t count) {
    if (channels_ == 3) {  // a constant number is vectorized
      for (std::size_t k = 0; k < count; ++k)
        norms_[k] = from[3 * k] * from[3 * k] + from[3 * k + 1] * from[3 * k + 1] +
                    from[3 * k + 2] * from[3 * k + 2];
      return;
    }
    for (std::size_t k = 0; k < count; ++k) {
      const float* values = from + k * channels_;
      float sum = values[0] * values[0];
      for (std::size_t channel = 1; channel < channels_; ++channel)
        sum += values[channel] * values[channel];
      norms_[k] = sum;
    }
  }

  /// Adds runs of pixels of one cell at once, since they are mostly adjacent.
  void add(const std::uint8_t* numbers, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) norms_[k] = std::sqrt(norms_[k]);
    for (std::size_t k = 0; k < count;) {
      const std::uint8_t number = numbers[k];
      const std::size_t begin = k;
      float sum = 0;
      for (; k < count && numbers[k] == number; ++k) sum += norms_[k];
      sums_[number] += sum;
      counts_[number] += static_cast<std::uint32_t>(k - begin);
    }
  }

  /// Both maps are scaled to a mean of one over the shown cells. A previous mean below 1, the step
  /// of a byte, counts as 1: new values would be rounded away otherwise.
  bool join(const std::uint8_t* before, std::uint8_t* map) {
    const bool known = std::any_of(before, before + cells_, [](std::uint8_t b) { return b > 0; });
    float shown = 0, total = 0, known_total = 0;
    for (std::size_t c = 0; c < cells_; ++c) {
      old_[c] = known ? before[c] : 1;
      if (counts_[c + 1] == 0) continue;
      sums_[c + 1] /= static_cast<float>(counts_[c + 1]);
      shown += 1;
      total += sums_[c + 1];
      known_total += old_[c];
    }
    std::fill_n(map, cells_, std::uint8_t{0});
    if (shown == 0) return true;
    if (!(total > 0) || !std::isfinite(total)) return false;
    const float new_scale = shown / total, old_scale = shown / std::max(known_total, shown);
    float top = 0;
    for (std::size_t c = 0; c < cells_; ++c) {
      const float old = old_[c] * old_scale, fresh = sums_[c + 1] * new_scale;
      old_[c] = counts_[c + 1] == 0 ? old : known ? fresh + momentum_ * (old - fresh) : fresh;
      if (!std::isfinite(old_[c])) return false;
      top = std::max(top, old_[c]);
    }
    for (std::size_t c = 0; c < cells_; ++c)
      map[c] = static_cast<std::uint8_t>(std::nearbyint(old_[c] * (kTop / top)));
    return true;
  }

  static constexpr float kTop = 255;

  const std::size_t channels_, pixels_, cells_;
  const bool channels_last_;
  const float momentum_;
  std::array<float, kChunk> norms_;
  std::array<float, 256> sums_, old_;  // by cell number, any value of a byte
  std::array<std::uint32_t, 256> counts_;
};

}  // namespace comixup
