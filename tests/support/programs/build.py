"""Loops and branches of the IR from Python functions of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorad.ir.expr import Expr, local_size
from tensorad.ir.tensor import (
    Block,
    Branch,
    Loop,
    Placeholder,
    Tensor,
    dim_expr,
    outputs,
)

Body = Callable[..., Sequence[Tensor]]


def like(name: str, t: Tensor, leading: int = 0) -> Tensor:
    """A placeholder for a tensor, without its leading axes."""
    return outputs(Placeholder(name, t.shape[leading:], t.dtype))[0]


def loop(
    body: Body,
    first: Sequence[Tensor],
    scanned: Sequence[Tensor] = (),
    fixed: Sequence[Tensor] = (),
    trips: int | Expr | Tensor = 0,
    test: Callable[..., Tensor] | None = None,
    reverse: bool = False,
) -> Loop:
    """The loop of body(counter, *carries, *scanned parts) -> next carries.

    Args:
        fixed: tensors that the body reads as they are.
        trips: a number, a size, or a 0-d integer tensor.
        test: of the carries.
    """
    own = isinstance(trips, Tensor) or test is not None
    count = trips if isinstance(trips, Tensor) else None
    number = local_size("trips") if own else dim_expr(trips) if isinstance(trips, int) else trips
    assert isinstance(number, Expr)
    counter = local_size("t", number)
    carries = [like(f"c{k}", t) for k, t in enumerate(first)]
    parts = [like(f"{t.name}_t", t, 1) for t in scanned]
    params = (*carries, *parts, *fixed)
    blocks = [Block(params, tuple(body(counter, *carries, *parts)))]
    if test is not None:
        blocks.append(Block((*carries, *fixed), (test(*carries),)))
    return Loop(
        tuple([f"last{k}" for k in range(len(first))]), (*first, *scanned, *fixed), tuple(blocks),
        counter=counter, trips=number, carries=len(first), scanned=len(scanned), count=count,
        reverse=reverse,
    )  # fmt: skip


def branch(index: Tensor, fixed: Sequence[Tensor], *ways: Sequence[Tensor]) -> Branch:
    """Results by the index, of formulas of `fixed`."""
    names = tuple([f"way{k}" for k in range(len(ways[0]))])
    blocks = tuple([Block(tuple(fixed), tuple(w)) for w in ways])
    return Branch(names, (index, *fixed), blocks)
