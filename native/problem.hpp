// Eq. (1) as the kernel sees it: weights per location, and the charge between two labels.
#pragma once

#include <algorithm>

namespace comixup {

enum class Clip { kNone, kSoft, kHard };
enum class Smoothness { kSquared, kInner, kReleased };

/// The weights of Eq. (1) per location: beta / n, gamma / n, eta / n.
struct Weights {
  double beta = 0, gamma = 0, eta = 0;
  Clip clip = Clip::kSoft;
  double clip_level = 0;  ///< tau', where Eq. (2) clips the pressure
  Smoothness smoothness = Smoothness::kSquared;

  /// phi(v), Eq. (2)'s penalty of an input under pressure v, less the constant tau'.
  double phi(double v) const {
    if (clip == Clip::kNone) return v;
    if (clip == Clip::kSoft) return std::max(v - clip_level, 0.0);
    return v > clip_level ? v : 0.0;
  }
};

struct ProblemView {
  int inputs = 0, outputs = 0;
  const double* cost = nullptr;           ///< (m, n) row-major; one-hot labels' prior folded in
  const double* compatibility = nullptr;  ///< A, (m, m)
  Weights weights;
};

/// sum_i z_i z'_i of two labels, each a sorted list of `levels` inputs.
inline double inner_product(const int* a, const int* b, int levels) {
  int matches = 0;
  for (int x = 0; x < levels; ++x)
    for (int y = 0; y < levels; ++y) matches += a[x] == b[y];
  return static_cast<double>(matches) / (levels * levels);
}

/// V(z, z') of two labels. Within [0, 1].
inline double charge(const int* a, const int* b, int levels, Smoothness form) {
  const bool pure_a = a[0] == a[levels - 1], pure_b = b[0] == b[levels - 1];
  if (pure_a && pure_b) return a[0] == b[0] ? 0 : 1;
  const double inner = inner_product(a, b, levels);
  if (form == Smoothness::kInner) return 1 - inner;
  if (form == Smoothness::kReleased && !std::equal(a, a + levels, b) &&
      !((pure_a || pure_b) && inner > 0))
    return 1;
  const double norm_a = pure_a ? 1 : inner_product(a, a, levels);
  const double norm_b = pure_b ? 1 : inner_product(b, b, levels);
  return (norm_a + norm_b) / 2 - inner;
}

}  // namespace comixup
