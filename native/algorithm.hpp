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

#include "grid.hpp"
#include "minimise.hpp"
#include "problem.hpp"

namespace comixup {

struct Settings {
  int sweeps = 4;
  int levels = 2;
  bool resolve = false;
};

class Algorithm1 {
 public:
  /// Mixed labels are built from this many of the inputs that an output uses most.
  static constexpr int kTopSources = 3;

  Algorithm1(const Grid& grid, const ProblemView& problem, const Settings& settings)
      : grid_(grid),
        problem_(problem),
        w_(problem.weights),
        settings_(settings),
        minimiser_(grid),
        n_(grid.size),
        m_(problem.inputs),
        levels_(settings.levels),
        row_size_(padded(n_)) {
    cost_.resize(static_cast<std::size_t>(m_) * n_);
    cost32_.assign(static_cast<std::size_t>(m_) * row_size_, 0.0f);
    // The inner step works in single precision, on what each label costs above the cheapest one at
    // its location: a constant at a location changes no decision, but would eat up the precision.
    double dearest = 0;
    for (int t = 0; t < n_; ++t) {
      double least_cost = std::numeric_limits<double>::infinity();
      for (int i = 0; i < m_; ++i) {
        const double c = problem.cost[static_cast<std::size_t>(i) * n_ + grid.location[t]];
        cost_[static_cast<std::size_t>(i) * n_ + t] = c;
        least_cost = std::min(least_cost, c);
      }
      for (int i = 0; i < m_; ++i) {
        const double above = cost(i)[t] - least_cost;
        cost32_[static_cast<std::size_t>(i) * row_size_ + t] = static_cast<float>(above);
        dearest = std::max(dearest, above);
      }
    }
    useful_ = (dearest + grid.max_degree * w_.beta) * (1 + 1e-6);
    z_.resize(static_cast<std::size_t>(problem.outputs) * n_ * levels_);
    support_.resize(problem.outputs);
    pressure_.resize(m_);
    penalty_.resize(m_);
    base_.resize(m_);
    candidate_of_.assign(m_, -1);
    uses_.assign(m_, 0);
    own_energy_.resize(problem.outputs);
    labels_.resize(n_);
    bound_.resize(padded(n_));
    margin_.assign(padded(n_), 0);
    for (int t = 0; t < n_; ++t)  // what the neighbours can add, and some room for rounding
      margin_[t] =
          static_cast<float>((w_.beta * grid.neighbours[t].size()) * (1 + 1e-5) + 1e-6 * dearest);
    log_factorial_.assign(levels_ + 1, 0);
    for (int l = 2; l <= levels_; ++l) log_factorial_[l] = log_factorial_[l - 1] + std::log(l);
  }

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
      for (int j = 0; j < problem_.outputs; ++j)
        changed |= minimise_output(j, s > 0 ? levels_ : 1, resolving);
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
  static bool is_better(const Rank& a, const Rank& b) {
    return a.first != b.first ? a.first < b.first
                              : a.second < b.second - kRounding * std::fabs(b.second);
  }

  struct Share {
    int input;
    double count;
  };

  int* z(int j, int t = 0) { return z_.data() + (static_cast<std::size_t>(j) * n_ + t) * levels_; }
  const double* cost(int i) const { return cost_.data() + static_cast<std::size_t>(i) * n_; }
  const float* cost32(int i) const {
    return cost32_.data() + static_cast<std::size_t>(i) * row_size_;
  }
  bool is_pure(const int* label) const { return label[0] == label[levels_ - 1]; }

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
    for (const Share& share : support_[j])
      if (!taken_[share.input] && (!best || share.count > best->count)) best = &share;
    if (best) return best->input;
    const auto free = std::find(taken_.begin(), taken_.end(), 0);
    if (free != taken_.end()) return static_cast<int>(free - taken_.begin());
    return std::max_element(support_[j].begin(), support_[j].end(),
                            [](const Share& a, const Share& b) { return a.count < b.count; })
        ->input;
  }

  // ---- The state that outputs share: who uses which input.

