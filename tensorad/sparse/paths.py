"""Paths from an input to an output: every entry of the Jacobian is a sum over some of them.

The linear terms of each operation (one per read) are composed along the program: a path says
d out[rows] / d x[columns] += coefficient, at all points of its axes where its condition holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorad.autodiff.local.linear import InMode, Term, body_terms, times
from tensorad.autodiff.local.views import (
    compute_terms,
    derivation_order,
    differentiable_inputs,
    view,
)
from tensorad.errors import InternalError, TensoradError
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    add,
    cast,
    const,
    logical_and,
    read,
)
from tensorad.ir.tensor import Compute, Control, Op, Saved, Scan, Scatter, Tensor, outputs
from tensorad.ir.visit import (
    copy_bodies,
    fresh_axes,
    postorder,
    reads,
    substitute,
    substitute_all,
    with_fresh_reductions,
)
from tensorad.simplify.index.quasi_affine import is_affine, starts_at_zero
from tensorad.simplify.zeros.lift import guarded, is_index_condition, split_condition
from tensorad.sparse.steps import steps_of

MOST_PATHS = 400
"""Paths of one tensor; beyond that columns are compressed instead."""
STORED_NODES = 60
"""A coefficient of an intermediate tensor with more nodes is computed once and read."""


class Irregular(TensoradError):
    """The pattern is no union of few integer sets; the text says why."""


@dataclass(frozen=True, eq=False)
class Path:
    """d out[rows] / d x[columns] += coefficient for all points of `axes` where `condition`.

    `condition` and `columns` are affine in rows and axes; conditions on data are selects in
    the coefficient.
    """

    x: Tensor
    rows: tuple[Axis, ...]
    axes: tuple[Axis, ...]
    condition: Expr
    columns: tuple[Expr, ...]
    coefficient: Expr


def paths_to(y: Tensor, wrt: Sequence[Tensor]) -> list[Path]:
    """All paths from the tensors of `wrt` to y.

    Raises:
        Irregular: an index or a condition is not affine, or the paths are too many.
    """
    return _Paths(y, wrt).of(y)


class _Paths:
    """The paths of every tensor between `wrt` and y, producers first."""

    def __init__(self, y: Tensor, wrt: Sequence[Tensor]) -> None:
        self.found = found = {x: [_whole(x)] for x in wrt}
        self.wanted = InMode(lambda e: e.tensor in found, "reverse")
        for op in derivation_order(y):
            made = outputs(op)
            viewed = view(op)
            if any(t in self.found for t in differentiable_inputs(viewed)):
                for n, t in enumerate(made):
                    if t.dtype.is_float and t not in self.found:
                        self.add(t, self.through(viewed, n, t), last=t is y)

    def of(self, t: Tensor) -> list[Path]:
        """The paths to a tensor."""
        return self.found.get(t, [])

    def add(self, t: Tensor, paths: list[Path], last: bool) -> None:
        """Remember the paths of a tensor, those over the same points as one."""
        if not paths:
            return
        merged = _merge(paths)
        if len(merged) > MOST_PATHS:
            raise Irregular(f"{t.name} is reached by more than {MOST_PATHS} paths")
        for p in merged:
            _check_affine(p, t)
        self.found[t] = merged if last else [_with_stored_coefficient(p, t) for p in merged]

    def through(self, op: Op, component: int, made: Tensor) -> list[Path]:
        """The paths through one operation."""
        if isinstance(op, Compute):
            terms = compute_terms(op, component, self.wanted)
            return [p for t in terms for p in self.extend(op.axes, op.axes, t)]
        if isinstance(op, Scatter):
            return self.scattered(op)
        if isinstance(op, Scan):
            return self.scanned(op, made)
        if isinstance(op, (Control, Saved)):
            raise Irregular(f"{made.name} comes out of blocks")
        raise InternalError(f"{made.name} ({type(op).__name__}) has no paths")

    def scattered(self, op: Scatter) -> list[Path]:
        """out[f(p)] += v(p): the points p with f(p) = row."""
        if not op.combiner.is_sum:
            raise Irregular(f"{op.name} combines with {op.combiner.name}")
        rows = compute_axes(op.shape)
        found: list[Path] = []
        for u in op.updates:
            if reads(*u.indices):
                raise Irregular(f"the indices of {op.name} come from data")
            here = logical_and(*[r == i for r, i in zip(rows, u.indices, strict=True)])
            for t in body_terms(0, u.value, self.wanted):
                condition = logical_and(u.condition, here)
                found += self.extend(rows, (*rows, *op.axes), replace(t, condition=condition))
        if op.init is not None and op.init in self.found:
            one = Term(0, const(1, op.dtype), read(op.init, rows))
            found += self.extend(rows, rows, one)
        return found

    def scanned(self, op: Scan, made: Tensor) -> list[Path]:
        """A prefix sum: at each kept step, the elements of the steps before it."""
        if not op.combiner.is_sum:
            raise Irregular(f"{made.name} is a prefix fold")
        rows, steps = compute_axes(made.shape), steps_of(op, made)
        here = logical_and(*[r == i for r, i in zip(rows, steps.places, strict=True)])
        found: list[Path] = []
        for t in body_terms(0, op.sources[0], self.wanted):
            term = replace(t, condition=logical_and(here, steps.before))
            found += self.extend(rows, (*rows, *steps.axes, *op.along), term)
        for t in body_terms(0, op.start[0], self.wanted):
            found += self.extend(rows, (*rows, *steps.axes), replace(t, condition=here))
        return found

    def extend(self, rows: tuple[Axis, ...], leaves: Sequence[Axis], term: Term) -> list[Path]:
        """The paths of the tensor that a term reads, continued to the rows."""
        own = (*leaves[len(rows) :], *term.axes)
        index, data = split_condition(logical_and(term.condition, term.guard))
        found = []
        for p in self.found[term.read.tensor]:
            outer: dict[Expr, Expr] = dict(zip(p.rows, term.read.indices, strict=True))
            mapping = fresh_axes(p.axes, outer)
            inner = tuple([a for a in (mapping[b] for b in p.axes) if isinstance(a, Axis)])
            condition, *columns = substitute_all((p.condition, *p.columns), mapping)
            rest = substitute(with_fresh_reductions(p.coefficient), mapping)
            factor = cast(rest, term.coefficient.dtype)
            value = guarded(logical_and(*data), times(term.coefficient, factor))
            condition = logical_and(index, condition)
            found.append(Path(p.x, rows, (*own, *inner), condition, tuple(columns), value))
        return found


def _whole(x: Tensor) -> Path:
    """x itself: the identity."""
    axes = compute_axes(x.shape)
    return Path(x, axes, (), TRUE, axes, const(1, x.dtype))


def _merge(paths: Sequence[Path]) -> list[Path]:
    """One path for those that differ in their coefficients only."""
    groups: dict[tuple[object, ...], Path] = {}
    for p in paths:
        key = (p.x, p.axes, p.condition, p.columns)
        known = groups.get(key)
        if known is None:
            groups[key] = p
        else:
            total = add(known.coefficient, cast(p.coefficient, known.coefficient.dtype))
            groups[key] = replace(known, coefficient=total)
    return list(groups.values())


def _check_affine(p: Path, t: Tensor) -> None:
    leaves = (*p.rows, *p.axes)
    bounds = [b for a in p.axes for b in (a.lower, a.upper, a.step)]
    for e in (p.condition, *p.columns, *bounds):
        if not is_affine(e, leaves):
            depends = e.dtype != "bool" or is_index_condition(e)
            kind = "index" if e.dtype != "bool" else "condition"
            reason = "is not affine" if depends else "depends on data"
            raise Irregular(f"the {kind} {e} between {p.x.name} and {t.name} {reason}")


def _with_stored_coefficient(p: Path, t: Tensor) -> Path:
    """The same path reading its coefficient from a tensor, if it is long and its box is plain."""
    axes = (*p.rows, *p.axes)
    plain = all(starts_at_zero(a) and a.extent is not None for a in axes)
    if len(postorder(p.coefficient)) <= STORED_NODES or not plain:
        return p
    own, bodies = copy_bodies(axes, (guarded(p.condition, p.coefficient),))
    stored = outputs(Compute(f"{t.name}.partial", own, bodies))[0]
    return replace(p, coefficient=read(stored, axes))
