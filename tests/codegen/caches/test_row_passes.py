"""Passes over a row: joined where the second reads what the first stores, next rows fetched."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tensorad as ta
from tensorad import te
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.codegen.loops.ir import Fold, For, Prefetch, Stmt, Store
from tensorad.codegen.loops.vector_loops import is_vectorised
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tensorad.topi.nn import layer_norm, softmax
from tests.support.machines import described

N, M = 8, 4096


def weights(read: Callable[[Tensor, Expr, Expr], Expr]) -> tuple[Tensor, Tensor]:
    """A row's exponentials, and their sum in the order that `read` says."""
    x = te.placeholder((N, M), name="X")
    e = te.compute((N, M), lambda i, j: te.exp(x[i, j]), name="E")
    k = te.reduce_axis(M, name="k")
    s = te.compute((N,), lambda i: te.sum(read(e, i, k), axis=k), name="S")
    return x, te.compute((N, M), lambda i, j: e[i, j] / s[i], name="Y")


def body(x: Tensor, y: Tensor, passes: bool | None = None) -> list[Stmt]:
    """All statements of its only kernel."""
    choices = ta.Schedule(fuse=True, siblings=False, passes=passes)
    (kernel,) = lower_program([y], [x], choices=choices).kernels
    return [*statements(kernel.body)]


def loops(found: list[Stmt]) -> list[For]:
    """The loops in lanes."""
    return [s for s in found if isinstance(s, For) and is_vectorised(s)]


def test_a_sum_runs_in_the_pass_that_stores_its_terms() -> None:
    x, y = weights(lambda e, i, k: e[i, k])
    apart = body(x, y, passes=False)
    found = body(x, y)
    assert (len(loops(apart)), len(loops(found))) == (3, 2)
    (loop,) = [s for s in loops(found) if any(isinstance(c, Fold) for c in s.body)]
    assert any(isinstance(c, Store) for c in loop.body) and loop.width == 64
    array = np.random.default_rng(3).normal(size=(N, M)).astype("float32")
    want = build(y, [x], schedule=ta.Schedule(passes=False))(array)
    np.testing.assert_array_equal(build(y, [x])(array), want)


def test_passes_stay_apart_where_another_lane_is_read() -> None:
    x, y = weights(lambda e, i, k: e[i, M - 1 - k])
    assert len(loops(body(x, y))) == 3


def test_a_later_row_is_fetched_where_several_passes_read_it() -> None:
    def fetched(rows: int) -> list[Prefetch]:
        x = te.placeholder((rows, M), name="X")
        k = te.reduce_axis(M, name="k")
        top = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="T")
        y = te.compute((rows, M), lambda i, j: te.exp(x[i, j] - top[i]), name="Y")
        k1 = te.reduce_axis(M, name="k1")
        s = te.compute((rows,), lambda i: te.sum(y[i, k1], axis=k1), name="S")
        return [f for f in body(x, s) if isinstance(f, Prefetch)]

    assert [f.tensor.name for f in fetched(4096)] == ["X"]
    assert not fetched(16)  # all of it is in the second cache


def test_passes_share_what_is_prefetched() -> None:
    """Each of two arrays in another pass, the second one in that which stores, where both compute
    alike; both beside exponentials."""

    def asked(outputs: list[Tensor], inputs: list[Tensor]) -> list[list[str]]:
        with described("l1=32768,l2=262144,l3=1048576"):
            (kernel,) = lower_program(outputs, inputs).kernels[:1]
        return [
            [f.tensor.name for f in s.body if isinstance(f, Prefetch)]
            for s in loops([*statements(kernel.body)])
        ]

    x, head = (te.placeholder((4096, 1024), name=n) for n in ("X", "head"))
    g, b = (te.placeholder((1024,), name=n) for n in "gb")
    normalised = layer_norm(x, g, b, axis=1)
    found = asked([*vjp(normalised, [x], head)], [x, g, head])
    assert [names for names in found if names] == [["X"], ["head"]]
    assert found[-1] == ["head"]
    assert [names for names in asked([normalised], [x, g, b]) if names] == [["X"]]
    found = asked([*vjp(softmax(x), [x], head)], [x, head])
    assert all(sorted(names) == ["X", "head"] for names in found if names)


