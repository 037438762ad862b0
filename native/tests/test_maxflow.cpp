// Checks MinCut against exhaustive search on tiny grids and against a plain Dinic on larger ones.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "common/maxflow.hpp"
#include "tests/checks.hpp"

namespace {

using comixup::check;
using comixup::MinCut;
using comixup::Topology;
using Edges = std::vector<std::pair<int, int>>;

Edges grid_edges(int nx, int ny, int nz) {
  Edges edges;
  for (int z = 0, v = 0; z < nz; ++z) {
    for (int y = 0; y < ny; ++y) {
      for (int x = 0; x < nx; ++x, ++v) {
        if (x + 1 < nx) edges.emplace_back(v, v + 1);
        if (y + 1 < ny) edges.emplace_back(v + nx, v);  // either orientation must work
        if (z + 1 < nz) edges.emplace_back(v, v + nx * ny);
      }
    }
  }
  return edges;
}

struct Unary {
  int node;
  float cost[2];
};

struct Pair {
  int edge;
  float cost[2][2];
};

struct Energy {
  std::vector<Unary> unaries;
  std::vector<Pair> pairs;
};

template <typename Label>
double value(const Energy& energy, const Edges& edges, const Label& label) {
  double sum = 0.0;
  for (const Unary& u : energy.unaries) sum += static_cast<double>(u.cost[label(u.node)]);
  for (const Pair& p : energy.pairs) {
    const auto& edge = edges[static_cast<std::size_t>(p.edge)];
    sum += static_cast<double>(p.cost[label(edge.first)][label(edge.second)]);
  }
  return sum;
}

double magnitude(const Energy& energy) {
  double sum = 0.0;
  for (const Unary& u : energy.unaries) {
    for (float c : u.cost) sum = std::max(sum, std::fabs(static_cast<double>(c)));
  }
  for (const Pair& p : energy.pairs) {
    for (const auto& row : p.cost) {
      for (float c : row) sum = std::max(sum, std::fabs(static_cast<double>(c)));
    }
  }
  return sum * static_cast<double>(energy.unaries.size() + energy.pairs.size());
}

double run(MinCut* cut, const Energy& energy) {
  cut->clear();
  for (const Unary& u : energy.unaries) cut->add_unary(u.node, u.cost[0], u.cost[1]);
  for (const Pair& p : energy.pairs) {
    cut->add_pair(p.edge, p.cost[0][0], p.cost[0][1], p.cost[1][0], p.cost[1][1]);
  }
  return cut->solve();
}

/// Textbook Dinic on an explicit graph with terminals, as an independent reference.
class Dinic {
 public:
  explicit Dinic(int nodes) : out_(static_cast<std::size_t>(nodes)) {}

  void add(int a, int b, double capacity) {
    at(out_, a).push_back(static_cast<int>(arcs_.size()));
    arcs_.push_back({b, capacity});
    at(out_, b).push_back(static_cast<int>(arcs_.size()));
    arcs_.push_back({a, 0.0});
  }

  double flow(int s, int t) {
    double total = 0.0;
    while (levels(s, t)) {
      next_.assign(out_.size(), 0);
      double f = 0.0;
      while ((f = augment(s, t, std::numeric_limits<double>::infinity())) > 0.0) total += f;
    }
    return total;
  }

 private:
  struct Arc {
    int head;
    double residual;
  };

  template <typename T>
  static T& at(std::vector<T>& v, int i) {
    return v[static_cast<std::size_t>(i)];
  }

  bool levels(int s, int t) {
    level_.assign(out_.size(), -1);
    std::vector<int> queue(1, s);
    at(level_, s) = 0;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (int a : at(out_, queue[i])) {
        const Arc& arc = at(arcs_, a);
        if (arc.residual <= 0.0 || at(level_, arc.head) >= 0) continue;
        at(level_, arc.head) = at(level_, queue[i]) + 1;
        queue.push_back(arc.head);
      }
    }
    return at(level_, t) >= 0;
  }

  double augment(int v, int t, double limit) {
    if (v == t) return limit;
    for (std::size_t& k = at(next_, v); k < at(out_, v).size(); ++k) {
      const int a = at(out_, v)[k];
      Arc& arc = at(arcs_, a);
      if (arc.residual <= 0.0 || at(level_, arc.head) != at(level_, v) + 1) continue;
      const double f = augment(arc.head, t, std::min(limit, arc.residual));
      if (f <= 0.0) continue;
      arc.residual -= f;
      at(arcs_, a ^ 1).residual += f;
      return f;
    }
    return 0.0;
  }

  std::vector<std::vector<int>> out_;
  std::vector<Arc> arcs_;
  std::vector<int> level_;
  std::vector<std::size_t> next_;
};

