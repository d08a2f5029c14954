"""Calls that enter native code directly: when they do, what they refuse, what they leave behind."""

from __future__ import annotations

import gc
import os
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.building import build
from tensorad.codegen.entry import abi_probe, native_type
from tensorad.codegen.entry.checks_ir import RELEASES
from tensorad.codegen.entry.entry_ir import stub_text
from tensorad.codegen.runtime.frames import KEPT_FRAMES
from tensorad.compiled import CompiledFunction
from tensorad.config import override
from tensorad.errors import BindError, BoundsError, LimitError
from tests.codegen.threads.test_threads import python
from tests.support.profiled import python_calls

Array = np.ndarray[Any, Any]


def adder(*shape: int, dtype: str = "float32") -> CompiledFunction:
    x, y = te.placeholder(shape, dtype, name="X"), te.placeholder(shape, dtype, name="Y")
    return build(te.compute(shape, lambda *i: x[i] + y[i], "Z"), [x, y])


def both(n: int = 6) -> CompiledFunction:
    """Sum and difference."""
    x, y = te.placeholder((n,), name="X"), te.placeholder((n,), name="Y")
    first = te.compute((n,), lambda i: x[i] + y[i], "S")
    return build([first, te.compute((n,), lambda i: x[i] - y[i], "D")], [x, y])


def floats(*shape: int) -> Array:
    return np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.float32).reshape(shape)


X, Y = floats(6), floats(6) * 10


def test_the_second_call_runs_no_python() -> None:
    f, out = adder(6), np.empty(6, "f")
    assert python_calls(lambda: f(X, Y)) > 0
    for act in (lambda: f(X, Y), lambda: f(X, Y, out=out), lambda: f(X, Y, out=None),
                lambda: f(X, Y, out=[out]), lambda: f(X, Y, out=(out,))):  # fmt: skip
        assert python_calls(act) == 0
        np.testing.assert_array_equal(act(), X + Y)
    assert f(X, Y, out=out) is out


def test_several_outputs_come_in_a_new_list() -> None:
    f = both()
    f(X, Y)
    given = [np.empty(6, "f"), np.empty(6, "f")]
    for act in (lambda: f(X, Y), lambda: f(X, Y, out=given), lambda: f(X, Y, out=tuple(given))):
        assert python_calls(act) == 0
        result = act()
        assert type(result) is list and result is not given
        np.testing.assert_array_equal(result, [X + Y, X - Y])
    assert all(a is b for a, b in zip(f(X, Y, out=given), given, strict=True))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4, 5)])
def test_any_rank_and_no_elements(shape: tuple[int, ...]) -> None:
    f, x = adder(*shape), floats(*shape)
    f(x, x)
    assert python_calls(lambda: f(x, x)) == 0
    result = f(x, x)
    assert type(result) is np.ndarray and result.shape == shape
    np.testing.assert_array_equal(result, x + x)


def test_symbolic_sizes_are_learnt() -> None:
    n, m = te.size("n"), te.size("m")
    x = te.placeholder((n, m), name="X")
    f = build(te.compute((m, n + 1), lambda i, j: x[te.minimum(j, n - 1), i], "Z"), [x])
    shapes = [(3, 4), (4, 3), (5, 2), (1, 1)]
    arrays = [floats(*s) for s in shapes]
    for a in arrays:
        f(a)
    for a in arrays:
        assert python_calls(lambda a=a: f(a)) == 0  # type: ignore[misc]
        np.testing.assert_array_equal(f(a), np.vstack([a, a[-1:]]).T)
    for k in range(2, 30):  # more than are kept
        np.testing.assert_array_equal(
            f(floats(k, 7)), np.vstack([floats(k, 7), floats(k, 7)[-1:]]).T
        )
    assert python_calls(lambda: f(arrays[0])) > 0
    assert python_calls(lambda: f(arrays[0])) == 0


def test_a_size_given_by_keyword_is_not_learnt() -> None:
    n = te.size("n")
    x = te.placeholder((4,), name="X")
    f = build(te.compute((n,), lambda i: x[te.minimum(i, 3)], "Z"), [x])
    a = floats(4)
    for size in (3, 5, 3):
        assert f(a, n=size).shape == (size,)
    with pytest.raises(BindError):
        f(a)


def test_bools_are_looked_at() -> None:
    b = te.placeholder((11,), "bool", name="B")
    f = build(te.compute((11,), lambda i: te.select(b[i], 2.0, 3.0), "Z"), [b])
    mask = np.arange(11) % 3 == 0
    f(mask)
    assert python_calls(lambda: f(mask)) == 0
    np.testing.assert_array_equal(f(mask), np.where(mask, 2.0, 3.0).astype("f"))
    for place in (0, 7, 8, 10):
        strange = mask.copy()
        strange.view(np.uint8)[place] = 2
        assert python_calls(lambda s=strange: f(s)) > 0  # type: ignore[misc]
        np.testing.assert_array_equal(f(strange), np.where(strange.view("u1") != 0, 2.0, 3.0))


