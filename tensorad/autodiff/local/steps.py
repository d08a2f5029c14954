"""One step of a scan that a derivative makes: its partial derivatives and its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakSet

from tensorad.autodiff.local.linear import Guarded, any_of, differentiate, merge_guards, times
from tensorad.ir.arrays.scan_outputs import states_before
from tensorad.ir.combiner import Combiner
from tensorad.ir.expr import TRUE, Axis, Expr, Param, cast, const, param, read, summed
from tensorad.ir.tensor import Scan, dim_of
from tensorad.ir.visit import fresh_axes, postorder, substitute_all
from tensorad.simplify.zeros.lift import guarded

derived_steps: WeakSet[Combiner] = WeakSet()
"""Steps that derivatives made: their choices follow those of the steps they come from."""

Entry = tuple[Expr, Expr] | None
"""A guard and the partial derivative where it holds; None is zero everywhere."""
Matrix = list[list[Entry]]


def jacobian_entries(combiner: Combiner, operands: Sequence[Param]) -> Matrix:
    """entry[c][d] = d result_c / d operand_d."""
    inputs: dict[Expr, None] = dict.fromkeys(operands)
    rows: Matrix = []
    for result in combiner.results:
        found = differentiate(result, lambda e: e in inputs) if result.dtype.is_float else {}
        rows.append([_entry(found[p]) if p in found else None for p in operands])
    return rows


def _entry(values: Guarded) -> tuple[Expr, Expr]:
    """One guard and one value; the guard is false where all are switched off."""
    guard, value = merge_guards(values)
    return (guard if len(values) == 1 else any_of(values)), value


def as_ones(entries: Matrix) -> Matrix:
    """The same guards around 1."""
    return [[None if e is None else (e[0], const(1, e[1].dtype)) for e in row] for row in entries]


def are_guarded(entries: Matrix) -> bool:
    """Whether some partial derivative is switched off somewhere."""
    return any(e is not None and e[0] is not TRUE for row in entries for e in row)


def product_sum(pairs: Sequence[tuple[Entry, Expr | None]], like: Expr) -> Expr | None:
    """The sum of partial * value over the pairs that have both; None if there are none.

    A guard switches its product off, which then is no product with 0.
    """
    return summed(
        cast(guarded(e[0], times(cast(value, e[1].dtype), e[1])), like.dtype)
        for e, value in pairs
        if e is not None and value is not None
    )


def plus(a: Expr | None, b: Expr | None) -> Expr | None:
    """The sum of what is there."""
    return summed(e for e in (a, b) if e is not None)


class StepBuilder:
    """A scan under construction: state components with their start, and elements."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: list[Param] = []
        self.start: list[Expr] = []
        self.results: list[Expr] = []
        self.elements: dict[Param, Expr] = {}

    def carry(self, name: str, start: Expr) -> tuple[Param, int]:
        """A new state component and its number; `results` needs an entry for each."""
        self.state.append(param(name, start.dtype))
        self.start.append(start)
        self.results.append(self.state[-1])
        return self.state[-1], len(self.state) - 1

    def element(self, name: str, value: Expr) -> Param:
        """A right operand of the step."""
        made = param(name, value.dtype)
        self.elements[made] = value
        return made

    def use(self, sources: Mapping[Param, Expr]) -> None:
        """Make elements of the operands that the results mention."""
        used = postorder(*self.results)
        for e in used:
            if isinstance(e, Param) and e in sources:
                self.elements[e] = sources[e]

    def combiner(self) -> Combiner:
        """The step."""
        identity = tuple([const(0, p.dtype) for p in self.state])
        made = Combiner(
            self.name, tuple(self.state), tuple(self.elements), tuple(self.results), identity
        )
        derived_steps.add(made)
        return made

    def scan(self, like: Scan, lead: tuple[Axis, ...], name: str, reverse: bool) -> Scan:
        """The scan along the steps of `like`, over axes of its own (after those in `lead`)."""
        rows = fresh_axes((*lead, *like.axes))
        around = () if like.cell is None else lead
        steps = fresh_axes((*around, *like.along), rows if like.cell is None else None)
        step_parts = (*self.elements.values(), *lead, *like.indices, like.condition)
        parts = substitute_all((*step_parts, *(like.cell or ())), steps)
        n, k = len(self.elements), len(lead) + len(like.indices)
        return Scan(
            name,
            _axes(list(rows.values())),
            _axes([steps[a] for a in (*around, *like.along)]),
            parts[:n],
            self.combiner(),
            substitute_all(tuple(self.start), rows),
            (*[dim_of(a.upper) for a in lead], *like.shape),
            parts[n : n + k],
            parts[n + k],
            False,
            reverse,
            like.source,
            None if like.cell is None else (*parts[n : n + len(lead)], *parts[n + k + 1 :]),
            like.target,
        )


def _axes(found: Sequence[Expr]) -> tuple[Axis, ...]:
    return tuple([a for a in found if isinstance(a, Axis)])


def found_states(op: Scan) -> dict[Param, Expr]:
    """The combiner's operands at a step, as reads of the states it finds and its elements."""
    states = states_before(op)
    found: dict[Param, Expr] = {
        p: read(t, op.indices) for p, t in zip(op.combiner.lhs, states, strict=True)
    }
    found.update(zip(op.combiner.rhs, op.sources, strict=True))
    return found
