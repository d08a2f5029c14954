"""Extents that only the run tells, as the words of a call have them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, NamedTuple

from tensorad.codegen.loops.ir import Make, Node, Place, Repeat, Reserve
from tensorad.errors import BuildError
from tensorad.ir.expr import Expr, LocalSize, call, floordiv, int_const, mul, select
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import Dim, Shape, Tensor, dim_expr, dim_of, format_shape
from tensorad.simplify.index.extremes import extremes_in_loops
from tensorad.simplify.index.linear import linear_form

_MOST: Final = 1 << 62
"""What a product counts as that is larger: no memory has as many elements."""


class Memory(NamedTuple):
    """The elements of memory: those of `rest`, `first + more` times, `others` times.

    Attributes:
        rest: extents that are known before the run.
        first: a size that only the run tells; None: once.
        others: a size, or the product of what else only the run tells; None: once.
    """

    rest: Shape
    first: LocalSize | None = None
    more: int = 0
    others: Expr | None = None


@dataclass(frozen=True)
class Products:
    """How extents are told of which only the run knows something.

    Attributes:
        sizes: have their values from the beginning: those that calls of a definition give.
        told: products of extents -> the sizes that have their values where memory is asked for.
    """

    sizes: Container[LocalSize] = ()
    told: Mapping[Expr, LocalSize] = field(default_factory=dict)

    def word(self, t: Tensor, product: Expr | None) -> LocalSize | int:
        """The word that has the value of a product of extents of a tensor."""
        if product is None or isinstance(product, LocalSize):
            return 1 if product is None else product
        if product not in self.told:
            raise unknown(t)
        return self.told[product]


NO_PRODUCTS: Final = Products()
"""Those of a program without memory of which only the run tells the size."""


def memory_for(shape: Shape, sizes: Container[LocalSize] = ()) -> Memory:
    """Memory in which a tensor fits however far counters go, where `sizes` say how far that is."""
    rest: list[Dim] = []
    local: list[Expr] = []
    for k, n in enumerate(shape):
        most = n if k == 0 and _and_more(dim_expr(n)) else _at_most(n, sizes)
        if is_told(most):
            local.append(dim_expr(most))
        else:
            rest.append(most)
    for k, e in enumerate(local):
        found = _and_more(e)
        if found is not None:
            return Memory(tuple(rest), *found, product_of((*local[:k], *local[k + 1 :])))
    return Memory(tuple(rest), others=product_of(local))


def exact(shape: Shape) -> tuple[Shape, Expr | None]:
    """The extents that are known before the run, and the product of the others."""
    rest = tuple([n for n in shape if not is_told(n)])
    return rest, product_of([dim_expr(n) for n in shape if is_told(n)])


def asked(n: Node, sizes: Container[LocalSize] = ()) -> list[Expr]:
    """The products by which a node itself asks for memory, sizes apart: they are words already."""
    found: list[Expr | None] = []
    match n:
        case Reserve():
            found = [memory_for(n.tensor.shape, sizes).others]
        case Repeat():
            found = [memory_for(t.shape, sizes).others for t in n.stores]
        case Place() if n.row is not None:
            found = [exact(n.row_shape)[1]]
        case Make():
            found = [exact(t.shape)[1] for t in n.fields]
    return [e for e in found if e is not None and not isinstance(e, LocalSize)]


def product_of(extents: Sequence[Expr]) -> Expr | None:
    """The product, or a number that no memory has room for; None: there is no factor."""
    return reduce(_times, extents) if extents else None


def _times(a: Expr, b: Expr) -> Expr:
    fits = call("le", a, floordiv(int_const(_MOST), call("maximum", b, int_const(1))))
    return select(fits, mul(a, b), int_const(_MOST))


def is_told(extent: Dim) -> bool:
    """Whether only the run tells how large an extent is."""
    return not isinstance(extent, int) and bool(local_sizes(extent))


def local_sizes(e: Expr) -> list[LocalSize]:
    """The sizes in a formula that have their values while a call runs."""
    return [s for s in sizes_in(e) if isinstance(s, LocalSize)]


def _and_more(extent: Expr) -> tuple[LocalSize, int] | None:
    """A size that only the run tells, apart from what is added to it."""
    form = linear_form(extent)
    if list(form.terms.values()) == [1]:
        (size,) = form.terms
        if isinstance(size, LocalSize):
            return size, form.constant
    return None


def _at_most(extent: Dim, sizes: Container[LocalSize]) -> Dim:
    """A size, or one that is as large as the extent gets while counters go on."""
    if isinstance(extent, (int, LocalSize)):
        return extent
    most = extremes_in_loops(extent, sizes).hi
    return extent if most is None else dim_of(most)


def unknown(t: Tensor) -> BuildError:
    return BuildError(
        f"{t.name} has the shape {format_shape(t.shape)}, which only the run of a loop tells.",
        where=t.described,
        hint="let tensors inside of loops have shapes that do not depend on counters; a condition "
        "on an index may.",
    )