def looked_up() -> CompiledFunction:
    x, p = te.placeholder((6,), name="X"), te.placeholder((6,), "int64", name="P")
    return build(te.compute((6,), lambda i: x[p[i]], "Z"), [x, p])


def test_a_failing_check_is_explained_and_leaves_nothing() -> None:
    f, good, bad = looked_up(), np.arange(6), np.array([0, 1, 2, 3, 4, 6])
    f(X, good)
    gc.collect()
    kept = sys.getrefcount(X), sys.getrefcount(bad), sys.getrefcount(np.dtype("f4"))
    for _ in range(200):  # more than there are frames
        with pytest.raises(BoundsError, match="X is read at index 6"):
            f(X, bad)
    assert python_calls(lambda: f(X, good)) == 0
    gc.collect()
    assert abs(sys.getrefcount(np.dtype("f4")) - kept[2]) < 20
    assert (sys.getrefcount(X), sys.getrefcount(bad)) == kept[:2]


def test_counts_of_references_stay() -> None:
    f, g, out = adder(6), both(), [np.empty(6, "f"), np.empty(6, "f")]
    objects: list[object] = [X, Y, out, *out, None, np.dtype("f4"), f, g, np.ndarray, "out"]

    def act() -> None:
        for _ in range(30_000):
            f(X, Y)
            f(X, Y, out=out[0])
            f(X, Y, out=None)
            g(X, Y, out=out)
            g(X, Y)

    f(X, Y)
    g(X, Y)
    gc.collect()
    before = [sys.getrefcount(o) for o in objects]
    act()
    gc.collect()
    after = [sys.getrefcount(o) for o in objects]
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) < 50
    assert before[:5] == after[:5]