  /// o_j as a sparse vector, in the order of inputs.
  void find_support(int j) {
    auto& support = support_[j];
    support.clear();
    const int* sources = z(j);
    for (int s = 0; s < n_ * levels_; ++s)
      if (uses_[sources[s]]++ == 0) support.push_back({sources[s], 0});
    std::sort(support.begin(), support.end(),
              [](const Share& a, const Share& b) { return a.input < b.input; });
    for (Share& share : support) {
      share.count = static_cast<double>(uses_[share.input]) / levels_;
      uses_[share.input] = 0;
    }
  }

  void take_stock() {
    for (int j = 0; j < problem_.outputs; ++j) {
      find_support(j);
      own_energy_[j] = cost_and_prior(j) + smoothness(j);
    }
    gather_pressure();
  }

  /// pressure_ += sign * 2 A o_j.
  void press(int j, double sign) {
    for (const Share& share : support_[j]) {
      const double* row = problem_.compatibility + static_cast<std::size_t>(share.input) * m_;
      const double amount = sign * 2 * share.count;
      for (int i = 0; i < m_; ++i) pressure_[i] += amount * row[i];
    }
  }

  void gather_pressure() {
    std::fill(pressure_.begin(), pressure_.end(), 0.0);
    for (int j = 0; j < problem_.outputs; ++j) press(j, 1);
  }

  // ---- One pass of the inner loop.

  /// Solves z_j = argmin of the modularised f_j; returns whether z_j changed.
  bool minimise_output(int j, int levels, bool resolving) {
    press(j, -1);  // now v_-j, Eq. (2)
    find_penalties(j, resolving);
    minimiser_.problem().clear();
    sources_.clear();
    add_pure_candidates();
    const int pure = minimiser_.problem().num_labels();
    if (levels > 1) add_mixed_candidates(j);
    fill_charges(pure);
    for (int t = 0; t < n_; ++t) labels_[t] = candidate_index(z(j, t));
    minimiser_.minimise(labels_.data());

    bool changed = false;
    for (int t = 0; t < n_; ++t) {
      const int* label = this->label(labels_[t]);
      int* here = z(j, t);
      for (int l = 0; l < levels_; ++l) {
        changed |= here[l] != label[l];
        here[l] = label[l];
      }
    }
    for (int c = 0; c < pure; ++c) candidate_of_[sources_[c * levels_]] = -1;
    if (changed) {
      find_support(j);
      own_energy_[j] = cost_and_prior(j) + smoothness_of_candidates(pure);
    }
    press(j, 1);
    return changed;
  }

  /// Penalty of each input on this output, from the least one: only differences matter.
  void find_penalties(int j, bool resolving) {
    for (int i = 0; i < m_; ++i) penalty_[i] = w_.gamma * w_.phi(pressure_[i]);
    if (resolving && charged_[j] >= 0) penalty_[charged_[j]] += w_.gamma;
    const double least = *std::min_element(penalty_.begin(), penalty_.end());
    for (int i = 0; i < m_; ++i) base_[i] = static_cast<float>(penalty_[i] - least);
  }

  /// Adds the one-hot labels that can be best somewhere: nobody can favour one over another by
  /// more than beta a neighbour.
  void add_pure_candidates() {
    near_.resize(m_);
    int near = 0;
    for (int i = 0; i < m_; ++i) {
      near_[near] = i;
      near += base_[i] <= useful_;
    }
    std::fill(bound_.begin(), bound_.end(), std::numeric_limits<float>::infinity());
    for (int a = 0; a < near; ++a) {
      const float* c = cost32(near_[a]);
      const float base = base_[near_[a]];
      for (int t = 0; t < n_; t += kLanes)
        store(least(load(&bound_[t]), load(c + t) + base), &bound_[t]);
    }
    for (int t = 0; t < n_; t += kLanes)  // minus the bound, so that it can be added
      store(minus(load(&bound_[t]) + load(&margin_[t])), &bound_[t]);
    std::fill(bound_.begin() + n_, bound_.end(), std::numeric_limits<float>::infinity());
    sources_.resize(static_cast<std::size_t>(near) * levels_);
    int kept = 0;
    for (int a = 0; a < near; ++a) {
      const int i = near_[a];
      const float* c = cost32(i);
      float* to = minimiser_.problem().add_label();
      const float base = base_[i];
      Lanes closest = Lanes{} + std::numeric_limits<float>::infinity();
      for (int t = 0; t < n_; t += kLanes) {
        const Lanes u = load(c + t) + base;
        store(u, to + t);
        closest = least(closest, u + load(&bound_[t]));
      }
      const bool useful = least_of(closest) <= 0;
      for (int l = 0; l < levels_; ++l) sources_[kept * levels_ + l] = i;
      candidate_of_[i] = useful ? kept : -1;
      kept += useful;
      minimiser_.problem().keep_labels(kept);
    }
    sources_.resize(static_cast<std::size_t>(kept) * levels_);
  }

