"""Terms in A-normal form: blocks of bindings, whose operands are names and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from tensorad.errors import InternalError
from tensorad.ir.hooks import Hook
from tensorad.language.types import TypeText


@dataclass(frozen=True)
class Name:
    """A value by its name."""

    name: str


@dataclass(frozen=True)
class Literal:
    """A number, True, False, or the unit value ()."""

    value: bool | int | float | tuple[()]


Atom = Name | Literal
UNIT = Literal(())


@dataclass(frozen=True, eq=False)
class Formula:
    """`y : float32[n] = [i] x[i]*2.0`: tensors by a formula, as in `tensorad/ir/text`.

    It is read where it runs, at the types that its operands have there.

    Attributes:
        text: the whole statement.
        reads: names in it that stand for no axis, no part and no dtype.
    """

    text: str
    reads: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Operator:
    """`x * y`, `matmul(x, w)`, `sum(x, axis=0)`: an operator on tensors of any types."""

    name: str
    args: tuple[Atom, ...]
    options: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, eq=False)
class Alias:
    """`b = a`."""

    of: Atom


@dataclass(frozen=True, eq=False)
class Tuple:
    """`(a, b)`."""

    parts: tuple[Atom, ...]


@dataclass(frozen=True, eq=False)
class Field:
    """`t[1]`."""

    of: Atom
    index: int


@dataclass(frozen=True, eq=False)
class Function:
    """`fn (x : float32[n]) { ... }`: a function value; `name`: what it is bound to, its own too."""

    params: tuple[tuple[str, TypeText | None], ...]
    result: TypeText | None
    block: Block
    name: str
    line: int


@dataclass(frozen=True, eq=False)
class Apply:
    """`f(x, y)`."""

    function: Atom
    args: tuple[Atom, ...]


@dataclass(frozen=True, eq=False)
class If:
    """`if c { ... } else { ... }`."""

    condition: Atom
    then: Block
    orelse: Block


@dataclass(frozen=True, eq=False)
class NewRef:
    """`ref(x)`: a new reference; `x` is in it."""

    content: Atom


@dataclass(frozen=True, eq=False)
class Read:
    """`read(r)`: what is in a reference now."""

    ref: Atom


@dataclass(frozen=True, eq=False)
class Write:
    """`r := x`."""

    ref: Atom
    content: Atom


@dataclass(frozen=True, eq=False)
class Inject:
    """`inject cons(x, xs)`: a tagged value."""

    tag: str
    args: tuple[Atom, ...]


@dataclass(frozen=True, eq=False)
class Case:
    """`case cons(x, xs) { ... }`."""

    tag: str
    fields: tuple[str, ...]
    block: Block


@dataclass(frozen=True, eq=False)
class Match:
    """`match xs { case nil { ... } case cons(x, xs) { ... } }`."""

    of: Atom
    cases: tuple[Case, ...]


@dataclass(frozen=True, eq=False)
class Derive:
    """`grad(f)`, `value_and_grad(f)`, `jvp(f)`: a function value made of a function value."""

    kind: str
    function: Atom


@dataclass(frozen=True, eq=False)
class Loop:
    """`loop i in [0, n) carry (s = a) { ... }`, `loop carry (s = a) while { ... } do { ... }`.

    It results in the last carry, a tuple of them if there are several or none.

    Attributes:
        counter, trips: of a loop that counts; `test`: of one that data end.
    """

    carries: tuple[tuple[str, Atom], ...]
    body: Block
    counter: str | None = None
    trips: Atom | None = None
    test: Block | None = None


Term = (
    Formula | Operator | Alias | Tuple | Field | Function | Apply | If | NewRef | Read | Write
    | Inject | Match | Derive | Loop
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Binding:
    """`y = term`.

    Attributes:
        names: one; of a formula with several tensors several, of what is run for its effect none.
        is_named: by the text; other names are made for parts of longer lines.
    """

    names: tuple[str, ...]
    term: Term
    line: int = 0
    is_named: bool = True


@dataclass(frozen=True, eq=False)
class Block:
    """Bindings, one after the other, and the result."""

    bindings: tuple[Binding, ...]
    result: Atom


@dataclass(frozen=True)
class Alternative:
    """`cons(float32[], list)`: a tag, and the types of its fields."""

    tag: str
    fields: tuple[TypeText, ...]


@dataclass(frozen=True, eq=False)
class Program:
    """Functions by name, which may call each other, and the tagged sums that they use.

    Attributes:
        sums: their alternatives.
        functions: in the order of the text.
    """

    functions: Mapping[str, Function]
    sums: Mapping[str, tuple[Alternative, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        return program_text.call(self)

    def __getitem__(self, name: str) -> Any:
        """A function of the program, to be called: see `LanguageFunction`."""
        return callable_of.call(self, name)

    @cached_property
    def data(self) -> Any:
        """The sums as data types: see `Sums`."""
        return data_types.call(self.sums)

    @property
    def tags(self) -> dict[str, tuple[str, Alternative]]:
        """For each tag its sum and its alternative."""
        return {a.tag: (name, a) for name, alts in self.sums.items() for a in alts}


program_text: Hook[[Program], str] = Hook("tensorad.language.printer")
data_types: Hook[[Mapping[str, tuple[Alternative, ...]]], Any] = Hook(
    "tensorad.language.residual.data"
)
callable_of: Hook[[Program, str], Any] = Hook("tensorad.language.functions")


def atoms(term: Term) -> tuple[Atom, ...]:
    """The operands of a term itself; blocks have their own."""
    match term:
        case Formula():
            return tuple([Name(n) for n in term.reads])
        case Operator() | Inject():
            return term.args
        case Tuple():
            return term.parts
        case Apply():
            return (term.function, *term.args)
        case Loop():
            starts = [a for _, a in term.carries]
            return (*starts, term.trips) if term.trips is not None else tuple(starts)
        case Write():
            return term.ref, term.content
        case Alias() | Field() | Match():
            return (term.of,)
        case If():
            return (term.condition,)
        case NewRef():
            return (term.content,)
        case Read():
            return (term.ref,)
        case Derive():
            return (term.function,)
    return ()


def blocks(term: Term) -> Iterator[tuple[Block, tuple[str, ...]]]:
    """The blocks of a term, with the names that each is given."""
    match term:
        case Function():
            yield term.block, (term.name, *[n for n, _ in term.params])
        case If():
            yield term.then, ()
            yield term.orelse, ()
        case Match():
            for case in term.cases:
                yield case.block, case.fields
        case Loop():
            own = tuple([n for n, _ in term.carries])
            if term.test is not None:
                yield term.test, own
            yield term.body, own if term.counter is None else (*own, term.counter)


def with_blocks(term: Term, made: Sequence[Block]) -> Term:
    """The term with other blocks, in the order of `blocks`; the same one if they are."""
    if all(new is old for new, (old, _) in zip(made, blocks(term), strict=True)):
        return term
    match term:
        case Function():
            return replace(term, block=made[0])
        case If():
            return replace(term, then=made[0], orelse=made[1])
        case Match():
            pairs = zip(term.cases, made, strict=True)
            return replace(term, cases=tuple([replace(c, block=b) for c, b in pairs]))
        case Loop() if term.test is not None:
            return replace(term, test=made[0], body=made[1])
        case Loop():
            return replace(term, body=made[0])
    raise InternalError(f"{type(term).__name__} has no blocks")


def with_atoms(term: Term, image: Mapping[Atom, Atom]) -> Term:
    """The term with other operands, but for a formula, whose text names them."""
    if isinstance(term, Formula):
        return term
    changed: dict[str, Any] = {f.name: _image(getattr(term, f.name), image) for f in fields(term)}
    return replace(term, **changed)


def _image(part: Any, image: Mapping[Atom, Atom]) -> Any:
    if isinstance(part, tuple):
        return tuple([_image(p, image) for p in part])
    return image.get(part, part) if isinstance(part, (Name, Literal)) else part


def free_names(block: Block, given: tuple[str, ...] = ()) -> dict[str, None]:
    """Names that a block uses and does not define, in the order of use."""
    found: dict[str, None] = {}
    known = dict.fromkeys(given)
    for b in block.bindings:
        own = dict.fromkeys([a.name for a in atoms(b.term) if isinstance(a, Name)])
        for inner, params in blocks(b.term):
            own.update(free_names(inner, params))
        found.update({n: None for n in own if n not in known})
        known.update(dict.fromkeys(b.names))
    if isinstance(block.result, Name) and block.result.name not in known:
        found[block.result.name] = None
    return found
