"""Which values are finite, and of which sign, if all that is read is: facts that follow from
formulas alone. Overflow and underflow are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tensorad.ir.elementary.table import FUNCTIONS, Sign
from tensorad.ir.expr import (
    ROUNDING,
    TRUE,
    ZERO,
    Apply,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    Param,
    Read,
    Reduce,
    Select,
    Size,
)
from tensorad.ir.order import postorder
from tensorad.ir.tensor import Compute, Constant, Control, Op, Saved, Scan, Scatter, Tensor, outputs
from tensorad.ir.visit import op_inputs, reads, topological_ops
from tensorad.process import memo


class Value(NamedTuple):
    """What is known of a value where everything read is finite."""

    sign: Sign
    is_finite: bool


_UNKNOWN = Value(Sign.ANY, False)
_NUMBER = Value(Sign.ANY, True)
_known: WeakKeyDictionary[Op, tuple[Value, ...]] = memo(WeakKeyDictionary())


def may_be_infinite(e: Expr) -> bool:
    """Whether a float formula may be infinite or NaN where all inputs of the program are finite."""
    return not value_of(e).is_finite


def value_of(e: Expr) -> Value:
    """What is known of a formula, through the tensors that it reads."""
    return _of(e, {}, _tensors([r.tensor for r in reads(e)]))


def _tensors(wanted: Sequence[Tensor]) -> dict[Tensor, Value]:
    """What is known of tensors whose inputs, or params of their block, are finite."""
    found: dict[Op, tuple[Value, ...]] = {}

    def inputs(op: Op) -> Sequence[Tensor]:
        known = _known.get(op)
        if known is not None:
            found[op] = known
            return ()
        return op_inputs(op)

    for op in topological_ops(wanted, inputs_of=inputs):
        if op not in found:
            found[op] = _known[op] = _of_op(op, found)
    return {t: found[t.op][t.index] for t in wanted}


def _of_op(op: Op, found: Mapping[Op, tuple[Value, ...]]) -> tuple[Value, ...]:
    """What is known of the outputs of an operation whose inputs are known."""
    made = outputs(op)
    inputs = {t: found[t.op][t.index] for t in op_inputs(op)}
    match op:
        case Compute(bodies=bodies):
            return tuple([_of(b, {}, inputs) for b in bodies])
        case Constant(array=a):
            return (_of_array(a),)
        case Scatter():
            given = [_of(u.value, {}, inputs) for u in op.updates]
            started = op.init is None or inputs[op.init].is_finite
            folded = _folded(op.combiner.lhs, op.combiner.rhs, op.combiner.results, [_worst(given)])
            return (Value(Sign.ANY, started and folded[0].is_finite),)
        case Scan():
            given = [_of(e, {}, inputs) for e in op.sources]
            starts = [isinstance(e, Const) or _of(e, {}, inputs).is_finite for e in op.start]
            c = op.combiner
            whole = all(starts) and all(
                v.is_finite for v in _folded(c.lhs, c.rhs, c.results, given)
            )
            return tuple([Value(Sign.ANY, whole)] * len(made))
        case Control():
            ends = [t for b in op.blocks for t in b.results]
            whole = all(v.is_finite for v in (*inputs.values(), *_tensors(ends).values()))
            return tuple([Value(Sign.ANY, whole)] * len(made))
        case Saved(inner=t):
            whole = all(v.is_finite for v in (*inputs.values(), *_tensors([t]).values()))
            return (Value(Sign.ANY, whole),)
    return tuple([_NUMBER] * len(made))


def _of_array(a: np.ndarray) -> Value:
    if a.dtype.kind != "f":
        return _NUMBER
    sign = Sign.POSITIVE if (a > 0).all() else Sign.NONNEGATIVE if (a >= 0).all() else Sign.ANY
    return Value(sign, bool(np.isfinite(a).all()))


def _of(root: Expr, given: Mapping[Expr, Value], tensors: Mapping[Tensor, Value]) -> Value:
    """What is known of a formula.

    Args:
        given: of params.
        tensors: of all that it reads.
    """
    found: dict[Expr, Value] = dict(given)
    for e in postorder(root):
        if e.dtype.is_float and e not in found:
            found[e] = _node(e, found, tensors)
    return found.get(root, _NUMBER)


def _node(e: Expr, found: Mapping[Expr, Value], tensors: Mapping[Tensor, Value]) -> Value:
    match e:
        case Const(value=v):
            sign = Sign.POSITIVE if v > 0 else Sign.NONNEGATIVE if v >= 0 else Sign.ANY
            return Value(sign, bool(np.isfinite(v)))
        case Read(tensor=t):
            return tensors[t]
        case Param():
            return _NUMBER
        case Cast(value=v):
            return found.get(v, _NUMBER)
        case Select(then=a, orelse=b):
            return _worst([found[a], found[b]])
        case Reduce():
            return _of_reduction(e, found)
        case Apply(function=f):
            values = [found.get(a, _NUMBER) for a in e.args]
            return _of(f.result, dict(zip(f.params, values, strict=True)), {})
        case Call(op=op) if op in FUNCTIONS:
            return _of_function(op, [found[a] for a in e.args])
        case Call():
            return _of_operation(e, [found.get(a, _NUMBER) for a in e.args])
    return _UNKNOWN


def _worst(values: Sequence[Value]) -> Value:
    if not values:
        return _NUMBER
    return Value(min(v.sign for v in values), all(v.is_finite for v in values))


def _of_function(name: str, args: Sequence[Value]) -> Value:
    row = FUNCTIONS[name]
    least = min(a.sign for a in args)
    is_finite = row.finite_from is not None and least >= row.finite_from
    sign = max(row.sign, least) if row.keeps_sign else row.sign
    return Value(sign, is_finite and all(a.is_finite for a in args))


def _of_operation(e: Call, args: Sequence[Value]) -> Value:
    """An operation that is no function of the table."""
    is_finite = all(a.is_finite for a in args)
    least, most = min(a.sign for a in args), max(a.sign for a in args)
    match e.op:
        case "add":
            return Value(most if least >= Sign.NONNEGATIVE else Sign.ANY, is_finite)
        case "mul":
            square = max(least, Sign.NONNEGATIVE) if e.args[0] is e.args[1] else least
            return Value(square, is_finite)
        case "div":
            b = e.args[1]
            divides = args[1].sign is Sign.POSITIVE or (isinstance(b, Const) and b.value != 0)
            return Value(least, is_finite and divides)
        case "maximum":
            return Value(most, is_finite)
        case "minimum":
            return Value(least, is_finite)
        case "abs":
            return Value(max(least, Sign.NONNEGATIVE), is_finite)
        case "pow":
            return _of_power(e.args[1], args)
        case "sub" | "neg" | "sign":
            return Value(Sign.ANY, is_finite)
        case op if op in ROUNDING:
            return Value(min(least, Sign.NONNEGATIVE), is_finite)
    return _UNKNOWN


def _of_power(exponent: Expr, args: Sequence[Value]) -> Value:
    base, n = args
    if base.sign is Sign.POSITIVE:
        return Value(Sign.POSITIVE, base.is_finite and n.is_finite)
    if not isinstance(exponent, Const) or not 0 <= exponent.value < inf:
        return _UNKNOWN
    whole = exponent.value == int(exponent.value)
    even = whole and int(exponent.value) % 2 == 0
    sign = max(base.sign, Sign.NONNEGATIVE) if even else base.sign
    return Value(sign, base.is_finite and (whole or base.sign >= Sign.NONNEGATIVE))


def _of_reduction(e: Reduce, found: Mapping[Expr, Value]) -> Value:
    """A fold; of no elements it is the identity."""
    given = [found.get(s, _NUMBER) for s in e.sources]
    c = e.combiner
    value = _folded(c.lhs, c.rhs, c.results, given)[e.index]
    if e.condition is TRUE and all(map(_has_values, e.axes)):
        return value
    identity = c.identity[e.index]
    zero = isinstance(identity, Const) and identity.value >= 0
    return Value(min(value.sign, Sign.NONNEGATIVE) if zero else Sign.ANY, value.is_finite)


def _has_values(a: Axis) -> bool:
    """Whether an axis has values: a size counts as positive."""
    if a.extent is not None:
        return a.extent > 0
    return a.lower is ZERO and isinstance(a.upper, Size)


def _folded(
    lhs: Sequence[Param], rhs: Sequence[Param], results: Sequence[Expr], given: Sequence[Value]
) -> list[Value]:
    """The state of a fold: of its elements' signs where a step keeps them."""
    elements = [*given, *[_NUMBER] * (len(rhs) - len(given))]
    signed = [elements[n] if n < len(elements) else _NUMBER for n in range(len(lhs))]
    for state in (signed, [_NUMBER] * len(lhs)):
        params: dict[Expr, Value] = dict(zip(lhs, state, strict=True))
        params.update(zip(rhs, elements, strict=True))
        found = [_of(r, params, {}) for r in results]
        if all(f.sign >= s.sign for f, s in zip(found, state, strict=True)):
            return [Value(s.sign, f.is_finite) for f, s in zip(found, state, strict=True)]
    return [_UNKNOWN] * len(results)
