// The baseline of appendix D: the submodular-supermodular procedure of Narasimhan and Bilmes
// (2005).
//
// The compatibility term is taken as a set function on the elements (output j, location k, input
// i). It is bounded from above, tightly at the present set, by a modular function: the gains along
// a random chain of sets that passes through the present set. The bound and the submodular rest are
// minimized together, output by output, with the same inner step as Algorithm 1; then again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "common/checkpoint.hpp"
#include "solver/grid.hpp"
#include "solver/minimize.hpp"
#include "solver/problem.hpp"

namespace comixup {

class NarasimhanBilmes {
 public:
  /// `total_clip` is Eq. (1)'s max over all pairs of outputs; minus infinity for none.
  NarasimhanBilmes(const Grid& grid, const ProblemView& problem, double total_clip,
                   std::uint64_t seed, Checkpoint& checkpoint)
      : problem_(problem),
        total_clip_(total_clip),
        checkpoint_(checkpoint),
        minimizer_(grid, checkpoint),
        random_(seed),
        n_(grid.size),
        m_(problem.inputs),
        outputs_(problem.outputs) {}

  /// Improves one-hot `labels`, (m', n) in visiting order, for at most `iterations`; returns the
  /// number of iterations until nothing changed.
  int run(int* labels, const double* cost, int iterations) {
    find_unit(cost);
    for (int iteration = 1; iteration <= iterations; ++iteration) {
      modularize(labels);
      bool changed = false;
      for (int j = 0; j < outputs_; ++j) changed |= minimize_output(j, labels, cost);
      if (!changed) return iteration;
    }
    return iterations;
  }

 private:
  void find_unit(const double* cost) {
    double cost_range = 0;
    for (int t = 0; t < n_; ++t) {
      double low = cost[t], high = cost[t];
      for (int i = 1; i < m_; ++i) {
        low = std::min(low, cost[static_cast<std::size_t>(i) * n_ + t]);
        high = std::max(high, cost[static_cast<std::size_t>(i) * n_ + t]);
      }
      cost_range = std::max(cost_range, high - low);
    }
    unit_ = EnergyUnit(largest_energy(problem_, n_, cost_range));
  }

  /// Computes `gain_`, the modular bound: for each element, the increase of the compatibility term
  /// when it joins the chain. The present set comes first, then all other elements, each in random
  /// order; locations are then multi-hot, for which the term is defined too.
  void modularize(const int* labels) {
    const int elements = outputs_ * n_ * m_;
    std::vector<int> chain, others;
    for (int e = 0; e < elements; ++e) {
      (labels[e / m_] == e % m_ ? chain : others).push_back(e);
      checkpoint_.after(8);
    }
    shuffle(chain);
    shuffle(others);
    chain.insert(chain.end(), others.begin(), others.end());

    std::vector<double> total(m_, 0.0);                                     // A sum_j o_j
    std::vector<double> own(static_cast<std::size_t>(outputs_) * m_, 0.0);  // A o_j
    gain_.assign(elements, 0.0);
    double value = 0;
    for (const int e : chain) {
      const int j = e / (n_ * m_), i = e % m_;
      double* own_j = own.data() + static_cast<std::size_t>(j) * m_;
      const double grown = value + 2 * (total[i] - own_j[i]);
      gain_[e] = std::max(grown, total_clip_) - std::max(value, total_clip_);
      value = grown;
      const double* row = problem_.compatibility + static_cast<std::size_t>(i) * m_;
      for (int h = 0; h < m_; ++h) {
        total[h] += row[h];
        own_j[h] += row[h];
      }
      checkpoint_.after(16 + m_);
    }
  }

  bool minimize_output(int j, int* labels, const double* cost) {
    minimizer_.problem().clear();
    const double* gain = gain_.data() + static_cast<std::size_t>(j) * n_ * m_;
    const auto total = [&](int i, int t) {
      return cost[static_cast<std::size_t>(i) * n_ + t] + problem_.weights.gamma * gain[t * m_ + i];
    };
    std::vector<double> least_total(n_, std::numeric_limits<double>::infinity());
    for (int i = 0; i < m_; ++i)
      for (int t = 0; t < n_; ++t) least_total[t] = std::min(least_total[t], total(i, t));
    for (int i = 0; i < m_; ++i) {
      float* row = minimizer_.problem().add_label();
      for (int t = 0; t < n_; ++t) row[t] = unit_(total(i, t) - least_total[t]);
    }
    minimizer_.problem().pairwise.reset(m_, unit_(problem_.weights.beta));
    int* mine = labels + static_cast<std::size_t>(j) * n_;
    const std::vector<int> before(mine, mine + n_);
    minimizer_.minimize(mine);
    return !std::equal(before.begin(), before.end(), mine);
  }

  /// Fisher-Yates; std::shuffle would differ between standard libraries.
  void shuffle(std::vector<int>& list) {
    for (std::size_t last = list.size(); last > 1; --last) {
      std::swap(list[last - 1], list[random_() % last]);
      checkpoint_.after(16);
    }
  }

  const ProblemView& problem_;
  const double total_clip_;
  Checkpoint& checkpoint_;
  Minimizer minimizer_;
  std::mt19937_64 random_;
  const int n_, m_, outputs_;
  std::vector<double> gain_;
  EnergyUnit unit_{0};
};

}  // namespace comixup
