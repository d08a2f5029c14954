"""Orders of the nodes of formulas, and which kinds of nodes occur in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorad.ir.nodes import APPLY as APPLY
from tensorad.ir.nodes import AXIS as AXIS
from tensorad.ir.nodes import CONDITION as CONDITION
from tensorad.ir.nodes import DATA as DATA
from tensorad.ir.nodes import FLOAT as FLOAT
from tensorad.ir.nodes import INDEX as INDEX
from tensorad.ir.nodes import INDICATOR as INDICATOR
from tensorad.ir.nodes import PARAM as PARAM
from tensorad.ir.nodes import READ as READ
from tensorad.ir.nodes import REDUCE as REDUCE
from tensorad.ir.nodes import SELECT as SELECT
from tensorad.ir.nodes import SIZE as SIZE
from tensorad.ir.nodes import Axis, Expr, Param, Size
from tensorad.ir.references import Read, Reduce


def children(e: Expr) -> tuple[Expr, ...]:
    """Direct operands; a reduction's include the bounds of its axes."""
    return e.below


def postorder(*roots: Expr) -> list[Expr]:
    """Every distinct node under `roots`, operands before users, left to right."""
    done: dict[Expr, None] = {}
    stack: list[Any] = list(roots[::-1])
    pop, push = stack.pop, stack.append
    while stack:
        e = pop()
        if e is None:  # the operands of the node below it are done
            done[pop()] = None
        elif e not in done:
            if not e.below:
                done[e] = None
                continue
            push(e)
            push(None)
            for c in e.below[::-1]:
                if c not in done:
                    push(c)
    return list(done)


def postorder_along(
    roots: Sequence[Expr], follow: Callable[[Expr], Sequence[Expr]]
) -> dict[Expr, None]:
    """`postorder` where the operands of a node are those that `follow` gives."""
    done: dict[Expr, None] = {}
    stack: list[Any] = list(roots[::-1])
    pop, push = stack.pop, stack.append
    while stack:
        e = pop()
        if e is None:
            done[pop()] = None
        elif e not in done:
            push(e)
            push(None)
            for c in follow(e)[::-1]:
                if c not in done:
                    push(c)
    return done


def outside_reductions(
    roots: Sequence[Expr], follow: Callable[[Expr], Sequence[Expr]] = children
) -> list[Expr]:
    """Post-order along `follow` of the nodes at the roots' own level; reductions are leaves."""
    if follow is children and not occurs(REDUCE, *roots):
        return postorder(*roots)
    return list(postorder_along(roots, lambda e: () if type(e) is Reduce else follow(e)))


def above(kinds: int, *roots: Expr) -> list[Expr]:
    """The nodes of `postorder` that are of one of these kinds, or have such a node below."""
    done: dict[Expr, None] = {}
    stack: list[Any] = [r for r in roots[::-1] if r.kinds & kinds]
    pop, push = stack.pop, stack.append
    while stack:
        e = pop()
        if e is None:
            done[pop()] = None
        elif e not in done:
            push(e)
            push(None)
            for c in e.below[::-1]:
                if c.kinds & kinds and c not in done:
                    push(c)
    return list(done)


def occurs(kinds: int, *roots: Expr) -> bool:
    """Whether a node of one of these kinds is under the roots."""
    found = 0
    for r in roots:
        found |= r.kinds
    return bool(found & kinds)


def reads(*roots: Expr) -> list[Read]:
    """The distinct reads, in post-order."""
    return [e for e in above(READ, *roots) if isinstance(e, Read)]


def params_in(*roots: Expr) -> list[Param]:
    """The distinct operands of combiners, in post-order."""
    return [e for e in above(PARAM, *roots) if isinstance(e, Param)]


def axes_in(*roots: Expr) -> list[Axis]:
    """The distinct axes, in post-order."""
    return [e for e in above(AXIS, *roots) if isinstance(e, Axis)]


def sizes_in(*roots: Expr) -> list[Size]:
    """The distinct symbolic sizes, in post-order."""
    return [e for e in above(SIZE, *roots) if isinstance(e, Size)]


def any_node(root: Expr, test: Callable[[Expr], bool]) -> bool:
    """Whether some node under `root` passes the test."""
    return any(test(e) for e in postorder(root))
