"""Reads stay inside their tensors: proved by intervals, then by integer sets.

A read is judged where it is evaluated: inside its loops, under the selects and reduction
conditions around it. Parts that are not quasi-affine (data, products of sizes) become unknowns
within their intervals, one for each distinct expression, so guards on them still count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal
from weakref import WeakKeyDictionary

from tensorad import config
from tensorad.errors import BoundsError
from tensorad.ir.analysis.alike import Form, form_of
from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.arrays.scan_outputs import last_states
from tensorad.ir.expr import TRUE, Axis, Const, Expr, LocalSize, Read, Size, read
from tensorad.ir.order import SIZE, occurs, sizes_in
from tensorad.ir.source import source_line
from tensorad.ir.tensor import Compute, Op, Scan, Scatter, dim_expr, outputs
from tensorad.ir.text.printer import ExprWriter
from tensorad.ir.visit import free_leaves, loop_bounds, op_expressions, postorder, reads
from tensorad.process import memo
from tensorad.simplify.bounds.in_range import Point, Query, RangeVerdict
from tensorad.simplify.bounds.pointwise import value_at
from tensorad.simplify.bounds.polynomials import stays_below
from tensorad.simplify.bounds.read_sites import ReadSite, read_sites
from tensorad.simplify.index.intervals import Interval, interval

__all__ = [
    "Interval",
    "check_op",
    "check_reads",
    "classify_reads",
    "dynamic_dimensions",
    "interval",
    "is_safe",
    "size_conditions",
    "size_violation",
    "unproved_reads",
]

ReadClass = Literal["always", "guarded", "dynamic"]
Suspects = dict[Read, list[int]]
_RANK: Final[dict[ReadClass, int]] = {"always": 0, "guarded": 1, "dynamic": 2}
_classes: WeakKeyDictionary[Op, dict[Read, ReadClass]] = memo(WeakKeyDictionary())
_form_classes: WeakKeyDictionary[Form, dict[object, tuple[ReadClass, ...]]] = memo(
    WeakKeyDictionary()
)
"""By form, facts about sizes and what isl may do, the classes of the reads in their order."""
_size_reads: WeakKeyDictionary[Op, list[tuple[ReadSite, int, RangeVerdict]]] = memo(
    WeakKeyDictionary()
)


def check_reads(name: str, axes: Sequence[Axis], bodies: Sequence[Expr]) -> None:
    """Every read of a compute that is about to be defined lies inside its tensor.

    Data-dependent reads are left to the run-time check, those that depend on sizes to
    `size_conditions`.

    Raises:
        BoundsError: a read is evaluated outside its tensor, with a witness.
    """
    suspects = _suspects(reads(*bodies))
    if suspects:
        _check(name, source_line(), _suspected(read_sites(axes, bodies), suspects))


def unproved_reads(axes: Sequence[Axis], bodies: Sequence[Expr]) -> dict[Read, None]:
    """The reads of formulas over `axes` that some data or sizes may put outside their tensors."""
    suspects = _suspects(reads(*bodies))
    sites = read_sites(axes, bodies) if suspects else ()
    return {
        site.read: None
        for site, dimension in _suspected(sites, suspects)
        if _query(site, dimension).verdict().kind != "in"
    }


def check_op(op: Op) -> None:
    """`check_reads` for the reads and writes of an operation."""
    _check(op.name, _source(op), _suspected_sites(op))


def _source(op: Op) -> str:
    return op.source if isinstance(op, (Compute, Scatter, Scan)) else ""


def _check(name: str, source: str, suspected: Iterable[tuple[ReadSite, int]]) -> None:
    for site, dimension in suspected:
        query = _query(site, dimension)
        if query.verdict().kind == "out":
            raise _error(site, dimension, query.witness(), name, source)


def classify_reads(op: Op) -> dict[Read, ReadClass]:
    """How each read (and write of a scatter) of an operation is known to be in range.

    "always": at every point of the loops around it, whatever the guards; "guarded": wherever
    it is evaluated (given `size_conditions`); "dynamic": only a run-time check can tell, also
    where counters of loops around the operation decide.
    """
    known = _classes.get(op)
    if known is not None:
        return known
    accesses = _accesses(op)
    if isinstance(op, Compute):
        classes = _alike_classes(op, accesses)
        found = _classes[op] = dict(zip(accesses, classes, strict=True))
        return found
    return _classified(op, accesses)  # its writes hold the operation, which would never die


def _alike_classes(op: Compute, accesses: Sequence[Read]) -> tuple[ReadClass, ...]:
    """The classes of the reads of a compute, which all of its form have while as much is known
    about sizes."""
    form, _ = form_of(op)
    shapes = [dim_expr(n) for r in accesses for n in r.tensor.shape]
    bounds = [b for a in op.axes for b in (a.lower, a.upper, a.step)]
    facts = facts_about(sizes_in(*bounds, *shapes, *op.bodies))
    key = facts, config.current().isl_operations
    known = _form_classes.setdefault(form, {})
    if key not in known:
        known[key] = tuple(_classified(op, accesses).values())
    return known[key]


def _classified(op: Op, accesses: Sequence[Read]) -> dict[Read, ReadClass]:
    found: dict[Read, ReadClass] = dict.fromkeys(accesses, "always")
    for site, dimension in _suspected_sites(op):
        here = _class_of(site, dimension)
        found[site.read] = max(found[site.read], here, key=_RANK.__getitem__)
    return found


def is_safe(op: Op) -> bool:
    """Whether no read leaves its tensor, whatever the sizes and the data: it may be computed
    everywhere. Blocks are not looked into."""
    return "dynamic" not in classify_reads(op).values() and not size_conditions(op)


def dynamic_dimensions(op: Op, sizes: bool = False) -> dict[Read, tuple[int, ...]]:
    """The dimensions of "dynamic" reads and writes that a call has to check.

    Args:
        sizes: those that rest on `size_conditions`, too: of an operation that may not run.
    """
    if not sizes and "dynamic" not in classify_reads(op).values():
        return {}
    found: dict[Read, dict[int, None]] = {}
    for site, dimension in _suspected_sites(op):
        on_sizes = sizes and _query(site, dimension).verdict().kind == "sizes"
        if on_sizes or _class_of(site, dimension) == "dynamic":
            found.setdefault(site.read, {})[dimension] = None
    return {r: tuple(sorted(dimensions)) for r, dimensions in found.items()}


def _class_of(site: ReadSite, dimension: int) -> ReadClass:
    verdict = _query(site, dimension).verdict()
    if verdict.kind in ("out", "data") or _is_of_loops(verdict):
        return "dynamic"
    if site.guard is TRUE or _holds_unguarded(site, dimension, verdict.kind):
        return "always"
    return "guarded"


def _is_of_loops(verdict: RangeVerdict) -> bool:
    """Whether counters of loops decide, which a call cannot check before it runs."""
    return any(isinstance(s, LocalSize) for s in sizes_in(verdict.requirement))


def _holds_unguarded(site: ReadSite, dimension: int, kind: str) -> bool:
    free = ReadSite(site.read, site.axes, TRUE)
    return kind == "in" and _query(free, dimension).verdict().kind == "in"


def size_conditions(op: Op) -> tuple[Expr, ...]:
    """What the sizes of a call must satisfy for the reads of `op` to be in range."""
    return tuple(dict.fromkeys(verdict.requirement for _, _, verdict in _size_sites(op)))


def size_violation(op: Op, sizes: Mapping[Expr, int]) -> BoundsError | None:
    """The read of `op` that leaves its tensor at these sizes, as an error with a witness."""
    for site, dimension, verdict in _size_sites(op):
        if value_at(verdict.requirement, sizes):
            continue
        query = _query(site, dimension)
        point = query.witness({s: v for s, v in sizes.items() if isinstance(s, Size)})
        if point is not None:
            return _error(site, dimension, point, op.name, _source(op))
    return None


def _size_sites(op: Op) -> list[tuple[ReadSite, int, RangeVerdict]]:
    """The reads that are in range for some sizes only."""
    known = _size_reads.get(op)
    if known is not None:
        return known
    found: list[tuple[ReadSite, int, RangeVerdict]] = []
    for site, dimension in _suspected_sites(op) if _has_sizes(op) else ():
        verdict = _query(site, dimension).verdict()
        if verdict.kind == "sizes" and not _is_of_loops(verdict):
            found.append((site, dimension, verdict))
    if not isinstance(op, (Scatter, Scan)):  # as in classify_reads
        _size_reads[op] = found
    return found


def _has_sizes(op: Op) -> bool:
    """Whether a symbolic size is in its loops, its formulas, or a shape that they index."""
    own = (*op.axes, *op.scope) if isinstance(op, Scan) else ()
    axes = op.axes if isinstance(op, (Compute, Scatter)) else own
    bounds = [e for a in axes for e in (a.lower, a.upper, a.step)]
    accesses = _accesses(op)
    shapes = [dim_expr(n) for r in accesses for n in r.tensor.shape]
    return occurs(SIZE, *bounds, *shapes, *accesses, *op_expressions(op))


def _accesses(op: Op) -> list[Read]:
    found = reads(*op_expressions(op), *loop_bounds(op))
    if isinstance(op, Scatter):
        found += [_write(op, u.indices) for u in op.updates]
    if isinstance(op, Scan):
        found += _cells(op)
    return found


def _cells(op: Scan) -> list[Read]:
    """The state that a step finds by computed indices."""
    return [] if op.cell is None else [read(last_states(op)[0], op.cell)]


def _write(op: Scatter, indices: tuple[Expr, ...]) -> Read:
    return read(outputs(op)[0], indices)


def _sites(op: Op) -> Iterable[ReadSite]:
    if isinstance(op, Compute):
        yield from read_sites(op.axes, op.bodies)
    elif isinstance(op, Scan):
        yield from read_sites(op.axes, op.start)
        yield from read_sites(op.scope, (op.condition,))
        yield from read_sites(op.scope, (*op.sources, *_cells(op)), op.condition)
    elif isinstance(op, Scatter):
        for u in op.updates:
            yield from read_sites(op.axes, (u.condition,))
            roots = (u.value, _write(op, u.indices))
            yield from read_sites(op.axes, roots, u.condition)


def _suspected_sites(op: Op) -> Iterable[tuple[ReadSite, int]]:
    """Where an operation reads or writes, with each dimension that may be out of range."""
    suspects = _suspects(_accesses(op))
    return _suspected(_sites(op), suspects) if suspects else ()


def _suspected(sites: Iterable[ReadSite], suspects: Suspects) -> Iterable[tuple[ReadSite, int]]:
    return ((site, d) for site in sites for d in suspects.get(site.read, ()))


def _suspects(found: Iterable[Read]) -> Suspects:
    """Reads with the dimensions that neither shapes nor intervals show to be in range."""
    result: Suspects = {}
    for r in found:
        dimensions = [d for d in range(len(r.indices)) if not _plainly_inside(r, d)]
        if dimensions:
            result[r] = dimensions
    return result


def _plainly_inside(r: Read, dimension: int) -> bool:
    index, n = r.indices[dimension], r.tensor.shape[dimension]
    if type(index) is Axis and isinstance(index.lower, Const) and index.lower.value >= 0:
        upper = index.upper
        if upper is n or (isinstance(n, int) and isinstance(upper, Const) and upper.value <= n):
            return True
    if isinstance(n, int) and interval(index).within(Interval(0, n - 1)):
        return True
    return stays_below(index, dim_expr(n))


def _query(site: ReadSite, dimension: int) -> Query:
    r = site.read
    return Query(site.axes, site.guard, r.indices[dimension], dim_expr(r.tensor.shape[dimension]))


def _error(
    site: ReadSite, dimension: int, point: Point | None, name: str, source: str
) -> BoundsError:
    r, at = site.read, point or {}
    writer = ExprWriter()
    _, (text,) = writer.write((r,))
    index = r.indices[dimension]
    used = free_leaves(index, *(b for a in site.axes for b in (a.lower, a.upper)))
    where = ", ".join(
        f"{writer.text(leaf)} = {v}"
        for leaf, v in at.items()
        if leaf in used or isinstance(leaf, Size)
    )
    advice = "guard the read with select(...) or change the axis."
    access = "writes" if isinstance(r.tensor.op, Scatter) and r.tensor.op.name == name else "reads"
    place = f"index {value_at(index, at)} of" if _is_known(index, at) else "outside of"
    return BoundsError(
        f"{text} {access} {place} axis {dimension}, {_extent_text(r, dimension, at)}.",
        where=f"{name}" + (f", defined at {source}" if source else ""),
        hint=f"at {where}; {advice}" if where else advice,
    )


def _extent_text(r: Read, dimension: int, at: Point) -> str:
    n = r.tensor.shape[dimension]
    if isinstance(n, int) or not _is_known(n, at):
        return f"whose extent is {n}"
    return f"whose extent {n} is {value_at(n, at)}"


def _is_known(e: Expr, at: Point) -> bool:
    return all(leaf in at for leaf in postorder(e) if isinstance(leaf, (Axis, Size)))
