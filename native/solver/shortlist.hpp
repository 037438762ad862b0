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

/// Labels are ranked by two rounds of messages (min-sum belief propagation): a neighbour's message
/// about a label is the least that it must pay, itself and in charges, if that label is taken.
///
/// A row of the grid is one vector, and no loop has a branch that depends on the data.
class Shortlist {
 public:
  static constexpr int kSize = kLanes;

  explicit Shortlist(const Grid& grid)
      : size_(grid.size),
        row_size_(padded(grid.size, 2 * kOctet) + 2 * kMargin),
        labels_(static_cast<std::size_t>(grid.size + 1) * kSize),
        costs_(static_cast<std::size_t>(grid.size + 1) * kSize),
        places_(padded(grid.size, kOctet)) {}

  const int* labels(int t) const { return &labels_[static_cast<std::size_t>(t) * kSize]; }
  const float* costs(int t) const { return &costs_[static_cast<std::size_t>(t) * kSize]; }

  /// Finds the labels of least rank; where there are fewer than four, some are repeated.
  template <typename Octet>
  void find(const InnerProblem& problem) {
    const std::size_t needed = static_cast<std::size_t>(problem.num_labels()) * row_size_;
    if (ranks_.size() < needed) {
      ranks_.resize(needed);
      messages_.resize(needed);  // margins stay 0
    }
    // The first messages count a little less: they take no notice of the receiver's own part.
    find_messages<Octet>(problem, [&](int a) { return problem.unary(a); });
    add_messages<Octet>(problem, 0.75f);
    find_messages<Octet>(problem, [&](int a) { return rank(a); });
    add_messages<Octet>(problem, 1.0f);
    for (int t = 0; t < size_; t += kLanes) choose(problem, t);
  }

  /// Whether no single location of a labelling could do better by more than `tie`.
  template <typename Octet>
  bool is_stable(const InnerProblem& problem, const int* x, float tie) {
    const int count = problem.num_labels();
    std::copy(x, x + size_, places_.begin());
    for (int t = 0; t < size_; t += kOctet) {
      const typename Octet::Places at{&places_[t], &places_[t + kLanes]};
      for (int a = 0; a < count; ++a)
        Octet::look_up(problem.charges.row(a), count, at).to(message(a) + t);
    }
    if (size_ % kOctet > 0) clear_margin(count);
    add_messages<Octet>(problem, 1);  // ranks are now what each label would cost, charges and all
    bool stable = true;
    for (int t = 0; t < size_; t += kLanes) {
      Lanes least_total = load(rank(0) + t);
      for (int a = 1; a < count; ++a) least_total = least(least_total, load(rank(a) + t));
      for (int s = 0; s < kLanes; ++s) stable &= rank(x[t + s])[t + s] - least_total.lane[s] <= tie;
    }
    return stable;
  }

 private:
  static constexpr int kMargin = kLanes;  // on both sides of a row of messages: no neighbour there

  float* rank(int a) { return &ranks_[static_cast<std::size_t>(a) * row_size_]; }
  float* message(int a) { return &messages_[static_cast<std::size_t>(a) * row_size_ + kMargin]; }

  /// message[a] = min_b (cost_of(b) + V(a, b)), at all locations.
  template <typename Octet, typename CostOf>
  void find_messages(const InnerProblem& problem, CostOf&& cost_of) {
    const int count = problem.num_labels(), alike = problem.charges.alike();
    for (int t = 0; t < size_; t += 2 * kOctet) {
      const auto cost = [&](int b) { return OctetPair<Octet>::from(cost_of(b) + t); };
      auto another = OctetPair<Octet>::everywhere(std::numeric_limits<float>::infinity());
      for (int b = 0; b < alike; ++b) another = least(another, cost(b));
      another = another + OctetPair<Octet>::everywhere(problem.charges.off_diagonal());
      for (int a = 0; a < count; ++a) {
        const float* charge = problem.charges.row(a);
        auto total = cost(a) + OctetPair<Octet>::everywhere(charge[a]);
        if (a < alike) total = least(total, another);  // no need to go through them
        for (int b = a < alike ? alike : 0; b < count; ++b)
          total = least(total, cost(b) + OctetPair<Octet>::everywhere(charge[b]));
        total.to(message(a) + t);
      }
    }
    if (size_ % (2 * kOctet) > 0) clear_margin(count);
  }

  /// Below the last row there is nobody to say anything.
  void clear_margin(int count) {
    for (int a = 0; a < count; ++a) store(Lanes{}, message(a) + size_);
  }

  /// rank[a] = unary[a] + weight * the neighbours' messages about a.
  template <typename Octet>
  void add_messages(const InnerProblem& problem, float weight) {
    static constexpr float kLeft[kOctet] = {0, 1, 1, 1, 0, 1, 1, 1};
    static constexpr float kRight[kOctet] = {1, 1, 1, 0, 1, 1, 1, 0};
    const Octet left = Octet::from(kLeft), right = Octet::from(kRight);
    const Octet weights = Octet::everywhere(weight);
    for (int a = 0; a < problem.num_labels(); ++a) {
      const float* from = message(a);
      for (int t = 0; t < size_; t += kOctet) {
        const Octet row = Octet::from(from + t - 1) * left + Octet::from(from + t + 1) * right;
        const Octet column = Octet::from(from + t - kLanes) + Octet::from(from + t + kLanes);
        (Octet::from(problem.unary(a) + t) + (row + column) * weights).to(rank(a) + t);
      }
    }
  }

  /// Sorts the labels of the four locations from t on into the four of least rank each.
  void choose(const InnerProblem& problem, int t) {
    Lanes best[kSize];
    for (Lanes& entry : best) entry = all_lanes(std::numeric_limits<float>::infinity());
    for (int a = 0; a < problem.num_labels(); ++a) {
      Lanes entry = tagged(load(rank(a) + t), a);
      for (int k = 0; k < kSize; ++k) {
        const Lanes worse = most(best[k], entry);
        best[k] = least(best[k], entry);
        entry = worse;
      }
    }
    for (int s = 0; s < kLanes; ++s) {  // whole rows: they are soon read as such
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
  std::vector<int> places_;              // a labelling, padded
  std::vector<float> ranks_, messages_;  // (labels, n)
};

}  // namespace comixup
