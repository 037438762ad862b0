// Shared by all bindings: array arguments, their checks, and running jobs.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <initializer_list>
#include <vector>

#include "common/limits.hpp"
#include "common/threads.hpp"

namespace comixup {

namespace nb = nanobind;

template <typename T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

template <typename T>
void require_shape(const Array<T>& array, std::initializer_list<std::size_t> shape,
                   const char* what) {
  bool same = array.ndim() == shape.size();
  std::size_t axis = 0;
  for (const std::size_t size : shape) same = same && array.shape(axis++) == size;
  require(same, what);
}

template <typename T>
bool all_between(const Array<const T>& array, T low, T high) {
  return all_between(array.data(), array.size(), low, high);
}

/// Returns a validated copy of indices below `count`, safe from other threads' writes to the
/// caller's memory.
template <typename T>
std::vector<T> copy_below(const Array<const T>& indices, std::size_t count, const char* what) {
  std::vector<T> copy(indices.data(), indices.data() + indices.size());
  require(all_between(copy.data(), copy.size(), T{0}, static_cast<T>(count) - 1), what);
  return copy;
}

/// Runs Python's signal handlers, so that Ctrl-C ends a computation with KeyboardInterrupt. On
/// other threads than Python's main one it does nothing.
inline void check_signals() {
  const nb::gil_scoped_acquire acquire;
#if NB_VERSION_MAJOR >= 3
  if (!acquire.is_valid()) return;  // the interpreter is shutting down
#endif
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// Runs jobs as `run_jobs` does, with the interpreter released but open to signals.
template <typename Job>
void run_released(int count, int threads, const Job& job) {
  const nb::gil_scoped_release release;
  run_jobs(count, threads, check_signals, job);
}

/// Each adds the functions of its file to the module.
void bind_solver(nb::module_& m);
void bind_puzzle(nb::module_& m);
void bind_blocks(nb::module_& m);
void bind_maps(nb::module_& m);

}  // namespace comixup