  /// Adds the multisets of the inputs this output uses most, and the mixed labels it holds now.
  void add_mixed_candidates(int j) {
    top_ = support_[j];
    while (top_.size() > kTopSources) {  // the last of those used least goes
      std::size_t least_used = 0;
      for (std::size_t a = 1; a < top_.size(); ++a)
        if (top_[a].count <= top_[least_used].count) least_used = a;
      top_.erase(top_.begin() + static_cast<std::ptrdiff_t>(least_used));
    }
    label_.resize(levels_);
    if (top_.size() > 1) add_multisets(0, 0);
    for (int t = 0; t < n_; ++t)
      if (!is_pure(z(j, t))) add_mixed_candidate(z(j, t));
  }

  void add_multisets(int position, std::size_t from) {
    if (position == levels_) {
      if (!is_pure(label_.data())) add_mixed_candidate(label_.data());
      return;
    }
    for (std::size_t a = from; a < top_.size(); ++a) {
      label_[position] = top_[a].input;
      add_multisets(position + 1, a);
    }
  }

  void add_mixed_candidate(const int* label) {
    if (find_mixed(label) >= 0) return;
    sources_.insert(sources_.end(), label, label + levels_);
    float* row = minimiser_.problem().add_label();
    const auto share = 1.0f / static_cast<float>(levels_);
    std::fill_n(row, row_size_, static_cast<float>(-w_.eta * mixing_bonus(label)));
    for (int l = 0; l < levels_; ++l) {
      const float* c = cost32(label[l]);
      const float base = base_[label[l]];
      for (int t = 0; t < n_; t += kLanes)
        store(load(row + t) + (load(c + t) + base) * share, row + t);
    }
  }

  /// (1/L) log of the number of orders a label can be drawn in.
  double mixing_bonus(const int* label) const {
    double orders = log_factorial_[levels_];
    for (int l = 0, run = 0; l < levels_; ++l) {
      ++run;
      if (l + 1 == levels_ || label[l + 1] != label[l]) {
        orders -= log_factorial_[run];
        run = 0;
      }
    }
    return orders / levels_;
  }

  int find_mixed(const int* label) const {
    const int count = static_cast<int>(sources_.size()) / levels_;
    for (int c = count - 1; c >= 0 && !is_pure(&sources_[c * levels_]); --c)
      if (std::equal(label, label + levels_, &sources_[c * levels_])) return c;
    return -1;
  }

  int candidate_index(const int* label) const {
    return is_pure(label) ? candidate_of_[label[0]] : find_mixed(label);
  }

  void fill_charges(int pure) {
    const int count = minimiser_.problem().num_labels();
    Charges& charges = minimiser_.problem().charges;
    charges.reset(count, static_cast<float>(w_.beta));
    for (int a = pure; a < count; ++a) {
      // Apart from the inputs it is made of, a mixed label is as far from one as from another.
      const int nobody = -1;
      other_.assign(levels_, nobody);
      const auto apart = static_cast<float>(w_.beta * charge_of(label(a), other_.data()));
      for (int b = 0; b < pure; ++b) charges.set(a, b, apart);
      for (int l = 0; l < levels_; ++l) {
        const int b = candidate_of_[label(a)[l]];
        if (b >= 0 && (l == 0 || label(a)[l] != label(a)[l - 1]))
          charges.set(a, b, static_cast<float>(w_.beta * charge_of(label(a), label(b))));
      }
      for (int b = pure; b <= a; ++b)
        charges.set(a, b, static_cast<float>(w_.beta * charge_of(label(a), label(b))));
    }
  }

