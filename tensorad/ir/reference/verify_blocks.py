"""Invariants of operations with blocks: what they are given fits what the blocks take."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.ir.arrays.checkpoints import Checkpoint
from tensorad.ir.dtypes import BOOL, INT64
from tensorad.ir.expr import Expr, LocalSize
from tensorad.ir.order import sizes_in
from tensorad.ir.records import Field, Fields, Inject, Recursion, Tag, is_record
from tensorad.ir.tensor import Branch, Control, FunctionCall, Loop, Tensor, dim_expr
from tensorad.ir.text.printer import format_expr


class Broken(Exception):
    """A rule is broken; who asked adds the IR."""


def require(holds: bool, rule: str, at: Expr | None = None) -> None:
    """A rule, and the expression that has to keep it."""
    if not holds:
        raise Broken(rule if at is None else f"{rule}\n  in: {format_expr(at)}")


def same_shape(t: Tensor, shape: Sequence[object]) -> bool:
    """Whether a tensor has these extents."""
    if len(shape) != t.ndim:
        return False
    return all(
        a is b or (isinstance(a, int) and isinstance(b, int) and a == b)
        for a, b in zip(t.shape, shape, strict=True)
    )


def verify_blocks(op: Control) -> None:
    """Check an operation with blocks, not what is inside of them."""
    match op:
        case FunctionCall():
            require(len(op.blocks) == 1, "a call has one block")
            _verify_given(op.blocks[0].params, op.operands)
            if isinstance(op, Checkpoint):
                require(0 <= op.keeps <= len(op.results), "a checkpoint keeps what it has not")
        case Branch():
            index, *operands = op.operands
            require(not index.shape and not index.dtype.is_float, "a branch is chosen by an array")
            for block in op.blocks:
                _verify_given(block.params, operands)
                _verify_given(block.results, op.blocks[0].results)
        case Loop():
            _verify_loop(op)
        case Tag() | Fields():
            (handle,) = op.operands
            require(is_record(handle.dtype) and not handle.shape, "a tensor that is no record")
        case Inject():
            _verify_fields(op.operands, op.variant.fields)
        case Recursion():
            _verify_call(op)
        case _:
            raise Broken(f"unknown operation {type(op).__name__}")
    require(len(op.names) > 0, "an operation with blocks has no output")
    require(len(op.names) == len(op.results), "names do not fit the results of the blocks")
    for block in op.blocks:
        distinct = len(dict.fromkeys(block.params)) == len(block.params)
        require(distinct, "a block is given a tensor twice")


def _verify_fields(values: Sequence[Tensor], fields: Sequence[Field]) -> None:
    require(len(values) == len(fields), "values do not fit the fields of a variant")
    for t, f in zip(values, fields, strict=True):
        fits = t.dtype is f.dtype and same_shape(t, f.shape)
        require(fits, f"{t.name} has another shape or dtype than the field {f.name}")


def _verify_call(op: Recursion) -> None:
    d = op.definition
    for s in sizes_in(*[dim_expr(n) for p in d.params for n in p.shape]):
        is_given = not isinstance(s, LocalSize) or s in dict.fromkeys(d.sizes)
        require(is_given, "a param has a size that no call gives", s)
    for e in op.sizes:
        require(e.dtype is INT64, "the value of a size is not an int64 expression", e)
    for params, given in ((d.params, op.operands), (d.types, d.block.results)):
        require(len(params) == len(given), "operands do not fit the params of a definition")
    for p, t in zip(d.params, op.operands, strict=True):
        fits = p.dtype is t.dtype and same_shape(t, op.here(p.shape))
        require(fits, f"{p.name} has another shape or dtype than {t.name}")
    _verify_fields(d.block.results, d.types)


def _verify_loop(op: Loop) -> None:
    body, *tests = op.blocks
    last = op.carries + op.scanned
    require(op.carries > 0, "a loop has no carry")
    require(len(tests) < 2, "a loop has more than a body and a test")
    _verify_given(body.results, body.params[: op.carries])
    require(len(body.params) == len(op.operands), "operands do not fit the params of a block")
    fixed = (*op.operands[: op.carries], *op.operands[last:])
    kept = (*body.params[: op.carries], *body.params[last:])
    _verify_given(kept, fixed)
    for part, t in zip(body.params[op.carries : last], op.operands[op.carries : last], strict=True):
        rows = t.ndim > 0 and dim_expr(t.shape[0]) is op.trips
        require(rows, f"{t.name} has not a part for each iteration")
        require(part.dtype is t.dtype and same_shape(part, t.shape[1:]), f"{part.name} is no part")
    for test in tests:
        _verify_given(test.params, fixed)
        (ends,) = test.results if len(test.results) == 1 else (None,)
        is_bool = ends is not None and ends.dtype is BOOL and not ends.shape
        require(is_bool, "a test has not one bool as result")
        require(
            op.count is None and not op.reverse, "a loop with a test has a count or a direction"
        )
    if op.count is not None:
        whole = not op.count.shape and op.count.dtype.is_integer
        require(whole, "the number of iterations is no integer")
    own = isinstance(op.trips, LocalSize) and op.trips.extent is None
    counted = bool(tests) or op.count is not None
    require(own or not counted, "trips that only the run tells are no size of the loop's own")
    require(op.counter.extent is op.trips, "a counter is not below the number of iterations")


def _verify_given(params: Sequence[Tensor], operands: Sequence[Tensor]) -> None:
    require(len(params) == len(operands), "operands do not fit the params of a block")
    for p, t in zip(params, operands, strict=True):
        fits = p.dtype is t.dtype and same_shape(p, t.shape)
        require(fits, f"{p.name} has another shape or dtype than {t.name}")
