"""Scalar functions with derivatives of their own: a formula for the value, a rule for partials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Final, Literal
from weakref import WeakKeyDictionary

from tensorad.ir.dtypes import DType, to_dtype
from tensorad.ir.expr import Apply, Const, Expr, Reduce, const, param, reduce_expr
from tensorad.ir.nominal import Combiner
from tensorad.ir.nominal import Function as Function
from tensorad.ir.nominal import Partials as Partials
from tensorad.ir.order import APPLY, REDUCE, any_node, occurs
from tensorad.ir.rebuild import map_op
from tensorad.ir.tensor import Op, Scan, Scatter
from tensorad.ir.visit import op_expressions, rewrite, substitute
from tensorad.process import memo


def apply(function: Function, args: tuple[Expr, ...]) -> Expr:
    """function(args); the arguments have the dtypes of the function's parameters."""
    if is_stop(function) and isinstance(args[0], Const):
        return args[0]
    if is_stop(function) and isinstance(args[0], Apply) and args[0].function is function:
        return args[0]
    return Apply(function.result.dtype, function, args)


def partials_at(e: Apply) -> Partials:
    """The partial derivatives at a use of a function."""
    value, partials = e.function.partials()
    at: dict[Expr, Expr] = {value: e}
    at.update(zip(e.function.params, e.args, strict=True))
    return tuple([None if p is None else substitute(p, at) for p in partials])


def flowing_args(e: Apply) -> tuple[Expr, ...]:
    """The arguments that a derivative flows to."""
    partials = e.function.partials()[1]
    return tuple([a for a, p in zip(e.args, partials, strict=True) if p is not None])


Mode = Literal["forward", "reverse"]
STOPS: Final[dict[str, tuple[Mode, ...]]] = {
    "stop_gradient": ("forward", "reverse"),
    "stop_forward": ("forward",),
    "stop_reverse": ("reverse",),
}
"""How texts call x itself as a constant of derivatives, and in which modes it is one."""


@cache
def stop_function(dtype: DType, name: str = "stop_gradient") -> Function:
    """x with derivative zero in the modes of the name, 1 in others."""
    x = param("x", dtype)
    one = None if len(STOPS[name]) > 1 else const(1, dtype)
    return Function(
        name,
        (x,),
        x,
        lambda value, params: (one,),
        other=lambda dtypes, like: stop_function(dtypes[0], name),
    )


def is_stop(function: Function) -> bool:
    """Whether the function is `stop_gradient`, in any mode."""
    return function.name in STOPS and function is stop_function(
        function.result.dtype, function.name
    )


def is_stopped(e: Expr, mode: Mode) -> bool:
    """Whether an expression is a constant in one mode."""
    return isinstance(e, Apply) and is_stop(e.function) and mode in STOPS[e.function.name]


def stops_one_mode(roots: Iterable[Expr]) -> bool:
    """Whether part of the expressions is a constant in one mode, and none in the other."""

    def found(e: Expr) -> bool:
        return isinstance(e, Apply) and is_stop(e.function) and len(STOPS[e.function.name]) == 1

    return any(occurs(APPLY, e) and any_node(e, found) for e in roots)


def stop(x: Expr, name: str = "stop_gradient") -> Expr:
    """x as a constant of derivatives; integers and booleans are constants already."""
    if not x.dtype.is_float:
        return x
    made = apply(stop_function(to_dtype(x.dtype), name), (x,))
    return Apply(x.dtype, made.function, made.args) if isinstance(made, Apply) else made


def value_at(e: Apply) -> Expr:
    """The function's formula with the arguments in place, free of functions of its own."""
    function = e.function
    result = inline_functions(function.result)
    return substitute(result, dict(zip(function.params, e.args, strict=True)))


def inline_functions(root: Expr) -> Expr:
    """f(a) -> the formula of f at a, everywhere: what is computed when nothing differentiates."""
    return rewrite(root, _inline) if _may_use(root) else root


def _may_use(root: Expr) -> bool:
    return occurs(APPLY | REDUCE, root) and any_node(root, _uses_functions)


def _uses_functions(e: Expr) -> bool:
    if isinstance(e, Reduce):
        return plain_combiner(e.combiner) is not e.combiner
    return isinstance(e, Apply)


def _inline(e: Expr) -> Expr | None:
    if isinstance(e, Apply):
        return value_at(e)
    if isinstance(e, Reduce) and _uses_functions(e):
        return reduce_expr(plain_combiner(e.combiner), e.sources, e.axes, e.condition, e.index)
    return None


_plain_combiners: WeakKeyDictionary[Combiner, list[Combiner]] = WeakKeyDictionary()
_plain_ops: WeakKeyDictionary[Op, list[Op]] = memo(WeakKeyDictionary())
"""Lists: empty where nothing is to be inlined (an entry must not keep its own key alive)."""


def plain_combiner(c: Combiner) -> Combiner:
    """The combiner with every function inlined; `c` itself if it uses none."""
    if c not in _plain_combiners:
        results = tuple([inline_functions(r) for r in c.results])
        same = all(a is b for a, b in zip(results, c.results, strict=True))
        _plain_combiners[c] = [] if same else [replace(c, results=results)]
    known = _plain_combiners[c]
    return known[0] if known else c


def without_functions(op: Op) -> Op:
    """The operation with every function inlined; `op` itself if it uses none."""
    known = _plain_ops.get(op)
    if known is None:
        changed = _without_functions(op)
        known = _plain_ops[op] = [] if changed is op else [changed]
    return known[0] if known else op


def _without_functions(op: Op) -> Op:
    roots = op_expressions(op)
    folds = isinstance(op, (Scatter, Scan)) and plain_combiner(op.combiner) is not op.combiner
    if not folds and not any(map(_may_use, roots)):
        return op
    memo: dict[Expr, Expr] = {}

    def plain(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple([rewrite(e, _inline, memo) for e in exprs])

    return map_op(op, plain, combiner=plain_combiner)
