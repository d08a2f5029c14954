"""Building and calling: results in every form of argument, and refusals with their whole text."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.building import build, evaluate, lower, measure_performance, show_lowered
from tensorad.config import override
from tensorad.errors import BindError, ShapeError, UserError
from tests.support.bad_calls import BAD, A, B, C, D, E, G, K, N, P, S, T, V, X, Y, Z
from tests.support.refusals import placed

RNG = np.random.default_rng(0)
x = RNG.random((3, 4)).astype(np.float32)
v = RNG.random(4).astype(np.float32)


def test_refusals_have_these_texts(golden: Callable[[str, str], None]) -> None:
    parts = []
    for name, act in BAD.items():
        with pytest.raises(UserError) as caught:
            act()
        parts.append(f"# {name}: {type(caught.value).__name__}\n{placed(caught.value)}")
    golden("bad_calls", "\n".join(parts))


def test_one_output_is_an_array_and_several_are_a_list() -> None:
    np.testing.assert_array_equal(build(Y, [X])(x), x * 2)
    one, two = build([Y, Z], [X, V])(x, v)
    np.testing.assert_array_equal(one, x * 2)
    np.testing.assert_array_equal(two, x + v)
    np.testing.assert_array_equal(build([Y], [X])(x), x * 2)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::-1, ::-1],
        lambda a: np.asfortranarray(a),
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: np.broadcast_to(a[:1], (3, 4)),
        lambda a: a.astype(a.dtype.newbyteorder()),
        lambda a: np.frombuffer(b"\0" + a.tobytes(), a.dtype, offset=1).reshape(3, 4),
        lambda a: a.astype(np.float16),
        lambda a: a.tolist(),
        lambda a: a > 0.5,
    ],
)
def test_any_view_of_the_numbers_is_read_right(view: Callable[[np.ndarray], object]) -> None:
    given = view(x)
    np.testing.assert_array_equal(build(Y, [X])(given), np.asarray(given, np.float32) * 2)


def test_python_numbers_fit_scalars() -> None:
    f = build(T, [S])
    assert f(1.5) == 3.0
    assert f(2) == 4.0
    assert f(np.float32(2)).shape == ()


def test_bools_with_other_bytes_are_true() -> None:
    q = te.placeholder((4,), dtype="bool", name="Q")
    count = te.compute((4,), lambda i: q[i].astype("int32") + 1, name="count")
    odd = np.array([0, 1, 2, 255], np.uint8).view(bool)
    np.testing.assert_array_equal(build(count, [q])(odd), [1, 2, 2, 2])


def test_out_is_filled_and_returned() -> None:
    f = build([Y, Z], [X, V])
    outs = [np.empty((3, 4), np.float32), np.empty((4, 3), np.float32).T]
    got = f(x, v, out=outs)
    assert got[0] is outs[0]
    assert got[1] is outs[1]
    np.testing.assert_array_equal(outs[0], x * 2)
    np.testing.assert_array_equal(outs[1], x + v)
    single = np.empty((3, 4), np.float32)
    assert build(Y, [X])(x, out=single) is single


def test_a_listed_compute_is_read_from_the_caller() -> None:
    w = te.compute((3, 4), lambda i, j: Y[i, j] + 1.0, name="W")
    np.testing.assert_array_equal(build(w, [Y])(x), x + 1)
    np.testing.assert_array_equal(build(w, [X, V])(x, v), x * 2 + 1)


def test_an_output_that_is_an_input_is_copied() -> None:
    same, again = build([X, X], [X])(x)
    np.testing.assert_array_equal(same, x)
    assert not np.shares_memory(same, x)
    assert not np.shares_memory(same, again)


def test_sizes_come_from_shapes_and_keywords() -> None:
    f = build(C, [A, B])
    for n, m in ((0, 3), (1, 1), (3, 17)):
        a, b = RNG.random((n, m)).astype("f"), RNG.random(n).astype("f")
        np.testing.assert_array_equal(f(a, b), a + b[:, None])
    np.testing.assert_array_equal(build(E, [])(n=5), np.arange(5) * 2)
    p = np.arange(6, dtype="f")
    np.testing.assert_array_equal(build(D, [P])(p, n=2, m=3), p.reshape(2, 3))


def test_a_size_is_solved_from_an_affine_extent() -> None:
    half = te.placeholder((N * 2 + 1,), name="H")
    odd = te.compute((N,), lambda i: half[2 * i + 1], name="odd")
    np.testing.assert_array_equal(build(odd, [half])(np.arange(7, dtype="f")), [1, 3, 5])


def test_a_size_is_solved_from_a_product_with_known_sizes() -> None:
    m = te.size("m")
    x, h = te.placeholder((N,), name="X"), te.placeholder((N * m,), name="H")
    total = te.compute((N * m,), lambda i: x[i % N] + h[i], name="total")
    f = build(total, [x, h])
    np.testing.assert_array_equal(
        f(np.arange(2, dtype="f"), np.arange(6, dtype="f")), [0, 2, 2, 4, 4, 6]
    )
    with pytest.raises(ShapeError, match="which no m >= 0 gives"):
        f(np.zeros(2, "f"), np.zeros(5, "f"))
    with pytest.raises(BindError, match="size m is not determined"):
        f(np.zeros(0, "f"), np.zeros(0, "f"))


def test_data_dependent_reads_may_go_unchecked() -> None:
    f = build(G, [V, K], assume_in_bounds=True)
    order = np.array([3, 0, 2, 1], np.int32)
    np.testing.assert_array_equal(f(v, order), v[order])


def test_large_outputs_are_reused_only_when_dropped() -> None:
    big = te.compute((1 << 20,), lambda i: i.astype("float32"), name="big")
    f = build(big, [])
    first = f()
    part = first[5:7]
    second = f()
    assert not np.shares_memory(first, second)
    del first
    third = f()
    assert not np.shares_memory(part, third)
    del second
    np.testing.assert_array_equal(part, [5, 6])


def test_no_count_of_references_tells_that_an_output_was_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python 3.14 does not count those of local variables to what they are called with."""
    counted = sys.getrefcount
    monkeypatch.setattr(sys, "getrefcount", lambda o: counted(o) - 2)
    f = build(te.compute((1 << 20,), lambda i: i.astype("float32"), name="big"), [])
    first = f()
    assert not np.shares_memory(first, f())


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[5:7],
        lambda a: a.reshape(-1, 4)[:, 1][3:],
        lambda a: a.view(np.int32),
        lambda a: np.frombuffer(memoryview(a), np.uint8),
        lambda a: np.asarray(memoryview(a)[3:9]),
        lambda a: np.from_dlpack(a),
        lambda a: a.view(np.ma.MaskedArray)[9:],
        lambda a: a.flat,
    ],
    ids=["slice", "reshaped", "dtype", "buffer", "memoryview", "dlpack", "subclass", "iterator"],
)
def test_whatever_still_reads_an_output_keeps_its_block(
    view: Callable[[np.ndarray], object],
) -> None:
    f = build(te.compute((1 << 20,), lambda i: i.astype("float32"), name="big"), [])
    dropped = f()
    place = dropped.ctypes.data
    seen = view(dropped)
    del dropped
    others = [f(), f()]
    assert place not in [a.ctypes.data for a in others]
    del others, seen
    assert place in [a.ctypes.data for a in [f(), f()]]


