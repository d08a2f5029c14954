"""Scalar expressions that refer to tensors, functions and combiners."""

from __future__ import annotations

from typing import Final

from tensorad.ir.nodes import APPLY, DATA, READ, REDUCE, Axis, Expr
from tensorad.ir.nominal import Combiner, Function
from tensorad.ir.tensor import Tensor


class Read(Expr):
    """tensor[indices]."""

    has_operands = True
    tensor: Tensor
    indices: tuple[Expr, ...]

    @property
    def own_kinds(self) -> int:  # type: ignore[override]  # of the class elsewhere
        return READ if self.tensor.is_constant else READ | DATA


class Apply(Expr):
    """function(args): a scalar function whose derivative is not that of its formula."""

    has_operands = True
    own_kinds = APPLY
    function: Function
    args: tuple[Expr, ...]


class Reduce(Expr):
    """Component `index` of the left fold of `sources` over `axes` where `condition` holds.

    Axes are in nesting order, outermost first: bounds may use the axes before them.
    """

    __slots__ = ("axes", "below", "combiner", "condition", "index", "sources")
    own_kinds = REDUCE
    combiner: Combiner
    sources: tuple[Expr, ...]
    axes: tuple[Axis, ...]
    condition: Expr
    index: int

    def _complete(self) -> None:
        bounds = [b for a in self.axes for b in (a.lower, a.upper, a.step)]
        _set_reduce_below(self, (*bounds, self.condition, *self.sources))
        super()._complete()


_set_reduce_below: Final = Reduce.__dict__["below"].__set__
