"""Looking through loop programs: the statements of a block, what they evaluate and set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tensorad.codegen.loops.ir import Assign, Check, Fold, For, If, Prefetch, Stmt, Store, Visit
from tensorad.errors import InternalError
from tensorad.ir.expr import Expr, Param
from tensorad.ir.order import reads
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import params_in


def statements(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Every statement of a block, outer ones first."""
    stack = list(body)[::-1]
    while stack:
        s = stack.pop()
        yield s
        if isinstance(s, (For, If)):
            stack.extend(reversed(inside(s)))


def nested(body: Sequence[Stmt]) -> Iterator[tuple[Stmt, tuple[For | If, ...]]]:
    """Every statement of a block, with the loops and branches around it, outermost first."""
    stack: list[tuple[Stmt, tuple[For | If, ...]]] = [(s, ()) for s in reversed(body)]
    while stack:
        s, around = stack.pop()
        yield s, around
        if isinstance(s, (For, If)):
            stack.extend([(c, (*around, s)) for c in reversed(inside(s))])


def blocks(s: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The blocks of a statement: that of a loop, or those on both sides of a branch."""
    if isinstance(s, For):
        return (s.body,)
    return (s.then, s.orelse) if isinstance(s, If) else ()


def inside(s: Stmt) -> tuple[Stmt, ...]:
    """What stands in the blocks of a statement."""
    if isinstance(s, For):
        return s.body
    return (*s.then, *s.orelse) if isinstance(s, If) else ()


def direct(body: Sequence[Stmt]) -> list[Stmt]:
    """The statements that are not inside further loops or branches."""
    return [s for s in body if not isinstance(s, (For, If))]


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """What a statement itself evaluates (not the statements inside it)."""
    match s:  # the most frequent first
        case Fold() | Assign():
            return s.values
        case Store():
            return (*s.indices, *s.values)
        case For():
            return (s.axis.lower, s.axis.upper, s.axis.step)
        case If():
            return (s.cond,)
        case Check():
            return (s.index, s.extent)
        case Prefetch():
            return s.indices
        case Visit():
            return ()
    raise InternalError(f"unknown statement {type(s).__name__}")


def all_expressions(body: Iterable[Stmt]) -> list[Expr]:
    """What statements evaluate themselves."""
    return [e for s in body for e in expressions(s)]


def places(body: Iterable[Stmt]) -> Iterator[tuple[Tensor, tuple[Expr, ...]]]:
    """What statements store themselves, and what they read, with the indices."""
    every = list(body)
    for s in every:
        if isinstance(s, Store):
            yield from [(t, s.indices) for t in s.tensors]
    for e in reads(*all_expressions(every)):
        yield e.tensor, e.indices


def targets(body: Iterable[Stmt]) -> dict[Param, None]:
    """The scalars that statements set."""
    return {p: None for s in body if isinstance(s, (Assign, Fold)) for p in s.targets}


def params_of(s: Stmt) -> list[Param]:
    """Scalars a statement itself reads or writes."""
    found = params_in(*expressions(s))
    return [*found, *s.targets] if isinstance(s, (Assign, Fold)) else found
