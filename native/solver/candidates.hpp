// The labels that one output may take in an inner step, with their unary and pairwise costs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "common/checkpoint.hpp"
#include "common/vec4f.hpp"
#include "solver/grid.hpp"
#include "solver/inner_problem.hpp"
#include "solver/labels.hpp"
#include "solver/problem.hpp"

namespace comixup {

class Candidates {
 public:
  /// Mixed labels are built from this many of the inputs that an output uses most.
  static constexpr int kTopSources = 3;

  /// Candidates are added to `inner`, whose locations are in visiting order.
  Candidates(const Grid& grid, const ProblemView& problem, const LabelRules& rules, int levels,
             InnerProblem& inner, Checkpoint& checkpoint)
      : rules_(rules),
        inner_(inner),
        checkpoint_(checkpoint),
        n_(grid.size),
        m_(problem.inputs),
        levels_(levels),
        row_size_(inner.row_size()),
        cost_(static_cast<std::size_t>(m_) * row_size_),
        base_(m_),
        bound_(row_size_),
        margin_(row_size_),
        near_(m_),
        candidate_of_(m_, -1),
        label_(levels) {
    // The inner step uses single precision and costs relative to the cheapest label at a location:
    // a constant changes no decision, but would cost precision.
    const auto cost = [&](int i, int t) {
      return problem.cost[static_cast<std::size_t>(i) * n_ + grid.location[t]];
    };
    std::vector<double> least_cost(n_, std::numeric_limits<double>::infinity());
    double cost_range = 0;
    for (int t = 0; t < n_; ++t) {
      double most_cost = -std::numeric_limits<double>::infinity();
      for (int i = 0; i < m_; ++i) {
        least_cost[t] = std::min(least_cost[t], cost(i, t));
        most_cost = std::max(most_cost, cost(i, t));
      }
      cost_range = std::max(cost_range, most_cost - least_cost[t]);
      checkpoint.after(2 * m_);
    }
    unit_ = EnergyUnit(largest_energy(problem, n_, cost_range));
    for (int i = 0; i < m_; ++i, checkpoint.after(2 * n_))
      for (int t = 0; t < n_; ++t)
        cost_[static_cast<std::size_t>(i) * row_size_ + t] = unit_(cost(i, t) - least_cost[t]);
    const double beta = problem.weights.beta;
    eta_ = unit_.wide(problem.weights.eta);
    beta_ = unit_(beta);
    useful_ = unit_.wide((cost_range + grid.max_degree * beta) * (1 + 1e-6));
    for (int t = 0; t < n_; ++t)  // the most that neighbors can add, and a margin for rounding
      margin_[t] = unit_((beta * grid.neighbours[t].size()) * (1 + 1e-5) + 1e-6 * cost_range);
    for (int u = 0; u <= rules.most_units(); ++u)
      pairwise_of_units_.push_back(unit_(beta * u / rules.most_units()));
  }

  /// Computes the candidates of an output with labels z and inputs `support`, given the penalty on
  /// each input; `mixed` adds blends to one-hot labels. Writes the candidate of each location to
  /// `present`, -1 for a one-hot label that cannot be best anywhere.
  void find(const std::vector<double>& penalty, const int* z, const SourceCounts& support,
            bool mixed, int* present) {
    const double least_penalty = *std::min_element(penalty.begin(), penalty.end());
    for (int i = 0; i < m_; ++i) base_[i] = unit_(penalty[i] - least_penalty);
    add_pure();
    if (mixed) add_multisets_of_top(support);
    for (int t = 0; t < n_; ++t, z += levels_)
      present[t] = is_pure(z) ? candidate_of_[z[0]] : add_mixed(z);
    fill_pairwise();
    checkpoint_.after(static_cast<std::size_t>(count()) * count());
  }

  const int* label(int c) const { return &sources_[static_cast<std::size_t>(c) * levels_]; }
  /// (1/L) log of the number of orders in which a label can be drawn.
  double bonus(int c) const { return bonus_[c]; }
  /// V between two candidates, in units of the rules.
  int units(int a, int b) const { return units_[static_cast<std::size_t>(a) * count() + b]; }

 private:
  int count() const { return inner_.num_labels(); }
  bool is_pure(const int* label) const { return label[0] == label[levels_ - 1]; }
  const float* cost(int i) const { return &cost_[static_cast<std::size_t>(i) * row_size_]; }