def test_temporaries_are_limited_by_name() -> None:
    wide = te.compute((N, N), lambda i, j: (i * j).astype("float32"), name="wide")
    k = te.reduce_axis(N, name="k")
    total = te.compute((N,), lambda i: te.sum(wide[i, k] * wide[k, i], axis=k), name="total")
    f = build(total, [])
    with override(max_bytes=1000), pytest.raises(UserError, match="TENSORAD_MAX_BYTES"):
        f(n=40)


def test_evaluate_lower_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    np.testing.assert_array_equal(evaluate(Z, {X: x, V: v}), x + v)
    show_lowered([Z], [X, V])
    assert capsys.readouterr().out.strip() == str(lower([Z], [X, V])).strip()
    assert "X[i, j]" in str(lower(Z, schedule=False))


def test_measure_gives_milliseconds() -> None:
    assert 0 < measure_performance(Z, [X, V], min_seconds=0.01) < 1000
    assert 0 < measure_performance(G, [V, K], min_seconds=0.01) < 1000


def test_measure_performance_at_given_sizes() -> None:
    n = te.size("n")
    x = te.placeholder((n, 2 * n), name="X")
    y = te.compute((n,), lambda i: x[i, i] + x[i, 2 * i])
    assert 0 < measure_performance(y, [x], min_seconds=0.01, n=8) < 1000
