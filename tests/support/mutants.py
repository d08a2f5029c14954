"""Wrong variants of plans: every bound, offset, guard, condition and piece changed in turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from tensorad.ir.expr import ONE, TRUE, Axis, Expr, axis, int_const, logical_and
from tensorad.ir.visit import conjuncts, substitute
from tensorad.simplify.domain.elimination import Elimination
from tensorad.simplify.domain.solution import Piece, Solution

Named = tuple[str, Piece]


def mutants(e: Elimination) -> Iterator[tuple[str, Elimination]]:
    """(what was changed, the elimination with the changed plan)."""
    pieces = e.solution.pieces
    for n, piece in enumerate(pieces):
        others = (*pieces[:n], *pieces[n + 1 :])
        yield "lost piece", _with(e, others)
        yield "doubled piece", _with(e, (*pieces, piece))
        for name, wrong in _wrong_pieces(piece):
            yield name, _with(e, (*pieces[:n], wrong, *pieces[n + 1 :]))


def _with(e: Elimination, pieces: tuple[Piece, ...]) -> Elimination:
    return replace(e, solution=Solution(pieces, e.solution.exact))


def _wrong_pieces(piece: Piece) -> Iterator[Named]:
    for a in piece.axes:
        yield from _wrong_loops(piece, a)
    for old, value in piece.values.items():
        yield f"{old} one further", replace(piece, values={**piece.values, old: value + 1})
        yield f"{old} halved", replace(piece, values={**piece.values, old: value // 2})
    yield from _swapped(piece)
    for field in ("guard", "residual"):
        parts = conjuncts(getattr(piece, field))
        for n in range(len(parts)):
            rest = logical_and(*parts[:n], *parts[n + 1 :])
            yield f"dropped {field}", replace(piece, **{field: rest})
    if piece.axes:
        last = piece.axes[-1]
        yield (
            "one more condition",
            replace(piece, residual=logical_and(piece.residual, last > last.lower)),
        )


def _wrong_loops(piece: Piece, a: Axis) -> Iterator[Named]:
    changes = {
        "lower - 1": (a.lower - 1, a.upper, a.step),
        "lower + 1": (a.lower + 1, a.upper, a.step),
        "upper - 1": (a.lower, a.upper - 1, a.step),
        "upper + 1": (a.lower, a.upper + 1, a.step),
        "step + 1": (a.lower, a.upper, a.step + 1),
    }
    if a.step is not ONE:
        changes["no step"] = (a.lower, a.upper, int_const(1))
    for name, bounds in changes.items():
        yield f"{a}: {name}", _with_axis(piece, a, axis(a.name, *bounds))
    first = axis(a.name, a.lower, a.lower + 1)
    yield f"{a}: only the first", _with_axis(piece, a, first)


def _swapped(piece: Piece) -> Iterator[Named]:
    names = list(piece.values)
    for one, two in pairwise(names):
        values = dict(piece.values)
        values[one], values[two] = values[two], values[one]
        yield f"{one} and {two} swapped", replace(piece, values=values)


def _with_axis(piece: Piece, old: Axis, new: Axis) -> Piece:
    """The piece with one loop replaced, wherever it is used."""
    mapping: dict[Expr, Expr] = {}
    axes: list[Axis] = []
    for a in piece.axes:
        if a is old:
            made = new
        elif mapping:
            made = axis(a.name, *[substitute(b, mapping) for b in (a.lower, a.upper, a.step)])
        else:
            made = a
        if made is not a:
            mapping[a] = made
        axes.append(made)
    return Piece(
        piece.guard,
        tuple(axes),
        _renamed(piece.values, mapping),
        substitute(piece.residual, mapping) if piece.residual is not TRUE else TRUE,
    )


def _renamed(values: Mapping[Expr, Expr], mapping: dict[Expr, Expr]) -> dict[Expr, Expr]:
    return {old: substitute(v, mapping) for old, v in values.items()}