def test_what_only_the_joined_pass_reads_is_not_stored() -> None:
    """log(sum(exp(x))): the exponentials stay in registers; with y = e/s they are read again."""
    x = te.placeholder((N, M), name="X")
    e = te.compute((N, M), lambda i, j: te.exp(x[i, j]), name="E")
    k = te.reduce_axis(M, name="k")
    s = te.compute((N,), lambda i: te.sum(e[i, k], axis=k), name="S")
    y = te.compute((N, M), lambda i, j: x[i, j] - te.log(s[i]), name="Y")
    stored = [t.name for c in body(x, y) if isinstance(c, Store) for t in c.tensors]
    assert "E" not in stored and "Y" in stored
    (kernel,) = lower_program([y], [x], choices=ta.Schedule(fuse=True)).kernels
    assert "E" not in [t.name for t in kernel.scratch]
    x2, again = weights(lambda e, i, k: e[i, k])
    assert "E" in [t.name for c in body(x2, again) if isinstance(c, Store) for t in c.tensors]
    array = np.random.default_rng(4).normal(size=(N, M)).astype("float32")
    want = build(y, [x], schedule=ta.Schedule(passes=False))(array)
    np.testing.assert_array_equal(build(y, [x])(array), want)


def test_a_pass_whose_only_store_nobody_reads_is_left_out() -> None:
    """The inner sums of a sum over nothing."""
    x = te.placeholder((5, 7), dtype="int32", name="X")
    k, none = te.reduce_axis(0, name="k"), te.reduce_axis(0, name="none")
    y = te.compute(
        (5, 4, 7),
        lambda i, _, n: te.sum(te.sum(x[i, n], axis=k, where=n % 2 == 0), axis=none),
        name="Y",
    )
    assert [s.body for s in body(x, y) if isinstance(s, For) and not s.body] == []
    assert len(loops(body(x, y))) == 1
    found = build(y, [x], schedule=ta.Schedule(fuse=True))(np.ones((5, 7), "int32"))
    np.testing.assert_array_equal(found, np.zeros((5, 4, 7), "int32"))


def centred(later: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of squares and of products of what is left of a row without its mean."""
    x, h = te.placeholder((N, M), name="X"), te.placeholder((N, M), name="H")
    k, k1, k2 = (te.reduce_axis(M, name=n) for n in ("k", "k1", "k2"))
    mean = te.compute((N,), lambda i: te.sum(x[i, k], axis=k) * (1 / M), name="mean")
    squares = te.compute((N,), lambda i: te.sum((x[i, k1] - mean[i]) ** 2, axis=k1), name="S")
    shift = squares if later else mean
    products = te.compute(
        (N,), lambda i: te.sum(h[i, k2] * (x[i, k2] - shift[i]), axis=k2), name="P"
    )
    y = te.compute((N, M), lambda i, j: x[i, j] * squares[i] - products[i], name="Y")
    return x, h, y


def centred_loops(
    later: bool, passes: bool | None = None, machine: str = "vector_bytes=64,registers=32"
) -> list[For]:
    x, h, y = centred(later)
    choices = ta.Schedule(fuse=True, siblings=False, passes=passes)
    with described(machine):
        (kernel,) = lower_program([y], [x, h], choices=choices).kernels
    return loops([*statements(kernel.body)])


def test_sums_of_one_row_run_in_one_pass() -> None:
    """The products need nothing that is made of the squares; both read X."""
    assert len(centred_loops(later=False, passes=False)) == 4
    found = centred_loops(later=False)
    assert [sum(isinstance(c, Fold) for c in s.body) for s in found] == [1, 2, 0]
    x, h, y = centred(later=False)
    arrays = [np.random.default_rng(n).normal(size=(N, M)).astype("float32") for n in (5, 6)]
    want = build(y, [x, h], schedule=ta.Schedule(passes=False))(*arrays)
    np.testing.assert_array_equal(build(y, [x, h])(*arrays), want)


def test_a_sum_that_needs_another_one_stays_behind_it() -> None:
    assert len(centred_loops(later=True)) == 4


def test_sums_that_registers_do_not_hold_stay_apart() -> None:
    assert len(centred_loops(later=False, machine="vector_bytes=16,registers=32")) == 4


def test_a_sum_stays_apart_from_rows_that_stream() -> None:
    """Where stores stream, lanes begin where lines of the output do: bits would go by its place."""
    x = te.placeholder((N, M), name="X")
    k, k1 = (te.reduce_axis(M, name=n) for n in ("k", "k1"))
    mean = te.compute((N,), lambda i: te.sum(x[i, k], axis=k) * (1 / M), name="mean")
    first = te.compute((N, M), lambda i, j: x[i, j] - mean[i], name="first")
    squares = te.compute((N,), lambda i: te.sum((x[i, k1] - mean[i]) ** 2, axis=k1), name="S")
    y = te.compute((N, M), lambda i, j: x[i, j] * squares[i], name="Y")
    choices = ta.Schedule(fuse=True, siblings=False, streaming=True)
    (kernel,) = lower_program([first, y], [x], choices=choices).kernels
    found = loops([*statements(kernel.body)])
    streaming = [s for s in found if any(isinstance(c, Store) and c.streaming for c in s.body)]
    assert streaming
    assert not any(isinstance(c, Fold) for s in streaming for c in s.body)
