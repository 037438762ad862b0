// The inner step on grids four locations wide, such as the paper's 4 x 4: an exact solution over
// the four most promising labels of every location. The frontier's dynamic programming with every
// size known, so that it runs without branches.
#pragma once

#include <cstddef>
#include <vector>

#include "common/vec4f.hpp"
#include "common/vec8f.hpp"
#include "solver/frontier.hpp"
#include "solver/grid.hpp"
#include "solver/inner_problem.hpp"
#include "solver/shortlist.hpp"

namespace comixup {

class FourWide {
 public:
  /// Whether a grid consists of rows of four, at least three of them (and its tables stay small).
  static bool suits(const Grid& grid) {
    if (grid.width != 4 || grid.size < 3 * 4 || grid.size > kMostLocations) return false;
    for (int t = 0; t < grid.size; ++t)
      if (grid.beside[t] != (t % 4 > 0) || grid.between[t].size() > 0) return false;
    return true;
  }

  explicit FourWide(const Grid& grid)
      : size_(grid.size),
        shortlist_(grid),
        tables_(static_cast<std::size_t>(grid.size) * kStates),
        above_(static_cast<std::size_t>(grid.size) * 16),
        beside_(static_cast<std::size_t>(grid.size + 1) * 16) {}

  /// Writes to `labels` the labelling of least energy among those of the shortlist, and returns
  /// whether no single location would do better by more than `tie` with a label left out.
  bool minimise(const InnerProblem& problem, float tie, int* labels) {
    bool stable = false;
    with_octets([&](auto octet) { stable = minimise<decltype(octet)>(problem, tie, labels); });
    return stable;
  }

  /// The same with a given kind of octet.
  ///
  /// The first row is folded into the second one and the last row into the one before it; from the
  /// second row on, table_t[x] is the least energy of locations 0..t given x, the labels of the
  /// latest location in each column. All tables are kept: walking back over them finds the
  /// minimiser without storing any decision.
  template <typename Octet>
  bool minimise(const InnerProblem& problem, float tie, int* labels) {
    shortlist_.find<Octet>(problem);
    find_charges<Octet>(problem);
    const int last = size_ - 4;
    fold<Octet>(4, beside(4), first_, table(7));
    for (int t = 8; t < last; t += 4) {
      step_in_column_0<Octet>(t);
      step_in_column_1<Octet>(t + 1);
      step_in_column_2<Octet>(t + 2);
      step_in_column_3<Octet>(table(t + 2), above(t + 3), beside(t + 3), table(t + 3));
    }
    fold<Octet>(last, kNoCharges, last_, table(last + 3));
    walk_back<Octet>(labels);
    return problem.num_labels() <= Shortlist::kSize ||
           shortlist_.is_stable<Octet>(problem, labels, tie);
  }

 private:
  static constexpr int kMostLocations = 256;
  static constexpr int kStates = 256;  // labellings of the frontier
  /// Where a labelling of the frontier lies in a table: the sum of its labels' offsets by column.
  /// An octet holds two labels of column 0 (one in each half) times the four of column 3.
  static constexpr int kOffset[4][4] = {
      {0, 4, 128, 132}, {0, 32, 64, 96}, {0, 8, 16, 24}, {0, 1, 2, 3}};
  static constexpr float kNoCharges[4 * 16] = {};

  /// Fills `above_` and `beside_`. A label's cost is counted once: in rows that are folded with the
  /// charge beside it, in the others with the charge above it. What the last row meets is the row
  /// above it, as the first row's is the one below.
  template <typename Octet>
  void find_charges(const InnerProblem& problem) {
    const int above_last = size_ - 8, last = size_ - 4;
    for (int s = 0; s < above_last; ++s)
      find_charges_of<Octet>(problem, s, s + 4, shortlist_.costs(s + 4), above(s + 4));
    for (int s = above_last; s < last; ++s)
      find_charges_of<Octet>(problem, s, s, kNoCharges, above(0));  // above the first is nothing
    for (int s = last; s < size_; ++s)
      find_charges_of<Octet>(problem, s, s - 4, kNoCharges, above(s));
    for (const int t : {0, last}) store(load(shortlist_.costs(t)), beside(t));
  }