  /// Adds the one-hot labels that can be best somewhere: a neighbor favors one over another by at
  /// most beta.
  void add_pure() {
    for (int c = 0; c < pure_; ++c) candidate_of_[label(c)[0]] = -1;  // from the last call
    int near = 0;
    for (int i = 0; i < m_; ++i) {
      near_[near] = i;
      near += base_[i] <= useful_;
    }
    for (int t = 0; t < n_; t += kLanes) {
      Vec4f bound = broadcast(std::numeric_limits<float>::infinity());
      for (int a = 0; a < near; ++a) bound = min(bound, load(cost(near_[a]) + t) + base_[near_[a]]);
      store(negative(bound + load(&margin_[t])), &bound_[t]);  // so that it can be added
      checkpoint_.after(near);
    }
    std::fill(bound_.begin() + n_, bound_.end(), std::numeric_limits<float>::infinity());
    inner_.clear();
    sources_.resize(static_cast<std::size_t>(near) * levels_);
    int kept = 0;
    for (int a = 0; a < near; ++a) {
      const int i = near_[a];
      const float* c = cost(i);
      const float base = base_[i];
      float* to = inner_.add_label();
      Vec4f closest = broadcast(std::numeric_limits<float>::infinity());
      for (int t = 0; t < n_; t += kLanes) {
        const Vec4f u = load(c + t) + base;
        store(u, to + t);
        closest = min(closest, u + load(&bound_[t]));
      }
      const bool useful = min_lane(closest) <= 0;
      for (int l = 0; l < levels_; ++l) sources_[kept * levels_ + l] = i;
      candidate_of_[i] = useful ? kept : -1;
      kept += useful;
      inner_.keep_labels(kept);
      checkpoint_.after(n_);
    }
    pure_ = kept;
    sources_.resize(static_cast<std::size_t>(kept) * levels_);
    bonus_.assign(kept, 0.0);
    norms_.clear();
  }

  /// Adds the multisets of the inputs that this output uses most.
  void add_multisets_of_top(const SourceCounts& support) {
    top_.assign(support.begin(), support.end());
    while (top_.size() > kTopSources) {  // drop the last of the least used
      std::size_t least_used = 0;
      for (std::size_t a = 1; a < top_.size(); ++a)
        if (top_[a].count <= top_[least_used].count) least_used = a;
      top_.erase(top_.begin() + static_cast<std::ptrdiff_t>(least_used));
    }
    if (top_.size() > 1) add_multisets(0, 0);
  }

  void add_multisets(int position, std::size_t from) {
    if (position == levels_) {
      if (!is_pure(label_.data())) add_mixed(label_.data());
      return;
    }
    for (std::size_t a = from; a < top_.size(); ++a) {
      label_[position] = top_[a].input;
      add_multisets(position + 1, a);
    }
  }

  /// Adds a mixed label unless it exists, and returns its index.
  int add_mixed(const int* label) {
    for (int c = pure_; c < count(); ++c) {
      int differences = 0;
      for (int l = 0; l < levels_; ++l) differences += this->label(c)[l] != label[l];
      if (differences == 0) return c;
    }
    sources_.insert(sources_.end(), label, label + levels_);
    bonus_.push_back(rules_.bonus(label));
    norms_.push_back(rules_.inner(label, label));
    float* row = inner_.add_label();
    const auto share = 1.0f / static_cast<float>(levels_);
    std::fill_n(row, row_size_, static_cast<float>(-eta_ * bonus_.back()));
    for (int l = 0; l < levels_; ++l) {
      const float* c = cost(label[l]);
      const float base = base_[label[l]];
      for (int t = 0; t < n_; t += kLanes)
        store(load(row + t) + (load(c + t) + base) * share, row + t);
    }
    return count() - 1;
  }

  void fill_pairwise() {
    const int pure_norm = levels_ * levels_;
    inner_.pairwise.reset(count(), beta_);
    units_.assign(static_cast<std::size_t>(count()) * count(), rules_.most_units());
    for (int a = 0; a < count(); ++a) units_[static_cast<std::size_t>(a) * count() + a] = 0;
    for (int a = pure_; a < count(); ++a) {
      const int norm = norms_[a - pure_];
      // A mixed label has the same cost to all inputs that it does not contain.
      const int apart = rules_.units(0, norm, pure_norm);
      for (int b = 0; b < pure_; ++b) set_pairwise(a, b, apart);
      for (int l = 0, run = 0; l < levels_; ++l) {
        run = l > 0 && label(a)[l] == label(a)[l - 1] ? run + 1 : 1;  // the last of equals counts
        const int b = candidate_of_[label(a)[l]];
        if (b >= 0) set_pairwise(a, b, rules_.units(run * levels_, norm, pure_norm));
      }
      for (int b = pure_; b <= a; ++b)
        set_pairwise(a, b, rules_.units(rules_.inner(label(a), label(b)), norm, norms_[b - pure_]));
    }
  }

  void set_pairwise(int a, int b, int units) {
    units_[static_cast<std::size_t>(a) * count() + b] = units;
    units_[static_cast<std::size_t>(b) * count() + a] = units;
    inner_.pairwise.set(a, b, pairwise_of_units_[units]);
  }

  const LabelRules& rules_;
  InnerProblem& inner_;
  Checkpoint& checkpoint_;
  const int n_, m_, levels_;
  const int row_size_;
  EnergyUnit unit_{0};  // of all that follows
  double eta_ = 0;
  float beta_ = 0;
  double useful_ = 0;        // labels with a larger penalty cannot be best anywhere
  int pure_ = 0;             // the first candidates are one-hot
  std::vector<float> cost_;  // (m, n), visiting order, above the cheapest
  std::vector<float> base_;  // penalty of each input above the least one
  std::vector<float> bound_, margin_;
  std::vector<float> pairwise_of_units_;  // of each number of units
  std::vector<int> near_, candidate_of_, label_;
  std::vector<int> sources_;   // (candidates, L)
  std::vector<int> norms_;     // L^2 z.z of each mixed candidate
  std::vector<double> bonus_;  // of each candidate
  std::vector<int> units_;     // (candidates, candidates)
  std::vector<SourceCount> top_;
};

}  // namespace comixup
