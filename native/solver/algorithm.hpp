// Algorithm 1: iterative submodular minimization over the outputs of one batch.
//
// The outer loop is that of src/comixup/core/reference.py, written to be read: the same steps in
// the same order, and the paper's letters in both: i input, j output, k location, m inputs, n
// locations, L levels, z_j the labels of output j, o_j its source counts, v the load, A the
// compatibility; t is a location in visiting order (see grid.hpp). The inner step, minimize.hpp,
// differs from the reference's: if several labellings are nearly best, the results may differ.
//
//   here                             there
//   Algorithm1::run                  solve
//   run_sweep                        algorithm_1
//   minimize_output                  load_from_others, modularize, argmin
//   Candidates                       candidate_labels, mixing_bonus, pairwise_costs
//   Weights::phi                     phi
//   update_support                   source_counts
//   perturb                          perturb
//   find_duplicates                  duplicates, resolving_penalty
//   objective_value                  objective_value
//   is_better                        is_better
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "common/checkpoint.hpp"
#include "solver/candidates.hpp"
#include "solver/grid.hpp"
#include "solver/labels.hpp"
#include "solver/minimize.hpp"
#include "solver/problem.hpp"

namespace comixup {

struct Settings {
  int sweeps = 4;
  int levels = 2;
  bool resolve = false;
};

class Algorithm1 {
 public:
  Algorithm1(const Grid& grid, const ProblemView& problem, const Settings& settings,
             Checkpoint& checkpoint)
      : grid_(grid),
        problem_(problem),
        w_(problem.weights),
        settings_(settings),
        checkpoint_(checkpoint),
        rules_(settings.levels, w_.smoothness),
        minimizer_(grid, checkpoint),
        candidates_(grid, problem, rules_, settings.levels, minimizer_.problem(), checkpoint),
        n_(grid.size),
        m_(problem.inputs),
        levels_(settings.levels),
        z_(static_cast<std::size_t>(problem.outputs) * n_ * levels_),
        source_counts_(static_cast<std::size_t>(problem.outputs) * (m_ + 1)),
        num_sources_(problem.outputs),
        own_load_(static_cast<std::size_t>(problem.outputs) * m_),
        load_(m_),
        penalty_(m_),
        uses_(m_),
        own_energy_(problem.outputs),
        labels_(n_) {}

  /// Runs the sweeps from i.i.d. one-hot labels `start`, (m', n) row-major.
  void run(const std::int32_t* start) {
    initialize(start);
    objective_values_.assign(settings_.sweeps, 0);
    bool settled = false;  // whether a sweep changed nothing: the remaining ones are spare
    int perturbations = 0;
    for (int sweep = 0; sweep < settings_.sweeps; ++sweep) {
      const bool resolving = settings_.resolve && sweep > 0 && sweep == settings_.sweeps - 1;
      const bool spare = settled && !resolving;
      if (resolving || settled) restore_best();
      if (resolving) find_duplicates();
      if (spare && !perturb(perturbations++)) {  // all perturbations have been tried
        objective_values_[sweep] = objective_values_[sweep - 1];
        continue;
      }
      const bool changed = run_sweep(sweep > 0, resolving);
      objective_values_[sweep] = objective_value();
      const Rank rank = {settings_.resolve ? find_duplicates() : 0.0, objective_values_[sweep]};
      const bool better = sweep == 0 || is_better(rank, best_rank_);
      if (better) {
        best_rank_ = rank;
        best_ = z_;
      }
      settled = spare ? !better : sweep > 0 && !changed;
      if (spare && !better)  // the result of the perturbation is discarded
        objective_values_[sweep] = objective_values_[sweep - 1];
    }
  }

  /// Number of duplicated outputs (if they are to be resolved), then objective value: lower is
  /// better.
  using Rank = std::pair<double, double>;

  /// The best labelling of a run.
  struct Result {
    Rank rank;
    std::vector<int> labels;               ///< (m', n, L), locations in visiting order
    std::vector<double> objective_values;  ///< after every sweep

    /// Whether it is better than another by more than rounding.
    bool better_than(const Result& other) const { return is_better(rank, other.rank); }
  };
  Result take_result() { return {best_rank_, std::move(best_), std::move(objective_values_)}; }

 private:
  static constexpr double kRounding = 1e-14;
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();
  static bool is_better(const Rank& a, const Rank& b) {
    return a.first != b.first ? a.first < b.first
                              : a.second < b.second - kRounding * std::fabs(b.second);
  }

  int* z(int j, int t = 0) { return z_.data() + (static_cast<std::size_t>(j) * n_ + t) * levels_; }

