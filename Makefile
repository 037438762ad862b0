# Every target sets up what it needs inside .venv, then does its job; the second call is quick.
# Stamps in .venv remember what has been installed and which sources the kernel was built from.

PYTHON ?= python3
CXX ?= c++
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
SANITIZED := build/sanitize
PROGRAMS := build/native-$(notdir $(CXX))
OTHER := build/kernel-$(notdir $(CXX))
BROWSER := build/browser
NATIVE_TESTS := $(wildcard native/tests/*.cpp)
KERNEL := CMakeLists.txt $(filter-out native/tests/%,$(wildcard native/*/*.hpp native/*/*.cpp))
# The tests that reach the compiled kernel: the others have nothing to sanitize.
KERNEL_TESTS = $(shell grep -lE '(import|from) .*\b(_native|solve|gather|maps|puzzle)\b|_native"' tests/test_*.py tests/core/test_*.py tests/mixers/test_puzzlemix.py) \
  tests/mixers/test_comixup.py src/comixup/core/solve.py src/comixup/core/puzzle.py
# One thread each, for the workers share the cores; a file's tests share what they set up, so they
# stay on one worker, and the files that take longest come first (tests/conftest.py).
# One worker more than cores: that with the tests of processes mostly waits for them. Bytecode is
# written even where the environment says not to: workers and the processes that tests start would
# compile the same modules again and again.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
TEST = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
SANITIZERS := -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all -fno-omit-frame-pointer

.PHONY: help demo test slow browser check docs bench native compiler sanitize package format clean
.DELETE_ON_ERROR:

help:  ## print this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.stamp-demo $(VENV)/.stamp-kernel  ## mix photographs, train on few digits without and with Co-Mixup (about a minute), draw out/demo.png
	$(BIN)/python examples/demo.py

test: $(VENV)/.stamp-dev $(VENV)/.stamp-kernel  ## run the tests (not those marked slow or data)
	$(TEST)

slow: $(VENV)/.stamp-dev $(VENV)/.stamp-kernel  ## run the tests marked slow, but for those that need data sets
	$(TEST) -m 'slow and not data and not cuda and not browser'

browser: $(BROWSER)/.stamp-explorer $(VENV)/.stamp-kernel  ## run the tests of the explorer's page, in a headless Chromium
	@for program in chromium chromedriver; do command -v $$program > /dev/null || { \
	  echo "These tests drive a real browser, and there is no $$program here. On Debian:"; \
	  echo "  apt-get install chromium chromium-driver"; \
	  echo "Elsewhere put both programs of one version on the PATH under these names."; exit 1; }; done
	OMP_NUM_THREADS=1 $(BROWSER)/venv/bin/python -m pytest -m browser tests/lab/explorer
	OMP_NUM_THREADS=1 $(BROWSER)/venv/bin/python -m pytest -m slow tests/lab/explorer/test_page.py

check: $(VENV)/.stamp-dev $(VENV)/.stamp-kernel  ## lint, formatting and types, Python and C++
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(filter native/%,$(KERNEL)) $(wildcard native/tests/*)

# Warnings are errors: links and names that lead nowhere, docstrings and formulas that cannot be read.
docs: $(VENV)/.stamp-docs $(VENV)/.stamp-kernel  ## build the documentation site in build/docs, open index.html there
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -n -W --keep-going -q -d build/doctrees docs build/docs
	@echo "Open build/docs/index.html."

bench: $(VENV)/.stamp-bench $(VENV)/.stamp-kernel  ## run the benchmarks against the baselines
	$(BIN)/python benchmarks/run_all.py

format: $(VENV)/.stamp-dev  ## rewrite Python and C++ in the project's layout
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(filter native/%,$(KERNEL)) $(wildcard native/tests/*)

native: $(NATIVE_TESTS:native/tests/%.cpp=$(PROGRAMS)/%)  ## compile and run the kernel's C++ tests (another compiler: CXX=clang++)
	set -e; for program in $^; do $$program; done

# Its results must be those of the first compiler's, bit by bit: tests/test_two_compilers.py.
compiler: native $(OTHER)/.stamp-kernel  ## build the kernel by another compiler (CXX=clang++), run its tests, compare with the first
	$(OTHER)/venv/bin/python -m pytest -p no:cacheprovider $(KERNEL_TESTS)
	$(BIN)/python -m pytest -m slow tests/test_two_compilers.py

# Python itself is not built with the sanitizers, so their library has to be loaded first (and the
# C++ library with it, or exceptions cannot be followed); Python's own leaks are of no interest.
# Standard error stays uncaptured: there a sanitizer says what it found before it ends the process.
sanitize: $(SANITIZED)/.stamp-kernel $(NATIVE_TESTS:native/tests/%.cpp=$(SANITIZED)/%)  ## run the kernel's tests under address and undefined-behaviour sanitizers (Linux, GCC)
	set -e; for program in $(filter-out %/.stamp-kernel,$^); do $$program; done
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	$(SANITIZED)/venv/bin/python -m pytest -p no:cacheprovider --capture=sys $(KERNEL_TESTS)

package: $(VENV)/.stamp-dev $(VENV)/.stamp-kernel  ## build sdist and wheel in dist/, and try the wheel in an empty environment
	$(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/python -m pytest -m slow tests/test_wheel.py

clean:  ## remove what was built (the packages in .venv stay: remove it by hand)
	rm -rf build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis $(VENV)/.stamp-kernel
	find src tests benchmarks examples -name __pycache__ -type d -exec rm -rf {} +

# ---- What the targets stand on ------------------------------------------------------------------

$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "comixup needs Python 3.10 or newer, got: $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another one: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

# What builds the kernel, installed once so that building again needs no fresh environment.
$(VENV)/.stamp-tools: $(VENV)/.stamp-venv pyproject.toml constraints.txt
	$(PIP) install -q -c constraints.txt scikit-build-core nanobind cmake ninja
	touch $@

$(VENV)/.stamp-kernel: $(VENV)/.stamp-tools pyproject.toml $(KERNEL)
	$(PIP) install -q --no-build-isolation --no-deps -e .
	touch $@

# The package is in place already (order only), so its name with an extra installs just the extra.
$(VENV)/.stamp-%: pyproject.toml constraints.txt | $(VENV)/.stamp-kernel
	@echo "Installing comixup[$*]: minutes the first time, most of them for torch."
	$(PIP) install -q -c constraints.txt 'comixup[$*]'
	touch $@

# A second environment that borrows every package of the first one but has its own kernel.
$(SANITIZED)/.stamp-kernel: $(VENV)/.stamp-dev $(VENV)/.stamp-kernel $(KERNEL)
	$(BIN)/python -m venv --without-pip $(SANITIZED)/venv
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$($(SANITIZED)/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/borrowed.pth"
	CXX=$(CXX) $(PIP) --python $(SANITIZED)/venv/bin/python install -q --no-build-isolation --no-deps \
	  --ignore-installed --config-settings=build-dir=$(SANITIZED)/kernel \
	  --config-settings=cmake.define.COMIXUP_SANITIZE=ON --config-settings=cmake.build-type=Debug \
	  --config-settings=install.strip=false -e .
	touch $@

$(OTHER)/.stamp-kernel: $(VENV)/.stamp-dev $(VENV)/.stamp-kernel $(KERNEL)
	$(BIN)/python -m venv --without-pip $(OTHER)/venv
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$($(OTHER)/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/borrowed.pth"
	CXX=$(CXX) $(PIP) --python $(OTHER)/venv/bin/python install -q --no-build-isolation --no-deps \
	  --ignore-installed --config-settings=build-dir=$(OTHER)/kernel -e .
	touch $@

# gradio takes no Pillow 13, which everything else is tested with: an environment of its own, where
# what it has comes before what it borrows.
$(BROWSER)/.stamp-explorer: $(VENV)/.stamp-dev pyproject.toml constraints-explorer.txt | $(VENV)/.stamp-kernel
	$(BIN)/python -m venv --without-pip $(BROWSER)/venv
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > "$$($(BROWSER)/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/borrowed.pth"
	$(PIP) --python $(BROWSER)/venv/bin/python install -q -c constraints-explorer.txt 'comixup[browser]'
	touch $@

$(PROGRAMS)/%: native/tests/%.cpp native/tests/checks.hpp $(KERNEL)
	mkdir -p $(PROGRAMS)
	$(CXX) -std=c++17 -O2 -ffp-contract=off -Wall -Wextra -Wno-psabi -Inative $< -o $@ -pthread

$(SANITIZED)/%: native/tests/%.cpp native/tests/checks.hpp $(KERNEL)
	mkdir -p $(SANITIZED)
	$(CXX) -std=c++17 -g -O1 $(SANITIZERS) -Wall -Wextra -Wno-psabi -Inative $< -o $@ -pthread
