"""Programs with recursive closures keep nothing from call to call (S004-30)."""

from __future__ import annotations

import gc
import resource
import tracemalloc

import numpy as np
import pytest

import tensorad as ta
from tensorad.language import parse

TEXT = """
def f(x) {
  go = fn (v, n) { if n == 0 { v } else { sin(go(v, n - 1)) } }
  r = ref(go)
  read(r)(x, 3)
}
"""


def grown(calls: int) -> int:
    """Bytes that are kept of so many calls, after some to begin with."""
    f = ta.function(parse(TEXT)["f"])
    x = np.float64(0.5)
    for _ in range(100):
        f(x)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(calls):
            f(x)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("calls", [1_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_s004_30_recursive_closures_keep_no_memory(calls: int) -> None:
    assert grown(calls) < 10_000


@pytest.mark.slow
def test_s004_30_resident_size_is_constant() -> None:
    """100,000 calls of the program and its gradient: what tracemalloc does not see, too."""
    both = ta.value_and_grad(ta.function(parse(TEXT)["f"]))
    x = np.float64(0.5)
    wanted = both(x)
    for _ in range(1_000):
        both(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100_000):
        found = both(x)
    assert found == wanted
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1024, "in KiB"
