"""Schedules made by hand: each decision is followed, and refused where it cannot be."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.directives import Given
from tensorad.codegen.loops.ir import Fold, For, If, LoopProgram, Stmt
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.errors import BuildError
from tensorad.ir.tensor import Tensor


def product(m: int = 21, n: int = 50, inner: int = 17) -> tuple[Tensor, list[Tensor]]:
    a, b = te.placeholder((m, inner), name="A"), te.placeholder((inner, n), name="B")
    k = te.reduce_axis(inner, name="k")
    return te.compute((m, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C"), [a, b]


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for s in body:
        yield s
        if isinstance(s, For):
            yield from statements(s.body)
        if isinstance(s, If):
            yield from statements((*s.then, *s.orelse))


def loops(program: LoopProgram) -> list[For]:
    return [s for k in program.kernels for s in statements(k.body) if isinstance(s, For)]


def lanes(program: LoopProgram) -> list[For]:
    return [s for s in loops(program) if s.kind == "vector"]


def planned(choices: Given, make: Callable[[], tuple[Tensor, list[Tensor]]]) -> LoopProgram:
    """The loops, verified; machine code from them gives what the analysis gives."""
    out, inputs = make()
    program = lower_program([out], inputs, choices=choices)
    verify_loops(program)
    rng = np.random.default_rng(5)
    arrays = {t: rng.integers(-3, 4, t.shape).astype(str(t.dtype)) for t in inputs}
    want = ta.build(out, inputs)(*arrays.values())
    have = ta.build(out, inputs, schedule=choices)(*arrays.values())
    np.testing.assert_array_equal(have, want)  # small integers: any order gives the same
    return program


@pytest.mark.parametrize("name", ["i", "j", "k"])
def test_any_axis_of_a_product_runs_in_lanes(name: str) -> None:
    (lane,) = lanes(planned(ta.Schedule(vector=name, tile=(1, 1)), product))
    assert lane.axis.name == name


def test_no_lanes() -> None:
    assert not lanes(planned(ta.Schedule(vector=False), product))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("rows", [1, 3, 7, 10])
@pytest.mark.parametrize("vectors", [1, 2, 3])
def test_tiles(rows: int, vectors: int) -> None:
    program = planned(ta.Schedule(vector="j", tile=(rows, vectors)), product)
    widest = lanes(program)[0]
    folds = [s for s in statements((widest,)) if isinstance(s, Fold)]
    assert len({s.targets for s in folds}) == len(folds) == rows
    assert widest.width == 16 * vectors


def test_order_and_threads() -> None:
    choices = ta.Schedule(vector="j", tile=(1, 1), order=("i",), parallel=True)
    outer = loops(planned(choices, product))[0]
    assert (outer.axis.name, outer.kind) == ("i", "parallel")
    out, inputs = product(512, 512, 512)
    alone = lower_program([out], inputs, choices=ta.Schedule(parallel=False))
    assert all(s.kind != "parallel" for s in loops(alone))
    assert any(s.kind == "parallel" for s in loops(lower_program([out], inputs)))


def short_sum() -> tuple[Tensor, list[Tensor]]:
    x, k = te.placeholder((30, 66), name="X"), te.reduce_axis(3, name="k")
    return te.compute((30, 64), lambda i, j: te.sum(x[i, j + k], axis=k), name="Y"), [x]


def test_unrolled_or_not() -> None:
    def steps(unroll: bool) -> int:
        return sum(
            s.axis.name == "k" for s in loops(planned(ta.Schedule(unroll=unroll), short_sum))
        )

    assert steps(True) == 0 < steps(False)


def padded() -> tuple[Tensor, list[Tensor]]:
    x = te.placeholder((20,), name="X")
    inside = te.select
    return te.compute((24,), lambda i: inside((i >= 2) & (i < 22), x[i - 2], 0.0), name="P"), [x]


def test_split_or_not() -> None:
    assert len(loops(planned(ta.Schedule(split=True), padded))) == 3
    assert len(loops(planned(ta.Schedule(split=False), padded))) == 1


def test_a_tensor_by_name() -> None:
    x = te.placeholder((64, 64), name="X")
    y = te.compute((64, 64), lambda i, j: x[i, j] * 2.0, name="Y")
    k = te.reduce_axis(64, name="k")
    z = te.compute((64,), lambda i: te.sum(y[i, k] * y[k, i], axis=k), name="Z")
    program = planned({"Z": ta.Schedule(vector=False)}, lambda: (z, [x]))
    assert [len([s for s in statements(k.body) if isinstance(s, For) and s.kind == "vector"])
            for k in program.kernels] == [1, 0]  # fmt: skip


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(BuildError) as caught:
        act()
    return str(caught.value)


def test_refused_names() -> None:
    out, inputs = product()
    assert refusal(lambda: ta.build(out, inputs, schedule=ta.Schedule(vector="q"))) == (
        "the schedule names the axis 'q', which no loop has.\n"
        "  in: Schedule(vector='q')\n"
        "  hint: its axes are i, j, k."
    )
    named = {"D": ta.Schedule(parallel=True)}
    assert refusal(lambda: ta.lower(out, inputs, schedule=named)) == (
        "the schedule names the tensor 'D', which no loop computes.\n"
        "  in: schedule={'D': Schedule(parallel=True)}\n"
        "  hint: tensors with loops are C."
    )
    assert refusal(lambda: ta.build(out, inputs, schedule=ta.Schedule(order=("j", "k")))) == (
        "the schedule orders the axis 'k', which is folded over.\n"
        "  in: Schedule(order=('j', 'k'))\n"
        "  hint: the axes that can be ordered are i, j."
    )
    named = {"C": ta.Schedule(order=("z",))}
    assert refusal(lambda: ta.lower(out, inputs, schedule=named)) == (
        "the schedule of C names the axis 'z', which no loop has.\n"
        "  in: Schedule(order=('z',))\n"
        "  hint: its axes are i, j, k."
    )


def test_tensors_of_one_name_have_the_axes_of_all() -> None:
    x = te.placeholder((5, 6), name="X")
    first = te.compute((6, 5), lambda a, b: x[b, a] * 2.0, name="T")
    both = [first, te.compute((5, 6), lambda i, j: x[i, j] + 1.0, name="T")]
    for axis in ("b", "j"):
        for given in (ta.Schedule(order=(axis,)), {"T": ta.Schedule(order=(axis,))}):
            assert len(lower_program(both, [x], choices=given).kernels) == 2


def test_refused_lanes() -> None:
    x, k = te.placeholder((30, 40), name="X"), te.reduce_axis(40, name="k")
    last = te.comm_reducer(lambda a, b: a * 0.5 + b, lambda d: te.const(0.0, d), name="decay")
    y = te.compute((30,), lambda i: last(x[i, k], axis=k), name="Y")
    assert refusal(lambda: ta.build(y, [x], schedule=ta.Schedule(vector="k"))) == (
        "the axis k of Y cannot run in lanes: its reduction must visit the points in order.\n"
        "  in: Schedule(vector='k')\n"
        "  hint: name another axis, or leave `vector` open."
    )
    triangle = te.compute((30,), lambda i: te.sum(x[i, k], axis=k, where=k <= i), name="T")
    assert "where a reduction runs depends on it" in refusal(
        lambda: ta.build(triangle, [x], schedule=ta.Schedule(vector="i"))
    )


@pytest.mark.parametrize(
    "values",
    [{"tile": (0, 1)}, {"tile": 3}, {"tile": (4, 99)}, {"vector": 3}, {"order": "ij"},
     {"parallel": 1}, {"order": (1,)}, {"vector": True}, {"order": ("i", "i")}, {"block": True},
     {"block": 0}],
)  # fmt: skip
def test_refused_values(values: dict[str, object]) -> None:
    name, value = next(iter(values.items()))
    text = refusal(lambda: ta.Schedule(**values))  # type: ignore[arg-type]  # wrong on purpose
    assert text.startswith(f"{value!r} is no {name} of a schedule.") or "(1,)" in repr(value)


def test_refused_schedules() -> None:
    out, inputs = product()
    assert refusal(lambda: ta.build(out, inputs, schedule="fast")) == (  # type: ignore[arg-type]
        "'fast' is not a schedule.\n"
        "  in: schedule=\n"
        '  hint: pass ta.Schedule(...), or a dictionary such as {"Y": ta.Schedule(...)}.'
    )
