// The Python module `comixup._native`: its functions, folder by folder.
#include "bindings/arrays.hpp"

NB_MODULE(_native, m) {
  m.doc() = "The compiled kernel of comixup.";
  comixup::bind_solver(m);
  comixup::bind_puzzle(m);
  comixup::bind_blocks(m);
  comixup::bind_maps(m);
}
