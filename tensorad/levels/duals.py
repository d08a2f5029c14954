"""Tensors with tangents: made, and taken apart by `jvp` of what was written since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakSet

from tensorad.autodiff.forward import tangents_along
from tensorad.autodiff.local.flows import derivation_order, stops
from tensorad.autodiff.local.overrides import Rule
from tensorad.autodiff.local.record_gradients import has_gradient
from tensorad.errors import DefinitionError, DTypeError, GradError, ShapeError
from tensorad.ir.array_methods import looked_at
from tensorad.ir.arrays.elementwise import copy_of, elementwise, same_dim
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import const
from tensorad.ir.records import is_record, same_record
from tensorad.ir.tensor import (
    Compute,
    Control,
    Op,
    Placeholder,
    Tensor,
    format_shape,
    outputs,
)
from tensorad.levels.stack import Level, level_for, levels
from tensorad.program.calling.directions import like_value
from tensorad.program.calls import shape_of
from tensorad.program.recursion import what_is_traced
from tensorad.program.sides import first_difference, leaf_text, side_by_side
from tensorad.program.trees import Flat, flatten, unflatten
from tensorad.program.values import alone, as_tensor, check_dtype, dtype_of, parameter, promoted

_TANGENT_HINT: Final = "a tangent is a tree like what it belongs to; None stands for integers."


class _Pair(NamedTuple):
    """A leaf with its tangent."""

    value: Any
    path: str
    tangent: Any
    tangent_path: str


def make_dual(x: Any, v: Any, level: Level | int | None = None) -> Any:
    """x with the tangent v.

    What is computed of it inside of the level has a tangent, too: `unpack_dual` tells it. `x`
    itself stays as it is. Reverse mode passes through, to `x` and to `v`; both may have tangents at
    levels around this one.

    Args:
        x: a float tensor, array or number, or a tree of them; integers in it stay as they are.
        v: a tree like x, of the shapes and dtypes of x; None at integers.
        level: one that is open, or its number; None: the innermost one.
    Returns:
        a tree of tensors like x.
    Raises:
        GradError: the level is not open, x or v has a tangent at this level already, or no part
            of x is a float.
        DefinitionError, ShapeError, DTypeError: v does not fit x.
    """
    at = level_for(level, "make_dual")
    flat = flatten(x, "x")
    pairs = _pairs(flat, flatten(v, "v"))
    typed = [None if p.tangent is None else _typed(p) for p in pairs]
    given = [(p, d) for p, d in zip(pairs, typed, strict=True) if d is not None]
    if not given:
        raise GradError(
            "make_dual: no part of x is a float.",
            where=", ".join([f"{p.path} : {leaf_text(p.value)}" for p in pairs[:8]]) or None,
            hint="integers and booleans have no tangent: convert with .astype('float32').",
        )
    primals = [as_tensor(p.value, p.path, d) for p, d in given]
    tangents = [as_tensor(p.tangent, p.tangent_path, d) for p, d in given]
    _check_plain(at, [p for p, _ in given], primals, tangents)
    named = zip(given, primals, strict=True)
    made = iter([copy_of(t, _name(p)) for (p, _), t in named])
    results = [
        as_tensor(p.value, p.path) if d is None else next(made)
        for p, d in zip(pairs, typed, strict=True)
    ]
    duals = [t for t, d in zip(results, typed, strict=True) if d is not None]
    at.duals.update(zip(duals, tangents, strict=True))
    return unflatten(flat.structure, results)


def unpack_dual(y: Any, level: Level | int | None = None) -> tuple[Any, Any]:
    """(y without its tangent, its tangent): the derivative of y along the tangents of this level.

    Both keep the tangents that they have at other levels. Reverse mode passes through both. Outside
    of any function that is traced they are evaluated when they are looked at: by NumPy, by
    `float`, by `print`.

    Args:
        y: a tensor, an array or a number, or a tree of them.
        level: one that is open, or its number; None: the innermost one. Outside of all levels
            nothing has a tangent.
    Returns:
        (value, tangent), trees like y; the tangent is None where there is none.
    Raises:
        GradError: the level is not open.
    """
    flat = flatten(y, "y")
    nothing = unflatten(flat.structure, [None] * len(flat.leaves))
    if level is None and not levels():
        return y, nothing
    at = level_for(level, "unpack_dual")
    for value, path in zip(flat.leaves, flat.paths, strict=True):
        check_dtype(value, path)
    tensors = [as_tensor(v, path) for v, path in zip(flat.leaves, flat.paths, strict=True)]
    found = tangents_at(at, tensors)
    values = {t: same_record(t, t.name) if is_record(t.dtype) else copy_of(t) for t in found}
    at.plain.update(dict.fromkeys((*values.values(), *found.values())))
    primals = [values.get(t, t) for t in tensors]
    if not what_is_traced():
        every = WeakSet((*primals, *found.values()))
        looked_at.update(dict.fromkeys(every, every))
    own = [like_value(values.get(t, t), found.get(t)) for t in tensors]
    tangents = unflatten(flat.structure, own)
    return unflatten(flat.structure, primals), tangents


def tangents_at(level: Level, ys: Sequence[Tensor]) -> dict[Tensor, Tensor]:
    """The tangents of those that have one, and of those that go round in a loop: there they may be
    zeros."""
    floats = [t for t in dict.fromkeys(ys) if has_gradient(t.dtype)]
    rules = stops(level.plain)
    order = derivation_order(floats, rules)
    behind = {t: None for op in order for t in outputs(op)}
    given = {t: v for t, v in level.duals.items() if t in behind}
    given.update({t: _asked(level, t) for t in _carried(level, order)})
    inside = [t for t in level.duals if t not in behind]
    if inside and any(isinstance(op, Control) for op in order):
        unit = outputs(Compute("unit", (), (const(1.0, inside[0].dtype),)))[0]
        given[unit] = unit
        rules.update({t: _along(t, level.duals[t], unit) for t in inside})
    return tangents_along(floats, given, rules) if given else {}


def _along(t: Tensor, tangent: Tensor, unit: Tensor) -> Rule:
    """A tensor that is made inside of a block moves along its tangent while the unit does."""

    def moved(_: Tensor, deps: list[Tensor], tangents: list[Tensor | None]) -> Tensor | None:
        own = tangents[0]
        return None if own is None else elementwise("mul", deps[1], own.astype(t.dtype))

    return Rule(t, (unit, tangent), None, moved)


def _name(p: _Pair) -> str:
    return p.value.name if isinstance(p.value, Tensor) else p.path


def _pairs(flat: Flat, given: Flat) -> list[_Pair]:
    """Each leaf with its tangent.

    Raises:
        DefinitionError: the tangents are another tree.
    """
    floats = [alone(dtype_of(v)).is_float for v in flat.leaves]
    holes = unflatten(flat.structure, [0.0 if f else None for f in floats])
    rest = zip(given.leaves, given.paths, strict=True)
    tangents: list[tuple[Any, str]]
    if given.structure == flatten(holes, "v").structure:
        tangents = [next(rest) if f else (None, "") for f in floats]
    elif given.structure == flat.structure:
        tangents = list(rest)
    else:
        wanted = Flat(flat.leaves, given.paths, flat.structure)
        raise DefinitionError(
            "make_dual: the tangent has another structure at "
            f"{first_difference(wanted, given, 'v')}.",
            where=side_by_side(("x", "v"), wanted, given, "v"),
            hint=_TANGENT_HINT,
        )
    both = zip(flat.leaves, flat.paths, tangents, strict=True)
    return [_Pair(value, path, *tangent) for value, path, tangent in both]


def _typed(p: _Pair) -> DType:
    """The dtype of a leaf with a tangent.

    Raises:
        ShapeError, DTypeError: the tangent does not fit.
    """
    check_dtype(p.value, p.path)
    check_dtype(p.tangent, p.tangent_path)
    where = f"{p.path} : {leaf_text(p.value)}, {p.tangent_path} : {leaf_text(p.tangent)}"
    own, given = dtype_of(p.value), dtype_of(p.tangent)
    if is_record(own):
        raise DTypeError(
            f"make_dual: {p.path} is of the data type {own}, whose values are given no tangent.",
            where=where,
            hint="make duals of the floats that it is made of; or use ta.jvp of a function of it.",
        )
    if not own.is_float:
        raise DTypeError(
            f"make_dual: {p.path} has dtype {alone(own)}, which has no tangent.",
            where=where,
            hint="integers and booleans do not move: convert with .astype('float32'), or give "
            "None.",
        )
    shapes = shape_of(p.value), shape_of(p.tangent)
    if len(shapes[0]) != len(shapes[1]) or not all(map(same_dim, *shapes)):
        raise ShapeError(
            f"make_dual: the tangent {p.tangent_path} has shape {format_shape(shapes[1])}, but "
            f"{p.path} has shape {format_shape(shapes[0])}.",
            where=where,
            hint="a tangent has the shape of what it belongs to; topi.full_like fills one.",
        )
    dtype = promoted([own, given])
    if dtype is None or not dtype.is_float:
        raise DTypeError(
            f"make_dual: the tangent {p.tangent_path} has dtype {alone(given)}, but {p.path} has "
            f"dtype {alone(own)}.",
            where=where,
            hint=f"convert it: .astype('{alone(own)}').",
        )
    return alone(dtype)


def _check_plain(
    at: Level, pairs: Sequence[_Pair], primals: Sequence[Tensor], tangents: Sequence[Tensor]
) -> None:
    """Neither values nor tangents have tangents at the level.

    Raises:
        GradError: one has.
    """
    _check_carries(at, [*primals, *tangents])
    found = tangents_at(at, [*primals, *tangents])
    for p, value, tangent in zip(pairs, primals, tangents, strict=True):
        for t, path in ((value, p.path), (tangent, p.tangent_path)):
            if t in found:
                raise GradError(
                    f"make_dual: {path} has a tangent at level {at.number} already.",
                    where=t.described,
                    hint="a value has one tangent at each level: open another level inside for "
                    "further derivatives, or pass unpack_dual(...)[0].",
                )


def _check_carries(level: Level, ts: Sequence[Tensor]) -> None:
    """Nothing goes round in a loop that has been entered since the level was opened.

    Raises:
        GradError: it does, so that it may have a tangent.
    """
    for t in _carried(level, derivation_order(ts, stops(level.plain))):
        owner = getattr(t.op, "owner", "a loop")
        raise GradError(
            f"make_dual: whether {t.name} has a tangent at level {level.number} is not known "
            f"before {owner} is written down.",
            where=t.described,
            hint="open a level inside of the loop; or pass unpack_dual(...)[0].",
        )


def _carried(level: Level, order: Sequence[Op]) -> list[Tensor]:
    """Parameters of bodies of loops around, which have been entered since the level was opened."""
    params = [op for op in order if isinstance(op, Placeholder) and op.owner]
    found = [outputs(op)[0] for op in params if op.number > level.since]
    return [t for t in found if t not in level.plain]


def _asked(level: Level, t: Tensor) -> Tensor:
    """The tangent of what goes round in a loop, to go round beside it."""
    if t not in level.asked:
        owner = t.op.owner if isinstance(t.op, Placeholder) else ""
        made = parameter(f"d{t.name}", t.shape, t.dtype, owner)
        level.asked[t] = made
        level.plain[made] = None
    return level.asked[t]
