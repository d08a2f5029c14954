"""Derivatives of scans: another scan, of tangents beside the states, or of adjoints backwards.

Both read the states that the scan's own steps find, and both are scans again, so every order of
derivative has the cost of a few passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tensorad.autodiff.local.steps import (
    Entry,
    Matrix,
    StepBuilder,
    as_ones,
    found_states,
    jacobian_entries,
    plus,
    product_sum,
)
from tensorad.ir.arrays.scan_outputs import last_states, states_after, states_before
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    Axis,
    Const,
    Expr,
    cast,
    const,
    logical_and,
)
from tensorad.ir.tensor import Scan, Tensor, outputs
from tensorad.ir.visit import postorder, substitute_all

Head = Callable[[Sequence[Expr]], Expr]
"""What an output's adjoint is at the indices of one element."""


@dataclass(frozen=True, eq=False)
class Heads:
    """Adjoints of a scan's outputs, by component (None is zero)."""

    after: Sequence[Head | None]
    before: Sequence[Head | None]
    last: Sequence[Head | None]

    @classmethod
    def of(cls, op: Scan, given: Mapping[Tensor, Head], size: int) -> Heads:
        """Those of `op`'s outputs, for a scan of `size` components that begin with its own."""
        parts = (states_after(op), states_before(op), last_states(op))
        none = [None] * (size - op.combiner.arity)
        return cls(*[[*[given.get(t) for t in part], *none] for part in parts])


@dataclass(frozen=True, eq=False)
class StepAdjoints:
    """What a reverse sweep of a scan finds, per seed: adjoints of elements and of the starts.

    elements[r][d] is stored where the scan's steps keep states, behind the leading axes.
    """

    elements: list[dict[int, Tensor]]
    starts: list[dict[int, Tensor]]


def reverse_sweep(
    op: Scan,
    seeds: Sequence[Heads],
    wanted: Sequence[int],
    lead: tuple[Axis, ...] = (),
    name: str = "",
    counting: bool = False,
) -> StepAdjoints:
    """The adjoints of the elements `wanted`, for every seed at once, by one scan backwards.

    Or the same of steps whose partials are all 1, where their selects let something through.

    With B the adjoint that later steps send to the state a step leaves, and H the heads of
    what this step keeps, M = B + H(after) goes back through the step: D2' M to its elements,
    D1' M + H(before) to the state it found.
    """
    combiner = op.combiner
    by_state = jacobian_entries(combiner, combiner.lhs)
    by_element = jacobian_entries(combiner, combiner.rhs)
    if counting:
        by_state, by_element = as_ones(by_state), as_ones(by_element)
    builder = StepBuilder(f"adjoint of {combiner.name}")
    columns: list[tuple[dict[int, int], dict[int, int]]] = []
    for r, heads in enumerate(seeds):
        suffix = "" if len(seeds) == 1 else f"_{r}"
        columns.append(_sweep_seed(builder, op, heads, wanted, by_state, by_element, suffix))
    builder.use(found_states(op))
    made = builder.scan(op, lead, name or f"d{op.name}.steps", not op.reverse)
    kept, last = outputs(made), last_states(made)
    return StepAdjoints(
        [{d: kept[n] for d, n in elements.items()} for _, elements in columns],
        [{c: last[n] for c, n in states.items()} for states, _ in columns],
    )


def _sweep_seed(
    builder: StepBuilder,
    op: Scan,
    heads: Heads,
    wanted: Sequence[int],
    by_state: Matrix,
    by_element: Matrix,
    suffix: str,
) -> tuple[dict[int, int], dict[int, int]]:
    """Add one seed's part; (component -> its state's number, element -> its number)."""
    state = op.combiner.lhs
    carried = _carried(by_state, heads)
    arrived: list[Expr | None] = [None] * len(state)
    numbers: dict[int, int] = {}
    for c in carried:
        head = heads.last[c]
        start = const(0, state[c].dtype) if head is None else head(op.axes)
        arrived[c], numbers[c] = builder.carry(f"b{c}{suffix}", cast(start, state[c].dtype))

    def head_element(kind: str, c: int, head: Head | None) -> Expr | None:
        if head is None:
            return None
        value = cast(head(op.indices), state[c].dtype)
        return value if isinstance(value, Const) else builder.element(f"{kind}{c}{suffix}", value)

    through = [plus(b, head_element("h", c, heads.after[c])) for c, b in enumerate(arrived)]
    places: dict[int, int] = {}
    for d in wanted:
        operand = op.combiner.rhs[d]
        found = product_sum([(by_element[c][d], through[c]) for c in range(len(state))], operand)
        if found is not None:
            _, places[d] = builder.carry(f"s{d}{suffix}", const(0, operand.dtype))
            builder.results[places[d]] = found
    for c in carried:
        back = product_sum([(by_state[b][c], through[b]) for b in range(len(state))], state[c])
        back = plus(back, head_element("g", c, heads.before[c]))
        builder.results[numbers[c]] = const(0, state[c].dtype) if back is None else back
    return numbers, places


