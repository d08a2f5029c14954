"""Mistakes planted in passes, and a program that each of them breaks.

`python tests/support/planted.py PASS` plants one and fails, which `python -m tensorad.bisect` runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np

import tensorad as ta
from tensorad.codegen.caches.kernel_passes import KERNEL_PASSES
from tensorad.codegen.caches.multiversion import Versions
from tensorad.codegen.fusion.fusion_passes import FUSION_PASSES, TILING_PASSES, Steps
from tensorad.codegen.fusion.items import Item
from tensorad.codegen.fusion.steps import item_step
from tensorad.codegen.in_place_scatters import Lowering
from tensorad.codegen.loops.ir import For, Kernel, LoopProgram, Stmt, Store
from tensorad.codegen.loops.rewrite import rewrite
from tensorad.codegen.loops.substitute import placed
from tensorad.codegen.lower import PROGRAM_PASSES, RESULT_PASSES
from tensorad.codegen.nest.ir import substitute_nest
from tensorad.codegen.splitting.nest_passes import NEST_PASSES, Pieces
from tensorad.codegen.unit_passes import UNIT_PASSES, Units
from tensorad.ir.expr import ONE, Axis, Expr, add, axis, const, sub
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Tensor, outputs
from tensorad.ir.visit import copy_bodies, substitute
from tensorad.passes import Pass
from tensorad.simplify.control.passes import CONTROL_PASSES
from tensorad.simplify.formula.choose import TIDY_PASSES
from tensorad.simplify.formula.tidy import Tidied
from tensorad.simplify.zeros.passes import NONZERO_PASSES

Mistake = Callable[[Any, Any], Any]
"""(context, what a pass makes) -> something else."""


def other_constant(axes: Sequence[Axis], body: Expr) -> Expr:
    """One more."""
    return _plus(body)


def _plus(e: Expr) -> Expr:
    return add(e, const(1, e.dtype))


def mirrored(axes: Sequence[Axis], body: Expr) -> Expr:
    """The last element's formula for the first."""
    return substitute(body, {a: sub(add(a.lower, a.upper), a + 1) for a in axes[:1]})


def other_sum(may_cut: bool, pieces: Pieces) -> Pieces:
    """One more, where the first piece stores."""
    first, *others = pieces.parts
    values = tuple([_plus(v) for v in first.values])
    return replace(pieces, parts=(replace(first, values=values), *others))


def lost_row(may_cut: bool, pieces: Pieces) -> Pieces:
    """The last piece with axes without its last row."""
    at = max([n for n, p in enumerate(pieces.parts) if p.axes])
    nest = pieces.parts[at]
    a, *others = nest.axes
    short = axis(a.name, a.lower, sub(a.upper, ONE))
    shorter = substitute_nest(nest, {a: short}, (short, *others))
    return replace(pieces, parts=(*pieces.parts[:at], shorter, *pieces.parts[at + 1 :]))


def other_store(schedules: object, versions: Versions) -> Versions:
    """One more, wherever a kernel stores."""
    return _with_bodies(versions, _plus_one)


def lost_loop(schedules: object, versions: Versions) -> Versions:
    """The last loop makes no turn."""
    return _with_bodies(versions, _without_turns)


def _with_bodies(
    versions: Versions, change: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]
) -> Versions:
    kernels = [replace(v.kernel, body=change(v.kernel.body)) for v in versions]
    return tuple([replace(v, kernel=k) for v, k in zip(versions, kernels, strict=True)])


