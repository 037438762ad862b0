// Puzzle Mix's transport: salient blocks move to locations that their image may show.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/checkpoint.hpp"

namespace comixup {

/// Computes the moves of blocks on one grid; all memory is allocated once.
///
/// The cost of moving block j to location i is eps |i - j|^2 / (g - 1)^2 - saliency[j] [i is
/// granted], with g the longest side. In each of g rounds every block chooses its cheapest location
/// (the first, where several are), the cheapest block that chose a location wins it (likewise), and
/// every loser's cost of that location rises by 1.
class Transport {
 public:
  Transport(const std::vector<int>& sides, double eps) : eps_(eps) {
    for (const int side : sides) {
      size_ *= side;
      longest_ = std::max(longest_, side);
    }
    for (int k = 0; k < size_; ++k) {
      int rest = k;
      for (auto side = sides.rbegin(); side != sides.rend(); ++side) {
        position_.push_back(rest % *side);
        rest /= *side;
      }
    }
    dimensions_ = static_cast<int>(sides.size());
    const int furthest = std::max(1, longest_ - 1);
    unit_ = eps / (static_cast<double>(furthest) * furthest);
    choice_.resize(index(size_));
    price_.resize(index(size_));
    winner_.resize(index(size_));
    lost_.resize(index(size_));
  }

  /// Writes the block that each location receives. A location that no block won keeps its own; it
  /// is not granted (see below), so it is not visible.
  ///
  /// A granted location always has a block: its own chooses it first, unless others are as cheap,
  /// and the block that holds it keeps choosing it until a cheaper one does.
  void solve(const float* saliency, const std::uint8_t* granted, std::int32_t* block_at,
             Checkpoint& checkpoint) {
    for (auto& locations : lost_) locations.clear();
    for (int j = 0; j < size_; ++j) choose(j, saliency, granted, checkpoint);
    for (int round = 0;; ++round) {
      std::fill(winner_.begin(), winner_.end(), -1);
      for (int j = 0; j < size_; ++j) {
        std::int32_t& winner = winner_[index(choice_[index(j)])];
        if (winner < 0 || price_[index(j)] < price_[index(winner)]) winner = j;
      }
      if (round + 1 >= longest_) break;
      bool settled = true;
      for (int j = 0; j < size_; ++j) {
        if (winner_[index(choice_[index(j)])] == j) continue;
        settled = false;
        lost_[index(j)].push_back(choice_[index(j)]);
        choose(j, saliency, granted, checkpoint);
      }
      if (settled) break;
    }
    for (int i = 0; i < size_; ++i) block_at[i] = winner_[index(i)] < 0 ? i : winner_[index(i)];
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  /// Computes the cheapest location of block j and its cost.
  void choose(int j, const float* saliency, const std::uint8_t* granted, Checkpoint& checkpoint) {
    const double worth = saliency[j];
    const bool first = lost_[index(j)].empty();
    // Its own location is the cheapest if granted, or if any move costs too much.
    if (first && eps_ > 0 && (granted[j] || worth < unit_)) {
      choice_[index(j)] = j;
      price_[index(j)] = granted[j] ? -worth : 0.0;
      return;
    }
    checkpoint.after(4 * index(size_) * (1 + lost_[index(j)].size()));
    int best = 0;
    double least = 0;
    for (int i = 0; i < size_; ++i) {
      double cost = unit_ * squared_distance(i, j) - (granted[i] ? worth : 0.0);
      if (!first)
        for (const int location : lost_[index(j)]) cost += location == i;
      if (i == 0 || cost < least) least = cost, best = i;
    }
    choice_[index(j)] = best;
    price_[index(j)] = least;
  }

  int squared_distance(int i, int j) const {
    int sum = 0;
    for (int d = 0; d < dimensions_; ++d) {
      const int apart =
          position_[index(i * dimensions_ + d)] - position_[index(j * dimensions_ + d)];
      sum += apart * apart;
    }
    return sum;
  }

  double eps_, unit_ = 0;
  int size_ = 1, longest_ = 1, dimensions_ = 1;
  std::vector<int> position_;           // coordinates of each location
  std::vector<std::int32_t> choice_;    // the location that each block chose
  std::vector<double> price_;           // and its cost
  std::vector<std::int32_t> winner_;    // the block that holds each location, or -1
  std::vector<std::vector<int>> lost_;  // locations that each block lost, once for each time
};

}  // namespace comixup
