// What the parts of the Python module share: arrays as arguments, and their checks.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <initializer_list>
#include <stdexcept>

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

/// Each adds its functions to the module.
void bind_blocks(nb::module_& m);

}  // namespace comixup
