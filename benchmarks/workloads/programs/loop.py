"""Loops over steps: ours in nodes of the IR, and the steps that PyTorch's users compile."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tensorad import te
from tensorad.ir.expr import local_size
from tensorad.ir.tensor import Block, Loop, Tensor, dim_expr, outputs, saved
from tensorad.ir.visit import placeholders

Carry = tuple[Tensor, ...]


def scan(
    f: Callable[[Any, Tensor], tuple[Any, Tensor | None]], init: Carry, xs: Tensor
) -> tuple[Carry, Tensor | None]:
    """The last carry of `carry, y = f(carry, x)` over the leading axis of xs, and all y."""
    row = te.placeholder(xs.shape[1:], str(xs.dtype), name="x")
    return _loop(f, init, dim_expr(xs.shape[0]), ((row, xs),))


def repeat(f: Callable[[Any], Any], init: Carry, steps: int) -> Carry:
    """The last carry of `carry = f(carry)`, so often."""
    return _loop(lambda carry, _: (f(carry), None), init, dim_expr(steps), ())[0]


def _loop(f: Any, init: Carry, trips: Any, parts: tuple[tuple[Tensor, Tensor], ...]) -> Any:
    carries = [te.placeholder(x.shape, str(x.dtype), name=f"{x.name}_t") for x in init]
    after, y = f(tuple(carries), *([row for row, _ in parts] or [None]))
    rows = [row for row, _ in parts]
    fixed = _captured([*after, *([] if y is None else [y])], [*carries, *rows])
    op = Loop(
        tuple([f"{x.name}_last" for x in init]), (*init, *[xs for _, xs in parts], *fixed),
        (Block((*carries, *rows, *fixed), tuple(after)),),
        counter=local_size("t", trips), trips=trips, carries=len(carries), scanned=len(parts),
    )  # fmt: skip
    return outputs(op), None if y is None else saved(op, y)


def _captured(found: list[Tensor], own: list[Tensor]) -> list[Tensor]:
    """Placeholders from outside that a body reads."""
    known = {id(t) for t in own}
    return [t for t in placeholders(found) if id(t) not in known]


@cache
def compiled(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step of a loop in Python, compiled: of a whole loop each iteration would be."""
    import torch

    made: Callable[..., Any] = torch.compile(step, dynamic=False)
    return made
