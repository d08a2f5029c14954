"""Compiled functions as functions of C: addresses in, a code out, no Python between."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.entry import plan_words
from tensorad.codegen.runtime.c_entry import CEntry
from tensorad.codegen.runtime.frames import KEPT_FRAMES
from tensorad.errors import BindError, BoundsError, LimitError
from tests.codegen.runtime.test_forks import exit_code
from tests.random.generators import SOAK

CALLS: Final = 10_000 if SOAK else 600
"""Of each thread, where many call at once; all of them with HYPOTHESIS_PROFILE=soak."""
Arrays = Sequence[Any]
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


def caller(entry: CEntry) -> Callable[[Arrays], int]:
    """The function of C, given arrays; the interpreter's lock is free while it runs."""
    function = _FUNCTION(entry.address)

    def call(arrays: Arrays) -> int:
        addresses = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
        return int(function(ctypes.addressof(addresses)))

    return call


def _product(n: Any = 6, m: Any = 5) -> ta.CompiledFunction:
    x, w = ta.placeholder((n, 7), name="X"), ta.placeholder((m, 7), name="W")
    k = ta.reduce_axis((0, 7), "k")
    y = ta.compute((n, m), lambda i, j: ta.sum(ta.exp(x[i, k]) * w[j, k], k), name="Y")
    return ta.build([y, y * 2.0], [x, w])


def _gather() -> ta.CompiledFunction:
    index, v = ta.placeholder((6,), dtype="int64", name="I"), ta.placeholder((10,), name="V")
    return ta.build([ta.compute((6,), lambda i: v[index[i]] * 2.0, name="G")], [index, v])


