"""The only traversals: post-order, rewriting, substitution, and the order of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_not
from typing import Any, Final
from weakref import WeakKeyDictionary

from tensorad.errors import InternalError
from tensorad.ir.expr import (
    FALSE,
    FUNCTIONS,
    TRUE,
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
    add,
    axis,
    call,
    cast,
    const,
    div,
    logical_and,
    logical_not,
    logical_or,
    mul,
    read,
    reduce_expr,
    select,
    sub,
)
from tensorad.ir.order import AXIS, PARAM, READ, REDUCE, above, occurs
from tensorad.ir.order import axes_in as axes_in
from tensorad.ir.order import children as children
from tensorad.ir.order import outside_reductions as outside_reductions
from tensorad.ir.order import params_in as params_in
from tensorad.ir.order import postorder as postorder
from tensorad.ir.order import reads as reads
from tensorad.ir.order import sizes_in as sizes_in
from tensorad.ir.tensor import (
    Compute,
    Control,
    Op,
    Placeholder,
    Saved,
    Scan,
    Scatter,
    Tensor,
    outputs,
)
from tensorad.process import memo

Rule = Callable[[Expr], Expr | None]


def needs(
    roots: Sequence[Expr],
    order: Sequence[Expr],
    narrow: Callable[[Expr, Expr], Expr] | None = None,
    follow: Callable[[Expr], Sequence[Expr]] = children,
    where: Expr = TRUE,
) -> dict[Expr, Expr]:
    """The condition under which each node of `order` (see `outside_reductions`) is used.

    Args:
        narrow: narrow(need of a select, condition of one side) -> need of that side; `and_then`
            by default.
        where: the need of the roots.
    """
    need: dict[Expr, Expr] = dict.fromkeys(roots, where)
    narrow = narrow or and_then
    for e in reversed(order):
        here = need[e]
        if isinstance(e, Reduce):
            continue
        operands = follow(e)
        sides = [(c, here) for c in operands]
        if isinstance(e, Select):
            wanted = dict.fromkeys(operands)
            sides = [(e.cond, here)] if e.cond in wanted else []
            sides += [(e.then, narrow(here, e.cond))] if e.then in wanted else []
            sides += [(e.orelse, narrow(here, logical_not(e.cond)))] if e.orelse in wanted else []
        for c, condition in sides:
            need[c] = either(need[c], condition) if c in need else condition
    return need


def and_then(first: Expr, second: Expr) -> Expr:
    """Both, the second evaluated only where the first holds."""
    return second if first is TRUE else select(first, second, FALSE)


def either(a: Expr, b: Expr) -> Expr:
    """a or b, TRUE for a condition and its opposite."""
    opposite = a is not TRUE and (logical_not(a) is b or logical_not(b) is a)
    return TRUE if opposite else logical_or(a, b)


FreshAxes = dict[tuple[Expr, ...], Axis]
"""(axis, its new bounds) -> the axis that replaces it: one for all components of a fold."""


def rebuild(e: Expr, new: Mapping[Expr, Expr], renewed: FreshAxes | None = None) -> Expr:
    """`e` over its operands' images in `new`, folded by the factories; `e` if none changed."""
    match e:
        case Call():
            args = tuple([new[a] for a in e.args])
            return fold_call(e, args) if any(map(is_not, args, e.args)) else e
        case Read():
            indices = tuple([new[i] for i in e.indices])
            return read(e.tensor, indices) if any(map(is_not, indices, e.indices)) else e
        case Const() | Axis() | Size() | Param():
            return e
        case Select():
            cond, then, orelse = new[e.cond], new[e.then], new[e.orelse]
            if cond is e.cond and then is e.then and orelse is e.orelse:
                return e
            return select(cond, then, orelse)
        case Cast():
            return e if new[e.value] is e.value else cast(new[e.value], e.dtype)
        case Apply():
            return Apply(e.dtype, e.function, tuple([new[a] for a in e.args]))
        case Reduce():
            return _rebuild_reduce(e, new, {} if renewed is None else renewed)
    raise InternalError(f"unknown expression class {type(e).__name__}")


