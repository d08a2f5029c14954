"""One more function of a program: the bindings of another one, and what is computed from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from operator import is_

from tensorad.ir.analysis.blocks import ops_between
from tensorad.ir.arrays.foreign import Foreign
from tensorad.ir.expr import Read, Size
from tensorad.ir.tensor import Compute, FunctionCall, Placeholder, Tensor, outputs, saved
from tensorad.ir.text.listing import Lister, Own, name_fields, saves_behind, signature_of
from tensorad.ir.text.names import Names
from tensorad.ir.text.program import (
    Bind,
    Binding,
    Define,
    Field,
    NameTree,
    Program,
    ProgramFunction,
    Run,
    Scope,
    Tree,
    forest_leaves,
    shaped,
    tree_leaves,
)
from tensorad.ir.text.trampoline import Steps, run
from tensorad.ir.visit import op_inputs

Step = tuple[str, Tree]
"""A value under its name."""


def continued(
    p: Program,
    f: ProgramFunction,
    name: str,
    steps: Sequence[Step],
    returned: tuple[NameTree, Tree],
    params: Sequence[tuple[str, Tree]] = (),
) -> Program:
    """The program with one more function: what it needs of the bindings of `f`, then `steps`.

    What else the steps are computed from is bound before the first that needs it.

    Args:
        f: a function of `p`.
        name: of the new function; `p` has none of this name.
        steps: values to be bound in this order; numbered where `f` has their names.
        returned: what is returned beside the result of `f`, by names of steps.
        params: further parameters.
    """
    given = (*f.params, *params)
    made = (f.results, returned[1])
    roots = forest_leaves([made, *[tree for _, tree in steps]])
    saves = saves_behind(roots, forest_leaves([tree for _, tree in given]))
    lister = _Continuing(saves, p)
    lister.function_names.counts.setdefault(name, 1)
    called, scope, sizes = run(lister.bindings(f, params, steps, roots, returned[0]))
    results = (f.scope.results[0], called)
    whole = Scope(scope.bindings, (results,), scope.names)
    new = ProgramFunction(name, given, made, whole, sizes)
    return Program((*lister.program.functions, new), lister.constants)


class _Continuing(Lister):
    """Lists what is added to records that are there.

    Attributes:
        tuples: tuples that were bound, by name.
        places: parts of these: the name of the tuple, and where in it.
    """

    tuples: dict[str, Tree]
    places: dict[Tensor, tuple[str, tuple[int, ...]]]

    def bindings(
        self,
        f: ProgramFunction,
        params: Sequence[tuple[str, Tree]],
        steps: Sequence[Step],
        roots: Sequence[Tensor],
        returned: NameTree,
    ) -> Steps[tuple[NameTree, Scope, Mapping[Size, str]]]:
        """What is returned by its names, all bindings, names of sizes."""
        self.tuples, self.places = {}, {}
        called = {tree: n for n, tree in steps if isinstance(tree, Tensor)}
        inner = {t: f"{n}_{'_'.join(map(str, at))}" for n, tree in steps for at, t in parts(tree)}
        own = Own(Names(_names_of(f)), dict(f.sizes), inner | called)
        names = dict(f.scope.names)
        listed: list[Binding] = []
        for n, tree in params:
            name_fields(n, tree, own.names, names, listed)
        for b in needed_bindings(f, roots):
            kept = b
            if isinstance(b, Run):
                kept = yield self.extended(own, names, b)
            listed.append(kept)
        self.name_params(f, own, names, roots, listed)
        result: dict[str, str] = {}
        for n, tree in steps:
            result[n] = yield self.step(own, names, n, tree, listed)
        return _renamed(returned, result), Scope(tuple(listed), (), names), own.sizes

    def name_params(
        self, f: ProgramFunction, own: Own, names: dict[Tensor, str], roots: Sequence[Tensor],
        listed: list[Binding],
    ) -> None:  # fmt: skip
        """Names for the parts of parameters of which only copies have some."""
        inputs = [t for op in ops_between(roots, names) for t in outputs(op)]
        unnamed = dict.fromkeys([t for t in inputs if isinstance(t.op, Placeholder)])
        for n, tree in f.params:
            if any(t in unnamed for t in tree_leaves(tree)):
                name_fields(n, tree, own.names, names, listed)

    def step(
        self, own: Own, names: dict[Tensor, str], name: str, tree: Tree, listed: list[Binding]
    ) -> Steps[str]:
        """Bind one value; its name."""
        if isinstance(tree, Tensor):
            if tree not in names:
                yield self.define(own, names, tree, listed)
            return names[tree]
        value: NameTree | None = self.copied(names, tree)
        if value is None:
            values = []
            for _, t in parts(tree):
                source = _source(t)
                known = source if t not in names and source in names else t
                if known not in names:
                    yield self.define(own, names, known, listed)
                values.append(names[known])
            value = shaped(tree, iter(values))
        called = own.names.unique(name)
        listed.append(Bind(called, value, tree))
        self.tuples[called] = tree
        for at, t in parts(tree):
            self.places.setdefault(t, (called, at))
        return called

    def copied(self, names: Mapping[Tensor, str], tree: Tree) -> str | None:
        """The tuple that a tuple is a plain copy of."""
        leaves = [t for _, t in parts(tree)]
        sources = [s for t in leaves if t not in names and (s := _source(t)) is not None]
        places = [self.places.get(s) for s in sources]
        if len(places) < len(leaves) or not places or places[0] is None:
            return None
        whole = places[0][0]
        same = places == [(whole, at) for at, _ in parts(tree)]
        return whole if same and _shape(tree) == _shape(self.tuples[whole]) else None

    def define(
        self, own: Own, names: dict[Tensor, str], t: Tensor, listed: list[Binding]
    ) -> Steps[None]:
        """Bind a tensor by its formula, after all that it is computed from."""
        source = _source(t)
        if source in self.places and source not in names:
            self.field(own, names, t, self.places[source], listed)
            return
        for op in ops_between([t], names):
            for part in outputs(op):
                if part in self.places and part not in names:
                    self.field(own, names, part, self.places[part], listed)
        scope = yield self.scope(own, names, (), (t,), listed)
        listed[:] = scope.bindings

    def field(
        self, own: Own, names: dict[Tensor, str], t: Tensor, place: tuple[str, tuple[int, ...]],
        listed: list[Binding],
    ) -> None:  # fmt: skip
        """Bind a part of a tuple, after the tuples in the tuple that have it."""
        whole, at = place
        for n in at[:-1]:
            inner = self.tuples[whole]
            assert isinstance(inner, tuple), "a part of it is a tuple"
            part = own.names.unique(f"{whole}_{n}")
            listed.append(Field(part, whole, n, inner[n]))
            self.tuples[part] = inner[n]
            whole = part
        (called,) = own.name((t,), names)
        listed.append(Field(called, whole, at[-1], t))

    def extended(self, own: Own, names: dict[Tensor, str], b: Run) -> Steps[Run]:
        """A call, branch or loop, with all that is seen of its inside."""
        op = b.control
        if isinstance(op, Foreign):
            return b
        wanted = [self.saves.inside(op, n) for n in range(len(op.blocks))]
        if isinstance(op, FunctionCall):
            f = self.functions[b.function or op.function]
            callee = yield self.version(f, signature_of(f))
            inside = [callee.scope.names]
            changed = replace(b, function=callee.name)
        else:
            scopes: list[Scope] = []
            for scope, some in zip(b.scopes, wanted, strict=True):
                made = yield self.extended_scope(own, scope, some)
                scopes.append(made)
            inside = [s.names for s in scopes]
            same = all(map(is_, scopes, b.scopes))
            changed = b if same else replace(b, scopes=tuple(scopes))
        return _with_saves(own, names, changed, wanted, inside)

    def extended_scope(self, own: Own, scope: Scope, wanted: Sequence[Tensor]) -> Steps[Scope]:
        """A block with all that is seen of it, and of the blocks inside of it."""
        names = dict(scope.names)
        listed: list[Binding] = []
        for b in scope.bindings:
            kept = b
            if isinstance(b, Run):
                kept = yield self.extended(own, names, b)
            listed.append(kept)
        if all(map(is_, listed, scope.bindings)) and all(t in names for t in wanted):
            return scope
        whole = yield self.scope(own, names, (), wanted, listed)
        return Scope(whole.bindings, scope.results, names)


def _with_saves(
    own: Own, names: dict[Tensor, str], b: Run, wanted: Sequence[Sequence[Tensor]],
    inside: Sequence[Mapping[Tensor, str]],
) -> Run:  # fmt: skip
    """The operation with names for what is seen of its blocks."""
    at = len(b.names) - sum(map(len, b.saves))
    called, trees = list(b.names[:at]), list(b.trees[:at])
    saves: list[tuple[str, ...]] = []
    for n, (some, old) in enumerate(zip(wanted, b.saves, strict=True)):
        new = [t for t in some if saved(b.control, t, n) not in names]
        made = [saved(b.control, t, n) for t in new]
        called += [*b.names[at : at + len(old)], *own.name(made, names)]
        trees += [*b.trees[at : at + len(old)], *made]
        saves.append((*old, *[inside[n][t] for t in new]))
        at += len(old)
    if len(called) == len(b.names):
        return b
    return replace(b, names=tuple(called), trees=tuple(trees), saves=tuple(saves))


def needed_bindings(f: ProgramFunction, roots: Sequence[Tensor]) -> list[Binding]:
    """The function's own bindings that some tensors, and its result, are computed from."""
    ops = ops_between(roots, forest_leaves([tree for _, tree in f.params]))
    used = dict.fromkeys([*roots, *[t for op in ops for t in op_inputs(op)]])
    made = dict.fromkeys(ops)
    named: dict[str, None] = dict.fromkeys(tree_leaves(f.scope.results))
    kept: list[Binding] = []
    for b in reversed(f.scope.bindings):
        match b:
            case Define():
                wanted = any(t in used for t in b.tensors)
                reads: list[str] = []
            case Run():
                wanted = b.control in made or any(n in named for n in b.names)
                reads = [n for o in b.operands for n in tree_leaves(o.value)]
                reads += [b.given] if b.given else []
            case Bind():
                wanted = b.name in named or any(t in used for t in tree_leaves(b.tree))
                reads = tree_leaves(b.value)
            case Field():
                wanted = b.name in named or any(t in used for t in tree_leaves(b.tree))
                reads = [b.of]
        if wanted:
            kept.append(b)
            named.update(dict.fromkeys(reads))
    return kept[::-1]


