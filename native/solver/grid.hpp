// The grid of locations: the order in which they are visited, and their neighbors.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace comixup {

/// Up to two neighbors along each of three axes, stored inline for the inner loops.
class Neighbours {
 public:
  static constexpr int kMost = 6;

  void add(int location) { list_[count_++] = location; }
  int size() const { return count_; }
  const int* begin() const { return list_; }
  const int* end() const { return list_ + count_; }
  /// Pads the list, for loops of fixed length.
  void pad(int location) { std::fill(list_ + count_, list_ + kMost, location); }

 private:
  int list_[kMost] = {};
  int count_ = 0;
};

/// A grid of 1 to 3 dimensions whose locations are numbered slab by slab across its longest side.
///
/// In that order a location's earlier neighbors are at most `width` (the size of a slab) back, so
/// the last `width` locations, the frontier, separate the visited part from the rest.
class Grid {
 public:
  explicit Grid(std::vector<int> sides) {
    while (sides.size() < 3) sides.push_back(1);
    const auto longest = std::max_element(sides.begin(), sides.end()) - sides.begin();
    const std::array<int, 3> stride = {sides[1] * sides[2], sides[2], 1};
    std::array<int, 3> axis = {0, 1, 2};
    std::rotate(axis.begin(), axis.begin() + longest, axis.begin() + longest + 1);
    const int a = sides[axis[0]];
    const int b = sides[axis[1]];
    const int c = sides[axis[2]];
    size = a * b * c;
    width = b * c;
    neighbours.resize(size);
    for (int u = 0; u < a; ++u)
      for (int v = 0; v < b; ++v)
        for (int w = 0; w < c; ++w) {
          const int t = static_cast<int>(location.size());
          location.push_back(u * stride[axis[0]] + v * stride[axis[1]] + w * stride[axis[2]]);
          if (u > 0) connect(t - width, t);
          if (v > 0) connect(t - c, t);
          if (w > 0) connect(t - 1, t);
        }
    for (const Neighbours& list : neighbours) max_degree = std::max(max_degree, list.size());
    for (Neighbours& list : neighbours) list.pad(size);
    for (int t = 0; t < size; ++t) {
      beside.push_back(t > 0 && width > 1 && adjacent(t - 1, t));
      between.emplace_back();
      for (const int other : neighbours[t])
        if (other < t - 1 && other > t - width) between.back().add(other);
    }
  }

  bool adjacent(int a, int b) const {
    return std::find(neighbours[a].begin(), neighbours[a].end(), b) != neighbours[a].end();
  }

  struct Edge {
    int earlier, later;
  };

  int size = 0;                        ///< n, the number of locations
  int width = 0;                       ///< the size of a slab, and of the frontier
  std::vector<int> location;           ///< row-major number of each visited location
  std::vector<Edge> edges;             ///< neighboring locations, in visiting order
  std::vector<char> beside;            ///< whether the location just before is a neighbor, and is
                                       ///< not the one that a frontier of this width drops
  std::vector<Neighbours> between;     ///< earlier neighbors that are neither of these two
  std::vector<Neighbours> neighbours;  ///< of each location, padded with location `size`
  int max_degree = 0;                  ///< most neighbors that a location has

 private:
  void connect(int earlier, int later) {
    edges.push_back({earlier, later});
    neighbours[earlier].add(later);
    neighbours[later].add(earlier);
  }
};

}  // namespace comixup