_FOLDS: Final[Mapping[str, Callable[..., Expr]]] = {
    "add": add, "sub": sub, "mul": mul, "div": div, "and": logical_and, "or": logical_or,
    "not": logical_not,
}  # fmt: skip


def fold_call(e: Call, args: tuple[Expr, ...]) -> Expr:
    """The operation of `e` on other operands of the same dtypes."""
    op = e.op
    if args[0].dtype is e.args[0].dtype and args[-1].dtype is e.args[-1].dtype:
        if op in _FOLDS:  # nothing to promote
            return _FOLDS[op](*args)
        if op in FUNCTIONS:
            return Call(e.dtype, op, args)
    if op in ("floordiv", "mod") and isinstance(args[1], Const) and args[1].value == 0:
        return const(0, e.dtype)  # only a rewrite finds this divisor: the value at run time
    return call(e.op, *args)


def _rebuild_reduce(e: Reduce, new: Mapping[Expr, Expr], renewed: FreshAxes) -> Expr:
    """Axes whose bounds changed are replaced by fresh ones."""
    fresh: dict[Expr, Expr] = {}
    axes: list[Axis] = []
    for a in e.axes:
        bounds = [substitute(new[b], fresh) for b in (a.lower, a.upper, a.step)]
        if bounds[0] is a.lower and bounds[1] is a.upper and bounds[2] is a.step:
            axes.append(a)
        else:
            key = (a, *bounds)
            if key not in renewed:
                renewed[key] = axis(a.name, *bounds)
            axes.append(renewed[key])
            fresh[a] = axes[-1]
    sources, condition = tuple([new[s] for s in e.sources]), new[e.condition]
    if fresh:
        *renamed, condition = substitute_all((*sources, condition), fresh)
        sources = tuple(renamed)
    elif condition is e.condition and all(a is b for a, b in zip(sources, e.sources, strict=True)):
        return e
    return reduce_expr(e.combiner, sources, tuple(axes), condition, e.index)


def rewrite(root: Expr, rule: Rule, memo: dict[Expr, Expr] | None = None, kinds: int = 0) -> Expr:
    """Apply `rule` once to every node, operands first; None means "unchanged".

    Args:
        memo: carries results over several roots.
        kinds: a node that lacks one of them, here and below, is not asked about.
    """
    return rewrite_all((root,), rule, memo, kinds)[0]


def rewrite_all(
    roots: Sequence[Expr], rule: Rule, memo: dict[Expr, Expr] | None = None, kinds: int = 0
) -> tuple[Expr, ...]:
    """`rewrite` of several roots that share parts (components of one fold stay together)."""
    new: dict[Expr, Expr] = {} if memo is None else memo
    renewed: FreshAxes = {}

    def image(e: Expr) -> Expr:
        rebuilt = rebuild(e, new, renewed) if e.below else e
        changed = rule(rebuilt)
        return rebuilt if changed is None else changed

    _fill_images(roots, new, image, kinds)
    return tuple([new[r] for r in roots])


def rewriter(rule: Rule, kinds: int = 0) -> Callable[[Expr], Expr]:
    """`rewrite` by one rule, sharing its work between calls."""
    memo: dict[Expr, Expr] = {}
    return lambda root: rewrite(root, rule, memo, kinds)


def substitute(root: Expr, mapping: Mapping[Expr, Expr]) -> Expr:
    """`root` with whole nodes replaced, at once; what replaces them is not visited again."""
    return substitute_all((root,), mapping)[0]


def common_kinds(nodes: Iterable[Expr]) -> int:
    """The kinds that occur in all the nodes: what lacks one of them holds none of the nodes."""
    kinds = -1
    for e in nodes:
        kinds &= e.kinds
    return max(kinds, 0)