def _names_of(f: ProgramFunction) -> dict[str, None]:
    """All names in the text of a function."""
    found = dict.fromkeys([*[n for n, _ in f.params], *f.sizes.values()])
    scopes = [f.scope]
    while scopes:
        scope = scopes.pop()
        found.update(dict.fromkeys(scope.names.values()))
        for b in scope.bindings:
            if isinstance(b, (Define, Run)):
                found.update(dict.fromkeys(b.names))
            else:
                found[b.name] = None
            if isinstance(b, Run):
                replayed = b.replay.operands if b.replay is not None else ()
                own = [o.name for o in (*b.operands, *replayed) if o.name]
                found.update(dict.fromkeys(own))
                scopes += b.every_scope
    return found


def parts(tree: Tree) -> Iterator[tuple[tuple[int, ...], Tensor]]:
    """The tensors of a tuple, with where they are; of a tensor none."""
    stack: list[tuple[tuple[int, ...], Tree]] = [((), tree)]
    while stack:
        at, part = stack.pop()
        if isinstance(part, tuple):
            stack += [((*at, n), t) for n, t in enumerate(part)][::-1]
        elif at:
            yield at, part


def _source(t: Tensor) -> Tensor | None:
    """What a tensor is a plain copy of."""
    if not isinstance(t.op, Compute):
        return None
    body = t.op.bodies[t.index]
    is_copy = isinstance(body, Read) and len(body.indices) == len(t.op.axes)
    if isinstance(body, Read) and is_copy and all(map(is_, body.indices, t.op.axes)):
        return body.tensor
    return None


def _shape(tree: Tree) -> NameTree:
    return shaped(tree, repeat(""))


def _renamed(names: NameTree, new: Mapping[str, str]) -> NameTree:
    if isinstance(names, str):
        return new[names]
    return tuple([_renamed(n, new) for n in names])
