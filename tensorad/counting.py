"""`work`: how much the loops written in a tensor's operations do, counted without running them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Final

from tensorad.codegen.control.lower_control import has_control, lower_tree
from tensorad.codegen.loops.ir import (
    Assign,
    ButLast,
    Check,
    Choose,
    Fold,
    For,
    If,
    Kernel,
    LoopProgram,
    Node,
    Repeat,
    Routine,
    Settle,
    Stmt,
    Store,
    Visit,
)
from tensorad.codegen.lower import needed_units
from tensorad.codegen.plain_loops import lower_unit
from tensorad.errors import InternalError, UserError
from tensorad.ir.analysis.points import count_alternatives, depends_on_data, possible
from tensorad.ir.analysis.polynomial import Polynomial
from tensorad.ir.analysis.symbolic_points import Count, count_nest, sizes_of
from tensorad.ir.arrays.arguments import check_sizes, check_tensors
from tensorad.ir.elementary.table import is_costly
from tensorad.ir.expr import (
    COMPARISONS,
    ONE,
    TRUE,
    Axis,
    Call,
    Const,
    Expr,
    axis,
    int_const,
    logical_not,
    size_var,
    sub,
)
from tensorad.ir.reference.unroll import iteration_sizes
from tensorad.ir.tensor import Compute, Constant, Placeholder, Tensor
from tensorad.ir.visit import needs, placeholders, postorder, substitute
from tensorad.simplify.control.passes import simplified

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

    The block of a loop counts at each value of the counter, a call as its block, a branch as the
    most expensive of its blocks (for each count by itself), a test once more than the block behind
    it. How often a loop runs where only the run tells is a symbolic size, the same each time it
    runs, and has the name that texts call it by, numbered where another size has it. How often a
    function that calls itself is called is one as well, `fib_calls` of fib; what is copied into
    records does not count. A result of a loop that has to be copied to where it should be counts,
    unless that is only where the loop has no iteration.

    Args:
        sizes: values for symbolic sizes; without them the counts are polynomials.
    Raises:
        UserError: a count is no polynomial of the sizes that have no value, or these decide
            which block of a branch is the most expensive.
        CountError: the bounds of a loop depend on data.
        DefinitionError: something is no tensor, or a value no integer >= 0.
    """
    roots = check_tensors(tensors, "work")
    counter = _Counter({size_var(name): n for name, n in check_sizes(sizes).items()})
    return Work(*counter.program(roots))


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
    _, multiplications, _ = counter.program(roots)
    return Innermost(counter.guards, multiplications)


_ITERATIONS, _MULTIPLICATIONS, _ELEMENTS = range(3)
"""Places in totals."""


@dataclass(frozen=True)
class _Within:
    """Nodes to be counted.

    Attributes:
        loops: the counters of loops around them, as axes.
        images: what stands for counters and numbers of iterations.
        totals: what is added to.
    """

    nodes: Sequence[Node]
    loops: tuple[Axis, ...]
    images: Mapping[Expr, Expr]
    totals: list[Count]

    def once(self, nodes: Sequence[Node]) -> _Within:
        """Nodes that run as often."""
        return replace(self, nodes=nodes)

    def repeated(self, nodes: Sequence[Node], counter: Expr, times: Expr) -> _Within:
        """Nodes in one more loop."""
        turn = axis("turn", 0, substitute(times, self.images))
        return _Within(nodes, (*self.loops, turn), {**self.images, counter: turn}, self.totals)

    def but_last(self, n: ButLast, sizes: Mapping[Expr, int]) -> _Within:
        """Nodes in all iterations but one, where it is known that there are some."""
        turn = self.loops[-1]
        known = {s: int_const(v) for s, v in sizes.items()}
        times = substitute(turn.upper, known)
        if not isinstance(times, Const) or not times.value:
            return self.once(n.nodes)
        rest = axis("turn", ONE, times) if n.reverse else axis("turn", 0, sub(times, ONE))
        return _Within(
            n.nodes, (*self.loops[:-1], rest), {**self.images, n.counter: rest}, self.totals
        )


@dataclass(frozen=True)
class _Choice:
    """What the arms of a branch cost, when they have been counted."""

    arms: tuple[list[Count], ...]
    totals: list[Count]