  void initialize(const std::int32_t* start) {
    for (int j = 0; j < problem_.outputs; ++j)
      for (int t = 0; t < n_; ++t)
        std::fill_n(z(j, t), levels_, start[static_cast<std::size_t>(j) * n_ + grid_.location[t]]);
    recompute_state();
  }

  void restore_best() {
    z_ = best_;
    recompute_state();
  }

  // ---- Spare sweeps: perturbations to escape the local optimum.

  /// Sets outputs to one input each as the start of the next sweep; returns false if all
  /// perturbations have been tried. The first one assigns each output a different input, the one it
  /// uses most; the others set one output to one input.
  ///
  /// Paper: stops here. The remaining sweeps start from perturbed labels instead.
  bool perturb(int number) {
    if (number == 0) {
      taken_.assign(m_, 0);
      for (int j = 0; j < problem_.outputs; ++j) {
        const int own = favourite(j);
        taken_[own] = 1;
        std::fill_n(z(j), n_ * levels_, own);
      }
    } else {
      const int output = (number - 1) % problem_.outputs, input = (number - 1) / problem_.outputs;
      if (input >= m_) return false;
      std::fill_n(z(output), n_ * levels_, input);
    }
    recompute_state();
    return true;
  }

  /// The input that output j uses most among those not taken; else the first one not taken; if all
  /// are taken, the one it uses most.
  int favourite(int j) const {
    const SourceCount* best = nullptr;
    for (const SourceCount& source : support(j))
      if (!taken_[source.input] && (!best || source.count > best->count)) best = &source;
    if (best) return best->input;
    const auto free = std::find(taken_.begin(), taken_.end(), 0);
    if (free != taken_.end()) return static_cast<int>(free - taken_.begin());
    return std::max_element(
               support(j).begin(), support(j).end(),
               [](const SourceCount& a, const SourceCount& b) { return a.count < b.count; })
        ->input;
  }

  // ---- State shared by the outputs: source counts o_j and load v.

  /// o_j as a sparse vector, in the order of inputs.
  SourceCounts support(int j) const { return {&source_counts_[offset(j)], num_sources_[j]}; }
  std::size_t offset(int j) const { return static_cast<std::size_t>(j) * (m_ + 1); }

  /// Output j's contribution to the load on each input, 2 A o_j.
  double* own_load(int j) { return &own_load_[static_cast<std::size_t>(j) * m_]; }

  /// Recomputes o_j and its contribution to the load.
  void update_support(int j) {
    checkpoint_.after(2 * (n_ * levels_ + m_));
    const int* sources = z(j);
    for (int s = 0; s < n_ * levels_; ++s) ++uses_[sources[s]];
    SourceCount* counts = &source_counts_[offset(j)];
    int used = 0;
    for (int i = 0; i < m_; ++i) {  // without branches
      counts[used] = {i, static_cast<double>(uses_[i])};
      used += uses_[i] > 0;
      uses_[i] = 0;
    }
    for (int a = 0; a < used; ++a) counts[a].count /= levels_;
    num_sources_[j] = used;
    double* own_load = this->own_load(j);
    std::fill_n(own_load, m_, 0.0);
    for (const SourceCount& source : support(j)) {
      const double* row = problem_.compatibility + static_cast<std::size_t>(source.input) * m_;
      for (int i = 0; i < m_; ++i) own_load[i] += 2 * source.count * row[i];
      checkpoint_.after(m_);
    }
  }

  /// Recomputes the state from z.
  void recompute_state() {
    for (int j = 0; j < problem_.outputs; ++j) update_support(j);
    std::fill(own_energy_.begin(), own_energy_.end(), kUnknown);
    sum_load();
  }

  void sum_load() {
    std::fill(load_.begin(), load_.end(), 0.0);
    for (int j = 0; j < problem_.outputs; ++j)
      for (int i = 0; i < m_; ++i) load_[i] += own_load(j)[i];
    checkpoint_.after(own_load_.size());
  }

  // ---- Algorithm 1.

  /// One iteration t of Algorithm 1; returns whether any output changed. `mixed`: labels may be
  /// blends; `resolving`: `penalized_` inputs cost extra.
  bool run_sweep(bool mixed, bool resolving) {
    bool changed = false;
    for (int j = 0; j < problem_.outputs; ++j) changed |= minimize_output(j, mixed, resolving);
    sum_load();  // recomputed, so that rounding errors do not accumulate
    return changed;
  }

