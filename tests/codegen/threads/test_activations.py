"""Calls of definitions and memory that is taken in order, while a program runs."""

from __future__ import annotations

import gc
import re
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

import numpy as np
import pytest

import tensorad as ta
from tensorad import config
from tensorad.codegen.threads.activations_ir import record_library
from tensorad.codegen.threads.chunks_ir import CHUNKS, LEAST_CHUNK
from tensorad.codegen.threads.control_ir import CONTROL
from tensorad.errors import LimitError
from tensorad.ir.dtypes import FLOAT64, INT64
from tensorad.ir.expr import local_size
from tensorad.ir.records import Definition, Field, inject, recursion
from tensorad.ir.tensor import Block, Loop, Tensor, outputs
from tests.support.programs.recursive import (
    balanced,
    branch,
    counted_down,
    doubled,
    fibonacci,
    given,
    number,
    power,
    total,
)
from tests.support.records import List, list_of

Compiled = Callable[..., list[np.ndarray]]


def built(definition: Definition) -> Compiled:
    """A definition as a function."""
    operands = given(*[(p.name, p.shape, p.dtype) for p in definition.params])
    f = ta.build(list(recursion(definition, operands)), operands)
    return lambda *values: [f(*values)] if len(f.outputs) == 1 else f(*values)


def made_and_summed() -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """n numbers in a list, then their sum."""
    n, w = given(("n", (), INT64), ("w", (), FLOAT64))
    (xs,) = recursion(counted_down(), (n, w))
    return recursion(total(), (xs, w))[0], (n, w)


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_every_step_has_its_code() -> None:
    labels = dict.fromkeys(re.findall(r"label %(\w+)", CONTROL))
    assert "reserve" in labels and f"{LEAST_CHUNK}" in CHUNKS
    assert record_library().addresses["record"] == record_library().addresses["record"] != 0


def test_deep_calls() -> None:
    (one,) = built(power())(1.0, 100_000)
    assert one == 1.0
    f = ta.build(*made_and_summed())
    assert f(100_000, 1.0) == 100_000 * 100_001 / 2
    assert built(fibonacci())(15)[0] == 610


@pytest.mark.slow
def test_a_list_as_long_as_it_is_deep() -> None:
    values = np.arange(100_000.0)
    assert built(total())(list_of(values), 2.0)[0] == 2 * values.sum()


def test_calls_that_do_not_end_are_refused() -> None:
    f = built(power())
    with config.override(max_bytes=1 << 20):
        with pytest.raises(LimitError) as caught:
            f(1.0, 10**9)
        depth = re.search(r"called ([\d,]+) deep", str(caught.value))
        assert depth is not None
        assert str(caught.value) == (
            f"power is called {depth[1]} deep, and what these calls have to keep exceeds 1.0 MiB.\n"
            "  in: power(x, n)\n"
            "  hint: have the recursion end earlier, keep less in each call, or raise the limit "
            "with the environment variable TENSORAD_MAX_BYTES."
        )
        assert f(1.5, 2)[0] == 2.25, "what was taken has been given back"
        with pytest.raises(LimitError):
            f(1.0, 10**9)
    assert f(1.0, 50_000)[0] == 1.0


def test_records_that_take_too_much_are_refused() -> None:
    x, n = given(("x", (), FLOAT64), ("n", (), INT64))
    trips, xs = local_size("n"), given(("xs", (), List))[0]
    w = given(("w", (), FLOAT64))[0]
    loop = Loop(
        ("list",), (inject(List, 0, ()), x), (Block((xs, w), (inject(List, 1, (w, xs)),)),),
        counter=local_size("t", trips), trips=trips, carries=1, count=n,
    )  # fmt: skip
    f = ta.build(recursion(total(), (outputs(loop)[0], x))[0], [x, n])
    assert f(2.0, 10) == 40.0
    with config.override(max_bytes=1 << 19), pytest.raises(LimitError) as caught:
        f(2.0, 10**8)
    assert str(caught.value) == (
        "what the call makes of List while it runs exceeds 512.0 KiB.\n"
        "  in: Cons(x, xs), in 0 calls that have not ended\n"
        "  hint: make fewer, or raise the limit with the environment variable TENSORAD_MAX_BYTES."
    )


def test_iterations_that_leave_no_record_give_their_memory_back() -> None:
    """20,000 lists of 20 elements each take 10 MB together."""
    n, w = given(("n", (), INT64), ("w", (), FLOAT64))
    sum_of_list, (k, v) = made_and_summed()
    s, m, u = given(("s", (), FLOAT64), ("m", (), INT64), ("u", (), FLOAT64))
    inner = Definition("inner", (k, v), [Field("sum", (), FLOAT64)]).complete([sum_of_list])
    trips = local_size("n")
    (lists,) = recursion(counted_down(), (m, u))
    body = s + recursion(total(), (lists, u))[0] - recursion(inner, (m, u))[0]
    loop = Loop(
        ("all",), (number(0.0), number(20, "int64"), w), (Block((s, m, u), (body,)),),
        counter=local_size("t", trips), trips=trips, carries=1, count=n,
    )  # fmt: skip
    f = ta.build(outputs(loop)[0], [n, w])
    with config.override(max_bytes=1 << 18):
        assert f(20_000, 0.5) == 0.0


def test_threads_give_the_same_bits() -> None:
    x, n = given(("x", (40_000,), FLOAT64), ("n", (), INT64))
    made = Definition("waves", (x, n), [Field("y", (40_000,), FLOAT64)])
    (y,) = recursion(made, (ta.sin(x) * 1.01, n - 1))
    made.complete([branch(n > 0, [x + 0.0, y + x], (x, n))])
    values, found = np.linspace(0, 1, 40_000), []
    for threads in (1, 2, 8):
        with config.override(num_threads=threads):
            found.append(built(made)(values, 6)[0])
    assert all(np.array_equal(found[0], other) for other in found)
    ones = [built(doubled())(balanced(4))[1] for _ in range(2)]
    assert ones[0] == ones[1] == 120.0


def test_calls_from_several_threads_have_their_own_memory() -> None:
    f = ta.build(*made_and_summed())
    wrong: list[object] = []

    def work(n: int) -> None:
        for _ in range(20):
            got = f(n, 1.0)
            if got != n * (n + 1) / 2:
                wrong.append((n, got))

    threads = [threading.Thread(target=work, args=(500 + n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


class Stop(Exception):
    """What the handler of a signal raises."""


def test_recursion_is_interrupted() -> None:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise Stop

    f = built(fibonacci())
    old = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        begun = time.perf_counter()
        with pytest.raises(Stop):
            f(60)  # days
        assert time.perf_counter() - begun < 20
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert f(10)[0] == 55


@pytest.mark.slow
def test_many_calls_at_constant_resident_size() -> None:
    f = ta.build(*made_and_summed())
    n, w = np.array(30), np.array(0.5)
    g = built(doubled())
    tree = balanced(3)
    for _ in range(1000):
        f(n, w), g(tree)
    gc.collect()
    before = resident()
    for k in range(100_000):
        assert f(n, w) == 0.25 * 465
        if k % 10 == 0:
            g(tree)
    assert resident() - before < 4 << 20


@pytest.mark.slow
def test_a_tree_of_a_million_nodes() -> None:
    made, sum_of_all = built(doubled())(balanced(19))
    assert sum_of_all == (1 << 19) * ((1 << 19) - 1) / 2 and made.item().tag == 1
