// Small sets of numbers, kept as the bits of a few machine words.
#pragma once

#include <cstdint>

namespace comixup {

/// Positions of the lowest and of the highest bit of a word, which is not 0.
inline int lowest_bit(std::uint64_t word) {
#if defined(__GNUC__)
  return __builtin_ctzll(word);
#else
  int position = 0;
  for (; !(word & 1); word >>= 1) ++position;
  return position;
#endif
}

inline int highest_bit(std::uint64_t word) {
#if defined(__GNUC__)
  return 63 - __builtin_clzll(word);
#else
  int position = 0;
  for (; word > 1; word >>= 1) ++position;
  return position;
#endif
}

/// A set of numbers from 0 to 64 W - 1.
template <int W>
struct BitSet {
  static constexpr int kSize = 64 * W;
  std::uint64_t word[W] = {};

  bool has(int k) const { return word[k >> 6] >> (k & 63) & 1; }
  void insert(int k, bool really = true) {
    word[k >> 6] |= static_cast<std::uint64_t>(really) << (k & 63);
  }
  void remove(int k) { word[k >> 6] &= ~(std::uint64_t{1} << (k & 63)); }
  bool empty() const {
    std::uint64_t any = 0;
    for (const std::uint64_t w : word) any |= w;
    return any == 0;
  }
  /// All numbers made larger by 0 < `by` < 64 W; those that leave the range are lost.
  BitSet shifted_up(int by) const {
    BitSet result;
    const int words = by >> 6, bits = by & 63;
    if (words == 0) {  // the usual case, without branches
      result.word[0] = word[0] << bits;
      for (int w = 1; w < W; ++w) result.word[w] = word[w] << bits | word[w - 1] >> (64 - bits);
    } else {
      for (int w = words; w < W; ++w) {
        result.word[w] = word[w - words] << bits;
        if (bits > 0 && w > words) result.word[w] |= word[w - words - 1] >> (64 - bits);
      }
    }
    return result;
  }
  /// All numbers made smaller by 0 < `by` < 64 W; those that leave the range are lost.
  BitSet shifted_down(int by) const {
    BitSet result;
    const int words = by >> 6, bits = by & 63;
    if (words == 0) {
      for (int w = 0; w + 1 < W; ++w) result.word[w] = word[w] >> bits | word[w + 1] << (64 - bits);
      result.word[W - 1] = word[W - 1] >> bits;
    } else {
      for (int w = 0; w + words < W; ++w) {
        result.word[w] = word[w + words] >> bits;
        if (bits > 0 && w + words + 1 < W) result.word[w] |= word[w + words + 1] << (64 - bits);
      }
    }
    return result;
  }
  /// Calls visit(k) for all numbers, from the smallest up.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (int w = 0; w < W; ++w)
      for (std::uint64_t rest = word[w]; rest != 0; rest &= rest - 1)
        visit(64 * w + lowest_bit(rest));
  }
  /// The same from the largest number down.
  template <typename Visit>
  void for_each_down(Visit&& visit) const {
    for (int w = W - 1; w >= 0; --w)
      for (std::uint64_t rest = word[w]; rest != 0;) {
        const int bit = highest_bit(rest);
        rest ^= std::uint64_t{1} << bit;
        visit(64 * w + bit);
      }
  }
};
template <int W>
BitSet<W> operator&(BitSet<W> a, const BitSet<W>& b) {
  for (int w = 0; w < W; ++w) a.word[w] &= b.word[w];
  return a;
}
template <int W>
BitSet<W> operator|(BitSet<W> a, const BitSet<W>& b) {
  for (int w = 0; w < W; ++w) a.word[w] |= b.word[w];
  return a;
}
template <int W>
BitSet<W> without(BitSet<W> a, const BitSet<W>& b) {
  for (int w = 0; w < W; ++w) a.word[w] &= ~b.word[w];
  return a;
}

}  // namespace comixup
