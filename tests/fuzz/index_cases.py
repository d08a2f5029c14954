"""Cases of integer arithmetic: simplified, bounded, eliminated; each over every point of a box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorad import te
from tensorad.errors import BoundsError
from tensorad.ir.expr import TRUE, Axis, Expr, Select, axis, call, int_const, logical_and, select
from tensorad.ir.tensor import Compute
from tensorad.ir.visit import substitute
from tensorad.simplify.bounds.reads import classify_reads
from tensorad.simplify.index.algebra import simplify
from tensorad.simplify.index.intervals import Interval, interval
from tensorad.simplify.zeros.eliminate import eliminate
from tests.fuzz.case import Case, Fuzzer, case_of
from tests.random.generators import Program
from tests.support.oracles import check_solution, evaluate, points

LENGTH = 5
"""Elements of the tensor whose reads are classified."""


def _index(rng: Any, axes: Sequence[Axis], depth: int) -> Expr:
    """Sums, products with numbers, quotients, remainders, extrema and choices."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*axes, int_const(rng.randint(0, 8) - 4)])
    op = rng.choice(("add", "sub", "mul", "floordiv", "mod", "minimum", "maximum", "neg", "select"))
    a = _index(rng, axes, depth - 1)
    if op == "neg":
        return call(op, a)
    if op in ("mul", "floordiv", "mod"):
        return call(op, a, int_const(rng.choice((2, 3, 4, 5, 7, -1, -2, -3))))
    b = _index(rng, axes, depth - 1)
    return select(_condition(rng, axes, 1), a, b) if op == "select" else call(op, a, b)


def _condition(rng: Any, axes: Sequence[Axis], depth: int) -> Expr:
    a, b = _index(rng, axes, depth), _index(rng, axes, max(0, depth - 1))
    made = call(rng.choice(("lt", "le", "eq", "ne", "ge", "gt")), a, b)
    if rng.random() < 0.2:
        return logical_and(made, _condition(rng, axes, max(0, depth - 1)))
    return call("not", made) if rng.random() < 0.1 else made


def _of_box(rng: Any, seed: int, rank: int, write: Any) -> Case:
    """A tensor over a small box, of an expression of its axes."""
    extents = [rng.choice((3, 4, 5, 6, 2, 1, 7)) for _ in range(rank)]
    e = te.compute(tuple(extents), lambda *axes: write(axes), name="E")
    return case_of(Program(seed, e.dtype, tensors=[e]), [e], seed)


def _body(case: Case) -> tuple[list[Axis], Expr]:
    (tensor,) = case.program().tensors
    assert isinstance(tensor.op, Compute)
    return list(tensor.op.axes), tensor.op.bodies[0]


def make_simplified(rng: Any, seed: int) -> Case:
    def write(axes: Sequence[Axis]) -> Expr:
        depth = rng.choice((3, 4, 2, 5))
        return _condition(rng, axes, depth) if rng.random() < 0.4 else _index(rng, axes, depth)

    return _of_box(rng, seed, rng.choice((2, 1, 3)), write)


def check_simplified(case: Case) -> None:
    """The same values at every point, and nothing left to do."""
    axes, e = _body(case)
    short = simplify(e)
    assert simplify(short) is short, f"again: {short} becomes {simplify(short)}"
    for p in points(axes):
        found, wanted = evaluate(short, p), evaluate(e, p)
        assert found == wanted, f"value: {short} is {found}, not {wanted} at {_said(p)}"


def make_bounded(rng: Any, seed: int) -> Case:
    def write(axes: Sequence[Axis]) -> Expr:
        return select(_condition(rng, axes, 2), _index(rng, axes, 3), int_const(-1))

    return _of_box(rng, seed, rng.choice((2, 1, 3)), write)


def check_bounded(case: Case) -> None:
    """Intervals contain every value; reads are in range at every point, or an error."""
    axes, e = _body(case)
    index, guard = (e.then, e.cond) if isinstance(e, Select) else (e, TRUE)
    every = list(points(axes))
    found = interval(index)
    for p in every:
        v = evaluate(index, p)
        assert Interval(v, v).within(found), f"interval: {found} without {v} at {_said(p)}"
    seen = [v for p in every if evaluate(guard, p) for v in (evaluate(index, p),)]
    inside = all(0 <= v < LENGTH for v in seen)
    x = te.placeholder((LENGTH,), name="X")
    summed = [axis(a.name, a.lower, a.upper) for a in axes]
    try:
        y = te.compute((), lambda: _sum_of(x, index, guard, axes, summed), name="Y")
    except BoundsError as error:
        assert not inside, f"refused: {error}"
        return
    kinds = list(classify_reads(y.op).values())
    assert inside, f"taken: {index} if {guard}"
    assert "dynamic" not in kinds, f"unproved: {index} if {guard}"
    everywhere = all(0 <= evaluate(index, p) < LENGTH for p in every)
    assert everywhere or "always" not in kinds, f"always: {index}"


def _sum_of(x: Any, index: Expr, guard: Expr, axes: list[Axis], summed: list[Axis]) -> Any:
    to = dict(zip(axes, summed, strict=True))
    return te.sum(x[substitute(index, to)], axis=summed, where=substitute(guard, to))


def make_eliminated(rng: Any, seed: int) -> Case:
    def write(axes: Sequence[Axis]) -> Expr:
        outer, inner = axes[:-2], axes[-2:]
        equations = [call("eq", a, _index(rng, inner, rng.choice((2, 1, 3)))) for a in outer]
        if rng.random() < 0.5:
            equations.append(_condition(rng, inner, 1))
        return logical_and(*equations)

    return _of_box(rng, seed, rng.choice((3, 4)), write)


def check_eliminated(case: Case) -> None:
    """The pieces are the domain; an exact plan visits nothing else."""
    axes, condition = _body(case)
    outer, inner = axes[:-2], axes[-2:]
    solution = eliminate(outer, inner, condition)
    visited, wanted = check_solution(outer, inner, condition, solution)
    assert visited <= wanted or not solution.exact, f"visited: {visited} points of {wanted}"


def _said(p: dict[Expr, int]) -> str:
    return ", ".join([f"{getattr(a, 'name', a)}={v}" for a, v in p.items()])


INDEX_FUZZERS = {
    "simplify": Fuzzer(make_simplified, check_simplified),
    "bounds": Fuzzer(make_bounded, check_bounded),
    "elimination": Fuzzer(make_eliminated, check_eliminated),
}
