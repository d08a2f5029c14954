"""What is planned once, and that sharing plans changes no loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.contraction import plan_pieces
from tensorad.codegen.fusion import plan_cache
from tensorad.codegen.loops.ir import LoopProgram
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.lower import lower_program
from tensorad.ir.analysis.decisions import Decision, listening
from tensorad.ir.tensor import Tensor
from tests.random.generators import random_program

Outputs = tuple[list[Tensor], list[Tensor]]


def chain(length: int) -> Outputs:
    """Steps of three formulas in turn, and the gradient."""
    x = t = te.placeholder((8,), dtype="float64", name="X")
    for n in range(length):
        t = te.compute(
            (8,),
            lambda i, t=t, n=n: (t[(i + 1) % 8], te.select(i < 3, t[i], -t[i]), t[7 - i])[n % 3],
        )
    head = te.placeholder((8,), dtype="float64", name="H")
    return [t, *ta.vjp(t, [x], head)], [x, head]


def layers(count: int) -> Outputs:
    """Equal dense layers with a bias; each reads all rows of the one before for each of its own."""
    x = t = te.placeholder((64, 64), name="X")
    inputs = [x]
    k = te.reduce_axis(64, name="k")
    for n in range(count):
        w, b = te.placeholder((64, 64), name=f"W{n}"), te.placeholder((64,), name=f"B{n}")
        inputs += [w, b]
        t = te.compute((64, 64), lambda i, j, t=t, w=w: te.sum(t[k, 63 - i] * w[k, j], axis=k))
        t = te.compute((64, 64), lambda i, j, t=t, b=b: te.maximum(t[i, j] + b[j], 0.0))
    return [t], inputs


def count_calls(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str
) -> list[tuple[object, ...]]:
    """The calls of a function of a module from here on."""
    calls: list[tuple[object, ...]] = []
    original = getattr(module, name)

    def counted(*args: object, **named: object) -> object:
        calls.append(args)
        return original(*args, **named)

    monkeypatch.setattr(module, name, counted)
    return calls


def test_equal_formulas_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for length in (12, 24):
        calls = count_calls(monkeypatch, plan_cache, "plan_nest")
        lower_program(*chain(length))
        counts.append(len(calls))
    assert counts[0] == counts[1] > 0


def test_equal_layers_are_one_contraction(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = count_calls(monkeypatch, plan_pieces, "plan_contraction")
    emitted = count_calls(monkeypatch, plan_pieces, "emit_contraction")
    program = lower_program(*layers(4))
    assert len(program.kernels) == 4
    assert len(plans) == len(emitted) == 1
    keys = {kernel_key(k)[0] for k in program.kernels}
    assert len(keys) == 1
    made = [t for k in program.kernels for t in k.scratch]
    assert len(set(map(id, made))) == len(made)


def programs() -> dict[str, Callable[[], Outputs]]:
    found: dict[str, Callable[[], Outputs]] = {
        "chain": lambda: chain(9),
        "layers": lambda: layers(3),
    }
    for seed in range(5):
        program = random_program(seed, ("float64", "float32")[seed % 2])
        found[f"random {seed}"] = lambda p=program: (p.outputs, p.inputs)  # type: ignore[misc]
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", programs())
def test_shared_plans_give_the_same_loops(name: str) -> None:
    outputs, inputs = programs()[name]()
    shared = lower_program(outputs, inputs)
    with listening(Decision):  # reasons are told of every item: nothing is shared
        alone = lower_program(outputs, inputs)
    assert described(shared) == described(alone)


def described(program: LoopProgram) -> list[tuple[object, ...]]:
    """Each kernel's name, canonical loops and tensors."""
    own = {t: None for k in program.kernels for t in (*k.scratch, *k.writes)}
    found = []
    for k in program.kernels:
        key, tensors = kernel_key(k)
        outside = [t for t in tensors if t not in own]
        found.append((k.name, key, [t.name for t in tensors], outside))
    return found