  double charge_of(const int* a, const int* b) const {
    return charge(a, b, levels_, w_.smoothness);
  }
  const int* label(int candidate) const {
    return sources_.data() + static_cast<std::size_t>(candidate) * levels_;
  }

  // ---- Duplicates: outputs with the same support (the authors' `resolve`).

  /// Returns how many outputs repeat an earlier one's support, and notes in `charged_` the input
  /// that drives each of them apart: the r-th output of a support is charged for its r-th input.
  double find_duplicates() {
    std::map<std::vector<int>, std::vector<int>> groups;
    for (int j = 0; j < problem_.outputs; ++j) {
      std::vector<int> inputs;
      for (const Share& share : support_[j]) inputs.push_back(share.input);
      groups[std::move(inputs)].push_back(j);
    }
    charged_.assign(problem_.outputs, -1);
    for (const auto& [inputs, outputs] : groups)
      if (outputs.size() > 1)
        for (std::size_t r = 0; r < std::min(inputs.size(), outputs.size()); ++r)
          charged_[outputs[r]] = inputs[r];
    return static_cast<double>(problem_.outputs) - static_cast<double>(groups.size());
  }

  // ---- Merit.

  double cost_and_prior(int j) {
    double cost_sum = 0, bonus = 0;
    for (int t = 0; t < n_; ++t) {
      const int* here = z(j, t);
      for (int l = 0; l < levels_; ++l) cost_sum += cost(here[l])[t];
      if (!is_pure(here)) bonus += mixing_bonus(here);
    }
    return cost_sum / levels_ - w_.eta * bonus;
  }

  double smoothness(int j) {
    double sum = 0;
    for (const auto& edge : grid_.edges) sum += charge_of(z(j, edge.earlier), z(j, edge.later));
    return w_.beta * sum;
  }

  /// The same of the output just solved, whose labels are at hand as candidates.
  double smoothness_of_candidates(int pure) const {
    double sum = 0;
    for (const auto& edge : grid_.edges) {
      const int a = labels_[edge.earlier], b = labels_[edge.later];
      sum += a < pure && b < pure ? a != b : charge_of(label(a), label(b));
    }
    return w_.beta * sum;
  }

  double merit() {
    double sum = 0;
    for (int j = 0; j < problem_.outputs; ++j) {
      sum += own_energy_[j];
      for (const Share& share : support_[j]) {
        double v = pressure_[share.input];
        for (const Share& own : support_[j])
          v -= 2 * own.count *
               problem_.compatibility[static_cast<std::size_t>(own.input) * m_ + share.input];
        sum += w_.gamma / 2 * w_.phi(v) * share.count;
      }
    }
    return sum;
  }

  const Grid& grid_;
  const ProblemView& problem_;
  const Weights& w_;
  const Settings settings_;
  Minimiser minimiser_;
  const int n_, m_, levels_;
  const int row_size_;         // n, padded to whole lanes
  std::vector<double> cost_;   // (m, n), visiting order
  std::vector<float> cost32_;  // the same, for the inner step
  double useful_ = 0;          // labels with a larger penalty than this can be best nowhere
  std::vector<int> z_, best_;  // (m', n, L), each label sorted
  std::vector<std::vector<Share>> support_;
  std::vector<double> pressure_, penalty_, merits_, log_factorial_;
  std::vector<float> base_, bound_, margin_;
  std::vector<int> uses_;           // scratch: all zero
  std::vector<double> own_energy_;  // of each output, without the penalty
  std::vector<int> candidate_of_, sources_, labels_, near_, charged_, label_, other_;
  std::vector<Share> top_;
  std::vector<char> taken_;
  Rank best_rank_;
};

}  // namespace comixup