def test_no_memory_is_left_behind() -> None:
    f, g = adder(6), both()
    wrong = X.astype(np.float16)

    def act(times: int) -> None:
        for _ in range(times):
            f(X, Y)
            g(X, Y)
        for _ in range(times // 100):
            f(wrong, Y)

    act(200)
    tracemalloc.start()
    act(100)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    act(20_000)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 10_000


def test_a_dropped_function_is_gone() -> None:
    f = adder(6)
    f(X, Y)
    f(X, Y)
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


def test_a_result_outlives_its_function() -> None:
    f = adder(6)
    f(X, Y)
    result = f(X, Y)
    assert result.flags.owndata and result.flags.writeable and result.base is None
    del f
    gc.collect()
    np.testing.assert_array_equal(result, X + Y)


def product(n: int) -> CompiledFunction:
    """(A @ A) @ A: with a temporary."""
    a = te.placeholder((n, n), name="A")
    k, m = te.reduce_axis(n, name="k"), te.reduce_axis(n, name="m")
    first = te.compute((n, n), lambda i, j: te.sum(a[i, k] * a[k, j], axis=k), "F")
    return build(te.compute((n, n), lambda i, j: te.sum(first[i, m] * a[m, j], axis=m), "C"), [a])


def releases(f: CompiledFunction) -> bool:
    assert f._record is not None
    (binding,) = f._record._bindings
    return bool(binding.words[RELEASES])


def test_long_calls_let_other_threads_run() -> None:
    small, large = product(8), product(64)
    small(floats(8, 8))
    large(floats(64, 64))
    assert not releases(small)
    assert releases(large)


def test_more_threads_than_frames() -> None:
    f, count = product(96), KEPT_FRAMES + 4
    rng = np.random.default_rng(0)
    inputs = [rng.random((96, 96), np.float32) for _ in range(count)]
    with override(num_threads=1):
        expected = [f(a) for a in inputs]
        start = threading.Barrier(count)

        def act(number: int) -> bool:
            start.wait(timeout=30)
            return all(np.array_equal(f(inputs[number]), expected[number]) for _ in range(30))

        with ThreadPoolExecutor(count) as pool:
            assert all(pool.map(act, range(count)))


def noted(*, fails: float, act: Callable[[], object] = lambda: None) -> Any:
    """x * 2 + 1 by way of a function of Python, which notes that it is called, and raises when it
    is given a certain number."""
    called: list[float] = []

    def double(x: Array) -> Array:
        called.append(float(x[0]))
        act()
        if x[0] == fails:
            raise OverflowError(f"{fails} is too much")
        return x * 2

    by_python = ta.foreign(double, lambda x: x)
    program = ta.function(lambda x: by_python(x) + 1.0).trace(np.ones(3))
    return ta.build(list(program.results), list(program.parameters)), called


def test_a_call_that_fails_is_made_once() -> None:
    f, called = noted(fails=4.0)
    for n in range(4):
        np.testing.assert_array_equal(f(np.full(3, float(n))), 2.0 * n + 1)
    assert f._record is not None and f._record._bindings, "native calls call Python back"
    for _ in range(3):
        with pytest.raises(OverflowError, match=r"4\.0 is too much"):
            f(np.full(3, 4.0))
    assert called == [0.0, 1.0, 2.0, 3.0, 4.0, 4.0, 4.0]


def test_a_binding_outlives_the_list_while_a_call_uses_it() -> None:
    """Settings and shapes change until nobody but the running call knows its binding."""
    inside, goes_on = threading.Event(), threading.Event()
    wait = [False]

    def act() -> None:
        if wait[0]:
            inside.set()
            assert goes_on.wait(timeout=60)

    f, _ = noted(fails=-1.0, act=act)
    for _ in range(3):
        f(np.ones(3))
    (binding,) = f._record._bindings
    gone = weakref.ref(binding)
    del binding
    wait[0] = True
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(f, np.full(3, 5.0))
        assert inside.wait(timeout=60)
        wait[0] = False
        with override(max_bytes=1 << 30):
            f(np.ones(3))  # takes the place of the other
        gc.collect()
        assert gone() is not None
        goes_on.set()
        np.testing.assert_array_equal(running.result(timeout=60), 11.0)
    del running
    gc.collect()
    assert gone() is None


def test_settings_are_asked_again_when_they_change() -> None:
    n = te.size("n")
    x = te.placeholder((n,), name="X")
    f = build(te.compute((n,), lambda i: x[i] * 2.0, "Z"), [x])
    f(X)
    assert python_calls(lambda: f(X)) == 0
    with override(max_bytes=20), pytest.raises(LimitError):
        f(X)
    with override(num_threads=2):
        assert python_calls(lambda: f(X)) > 0
        assert python_calls(lambda: f(X)) == 0
    assert python_calls(lambda: f(X)) > 0
    assert python_calls(lambda: f(X)) == 0


def test_a_call_within_a_new_limit_says_nothing_of_others() -> None:
    """An array that is passed twice counts once."""
    f, x = adder(1000), floats(1000)
    y = x * 2
    f(x, y)
    assert python_calls(lambda: f(x, y)) == 0
    with override(max_bytes=10_000):
        np.testing.assert_array_equal(f(x, x), y)
        with pytest.raises(LimitError):
            f(x, y)


FORK = """
import os
import numpy as np
from tensorad.config import override
from tests.codegen.entry.test_stub import floats, product

f, a = product(64), floats(64, 64) % 7
with override(num_threads=2):
    expected = f(a)
    f(a)
    child = os.fork()
    if child == 0:
        os._exit(0 if all(np.array_equal(f(a), expected) for _ in range(5)) else 1)
    print(os.waitpid(child, 0)[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_calls() -> None:
    assert python(FORK) == "0"


def test_large_outputs_come_from_kept_memory() -> None:
    x = te.placeholder((1024, 1024), name="X")
    f = build(te.compute((1024, 1024), lambda i, j: x[i, j] + 1.0, "Z"), [x])
    a = np.zeros((1024, 1024), "f")
    first = f(a)
    place = first.ctypes.data
    del first
    assert f(a).ctypes.data == place


def test_without_native_calls_everything_is_the_same() -> None:
    with override(native_calls=False):
        f, g = adder(6), both()
    assert type(f) is CompiledFunction and f._record is None
    out = np.empty(6, "f")
    for _ in range(3):
        np.testing.assert_array_equal(f(X, Y), X + Y)
        assert f(X, Y, out=out) is out
        np.testing.assert_array_equal(g(X, Y), [X + Y, X - Y])
    assert python_calls(lambda: f(X, Y, out=out)) <= 9


def test_unknown_objects_mean_no_native_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    assert abi_probe.is_supported()
    for name in ("_is_cpython", "_layouts_match"):
        with monkeypatch.context() as patch:
            patch.setattr(abi_probe, name, lambda: False)
            assert not abi_probe.is_supported.__wrapped__()
    with monkeypatch.context() as patch:
        patch.setattr(abi_probe, "_ABI_VERSIONS", (3,))
        assert abi_probe.new_array_address() is None
        assert not abi_probe.is_supported.__wrapped__()
    with monkeypatch.context() as patch:
        patch.setattr(abi_probe, "HEAD", 24)
        assert not abi_probe._is_cpython()
    monkeypatch.setattr(native_type, "is_supported", lambda: False)
    monkeypatch.setattr(native_type, "_types", {})
    assert native_type.native_type(CompiledFunction) is None


def test_fields_elsewhere_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert abi_probe._layouts_match()
    for name in ("LIST_ITEMS", "TUPLE_ITEMS"):
        with monkeypatch.context() as patch:
            patch.setattr(abi_probe, name, getattr(abi_probe, name) - 8)
            assert not abi_probe._layouts_match()
    monkeypatch.setattr(abi_probe, "HEAD", abi_probe.HEAD + 8)
    assert not abi_probe._arrays_match(np.zeros((2, 3)))


def test_the_type_looks_like_the_documented_one() -> None:
    f = adder(6)
    assert isinstance(f, CompiledFunction)
    assert type(f).__name__ == "CompiledFunction"
    assert type(f).__module__ == "tensorad.compiled"
    assert repr(f) == "<CompiledFunction Z(X, Y) -> Z>"
    np.testing.assert_array_equal(f.__call__(X, Y), X + Y)


def test_the_entry_stays_small() -> None:
    text = stub_text(64)
    assert text.count("\n") <= 520
    assert text.count("define ") == 7