/// Minimum energy by Dinic, with the textbook one-sided decomposition of the pair terms.
double reference(const Energy& energy, const Edges& edges, int nodes) {
  std::vector<double> slope(static_cast<std::size_t>(nodes), 0.0);  // cost of 1 minus cost of 0
  const int source = nodes, sink = nodes + 1;
  Dinic dinic(nodes + 2);
  double constant = 0.0;
  const auto d = [](float x) { return static_cast<double>(x); };
  for (const Unary& u : energy.unaries) {
    constant += d(u.cost[0]);
    slope[static_cast<std::size_t>(u.node)] += d(u.cost[1]) - d(u.cost[0]);
  }
  for (const Pair& p : energy.pairs) {
    const auto& edge = edges[static_cast<std::size_t>(p.edge)];
    constant += d(p.cost[0][0]);
    slope[static_cast<std::size_t>(edge.first)] += d(p.cost[1][0]) - d(p.cost[0][0]);
    slope[static_cast<std::size_t>(edge.second)] += d(p.cost[1][1]) - d(p.cost[1][0]);
    const double w = d(p.cost[0][1]) + d(p.cost[1][0]) - d(p.cost[0][0]) - d(p.cost[1][1]);
    dinic.add(edge.first, edge.second, std::max(w, 0.0));  // label 0 on the source side here
  }
  for (int v = 0; v < nodes; ++v) {
    const double c = slope[static_cast<std::size_t>(v)];
    if (c > 0.0) dinic.add(source, v, c);
    if (c < 0.0) dinic.add(v, sink, -c);
    constant += std::min(c, 0.0);
  }
  return constant + dinic.flow(source, sink);
}

enum Style {
  kReal,
  kInteger,
  kPotts,
  kHuge,
  kTiny,
  kMixed,
  kSparse,
  kUnaryOnly,
  kPairOnly,
  kStyles
};
const char* const kStyleNames[] = {"real",  "integer", "potts",      "huge",     "tiny",
                                   "mixed", "sparse",  "unary only", "pair only"};

Energy random_energy(std::mt19937* rng, Style style, int nodes, int edges) {
  std::uniform_real_distribution<float> uniform(0.0f, 1.0f);
  const auto real = [&] { return uniform(*rng); };
  const float coupling = std::pow(10.0f, 3.0f * real() - 2.0f);
  const auto scaled = [&](float x) {
    if (style == kInteger || style == kPotts) return std::round(4.0f * x);
    if (style == kHuge) return 1e30f * x;
    if (style == kTiny) return 1e-37f * x;
    if (style == kMixed) return x * std::pow(10.0f, std::round(6.0f * real()));
    return x;
  };
  Energy energy;
  for (int v = 0; style != kPairOnly && v < nodes; ++v) {
    if (style == kSparse && real() < 0.6f) continue;
    energy.unaries.push_back({v, {scaled(2.0f * real() - 1.0f), scaled(2.0f * real() - 1.0f)}});
    if (real() < 0.1f) energy.unaries.push_back({v, {scaled(real()), 0.0f}});  // terms accumulate
  }
  for (int e = 0; style != kUnaryOnly && e < edges; ++e) {
    if (style == kSparse && real() < 0.6f) continue;
    Pair p = {e, {{0.0f, 0.0f}, {0.0f, 0.0f}}};
    const float w = real() < 0.1f ? 0.0f : scaled(coupling * real());
    if (style == kPotts) {
      p.cost[0][1] = p.cost[1][0] = w;
    } else {
      p.cost[0][0] = scaled(2.0f * real() - 1.0f);
      p.cost[1][1] = scaled(2.0f * real() - 1.0f);
      p.cost[0][1] = scaled(2.0f * real() - 1.0f);
      // Nearly modular pairs included: w = 0 leaves a violation of a rounding error.
      p.cost[1][0] = p.cost[0][0] + p.cost[1][1] - p.cost[0][1] + w;
    }
    energy.pairs.push_back(p);
    if (real() < 0.05f) energy.pairs.push_back({e, {{0.0f, w}, {0.0f, 0.0f}}});
  }
  return energy;
}

void against_brute_force(int nx, int ny, int nz, int rounds, std::mt19937* rng) {
  const Edges edges = grid_edges(nx, ny, nz);
  const int nodes = nx * ny * nz;
  const Topology topology(nodes, edges);
  MinCut cut(topology);  // one object for all rounds: state must not leak between moves
  for (int round = 0; round < rounds; ++round) {
    const Style style = static_cast<Style>(round % kStyles);
    const char* where = kStyleNames[style];
    const Energy energy = random_energy(rng, style, nodes, topology.num_edges);
    double best = std::numeric_limits<double>::infinity();
    unsigned smallest = 0;  // intersection of the label 1 sets of all minima
    for (unsigned x = 0; x < 1u << nodes; ++x) {
      const double e = value(energy, edges, [x](int v) { return (x >> v) & 1u; });
      smallest = e < best ? x : e > best ? smallest : smallest & x;
      best = std::min(best, e);
    }
    const double found = run(&cut, energy);
    const double labelled = value(energy, edges, [&](int v) { return cut.label(v); });
    // Where float costs are submodular only up to rounding they are clamped; hence the 1e-6.
    const double tolerance = 1e-6 * magnitude(energy);
    check(std::fabs(found - best) <= tolerance, "value equals brute force", where);
    check(std::fabs(labelled - best) <= tolerance, "labels are optimal", where);
    if (style == kInteger || style == kPotts) {
      unsigned ones = 0;
      for (int v = 0; v < nodes; ++v) ones |= static_cast<unsigned>(cut.label(v)) << v;
      check(found == best && labelled == best, "integer costs are exact", where);
      check(ones == smallest, "ties go to label 0", where);
    }
    check(cut.solve() == found, "solving again changes nothing", where);
  }
}

