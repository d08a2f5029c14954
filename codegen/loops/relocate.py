"""Temporaries of a group to scratch: each thread holds the rows it works on, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensorad.codegen.loops.ir import Assign, Check, Fetch, Fold, For, If, Stmt, Store, Visit
from tensorad.errors import InternalError
from tensorad.ir.expr import Expr, Read, read
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import rewrite
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
    return _Mover(places).block(body) if places else body


class _Mover:
    def __init__(self, places: Mapping[Tensor, Place]) -> None:
        self.places = places
        self.memo: dict[Expr, Expr] = {}

    def image(self, e: Expr) -> Expr:
        return rewrite(e, self.rule, self.memo)

    def images(self, many: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple([self.image(e) for e in many])

    def rule(self, e: Expr) -> Expr | None:
        place = self.places.get(e.tensor) if isinstance(e, Read) else None
        return None if place is None else read(place.tensor, place.indices(e.indices))  # type: ignore[attr-defined]

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple([made for s in body for made in self.statement(s)])

    def statement(self, s: Stmt) -> list[Stmt]:
        match s:
            case For():
                return [replace(s, body=self.block(s.body))]
            case If():
                return [If(self.image(s.cond), self.block(s.then), self.block(s.orelse))]
            case Assign():
                return [Assign(s.targets, self.images(s.values))]
            case Fold():
                return [Fold(s.targets, s.combiner, self.images(s.values))]
            case Store():
                return self.store(s)
            case Visit():
                return [s]
            case Check():
                raise InternalError("a check stands in rows")
            case Fetch():  # what is in scratch needs no asking for
                gone = s.tensor in self.places
                return [] if gone else [replace(s, indices=self.images(s.indices))]

    def _stays(self, t: Tensor) -> bool:
        return t not in self.places or self.places[t].beside

    def store(self, s: Store) -> list[Stmt]:
        """One store per place; no value reads what this statement stores."""
        values, indices = self.images(s.values), self.images(s.indices)
        result: list[Stmt] = []
        stay = [n for n, t in enumerate(s.tensors) if self._stays(t)]
        if stay:
            tensors = tuple([s.tensors[n] for n in stay])
            result.append(Store(tensors, indices, tuple([values[n] for n in stay])))
        for t, v in zip(s.tensors, values, strict=True):
            place = self.places.get(t)
            if place is not None:
                result.append(Store((place.tensor,), place.indices(indices), (v,)))
        return result
