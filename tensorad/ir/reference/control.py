"""The reference semantics of calls, branches and loops: block after block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from tensorad.errors import InternalError
from tensorad.ir.arrays.foreign import Foreign
from tensorad.ir.expr import Expr
from tensorad.ir.records import Fields, Inject, Recursion, Tag
from tensorad.ir.reference.records import Record, handle
from tensorad.ir.tensor import Branch, Control, FunctionCall, Loop, Saved, Tensor, outputs

Array = np.ndarray[Any, np.dtype[Any]]
Scope = dict[Expr, Any]
Arrays = dict[Tensor, Array]


@dataclass(frozen=True)
class Interpreter:
    """What blocks are evaluated with.

    Attributes:
        evaluate: (tensors, what is given, sizes) -> their elements.
        unset: an array of a tensor's shape without values, at these sizes.
        value: the value of an expression of sizes.
    """

    evaluate: Callable[[Sequence[Tensor], Arrays, Scope], list[Array]]
    unset: Callable[[Tensor, Scope], Array]
    value: Callable[[Expr, Scope], int]


def run_control(
    op: Control, arrays: Mapping[Tensor, Array], kept: Sequence[Saved], sizes: Scope,
    interpreter: Interpreter,
) -> Arrays:  # fmt: skip
    """The outputs, and what is saved of the inside.

    Args:
        arrays: the operands.
        sizes: values of sizes; a loop's number of iterations is added.
    """
    match op:
        case Foreign():
            return _run_foreign(op, arrays, sizes, interpreter)
        case FunctionCall():
            return _run_block(op, 0, [arrays[t] for t in op.operands], kept, sizes, interpreter)
        case Branch():
            index, *operands = [arrays[t] for t in op.operands]
            n = min(max(int(index), 0), len(op.blocks) - 1)
            found = _run_block(op, n, operands, kept, sizes, interpreter)
            missing = [outputs(s)[0] for s in kept if s.block != n]
            return found | {t: interpreter.unset(t, sizes) for t in missing}
        case Loop():
            return _run_loop(op, arrays, kept, sizes, interpreter)
        case Inject():
            values = tuple([arrays[t] for t in op.operands])
            return {outputs(op)[0]: handle(Record(op.dtype, op.tag, values))}
        case Tag():
            return {outputs(op)[0]: np.array(arrays[op.operands[0]].item().tag)}
        case Fields():
            record = arrays[op.operands[0]].item()
            if record.tag != op.tag:
                raise InternalError(f"{record!r} is read as variant {op.tag}")
            return dict(zip(outputs(op), record.values, strict=True))
        case Recursion():
            block = op.definition.block
            given_to = dict(zip(block.params, [arrays[t] for t in op.operands], strict=True))
            own = dict(sizes)
            for s, e in zip(op.definition.sizes, op.sizes, strict=True):
                own[s] = interpreter.value(e, sizes)
            made = interpreter.evaluate(block.results, given_to, own)
            return dict(zip(outputs(op), made, strict=True))
    raise InternalError(f"{type(op).__name__} has no meaning")


def _run_block(
    op: Control, n: int, operands: Sequence[Array], kept: Sequence[Saved], sizes: Scope,
    interpreter: Interpreter,
) -> Arrays:  # fmt: skip
    block = op.blocks[n]
    own = [s for s in kept if s.block == n]
    given = dict(zip(block.params, operands, strict=True))
    values = interpreter.evaluate((*block.results, *[s.inner for s in own]), given, sizes)
    made = (*outputs(op), *[outputs(s)[0] for s in own])
    return dict(zip(made, values, strict=True))


def _run_foreign(
    op: Foreign, arrays: Mapping[Tensor, Array], sizes: Scope, interpreter: Interpreter
) -> Arrays:
    """The results of a function of Python, given arrays of the dtypes it is declared with."""
    made = {t: interpreter.unset(t, sizes) for t in outputs(op)}
    given = [np.array(arrays[t], dtype=str(t.dtype)) for t in op.operands]
    results = op.run(given, [a.shape for a in made.values()])
    for whole, result in zip(made.values(), results, strict=True):
        whole[...] = result
    return made


def _run_loop(
    op: Loop, arrays: Mapping[Tensor, Array], kept: Sequence[Saved], sizes: Scope,
    interpreter: Interpreter,
) -> Arrays:  # fmt: skip
    body, *tests = op.blocks
    last = op.carries + op.scanned
    carries = [arrays[t] for t in op.operands[: op.carries]]
    scanned = [arrays[t] for t in op.operands[op.carries : last]]
    fixed = [arrays[t] for t in op.operands[last:]]
    found: dict[int, list[Array]] = {}
    for n in _counter_values(op, arrays, sizes, interpreter):
        own = {**sizes, op.counter: n}
        if tests:
            given = dict(zip(tests[0].params, (*carries, *fixed), strict=True))
            if not interpreter.evaluate(tests[0].results, given, own)[0]:
                break
        parts = [a[n, ...] for a in scanned]
        given = dict(zip(body.params, (*carries, *parts, *fixed), strict=True))
        wanted = (*body.results, *[s.inner for s in kept])
        values = interpreter.evaluate(wanted, given, own)
        carries, found[n] = values[: op.carries], values[op.carries :]
    if tests or op.count is not None:
        sizes[op.trips] = len(found)
    made = dict(zip(outputs(op), carries, strict=True))
    for k, s in enumerate(kept):
        (t,) = outputs(s)
        made[t] = interpreter.unset(t, sizes)
        for n, values in found.items():
            made[t][n, ...] = values[k]
    return made


def _counter_values(
    op: Loop, arrays: Mapping[Tensor, Array], sizes: Scope, interpreter: Interpreter
) -> Iterable[int]:
    """In order; without end where a condition ends the loop."""
    if len(op.blocks) > 1:
        return count()
    n = interpreter.value(op.trips, sizes) if op.count is None else int(arrays[op.count])
    return reversed(range(n)) if op.reverse else range(n)
