"""What loops store: as much as `explain` names, as little for long loops an iteration as for short
ones; a loop is as much code however often it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import config
from tensorad.codegen.loops.ir import LoopProgram
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.kernel_cache import kernel_text
from tensorad.errors import LimitError
from tensorad.ir.analysis.blocks import inner_ops
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import topological_ops
from tests.support.programs.differentiated import squares

Make = Callable[[Any], tuple[Tensor, list[Tensor]]]


def _given(name: str, *shape: Any) -> Tensor:
    return ta.placeholder(shape, "float64", name=name)


def _cell(n: int) -> tuple[Tensor, list[Tensor]]:
    x, w, h = _given("x", n, 4), _given("w", 4, 4), _given("h", 4)

    def cell(h: Tensor, row: Tensor) -> tuple[Tensor, None]:
        return ta.topi.tanh(w @ h + row), None

    return squares(ta.scan(cell, h, x)[0]), [x, w, h]


def _decayed(n: Any) -> tuple[Tensor, list[Tensor]]:
    x, a = _given("x", n), _given("a")
    return squares(ta.for_loop(0, n, lambda t, s: s * a + x[t], 0.0)), [x, a]


def _rows(n: Any) -> tuple[Tensor, list[Tensor]]:
    x, start = _given("x", n, 4), _given("start", n, 4)

    def step(t: ta.Expr, c: Tensor) -> Tensor:
        before = ta.compute((4,), lambda j: c[ta.maximum(t - 1, 0), j])
        return c.at[t].set(ta.topi.tanh(before) + x[t])

    return squares(ta.for_loop(0, n, step, start)), [x, start]


def test_a_step_stores_what_explain_names() -> None:
    y, wrt = _cell(50)
    found = ta.vjp(y, wrt)
    told = [t for b in ta.explain(found[0]).gradients[0].blocks for t in b.saved]
    f = ta.build(found, wrt)
    stored = dict(f.memory.stores)
    assert stored == {"tanh": 32, "drow": 32}, "h is tanh one step later"
    assert {t.name for t in told} == {"h", "tanh", "drow"}
    assert "  tanh          32 B a step" in str(f.memory)
    assert f.memory.temporaries < 50 * 32 + 20 * 64, "dx lies in the output"


def test_a_chain_of_layers_takes_its_stores_and_a_few_buffers() -> None:
    layers, width = 100, 64
    x, w = _given("x", width), _given("w", layers, width, width)

    def layer(h: Tensor, v: Tensor) -> tuple[Tensor, None]:
        return ta.topi.tanh(v @ h), None

    y = squares(ta.scan(layer, x, w)[0])
    f = ta.build(ta.vjp(y, [x, w]), [x, w])
    row = 8 * width
    assert dict(f.memory.stores) == {"tanh": row, "dv": row * width}
    assert f.memory.temporaries <= (layers + 1) * row + 3 * row


@pytest.mark.parametrize("make", [_decayed, _rows])
def test_bytes_and_points_of_an_iteration_are_the_same_for_long_loops(make: Make) -> None:
    n = ta.size("n")
    y, wrt = make(n)
    found = [y, *ta.vjp(y, wrt)]
    f = ta.build(found, wrt)
    lengths = (300, 3000, 30_000)
    memory = [f.memory_at(n=k) for k in lengths]
    stored = [m.temporaries / k for m, k in zip(memory, lengths, strict=True)]
    points = [int(ta.work(found, {"n": k}).iterations) / k for k in lengths]
    for rates in (stored, points):
        assert max(rates) <= 1.3 * min(rates)
    assert len({m.stores for m in memory}) == 1


def test_known_stores_are_refused_before_a_loop_begins() -> None:
    y, wrt = _decayed(ta.size("n"))
    f = ta.build(ta.vjp(y, wrt), wrt)
    with config.override(max_bytes=100_000):
        f(np.zeros(1000), 0.5)
        with pytest.raises(LimitError) as caught:
            f(np.zeros(10_000), 0.5)
    assert "the limit is" in str(caught.value)


@pytest.mark.parametrize("make", [_cell, _decayed, _rows])
def test_long_loops_are_as_much_code_as_short_ones(make: Make) -> None:
    def parts(n: int) -> tuple[int, ...]:
        y, wrt = make(n)
        found = [y, *ta.vjp(y, wrt)]
        ops = topological_ops(found)
        program = lower_program(found, wrt)
        inside = LoopProgram((), (), tuple([n for r in program.repeats for n in r.body]))
        lines = sum(kernel_text(k, kernel_key(k)[1])[0].count("\n") for k in inside.kernels)
        steps = len(ta.build(found, wrt)._executable.steps)
        return len(ops) + len(inner_ops(ops)), len(program.kernels), steps, lines

    assert parts(10) == parts(10_000)
