// Algorithm 1: iterative submodular minimisation over the outputs of one batch.
// Letters as in the paper: i input, j output; t is a location in visiting order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "common/checkpoint.hpp"
#include "solver/candidates.hpp"
#include "solver/grid.hpp"
#include "solver/labels.hpp"
#include "solver/minimise.hpp"
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
        minimiser_(grid, checkpoint),
        candidates_(grid, problem, rules_, settings.levels, minimiser_.problem(), checkpoint),
        n_(grid.size),
        m_(problem.inputs),
        levels_(settings.levels),
        z_(static_cast<std::size_t>(problem.outputs) * n_ * levels_),
        shares_(static_cast<std::size_t>(problem.outputs) * (m_ + 1)),
        num_shares_(problem.outputs),
        pull_(static_cast<std::size_t>(problem.outputs) * m_),
        pressure_(m_),
        penalty_(m_),
        uses_(m_),
        own_energy_(problem.outputs),
        labels_(n_) {}

  /// Runs the sweeps from i.i.d. one-hot labels `start`, (m', n) row-major.
  void run(const std::int32_t* start) {
    initialise(start);
    merits_.assign(settings_.sweeps, 0);
    bool settled = false;  // whether a sweep has changed nothing: the rest are spare
    int kicks = 0;
    for (int s = 0; s < settings_.sweeps; ++s) {
      const bool resolving = settings_.resolve && s > 0 && s == settings_.sweeps - 1;
      const bool spare = settled && !resolving;
      if (resolving || settled) restore_best();
      if (resolving) find_duplicates();
      if (spare && !kick(kicks++)) {  // nothing left to try
        merits_[s] = merits_[s - 1];
        continue;
      }
      bool changed = false;
      for (int j = 0; j < problem_.outputs; ++j) changed |= minimise_output(j, s > 0, resolving);
      gather_pressure();  // anew, so that rounding does not pile up
      merits_[s] = merit();
      const Rank rank = {settings_.resolve ? find_duplicates() : 0.0, merits_[s]};
      const bool better = s == 0 || is_better(rank, best_rank_);
      if (better) {
        best_rank_ = rank;
        best_ = z_;
      }
      settled = spare ? !better : s > 0 && !changed;
      if (spare && !better) merits_[s] = merits_[s - 1];  // what the kick led to is given up
    }
  }

  /// Number of duplicated outputs (if they are to be resolved), then merit: less is better.
  using Rank = std::pair<double, double>;

  /// What a run comes to.
  struct Result {
    Rank rank;
    std::vector<int> labels;     ///< (m', n, L), locations in visiting order
    std::vector<double> merits;  ///< after every sweep

    /// Whether it is better than another by more than rounding.
    bool better_than(const Result& other) const { return is_better(rank, other.rank); }
  };
  Result take_result() { return {best_rank_, std::move(best_), std::move(merits_)}; }

 private:
  static constexpr double kRounding = 1e-14;
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();
  static bool is_better(const Rank& a, const Rank& b) {
    return a.first != b.first ? a.first < b.first
                              : a.second < b.second - kRounding * std::fabs(b.second);
  }

  int* z(int j, int t = 0) { return z_.data() + (static_cast<std::size_t>(j) * n_ + t) * levels_; }

  void initialise(const std::int32_t* start) {
    for (int j = 0; j < problem_.outputs; ++j)
      for (int t = 0; t < n_; ++t)
        std::fill_n(z(j, t), levels_, start[static_cast<std::size_t>(j) * n_ + grid_.location[t]]);
    take_stock();
  }

  void restore_best() {
    z_ = best_;
    take_stock();
  }

  // ---- Spare sweeps: a way out of the local optimum that the sweeps have settled in.

  /// Sets outputs to one input each, the next sweep starting from there; returns false if all
  /// kicks have been tried. The first kick gives every output an input of its own, the one it uses
  /// most; the others set one output to one input.
  ///
  /// Paper: stops here. Sweeps that would change nothing are spent on a second look instead.
  bool kick(int number) {
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
    take_stock();
    return true;
  }

  /// The input that output j uses most among those not taken; if it uses none of them the first
  /// one not taken; if all are taken, the one it uses most.
  int favourite(int j) const {
    const Share* best = nullptr;
    for (const Share& share : support(j))
      if (!taken_[share.input] && (!best || share.count > best->count)) best = &share;
    if (best) return best->input;
    const auto free = std::find(taken_.begin(), taken_.end(), 0);
    if (free != taken_.end()) return static_cast<int>(free - taken_.begin());
    return std::max_element(support(j).begin(), support(j).end(),
                            [](const Share& a, const Share& b) { return a.count < b.count; })
        ->input;
  }

  // ---- The state that outputs share: who uses which input.

  /// o_j as a sparse vector, in the order of inputs.
  Shares support(int j) const { return {&shares_[share_at(j)], num_shares_[j]}; }
  std::size_t share_at(int j) const { return static_cast<std::size_t>(j) * (m_ + 1); }

  /// Output j's part in the pressure on each input, 2 A o_j.
  double* pull(int j) { return &pull_[static_cast<std::size_t>(j) * m_]; }

  /// Finds o_j, and what follows from it.
  void find_support(int j) {
    checkpoint_.after(2 * (n_ * levels_ + m_));
    const int* sources = z(j);
    for (int s = 0; s < n_ * levels_; ++s) ++uses_[sources[s]];
    Share* shares = &shares_[share_at(j)];
    int used = 0;
    for (int i = 0; i < m_; ++i) {  // without branches
      shares[used] = {i, static_cast<double>(uses_[i]) / levels_};
      used += uses_[i] > 0;
      uses_[i] = 0;
    }
    num_shares_[j] = used;
    double* pull = this->pull(j);
    std::fill_n(pull, m_, 0.0);
    for (const Share& share : support(j)) {
      const double* row = problem_.compatibility + static_cast<std::size_t>(share.input) * m_;
      for (int i = 0; i < m_; ++i) pull[i] += 2 * share.count * row[i];
      checkpoint_.after(m_);
    }
  }

  void take_stock() {
    for (int j = 0; j < problem_.outputs; ++j) find_support(j);
    std::fill(own_energy_.begin(), own_energy_.end(), kUnknown);
    gather_pressure();
  }

  void gather_pressure() {
    std::fill(pressure_.begin(), pressure_.end(), 0.0);
    for (int j = 0; j < problem_.outputs; ++j)
      for (int i = 0; i < m_; ++i) pressure_[i] += pull(j)[i];
    checkpoint_.after(pull_.size());
  }

  // ---- One pass of the inner loop.

  /// Solves z_j = argmin of the modularised f_j; returns whether z_j changed.
  bool minimise_output(int j, bool mixed, bool resolving) {
    for (int i = 0; i < m_; ++i) pressure_[i] -= pull(j)[i];  // now v_-j, Eq. (2)
    for (int i = 0; i < m_; ++i) penalty_[i] = w_.gamma * w_.phi(pressure_[i]);
    if (resolving && charged_[j] >= 0) penalty_[charged_[j]] += w_.gamma;
    candidates_.find(penalty_, z(j), support(j), mixed, labels_.data());
    minimiser_.minimise(labels_.data());

    int differences = 0;
    int* here = z(j);
    for (const int c : labels_) {
      const int* label = candidates_.label(c);
      for (int l = 0; l < levels_; ++l, ++here) {
        differences += *here != label[l];
        *here = label[l];
      }
    }
    if (differences > 0) find_support(j);
    if (differences > 0 || own_energy_[j] == kUnknown) own_energy_[j] = own_energy(j);
    for (int i = 0; i < m_; ++i) pressure_[i] += pull(j)[i];
    return differences > 0;
  }

  // ---- Duplicates: outputs with the same support (the authors' `resolve`).

  /// Returns how many outputs repeat an earlier one's support, and notes in `charged_` the input
  /// that drives each of them apart: the r-th output of a support is charged for its r-th input.
  double find_duplicates() {
    std::map<std::vector<int>, std::vector<int>> groups;
    for (int j = 0; j < problem_.outputs; ++j) {
      std::vector<int> inputs;
      for (const Share& share : support(j)) inputs.push_back(share.input);
      groups[std::move(inputs)].push_back(j);
      checkpoint_.after(256);
    }
    charged_.assign(problem_.outputs, -1);
    for (const auto& [inputs, outputs] : groups)
      if (outputs.size() > 1)
        for (std::size_t r = 0; r < std::min(inputs.size(), outputs.size()); ++r)
          charged_[outputs[r]] = inputs[r];
    return static_cast<double>(problem_.outputs) - static_cast<double>(groups.size());
  }

  // ---- Merit.

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

  double merit() {
    double sum = 0;
    for (int j = 0; j < problem_.outputs; ++j) {
      sum += own_energy_[j];
      checkpoint_.after(16);
      for (const Share& share : support(j)) {
        const double v = pressure_[share.input] - pull(j)[share.input];
        sum += w_.gamma / 2 * w_.phi(v) * share.count;
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
  Minimiser minimiser_;
  Candidates candidates_;
  const int n_, m_, levels_;
  std::vector<int> z_, best_;  // (m', n, L), each label sorted
  std::vector<Share> shares_;  // (m', m + 1): the last one is never looked at
  std::vector<int> num_shares_;
  std::vector<double> pull_;  // (m', m)
  std::vector<double> pressure_, penalty_, merits_;
  std::vector<int> uses_;           // scratch: all zero
  std::vector<double> own_energy_;  // of each output, without the penalty
  std::vector<int> labels_, charged_;
  std::vector<char> taken_;
  Rank best_rank_;
};

}  // namespace comixup
