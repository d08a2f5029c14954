"""Where an expression can be nonzero: index conditions are lifted out of products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Apply,
    Call,
    Cast,
    Const,
    Expr,
    Reduce,
    Select,
    cast,
    const,
    div,
    logical_and,
    logical_not,
    mul,
    neg,
    select,
)
from tensorad.ir.functions import is_stop, stop
from tensorad.ir.order import AXIS, DATA, FLOAT, INDICATOR, READ, REDUCE, SELECT, SIZE, occurs
from tensorad.ir.visit import conjuncts, outside_reductions, rebuild


def rewrite_outside(root: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """Apply a rule to the nodes that are not below a reduction, operands first."""
    new: dict[Expr, Expr] = {}
    for e in outside_reductions((root,)):
        rebuilt = e if isinstance(e, Reduce) else rebuild(e, new)
        image = rule(rebuilt)
        new[e] = rebuilt if image is None else image
    return new[root]


def is_index_condition(e: Expr) -> bool:
    """Whether a condition speaks of axes and sizes only, not of data."""
    return not occurs(READ | REDUCE | FLOAT, e) and occurs(AXIS | SIZE, e)


def is_static(e: Expr) -> bool:
    """Whether axes, sizes and constant tables decide an index or a condition."""
    return not occurs(REDUCE | FLOAT | DATA, e)


def guarded(condition: Expr, value: Expr) -> Expr:
    """value where the condition holds, otherwise 0.

    A condition that reads data is evaluated only where the conditions before it hold (its
    reads may be out of bounds elsewhere): each gets a select of its own.
    """
    zero = const(0, value.dtype)
    index, data = split_condition(condition)
    for part in reversed(data):
        value = select(part, value, zero)
    return select(index, value, zero)


def both(condition: Expr, data: Sequence[Expr]) -> Expr:
    """condition and all of `data`, each evaluated only where those before it hold."""
    result: Expr = TRUE
    for part in reversed(data):
        result = part if result is TRUE else select(part, result, FALSE)
    if condition is TRUE or result is TRUE:
        return logical_and(condition, result)
    return select(condition, result, FALSE)


def split_condition(condition: Expr) -> tuple[Expr, list[Expr]]:
    """(the conjunction of the parts on indices, the parts on data in order)."""
    index: Expr = TRUE
    data: list[Expr] = []
    for part in conjuncts(condition):
        if is_index_condition(part):
            index = logical_and(index, part)
        else:
            data.append(part)
    return index, data


def is_zero(e: Expr) -> bool:
    """The constant 0 (of either sign)."""
    return isinstance(e, Const) and e.value == 0


def lift(root: Expr) -> tuple[Expr, Expr]:
    """root -> (condition, value) with root = value where the condition holds, otherwise 0.

    Only index conditions are lifted; conditions on data stay where they are.
    """
    if not occurs(SELECT | INDICATOR, root):
        return TRUE, root
    lifted: dict[Expr, tuple[Expr, Expr]] = {}
    for e in outside_reductions((root,), _lift_operands):
        lifted[e] = _lift_node(e, lifted)
    return lifted[root]


def switches(root: Expr) -> list[Select]:
    """The selects that switch the value, or a term of it, to 0: not those inside functions."""
    found: dict[Select, None] = {}
    seen: dict[Expr, None] = {}
    stack = [root]
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen[e] = None
        stack.extend(_lift_operands(e))
        if isinstance(e, Select) and (is_zero(e.then) or is_zero(e.orelse)):
            found[e] = None
        elif isinstance(e, Select):
            stack.extend((e.then, e.orelse))
        elif isinstance(e, Call) and e.op in ("add", "sub"):
            stack.extend(e.args)
    return list(found)


def _lift_operands(e: Expr) -> tuple[Expr, ...]:
    match e:
        case Call(op="mul"):
            return e.args
        case Call(op="div" | "neg"):
            return e.args[:1]
        case Select(then=a, orelse=b):
            return (a,) if is_zero(b) else (b,) if is_zero(a) else ()
        case Cast(value=v) if v.dtype is not BOOL:
            return (v,)
        case Apply(function=f) if is_stop(f):
            return e.args
    return ()


def _lift_node(e: Expr, lifted: dict[Expr, tuple[Expr, Expr]]) -> tuple[Expr, Expr]:
    match e:
        case Call(op="mul", args=(a, b)):
            (p, x), (q, y) = lifted[a], lifted[b]
            return logical_and(p, q), mul(x, y)
        case Call(op="div", args=(a, b)):
            p, x = lifted[a]
            return p, div(x, b)
        case Call(op="neg", args=(a,)):
            p, x = lifted[a]
            return p, neg(x)
        case Select(cond=c, then=a, orelse=b) if is_zero(b):
            return _lift_select(c, *lifted[a])
        case Select(cond=c, then=a, orelse=b) if is_zero(a):
            return _lift_select(logical_not(c), *lifted[b])
        case Cast(value=v) if v.dtype is BOOL:
            return _lift_select(v, TRUE, const(1, e.dtype))
        case Cast(value=v):
            p, x = lifted[v]
            return p, cast(x, e.dtype)
        case Apply(function=f, args=(a,)) if is_stop(f):
            p, x = lifted[a]
            return p, stop(x, f.name)
    return TRUE, e


def _lift_select(c: Expr, p: Expr, x: Expr) -> tuple[Expr, Expr]:
    index, data = split_condition(c)
    return logical_and(index, p), guarded(logical_and(*data), x)


def summands(root: Expr) -> list[tuple[int, Expr]]:
    """root as a signed sum of terms that are not sums: [(+1 or -1, term)]."""
    terms: list[tuple[int, Expr]] = []
    stack = [(1, root)]
    while stack:
        sign, e = stack.pop()
        match e:
            case Call(op="add", args=(a, b)):
                stack += [(sign, b), (sign, a)]
            case Call(op="sub", args=(a, b)):
                stack += [(-sign, b), (sign, a)]
            case Call(op="neg", args=(a,)):
                stack.append((-sign, a))
            case _:
                terms.append((sign, e))
    return terms
