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

  /// Writes the labelling of least energy over the shortlist to `labels`, and returns whether no
  /// single change to another label lowers the energy by more than `tie`.
  bool minimize(const InnerProblem& problem, float tie, int* labels) {
    bool stable = false;
    with_vec8f([&](auto vec8f) { stable = minimize<decltype(vec8f)>(problem, tie, labels); });
    return stable;
  }

  /// The same with a given Vec8f.
  ///
  /// The first row is folded into the second one and the last row into the one before it; from the
  /// second row on, table_t[x] is the least energy of locations 0..t given x, the labels of the
  /// latest location in each column. All tables are kept: walking back over them finds the
  /// minimizer without storing any decision.
  template <typename Vec8f>
  bool minimize(const InnerProblem& problem, float tie, int* labels) {
    shortlist_.find<Vec8f>(problem);
    find_pairwise<Vec8f>(problem);
    const int last = size_ - 4;
    fold<Vec8f>(4, beside(4), first_, table(7));
    for (int t = 8; t < last; t += 4) {
      step_in_column_0<Vec8f>(t);
      step_in_column_1<Vec8f>(t + 1);
      step_in_column_2<Vec8f>(t + 2);
      step_in_column_3<Vec8f>(table(t + 2), above(t + 3), beside(t + 3), table(t + 3));
    }
    fold<Vec8f>(last, kZeros, last_, table(last + 3));
    walk_back<Vec8f>(labels);
    return problem.num_labels() <= Shortlist::kSize ||
           shortlist_.is_stable<Vec8f>(problem, labels, tie);
  }

 private:
  static constexpr int kMostLocations = 256;
  static constexpr int kStates = 256;  // labellings of the frontier
  /// A labelling's index in a table is the sum of its labels' offsets by column. A Vec8f holds two
  /// labels of column 0 (one per half) times the four of column 3.
  static constexpr int kOffset[4][4] = {
      {0, 4, 128, 132}, {0, 32, 64, 96}, {0, 8, 16, 24}, {0, 1, 2, 3}};
  static constexpr float kZeros[4 * 16] = {};

  /// Fills `above_` and `beside_`. A label's cost is counted once: in rows that are folded with the
  /// pairwise cost beside it, in the others with the one above it. The last row is folded into the
  /// row above it, the first into the one below.
  template <typename Vec8f>
  void find_pairwise(const InnerProblem& problem) {
    const int above_last = size_ - 8, last = size_ - 4;
    for (int s = 0; s < above_last; ++s)
      find_pairwise_of<Vec8f>(problem, s, s + 4, shortlist_.costs(s + 4), above(s + 4));
    for (int s = above_last; s < last; ++s)
      find_pairwise_of<Vec8f>(problem, s, s, kZeros, above(0));  // nothing above the first row
    for (int s = last; s < size_; ++s) find_pairwise_of<Vec8f>(problem, s, s - 4, kZeros, above(s));
    for (const int t : {0, last}) store(load(shortlist_.costs(t)), beside(t));
  }

  /// Pairwise costs between the labels of location s and those of location t and of s + 1.
  template <typename Vec8f>
  void find_pairwise_of(const InnerProblem& problem, int s, int t, const float* costs,
                        float* vertical) {
    const bool folded = s < 4 || s >= size_ - 4;
    const Vec8f more = Vec8f::join(costs, folded ? shortlist_.costs(s + 1) : kZeros);
    const typename Vec8f::Indices at{shortlist_.labels(t), shortlist_.labels(s + 1)};
    float* horizontal = beside(s + 1);  // past the last column: overwritten, or unused
    for (int x = 0; x < 4; ++x)
      (Vec8f::look_up(problem.pairwise.row(shortlist_.labels(s)[x]), problem.num_labels(), at) +
       more)
          .store(vertical + 4 * x, horizontal + 4 * x);
  }

  // ---- Folding a row into the adjacent one: u are its labels, x those of the other one.

  /// Partial minima of a row's energy, kept for backtracking.
  struct Folded {
    float column_0[16];       ///< x_0; u_1
    float column_1[64];       ///< x_0, x_1; u_2
    float column_2[kStates];  ///< x_0, x_1, x_2; u_3
  };

  /// Fills a table over x with the least energy of the folded row and its pairwise costs with x.
  /// Row `t` is the lower one of the two; `horizontal`: pairwise costs within x, column by column.
  template <typename Vec8f>
  void fold(int t, const float* horizontal, Folded& folded, float* to) {
    const float* own = beside(t == 4 ? 0 : t);
    const float* vertical = above(t);
    Vec8f costs[4];
    for (int u = 0; u < 4; ++u)
      costs[u] = Vec8f::twice(own + 16 + 4 * u) + Vec8f::broadcast(own[u]);
    for (int pair = 0; pair < 2; ++pair) {
      Vec8f sums[4];
      for (int u = 0; u < 4; ++u)
        sums[u] =
            costs[u] + Vec8f::halves(vertical[4 * u + 2 * pair], vertical[4 * u + 2 * pair + 1]);
      min(min(sums[0], sums[1]), min(sums[2], sums[3])).store(folded.column_0 + 8 * pair);
    }
    Vec8f more[4][4];
    find_more(own + 32, vertical + 16, more);
    for (int pair = 0; pair < 2; ++pair) {
      const Vec8f previous = Vec8f::load(folded.column_0 + 8 * pair);
      for (int x = 0; x < 4; ++x)
        (min_sum(previous, more[x]) +
         Vec8f::halves(horizontal[16 + 8 * pair + x], horizontal[16 + 8 * pair + 4 + x]))
            .store(folded.column_1 + 32 * pair + 8 * x);
    }
    find_more(own + 48, vertical + 32, more);
    for (int l = 0; l < 4; ++l)
      for (int pair = 0; pair < 2; ++pair) {
        const Vec8f previous = Vec8f::load(folded.column_1 + 32 * pair + 8 * l);
        for (int x = 0; x < 4; ++x)
          (min_sum(previous, more[x]) + Vec8f::broadcast(horizontal[32 + 4 * l + x]))
              .store(folded.column_2 + 128 * pair + 32 * l + 8 * x);
      }
    step_in_column_3<Vec8f>(folded.column_2, vertical + 48, horizontal + 48, to);
  }

  /// more[x][u]: what u adds by the labels u' next to it (lanes), if it meets x.
  template <typename Vec8f>
  static void find_more(const float* next, const float* vertical, Vec8f (&more)[4][4]) {
    for (int u = 0; u < 4; ++u) {
      const Vec8f beside = Vec8f::twice(next + 4 * u);
      for (int x = 0; x < 4; ++x) more[x][u] = beside + Vec8f::broadcast(vertical[4 * u + x]);
    }
  }

  /// The minimum over lanes l of lane l of each half of `previous` plus more[l].
  template <typename Vec8f>
  static Vec8f min_sum(const Vec8f& previous, const Vec8f (&more)[4]) {
    return min(min(previous.template broadcast_lane<0>() + more[0],
                   previous.template broadcast_lane<1>() + more[1]),
               min(previous.template broadcast_lane<2>() + more[2],
                   previous.template broadcast_lane<3>() + more[3]));
  }

  // ---- Steps: the table of location t, whose label y replaces the one above it, x.
  // `vertical` is y's unary cost and its pairwise cost with x, `horizontal` the pairwise cost with
  // l, the label beside it.

  template <typename Vec8f>
  void step_in_column_0(int t) {
    const float* vertical = above(t);
    Vec8f same[2][2], crossed[2][2];  // pairs of y, pairs of x
    for (int y = 0; y < 4; y += 2)
      for (int x = 0; x < 4; x += 2) {
        same[y / 2][x / 2] = Vec8f::halves(vertical[4 * x + y], vertical[4 * (x + 1) + y + 1]);
        crossed[y / 2][x / 2] = Vec8f::halves(vertical[4 * (x + 1) + y], vertical[4 * x + y + 1]);
      }
    const float* from = table(t - 1);
    float* to = table(t);
    for (int at = 0; at < kStates / 2; at += kVec8f) {
      const Vec8f previous0 = Vec8f::load(from + at), previous1 = Vec8f::load(from + at + 128);
      const Vec8f swapped0 = previous0.swap_halves(), swapped1 = previous1.swap_halves();
      for (int y = 0; y < 2; ++y)
        min(min(previous0 + same[y][0], swapped0 + crossed[y][0]),
            min(previous1 + same[y][1], swapped1 + crossed[y][1]))
            .store(to + at + 128 * y);
    }
  }

  template <typename Vec8f>
  void step_in_column_1(int t) {
    for (int pair = 0; pair < 2; ++pair) {  // of labels beside
      Vec8f vertical[4][4], horizontal[4];
      for (int y = 0; y < 4; ++y) {
        for (int x = 0; x < 4; ++x) vertical[x][y] = Vec8f::broadcast(above(t)[4 * x + y]);
        horizontal[y] = Vec8f::halves(beside(t)[8 * pair + y], beside(t)[8 * pair + 4 + y]);
      }
      for (int at = 128 * pair; at < 128 * pair + 32; at += kVec8f)
        step<32>(t, at, vertical, horizontal);
    }
  }

  template <typename Vec8f>
  void step_in_column_2(int t) {
    Vec8f vertical[4][4];
    for (int x = 0; x < 4; ++x)
      for (int y = 0; y < 4; ++y) vertical[x][y] = Vec8f::broadcast(above(t)[4 * x + y]);
    for (int l = 0; l < 4; ++l) {
      Vec8f horizontal[4];
      for (int y = 0; y < 4; ++y) horizontal[y] = Vec8f::broadcast(beside(t)[4 * l + y]);
      step<8>(t, 32 * l, vertical, horizontal);
      step<8>(t, 32 * l + 128, vertical, horizontal);
    }
  }

  template <int kStride, typename Vec8f>
  void step(int t, int at, const Vec8f (&vertical)[4][4], const Vec8f (&horizontal)[4]) {
    const float* from = table(t - 1) + at;
    float* to = table(t) + at;
    // Not an array: the compiler would copy it through memory.
    const Vec8f previous0 = Vec8f::load(from), previous1 = Vec8f::load(from + kStride);
    const Vec8f previous2 = Vec8f::load(from + 2 * kStride),
                previous3 = Vec8f::load(from + 3 * kStride);
    for (int y = 0; y < 4; ++y)
      (min(min(previous0 + vertical[0][y], previous1 + vertical[1][y]),
           min(previous2 + vertical[2][y], previous3 + vertical[3][y])) +
       horizontal[y])
          .store(to + kStride * y);
  }

  template <typename Vec8f>
  static void step_in_column_3(const float* from, const float* above, const float* beside,
                               float* to) {
    Vec8f vertical[4], horizontal[4];
    for (int x = 0; x < 4; ++x) vertical[x] = Vec8f::twice(above + 4 * x);
    for (int l = 0; l < 4; ++l) horizontal[l] = Vec8f::twice(beside + 4 * l);
    for (int first = 0; first < kStates; first += 4 * kVec8f)
      for (int l = 0; l < 4; ++l) {
        const int at = first + l * kVec8f;
        (min_sum(Vec8f::load(from + at), vertical) + horizontal[l]).store(to + at);
      }
  }

  // ---- Backtracking.

  template <typename Vec8f>
  void walk_back(int* labels) {
    int chosen[4];
    const int last = size_ - 4;
    argmin_of_sum<Vec8f>(table(last - 1), table(last + 3), chosen);
    unfold(last, last, last_, chosen, labels);
    for (int t = last - 1; t >= 8; --t) {
      int& label = chosen[t % 4];
      labels[t] = shortlist_.labels(t)[label];
      const int* offset = kOffset[t % 4];
      const float* vertical = above(t) + label;
      label = 0;
      const float* from = table(t - 1) + kOffset[0][chosen[0]] + kOffset[1][chosen[1]] +
                          kOffset[2][chosen[2]] + kOffset[3][chosen[3]];
      label = argmin_of_four(from[offset[0]] + vertical[0], from[offset[1]] + vertical[4],
                             from[offset[2]] + vertical[8], from[offset[3]] + vertical[12]);
    }
    for (int t = 4; t < 8; ++t) labels[t] = shortlist_.labels(t)[chosen[t - 4]];
    unfold(0, 4, first_, chosen, labels);
  }

  /// Finds the labels of the folded row at `row`, given those of the one next to it; `t` as in
  /// `fold`.
  void unfold(int row, int t, const Folded& folded, const int* x, int* labels) {
    const float *own = beside(row), *vertical = above(t);
    const float* sums = folded.column_2 + kOffset[0][x[0]] + kOffset[1][x[1]] + kOffset[2][x[2]];
    const int u3 = argmin_with(sums, vertical + 48 + x[3], kZeros);
    sums = folded.column_1 + 16 * (x[0] / 2 * 2) + 4 * (x[0] % 2) + 8 * x[1];
    const int u2 = argmin_with(sums, vertical + 32 + x[2], own + 48 + u3);
    sums = folded.column_0 + 4 * x[0];
    const int u1 = argmin_with(sums, vertical + 16 + x[1], own + 32 + u2);
    const int u0 = argmin_with(own, vertical + x[0], own + 16 + u1);
    const int found[4] = {u0, u1, u2, u3};
    for (int c = 0; c < 4; ++c) labels[row + c] = shortlist_.labels(row + c)[found[c]];
  }

  /// The label of least sum with columns of two matrices of pairwise costs.
  static int argmin_with(const float* sums, const float* vertical, const float* next) {
    return argmin_of_four(sums[0] + vertical[0] + next[0], sums[1] + vertical[4] + next[4],
                          sums[2] + vertical[8] + next[8], sums[3] + vertical[12] + next[12]);
  }

  static int argmin_of_four(float a, float b, float c, float d) {
    const int ab = b < a, cd = d < c;
    const int second = (d < c ? d : c) < (b < a ? b : a);
    return second * (2 + cd - ab) + ab;  // avoids an unpredictable branch
  }

  /// Finds the labels of the least sum of two tables: by halving, columns 0, 1 and 2 in turn.
  template <typename Vec8f>
  static void argmin_of_sum(const float* one, const float* two, int* chosen) {
    float without0[128], without1[32], without2[8];  // minima over the first columns, both halves
    for (int at = 0; at < 128; at += kVec8f) {
      const Vec8f either = min(Vec8f::load(one + at) + Vec8f::load(two + at),
                               Vec8f::load(one + at + 128) + Vec8f::load(two + at + 128));
      min(either, either.swap_halves()).store(without0 + at);
    }
    for (int at = 0; at < 32; at += kVec8f)
      min_of_rows<Vec8f, 32>(without0 + at).store(without1 + at);
    min_of_rows<Vec8f, 8>(without1).store(without2);
    const int d = argmin_of_four(without2[0], without2[1], without2[2], without2[3]);
    const float* at = without1 + d;
    const int c = argmin_of_four(at[0], at[8], at[16], at[24]);
    at = without0 + kOffset[2][c] + d;
    const int b = argmin_of_four(at[0], at[32], at[64], at[96]);
    one += kOffset[1][b] + kOffset[2][c] + d;
    two += kOffset[1][b] + kOffset[2][c] + d;
    chosen[0] =
        argmin_of_four(one[0] + two[0], one[4] + two[4], one[128] + two[128], one[132] + two[132]);
    chosen[1] = b;
    chosen[2] = c;
    chosen[3] = d;
  }

  template <typename Vec8f, int kStride>
  static Vec8f min_of_rows(const float* at) {
    return min(min(Vec8f::load(at), Vec8f::load(at + kStride)),
               min(Vec8f::load(at + 2 * kStride), Vec8f::load(at + 3 * kStride)));
  }

  float* table(int t) { return &tables_[static_cast<std::size_t>(t) * kStates]; }
  float* above(int t) { return &above_[static_cast<std::size_t>(t) * 16]; }
  float* beside(int t) { return &beside_[static_cast<std::size_t>(t) * 16]; }

  const int size_;
  Shortlist shortlist_;
  std::vector<float> tables_;
  std::vector<float> above_;   // (n, 4, 4): see `find_pairwise`
  std::vector<float> beside_;  // (n, 4, 4), and room for one location more
  Folded first_, last_;        // rows
};

}  // namespace comixup
