"""Scans and scatters with any combiner: exact derivatives in both modes, at the cost of passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from benchmarks.workloads.combiner_cases import CASES, Case, reducer
from tensorad import te
from tensorad.bound import bound
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.errors import BoundsError
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import placeholders
from tests.support.dual_numbers import Dual, DualFunctions

BY_NAME = {case.name: case for case in CASES}
SCANNED = [
    "sum", "prod", "max", "min", "absmax", "top two", "logsumexp", "affine composition",
    "complex product", "decaying sum", "sin(x) + y", "tanh(x + y)", "clipped sum",
]  # fmt: skip
ROWS, LENGTH = 2, 5
INF, NAN = float("inf"), float("nan")
Array = np.ndarray


def fold_states(case: Case, elements: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The states before, between and after the steps of a left fold."""
    states: list[tuple[Any, ...]] = [tuple([Dual(v) for v in case.identity])]
    with np.errstate(all="ignore"):
        for e in elements:
            states.append(case.step(DualFunctions, states[-1], tuple([Dual.of(v) for v in e])))
    return states


def scan_oracle(
    case: Case, inputs: Array, heads: Array, exclusive: bool, reverse: bool
) -> tuple[Array, Array]:
    """(gradient, sums of |terms|) of the weighted states; arrays [input, row, place]."""
    count, rows, n = inputs.shape
    gradient, size = np.zeros(inputs.shape), np.zeros(inputs.shape)
    units = np.eye(count * n).reshape(count, n, count * n)
    for row in range(rows):
        order = list(range(n))[::-1] if reverse else list(range(n))
        elements = [
            case.element(DualFunctions, [Dual(inputs[m, row, k], units[m, k])
                                         for m in range(count)], k)
            for k in order
        ]  # fmt: skip
        states = fold_states(case, elements)
        for at, k in enumerate(order):
            state = states[at] if exclusive else states[at + 1]
            for c, h in enumerate(heads[:, row, k]):
                d = state[case.looked_at[c]]
                gradient[:, row] += (h * np.broadcast_to(d.b, count * n)).reshape(count, n)
                size[:, row] += (abs(h) * np.broadcast_to(d.size, count * n)).reshape(count, n)
    return gradient, size


def scanned(
    case: Case, axis: int, exclusive: bool, reverse: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """(inputs, the components looked at) of a scan along an axis."""
    shape = (ROWS, LENGTH) if axis == 1 else (LENGTH, ROWS)
    inputs = [te.placeholder(shape, dtype="float64", name=f"X{m}") for m in range(case.inputs)]
    sources = []
    for c in range(len(case.identity)):

        def body(i: Any, j: Any, c: int = c) -> Any:
            e = case.element(te, [x[i, j] for x in inputs], None)[c]
            return te.const(e, "float64") if isinstance(e, float) else e

        sources.append(te.compute(shape, body, name=f"E{c}"))
    given = sources[0] if len(sources) == 1 else tuple(sources)
    made = te.scan(given, axis, reducer(case), exclusive=exclusive, reverse=reverse, name="S")
    components = made if isinstance(made, tuple) else (made,)
    return inputs, [components[c] for c in case.looked_at]


def turned(a: Array, axis: int) -> Array:
    """[..., row, place] as the tensors store it."""
    return a if axis == 1 else np.swapaxes(a, -1, -2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SCANNED)
@pytest.mark.parametrize(
    ("axis", "exclusive", "reverse"),
    [(0, False, False), (1, True, False), (1, False, True), (0, True, True)],
)
def test_scans(name: str, axis: int, exclusive: bool, reverse: bool) -> None:
    case = BY_NAME[name]
    rng = np.random.default_rng(3)
    inputs = np.stack([case.draw(rng, ROWS * LENGTH) for _ in range(case.inputs)])
    inputs = inputs.reshape(case.inputs, ROWS, LENGTH)
    heads = rng.normal(size=(len(case.looked_at), ROWS, LENGTH))
    moved = rng.normal(size=inputs.shape)
    xs, ys = scanned(case, axis, exclusive, reverse)
    hs = [te.placeholder(y.shape, dtype="float64", name=f"H{n}") for n, y in enumerate(ys)]
    ts = [te.placeholder(x.shape, dtype="float64", name=f"T{n}") for n, x in enumerate(xs)]
    gradients = ta.vjp(ys, xs, hs)
    tangents = ta.jvp(ys, dict(zip(xs, ts, strict=True)))
    given = {
        t: turned(a, axis) for t, a in zip((*xs, *hs, *ts), (*inputs, *heads, *moved), strict=True)
    }
    found = interpret([*gradients, *tangents], given)
    expected, size = scan_oracle(case, inputs, heads, exclusive, reverse)
    for g, e, s in zip(found, turned(expected, axis), turned(size, axis), strict=False):
        assert np.all(np.abs(g - e) <= 1e-10 * s)
    pushed = sum(float((turned(h, axis) * t).sum()) for h, t in zip(heads, found[len(xs) :]))
    scale = float((size * np.abs(moved)).sum())
    assert abs(pushed - float((expected * moved).sum())) <= 1e-10 * scale
    total = te.compute(
        ys[0].shape, lambda i, j: sum((y[i, j] for y in ys[1:]), ys[0][i, j]), name="total"
    )
    assert ta.work(ta.vjp(total, xs, te.placeholder(total.shape, dtype="float64", name="H"))
                   ).iterations <= bound(total, xs)  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["prod", "max", "logsumexp", "affine composition"])
