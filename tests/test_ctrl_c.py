"""Ctrl-C ends a long computation, and a thread that cannot be started does not end the process.

Both are tried in processes of their own, which have to survive.
"""

import os
import re
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and limits of POSIX")

PRELUDE = """
import os, signal, threading, time
import numpy as np, torch
from comixup import Problem, solve
from comixup.core.grid import edges
from comixup.core.puzzle import best_masks, transport

torch.manual_seed(0)

def problem(m, *grid, **fields):
    return Problem(-torch.rand(m, *grid), torch.eye(m), **fields)

def energy(m, side):
    slopes = np.sort(np.random.default_rng(0).normal(size=(m, 2, side**2)), axis=1)
    unary = np.concatenate([np.zeros((m, 1, side**2)), slopes.cumsum(1)], axis=1)
    weights = np.ones((m, len(edges((side, side)))))
    return torch.from_numpy(unary), torch.from_numpy(weights), (side, side)
"""

# What `run` does would take some ten seconds at least, most of it far longer.
LONG = {
    "many starts": "p = problem(40, 4, 4); run = lambda: solve(p, starts=40_000, num_threads=1)",
    "two threads": "p = problem(40, 4, 4); run = lambda: solve(p, starts=40_000, num_threads=2)",
    # The caller's thread is done at once, and waits for the other one.
    "another thread": """
        p = [problem(20, 256, 256), problem(2, 256, 256, num_outputs=1)]
        run = lambda: solve(p[::-1], num_threads=2)
    """,
    "a wide grid": "p = problem(20, 256, 256); run = lambda: solve(p, num_threads=1)",
    "many inputs": "p = problem(2000, 4, 4, beta=9.0); run = lambda: solve(p, num_threads=1)",
    "reference": "p = problem(20, 4, 8); run = lambda: solve(p, starts=99, method='reference')",
    "Narasimhan and Bilmes": """
        from comixup.lab.paper import baseline_solvers
        p = problem(60, 32, 32)
        run = lambda: baseline_solvers.narasimhan_bilmes(p, iterations=10**6)
    """,
    "masks": "e = energy(4, 512); run = lambda: [best_masks(*e) for _ in range(10**4)]",
    "transport": """
        s = torch.rand(1, 250, 250)
        run = lambda: transport(s, torch.rand(1, 250, 250) < 0.2, 0.0)
    """,
}


def run(code, **settings):
    """Returns what a process of its own prints."""
    process = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **settings,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def interrupted(*settings, handler=""):
    """Returns how long computations went on after a signal, the slowest of several.

    In seconds of processors, so that other work of the machine plays no part.
    """
    tries = """
sent = []

def interrupt():
    time.sleep(0.5)
    sent.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    run()
    print("finished")
except KeyboardInterrupt:
    print("seconds", time.process_time() - sent[0])
z = solve(problem(3, 4, 4))
print("then", tuple(z.sources.shape))
"""
    code = "".join(f"{textwrap.dedent(setting)}\n{tries}" for setting in settings)
    printed = run(f"{textwrap.dedent(handler)}\n{code}")
    assert printed.count("then (3, 2, 4, 4)") == len(settings)  # nothing is left in disorder
    assert "finished" not in printed
    return max(map(float, re.findall(r"seconds (\S+)", printed)))


# Of the ten seconds and more that are left to compute, about a tenth of one is.
SOON = 1.5


def test_a_long_solve_can_be_interrupted():
    assert interrupted(LONG["many starts"], LONG["another thread"]) < SOON


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_any_long_computation_can_be_interrupted(name):
    assert interrupted(LONG[name]) < SOON


@pytest.mark.slow
def test_a_handler_of_the_callers_runs_in_the_meantime():
    # Its exception ends the computation; a handler that raises none lets it continue.
    handler = """
        def handle(*_):
            seen.append(1)
            if len(seen) == 2:
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGINT)

        seen = []
        signal.signal(signal.SIGINT, handle)
    """
    assert interrupted(LONG["many starts"], handler=handler) < SOON


# ---- Threads -------------------------------------------------------------------------------------

FEW_THREADS = """
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
room = size + THREADS * STACK + STACK // 2
resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))

def startable(most):
    end, threads = threading.Event(), []
    try:
        while len(threads) < most:
            threads.append(threading.Thread(target=end.wait))
            threads[-1].start()
    except RuntimeError:
        threads.pop()
    end.set()
    for thread in threads:
        thread.join()
    return len(threads)

assert startable(8) == THREADS, startable(8)  # or else this proves nothing
p = [problem(6, 4, 4) for _ in range(8)]
one = solve(p, num_threads=1, generator=torch.Generator().manual_seed(1))
many = solve(p, num_threads=8, generator=torch.Generator().manual_seed(1))
assert torch.equal(one.sources, many.sources)
e = energy(64, 16)
assert torch.equal(best_masks(*e, num_threads=1), best_masks(*e, num_threads=8))
print("alive")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="stacks and limits of Linux")
@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="needs all address space by itself"
)
def test_a_thread_that_cannot_be_started_does_not_end_the_process():
    resource = pytest.importorskip("resource")
    stack = 2**30  # of each thread: so many fit into the address space that is left

    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (stack, resource.RLIM_INFINITY))

    code = FEW_THREADS.replace("STACK", str(stack))
    code = "".join(code.replace("THREADS", str(threads)) for threads in (2, 0))
    code = "import resource\nfrom pathlib import Path\n" + code
    assert run(code, preexec_fn=limit).count("alive") == 2
