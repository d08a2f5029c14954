"""Tensors that come out of calls, branches and loops, each with the values of the tensor given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import tensorad as ta
from tensorad.ir.expr import int_const, local_size
from tensorad.ir.tensor import Block, Branch, FunctionCall, Loop, Tensor, outputs, saved

TRIPS: Final = 3


def _halfway(c: Tensor, x: Tensor) -> Tensor:
    """The mean of both, which is x again where both are x."""
    if x.dtype.is_float:
        return c * 0.5 + x * 0.5
    if x.dtype.is_integer:
        return c + (x - c)
    return c & x


def _loop(x: Tensor) -> Loop:
    c = ta.placeholder(x.shape, str(x.dtype), name="c")
    trips = int_const(TRIPS)
    block = Block((c, x), (_halfway(c, x),))
    return Loop((x.name,), (x, x), (block,), counter=local_size("t", trips), trips=trips, carries=1)


def looped(x: Tensor) -> Tensor:
    """The last carry of a loop."""
    return outputs(_loop(x))[0]


def row(x: Tensor) -> Tensor:
    """What an iteration of a loop saves, at its counter."""
    op = _loop(x)
    rows = saved(op, op.blocks[0].results[0])
    return ta.compute(x.shape, lambda *at: rows[(1, *at)], name=x.name)


def searched(x: Tensor) -> Tensor:
    """The last carry of a loop that ends by a condition on data."""
    c, n = ta.placeholder(x.shape, str(x.dtype), name="c"), ta.placeholder((), "int64", name="n")
    zero = ta.compute((), lambda: ta.const(0, "int64"), name="zero")
    test = ta.compute((), lambda: n() < TRIPS, name="test")
    trips = local_size("trips")
    op = Loop(
        (x.name, "n_last"), (x, zero, x),
        (Block((c, n, x), (_halfway(c, x), n + 1)), Block((c, n, x), (test,))),
        counter=local_size("t", trips), trips=trips, carries=2,
    )  # fmt: skip
    return outputs(op)[0]


def called(x: Tensor) -> Tensor:
    """The result of a call."""
    p = ta.placeholder(x.shape, str(x.dtype), name="p")
    block = Block((p,), (_halfway(p, p),))
    return outputs(FunctionCall((x.name,), (x,), (block,), function="f"))[0]


def chosen(x: Tensor) -> Tensor:
    """What one block of a branch gives."""
    one = ta.compute((), lambda: ta.const(1, "int64"), name="one")
    blocks = (Block((x,), (x & x if x.dtype == "bool" else x + x,)), Block((x,), (_halfway(x, x),)))
    return outputs(Branch((x.name,), (one, x), blocks))[0]


KINDS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    f.__name__: f for f in (looped, row, searched, called, chosen)
}