  /// What the labels of location s charge those of location t and the next one.
  template <typename Octet>
  void find_charges_of(const InnerProblem& problem, int s, int t, const float* costs, float* met) {
    const bool folded = s < 4 || s >= size_ - 4;
    const Octet more = Octet::join(costs, folded ? shortlist_.costs(s + 1) : kNoCharges);
    const typename Octet::Places at{shortlist_.labels(t), shortlist_.labels(s + 1)};
    float* side = beside(s + 1);  // past the last column: overwritten, or of no interest
    for (int x = 0; x < 4; ++x)
      (Octet::look_up(problem.charges.row(shortlist_.labels(s)[x]), problem.num_labels(), at) +
       more)
          .to(met + 4 * x, side + 4 * x);
  }

  // ---- Folding a row into the one next to it: u are its labels, x those of the other one.

  /// What is left of a row's energy, least over its first labels: kept for the way back.
  struct Folded {
    float column_0[16];       ///< x_0; u_1
    float column_1[64];       ///< x_0, x_1; u_2
    float column_2[kStates];  ///< x_0, x_1, x_2; u_3
  };

  /// Fills a table over x with the least energy of the folded row and what it charges x. Row `t` is
  /// the lower one of the two; `side`: what the labels of x charge each other, column by column.
  template <typename Octet>
  void fold(int t, const float* side, Folded& folded, float* to) {
    const float* own = beside(t == 4 ? 0 : t);
    const float* met = above(t);
    Octet costs[4];
    for (int u = 0; u < 4; ++u)
      costs[u] = Octet::twice(own + 16 + 4 * u) + Octet::everywhere(own[u]);
    for (int pair = 0; pair < 2; ++pair) {
      Octet sums[4];
      for (int u = 0; u < 4; ++u)
        sums[u] = costs[u] + Octet::halves(met[4 * u + 2 * pair], met[4 * u + 2 * pair + 1]);
      least(least(sums[0], sums[1]), least(sums[2], sums[3])).to(folded.column_0 + 8 * pair);
    }
    Octet more[4][4];
    find_more(own + 32, met + 16, more);
    for (int pair = 0; pair < 2; ++pair) {
      const Octet behind = Octet::from(folded.column_0 + 8 * pair);
      for (int x = 0; x < 4; ++x)
        (least_sum(behind, more[x]) +
         Octet::halves(side[16 + 8 * pair + x], side[16 + 8 * pair + 4 + x]))
            .to(folded.column_1 + 32 * pair + 8 * x);
    }
    find_more(own + 48, met + 32, more);
    for (int l = 0; l < 4; ++l)
      for (int pair = 0; pair < 2; ++pair) {
        const Octet behind = Octet::from(folded.column_1 + 32 * pair + 8 * l);
        for (int x = 0; x < 4; ++x)
          (least_sum(behind, more[x]) + Octet::everywhere(side[32 + 4 * l + x]))
              .to(folded.column_2 + 128 * pair + 32 * l + 8 * x);
      }
    step_in_column_3<Octet>(folded.column_2, met + 48, side + 48, to);
  }

  /// more[x][u]: what u adds by the labels u' next to it (lanes), if it meets x.
  template <typename Octet>
  static void find_more(const float* next, const float* met, Octet (&more)[4][4]) {
    for (int u = 0; u < 4; ++u) {
      const Octet beside = Octet::twice(next + 4 * u);
      for (int x = 0; x < 4; ++x) more[x][u] = beside + Octet::everywhere(met[4 * u + x]);
    }
  }

  /// The least sum of a half's four lanes, one after the other, with the four of `more`.
  template <typename Octet>
  static Octet least_sum(const Octet& behind, const Octet (&more)[4]) {
    return least(
        least(behind.template spread<0>() + more[0], behind.template spread<1>() + more[1]),
        least(behind.template spread<2>() + more[2], behind.template spread<3>() + more[3]));
  }

  // ---- Steps: the table of location t, whose label y takes the place of the one above it, x.
  // `met` is y's cost and its charge with x, `side` its charge with l, the label beside it.