def substitute_all(roots: Sequence[Expr], mapping: Mapping[Expr, Expr]) -> tuple[Expr, ...]:
    """`substitute` for several roots that share parts (components of one fold stay together)."""
    if not mapping:
        return tuple(roots)
    kinds = common_kinds(mapping)
    if all(kinds & ~r.kinds for r in roots):
        return tuple(roots)
    new: dict[Expr, Expr] = dict(mapping)
    renewed: FreshAxes = {}

    def image(e: Expr) -> Expr:
        return rebuild(e, new, renewed) if e.below else e

    _fill_images(roots, new, image, kinds)
    return tuple([new[r] for r in roots])


def _fill_images(
    roots: Sequence[Expr],
    new: dict[Expr, Expr],
    image: Callable[[Expr], Expr],
    kinds: int = 0,
) -> None:
    """new[e] = image(e) for every node under the roots that has none, operands first.

    Args:
        kinds: a node that lacks one of them, here and below, is its own image.
    """
    stack: list[Any] = list(roots)
    pop, push = stack.pop, stack.append
    while stack:
        e = pop()
        if e is None:
            e = pop()
            new[e] = image(e)
        elif e in new:
            continue
        elif kinds & ~e.kinds:
            new[e] = e
        elif not e.below:
            new[e] = image(e)
        else:
            push(e)
            push(None)
            for c in e.below[::-1]:
                if c not in new:
                    push(c)


def reading(root: Expr, tensors: Mapping[Tensor, Tensor], memo: dict[Expr, Expr]) -> Expr:
    """`root` with the tensors it reads replaced by others of their shapes: nothing folds anew.

    Requires: no reductions under it.
    """

    def image(e: Expr) -> Expr:
        if isinstance(e, Read):
            return read(tensors[e.tensor], tuple([memo[i] for i in e.indices]))
        if isinstance(e, Call):
            return Call(e.dtype, e.op, tuple([memo[a] for a in e.args]))
        return rebuild(e, memo)

    _fill_images((root,), memo, image, READ)
    return memo[root]


def fresh_axes(axes: Sequence[Axis], outer: Mapping[Expr, Expr] | None = None) -> dict[Expr, Expr]:
    """New axes for a copy of a body, bounds rewritten with them (and with `outer`)."""
    mapping: dict[Expr, Expr] = dict(outer or {})
    for a in axes:
        lower, upper, step = (substitute(b, mapping) for b in (a.lower, a.upper, a.step))
        mapping[a] = axis(a.name, lower, upper, step)
    return mapping


def with_fresh_reductions(root: Expr) -> Expr:
    """A copy whose reductions bind axes of their own (two reductions never share an axis)."""
    if not root.kinds & REDUCE:
        return root
    return with_fresh_fold()(root)


def copy_bodies(
    axes: Sequence[Axis], bodies: Sequence[Expr]
) -> tuple[tuple[Axis, ...], tuple[Expr, ...]]:
    """The same formulas over fresh compute axes, with reductions of their own."""
    mapping = fresh_axes(axes)
    renew = with_fresh_fold()
    copies = tuple([renew(b) for b in substitute_all(bodies, mapping)])
    return tuple([_as_axis(mapping[a]) for a in axes]), copies


def with_fresh_fold() -> Callable[[Expr], Expr]:
    """A copier that keeps the components of one fold on the same fresh axes."""
    folds: dict[tuple[Axis, ...], dict[Expr, Expr]] = {}

    def renew(e: Expr) -> Expr | None:
        if not isinstance(e, Reduce):
            return None
        mapping = folds.setdefault(e.axes, {})
        if not mapping:
            mapping.update(fresh_axes(e.axes))
        *sources, condition = substitute_all((*e.sources, e.condition), mapping)
        axes = tuple([_as_axis(mapping[a]) for a in e.axes])
        return reduce_expr(e.combiner, tuple(sources), axes, condition, e.index)

    return rewriter(renew, REDUCE)


def _as_axis(e: Expr) -> Axis:
    if not isinstance(e, Axis):
        raise InternalError(f"{e} should be an axis")
    return e


