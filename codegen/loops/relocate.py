"""Temporaries of a group to scratch: each thread holds the rows it works on, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorad.codegen.loops.ir import Check, Prefetch, Stmt, Store
from tensorad.codegen.loops.rewrite import rewrite, storing
from tensorad.errors import InternalError
from tensorad.ir.expr import Expr, Read, read
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import rewriter
from tensorad.simplify.index.linear import linear_form


@dataclass(frozen=True, eq=False)
class Place:
    """Where a temporary's elements are: `tensor`, indexed by the dimensions that are kept.

    Attributes:
        kept: the dimensions, each with what is subtracted from its index (or None).
        beside: whether the temporary is stored where it was, too; only its reads move.
    """

    tensor: Tensor
    kept: tuple[tuple[int, Expr | None], ...]
    beside: bool = False

    def indices(self, full: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The indices in scratch of an element of the temporary."""
        return tuple([_difference(full[d], base) for d, base in self.kept])


def _difference(index: Expr, base: Expr | None) -> Expr:
    return index if base is None else linear_form(index).plus(linear_form(base), -1).to_expr()


def moved(body: tuple[Stmt, ...], places: Mapping[Tensor, Place]) -> tuple[Stmt, ...]:
    """The statements with every access to one of the temporaries put to its place."""

    def read_there(e: Expr) -> Expr | None:
        place = places.get(e.tensor) if isinstance(e, Read) else None
        return None if place is None else read(place.tensor, place.indices(e.indices))  # type: ignore[attr-defined]

    def statement(s: Stmt) -> list[Store] | None:
        match s:
            case Store() if any(t in places for t in s.tensors):
                return _stores(s, places)
            case Prefetch() if s.tensor in places:  # what is in scratch needs no prefetch
                return []
            case Check():
                raise InternalError("a check stands in rows")
        return None

    return rewrite(body, statement, rewriter(read_there)) if places else body


def _stores(s: Store, places: Mapping[Tensor, Place]) -> list[Store]:
    """One store per place; no value reads what the statement stores."""
    made = storing(s, lambda t: t not in places or places[t].beside)
    for t, v in zip(s.tensors, s.values, strict=True):
        if t in places:
            made.append(Store((places[t].tensor,), places[t].indices(s.indices), (v,)))
    return made