  template <typename Octet>
  void step_in_column_0(int t) {
    const float* met = above(t);
    Octet same[2][2], crossed[2][2];  // pairs of y, pairs of x
    for (int y = 0; y < 4; y += 2)
      for (int x = 0; x < 4; x += 2) {
        same[y / 2][x / 2] = Octet::halves(met[4 * x + y], met[4 * (x + 1) + y + 1]);
        crossed[y / 2][x / 2] = Octet::halves(met[4 * (x + 1) + y], met[4 * x + y + 1]);
      }
    const float* from = table(t - 1);
    float* to = table(t);
    for (int at = 0; at < kStates / 2; at += kOctet) {
      const Octet behind0 = Octet::from(from + at), behind1 = Octet::from(from + at + 128);
      const Octet swapped0 = behind0.swapped(), swapped1 = behind1.swapped();
      for (int y = 0; y < 2; ++y)
        least(least(behind0 + same[y][0], swapped0 + crossed[y][0]),
              least(behind1 + same[y][1], swapped1 + crossed[y][1]))
            .to(to + at + 128 * y);
    }
  }

  template <typename Octet>
  void step_in_column_1(int t) {
    for (int pair = 0; pair < 2; ++pair) {  // of labels beside
      Octet met[4][4], side[4];
      for (int y = 0; y < 4; ++y) {
        for (int x = 0; x < 4; ++x) met[x][y] = Octet::everywhere(above(t)[4 * x + y]);
        side[y] = Octet::halves(beside(t)[8 * pair + y], beside(t)[8 * pair + 4 + y]);
      }
      for (int at = 128 * pair; at < 128 * pair + 32; at += kOctet) step<32>(t, at, met, side);
    }
  }

  template <typename Octet>
  void step_in_column_2(int t) {
    Octet met[4][4];
    for (int x = 0; x < 4; ++x)
      for (int y = 0; y < 4; ++y) met[x][y] = Octet::everywhere(above(t)[4 * x + y]);
    for (int l = 0; l < 4; ++l) {
      Octet side[4];
      for (int y = 0; y < 4; ++y) side[y] = Octet::everywhere(beside(t)[4 * l + y]);
      step<8>(t, 32 * l, met, side);
      step<8>(t, 32 * l + 128, met, side);
    }
  }

  template <int kStride, typename Octet>
  void step(int t, int at, const Octet (&met)[4][4], const Octet (&side)[4]) {
    const float* from = table(t - 1) + at;
    float* to = table(t) + at;
    // Not an array: where they lie side by side, the compiler would copy it as memory.
    const Octet behind0 = Octet::from(from), behind1 = Octet::from(from + kStride);
    const Octet behind2 = Octet::from(from + 2 * kStride),
                behind3 = Octet::from(from + 3 * kStride);
    for (int y = 0; y < 4; ++y)
      (least(least(behind0 + met[0][y], behind1 + met[1][y]),
             least(behind2 + met[2][y], behind3 + met[3][y])) +
       side[y])
          .to(to + kStride * y);
  }

  template <typename Octet>
  static void step_in_column_3(const float* from, const float* above, const float* beside,
                               float* to) {
    Octet met[4], side[4];
    for (int x = 0; x < 4; ++x) met[x] = Octet::twice(above + 4 * x);
    for (int l = 0; l < 4; ++l) side[l] = Octet::twice(beside + 4 * l);
    for (int first = 0; first < kStates; first += 4 * kOctet)
      for (int l = 0; l < 4; ++l) {
        const int at = first + l * kOctet;
        (least_sum(Octet::from(from + at), met) + side[l]).to(to + at);
      }
  }

  // ---- The way back.

  template <typename Octet>
  void walk_back(int* labels) {
    int chosen[4];
    const int last = size_ - 4;
    least_sum_of_tables<Octet>(table(last - 1), table(last + 3), chosen);
    unfold(last, last, last_, chosen, labels);
    for (int t = last - 1; t >= 8; --t) {
      int& label = chosen[t % 4];
      labels[t] = shortlist_.labels(t)[label];
      const int* offset = kOffset[t % 4];
      const float* met = above(t) + label;
      label = 0;
      const float* from = table(t - 1) + kOffset[0][chosen[0]] + kOffset[1][chosen[1]] +
                          kOffset[2][chosen[2]] + kOffset[3][chosen[3]];
      label = least_of_four(from[offset[0]] + met[0], from[offset[1]] + met[4],
                            from[offset[2]] + met[8], from[offset[3]] + met[12]);
    }
    for (int t = 4; t < 8; ++t) labels[t] = shortlist_.labels(t)[chosen[t - 4]];
    unfold(0, 4, first_, chosen, labels);
  }

