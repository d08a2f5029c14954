"""Every axis of a formula belongs to its compute or to exactly one reduction.

A reduce axis may serve several reductions and computes of the user: each binds a copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from tensorad.errors import DefinitionError
from tensorad.ir.expr import Axis, Expr, Param, Reduce, reduce_expr
from tensorad.ir.leaves import bound_axes, reduce_axes
from tensorad.ir.visit import (
    children,
    free_leaves,
    fresh_axes,
    postorder,
    rewrite,
    substitute_all,
)
from tensorad.te.checks import excerpt


def note_reduce_axis(a: Axis) -> Axis:
    """Remember that the user made `a` with `reduce_axis`."""
    reduce_axes[a.serial] = a
    return a


def bind_reductions(
    name: str, axes: tuple[Axis, ...], bodies: tuple[Expr, ...]
) -> tuple[Expr, ...]:
    """The bodies, with every axis accounted for; reduce axes that others bind are copied.

    Raises:
        DefinitionError: an axis is bound twice, or used where nothing binds it.
    """
    nodes = postorder(*bodies)
    folds = [e for e in nodes if isinstance(e, Reduce)]
    own = dict.fromkeys(axes)
    if not folds:
        _check_bound(name, nodes, own, bodies)
        return bodies
    binders = _folds_of_axes(name, own, folds)
    shared = [a for a, found in binders.items() if len(found) > 1]
    if shared:
        _check_nested(name, shared, nodes)
    _check_bound(name, free_leaves(*bodies), own, bodies)
    if shared or any(a.serial in bound_axes for a in binders):
        bodies = _on_own_axes(bodies)
    bound_axes.update({a.serial: a for a in binders})
    return bodies


def _folds_of_axes(
    name: str, own: dict[Axis, None], folds: Iterable[Reduce]
) -> dict[Axis, dict[Expr, None]]:
    """Every reduce axis with the folds that bind it; the components of a tuple are one fold."""
    binders: dict[Axis, dict[Expr, None]] = {}
    for e in folds:
        fold = _fold_of(e)
        for a in e.axes:
            if a in own:
                raise DefinitionError(
                    f"{a.name} is an axis of {name}, so it cannot be reduced over.",
                    where=excerpt(e),
                    hint="reduce over an axis made by reduce_axis.",
                )
            binders.setdefault(a, {})[fold] = None
    return binders


def _fold_of(e: Reduce) -> Expr:
    """One node for all components of a fold."""
    return reduce_expr(e.combiner, e.sources, e.axes, e.condition)


def _check_nested(name: str, shared: list[Axis], nodes: list[Expr]) -> None:
    """Reductions side by side may share an axis; one inside another may not."""
    for a in shared:
        inside: dict[Expr, Expr] = {}
        for e in nodes:
            below = next((inside[c] for c in children(e) if c in inside), None)
            if isinstance(e, Reduce) and any(a is b for b in e.axes):
                if below is not None:
                    raise DefinitionError(
                        f"reduce axis {a.name} is bound by two nested reductions of {name}.",
                        where=f"{excerpt(below)} inside {excerpt(e)}",
                        hint="make one reduce_axis for each of the two.",
                    )
                below = e
            if below is not None:
                inside[e] = below


def _on_own_axes(bodies: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """A copy in which each fold runs over fresh axes, the same for all its components."""
    copies: dict[Expr, dict[Expr, Expr]] = {}
    memo: dict[Expr, Expr] = {}

    def renew(e: Expr) -> Expr | None:
        if not isinstance(e, Reduce):
            return None
        fold = _fold_of(e)
        if fold not in copies:
            copies[fold] = fresh_axes(e.axes)
        fresh = copies[fold]
        *sources, condition = substitute_all((*e.sources, e.condition), fresh)
        axes = tuple([a for a in fresh.values() if isinstance(a, Axis)])
        return reduce_expr(e.combiner, tuple(sources), axes, condition, e.index)

    return tuple([rewrite(b, renew, memo) for b in bodies])


def _check_bound(
    name: str, leaves: Iterable[Expr], own: dict[Axis, None], bodies: tuple[Expr, ...]
) -> None:
    for e in leaves:
        if isinstance(e, Axis):
            if e not in own:
                _unbound(name, e, bodies)
        elif isinstance(e, Param):
            raise DefinitionError(
                f"{name} uses {e.name}, an operand of a combiner.",
                where=excerpt(*bodies),
                hint="operands live only inside the function given to comm_reducer.",
            )


def _unbound(name: str, a: Axis, bodies: tuple[Expr, ...]) -> NoReturn:
    if a.serial in reduce_axes:
        raise DefinitionError(
            f"reduce axis {a.name} is used outside its reduction in {name}.",
            where=excerpt(*bodies),
            hint=f"reduce over it, e.g. sum(..., axis={a.name}).",
        )
    raise DefinitionError(
        f"{name} uses {a.name}, an axis of another compute.",
        where=excerpt(*bodies),
        hint="use the parameters of the function that this compute is given.",
    )
