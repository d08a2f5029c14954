"""Whether programs are in A-normal form: every value is bound once, before what reads it."""

from __future__ import annotations

from collections.abc import Collection

from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Tensor
from tensorad.ir.text.program import (
    Bind,
    Define,
    Field,
    NameTree,
    Program,
    ProgramFunction,
    Run,
    Scope,
    tree_leaves,
)
from tensorad.ir.visit import op_inputs


def check_normal_form(p: Program) -> None:
    """All functions: verified tensors, operands that are names, names defined above."""
    for f in p.functions:
        verify(tree_leaves(f.results))
        params = {n: tree for n, tree in f.params if isinstance(tree, Tensor)}
        known = {n for n, _ in f.params} | set(p.constants)
        constants = dict.fromkeys(p.constants.values(), "")
        _check(f.scope, known, {t: n for n, t in params.items()} | constants)


def _check(s: Scope, given: Collection[str], tensors: dict[Tensor, str]) -> None:
    known = set(given)
    seen = dict(tensors)

    def reads(value: NameTree) -> None:
        for n in tree_leaves(value):
            assert n in known, f"{n} is read before it is defined"

    for b in s.bindings:
        if isinstance(b, Define):
            made = b.names
            for t in op_inputs(b.tensors[0].op):
                assert t in seen or t.is_constant, f"{made} reads {t.name}, which has no name here"
        elif isinstance(b, Run):
            made = b.names
            for o in b.operands:
                reads(o.value)
            reads(b.given or ())
            for inner in b.scopes:
                own = {o.name or str(o.value) for o in b.operands}
                inside = {t: n for t, n in inner.names.items() if n in own}
                _check(inner, own | {n for t, n in seen.items() if t.is_constant}, inside)
        else:
            made = (b.name,)
            reads(b.value if isinstance(b, Bind) else b.of)
        assert not known & set(made), f"{made} is bound twice"
        known.update(made)
        seen.update({t: n for t, n in s.names.items() if n in made})
    for value in s.results:
        reads(value)


def counts(f: ProgramFunction) -> tuple[int, int]:
    """How many bindings there are, and how many of them only give parts other names."""
    some = f.scope.bindings
    return len(some), sum(isinstance(b, (Bind, Field)) for b in some)
