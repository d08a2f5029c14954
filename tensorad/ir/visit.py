"""The only traversals: post-order, rewriting, substitution, and the order of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_not
from typing import Final

from tensorad.errors import InternalError
from tensorad.ir.expr import (
    FALSE,
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
    axis,
    call,
    cast,
    const,
    logical_and,
    logical_not,
    logical_or,
    read,
    reduce_expr,
    select,
)
from tensorad.ir.tensor import Compute, Op, Scan, Scatter, Tensor

Rule = Callable[[Expr], Expr | None]


_LEAVES: Final = frozenset((Const, Axis, Size, Param))


def children(e: Expr) -> tuple[Expr, ...]:
    """Direct operands; a reduction's include the bounds of its axes."""
    kind = type(e)
    if kind in _LEAVES:  # the commonest first: this runs for every node of every traversal
        return ()
    match e:
        case Call():
            return e.args
        case Read():
            return e.indices
        case Select():
            return (e.cond, e.then, e.orelse)
        case Cast():
            return (e.value,)
        case Apply():
            return e.args
        case Reduce():
            bounds = [b for a in e.axes for b in (a.lower, a.upper, a.step)]
            return (*bounds, e.condition, *e.sources)
    raise InternalError(f"unknown expression class {kind.__name__}")


def postorder(*roots: Expr) -> list[Expr]:
    """Every distinct node under `roots`, operands before users, left to right."""
    done: dict[Expr, None] = {}
    entered: dict[Expr, None] = {}
    stack: list[Expr] = list(reversed(roots))
    while stack:
        e = stack[-1]
        if e in done:
            stack.pop()
            continue
        if type(e) not in _LEAVES and e not in entered:
            entered[e] = None
            missing = [c for c in children(e) if c not in done]
            if missing:
                stack.extend(reversed(missing))
                continue
        done[e] = None
        stack.pop()
    return list(done)


def outside_reductions(
    roots: Sequence[Expr], follow: Callable[[Expr], Sequence[Expr]] = children
) -> list[Expr]:
    """Post-order along `follow` of the nodes at the roots' own level; reductions are leaves."""
    done: dict[Expr, None] = {}
    stack = list(reversed(roots))
    while stack:
        e = stack[-1]
        if e in done:
            stack.pop()
            continue
        missing = () if isinstance(e, Reduce) else [c for c in follow(e) if c not in done]
        if missing:
            stack.extend(reversed(missing))
        else:
            done[e] = None
            stack.pop()
    return list(done)


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


def fold_call(e: Call, args: tuple[Expr, ...]) -> Expr:
    """The operation of `e` on other operands of the same dtypes."""
    if e.op == "and":
        return logical_and(*args)
    if e.op == "or":
        return logical_or(*args)
    if e.op == "not":
        return logical_not(args[0])
    if e.op in ("floordiv", "mod") and isinstance(args[1], Const) and args[1].value == 0:
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


def rewrite(root: Expr, rule: Rule, memo: dict[Expr, Expr] | None = None) -> Expr:
    """Apply `rule` once to every node, operands first; None means "unchanged".

    `memo` carries results over several roots.
    """
    new: dict[Expr, Expr] = {} if memo is None else memo
    renewed: FreshAxes = {}

    def image(e: Expr) -> Expr:
        rebuilt = e if type(e) in _LEAVES else rebuild(e, new, renewed)
        changed = rule(rebuilt)
        return rebuilt if changed is None else changed

    _fill_images((root,), new, image)
    return new[root]


def substitute(root: Expr, mapping: Mapping[Expr, Expr]) -> Expr:
    """`root` with whole nodes replaced, at once; what replaces them is not visited again."""
    return substitute_all((root,), mapping)[0]


def substitute_all(roots: Sequence[Expr], mapping: Mapping[Expr, Expr]) -> tuple[Expr, ...]:
    """`substitute` for several roots that share parts (components of one fold stay together)."""
    if not mapping:
        return tuple(roots)
    new: dict[Expr, Expr] = dict(mapping)
    renewed: FreshAxes = {}
    _fill_images(roots, new, lambda e: e if type(e) in _LEAVES else rebuild(e, new, renewed))
    return tuple([new[r] for r in roots])


def _fill_images(
    roots: Sequence[Expr], new: dict[Expr, Expr], image: Callable[[Expr], Expr]
) -> None:
    """new[e] = image(e) for every node under the roots that has none, operands first."""
    entered: dict[Expr, None] = {}
    stack = list(roots)
    while stack:
        e = stack[-1]
        if e in new:
            stack.pop()
            continue
        if type(e) not in _LEAVES and e not in entered:
            entered[e] = None
            missing = [c for c in children(e) if c not in new]
            if missing:
                stack.extend(reversed(missing))
                continue
        new[e] = image(e)
        stack.pop()


def fresh_axes(axes: Sequence[Axis], outer: Mapping[Expr, Expr] | None = None) -> dict[Expr, Expr]:
    """New axes for a copy of a body, bounds rewritten with them (and with `outer`)."""
    mapping: dict[Expr, Expr] = dict(outer or {})
    for a in axes:
        lower, upper, step = (substitute(b, mapping) for b in (a.lower, a.upper, a.step))
        mapping[a] = axis(a.name, lower, upper, step)
    return mapping


def with_fresh_reductions(root: Expr) -> Expr:
    """A copy whose reductions bind axes of their own (two reductions never share an axis)."""
    if not any_node(root, lambda e: isinstance(e, Reduce)):
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
    memo: dict[Expr, Expr] = {}
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

    return lambda root: rewrite(root, renew, memo)


def _as_axis(e: Expr) -> Axis:
    if not isinstance(e, Axis):
        raise InternalError(f"{e} should be an axis")
    return e


def any_node(root: Expr, test: Callable[[Expr], bool]) -> bool:
    """Whether some node under `root` passes the test."""
    return any(test(e) for e in postorder(root))


def free_leaves(*roots: Expr) -> dict[Expr, None]:
    """Axes and parameters used under `roots` but not bound by a reduction inside them."""
    free: dict[Expr, dict[Expr, None]] = {}
    for e in postorder(*roots):
        if isinstance(e, (Axis, Param)):
            free[e] = {e: None}
            continue
        found: dict[Expr, None] = {}
        for c in children(e):
            found.update(free[c])
        if isinstance(e, Reduce):
            for a in e.axes:
                found.pop(a, None)
        free[e] = found
    result: dict[Expr, None] = {}
    for r in roots:
        result.update(free[r])
    return result


def uses_any(root: Expr, leaves: Iterable[Expr]) -> bool:
    """Whether one of the leaves (axes, parameters, sizes) occurs under `root`."""
    wanted = dict.fromkeys(leaves)
    return any(e in wanted for e in postorder(root))


def reads(*roots: Expr) -> list[Read]:
    """The distinct reads, in post-order."""
    return [e for e in postorder(*roots) if isinstance(e, Read)]


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


def op_inputs(op: Op) -> list[Tensor]:
    """The distinct tensors an operation reads, in order of first use."""
    found: dict[Tensor, None] = {}
    if isinstance(op, Scatter) and op.init is not None:
        found[op.init] = None
    found.update(dict.fromkeys(r.tensor for r in reads(*op_expressions(op))))
    return list(found)


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