def test_compiled_scans_twice(name: str) -> None:
    inputs, (y, *_) = scanned(BY_NAME[name], 1, False, True)
    assert ta.gradcheck(y, inputs, order=2)


def test_passes_of_the_prefix_folds() -> None:
    x = te.placeholder((7, 9), dtype="float64", name="X")
    h = te.placeholder((7, 9), dtype="float64", name="H")
    passes = {}
    for name in ("sum", "prod", "max", "min"):
        (dx,) = ta.vjp(te.scan(x, 1, name), [x], h)
        passes[name] = ta.work(dx).iterations / 63
    assert passes == {"sum": 1, "prod": 2, "max": 2, "min": 2}


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("max", [-INF, -INF, -INF], [3, 0, 0]),
        ("min", [INF, INF], [2, 0]),
        ("max", [1, 3, 3, 2], [1, 3, 0, 0]),
        ("max", [1, NAN, 5, NAN], [1, 3, 0, 0]),
        ("prod", [2, 0, 3], [1, 2 + 6, 0]),
    ],
)
def test_special_prefixes(name: str, values: list[float], expected: list[float]) -> None:
    x = te.placeholder((len(values),), dtype="float64", name="X")
    (dx,) = ta.vjp(te.scan(x, 0, name), [x], 1.0)
    array = np.array(values, dtype=float)
    assert ta.evaluate(dx, {x: array}).tolist() == expected
    assert interpret(dx, {x: array}).tolist() == expected


# Scatters

SCATTERED = ["prod", "max", "min", "absmax", "logsumexp", "decaying sum", "sin(x) * y + x"]


def scatter_oracle(
    case: Case, x: Array, where: Array, start: Array | None, cells: int
) -> tuple[Array, Array]:
    """(values, Jacobian of them by x, then by start) of a scatter in order."""
    n = len(x)
    unit = np.eye(n + cells)
    if start is None:
        state = [Dual(case.identity[0], np.zeros(n + cells)) for _ in range(cells)]
    else:
        state = [Dual(s, unit[n + c]) for c, s in enumerate(start)]
    with np.errstate(all="ignore"):
        for k in range(n):
            (state[where[k]],) = case.step(
                DualFunctions, (state[where[k]],), (Dual(x[k], unit[k]),)
            )
    return np.array([s.a for s in state]), np.stack([s.b for s in state])


@pytest.mark.parametrize("with_start", [False, True])
@pytest.mark.parametrize("name", SCATTERED)
def test_scatters_with_any_combiner(name: str, with_start: bool) -> None:
    case, n, cells = BY_NAME[name], 9, 4
    rng = np.random.default_rng(5)
    values, start = case.draw(rng, n), case.draw(rng, cells)
    where = rng.integers(0, cells, n)
    x = te.placeholder((n,), dtype="float64", name="X")
    p = te.placeholder((n,), dtype="int64", name="P")
    z = te.placeholder((cells,), dtype="float64", name="Z")
    y = te.scatter(
        (cells,),
        (n,),
        lambda k: (p[k], x[k]),
        combine=reducer(case),
        init=z if with_start else None,
    )
    wrt = [x, z] if with_start else [x]
    h = te.placeholder((cells,), dtype="float64", name="H")
    head, moved = rng.normal(size=cells), rng.normal(size=n + cells)
    tx = te.placeholder((n,), dtype="float64", name="TX")
    tz = te.placeholder((cells,), dtype="float64", name="TZ")
    tangents = {x: tx, z: tz} if with_start else {x: tx}
    gradients = ta.vjp(y, wrt, h)
    given = {x: values, p: where, z: start, h: head, tx: moved[:n], tz: moved[n:]}
    tangent, *found = interpret([ta.jvp(y, tangents), *gradients], given)
    _, jacobian = scatter_oracle(case, values, where, start if with_start else None, cells)
    expected = head @ jacobian
    np.testing.assert_allclose(found[0], expected[:n], rtol=1e-11, atol=1e-12)
    if with_start:
        np.testing.assert_allclose(found[1], expected[n:], rtol=1e-11, atol=1e-12)
    else:
        moved[n:] = 0
    np.testing.assert_allclose(tangent, jacobian @ moved, rtol=1e-11, atol=1e-12)
    assert ta.work(gradients).iterations <= bound(y, wrt)