void against_dinic(int nx, int ny, int nz, int rounds, std::mt19937* rng) {
  const Edges edges = grid_edges(nx, ny, nz);
  const int nodes = nx * ny * nz;
  const Topology topology(nodes, edges);
  MinCut cut(topology);
  for (int round = 0; round < rounds; ++round) {
    const Style style = static_cast<Style>(round % kStyles);
    const char* where = kStyleNames[style];
    const Energy energy = random_energy(rng, style, nodes, topology.num_edges);
    const double found = run(&cut, energy);
    const double labelled = value(energy, edges, [&](int v) { return cut.label(v); });
    const double tolerance = 1e-6 * magnitude(energy) / std::sqrt(static_cast<double>(nodes));
    check(std::fabs(found - labelled) <= tolerance, "value is that of the labels", where);
    check(std::fabs(found - reference(energy, edges, nodes)) <= tolerance, "equals Dinic", where);
    if (style == kInteger || style == kPotts) {
      check(found == labelled && found == reference(energy, edges, nodes), "exact", where);
    }
    MinCut fresh(topology);
    bool same = run(&fresh, energy) == found;
    for (int v = 0; v < nodes; ++v) same = same && fresh.label(v) == cut.label(v);
    check(same, "a reused object equals a fresh one", where);
  }
}

void special_cases() {
  const Topology none(0, {});
  MinCut empty(none);
  empty.clear();
  check(empty.solve() == 0.0, "empty graph", "special");

  const Topology line(3, {{0, 1}, {1, 2}});
  MinCut cut(line);
  check(cut.solve() == 0.0 && cut.label(1) == 0, "no terms at all", "special");
  cut.add_unary(0, 5.0f, 2.0f);
  cut.add_unary(2, 1.0f, 4.0f);
  check(cut.solve() == 3.0 && cut.label(0) == 1 && cut.label(1) == 0, "unaries", "special");
  cut.add_pair(0, 0.0f, 9.0f, 9.0f, 0.0f);
  cut.add_pair(1, 0.0f, 9.0f, 9.0f, 0.0f);
  check(cut.solve() == 6.0 && cut.label(0) == 0 && cut.label(2) == 0, "tie goes to 0", "special");
  cut.add_unary(1, 1.0f, 0.0f);  // terms may be added between solves
  check(cut.solve() == 6.0 && cut.label(0) == 1 && cut.label(2) == 1, "tie broken", "special");
  cut.clear();
  cut.add_unary(0, 1e30f, 0.0f);
  cut.clear();                   // the scale is that of the present move only
  cut.add_unary(0, 1e9f, 0.0f);  // a hard constraint must not drown terms of ordinary size
  cut.add_pair(0, 0.0f, 2.0f, 1.0f, 0.0f);
  cut.add_unary(1, 0.0f, 0.999f);
  check(std::fabs(cut.solve() - 0.999) < 1e-6 && cut.label(1) == 1, "hard constraint", "special");
  cut.add_unary(1, 0.0f, 0.002f);
  check(std::fabs(cut.solve() - 1.0) < 1e-6 && cut.label(1) == 0, "hard constraint", "special");
  cut.add_unary(2, std::numeric_limits<float>::infinity(), 0.0f);
  check(std::isnan(cut.solve()) && cut.label(2) == 0, "infinite costs are refused", "special");
  cut.clear();
  cut.add_unary(0, std::numeric_limits<double>::denorm_min(), 0.0);
  check(std::fabs(cut.solve()) < 1e-300, "denormal costs are harmless", "special");
}

}  // namespace

int main() {
  std::mt19937 rng(20240501);
  special_cases();
  const int small[][3] = {{1, 1, 1}, {2, 1, 1}, {7, 1, 1}, {10, 1, 1}, {2, 2, 1},
                          {3, 3, 1}, {4, 3, 1}, {2, 5, 1}, {2, 2, 2},  {3, 2, 2}};
  for (const auto& n : small) against_brute_force(n[0], n[1], n[2], 600, &rng);
  const int sixteen[][3] = {{16, 1, 1}, {4, 4, 1}, {2, 2, 4}};
  for (const auto& n : sixteen) against_brute_force(n[0], n[1], n[2], 27, &rng);
  const int large[][3] = {{16, 16, 1}, {8, 8, 8}, {1, 100, 1}, {4, 4, 4}, {8, 8, 1}, {5, 13, 1}};
  for (const auto& n : large) against_dinic(n[0], n[1], n[2], 180, &rng);
  against_dinic(32, 32, 1, 18, &rng);
  return comixup::report();
}
