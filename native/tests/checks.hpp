// Counted checks, and the report of a test program.
#pragma once

#include <cstdio>

namespace comixup {

inline long checks = 0;
inline long failures = 0;

inline void check(bool ok, const char* what, const char* where = "") {
  ++checks;
  if (ok) return;
  if (++failures <= 20) std::printf("FAILED: %s %s\n", what, where);
}

/// Prints the counts; returns what main() is to return.
inline int report() {
  std::printf("%ld checks, %ld failures\n", checks, failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace comixup
