"""`work`: how much the loops written in a tensor's operations do, counted without running them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tensorad.codegen.loopir import (
    Assign,
    Check,
    Fold,
    For,
    If,
    Stmt,
    Store,
    Visit,
)
from tensorad.codegen.lower import lower_op, needed_ops
from tensorad.errors import InternalError, UserError
from tensorad.ir.expr import (
    BINARY_MATH,
    TRUE,
    UNARY_MATH,
    Call,
    Expr,
    logical_not,
    size_var,
)
from tensorad.ir.points import count_alternatives, possible
from tensorad.ir.symbolic_points import Count, count_nest, sizes_of
from tensorad.ir.tensor import Placeholder, Tensor, outputs
from tensorad.ir.visit import needs, postorder, topological_ops

_COSTLY: Final = frozenset(("mul", "div", "floordiv", "mod", "pow", *UNARY_MATH, *BINARY_MATH))
"""Operations counted as multiplications."""
_FEW: Final = 8
"""Conditions in one statement up to which each is counted alone."""


@dataclass(frozen=True)
class Work:
    """Counts of one run: numbers, or polynomials of the symbolic sizes.

    Attributes:
        iterations: evaluations of an innermost body, or of the condition tested there.
        multiplications: `* / // %` and math calls evaluated, in indices and conditions too.
        elements: values stored.
    """

    iterations: Count
    multiplications: Count
    elements: Count


def work(tensors: Tensor | Iterable[Tensor], sizes: Mapping[str, int] | None = None) -> Work:
    """Counts of the loops written in every operation behind `tensors`, each operation once.

    Bounds of axes and conditions over them are counted exactly. A condition on data counts as
    true, and both sides of a choice on data as evaluated.

    Args:
        sizes: values for symbolic sizes; without them the counts are polynomials.
    Raises:
        UserError: a count is no polynomial of the sizes that have no value, or a value is no
            integer >= 0.
    """
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for name, n in (sizes or {}).items():
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise UserError(f"size {name} must be an integer >= 0, got {n!r}.")
    leaves = [
        t for op in topological_ops(roots) if isinstance(op, Placeholder) for t in outputs(op)
    ]
    counter = _Counter({size_var(name): n for name, n in (sizes or {}).items()})
    for op, live in needed_ops(roots, leaves):
        counter.block(lower_op(op, live).body)
    return Work(counter.iterations, counter.multiplications, counter.elements)


class _Counter:
    """Sums over statements of how often each runs."""

    def __init__(self, sizes: Mapping[Expr, int]) -> None:
        self.sizes = sizes
        self.iterations: Count = 0
        self.multiplications: Count = 0
        self.elements: Count = 0
        self.runs: dict[tuple[Expr, ...], Count] = {}

    def count(self, context: tuple[Expr, ...]) -> Count:
        """How often a statement inside these loops and conditions runs."""
        if context not in self.runs:
            self.runs[context] = count_nest(context, self.sizes)
        return self.runs[context]

    def block(self, body: Sequence[Stmt]) -> None:
        """Count every statement; those of inner blocks under a longer context."""
        self.runs.clear()
        stack: list[tuple[Sequence[Stmt], tuple[Expr, ...]]] = [(body, ())]
        while stack:
            statements, context = stack.pop()
            for s in statements:
                stack.extend(self.statement(s, context))

    def statement(
        self, s: Stmt, context: tuple[Expr, ...]
    ) -> list[tuple[Sequence[Stmt], tuple[Expr, ...]]]:
        """Count what the statement does itself; return the blocks inside it."""
        match s:
            case For():
                self.evaluate((s.axis.lower, s.axis.upper, s.axis.step), context)
                return [(s.body, (*context, s.axis))]
            case If():
                self.evaluate((s.cond,), context)
                then = (*context, possible(s.cond))
                orelse = (*context, possible(logical_not(s.cond)))
                return [(s.then, then), (s.orelse, orelse)]
            case Assign():
                self.evaluate(s.values, context)
            case Fold():
                self.evaluate((*s.values, *s.combiner.results), context)
            case Store():
                self.evaluate((*s.indices, *s.values), context)
                self.elements = self.elements + self.count(context) * len(s.tensors)
            case Visit():
                self.iterations = self.iterations + self.count(context)
            case Check():
                pass
            case _:
                raise InternalError(f"unknown statement {type(s).__name__}")
        return []

    def evaluate(self, roots: Sequence[Expr], context: tuple[Expr, ...]) -> None:
        """Count the multiplications of expressions evaluated together, each node once."""
        order = postorder(*roots)
        costly = [e for e in order if isinstance(e, Call) and e.op in _COSTLY]
        if not costly:
            return
        need = needs(roots, order)
        memo: dict[tuple[Expr, bool], Expr] = {}
        under: dict[Expr, int] = {}
        for e in costly:
            guard = possible(need[e], memo)
            under[guard] = under.get(guard, 0) + 1
        for guard, runs in self.runs_under(context, list(under)).items():
            self.multiplications = self.multiplications + runs * under[guard]

    def runs_under(self, context: tuple[Expr, ...], guards: Sequence[Expr]) -> dict[Expr, Count]:
        """How often each guard holds inside the context; many are evaluated together."""
        if len(guards) > _FEW and all(s in self.sizes for s in sizes_of((*context, *guards))):
            together = count_alternatives(context, guards, self.sizes)
            return dict(zip(guards, together, strict=True))
        return {g: self.count(context if g is TRUE else (*context, g)) for g in guards}
