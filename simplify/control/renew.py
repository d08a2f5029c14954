"""New operations for each place where a block runs, calls among them opened: a tensor is one
buffer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tensorad.ir.analysis.blocks import block_ops, ops_between, saves_of, tells_trips
from tensorad.ir.arrays.checkpoints import Checkpoint
from tensorad.ir.arrays.elementwise import copied_from
from tensorad.ir.arrays.foreign import Foreign
from tensorad.ir.tensor import (
    Block,
    Compute,
    Constant,
    Control,
    FunctionCall,
    Op,
    Placeholder,
    Saved,
    Tensor,
    outputs,
)
from tensorad.simplify.formula.dataflow import on_fresh_axes, over_inputs

Image = dict[Tensor, Tensor]
Opens = Callable[[FunctionCall, Sequence[Tensor]], bool]
"""Whether a call is opened of whose inside these are saved."""


def renewed(
    block: Block,
    params: Sequence[Tensor],
    extra: Sequence[Tensor] = (),
    opens: Opens | None = None,
) -> Image:
    """Tensors of the block -> those of a copy over other params: its params, results, and `extra`.

    Calls are what their blocks compute, copies what they are copies of. Blocks of other operations
    are shared: they are copied when they are run.

    Args:
        opens: which calls; without it all that may be (`is_open`).
    """
    image: Image = dict(zip(block.params, params, strict=True))
    _copy(ops_between((*block.results, *extra), dict(image)), image, opens or is_open)
    return image


def without_calls(wanted: Sequence[Tensor], given: Collection[Tensor]) -> list[Tensor]:
    """The tensors, calls behind them being what their blocks compute.

    What is computed again is opened where it is the only checkpoint: it is not there already.
    """
    ops = ops_between(wanted, given)
    if not any(isinstance(op, FunctionCall) for op in ops):
        return list(wanted)
    image: Image = {t: t for t in given}
    points = [op for op in ops if isinstance(op, Checkpoint)]
    alone = points if len(points) == 1 else ()
    _copy(ops, image, lambda op, kept: is_open(op, kept, op in alone))
    return [image.get(t, t) for t in wanted]


class _Open(NamedTuple):
    """Operations that are being copied: of a call, unless they are the outermost ones."""

    rest: Iterator[Op]
    saves: dict[Control, list[Saved]]
    image: Image
    call: FunctionCall | None


def _copy(ops: Sequence[Op], image: Image, opens: Opens) -> None:
    """Add the tensors of copies of the operations, producers first."""
    stack = [_opened(ops, image, None)]
    while stack:
        at = stack[-1]
        op = next(at.rest, None)
        if op is None:
            stack.pop()
            if at.call is not None:
                _close(at.call, at.image, stack[-1])
        elif isinstance(op, FunctionCall) and opens(op, inner := _inner(at, op)):
            block = op.blocks[0]
            params = [at.image.get(t, t) for t in op.operands]
            inside: Image = dict(zip(block.params, params, strict=True))
            stack.append(_opened(block_ops(block, inner), inside, op))
        elif isinstance(op, Compute) and (source := copied_from(outputs(op)[0])) is not None:
            at.image.setdefault(outputs(op)[0], at.image.get(source, source))
        elif not isinstance(op, (Constant, Placeholder)) and any(
            t not in at.image for t in outputs(op)
        ):
            for old, new in zip(outputs(op), outputs(_renewed(op, at.image)), strict=True):
                at.image.setdefault(old, new)


def _opened(ops: Sequence[Op], image: Image, call: FunctionCall | None) -> _Open:
    return _Open(iter(ops), saves_of(ops), image, call)


def _inner(at: _Open, op: Control) -> list[Tensor]:
    return [s.inner for s in at.saves.get(op, ())]


def _close(call: FunctionCall, inside: Image, around: _Open) -> None:
    """The results of a call, and what is saved of it, are tensors of its copy."""
    pairs = [*zip(outputs(call), call.results, strict=True)]
    pairs += [(outputs(s)[0], s.inner) for s in around.saves.get(call, ())]
    for t, inner in pairs:
        around.image.setdefault(t, inside.get(inner, inner))


def is_open(op: FunctionCall, kept: Sequence[Tensor], alone: bool = False) -> bool:
    """Whether a call may stand among other operations as its block: what tells a size runs on its
    own, for the size is one, however often the function is called; so does Python's code, and what
    computes again, but `alone`."""
    if isinstance(op, Checkpoint) and op.again and not alone:
        return False
    ops = block_ops(op.blocks[0], kept)
    return not isinstance(op, Foreign) and not any(tells_trips(o) for o in ops)


def again(t: Tensor) -> Tensor:
    """The tensor, computed by another operation."""
    return outputs(_renewed(t.op, {}))[t.index]


def _renewed(op: Op, image: Image) -> Op:
    """Another operation that does the same with the images of its inputs."""
    made = over_inputs(op, image)
    return replace(on_fresh_axes(op)) if made is op else made
