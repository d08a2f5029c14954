"""Sums over all calls of a definition, added up where they lie."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.control.totals import added_up, totals_of, zero
from tensorad.codegen.loops.ir import Activate, LoopProgram
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.ir.dtypes import FLOAT64, INT64
from tensorad.ir.expr import local_size
from tensorad.ir.records import Definition, Field, RecordType, recursion
from tensorad.ir.tensor import Compute, Scatter
from tests.random.records.compare import assert_same
from tests.support.programs.recursive import branch, given

WIDTH = 4


@ta.function
def state(k: Any, x: Any, w: Any) -> Any:
    """k layers with weights in common and a row of a table each."""

    def layer() -> Any:
        return ta.tanh(w["m"] @ state(k - 1, x, w) + w["t"][k % w["t"].shape[0]])

    return ta.cond(k > 0, layer, lambda: x)


@ta.function
def twice(k: Any, w: Any) -> Any:
    """A tree of calls, each of which reads a part of the weights of its own."""
    return ta.cond(k > 0, lambda: twice(k - 1, w) * twice(k - 2, w) + w[k % 3], lambda: w[0] * w[1])


def loss(w: Any, k: Any, x: Any) -> Any:
    return (state(k, x, w) ** 2).sum()


def weights(rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(rows)
    return {"m": rng.standard_normal((WIDTH, WIDTH)) / 2, "t": rng.standard_normal((rows, WIDTH))}


def lowered(f: Any, *args: Any) -> LoopProgram:
    program = f.trace(*args)
    found = lower_program(list(program.results), list(program.parameters))
    verify_loops(found)
    return found


def test_a_call_adds_what_it_has_alone() -> None:
    args = np.int64(3), np.ones(WIDTH)
    found = str(ta.work(ta.grad(loss), weights(1000), *args).iterations)
    (per_call,) = re.findall(r"(\d+)\*d\w*_calls", found)
    # the activation's derivative, W^T of it, its product with the state, its row
    assert int(per_call) <= 2 * WIDTH**2 + 3 * WIDTH
    program = lowered(ta.grad(loss), weights(1000), *args)
    calls = [n for n in program.all_nodes if isinstance(n, Activate) and n.totals]
    assert calls and all(r.totals for r in program.routines if r.definition.totals)
    text = str(ta.grad(loss).lower(weights(1000), *args))
    assert ", added to dw['m']" in text


def test_no_call_keeps_what_all_have() -> None:
    (dm, *_) = ta.grad(loss).trace(weights(10), np.int64(3), np.ones(WIDTH)).results
    text = str(ta.PrintTensorRecursively(dm))
    (record,) = re.findall(r"type state\.saved = saved\((.*)\)", text)
    assert "[4, 4]" not in record and "[10, 4]" not in record


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 1, 6])
def test_both_interpreters_and_differences_agree(k: int) -> None:
    w, args = weights(3), (np.int64(k), np.linspace(0.1, 1.0, WIDTH))
    program = ta.grad(loss).trace(w, *args)
    values = dict(zip(program.parameters, (w["m"], w["t"], *args), strict=True))
    found = ta.grad(loss)(w, *args)
    for a, t in zip((found["m"], found["t"]), program.results, strict=True):
        assert_same(a, ta.interpret(t, values))
    along = {n: np.cos(np.arange(a.size)).reshape(a.shape) for n, a in w.items()}
    h = 1e-5
    ends = [loss({n: a + s * h * along[n] for n, a in w.items()}, *args) for s in (1, -1)]
    slope = sum(float((found[n] * along[n]).sum()) for n in w)
    assert slope == pytest.approx(float(ends[0] - ends[1]) / (2 * h), rel=1e-6, abs=1e-9)


@pytest.mark.slow
def test_derivatives_of_sums_and_calls_of_calls() -> None:
    w, args = weights(2), (np.int64(3), np.linspace(0.1, 1.0, WIDTH))
    assert ta.gradcheck(lambda w: loss(w, *args), w)
    assert ta.gradcheck(lambda w: twice(np.int64(4), w), np.array([0.5, 1.5, -0.5]), order=2)


def test_which_results_are_sums_in_place() -> None:
    (x,) = given(("x", (), FLOAT64))
    some = RecordType("Some").complete([])
    types = [Field("a", (2,), FLOAT64), Field("r", (), some), Field("k", (), INT64)]
    types.append(Field("rows", (local_size("n"),), FLOAT64))
    made = Definition("f", (x,), types, totals=range(4))
    assert totals_of(made) == (0,), "records, integers and rows that a run counts are made whole"


def test_addends_are_told_apart() -> None:
    x, s = given(("x", (3,), FLOAT64), ("sum", (3,), FLOAT64))
    made = Definition("f", (x,), [Field("y", (3,), FLOAT64)], totals=(0,))
    (y,) = recursion(made, (x,))
    begun = ta.compute((3,), lambda i: y[i] + x[i] * 2.0, "begun")
    found = added_up([(begun, s)], [], [x, s])
    assert list(found.calls) == [y] and found.calls[y] is s
    ((op, update),) = found.updates.items()
    assert isinstance(op, Scatter) and op.init is s and update.carry is s
    twice_read = ta.compute((3,), lambda i: y[i] + y[i] * x[i], "twice_read")
    found = added_up([(twice_read, s)], [], [x, s])
    assert not found.calls, "the call's result is read elsewhere, too"
    assert not added_up([(zero(x), s)], [], [x, s]).made and isinstance(zero(x).op, Compute)
    chosen = branch(ta.compute((), lambda: ta.const(1), "one"), [x, y], (x, y))
    assert list(added_up([(chosen, s)], [], [x, s]).calls) == [chosen]
