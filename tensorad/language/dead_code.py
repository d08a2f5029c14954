"""Dead code: bindings that nobody uses, and writes to references that nobody reads later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tensorad.language.terms import (
    UNIT,
    Alias,
    Apply,
    Atom,
    Binding,
    Block,
    Function,
    If,
    Loop,
    Match,
    Name,
    NewRef,
    Program,
    Read,
    Term,
    Write,
    atoms,
    blocks,
    free_names,
    with_blocks,
)
from tensorad.process import deep_calls


def without_dead_code(program: Program) -> Program:
    """before: bindings in order; after: those that results and effects need.

    What stays: writes to references that are given to a function or leave it, calls of functions
    that are unknown or have effects. What goes: everything else that no result rests on, with
    references that are never read, and writes after which nobody reads. A computation that would
    not end, or would be refused when it runs, may go, too.

    Requires: distinct names in each block. Ensures: the same results, and the same contents of
    references that a caller knows.
    """
    with deep_calls.changed():
        while (made := _once(program)) is not program:
            program = made
    return program


def _once(program: Program) -> Program:
    pure = pure_functions(program)
    made = {n: _Sweep(pure).function(f) for n, f in program.functions.items()}
    if all(made[n] is f for n, f in program.functions.items()):
        return program
    return replace(program, functions=made)


def pure_functions(program: Program) -> dict[str, bool]:
    """Which functions of the program have no effects: the largest set that rests on itself."""
    pure = dict.fromkeys(program.functions, True)
    while True:
        found = {n: _is_pure(f, pure) for n, f in program.functions.items()}
        found = {n: found[n] and pure[n] for n in pure}
        if found == pure:
            return pure
        pure = found


def _has_effects(block: Block, pure: Mapping[str, bool], own: Iterable[str] = ()) -> bool:
    """Whether a block writes to references that it did not make, or calls what may."""
    known = dict(pure)
    local = dict.fromkeys(own)
    for b in block.bindings:
        match b.term:
            case NewRef():
                local.update(dict.fromkeys(b.names))
            case Write(ref=ref):
                if not (isinstance(ref, Name) and ref.name in local):
                    return True
            case Function():
                known[b.names[0]] = _is_pure(b.term, known)
            case Alias(of=Name(name=name)) if name in known and b.names:
                known[b.names[0]] = known[name]
            case Apply():
                if not is_pure_call(b.term, known):
                    return True
            case If() | Match() | Loop():
                for inner, params in blocks(b.term):
                    if _has_effects(inner, {**known, **dict.fromkeys(params, False)}, local):
                        return True
    return False


def _is_pure(f: Function, known: Mapping[str, bool]) -> bool:
    """Whether calls of a function have no effects, if it has none where it calls itself."""
    own = {**known, f.name: True, **{n: False for n, _ in f.params}}
    return not _has_effects(f.block, own)


def is_pure_call(term: Apply, known: Mapping[str, bool]) -> bool:
    """Whether it calls a function that is known to have no effects."""
    return isinstance(term.function, Name) and known.get(term.function.name, False)


@dataclass
class _State:
    """What is needed behind a place: names, and contents of references."""

    names: dict[str, None]
    contents: dict[str, None]

    def need(self, some: Iterable[Atom]) -> None:
        self.names.update({a.name: None for a in some if isinstance(a, Name)})


class _Sweep:
    """Goes through functions from their ends.

    Attributes:
        pure: functions by name, and whether they have no effects.
        tracked: references whose every use is known: they are read or written, or not even read.
    """

    def __init__(self, pure: Mapping[str, bool]) -> None:
        self.pure = dict(pure)
        self.tracked: dict[str, None] = {}
        self.unread: dict[str, None] = {}

    def function(self, f: Function) -> Function:
        """The function without dead code; the same one if there is none."""
        inner = _Sweep(self.pure)
        inner.pure.update({n: False for n, _ in f.params})
        inner.tracked, unread = tracked_references(f.block)
        inner.unread = {**self.unread, **unread}
        state = _State({}, {})
        state.need([f.block.result])
        made = inner.block(f.block, state)
        return f if made is f.block else replace(f, block=made)

    def block(self, block: Block, state: _State) -> Block:
        """The bindings that are needed, from the last to the first; `state` is changed."""
        self.learn(block)
        kept: list[Binding] = []
        for b in reversed(block.bindings):
            made = self.binding(b, state)
            if made is not None:
                kept.append(made)
        kept.reverse()
        is_same = len(kept) == len(block.bindings) and all(
            a is b for a, b in zip(kept, block.bindings, strict=True)
        )
        return block if is_same else replace(block, bindings=tuple(kept))

    def learn(self, block: Block) -> None:
        """Which function values of a block have effects."""
        for b in block.bindings:
            match b.term:
                case Function():
                    self.pure[b.names[0]] = _is_pure(b.term, self.pure)
                case Alias(of=Name(name=name)) if b.names:
                    self.pure[b.names[0]] = self.pure.get(name, False)
                case _:
                    self.pure.update(dict.fromkeys(b.names, False))

    def binding(self, b: Binding, state: _State) -> Binding | None:
        """What is left of a binding."""
        term = b.term
        is_used = any(n in state.names for n in b.names)
        if isinstance(term, Write):
            return self.write(b, term, state)
        if isinstance(term, Read) and isinstance(term.ref, Name) and is_used:
            state.contents[term.ref.name] = None
        if isinstance(term, (If, Match, Loop)):
            return self.with_blocks(b, term, state, is_used)
        if not is_used and not (isinstance(term, Apply) and not is_pure_call(term, self.pure)):
            return None
        if isinstance(term, Function):
            made = self.function(term)
            state.names.update(_free(made))
            return b if made is term else replace(b, term=made)
        state.need(atoms(term))
        return b

    def write(self, b: Binding, term: Write, state: _State) -> Binding | None:
        """A write stays unless nobody reads what it writes."""
        name = term.ref.name if isinstance(term.ref, Name) else ""
        if name in self.unread or (name in self.tracked and name not in state.contents):
            return None
        if name in self.tracked:
            state.contents.pop(name, None)
        state.need((term.ref, term.content))
        return b

    def with_blocks(
        self, b: Binding, term: If | Match | Loop, state: _State, is_used: bool
    ) -> Binding | None:
        """A branch or loop: blocks without what they do not need, and without results."""
        if not is_used and not self.does(term, state):
            return None
        if not is_used and isinstance(term, (If, Match)):
            term = without_results(term)
        before = _State(dict(state.names), dict(state.contents))
        if isinstance(term, Loop):
            before.contents.update(_read_in(term))
        made: list[Block] = []
        contents: dict[str, None] = {}
        for inner, params in blocks(term):
            self.pure.update(dict.fromkeys(params, False))
            own = _State(dict(before.names), dict(before.contents))
            own.need([inner.result])
            made.append(self.block(inner, own))
            state.names.update({n: None for n in own.names if n not in params})
            contents.update(own.contents)
        state.contents = {**state.contents, **contents} if isinstance(term, Loop) else contents
        state.need(atoms(term))
        new = with_blocks(term, made)
        return b if new is b.term else replace(b, term=new)

    def does(self, term: Term, state: _State) -> bool:
        """Whether a branch or loop has an effect that stays."""
        later = {**state.contents, **(_read_in(term) if isinstance(term, Loop) else {})}
        gone = {**self.unread, **{n: None for n in self.tracked if n not in later}}
        return any(_has_effects(inner, self.pure, gone) for inner, _ in blocks(term))


def without_results(term: If | Match) -> If | Match:
    """A branch that is run for its effects alone."""
    if all(inner.result == UNIT for inner, _ in blocks(term)):
        return term
    made = [replace(inner, result=UNIT) for inner, _ in blocks(term)]
    found = with_blocks(term, made)
    assert isinstance(found, (If, Match)), "blocks alone differ"
    return found


def tracked_references(block: Block) -> tuple[dict[str, None], dict[str, None]]:
    """References that a function makes and uses by itself, and those that nobody ever reads.

    Names that are bound twice somewhere are in none of both.
    """
    if not _makes_references(block):
        return {}, {}
    made: dict[str, int] = {}
    escaped: dict[str, None] = {}
    read: dict[str, None] = {}
    inner: dict[str, None] = {}
    for b, depth in _everything(block, 0):
        for name in b.names:
            made[name] = made.get(name, 0) + (1 if isinstance(b.term, NewRef) else 2)
        uses: Iterable[Atom] = atoms(b.term)
        if isinstance(b.term, Read):
            read.update({a.name: None for a in uses if isinstance(a, Name)})
            inner.update({a.name: None for a in uses if isinstance(a, Name) and depth})
            uses = ()
        elif isinstance(b.term, Write):
            if isinstance(b.term.ref, Name) and depth:
                inner[b.term.ref.name] = None
            uses = (b.term.content,)
        escaped.update({a.name: None for a in uses if isinstance(a, Name)})
        for own, params in blocks(b.term):
            made.update({n: made.get(n, 0) + 2 for n in params})
            if isinstance(own.result, Name):
                escaped[own.result.name] = None
    if isinstance(block.result, Name):
        escaped[block.result.name] = None
    own_refs = [n for n, k in made.items() if k == 1 and n not in escaped]
    tracked = {n: None for n in own_refs if n not in inner}
    return tracked, {n: None for n in own_refs if n not in read}


def _everything(block: Block, depth: int) -> Iterator[tuple[Binding, int]]:
    """All bindings of a block and of those inside of it, and in how many functions they are."""
    stack = [(block, depth)]
    while stack:
        own, at = stack.pop()
        for b in own.bindings:
            yield b, at
            stack += [(inner, at + isinstance(b.term, Function)) for inner, _ in blocks(b.term)]


def _makes_references(block: Block) -> bool:
    """Whether a function makes references outside of inner functions."""
    stack = [block]
    while stack:
        for b in stack.pop().bindings:
            if isinstance(b.term, NewRef):
                return True
            if not isinstance(b.term, Function):
                stack += [inner for inner, _ in blocks(b.term)]
    return False


def _read_in(term: Term) -> dict[str, None]:
    """References that are read somewhere in the blocks of a term."""
    found: dict[str, None] = {}
    for inner, _ in blocks(term):
        for b, _ in _everything(inner, 0):
            if isinstance(b.term, Read) and isinstance(b.term.ref, Name):
                found[b.term.ref.name] = None
    return found


def _free(f: Function) -> dict[str, None]:
    return free_names(f.block, (f.name, *[n for n, _ in f.params]))
