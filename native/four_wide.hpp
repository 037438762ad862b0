// The inner step on grids four locations wide, such as the paper's 4 x 4: an exact solution over
// the four most promising labels of every location. The frontier's dynamic programming with every
// size known, so that it runs without branches.
#pragma once

#include <cstddef>
#include <vector>

#include "frontier.hpp"
#include "grid.hpp"
#include "inner_problem.hpp"
#include "lanes.hpp"
#include "octets.hpp"
#include "shortlist.hpp"

namespace comixup {

class FourWide {
 public:
  /// Whether a grid consists of rows of four (and its tables stay small).
  static bool suits(const Grid& grid) {
    if (grid.width != 4 || grid.size > kMostLocations) return false;
    for (int t = 0; t < grid.size; ++t)
      if (grid.beside[t] != (t % 4 > 0) || grid.between[t].size() > 0) return false;
    return true;
  }

  explicit FourWide(const Grid& grid)
      : size_(grid.size),
        shortlist_(grid),
        tables_(static_cast<std::size_t>(grid.size) * kStates),
        above_(static_cast<std::size_t>(grid.size) * 16) {}

  /// Writes to `labels` the labelling of least energy among those of the shortlist, and returns
  /// whether no single location would do better by more than `tie` with a label left out.
  bool minimise(const InnerProblem& problem, float tie, int* labels) {
    bool stable = false;
    with_octets([&](auto octet) { stable = minimise<decltype(octet)>(problem, tie, labels); });
    return stable;
  }

  /// The same with a given kind of octet.
  ///
  /// table_t[x] is the least energy of locations 0..t given x, the labels of the latest location
  /// in each column. All tables are kept: walking back over them finds the minimiser without
  /// storing any decision.
  template <typename Octet>
  bool minimise(const InnerProblem& problem, float tie, int* labels) {
    shortlist_.find<Octet>(problem);
    begin(problem.charges);
    for (int t = 4; t < size_; t += 4) {
      find_charges(problem.charges, t);
      step_in_column_0<Octet>(t);
      find_charges(problem.charges, t + 1);
      step_in_column_1<Octet>(t + 1);
      find_charges(problem.charges, t + 2);
      step_in_column_2<Octet>(t + 2);
      find_charges(problem.charges, t + 3);
      step_in_column_3<Octet>(t + 3);
    }
    walk_back(labels);
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

  /// Charges between label x of location s and each of the four labels of location t.
  Lanes charges_between(const Charges& charges, int s, int x, int t) const {
    return gather(charges.row(shortlist_.labels(s)[x]), shortlist_.labels(t));
  }

  void find_charges(const Charges& charges, int t) {
    const Lanes cost = load(shortlist_.costs(t));
    for (int x = 0; x < 4; ++x)
      store(charges_between(charges, t - 4, x, t) + cost, above(t) + 4 * x);
    if (t % 4 > 0)
      for (int l = 0; l < 4; ++l) store(charges_between(charges, t - 1, l, t), beside_ + 4 * l);
  }

  /// Fills the table of the first row.
  void begin(const Charges& charges) {
    Lanes more[4][4];  // what each location's labels add, by the label beside it
    for (int t = 1; t < 4; ++t)
      for (int l = 0; l < 4; ++l)
        more[t][l] = load(shortlist_.costs(t)) + charges_between(charges, t - 1, l, t);
    for (int a = 0; a < 4; ++a)
      for (int b = 0; b < 4; ++b) {
        const float sum_b = shortlist_.costs(0)[a] + more[1][a].lane[b];
        for (int c = 0; c < 4; ++c)
          store(more[3][c] + (sum_b + more[2][b].lane[c]),
                table(3) + kOffset[0][a] + kOffset[1][b] + kOffset[2][c]);
      }
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
        side[y] = Octet::halves(beside_[8 * pair + y], beside_[8 * pair + 4 + y]);
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
      for (int y = 0; y < 4; ++y) side[y] = Octet::everywhere(beside_[4 * l + y]);
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
  void step_in_column_3(int t) {
    Octet met[4], side[4];
    for (int x = 0; x < 4; ++x) met[x] = Octet::twice(above(t) + 4 * x);
    for (int l = 0; l < 4; ++l) side[l] = Octet::twice(beside_ + 4 * l);
    const float* from = table(t - 1);
    float* to = table(t);
    for (int first = 0; first < kStates; first += 4 * kOctet)
      for (int l = 0; l < 4; ++l) {
        const int at = first + l * kOctet;
        const Octet behind = Octet::from(from + at);
        (least(least(behind.template spread<0>() + met[0], behind.template spread<1>() + met[1]),
               least(behind.template spread<2>() + met[2], behind.template spread<3>() + met[3])) +
         side[l])
            .to(to + at);
      }
  }

  // ---- The way back.

  void walk_back(int* labels) {
    const float* last = table(size_ - 1);
    int chosen[4] = {};
    least_entry(last, chosen);
    for (int t = size_ - 1; t >= 0; --t) {
      int& label = chosen[t % 4];
      labels[t] = shortlist_.labels(t)[label];
      if (t < 4) continue;
      const int* offset = kOffset[t % 4];
      const float* met = above(t) + label;
      label = 0;
      const float* from = table(t - 1) + kOffset[0][chosen[0]] + kOffset[1][chosen[1]] +
                          kOffset[2][chosen[2]] + kOffset[3][chosen[3]];
      label = least_of_four(from[offset[0]] + met[0], from[offset[1]] + met[4],
                            from[offset[2]] + met[8], from[offset[3]] + met[12]);
    }
  }

  static int least_of_four(float a, float b, float c, float d) {
    const int ab = b < a, cd = d < c;
    const float least_ab = b < a ? b : a, least_cd = d < c ? d : c;
    return least_cd < least_ab ? 2 + cd : ab;
  }

  /// Finds the labels of a table's least entry: by halving, columns 0, 1 and 2 in turn.
  static void least_entry(const float* entries, int* chosen) {
    float without0[64], without1[16], without2[4];  // minima over the first columns
    for (int r = 0; r < 16; ++r) {
      const float* at = entries + r * kOctet;
      store(least(least(load(at), load(at + 4)), least(load(at + 128), load(at + 132))),
            without0 + 4 * r);
    }
    for (int r = 0; r < 4; ++r) {
      const float* at = without0 + 4 * r;
      store(least(least(load(at), load(at + 16)), least(load(at + 32), load(at + 48))),
            without1 + 4 * r);
    }
    store(least(least(load(without1), load(without1 + 4)),
                least(load(without1 + 8), load(without1 + 12))),
          without2);
    const int d = least_of_four(without2[0], without2[1], without2[2], without2[3]);
    const float* at = without1 + d;
    const int c = least_of_four(at[0], at[4], at[8], at[12]);
    at = without0 + 4 * c + d;
    const int b = least_of_four(at[0], at[16], at[32], at[48]);
    at = entries + kOffset[1][b] + kOffset[2][c] + d;
    chosen[0] = least_of_four(at[0], at[4], at[128], at[132]);
    chosen[1] = b;
    chosen[2] = c;
    chosen[3] = d;
  }

  float* table(int t) { return &tables_[static_cast<std::size_t>(t) * kStates]; }
  float* above(int t) { return &above_[static_cast<std::size_t>(t) * 16]; }

  const int size_;
  Shortlist shortlist_;
  std::vector<float> tables_;
  std::vector<float> above_;  // (n, 4, 4): the cost of label y and its charge with x above
  float beside_[16];          // the charge of label y with l beside
};

}  // namespace comixup
