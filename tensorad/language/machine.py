"""What interpreter, evaluator and verifier have in common: bindings in order, and a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

from tensorad.errors import (
    BindError,
    DefinitionError,
    DTypeError,
    LimitError,
    UserError,
    counted,
    functions_hint,
)
from tensorad.ir.dtypes import DType
from tensorad.ir.tensor import Shape
from tensorad.language.located import located
from tensorad.language.terms import (
    Alias,
    Apply,
    Atom,
    Binding,
    Block,
    Case,
    Derive,
    Field,
    Formula,
    Function,
    If,
    Inject,
    Literal,
    Loop,
    Match,
    NewRef,
    Operator,
    Program,
    Read,
    Term,
    Tuple,
    Write,
)
from tensorad.language.types import (
    FunctionText,
    NamedText,
    RefText,
    TensorText,
    TupleText,
    TypeText,
    match_tensor,
    type_text,
)
from tensorad.language.values import (
    Cell,
    Closure,
    Derived,
    Effects,
    Env,
    Tagged,
    TopEnv,
    Value,
    described,
)

Leaf = TypeVar("Leaf")
MOST_CALLS: Final = 1_500
"""Inside of each other."""


class Machine(ABC, Generic[Leaf]):
    """Runs programs on values of one kind.

    Attributes:
        store: what is in each reference.
        effects: counted so far.
        references: classes of what is read and written.
    """

    references: tuple[type[Any], ...] = (Cell,)

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tags = program.tags
        self.top = TopEnv(self)
        self.top.values.update({n: Closure(f, self.top) for n, f in program.functions.items()})
        self.store: dict[Cell, Value] = {}
        self.effects = Effects()
        self.calls = 0

    def function(self, name: str) -> Closure:
        """A function of the program.

        Raises:
            DefinitionError: it has none of this name.
        """
        if name not in self.program.functions:
            raise DefinitionError(
                f"the program has no function {name}.",
                hint=functions_hint(self.program.functions),
            )
        found: Closure = self.top[name]
        return found

    def block(self, b: Block, env: Env) -> Value:
        """The result of a block, whose names go into `env`."""
        for one in b.bindings:
            self.run(one, env)
        return self.atom(b.result, env)

    def run(self, b: Binding, env: Env) -> None:
        """One binding.

        Raises:
            UserError: with the binding and its line.
        """
        try:
            value = self.term(b.term, env, b)
        except UserError as e:
            raise located(e, b) from None
        if len(b.names) == 1:
            env.values[b.names[0]] = value
        else:
            env.values.update(zip(b.names, value, strict=True) if b.names else ())

    def atom(self, a: Atom, env: Env) -> Value:
        """What a name or a number means."""
        if isinstance(a, Literal):
            return a.value
        try:
            return env[a.name]
        except KeyError:
            raise DefinitionError(
                f"undefined name {a.name}.", hint="names are defined above where they are used."
            ) from None

    def term(self, term: Term, env: Env, b: Binding) -> Value:
        """The value of a term."""
        match term:
            case Alias():
                return self.atom(term.of, env)
            case Tuple():
                return self.atoms(term.parts, env)
            case Field():
                return self.field(self.atom(term.of, env), term)
            case Function():
                return Closure(term, env)
            case Apply():
                return self.apply(self.atom(term.function, env), self.atoms(term.args, env))
            case NewRef() | Read() | Write():
                return self.on_reference(term, env, b)
            case Inject():
                return self.inject(term, self.atoms(term.args, env))
            case Derive():
                of = self.callable(self.atom(term.function, env))
                return Derived(term.kind, of, self.top)
            case _:
                return self.computed(term, env, b)

    def computed(self, term: Term, env: Env, b: Binding) -> Value:
        """The value of a term on tensors, or of one with blocks."""
        match term:
            case Formula():
                made = self.formula(term, env, b)
                return made[0] if len(b.names) == 1 else made
            case Operator():
                given = [self.leaf(v, term.name) for v in self.atoms(term.args, env)]
                return self.operator(term, given, b)
            case If():
                return self.branch(self.leaf(self.atom(term.condition, env), "if"), term, env, b)
            case Match():
                return self.match(self.atom(term.of, env), term, env, b)
            case Loop():
                return self.loop(term, env, b)
        raise DefinitionError(f"{type(term).__name__} is no term.")

    def atoms(self, some: Sequence[Atom], env: Env) -> tuple[Value, ...]:
        """What several atoms mean."""
        return tuple([self.atom(a, env) for a in some])

    def field(self, value: Value, term: Field) -> Value:
        """A part of a tuple."""
        if not isinstance(value, tuple):
            raise DefinitionError(
                f"a field is taken of {self.shown(value)}.",
                hint="tuples have fields; elements of tensors are read in formulas.",
            )
        if term.index >= len(value):
            raise DefinitionError(
                f"there is no field {term.index} in a tuple of {len(value)}.",
                hint="fields are counted from 0.",
            )
        return value[term.index]

    def on_reference(self, term: NewRef | Read | Write, env: Env, b: Binding) -> Value:
        """ref(x), read(r), r := x."""
        if isinstance(term, NewRef):
            self.effects.allocations += 1
            return self.new_cell(b.names[0] if b.names else "ref", b.line,
                                 self.atom(term.content, env))  # fmt: skip
        cell = self.atom(term.ref, env)
        if not isinstance(cell, self.references):
            word = "read" if isinstance(term, Read) else "written"
            raise DefinitionError(
                f"{self.shown(cell)} is {word}, but is no reference.",
                hint="ref(x) makes a reference.",
            )
        if isinstance(term, Read):
            self.effects.reads += 1
            return self.read(cell)
        self.effects.writes += 1
        self.write(cell, self.atom(term.content, env))
        return ()

    def new_cell(self, name: str, line: int, content: Value) -> Value:
        """A new reference."""
        cell = Cell(name, line)
        self.store[cell] = content
        return cell

    def read(self, cell: Cell) -> Value:
        """What is in a reference."""
        return self.store[cell]

    def write(self, cell: Cell, content: Value) -> None:
        """Put a value into a reference."""
        self.store[cell] = content

    def inject(self, term: Inject, args: tuple[Value, ...]) -> Value:
        """A tagged value.

        Raises:
            DefinitionError: no sum of the program has the tag, or it has other fields.
        """
        if term.tag not in self.tags:
            raise DefinitionError(
                f"no sum has the tag {term.tag}.",
                hint=f"tags are {', '.join(self.tags)}." if self.tags else "write data s = a | b.",
            )
        wanted = self.tags[term.tag][1].fields
        if len(wanted) != len(args):
            raise BindError(
                f"{term.tag} has {counted(len(wanted), 'field')}, got {len(args)}.",
                hint="give a value for each field.",
            )
        meanings: dict[str, Any] = {}
        pairs = enumerate(zip(wanted, args, strict=True))
        made = [self.checked(t, v, meanings, f"field {n} of {term.tag}") for n, (t, v) in pairs]
        return self.tagged(term.tag, tuple(made))

    def tagged(self, tag: str, fields: tuple[Value, ...]) -> Tagged:
        """A value with a tag."""
        return Tagged(tag, fields)

    def match(self, value: Value, term: Match, env: Env, b: Binding) -> Value:
        """The case of a value's tag."""
        if not isinstance(value, Tagged):
            raise DefinitionError(
                f"match takes a tagged value, got {self.shown(value)}.",
                hint="inject tag(x) makes one.",
            )
        case = self.case_of(term, value.tag)
        if len(case.fields) != len(value.fields):
            raise BindError(
                f"{value.tag} has {counted(len(value.fields), 'field')}, the case names "
                f"{len(case.fields)}.",
                hint="name all of them.",
            )
        return self.block(case.block, Env(env, dict(zip(case.fields, value.fields, strict=True))))

    def case_of(self, term: Match, tag: str) -> Case:
        """The case of a tag.

        Raises:
            DefinitionError: there is none.
        """
        for case in term.cases:
            if case.tag == tag:
                return case
        raise DefinitionError(
            f"match has no case {tag}.",
            hint=f"it has {', '.join([c.tag for c in term.cases])}.",
        )

    def callable(self, value: Value) -> Value:
        """A function value.

        Raises:
            DefinitionError: it is none.
        """
        if isinstance(value, (Closure, Derived)):
            return value
        raise DefinitionError(
            f"{self.shown(value)} is called, but is no function.",
            hint="fn (x) { ... } makes a function.",
        )

    def apply(self, function: Value, args: tuple[Value, ...]) -> Value:
        """A call."""
        f = self.callable(function)
        if isinstance(f, Derived):
            return self.derivative(f, args)
        env = self.entered(f, args)
        if self.calls >= MOST_CALLS:
            raise LimitError(
                f"{f.function.name} is called inside of more than {MOST_CALLS:,} calls.",
                hint="a recursion ends where its argument says so; repeat with a loop.",
            )
        self.calls += 1
        try:
            made = self.block(f.function.block, env)
        finally:
            self.calls -= 1
        if f.function.result is None:
            return made
        what = f"the result of {f.function.name}"
        return self.checked(f.function.result, made, env.meanings, what)

    def entered(self, f: Closure, args: tuple[Value, ...]) -> Env:
        """What names mean in the body of a call.

        Raises:
            BindError: it takes another number of arguments.
            DTypeError: one is of another type.
        """
        own = f.function
        if len(args) != len(own.params):
            raise BindError(
                f"{own.name} takes {counted(len(own.params), 'argument')}, got {len(args)}.",
                hint=f"its parameters are {', '.join([n for n, _ in own.params])}."
                if own.params
                else "call it without any.",
            )
        meanings = dict(f.env.meanings)
        values: dict[str, Value] = {own.name: f}
        for (name, of), value in zip(own.params, args, strict=True):
            what = f"parameter {name} of {own.name}"
            values[name] = value if of is None else self.checked(of, value, meanings, what)
        return Env(f.env, values, meanings)

    def checked(self, t: TypeText, value: Value, meanings: dict[str, Any], what: str) -> Value:
        """The value, if it is of a type; numbers take its dtype.

        Raises:
            DTypeError: it is of another one.
        """
        found = self.fitted(t, value, meanings)
        if found is None:
            raise DTypeError(
                f"{what} is {type_text(t)}, but gets {self.shown(value)}.",
                hint="dtypes and shapes have to agree; float64(x) converts.",
            )
        return found[0]

    def fitted(self, t: TypeText, value: Value, meanings: dict[str, Any]) -> tuple[Value] | None:
        """The value in a tuple if it is of a type, None if it is not."""
        match t:
            case TensorText():
                return self.fitted_leaf(t, value, meanings)
            case TupleText():
                if not isinstance(value, tuple) or len(value) != len(t.parts):
                    return None
                parts = [self.fitted(p, v, meanings) for p, v in zip(t.parts, value, strict=True)]
                return (tuple([p[0] for p in parts if p]),) if all(parts) else None
            case FunctionText():
                return (value,) if isinstance(value, (Closure, Derived)) else None
            case RefText():
                if not isinstance(value, self.references):
                    return None
                return None if self.fitted(t.content, self.read(value), meanings) is None else (
                    value,
                )  # fmt: skip
            case NamedText():
                if t.name not in self.program.sums:
                    return (value,)
                is_one = isinstance(value, Tagged) and self.tags[value.tag][0] == t.name
                return (value,) if is_one else None

    def fitted_leaf(
        self, t: TensorText, value: Value, meanings: dict[str, Any]
    ) -> tuple[Value] | None:
        """The tensor or number in a tuple if it is of a type."""
        if isinstance(value, (tuple, Closure, Derived, Cell, Tagged)):
            return None
        converted = self.as_declared(t, value, meanings)
        return (converted,) if match_tensor(t, *self.type_of(converted), meanings) else None

    def shown(self, value: Value) -> str:
        """What a value is, for errors."""

        def leaf(v: Value) -> str:
            dtype, shape = self.type_of(v)
            return f"{dtype}[{', '.join(map(str, shape))}]"

        return described(value, leaf)

    def leaf(self, value: Value, title: str) -> Any:
        """A tensor or a number.

        Raises:
            DTypeError: it is something else.
        """
        if isinstance(value, (tuple, Closure, Derived, Cell, Tagged)):
            raise DTypeError(
                f"{title} takes tensors and numbers, got {self.shown(value)}.",
                hint="take a field, or what a reference holds.",
            )
        return value

    @abstractmethod
    def as_declared(self, t: TensorText, value: Value, meanings: dict[str, Any]) -> Any:
        """A number as a tensor of a declared dtype."""

    @abstractmethod
    def type_of(self, value: Any) -> tuple[DType, Shape]:
        """Dtype and shape of a tensor or number."""

    @abstractmethod
    def formula(self, term: Formula, env: Env, b: Binding) -> tuple[Value, ...]:
        """The tensors of a formula."""

    @abstractmethod
    def operator(self, term: Operator, args: Sequence[Any], b: Binding) -> Value:
        """What an operator makes."""

    @abstractmethod
    def branch(self, condition: Any, term: If, env: Env, b: Binding) -> Value:
        """What the block that is chosen results in."""

    @abstractmethod
    def loop(self, term: Loop, env: Env, b: Binding) -> Value:
        """The last carry."""

    @abstractmethod
    def derivative(self, f: Derived, args: tuple[Value, ...]) -> Value:
        """A call of a derivative."""


def one_or_all(values: Sequence[Value]) -> Value:
    """A loop's result: its carries."""
    return values[0] if len(values) == 1 else tuple(values)
