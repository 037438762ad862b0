// The shortlist: the four most promising labels of every location, on grids four locations wide.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "common/vec4f.hpp"
#include "common/vec8f.hpp"
#include "solver/grid.hpp"
#include "solver/inner_problem.hpp"

namespace comixup {

/// Labels are ranked by two rounds of messages (min-sum belief propagation): a neighbor's message
/// on a label is its least unary and pairwise cost given that label.
///
/// A row of the grid is one vector, and no loop has a branch that depends on the data.
class Shortlist {
 public:
  static constexpr int kSize = kLanes;

  explicit Shortlist(const Grid& grid)
      : size_(grid.size),
        row_size_(padded(grid.size, 2 * kVec8f) + 2 * kMargin),
        labels_(static_cast<std::size_t>(grid.size + 1) * kSize),
        costs_(static_cast<std::size_t>(grid.size + 1) * kSize),
        indices_(padded(grid.size, kVec8f)) {}

  const int* labels(int t) const { return &labels_[static_cast<std::size_t>(t) * kSize]; }
  const float* costs(int t) const { return &costs_[static_cast<std::size_t>(t) * kSize]; }

  /// Computes the four labels of least rank; fewer labels are repeated.
  template <typename Vec8f>
  void find(const InnerProblem& problem) {
    const std::size_t needed = static_cast<std::size_t>(problem.num_labels()) * row_size_;
    if (ranks_.size() < needed) {
      ranks_.resize(needed);
      messages_.resize(needed);  // margins stay 0
    }
    // The first messages are damped, since they include the receiver's own.
    find_messages<Vec8f>(problem, [&](int a) { return problem.unary(a); });
    add_messages<Vec8f>(problem, 0.75f);
    find_messages<Vec8f>(problem, [&](int a) { return rank(a); });
    add_messages<Vec8f>(problem, 1.0f);
    for (int t = 0; t < size_; t += kLanes) choose(problem, t);
  }

  /// Whether no single change of a labelling lowers its energy by more than `tie`.
  template <typename Vec8f>
  bool is_stable(const InnerProblem& problem, const int* x, float tie) {
    const int count = problem.num_labels();
    std::copy(x, x + size_, indices_.begin());
    for (int t = 0; t < size_; t += kVec8f) {
      const typename Vec8f::Indices at{&indices_[t], &indices_[t + kLanes]};
      for (int a = 0; a < count; ++a)
        Vec8f::look_up(problem.pairwise.row(a), count, at).store(message(a) + t);
    }
    if (size_ % kVec8f > 0) clear_margin(count);
    add_messages<Vec8f>(problem, 1);  // ranks are now total costs
    bool stable = true;
    for (int t = 0; t < size_; t += kLanes) {
      Vec4f least_total = load(rank(0) + t);
      for (int a = 1; a < count; ++a) least_total = min(least_total, load(rank(a) + t));
      for (int s = 0; s < kLanes; ++s) stable &= rank(x[t + s])[t + s] - least_total.lane[s] <= tie;
    }
    return stable;
  }

 private:
  static constexpr int kMargin = kLanes;  // zeros on both sides of a row of messages

  float* rank(int a) { return &ranks_[static_cast<std::size_t>(a) * row_size_]; }
  float* message(int a) { return &messages_[static_cast<std::size_t>(a) * row_size_ + kMargin]; }

  /// message[a] = min_b (cost_of(b) + V(a, b)), at all locations.
  template <typename Vec8f, typename CostOf>
  void find_messages(const InnerProblem& problem, CostOf&& cost_of) {
    const int count = problem.num_labels(), alike = problem.pairwise.alike();
    for (int t = 0; t < size_; t += 2 * kVec8f) {
      const auto cost = [&](int b) { return Vec16f<Vec8f>::load(cost_of(b) + t); };
      auto another = Vec16f<Vec8f>::broadcast(std::numeric_limits<float>::infinity());
      for (int b = 0; b < alike; ++b) another = min(another, cost(b));
      another = another + Vec16f<Vec8f>::broadcast(problem.pairwise.off_diagonal());
      for (int a = 0; a < count; ++a) {
        const float* pairwise = problem.pairwise.row(a);
        auto total = cost(a) + Vec16f<Vec8f>::broadcast(pairwise[a]);
        if (a < alike) total = min(total, another);  // covers all alike labels
        for (int b = a < alike ? alike : 0; b < count; ++b)
          total = min(total, cost(b) + Vec16f<Vec8f>::broadcast(pairwise[b]));
        total.store(message(a) + t);
      }
    }
    if (size_ % (2 * kVec8f) > 0) clear_margin(count);
  }

  /// There is no neighbor below the last row: its messages are 0.
  void clear_margin(int count) {
    for (int a = 0; a < count; ++a) store(Vec4f{}, message(a) + size_);
  }

  /// rank[a] = unary[a] + weight * the neighbors' messages on a.
  template <typename Vec8f>
  void add_messages(const InnerProblem& problem, float weight) {
    static constexpr float kLeft[kVec8f] = {0, 1, 1, 1, 0, 1, 1, 1};
    static constexpr float kRight[kVec8f] = {1, 1, 1, 0, 1, 1, 1, 0};
    const Vec8f left = Vec8f::load(kLeft), right = Vec8f::load(kRight);
    const Vec8f weights = Vec8f::broadcast(weight);
    for (int a = 0; a < problem.num_labels(); ++a) {
      const float* from = message(a);
      for (int t = 0; t < size_; t += kVec8f) {
        const Vec8f row = Vec8f::load(from + t - 1) * left + Vec8f::load(from + t + 1) * right;
        const Vec8f column = Vec8f::load(from + t - kLanes) + Vec8f::load(from + t + kLanes);
        (Vec8f::load(problem.unary(a) + t) + (row + column) * weights).store(rank(a) + t);
      }
    }
  }

  /// Selects the four labels of least rank at each of the four locations from t on.
  void choose(const InnerProblem& problem, int t) {
    Vec4f best[kSize];
    for (Vec4f& entry : best) entry = broadcast(std::numeric_limits<float>::infinity());
    for (int a = 0; a < problem.num_labels(); ++a) {
      Vec4f entry = tagged(load(rank(a) + t), a);
      for (int k = 0; k < kSize; ++k) {
        const Vec4f worse = max(best[k], entry);
        best[k] = min(best[k], entry);
        entry = worse;
      }
    }
    for (int s = 0; s < kLanes; ++s) {  // whole rows, as they are read next
      int* labels = &labels_[static_cast<std::size_t>(t + s) * kSize];
      tags(column(best, s), labels);
      int at[kSize];
      for (int k = 0; k < kSize; ++k) at[k] = labels[k] * problem.row_size();
      store(gather(problem.unary(0) + t + s, at), &costs_[static_cast<std::size_t>(t + s) * kSize]);
    }
  }

  const int size_, row_size_;
  std::vector<int> labels_;  // (n, 4), and room for one location more
  std::vector<float> costs_;
  std::vector<int> indices_;             // a labelling, padded
  std::vector<float> ranks_, messages_;  // (labels, n)
};

}  // namespace comixup