def _carried(by_state: Matrix, heads: Heads) -> list[int]:
    """Components whose adjoint passes from a step to the one before it."""
    size = len(by_state)
    found: dict[int, None] = {}
    sources = [c for c in range(size) if any(h[c] is not None for h in (heads.after, heads.last))]
    for c in range(size):
        if heads.before[c] is not None or heads.last[c] is not None:
            found[c] = None
            sources.append(c)
    done: dict[int, None] = {}
    while sources:
        b = sources.pop()
        if b in done:
            continue
        done[b] = None
        for c in range(size):
            if by_state[b][c] is not None:
                found[c] = None
                sources.append(c)
    return sorted(found)


def tangent_scan(
    op: Scan,
    starts: Sequence[Expr | None],
    elements: Sequence[Expr | None],
    lead: tuple[Axis, ...] = (),
) -> dict[Tensor, Tensor]:
    """The tangents of a scan's outputs, from those of its starts and elements (None is zero).

    These may use the axes of `lead`, which then lead the tangents.
    The state carries the components of the scan that a step's partials mention.
    """
    combiner = op.combiner
    by_state = jacobian_entries(combiner, combiner.lhs)
    by_element = jacobian_entries(combiner, combiner.rhs)
    live = _reached(by_state, by_element, starts, elements)
    builder = StepBuilder(f"tangent of {combiner.name}")
    tangents: dict[int, Expr] = {}
    numbers: dict[int, int] = {}
    for c in live:
        p, given = combiner.lhs[c], starts[c]
        start = const(0, p.dtype) if given is None else cast(given, p.dtype)
        tangents[c], numbers[c] = builder.carry(f"d{p.name}", start)
    begun: Expr | None = None
    if any(starts[c] is None and _varies(by_state, c) for c in live):
        flag, n = builder.carry("begun", const(0, INT64))
        builder.results[n] = const(1, INT64)
        begun = flag > 0
    moved = [None if t is None else builder.element(f"t{d}", t) for d, t in enumerate(elements)]
    for c in live:
        pairs: list[tuple[Entry, Expr | None]] = [
            (_since(begun if starts[b] is None else None, by_state[c][b]), tangents[b])
            for b in live
        ]
        pairs += zip(by_element[c], moved, strict=True)
        total = product_sum(pairs, combiner.lhs[c])
        builder.results[numbers[c]] = const(0, combiner.lhs[c].dtype) if total is None else total
    _carry_values(builder, op)
    builder.use(dict(zip(combiner.rhs, op.sources, strict=True)))
    made = builder.scan(op, lead, f"d{op.name}", op.reverse)
    found: dict[Tensor, Tensor] = {}
    for states in (states_after, states_before, last_states):
        found.update({states(op)[c]: states(made)[numbers[c]] for c in live})
    return found


def _carry_values(builder: StepBuilder, op: Scan) -> None:
    """Carry the scan's own components that the results mention, directly or through others."""
    combiner = op.combiner
    number: dict[Expr, int] = {p: n for n, p in enumerate(combiner.lhs)}
    found: dict[Expr, Expr] = {}
    places: dict[Expr, int] = {}
    todo = [e for e in postorder(*builder.results) if e in number]
    while todo:
        p = todo.pop()
        if p not in found:
            n = number[p]
            found[p], places[p] = builder.carry(combiner.lhs[n].name, op.start[n])
            builder.results[places[p]] = combiner.results[n]
            todo += [e for e in postorder(combiner.results[n]) if e in number]
    builder.results[:] = substitute_all(builder.results, found)


def _varies(by_state: Matrix, c: int) -> bool:
    """Whether a partial by state component c may be infinite."""
    entries = [row[c] for row in by_state]
    return any(e is not None and not isinstance(e[1], Const) for e in entries)


def _since(begun: Expr | None, entry: Entry) -> Entry:
    """The entry, from the second step on: the start does not move, whatever its partial."""
    if entry is None or begun is None or isinstance(entry[1], Const):
        return entry
    return logical_and(begun, entry[0]), entry[1]


def _reached(
    by_state: Matrix,
    by_element: Matrix,
    starts: Sequence[Expr | None],
    elements: Sequence[Expr | None],
) -> list[int]:
    """Components whose tangent is not zero everywhere."""
    size = len(by_state)
    moving = [d for d, t in enumerate(elements) if t is not None]
    found = {
        c: None
        for c in range(size)
        if starts[c] is not None or any(by_element[c][d] is not None for d in moving)
    }
    growing = True
    while growing:
        more = [
            c
            for c in range(size)
            if c not in found and any(by_state[c][b] is not None for b in found)
        ]
        found.update(dict.fromkeys(more))
        growing = bool(more)
    return sorted(found)