@pytest.mark.parametrize("name", ["prod", "max", "sin(x) * y + x"])
def test_compiled_scatters_twice(name: str) -> None:
    x = te.placeholder((2, 3), dtype="float64", name="X")
    z = te.placeholder((2,), dtype="float64", name="Z")
    y = te.scatter(
        (2,), (2, 3), lambda i, j: ((i + j) // 2, x[i, j] ** 2), reducer(BY_NAME[name]), init=z
    )
    assert ta.gradcheck(y, [x, z], order=2)


def test_the_first_of_equals_wins_a_cell() -> None:
    x = te.placeholder((4,), dtype="float64", name="X")
    z = te.placeholder((3,), dtype="float64", name="Z")
    where = te.const([0, 0, 1, 1])
    bare = te.scatter((3,), (4,), lambda k: (where[k], x[k]), combine="max")
    begun = te.scatter((3,), (4,), lambda k: (where[k], x[k]), combine="max", init=z)
    array = np.array([-INF, -INF, 2.0, NAN])
    assert ta.evaluate(ta.vjp(bare, x, 1.0)[0], {x: array}).tolist() == [1, 0, 0, 1]
    dx, dz = ta.evaluate(ta.vjp(begun, [x, z], 1.0), {x: array, z: np.array([-INF, 2.0, 5.0])})
    assert dx.tolist() == [0, 0, 0, 1] and dz.tolist() == [1, 0, 1]


def test_cells_outside_the_shape_are_an_error_at_the_call() -> None:
    x = te.placeholder((3,), dtype="float64", name="X")
    p = te.placeholder((3,), dtype="int64", name="P")
    y = te.scatter((4,), (3,), lambda k: (p[k], x[k]), combine="prod")
    (dx,) = ta.vjp(y, [x], 1.0)
    with pytest.raises(BoundsError):
        ta.evaluate(dx, {x: np.ones(3), p: np.array([0, 4, 1])})


IGNORING = {  # combiner, its slopes by the cell and by the value
    "last": (lambda a, b: b, lambda a, b: (0.0, 1.0)),
    "first": (lambda a, b: a, lambda a, b: (1.0, 0.0)),
    "last square": (lambda a, b: b * b, lambda a, b: (0.0, 2 * b)),
    "constant": (lambda a, b: b * 0 + 3, lambda a, b: (0.0, 0.0)),
    "decaying": (lambda a, b: 0.5 * a + b, lambda a, b: (0.5, 1.0)),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("where", [[1, 3, 1], [0, 1, 2], [2, 2, 2]])
@pytest.mark.parametrize("name", IGNORING)
def test_scatters_that_forget_their_cells_are_compiled(name: str, where: list[int]) -> None:
    combine, slopes = IGNORING[name]
    x = te.placeholder((4,), dtype="float64", name="X")
    p = te.placeholder((3,), dtype="int64", name="P")
    u = te.placeholder((3,), dtype="float64", name="U")
    fold = te.comm_reducer(combine, lambda dtype: 0, name="fold")
    y = te.scatter((4,), (3,), lambda k: (p[k], u[k]), combine=fold, init=x)
    given = {x: np.arange(1.0, 5.0), p: np.array(where), u: np.array([5.0, 6.0, 7.0])}
    state, jacobian = given[x].copy(), np.eye(4, 7)  # by x, then by u
    for k, cell in enumerate(where):
        by_cell, by_value = slopes(state[cell], given[u][k])
        jacobian[cell] = by_cell * jacobian[cell] + by_value * np.eye(7)[4 + k]
        state[cell] = combine(state[cell], given[u][k])
    np.testing.assert_array_equal(ta.evaluate(y, given), state)
    head = np.array([1.0, 10.0, 100.0, 1000.0])
    gradients = ta.vjp(y, [x, u], head)
    for run in (ta.evaluate, interpret):
        np.testing.assert_array_equal(np.concatenate(run(gradients, given)), head @ jacobian)
    tangent = ta.jvp(y, {x: np.eye(4)})
    np.testing.assert_array_equal(ta.evaluate(tangent, given) @ head, (head @ jacobian)[:4])
    with pytest.raises(BoundsError, match="at index 4 of axis 0, which has extent 4"):
        ta.evaluate(gradients, {**given, p: np.array([0, 4, 1])})


# Gathers and accumulations by index


def test_rows_by_index_accumulate_and_gather() -> None:
    rng = np.random.default_rng(7)
    table = te.placeholder((5, 3), dtype="float64", name="T")
    idx = te.placeholder((8,), dtype="int64", name="I")
    words = te.compute((8, 3), lambda n, d: table[idx[n], d] ** 2, name="words")
    sums = te.scatter((5, 3), (8, 3), lambda n, d: ((idx[n], d), words[n, d]), name="segments")
    h = te.placeholder((5, 3), dtype="float64", name="H")
    where, values, head = rng.integers(0, 5, 8), rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    (dt,) = ta.vjp(sums, [table], h)
    counts = np.bincount(where, minlength=5)[:, None]
    found = ta.evaluate(dt, {table: values, idx: where, h: head})
    np.testing.assert_allclose(found, 2 * values * head * counts)
    assert ta.gradcheck(sums, [table], order=2, arrays={idx: where})


def test_one_hot_products_are_reads() -> None:
    w = te.placeholder((6, 3), dtype="float64", name="W")
    idx = te.placeholder((4,), dtype="int64", name="I")
    k = te.reduce_axis(6, "k")
    y = te.compute(
        (4, 3),
        lambda n, d: te.sum(te.select(idx[n] == k, w[k, d], 0.0), axis=k),
        name="Y",
    )
    where, head = np.array([1, 5, 1, 0]), np.random.default_rng(2).normal(size=(4, 3))
    h = te.placeholder((4, 3), dtype="float64", name="H")
    expected = np.zeros((6, 3))
    np.add.at(expected, where, head)
    (dw,) = ta.vjp(y, [w], h)
    np.testing.assert_allclose(
        ta.evaluate(dw, {w: np.zeros((6, 3)), idx: where, h: head}), expected
    )


# Guards that are reductions themselves


@pytest.mark.parametrize("fold", [te.sum, te.prod, te.max])
def test_a_reduction_may_guard_another(fold: Any) -> None:
    m = te.placeholder((3, 4), dtype="float64", name="M")
    n = te.placeholder((5, 2), dtype="int64", name="N")
    q, r = te.reduce_axis(4, "q"), te.reduce_axis(2, "r")
    y = te.compute(
        (5,),
        lambda i: te.select(te.min(n[i, r], axis=r) >= 0, fold(m[n[i, 0], q], axis=q) ** 2, 0.0),
        name="Y",
    )
    arrays = {
        m: np.random.default_rng(0).uniform(1, 2, (3, 4)),
        n: np.array([[0, 1], [-1, 0], [2, 0], [7, -1], [1, 1]]),
    }
    assert ta.gradcheck(y, [m], arrays=arrays)
    (dm,) = ta.vjp(y, [m], 1.0)
    np.testing.assert_allclose(ta.evaluate(dm, arrays), interpret(dm, arrays))


@pytest.mark.parametrize("name", ["decaying sum", "sin(x) + y"])
def test_loops_of_scans_are_well_formed(name: str) -> None:
    x = te.placeholder((4, 6), dtype="float64", name="X")
    k = te.reduce_axis((0, 6), name="k")
    y = te.compute((4,), lambda i: reducer(BY_NAME[name])(x[i, k], axis=k), name="Y")
    gradients = ta.vjp(y, [x])
    for schedule in (True, False):
        verify_loops(lower_program(gradients, placeholders(gradients), schedule=schedule))


def test_a_part_of_an_adjoint_that_is_a_scan_has_the_shape_of_its_tensor() -> None:
    x = te.placeholder((3,), dtype="float64", name="X")
    y = te.scan(te.compute((5,), lambda i: te.select(i < 3, x[te.minimum(i, 2)], 0.0)), 0)
    (dx,) = ta.vjp(y, [x], np.ones(5))
    assert dx.shape == (3,)
    assert ta.evaluate(dx, {x: np.ones(3)}).tolist() == [5.0, 4.0, 3.0]