def _given(f: ta.CompiledFunction, n: int, m: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Inputs, room for outputs, and the outputs of an ordinary call."""
    rng = np.random.default_rng(n)
    inputs = [rng.standard_normal((r, 7)).astype(np.float32) for r in (n, m)]
    expected = f(*inputs)
    return inputs, [np.empty_like(a) for a in expected], expected


def test_it_computes_what_the_function_does() -> None:
    f = _product()
    entry = f.c_entry()
    assert entry.input_shapes == ((6, 7), (5, 7)) and entry.output_shapes == ((6, 5), (6, 5))
    assert entry.name == f.name and f"{entry.address:#x}" in repr(entry)
    inputs, outputs, expected = _given(f, 6, 5)
    assert caller(entry)([*inputs, *outputs]) == 0
    for made, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(made, wanted)


def test_sizes_are_given_by_name() -> None:
    n, m = ta.size("n"), ta.size("m")
    f = _product(n, m)
    entries = {(a, b): f.c_entry(n=a, m=b) for a in (1, 9) for b in (0, 4)}
    for (a, b), entry in entries.items():
        inputs, outputs, expected = _given(f, a, b)
        assert caller(entry)([*inputs, *outputs]) == 0
        assert entry.output_shapes == ((a, b), (a, b))
        for made, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(made, wanted)


def test_missing_and_wrong_sizes() -> None:
    f = _product(ta.size("n"), 3)
    with pytest.raises(BindError) as missing:
        f.c_entry()
    assert str(missing.value) == (
        f"c_entry of {f.name} depends on n.\n  in: c_entry(n=...)\n"
        "  hint: say at which sizes: f.c_entry(n=...)."
    )
    with pytest.raises(BindError, match=r"m = 3 is no size of"):
        f.c_entry(n=2, m=3)
    with pytest.raises(BindError, match="n must be at least 0, got -1"):
        f.c_entry(n=-1)


def test_addresses_that_are_0_are_named_where_there_are_elements() -> None:
    n = ta.size("n")
    f = _product(n, 3)
    inputs, outputs, expected = _given(f, 4, 3)
    addresses = [a.ctypes.data for a in (*inputs, *outputs)]
    entry = f.c_entry(n=4)
    for place, name in enumerate(("X", "W", "Y", f.outputs[1].name)):
        row = (ctypes.c_void_p * 4)(*[a * (k != place) for k, a in enumerate(addresses)])
        error = entry.error(_FUNCTION(entry.address)(ctypes.addressof(row)))
        assert isinstance(error, BindError)
        assert f"with the address 0 for {name}, which has elements" in str(error)
    with pytest.raises(BoundsError, match=r"no call of .* has returned the code -6"):
        entry.error(-6)
    row = (ctypes.c_void_p * 4)(*addresses)
    assert _FUNCTION(entry.address)(ctypes.addressof(row)) == 0
    np.testing.assert_array_equal(outputs[1], expected[1])
    empty = f.c_entry(n=0)
    row = (ctypes.c_void_p * 4)(0, addresses[1], 0, 0)
    assert _FUNCTION(empty.address)(ctypes.addressof(row)) == 0


def test_it_keeps_alive_what_it_needs() -> None:
    entry = _product().c_entry()
    gc.collect()
    inputs, outputs, expected = _given(_product(), 6, 5)
    assert caller(entry)([*inputs, *outputs]) == 0
    np.testing.assert_array_equal(outputs[0], expected[0])


def test_a_code_tells_of_its_own_call() -> None:
    f = _gather()
    entry = f.c_entry()
    call = caller(entry)
    v, out = np.arange(10, dtype=np.float32), np.empty(6, np.float32)
    codes = {}
    for place, index in ((0, 33), (5, -1), (3, 10)):
        indices = np.zeros(6, np.int64)
        indices[place] = index
        codes[index] = call([indices, v, out])
    assert len(set(codes.values())) == 3 and min(codes.values()) > 0
    for index, code in codes.items():
        error = entry.error(code)
        assert isinstance(error, BoundsError)
        assert f"V is read at index {index} of axis 0, which has extent 10" in str(error)
    good = np.arange(6)
    assert call([good, v, out]) == 0
    np.testing.assert_array_equal(out, v[good] * 2)


def test_codes_that_nothing_is_known_of() -> None:
    entry = _gather().c_entry()
    code = caller(entry)([np.full(6, 11), np.zeros(10, np.float32), np.empty(6, np.float32)])
    assert str(entry.error(code)) == str(entry.error(code))
    for other in (code + 1, code + (99 << plan_words.NUMBER_BITS), 10**6, 0, -5, 1 << 62):
        with pytest.raises(BoundsError, match=f"no call of .* has returned the code {other}"):
            entry.error(other)
    assert "no memory for a call" in str(entry.error(plan_words.NO_FRAME))


def test_a_code_tells_of_its_access_when_its_record_is_gone() -> None:
    index, v = ta.placeholder((6,), dtype="int64", name="I"), ta.placeholder((10,), name="V")
    w = ta.placeholder((20,), name="W")
    g = ta.compute((6,), lambda i: v[index[i]] * 2.0, name="G")
    k = ta.reduce_axis((0, 6), "k")
    h = ta.compute((2,), lambda i: ta.sum(w[index[k] + 11] * v[k + i], k), name="H")
    entry = ta.build([g, h], [index, v, w]).c_entry()
    call = caller(entry)
    places = ("V[I[i]] in G", "W[I[k] + 11] in H")
    outputs = [np.zeros(10, np.float32), np.zeros(20, np.float32)]
    outputs += [np.empty(6, np.float32), np.empty(2, np.float32)]
    first = [call([np.full(6, n), *outputs]) for n in (-1, 9)]
    assert "V is read at index -1 of axis 0" in str(entry.error(first[0]))
    assert "W is read at index 20 of axis 0" in str(entry.error(first[1]))
    late = [call([np.full(6, -2), *outputs]) for _ in range(plan_words.RECORDS)]
    assert "V is read at index -2 of axis 0" in str(entry.error(late[0]))
    for code, name, place in zip(first, "VW", places, strict=True):
        assert str(entry.error(code)).startswith(
            f"{name} is read at an index outside of axis 0; which one is not kept any more.\n"
            f"  in: {place} at "
        )


def test_sixteen_threads_that_fail_at_once_and_ask_later() -> None:
    entry = _gather().c_entry()
    threads, each = 16, 250
    together, told = threading.Barrier(threads), {}

    def work(own: int) -> None:
        call = caller(entry)
        v, out = np.zeros(10, np.float32), np.empty(6, np.float32)
        wrong = [np.full(6, 10 + own * each + n) for n in range(each)]
        together.wait()
        codes = [call([index, v, out]) for index in wrong]
        together.wait()
        for index, code in zip(wrong, codes, strict=True):
            told[int(index[0])] = str(entry.error(code))

    callers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert sorted(told) == list(range(10, 10 + threads * each))
    for index, text in told.items():
        assert text.startswith(f"V is read at index {index} of axis 0, which has extent 10.")


def _loop() -> ta.CompiledFunction:
    """A loop whose iterations read where data say, with rows of unknown number for its reverse."""

    def f(x: Any, index: Any, count: Any) -> Any:
        def step(t: Any, c: Any) -> Any:
            return ta.topi.sin(c) + x[index[t]]

        return ta.for_loop(0, count, step, x[0])

    x, index, count = np.ones(4), np.zeros(50, np.int64), np.int64(3)
    program = ta.value_and_grad(f).trace(x, index, count)
    return ta.build(list(program.results), list(program.parameters))


@pytest.mark.slow
def test_loops_of_unknown_length_and_the_iteration_that_fails() -> None:
    f = _loop()
    entry = f.c_entry()
    call = caller(entry)
    x, index = np.linspace(0.1, 0.4, 4), np.arange(50) % 4
    for count in (0, 3, 40):
        given = [x, index, np.array(count)]
        wanted = f(*given)
        outputs = [np.empty_like(a) for a in wanted]
        assert call([*given, *outputs]) == 0
        for made, expected in zip(outputs, wanted, strict=True):
            np.testing.assert_array_equal(made, expected)
    index[7] = 4
    code = call([x, index, np.array(40), *outputs])
    assert "in iteration 7 of the loop" in str(entry.error(code))


def test_functions_that_call_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    def power(x: Any, n: Any) -> Any:
        return ta.cond(n > 0, lambda: x * own(x, n - 1), lambda: x * 0.0 + 1.0)

    own = ta.function(power)
    program = ta.value_and_grad(own).trace(np.float64(1), np.int64(1))
    f = ta.build(list(program.results), list(program.parameters))
    entry = f.c_entry()
    given = [np.array(1.0001), np.array(5000)]
    outputs = [np.empty(()), np.empty(())]
    assert caller(entry)([*given, *outputs]) == 0
    np.testing.assert_array_equal(outputs, f(*given))
    with ta.config.override(max_bytes=1 << 22):
        code = caller(entry)([given[0], np.array(10**6), *outputs])
    error = entry.error(code)
    assert isinstance(error, LimitError) and "deep" in str(error)
    assert caller(entry)([*given, *outputs]) == 0


def test_what_functions_of_python_raise() -> None:
    def checked(x: Any) -> Any:
        if x[0] < 0:
            raise OverflowError(f"{x[0]} is below zero")
        return x * 2.0

    double = ta.foreign(checked, lambda x: x)
    program = ta.function(lambda x: double(x) + 1.0).trace(np.ones(3))
    entry = ta.build(list(program.results), list(program.parameters)).c_entry()
    out = np.empty(3)
    assert caller(entry)([np.ones(3), out]) == 0
    np.testing.assert_array_equal(out, 3.0)
    codes = [caller(entry)([x - np.ones(3), out]) for x in (-1.0, -2.0)]
    for code, word in zip(codes[::-1], ("-3.0", "-2.0"), strict=True):
        error = entry.error(code)
        assert isinstance(error, OverflowError) and str(error) == f"{word} is below zero"
    assert str(entry.error(codes[0])).startswith(
        "a call took too much memory, or a function of Python raised in it; of that nothing is "
    )


def test_values_of_data_types_are_refused() -> None:
    @ta.variant
    class Maybe:
        class Nothing: ...

        class Just:
            value: float64  # type: ignore[name-defined]  # noqa: F821

    f = ta.function(lambda m: ta.match(m, lambda: 0.0, lambda value: value * 2.0))
    program = f.trace(Maybe.Just(1.0))
    built = ta.build(list(program.results), list(program.parameters))
    with pytest.raises(BindError, match="values of data types, which are no arrays"):
        built.c_entry()


def _shared_loops() -> ta.CompiledFunction:
    x, w = ta.placeholder((160, 40), name="X"), ta.placeholder((40, 64), name="W")
    k = ta.reduce_axis((0, 40), "k")
    y = ta.compute((160, 64), lambda i, j: ta.sum(x[i, k] * w[k, j], k), name="Y")
    return ta.build([y, ta.topi.nn.softmax(y)], [x, w])


@pytest.mark.slow
def test_many_threads_while_the_number_of_threads_changes() -> None:
    """Children are forked meanwhile, in which more than one thread calls, too."""
    f = _shared_loops()
    entry = f.c_entry()
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s).astype(np.float32) for s in ((160, 40), (40, 64))]
    expected = f(*inputs)
    wrong: list[object] = []

    def work(calls: int) -> None:
        call = caller(entry)
        outputs = [np.empty_like(a) for a in expected]
        for n in range(calls):
            code = call([*inputs, *outputs])
            if n % 50 == 0 and (code or any(map(_differ, outputs, expected))):
                wrong.append(code)

    def child() -> None:
        ta.set_num_threads(2)
        threads = [threading.Thread(target=work, args=(100,)) for _ in range(4)]
        for t in threads:
            t.start()
        ta.set_num_threads(3)
        for t in threads:
            t.join()
        assert not wrong

    before = ta.get_num_threads()
    threads = [threading.Thread(target=work, args=(CALLS,)) for _ in range(16)]
    for t in threads:
        t.start()
    number, codes = 0, []
    while number < 2 or any(t.is_alive() for t in threads):
        number += 1
        ta.set_num_threads(1 + number % 4)
        if number % (CALLS // 20) == 1 and hasattr(os, "fork"):
            codes.append(exit_code(child))
        threads[0].join(0.005)
    ta.set_num_threads(before)
    assert not wrong and not any(codes)


@pytest.mark.slow
def test_more_threads_than_frames_are_kept() -> None:
    """All are in calls at once, and each that fails is told of its own index."""
    f = _gather()
    entry = f.c_entry()
    count = 2 * KEPT_FRAMES
    together, told = threading.Barrier(count), {}

    def work(own: int) -> None:
        call = caller(entry)
        v, out = np.full(10, own, np.float32), np.empty(6, np.float32)
        for n in range(40):
            together.wait()
            assert call([np.arange(6), v, out]) == 0 and (out == 2 * own).all()
            code = call([np.full(6, 10 + own + n), v, out])
            told[own, n] = str(entry.error(code))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(told) == 40 * count
    for (own, n), text in told.items():
        assert f"V is read at index {10 + own + n} of axis 0" in text


def _differ(a: Any, b: Any) -> bool:
    return a.tobytes() != b.tobytes()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="systems without fork")
def test_forked_children_call_it_too() -> None:
    f = _product()
    entry = f.c_entry()
    inputs, outputs, expected = _given(f, 6, 5)
    call = caller(entry)
    ends = threading.Event()

    def work() -> None:
        own = [np.empty_like(a) for a in outputs]
        while not ends.is_set():
            call([*inputs, *own])

    thread = threading.Thread(target=work)
    thread.start()

    def child() -> None:
        for _ in range(50):
            assert call([*inputs, *outputs]) == 0
        assert not any(map(_differ, outputs, expected))

    try:
        codes = [exit_code(child) for _ in range(5)]
    finally:
        ends.set()
        thread.join()
    assert codes == [0] * 5


def test_frames_are_kept_and_given_back() -> None:
    entry = _product().c_entry()
    inputs, outputs, _ = _given(_product(), 6, 5)
    call = caller(entry)
    for _ in range(3):
        call([*inputs, *outputs])
    kept = np.count_nonzero(entry.frames.idle)
    assert kept == 1, "calls after each other share a frame"
