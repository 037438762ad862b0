// What the parts of the Python module share: arrays as arguments, and their checks.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <vector>

namespace comixup {

namespace nb = nanobind;

template <typename T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

inline void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

template <typename T>
void require_shape(const Array<T>& array, std::initializer_list<std::size_t> shape,
                   const char* what) {
  bool same = array.ndim() == shape.size();
  std::size_t axis = 0;
  for (const std::size_t size : shape) same = same && array.shape(axis++) == size;
  require(same, what);
}

inline void require_sides(const std::vector<int>& sides) {
  require(!sides.empty() && sides.size() <= 3, "grid must have 1 to 3 sides");
  for (const int side : sides) require(side > 0, "grid sides must be positive");
}

/// Each adds its functions to the module.
void bind_blocks(nb::module_& m);
void bind_maps(nb::module_& m);
void bind_puzzle(nb::module_& m);

}  // namespace comixup
