"""Orders of nodes and the kinds below them, against walks that look at every node."""

from __future__ import annotations

from collections.abc import Callable

from tensorad.ir import order
from tensorad.ir.expr import Apply, Axis, Call, Cast, Expr, Param, Read, Reduce, Select, Size
from tensorad.ir.tensor import Constant
from tensorad.ir.visit import op_expressions, topological_ops
from tests.random.generators import random_program, random_symbolic_program


def is_integer_call(e: Expr) -> bool:
    """Whether integers or conditions are all that an operation takes."""
    return isinstance(e, Call) and not any(x.dtype.is_float for x in (e, *e.args))


KINDS: dict[int, Callable[[Expr], bool]] = {
    order.AXIS: lambda e: isinstance(e, Axis),
    order.SIZE: lambda e: isinstance(e, Size),
    order.PARAM: lambda e: isinstance(e, Param),
    order.READ: lambda e: isinstance(e, Read),
    order.DATA: lambda e: isinstance(e, Read) and not isinstance(e.tensor.op, Constant),
    order.REDUCE: lambda e: isinstance(e, Reduce),
    order.SELECT: lambda e: isinstance(e, Select),
    order.INDICATOR: lambda e: isinstance(e, Cast) and e.value.dtype.kind == "bool",
    order.APPLY: lambda e: isinstance(e, Apply),
    order.FLOAT: lambda e: e.dtype.is_float,
    order.INDEX: lambda e: is_integer_call(e),
    order.CONDITION: lambda e: is_integer_call(e) and not e.dtype.is_integer,
}


def operands(e: Expr) -> list[Expr]:
    """The operands, read off the fields."""
    if isinstance(e, Axis):
        return []
    if isinstance(e, Reduce):
        return [*[b for a in e.axes for b in (a.lower, a.upper, a.step)], e.condition, *e.sources]
    found: list[Expr] = []
    for name in type(e).__match_args__:
        value = getattr(e, name)
        found += [v for v in (*value,) if isinstance(v, Expr)] if isinstance(value, tuple) else []
        found += [value] if isinstance(value, Expr) else []
    return found


def walked(e: Expr, done: dict[Expr, None]) -> dict[Expr, None]:
    """Post-order by recursion."""
    if e not in done:
        for c in operands(e):
            walked(c, done)
        done[e] = None
    return done


def test_kinds_and_orders_of_random_programs() -> None:
    seen = 0
    for seed in range(16):
        make = random_program if seed % 2 else random_symbolic_program
        for op in topological_ops(make(seed).tensors):
            for root in op_expressions(op):
                nodes = list(walked(root, {}))
                assert list(map(id, order.postorder(root))) == list(map(id, nodes))
                for kind, test in KINDS.items():
                    assert order.occurs(kind, root) == any(map(test, nodes))
                    seen |= root.kinds & kind
                    above = {e for e in nodes if any(map(test, walked(e, {})))}
                    assert list(map(id, order.above(kind, root))) == [
                        id(e) for e in nodes if e in above
                    ]
    assert seen & order.DATA and seen & order.REDUCE and seen & order.SELECT and seen & order.SIZE