class _Counter:
    """Sums over statements of how often each runs."""

    def __init__(self, sizes: Mapping[Expr, int]) -> None:
        self.sizes = sizes
        self.totals: list[Count] = [0, 0, 0]
        self.images: Mapping[Expr, Expr] = {}
        self.runs: dict[tuple[Expr, ...], Count] = {}

    def program(self, roots: Sequence[Tensor]) -> list[Count]:
        """The totals of the loops behind tensors."""
        program = _plain_program(roots)
        inside = [t for r in program.routines for t in r.definition.block.results]
        whole = _Within(program.nodes, (), iteration_sizes([*roots, *inside]), [0, 0, 0])
        stack: list[_Within | _Choice] = [whole]
        for r, calls in zip(program.routines, _call_sizes(program.routines), strict=True):
            stack.append(replace(whole, nodes=r.nodes, loops=(axis("call", 0, calls),)))
        while stack:
            entry = stack.pop()
            if isinstance(entry, _Choice):
                for n, (total, *arms) in enumerate(zip(entry.totals, *entry.arms, strict=True)):
                    entry.totals[n] = total + _most(arms)
                continue
            for node in entry.nodes:
                if isinstance(node, Kernel):
                    self.totals, self.images = entry.totals, entry.images
                    self.block(node.body, entry.loops)
                elif isinstance(node, Repeat):
                    times = _times(node)
                    stack.append(entry.repeated(node.body, node.counter, times))
                    stack.append(entry.repeated(node.test, node.counter, times + ONE))
                    stack.append(entry.once(node.start))
                elif isinstance(node, Settle) and not node.rare:
                    stack.append(entry.once(node.nodes))
                elif isinstance(node, ButLast):
                    stack.append(entry.but_last(node, self.sizes))
                elif isinstance(node, Choose):
                    costs = tuple([list[Count]([0, 0, 0]) for _ in node.arms])
                    stack.append(_Choice(costs, entry.totals))
                    for arm, totals in zip(node.arms, costs, strict=True):
                        stack.append(_Within(arm, entry.loops, entry.images, totals))
        return whole.totals

    def count(self, context: tuple[Expr, ...]) -> Count:
        """How often a statement inside these loops and conditions runs."""
        if context not in self.runs:
            self.runs[context] = count_nest(_over(context, self.images), self.sizes)
        return self.runs[context]

    def block(self, body: Sequence[Stmt], loops: tuple[Axis, ...]) -> None:
        """Count every statement; those of inner blocks under a longer context."""
        self.runs.clear()
        stack: list[tuple[Sequence[Stmt], tuple[Expr, ...]]] = [(body, loops)]
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
                self.totals[_ELEMENTS] += self.count(context) * len(s.tensors)
            case Visit():
                self.totals[_ITERATIONS] += self.count(context)
            case Check():
                pass
            case _:
                raise InternalError(f"unknown statement {type(s).__name__}")
        return []

    def evaluate(self, roots: Sequence[Expr], context: tuple[Expr, ...]) -> None:
        """Count the multiplications of expressions evaluated together."""
        self.totals[_MULTIPLICATIONS] += self.evaluations(roots, context, _is_costly)

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
        items = _over((*context, *guards), self.images)
        if len(guards) > _FEW and all(s in self.sizes for s in sizes_of(items)):
            around, conditions = items[: len(context)], items[len(context) :]
            together = count_alternatives(around, conditions, self.sizes)
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
            self.totals[_MULTIPLICATIONS] += products


def _call_sizes(routines: Sequence[Routine]) -> list[Expr]:
    """For each definition the symbolic size that is how often it is called."""
    names: dict[str, None] = {}
    for r in routines:
        own = name = f"{r.definition.name}_calls"
        others = itertools.count(1)
        while name in names:
            name = f"{own}_{next(others)}"
        names[name] = None
    return [size_var(n) for n in names]


def _plain_program(roots: Sequence[Tensor]) -> LoopProgram:
    """The loops behind tensors, as the formulas are written."""
    given = placeholders(roots)
    if not has_control(roots, dict.fromkeys(given)):
        return _plain_kernels(roots, given)
    found = simplified(roots, given)
    wanted = [t for t in found if not isinstance(t.op, (Placeholder, Constant))]
    return lower_tree(list(dict.fromkeys(wanted)), given, _plain_kernels)


def _plain_kernels(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> LoopProgram:
    units = needed_units(outputs, inputs)
    return LoopProgram(tuple(inputs), tuple(outputs), tuple([lower_unit(u) for u in units]))


def _times(node: Repeat) -> Expr:
    """How often a loop runs."""
    if isinstance(node.count, Expr):
        return node.count
    if node.count is None or not isinstance(node.count.op, Compute):
        return node.trips
    (body,) = node.count.op.bodies
    return node.trips if depends_on_data(body) else body


def _over(items: tuple[Expr, ...], images: Mapping[Expr, Expr]) -> tuple[Expr, ...]:
    """Axes and conditions with images in the place of counters and numbers of iterations."""
    if not images:
        return items
    known = dict(images)
    found: list[Expr] = []
    for i in items:
        if isinstance(i, Axis):
            bounds = [substitute(b, known) for b in (i.lower, i.upper, i.step)]
            if not all(map(is_, bounds, (i.lower, i.upper, i.step))):
                known[i] = axis(i.name, *bounds)
            found.append(known.get(i, i))
        else:
            found.append(substitute(i, known))
    return tuple(found)


def _most(counts: Sequence[Count]) -> Count:
    """The largest of the counts for all sizes >= 0.

    Raises:
        UserError: which one it is depends on the sizes.
    """
    for c in counts:
        rests = [Polynomial.constant(0) + c - d for d in counts]
        if all(v >= 0 for r in rests for v in r.terms.values()):
            return c
    names = dict.fromkeys(str(s) for c in counts if isinstance(c, Polynomial) for s in c.symbols)
    given = ", ".join([f'"{n}": 8' for n in names])
    raise UserError(
        "sizes decide which block of a branch is the most expensive.",
        where=" or ".join(map(str, counts)),
        hint=f"give their values: work(tensors, sizes={{{given}}}).",
    )


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
