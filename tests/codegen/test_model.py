"""The model decides the order of sums, and the machine does not: by bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.fusion import items
from tensorad.codegen.model import MODEL
from tensorad.codegen.schedule import plan
from tensorad.codegen.target.machine import Machine, current
from tests.support.machines import MACHINES, described

DESCRIBED = (MACHINES[0], MACHINES[2], MACHINES[5])


def columns() -> tuple[ta.Tensor, list[ta.Tensor]]:
    X = ta.placeholder((4096, 96), name="X")
    k = ta.reduce_axis(4096)
    return ta.compute((96,), lambda j: ta.sum(X[k, j] * X[k, j], axis=k)), [X]


def everything() -> tuple[ta.Tensor, list[ta.Tensor]]:
    X = ta.placeholder((8, 1 << 17), name="X")
    k = ta.reduce_axis(1 << 17)
    return ta.compute((8,), lambda i: ta.sum(X[i, k] * X[i, k], axis=k)), [X]


def product() -> tuple[ta.Tensor, list[ta.Tensor]]:
    A, B = ta.placeholder((70, 300), name="A"), ta.placeholder((300, 130), name="B")
    k = ta.reduce_axis(300)
    return ta.compute((70, 130), lambda i, j: ta.sum(A[i, k] * B[k, j], axis=k)), [A, B]


def rows() -> tuple[ta.Tensor, list[ta.Tensor]]:
    X = ta.placeholder((64, 1000), name="X")
    k, m = ta.reduce_axis(1000), ta.reduce_axis(1000)
    high = ta.compute((64,), lambda i: ta.max(X[i, k], axis=k))
    total = ta.compute((64,), lambda i: ta.sum(ta.exp(X[i, m] - high[i]), axis=m))
    return ta.compute((64, 1000), lambda i, j: ta.exp(X[i, j] - high[i]) / total[i]), [X]


def bits(program: Callable[[], tuple[ta.Tensor, list[ta.Tensor]]], machine: str) -> bytes:
    out, inputs = program()
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(t.shape).astype("float32") for t in inputs]
    with described(machine, num_threads=2):
        result: bytes = ta.build([out], inputs)(*arrays).tobytes()
    return result


@pytest.mark.parametrize("program", [columns, everything, product, rows])
def test_bits_are_those_of_the_model_on_every_machine(
    program: Callable[[], tuple[ta.Tensor, list[ta.Tensor]]],
) -> None:
    first, *others = [bits(program, m) for m in DESCRIBED]
    assert all(b == first for b in others)


def test_another_model_gives_other_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the programs above would tell."""
    before = bits(everything, DESCRIBED[0])
    monkeypatch.setattr(items, "MODEL", replace(MODEL, long=1 << 30, long_alone=1 << 30))
    assert bits(everything, DESCRIBED[0]) != before


def test_a_machine_that_decides_lanes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were sums planned for the registers at hand, the programs above would tell."""

    def leaking(nest: object, choices: object, model: object) -> object:
        m = current()
        return original(nest, choices, replace(MODEL, vector_bytes=m.vector_bytes))  # type: ignore[arg-type]

    original = plan._plan_folds
    monkeypatch.setattr(plan, "_plan_folds", leaking)
    assert len({bits(everything, m) for m in DESCRIBED}) > 1


def test_the_model_has_what_estimates_ask_of_both() -> None:
    """But for that, nothing of the machine is in it: names of the processor or its speeds."""
    shared = {f.name for f in fields(Machine)} & {f.name for f in fields(MODEL)}
    assert shared == {
        "l2", "l3", "line", "vector_bytes", "registers", "multiply_adds", "cores", "by_lines",
    }  # fmt: skip


def test_lanes_of_the_model() -> None:
    assert [MODEL.lanes(n) for n in (1, 2, 4, 8)] == [64, 32, 16, 8]
    assert MODEL.accumulators == MODEL.registers // 2
