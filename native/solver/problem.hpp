// Eq. (1) as the kernel sees it: costs, compatibility and weights per location.
#pragma once

#include <algorithm>
#include <cstddef>

namespace comixup {

enum class Clip { kNone, kSoft, kHard };
enum class Smoothness { kSquared, kInner, kOfficial };

/// The weights of Eq. (1) per location: beta / n, gamma / n, eta / n.
struct Weights {
  double beta = 0, gamma = 0, eta = 0;
  Clip clip = Clip::kSoft;
  double clip_level = 0;  ///< tau', where Eq. (2) clips the load
  Smoothness smoothness = Smoothness::kSquared;

  /// phi(v), Eq. (2)'s penalty of an input of load v, less the constant tau'.
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

/// The largest energy that decides between labels: the given largest range of costs over the inputs
/// at a location, beta or eta; the largest penalty if all are 0.
inline double largest_energy(const ProblemView& problem, int locations, double cost_range) {
  const Weights& w = problem.weights;
  const double largest = std::max({cost_range, w.beta, w.eta});
  if (largest > 0) return largest;
  const auto m = static_cast<std::size_t>(problem.inputs);
  const double* A = problem.compatibility;
  return 2 * w.gamma * *std::max_element(A, A + m * m) * locations * problem.outputs;
}

/// The number of locations of an output that an input fills.
struct SourceCount {
  int input;
  double count;
};

/// The inputs that an output uses.
class SourceCounts {
 public:
  SourceCounts(const SourceCount* first, int count) : first_(first), count_(count) {}
  const SourceCount* begin() const { return first_; }
  const SourceCount* end() const { return first_ + count_; }

 private:
  const SourceCount* first_;
  int count_;
};

}  // namespace comixup
