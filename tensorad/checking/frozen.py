"""Programs whose stopped values stay what they are while an input moves."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.ir.expr import Apply, Expr, Read, param, read
from tensorad.ir.functions import Mode, is_stopped
from tensorad.ir.rebuild import map_op
from tensorad.ir.tensor import Op, Placeholder, Tensor, outputs
from tensorad.ir.visit import (
    op_expressions,
    postorder,
    rewrite,
    substitute_all,
    topological_ops,
)
from tensorad.simplify.formula.dataflow import on_fresh_axes, over_inputs

Image = dict[Tensor, Tensor]


def hold_stopped(y: Tensor, x: Tensor, mode: Mode) -> tuple[Tensor, Tensor | None]:
    """y with every `stop_gradient(e)` computed from a second input in the place of x.

    Args:
        mode: in which `e` is stopped.
    Returns:
        the new tensor and that input; y and None if nothing is stopped.
    """
    order = topological_ops([y])
    if not any(_stops(op, mode) for op in order):
        return y, None
    still = outputs(Placeholder(f"{x.name}.still", x.shape, x.dtype))[0]
    base: Image = {x: still}
    moving: Image = {x: x}
    for op in order:
        both = (base, over_inputs(op, base)), (moving, _stopped(op, base, moving, mode))
        for image, new in both:
            for old, t in zip(outputs(op), outputs(new), strict=True):
                if t is not old:
                    image.setdefault(old, t)
    return moving.get(y, y), still


def _stops(op: Op, mode: Mode) -> list[Apply]:
    nodes = postorder(*op_expressions(op))
    return [e for e in nodes if isinstance(e, Apply) and is_stopped(e, mode)]


def _stopped(op: Op, base: Image, moving: Image, mode: Mode) -> Op:
    """The operation with stopped values read from the base, others from what moves."""
    stops = _stops(op, mode)
    if not stops:
        return over_inputs(op, moving)
    names: dict[Expr, Expr] = {e: param("stopped", e.dtype) for e in stops}
    held: dict[Expr, Expr] = {names[e]: _reading(e.args, base)[0] for e in stops}

    def new(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        return substitute_all(_reading(substitute_all(exprs, names), moving), held)

    return on_fresh_axes(map_op(op, new, lambda t: moving.get(t, t)))


def _reading(exprs: Sequence[Expr], image: Image) -> tuple[Expr, ...]:
    def renew(e: Expr) -> Expr | None:
        if isinstance(e, Read) and e.tensor in image:
            return read(image[e.tensor], e.indices)
        return None

    memo: dict[Expr, Expr] = {}
    return tuple([rewrite(e, renew, memo) for e in exprs])
