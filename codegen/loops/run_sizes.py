"""Extents that only the run tells, as the words of a call have them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final

from tensorad.errors import BuildError
from tensorad.ir.analysis.sizes import product_over
from tensorad.ir.expr import Expr, LocalSize
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import Dim, Shape, Tensor, dim_expr, dim_of, format_shape
from tensorad.simplify.index.extremes import extremes_in_loops
from tensorad.simplify.index.linear import linear_form


@dataclass(frozen=True)
class Products:
    """What the sizes that calls of a definition give say about extents.

    Attributes:
        sizes: these.
        told: the sizes that have the values of products of extents.
    """

    sizes: Container[LocalSize] = ()
    told: Mapping[Expr, LocalSize] = field(default_factory=dict)

    def of(self, shape: Shape) -> tuple[LocalSize | None, Shape]:
        """The size that is the product of the extents made of `sizes`, and the other extents."""
        own, others = product_of(shape, self.sizes) if self.sizes else (None, shape)
        if own is None or isinstance(own, LocalSize):
            return own, others
        return self.told[own], others


def product_of(shape: Shape, sizes: Container[LocalSize]) -> tuple[Expr | None, Shape]:
    """`product_over`, extents that counters change, too, being as large as they get."""
    return product_over(tuple([_without_counters(n, sizes) for n in shape]), sizes)


def _without_counters(extent: Dim, sizes: Container[LocalSize]) -> Dim:
    if isinstance(extent, (int, LocalSize)) or not any(s in sizes for s in sizes_in(extent)):
        return extent
    most = extremes_in_loops(extent, sizes).hi
    return extent if most is None else dim_of(most)


NO_PRODUCTS: Final = Products()
"""Those of a call that is no definition's."""


def and_more(extent: Dim) -> tuple[Dim, int]:
    """A size that only the run tells, apart from what is added to it."""
    form = linear_form(dim_expr(extent))
    if list(form.terms.values()) == [1]:
        (size,) = form.terms
        if isinstance(size, LocalSize):
            return size, form.constant
    return at_most(extent), 0


def at_most(extent: Dim) -> Dim:
    """A size, or one that is as large as the extent gets while counters go on."""
    if isinstance(extent, (int, LocalSize)):
        return extent
    most = extremes_in_loops(extent).hi
    return extent if most is None else dim_of(most)


def unknown(t: Tensor) -> BuildError:
    return BuildError(
        f"{t.name} has the shape {format_shape(t.shape)}, which only the run of a loop tells.",
        where=t.described,
        hint="let tensors inside of loops have shapes that do not depend on counters; a condition "
        "on an index may.",
    )