  /// Finds the labels of the folded row at `row`, given those of the one next to it; `t` as in
  /// `fold`.
  void unfold(int row, int t, const Folded& folded, const int* x, int* labels) {
    const float *own = beside(row), *met = above(t);
    const float* sums = folded.column_2 + kOffset[0][x[0]] + kOffset[1][x[1]] + kOffset[2][x[2]];
    const int u3 = least_with(sums, met + 48 + x[3], kNoCharges);
    sums = folded.column_1 + 16 * (x[0] / 2 * 2) + 4 * (x[0] % 2) + 8 * x[1];
    const int u2 = least_with(sums, met + 32 + x[2], own + 48 + u3);
    sums = folded.column_0 + 4 * x[0];
    const int u1 = least_with(sums, met + 16 + x[1], own + 32 + u2);
    const int u0 = least_with(own, met + x[0], own + 16 + u1);
    const int found[4] = {u0, u1, u2, u3};
    for (int c = 0; c < 4; ++c) labels[row + c] = shortlist_.labels(row + c)[found[c]];
  }

  /// The label of least sum, given columns of two matrices of charges.
  static int least_with(const float* sums, const float* met, const float* next) {
    return least_of_four(sums[0] + met[0] + next[0], sums[1] + met[4] + next[4],
                         sums[2] + met[8] + next[8], sums[3] + met[12] + next[12]);
  }

  static int least_of_four(float a, float b, float c, float d) {
    const int ab = b < a, cd = d < c;
    const int second = (d < c ? d : c) < (b < a ? b : a);
    return second * (2 + cd - ab) + ab;  // not a choice: it would be a branch that nobody foresees
  }

  /// Finds the labels of the least sum of two tables: by halving, columns 0, 1 and 2 in turn.
  template <typename Octet>
  static void least_sum_of_tables(const float* one, const float* two, int* chosen) {
    float without0[128], without1[32], without2[8];  // minima over the first columns, both halves
    for (int at = 0; at < 128; at += kOctet) {
      const Octet either = least(Octet::from(one + at) + Octet::from(two + at),
                                 Octet::from(one + at + 128) + Octet::from(two + at + 128));
      least(either, either.swapped()).to(without0 + at);
    }
    for (int at = 0; at < 32; at += kOctet) least_octet<Octet, 32>(without0 + at).to(without1 + at);
    least_octet<Octet, 8>(without1).to(without2);
    const int d = least_of_four(without2[0], without2[1], without2[2], without2[3]);
    const float* at = without1 + d;
    const int c = least_of_four(at[0], at[8], at[16], at[24]);
    at = without0 + kOffset[2][c] + d;
    const int b = least_of_four(at[0], at[32], at[64], at[96]);
    one += kOffset[1][b] + kOffset[2][c] + d;
    two += kOffset[1][b] + kOffset[2][c] + d;
    chosen[0] =
        least_of_four(one[0] + two[0], one[4] + two[4], one[128] + two[128], one[132] + two[132]);
    chosen[1] = b;
    chosen[2] = c;
    chosen[3] = d;
  }

  template <typename Octet, int kStride>
  static Octet least_octet(const float* at) {
    return least(least(Octet::from(at), Octet::from(at + kStride)),
                 least(Octet::from(at + 2 * kStride), Octet::from(at + 3 * kStride)));
  }

  float* table(int t) { return &tables_[static_cast<std::size_t>(t) * kStates]; }
  float* above(int t) { return &above_[static_cast<std::size_t>(t) * 16]; }
  float* beside(int t) { return &beside_[static_cast<std::size_t>(t) * 16]; }

  const int size_;
  Shortlist shortlist_;
  std::vector<float> tables_;
  std::vector<float> above_;   // (n, 4, 4): see `find_charges`
  std::vector<float> beside_;  // (n, 4, 4), and room for one location more
  Folded first_, last_;        // rows
};

}  // namespace comixup
