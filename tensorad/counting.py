"""`work`: how much the loops written in a tensor's operations do, counted without running them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tensorad.codegen.loops.ir import Assign, Check, Fold, For, If, Stmt, Store, Visit
from tensorad.codegen.lower import needed_units
from tensorad.codegen.plain_loops import lower_unit
from tensorad.errors import CountError, InternalError
from tensorad.ir.analysis.points import count_alternatives, depends_on_data, possible
from tensorad.ir.analysis.symbolic_points import Count, count_nest, sizes_of
from tensorad.ir.arrays.arguments import check_sizes, check_tensors
from tensorad.ir.elementary.table import is_costly
from tensorad.ir.expr import (
    COMPARISONS,
    TRUE,
    Call,
    Expr,
    logical_not,
    size_var,
)
from tensorad.ir.tensor import Control, Tensor
from tensorad.ir.visit import needs, placeholders, postorder, topological_ops

_INDEX_PRODUCTS: Final = frozenset(("mul", "floordiv", "mod"))
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
        UserError: a count is no polynomial of the sizes that have no value.
        CountError: the bounds of a loop depend on data, or an operation runs blocks of others.
        DefinitionError: something is no tensor, or a value no integer >= 0.
    """
    roots = check_tensors(tensors, "work")
    for op in topological_ops(roots):
        if isinstance(op, Control):
            raise CountError(
                f"the work of {op.name} is not counted: it runs blocks of operations.",
                where=f"{', '.join(op.names)}, made at {op.source}",
                hint="count tensors that no call, branch or loop of a program is behind.",
            )
    counter = _Counter({size_var(name): n for name, n in check_sizes(sizes).items()})
    for unit in needed_units(roots, placeholders(roots)):
        counter.block(lower_unit(unit).body)
    return Work(counter.iterations, counter.multiplications, counter.elements)


@dataclass(frozen=True)
class Innermost:
    """What innermost loops evaluate besides the sums and products of elements.

    Attributes:
        guards: conditions on indices, in statements and in selects.
        index_multiplications: `* // %` of index expressions.
    """

    guards: Count
    index_multiplications: Count


def innermost(
    tensors: Tensor | Iterable[Tensor], sizes: Mapping[str, int] | None = None
) -> Innermost:
    """How often innermost loops evaluate conditions and products of indices, as written."""
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    counter = _InnermostCounter({size_var(name): n for name, n in (sizes or {}).items()})
    for unit in needed_units(roots, placeholders(roots)):
        counter.block(lower_unit(unit).body)
    return Innermost(counter.guards, counter.multiplications)


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
        """Count the multiplications of expressions evaluated together."""
        found = self.evaluations(roots, context, _is_costly)
        self.multiplications = self.multiplications + found

    def evaluations(
        self, roots: Sequence[Expr], context: tuple[Expr, ...], matches: Callable[[Expr], bool]
    ) -> Count:
        """How often nodes of a kind are evaluated; each once for all the expressions."""
        order = postorder(*roots)
        total: Count = 0
        chosen = [e for e in order if matches(e)]
        if not chosen:
            return total
        need = needs(roots, order)
        memo: dict[tuple[Expr, bool], Expr] = {}
        under: dict[Expr, int] = {}
        for e in chosen:
            guard = possible(need[e], memo)
            under[guard] = under.get(guard, 0) + 1
        for guard, runs in self.runs_under(context, list(under)).items():
            total = total + runs * under[guard]
        return total

    def runs_under(self, context: tuple[Expr, ...], guards: Sequence[Expr]) -> dict[Expr, Count]:
        """How often each guard holds inside the context; many are evaluated together."""
        if len(guards) > _FEW and all(s in self.sizes for s in sizes_of((*context, *guards))):
            together = count_alternatives(context, guards, self.sizes)
            return dict(zip(guards, together, strict=True))
        return {g: self.count(context if g is TRUE else (*context, g)) for g in guards}


class _InnermostCounter(_Counter):
    """Guards and products of indices, in loops that hold no other loop."""

    def __init__(self, sizes: Mapping[Expr, int]) -> None:
        super().__init__(sizes)
        self.guards: Count = 0
        self.inside: dict[Stmt, None] = {}
        self.counting = False

    def statement(
        self, s: Stmt, context: tuple[Expr, ...]
    ) -> list[tuple[Sequence[Stmt], tuple[Expr, ...]]]:
        """As for all loops; what an innermost one holds is marked, and only that is counted."""
        self.counting = s in self.inside
        blocks = super().statement(s, context)
        if self.counting or (isinstance(s, For) and not _has_loop(s.body)):
            self.inside.update(dict.fromkeys([t for block, _ in blocks for t in block]))
        return blocks

    def evaluate(self, roots: Sequence[Expr], context: tuple[Expr, ...]) -> None:
        """Count those of a marked statement."""
        if self.counting:
            self.guards = self.guards + self.evaluations(roots, context, _is_guard)
            products = self.evaluations(roots, context, _is_index_product)
            self.multiplications = self.multiplications + products


def _has_loop(body: Sequence[Stmt]) -> bool:
    """Whether a loop stands in the block or in an inner block."""
    stack = list(body)
    while stack:
        s = stack.pop()
        if isinstance(s, For):
            return True
        if isinstance(s, If):
            stack.extend((*s.then, *s.orelse))
    return False


def _is_costly(e: Expr) -> bool:
    return isinstance(e, Call) and is_costly(e.op)


def _is_index_product(e: Expr) -> bool:
    return isinstance(e, Call) and e.op in _INDEX_PRODUCTS and e.dtype.is_integer


def _is_guard(e: Expr) -> bool:
    """A comparison of index arithmetic."""
    return isinstance(e, Call) and e.op in COMPARISONS and not depends_on_data(e)