def free_leaves(*roots: Expr) -> dict[Expr, None]:
    """Axes and parameters used under `roots` but not bound by a reduction inside them."""
    free: dict[Expr, dict[Expr, None]] = {}
    order = above(AXIS | PARAM, *roots)
    if not occurs(REDUCE, *roots):
        return {e: None for e in order if type(e) is Axis or type(e) is Param}
    for e in order:
        if isinstance(e, (Axis, Param)):
            free[e] = {e: None}
            continue
        found: dict[Expr, None] = {}
        for c in e.below:
            found.update(free.get(c, {}))
        if isinstance(e, Reduce):
            for a in e.axes:
                found.pop(a, None)
        free[e] = found
    result: dict[Expr, None] = {}
    for r in roots:
        result.update(free.get(r, {}))
    return result


def uses_any(root: Expr, leaves: Iterable[Expr]) -> bool:
    """Whether one of the leaves (axes, parameters, sizes) occurs under `root`."""
    wanted = dict.fromkeys(leaves)
    kinds = 0
    for e in wanted:
        kinds |= e.kinds
    return bool(kinds & root.kinds) and any(e in wanted for e in above(kinds, root))


def conjuncts(condition: Expr) -> list[Expr]:
    """The parts of a conjunction, left to right, without TRUE."""
    parts: list[Expr] = []
    stack = [condition]
    while stack:
        e = stack.pop()
        if isinstance(e, Call) and e.op == "and":
            stack.extend(reversed(e.args))
        elif not (isinstance(e, Const) and e.value):
            parts.append(e)
    return parts


def op_expressions(op: Op) -> tuple[Expr, ...]:
    """Every expression an operation evaluates."""
    if isinstance(op, Compute):
        return op.bodies
    if isinstance(op, Scatter):
        return tuple(e for u in op.updates for e in (*u.indices, u.value, u.condition))
    if isinstance(op, Scan):
        return (*op.start, op.condition, *op.sources, *op.indices, *(op.cell or ()))
    return ()


def loop_bounds(op: Op) -> tuple[Expr, ...]:
    """The bounds of an operation's own loops that come from data."""
    axes = op.axes if isinstance(op, Scatter) else op.scope if isinstance(op, Scan) else ()
    return tuple([b for a in axes for b in (a.lower, a.upper, a.step) if b.kinds & READ])


_inputs: WeakKeyDictionary[Op, tuple[Tensor, ...]] = memo(WeakKeyDictionary())


def op_inputs(op: Op) -> tuple[Tensor, ...]:
    """The distinct tensors an operation reads, in order of first use."""
    known = _inputs.get(op)
    if known is None:
        found: dict[Tensor, None] = {}
        if isinstance(op, Scatter) and op.init is not None:
            found[op.init] = None
        if isinstance(op, (Control, Saved)):
            before = op.inputs if isinstance(op, Control) else outputs(op.control)
            found.update(dict.fromkeys(before))
        read_in = reads(*op_expressions(op), *loop_bounds(op))
        found.update(dict.fromkeys([r.tensor for r in read_in]))
        known = _inputs[op] = tuple(found)
    return known


def topological_ops(
    roots: Iterable[Tensor],
    stop: Iterable[Op] = (),
    inputs_of: Callable[[Op], Sequence[Tensor]] = op_inputs,
) -> list[Op]:
    """The operations `roots` depend on, producers first; `stop` operations are not entered."""
    done: dict[Op, None] = {}
    inputs: dict[Op, list[Op]] = {}
    stopped = dict.fromkeys(stop)
    stack = [t.op for t in roots][::-1]
    while stack:
        op = stack[-1]
        if op in done:
            stack.pop()
            continue
        if op not in inputs:
            inputs[op] = [] if op in stopped else [t.op for t in inputs_of(op)]
        missing = [o for o in inputs[op] if o not in done]
        if missing:
            stack.extend(reversed(missing))
        else:
            done[op] = None
            stack.pop()
    return list(done)


def placeholders(roots: Iterable[Tensor]) -> list[Tensor]:
    """The placeholders the tensors depend on, in order of first use."""
    return [outputs(op)[0] for op in topological_ops(roots) if isinstance(op, Placeholder)]
