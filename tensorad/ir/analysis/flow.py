"""Which operands a derivative flows through, which values its partials mention, how often a fold
is walked again: what the yardstick of `tensorad.bound` knows of calculus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorad.ir.combiner import Combiner
from tensorad.ir.expr import (
    ROUNDING,
    ZERO,
    Apply,
    Call,
    Cast,
    Const,
    Expr,
    Param,
    Reduce,
    Select,
    add,
)
from tensorad.ir.functions import flowing_args
from tensorad.ir.tensor import Scan, Tensor

_FLAT: Final = frozenset((*ROUNDING, "sign"))
"""Operations whose derivative is zero wherever it exists."""
LINEAR: Final = frozenset(("add", "sub", "neg"))
_CHOICES: Final = frozenset(("minimum", "maximum"))


def flow(e: Expr) -> Sequence[Expr]:
    """The operands whose change changes `e` smoothly."""
    if not e.dtype.is_float:
        return ()
    match e:
        case Select():
            return (e.then, e.orelse)
        case Cast():
            return (e.value,) if e.value.dtype.is_float else ()
        case Call():
            return () if e.op in _FLAT else e.args
        case Apply():
            return flowing_args(e)
        case Reduce():
            return [e.sources[n] for n in flowing_components(e.combiner, [e.index])]
    return ()


def values_in_partials(e: Expr, active: Mapping[Expr, None]) -> Sequence[Expr]:
    """The operands whose values the partial derivatives of `e` mention."""
    match e:
        case Select():
            return (e.cond,)
        case Reduce():
            used = flowing_components(e.combiner, [e.index])
            return (e.condition, *e.sources) if walks(e.combiner, used) else (e.condition,)
        case Call() if e.op in ("mul", "div"):
            left, right = e.args
            if e.op == "div":
                return e.args if right in active else (right,)
            return [v for v, other in ((left, right), (right, left)) if other in active]
        case Call(op="fmod"):
            return e.args if e.args[1] in active else ()
        case Call() if e.op not in LINEAR:
            return e.args
        case Apply():
            return e.args
    return ()


def flowing_components(c: Combiner, wanted: Sequence[int]) -> list[int]:
    """The components of the operands that the wanted results depend on smoothly.

    Elements of a step that are no states of their own have no component.
    """
    lhs: dict[Expr, int] = {p: n for n, p in enumerate(c.lhs)}
    rhs: dict[Expr, int] = {p: n for n, p in enumerate(c.rhs)}
    found: dict[int, None] = {}
    by_number = len(c.lhs) == len(c.rhs)
    stack = [n for n in wanted if c.identity[n].dtype.is_float]
    while stack:
        n = stack.pop()
        if n in found:
            continue
        found[n] = None
        for e in _reached(c.results[n]):
            if e in lhs or (by_number and e in rhs):
                stack.append(lhs[e] if e in lhs else rhs[e])
    return sorted(found)


def _reached(root: Expr) -> list[Expr]:
    """Nodes along `flow`."""
    done: dict[Expr, None] = {}
    stack = [root]
    while stack:
        e = stack.pop()
        if e not in done:
            done[e] = None
            stack.extend(flow(e))
    return list(done)


def walks(c: Combiner, components: Sequence[int]) -> int:
    """How often a fold is walked again for its derivative: 0 for sums, 1 for selections, 2."""
    if all(_adds(c, n) for n in components):
        return 0
    return 1 if all(_selects(c.results[n]) for n in components) else 2


def scanned(op: Scan, heads: Sequence[Tensor]) -> list[Expr]:
    """The starts, then the sources, that the states in `heads` depend on smoothly."""
    used = flowing_components(op.combiner, [t.index % op.combiner.arity for t in heads])
    reached: dict[Expr, None] = {}
    for n in used:
        reached.update(dict.fromkeys(_reached(op.combiner.results[n])))
    state = dict.fromkeys(used)
    starts = [e if n in state else ZERO for n, e in enumerate(op.start)]
    elements = zip(op.combiner.rhs, op.sources, strict=True)
    return [*starts, *[e for p, e in elements if p in reached]]


def _adds(c: Combiner, n: int) -> bool:
    if n >= len(c.rhs):
        return False
    x, y, result = c.lhs[n], c.rhs[n], c.results[n]
    return result is add(x, y) or result is add(y, x)


def _selects(result: Expr) -> bool:
    """Whether the result always is one of the operands."""
    return all(
        isinstance(e, (Param, Select, Const)) or (isinstance(e, Call) and e.op in _CHOICES)
        for e in _reached(result)
    )
