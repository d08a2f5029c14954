"""Every axis of a formula belongs to its compute or to exactly one reduction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn
from weakref import WeakValueDictionary

from tensorad.errors import DefinitionError
from tensorad.ir.expr import Axis, Expr, Param, Reduce, reduce_expr
from tensorad.ir.visit import free_leaves, postorder, with_fresh_fold

_reduce_axes: WeakValueDictionary[int, Axis] = WeakValueDictionary()
"""Axes made by `reduce_axis`: an error can tell them from the axes of another compute."""
_bound: WeakValueDictionary[int, Axis] = WeakValueDictionary()
"""Reduce axes that a compute binds already; another compute gets copies of them."""


def note_reduce_axis(a: Axis) -> Axis:
    """Remember that the user made `a` with `reduce_axis`."""
    _reduce_axes[a.serial] = a
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
    inner = _axes_of_folds(name, own, folds)
    _check_bound(name, free_leaves(*bodies), own, bodies)
    if any(a.serial in _bound for a in inner):
        renew = with_fresh_fold()
        bodies = tuple([renew(b) for b in bodies])
    _bound.update({a.serial: a for a in inner})
    return bodies


def _axes_of_folds(name: str, own: dict[Axis, None], folds: Iterable[Reduce]) -> dict[Axis, Expr]:
    """Every reduce axis with the fold that binds it; the components of a tuple are one fold."""
    binder: dict[Axis, Expr] = {}
    for e in folds:
        fold = reduce_expr(e.combiner, e.sources, e.axes, e.condition)
        for a in e.axes:
            if a in own:
                raise DefinitionError(
                    f"{a.name} is an axis of {name}, so it cannot be reduced over.",
                    where=str(e),
                    hint="reduce over an axis made by reduce_axis.",
                )
            if binder.setdefault(a, fold) is not fold:
                raise DefinitionError(
                    f"reduce axis {a.name} is bound by two reductions of {name}.",
                    where=f"{binder[a]} and {e}",
                    hint="make one reduce_axis for each reduction.",
                )
    return binder


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
                where=_line(bodies),
                hint="operands live only inside the function given to comm_reducer.",
            )


def _unbound(name: str, a: Axis, bodies: tuple[Expr, ...]) -> NoReturn:
    if a.serial in _reduce_axes:
        raise DefinitionError(
            f"reduce axis {a.name} is used outside its reduction in {name}.",
            where=_line(bodies),
            hint=f"reduce over it, e.g. sum(..., axis={a.name}).",
        )
    raise DefinitionError(
        f"{name} uses {a.name}, an axis of another compute.",
        where=_line(bodies),
        hint="use the parameters of the function that this compute is given.",
    )


def _line(bodies: tuple[Expr, ...]) -> str:
    text = ", ".join([str(b) for b in bodies])
    return text if len(text) <= 200 else text[:197] + "..."
