"""Programs in float64: the same formulas with every float widened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tensorad.ir.combiner import Combiner
from tensorad.ir.dtypes import FLOAT64, DType
from tensorad.ir.expr import Cast, Const, Expr, Param, Read, Reduce, cast, const, param, read
from tensorad.ir.expr import reduce_expr as fold
from tensorad.ir.functions import without_functions
from tensorad.ir.rebuild import map_op
from tensorad.ir.tensor import Constant, Op, Placeholder, Tensor, outputs
from tensorad.ir.visit import rewrite, substitute, topological_ops


def in_float64(tensors: Sequence[Tensor], inputs: Sequence[Tensor] = ()) -> dict[Tensor, Tensor]:
    """Every tensor behind `tensors` (those and the inputs included) -> its float64 version.

    Functions with derivatives of their own are inlined: the result is for computing.

    Args:
        inputs: tensors whose values will be given; each becomes a placeholder x0, x1, ...
    """
    wide = _Wide()
    for n, t in enumerate(inputs):
        given = Placeholder(f"x{n}", t.shape, _wider(t.dtype))
        wide.image[t] = outputs(given)[0]
    for op in topological_ops(tensors):
        made = outputs(wide.op(without_functions(op)))
        for old, new in zip(outputs(op), made, strict=True):
            wide.image.setdefault(old, new)
    return wide.image


def _wider(dtype: DType) -> DType:
    return FLOAT64 if dtype.is_float else dtype


class _Wide:
    """The tensors and combiners widened so far."""

    def __init__(self) -> None:
        self.image: dict[Tensor, Tensor] = {}
        self.combiners: dict[Combiner, Combiner] = {}
        self.memo: dict[Expr, Expr] = {}

    def op(self, op: Op) -> Op:
        """The operation over widened tensors."""
        match op:
            case Placeholder():
                return op if not op.dtype.is_float else replace(op, dtype=FLOAT64)
            case Constant():
                return replace(op, array=_array(op.array), dtype=_wider(op.dtype))
        return map_op(op, self.all, lambda t: self.image[t], self.combiner)

    def all(self, exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        """The expressions in float64."""
        return tuple([rewrite(e, self.rule, self.memo) for e in exprs])

    def rule(self, e: Expr) -> Expr | None:
        """One node over widened operands."""
        match e:
            case Read():
                return read(self.image[e.tensor], e.indices)
            case Const() if e.dtype.is_float:
                return const(e.value, FLOAT64)
            case Cast() if e.dtype.is_float:
                return cast(e.value, FLOAT64)
            case Reduce():
                return fold(self.combiner(e.combiner), e.sources, e.axes, e.condition, e.index)
        return None

    def combiner(self, c: Combiner) -> Combiner:
        """The combiner of widened states."""
        if c not in self.combiners:
            new: dict[Expr, Expr] = {p: _param(p) for p in (*c.lhs, *c.rhs)}
            self.combiners[c] = replace(
                c,
                lhs=tuple([_as_param(new[p]) for p in c.lhs]),
                rhs=tuple([_as_param(new[p]) for p in c.rhs]),
                results=tuple([rewrite(substitute(r, new), self.rule) for r in c.results]),
                identity=tuple([const(i.value, _wider(i.dtype)) for i in c.identity]),
            )
        return self.combiners[c]


def _array(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _param(p: Param) -> Param:
    return param(p.name, _wider(p.dtype))


def _as_param(e: Expr) -> Param:
    assert isinstance(e, Param)  # made by _param
    return e
