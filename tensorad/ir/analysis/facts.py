"""What is known about symbolic sizes beyond n >= 0; facts hold for the whole process."""

from __future__ import annotations

from collections.abc import Iterable

from tensorad.errors import DefinitionError
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import Call, Cast, Const, Expr, LocalSize, Select, Size, call
from tensorad.ir.order import sizes_in
from tensorad.ir.visit import conjuncts, postorder

_facts: dict[Expr, tuple[Size, ...]] = {}
"""Each fact with the sizes it mentions, in the order they were assumed."""


def assume(condition: object) -> None:
    """Promise that `condition` holds for the sizes of every call; a call checks it.

    Raises:
        DefinitionError: not a condition over sizes, or one that never holds.
    """
    if not isinstance(condition, Expr) or condition.dtype is not BOOL:
        if condition is True:
            return
        kind = condition.dtype if isinstance(condition, Expr) else type(condition).__name__
        raise DefinitionError(
            f"assume needs a condition over sizes, got {kind}.",
            where=f"assume({condition})",
            hint='compare sizes, e.g. n = size("n"); assume(2*n <= m).',
        )
    for part in conjuncts(condition):
        _facts[part] = _sizes_of(part)


def _sizes_of(fact: Expr) -> tuple[Size, ...]:
    nodes = postorder(fact)
    for e in nodes:
        if not isinstance(e, (Size, Const, Call, Cast, Select)):
            raise DefinitionError(
                f"assume takes conditions over sizes only, but {e} is none.",
                where=f"assume({fact})",
                hint="state conditions of an index with where= or select(...).",
            )
    sizes = tuple([e for e in nodes if isinstance(e, Size)])
    if not sizes:
        raise DefinitionError(
            "assume was given a condition that never holds.",
            where=f"assume({fact})",
            hint='compare sizes, e.g. n = size("n"); assume(2*n <= m).',
        )
    return sizes


def facts_about(sizes: Iterable[Expr]) -> tuple[Expr, ...]:
    """The facts that mention one of the sizes, or a size linked to one by another fact.

    Counters are below their extents.
    """
    known = dict.fromkeys(sizes)
    local = _local_facts(known)
    if not known or not _facts:
        return local
    found: dict[Expr, None] = {}
    grew = True
    while grew:
        grew = False
        for fact, mentioned in _facts.items():
            if fact not in found and any(s in known for s in mentioned):
                found[fact] = None
                known.update(dict.fromkeys(mentioned))
                grew = True
    return (*local, *[f for f in _facts if f in found])


def _local_facts(known: dict[Expr, None]) -> tuple[Expr, ...]:
    """Counters are below their extents, whose sizes become known, too."""
    found: list[Expr] = []
    stack = list(known)
    while stack:
        e = stack.pop()
        if isinstance(e, LocalSize) and e.extent is not None:
            found.append(call("lt", e, e.extent))
            more = [s for s in sizes_in(e.extent) if s not in known]
            known.update(dict.fromkeys(more))
            stack += more
    return tuple(found)


def forget_facts() -> None:
    """Drop everything assumed (for tests: facts belong to the process)."""
    _facts.clear()
