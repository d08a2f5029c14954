"""Rows of scans in lanes: the bits of rows one by one, whatever the sizes and the order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import For, Kernel, Stmt
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.ir.tensor import Tensor

Given = dict[Tensor, np.ndarray]


def soft_minimum(x: Any, y: Any) -> Any:
    """A step of a soft shortest path."""
    one, two = x[1] + y[0], y[1]
    least = te.minimum(one, two) - te.log1p(te.exp(-te.abs(one - two)))
    return x[0] + y[0], least


def path(shape: tuple[Any, ...], axis: int, **how: bool) -> tuple[list[Tensor], list[Tensor]]:
    """(inputs with the head, both states and their gradient) of a scan."""
    a, d = te.placeholder(shape, "float64", "A"), te.placeholder(shape, "float64", "D")
    step = te.comm_reducer(soft_minimum, lambda *_: (0.0, float("inf")), name="softmin")
    cost, y = te.scan((d, a), axis, step, name="Y", **how)
    h = te.placeholder(shape, "float64", name="H")
    return [a, d, h], [cost, y, *ta.vjp(y, [a, d], h)]


def vectors(body: tuple[Stmt, ...]) -> list[For]:
    found: list[For] = []
    for s in body:
        if isinstance(s, For):
            found += [s] if s.kind == "vector" else []
            found += vectors(s.body)
    return found


def walks(kernel: Kernel) -> bool:
    """Whether some loop in lanes holds a loop over steps, with scratch beside it."""
    inside = [s for v in vectors(kernel.body) for s in v.body]
    return bool(kernel.scratch) and any(isinstance(s, For) for s in inside)


def arrays(inputs: list[Tensor], shape: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.normal(size=shape) for _ in inputs]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("shape", "axis", "how"),
    [
        ((37, 19), 1, {}),
        ((64, 16), 1, {"reverse": True}),
        ((2, 20, 5), 2, {"exclusive": True}),
        ((3, 5, 18), 1, {}),
    ],
)
def test_bits(shape: tuple[int, ...], axis: int, how: dict[str, bool]) -> None:
    inputs, results = path(shape, axis, **how)
    given = arrays(inputs, shape)
    lanes = ta.build(results, inputs)(*given)
    plain = ta.build(results, inputs, schedule=ta.Schedule(vector=False))(*given)
    for found, expected in zip(lanes, plain, strict=True):
        np.testing.assert_array_equal(found, expected)
    kernels = lower_program(results, inputs).kernels
    assert any(walks(k) for k in kernels) or shape[-1] == 18


@pytest.mark.parametrize(("axis", "rows"), [(1, 16), (1, 21)])
def test_loops(axis: int, rows: int) -> None:
    """What the loops say, in plain Python, is what the scan says."""
    inputs, results = path((rows, 3), axis)
    program = lower_program(results, inputs)
    verify_loops(program)
    plain = lower_program(results, inputs, schedule=False)
    given: Given = dict(zip(inputs, arrays(inputs, (rows, 3)), strict=True))
    scheduled, written = [interpret_loops(p, given)[0] for p in (program, plain)]
    for found, expected in zip(scheduled, written, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_any_number_of_rows() -> None:
    n = te.size("n")
    inputs, results = path((n, 6), 1)
    assert any(walks(k) for k in lower_program(results, inputs).kernels)
    f = ta.build(results, inputs)
    for rows in (0, 1, 15, 16, 65):
        exact, own = path((rows, 6), 1)[::-1]
        given = arrays(inputs, (rows, 6))
        plain = ta.build(exact, own, schedule=ta.Schedule(vector=False))(*given)
        for found, expected in zip(f(*given), plain, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_short_steps_stay_rows() -> None:
    """Sums take less than copies across."""
    x = te.placeholder((64, 32), "float64", name="X")
    kernels = lower_program([te.scan(x, 1, "sum", name="Y")], [x]).kernels
    assert not any(walks(k) for k in kernels)


@pytest.mark.parametrize(("steps", "rows"), [(64, 64), (100, 32), (200, 16), (500, 32)])
def test_long_rows_take_narrow_strips(steps: int, rows: int) -> None:
    """Beyond that only the states between the scans are in scratch."""
    inputs, results = path((64, steps), 1)
    (kernel,) = [k for k in lower_program(results[2:], inputs).kernels if walks(k)]
    assert {t.shape[-1] for t in kernel.scratch} == {rows}
    assert len(kernel.scratch) == (1 if steps == 500 else 6)


def test_data_decides_where_lanes_read() -> None:
    x, p = te.placeholder((40, 9), "float64", "X"), te.placeholder((40, 9), "int64", "P")
    picked = te.compute((40, 9), lambda i, j: x[i, p[i, j]], name="picked")
    step = te.comm_reducer(lambda a, b: te.tanh(te.exp(a) * b), lambda _: 0.0, name="walk")
    y = te.scan(picked, 1, step, name="Y")
    given = [np.random.default_rng(0).normal(size=(40, 9)), np.tile(np.arange(9)[::-1], (40, 1))]
    lanes = ta.build(y, [x, p])(*given)
    plain = ta.build(y, [x, p], schedule=ta.Schedule(vector=False))(*given)
    np.testing.assert_array_equal(lanes, plain)


def test_states_that_are_wanted_are_stored_beside_the_chain() -> None:
    inputs, results = path((40, 12), 1)
    wanted = results[1:]
    kernels = lower_program(wanted, inputs).kernels
    (chain,) = [k for k in kernels if walks(k)]
    assert results[1] in chain.writes
    given = arrays(inputs, (40, 12))
    plain = ta.build(wanted, inputs, schedule=ta.Schedule(vector=False, fuse=False))(*given)
    for found, expected in zip(ta.build(wanted, inputs)(*given), plain, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_short_formulas_are_part_of_the_steps_that_read_them() -> None:
    a, d, h = [te.placeholder((20, 7), "float64", n) for n in "ADH"]
    walk = te.comm_reducer(lambda x, y: te.tanh(te.exp(x) * y), lambda _: 0.0, name="walk")
    both = a + d
    y = te.scan(both, 1, walk, name="Y")
    results, inputs = ta.vjp(y, [a], h), [a, d, h]
    assert len(lower_program(results, inputs).kernels) == 1
    given = arrays(inputs, (20, 7))
    lanes = ta.build(results, inputs)(*given)
    plain = ta.build(results, inputs, schedule=ta.Schedule(fuse=False))(*given)
    np.testing.assert_array_equal(lanes, plain)
    total = te.scan(a * d, 1, "sum", name="T")  # rounded as it would be alone
    assert len(lower_program([total], inputs).kernels) == 2
    assert [both in k.reads for k in lower_program([both, y], inputs).kernels] == [False, True]