def _plus_one(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    def more(s: Stmt) -> Store | None:
        return replace(s, values=tuple(map(_plus, s.values))) if isinstance(s, Store) else None

    return rewrite(body, more)


def _without_turns(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    *others, last = body
    if not isinstance(last, For):
        return _plus_one(body)
    never = axis(last.axis.name, last.axis.upper, last.axis.upper)
    inside = placed(last.body, {last.axis: never})
    return (*others, replace(last, axis=never, body=inside))


def other_formula(context: Lowering, units: Units) -> Units:
    """One more, in the first compute."""
    return _with_bodies_of_first(units, lambda op: tuple([_plus(b) for b in op.bodies]))


def mirrored_formula(context: Lowering, units: Units) -> Units:
    """The first compute from its last element to its first one."""
    return _with_bodies_of_first(units, lambda op: _mirrored(op.axes, op.bodies))


def _mirrored(axes: Sequence[Axis], bodies: Sequence[Expr]) -> tuple[Expr, ...]:
    return tuple([mirrored(axes, b) for b in bodies])


def _with_bodies_of_first(units: Units, change: Callable[[Compute], tuple[Expr, ...]]) -> Units:
    at, op = next((n, u.op) for n, u in enumerate(units) if isinstance(u.op, Compute))
    assert isinstance(op, Compute)
    other = replace(units[at], parts=(replace(op, bodies=change(op)),))
    return (*units[:at], other, *units[at + 1 :])


def other_step(context: Lowering, steps: Steps) -> Steps:
    """One more, in the first step that is a compute."""
    return _with_first_item(steps, lambda i: tuple([_plus(b) for b in i.bodies]))


def mirrored_step(context: Lowering, steps: Steps) -> Steps:
    """The first step that is a compute from its last element to its first one."""
    return _with_first_item(steps, lambda i: _mirrored(i.axes, i.bodies))


def _with_first_item(steps: Steps, change: Callable[[Item], tuple[Expr, ...]]) -> Steps:
    at, item = next((n, s.item) for n, s in enumerate(steps) if s.item is not None)
    s = steps[at]
    other = item_step(replace(item, bodies=change(item)), s.plans, s.after)
    return [*steps[:at], other, *steps[at + 1 :]]


def other_kernel(context: object, kernels: Iterable[Kernel]) -> tuple[Kernel, ...]:
    """One more, wherever a kernel stores."""
    return tuple([replace(k, body=_plus_one(k.body)) for k in kernels])


def lost_loops(context: object, kernels: Iterable[Kernel]) -> tuple[Kernel, ...]:
    """The last loop of each kernel makes no turn."""
    return tuple([replace(k, body=_without_turns(k.body)) for k in kernels])


def other_program(context: object, program: LoopProgram) -> LoopProgram:
    """One more, wherever a kernel stores."""
    return replace(program, nodes=other_kernel(context, program.kernels))


def idle_program(context: object, program: LoopProgram) -> LoopProgram:
    """The last loop of each kernel makes no turn."""
    return replace(program, nodes=lost_loops(context, program.kernels))


def other_results(context: object, results: Sequence[Tensor]) -> list[Tensor]:
    """One more, everywhere."""
    return [_of_elements(t, lambda i, t=t: _plus(t[i])) for t in results]


def mirrored_results(context: object, results: Sequence[Tensor]) -> list[Tensor]:
    """From the last element to the first one."""
    return [_of_elements(t, lambda i, t=t: t[t.shape[0] - 1 - i[0], *i[1:]]) for t in results]


def _of_elements(t: Tensor, element: Callable[..., Expr]) -> Tensor:
    return ta.compute(t.shape, lambda *i: element(i), name=t.name)


def other_element(context: object, tidied: Tidied) -> Tidied:
    """One more, in each result."""
    return _with_results(tidied, lambda axes, body: _plus(body))


def mirrored_element(context: object, tidied: Tidied) -> Tidied:
    """Each result from its last element to its first one."""
    return _with_results(tidied, mirrored)


def _with_results(tidied: Tidied, change: Callable[[Sequence[Axis], Expr], Expr]) -> Tidied:
    """Others that are as much work: of two ways of tidying the shorter one is taken."""
    results = []
    for t in tidied.results:
        assert isinstance(t.op, Compute)
        axes, (body,) = copy_bodies(t.op.axes, t.op.bodies)
        results.append(outputs(Compute(t.name, axes, (change(axes, body),)))[0])
    return replace(tidied, results=results)


MISTAKES: Final[tuple[tuple[Sequence[Pass[Any, Any]], tuple[Mistake, Mistake]], ...]] = (
    (NONZERO_PASSES, (other_constant, mirrored)),
    (NEST_PASSES, (other_sum, lost_row)),
    (KERNEL_PASSES, (other_store, lost_loop)),
    (TIDY_PASSES, (other_element, mirrored_element)),
    (CONTROL_PASSES, (other_results, mirrored_results)),
    (RESULT_PASSES, (other_results, mirrored_results)),
    (UNIT_PASSES, (other_formula, mirrored_formula)),
    (FUSION_PASSES, (other_step, mirrored_step)),
    (TILING_PASSES, (other_kernel, lost_loops)),
    (PROGRAM_PASSES, (other_program, idle_program)),
)
PLANTED: Final = [(p, m) for passes, mistakes in MISTAKES for p in passes for m in mistakes]


@contextmanager
def planted(p: Pass[Any, Any], mistake: Mistake) -> Iterator[None]:
    """Have a pass make a mistake inside of the block."""
    right = p.run
    object.__setattr__(p, "run", lambda context, state: mistake(context, right(context, state)))
    try:
        yield
    finally:
        object.__setattr__(p, "run", right)


X = ta.placeholder((6, 9), "float64", name="X")
W = ta.placeholder((4,), "float64", name="W")
H = ta.placeholder((6, 6), "float64", name="H")


def windows() -> Tensor:
    """Y[i, j] = the sum of X[i, j + k]*W[k]."""
    k = ta.reduce_axis(4, name="k")
    return ta.compute((6, 6), lambda i, j: ta.sum(X[i, j + k] * W[k], axis=k), name="Y")


def picked() -> Tensor:
    """T[i] = the sum of X[k, m] where k == i and m == i, left to its one point."""
    k, m = ta.reduce_axis(6, name="k"), ta.reduce_axis(6, name="m")

    def term(i: Expr) -> Expr:
        return ta.sum(ta.select((k == i) & (m == i), X[k, m], 0.0), axis=[k, m])

    return ta.OptimizeAndLiftNonzeronessConditions(ta.compute((6,), term, name="T"))


class Program:
    """Sums over windows and their gradient, and what has been expected of them all along."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.arrays = {t: rng.standard_normal([int(n) for n in t.shape]) for t in (X, W, H)}
        self.want = interpret(self.outputs(), self.arrays)

    def outputs(self) -> list[Tensor]:
        """All that is built, derived again."""
        return [picked(), windows(), *ta.vjp(windows(), [X, W], H)]

    def is_right(self) -> bool:
        """Derives, builds and runs it, onto memory that holds no earlier result."""
        f = ta.build(self.outputs(), list(self.arrays))
        found = [np.full(a.shape, np.nan) for a in self.want]
        f(*self.arrays.values(), out=found)
        return all(np.allclose(a, b) for a, b in zip(found, self.want, strict=True))


class Gradients(Program):
    """The gradients alone: no other body is solved."""

    def outputs(self) -> list[Tensor]:
        """All that is built, derived again."""
        return ta.vjp(windows(), [X, W], H)


class Looping(Program):
    """A loop and its gradient."""

    def outputs(self) -> list[Tensor]:
        """All that is built, derived again."""
        moved = ta.for_loop(0, 3, lambda t, c: c * ta.sin(X) + t, X)
        return [moved, *ta.vjp(moved, [X], X)]


def program_for(p: Pass[Any, Any]) -> Program:
    """A program that a mistake in a pass breaks."""
    return Looping() if p in CONTROL_PASSES else Program()


def main(name: str) -> int:
    """Plants the first mistake in a pass; 1 where results are wrong."""
    p, mistake = next(pair for pair in PLANTED if pair[0].name == name)
    program = program_for(p)
    with planted(p, mistake):
        return 0 if program.is_right() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