  /// Solves z_j = argmin of the modularized f_j; returns whether z_j changed.
  bool minimize_output(int j, bool mixed, bool resolving) {
    for (int i = 0; i < m_; ++i) load_[i] -= own_load(j)[i];  // now v_-j, Eq. (2)
    for (int i = 0; i < m_; ++i) penalty_[i] = w_.gamma * w_.phi(load_[i]);
    if (resolving && penalized_[j] >= 0) penalty_[penalized_[j]] += w_.gamma;
    candidates_.find(penalty_, z(j), support(j), mixed, labels_.data());
    minimizer_.minimize(labels_.data());

    int differences = 0;
    int* here = z(j);
    for (const int c : labels_) {
      const int* label = candidates_.label(c);
      for (int l = 0; l < levels_; ++l, ++here) {
        differences += *here != label[l];
        *here = label[l];
      }
    }
    if (differences > 0) update_support(j);
    if (differences > 0 || own_energy_[j] == kUnknown) own_energy_[j] = own_energy(j);
    for (int i = 0; i < m_; ++i) load_[i] += own_load(j)[i];
    return differences > 0;
  }

  // ---- Duplicates: outputs with the same support (the authors' `resolve`).

  /// Returns the number of outputs with the support of an earlier one, and writes the penalized
  /// input of each to `penalized_`: for the r-th output with a support its r-th input.
  double find_duplicates() {
    const int outputs = problem_.outputs;
    by_support_.resize(outputs);
    std::iota(by_support_.begin(), by_support_.end(), 0);
    std::sort(by_support_.begin(), by_support_.end(), [&](int a, int b) {
      const int order = compare_supports(a, b);
      return order != 0 ? order < 0 : a < b;
    });
    checkpoint_.after(static_cast<std::size_t>(256) * outputs);
    penalized_.assign(outputs, -1);
    int duplicates = 0;
    for (int first = 0, last; first < outputs; first = last) {  // groups of one support
      for (last = first + 1; last < outputs; ++last)
        if (compare_supports(by_support_[first], by_support_[last]) != 0) break;
      duplicates += last - first - 1;
      const int inputs = num_sources_[by_support_[first]];
      if (last - first > 1)
        for (int r = 0; r < std::min(inputs, last - first); ++r)
          penalized_[by_support_[first + r]] = (support(by_support_[first]).begin() + r)->input;
    }
    return duplicates;
  }

  /// Less than, equal to or greater than zero: some order of the sets of inputs that two outputs
  /// use.
  int compare_supports(int a, int b) const {
    if (num_sources_[a] != num_sources_[b]) return num_sources_[a] - num_sources_[b];
    const SourceCount* other = support(b).begin();
    for (const SourceCount& source : support(a)) {
      if (source.input != other->input) return source.input - other->input;
      ++other;
    }
    return 0;
  }

  // ---- Objective value.

  /// Costs, prior and smoothness of output j, which has just been solved.
  double own_energy(int j) {
    double cost = 0, bonus = 0;
    int units = 0;
    const int* source = z(j);
    for (int t = 0; t < n_; ++t)
      for (int l = 0; l < levels_; ++l)
        cost += problem_.cost[static_cast<std::size_t>(*source++) * n_ + grid_.location[t]];
    for (const int c : labels_) bonus += candidates_.bonus(c);
    for (const auto& edge : grid_.edges)
      units += candidates_.units(labels_[edge.earlier], labels_[edge.later]);
    return cost / levels_ - w_.eta * bonus + w_.beta * units / rules_.most_units();
  }

  /// `total` of `objective`: Eq. (1) with the penalty of Eq. (2) in place of its max.
  double objective_value() {
    double sum = 0;
    for (int j = 0; j < problem_.outputs; ++j) {
      sum += own_energy_[j];
      checkpoint_.after(16);
      for (const SourceCount& source : support(j)) {
        const double v = load_[source.input] - own_load(j)[source.input];
        sum += w_.gamma / 2 * w_.phi(v) * source.count;
      }
    }
    return sum;
  }

  const Grid& grid_;
  const ProblemView& problem_;
  const Weights& w_;
  const Settings settings_;
  Checkpoint& checkpoint_;
  const LabelRules rules_;
  Minimizer minimizer_;
  Candidates candidates_;
  const int n_, m_, levels_;
  std::vector<int> z_, best_;               // (m', n, L), each label sorted
  std::vector<SourceCount> source_counts_;  // (m', m + 1): the last one is never read
  std::vector<int> num_sources_;
  std::vector<double> own_load_;  // (m', m)
  std::vector<double> load_, penalty_, objective_values_;
  std::vector<int> uses_;           // scratch: all zero
  std::vector<double> own_energy_;  // of each output, without the penalty
  std::vector<int> labels_, penalized_, by_support_;
  std::vector<char> taken_;
  Rank best_rank_;
};

}  // namespace comixup
