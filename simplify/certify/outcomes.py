"""What every way of checking a plan needs: its outcomes, and the conditions it leaves aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorad.errors import TensoradError
from tensorad.ir.analysis.points import possible
from tensorad.ir.expr import Expr, logical_and
from tensorad.ir.visit import conjuncts, substitute
from tensorad.simplify.domain.elimination import Elimination
from tensorad.simplify.index.algebra import simplify


class Undecided(TensoradError):
    """This way cannot decide; its text says why."""


class Refuted(TensoradError):
    """The plan is wrong; the text says in which way."""


def may_hold(e: Elimination, test: Callable[[Expr], bool]) -> Expr:
    """A condition for what `expressible` leaves aside to hold at all, in terms of indices."""
    parts = [possible(p) for p in conjuncts(e.condition) if not test(p)]
    return logical_and(*[p for c in parts for p in conjuncts(c) if test(p)])


def expressible(
    e: Elimination, test: Callable[[Expr], bool]
) -> tuple[list[Expr], list[list[Expr]]]:
    """The conditions of the domain and of each piece that pass the test.

    Raises:
        Undecided: a piece does not test the others just as the domain does.
    """
    parts = conjuncts(e.condition)
    own = [p for p in parts if test(p)]
    opaque = [p for p in parts if not test(p)]
    pieces: list[list[Expr]] = []
    for piece in e.solution.pieces:
        tested = conjuncts(logical_and(piece.guard, piece.residual))
        found = [p for p in tested if not test(p)]
        wanted = conjuncts(logical_and(*[substitute(p, piece.values) for p in opaque]))
        if not _same_conditions(wanted, found):
            what = (found or wanted or opaque)[0]
            raise Undecided(f"{what} is not tested alike by the domain and the plan")
        pieces.append([p for p in tested if test(p)])
    return own, pieces


def _same_conditions(wanted: Sequence[Expr], found: Sequence[Expr]) -> bool:
    if dict.fromkeys(wanted).keys() == dict.fromkeys(found).keys():
        return True
    one, two = (dict.fromkeys(conjuncts(logical_and(*map(simplify, c)))) for c in (wanted, found))
    return one.keys() == two.keys()
