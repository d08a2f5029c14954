"""The verifier: a program is run on types, every block of it once for each kind of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tensorad.errors import DefinitionError, DTypeError, LimitError, ShapeError
from tensorad.ir.dtypes import BOOL, DType
from tensorad.ir.expr import size_var
from tensorad.ir.tensor import Dim, Placeholder, Shape, Tensor, outputs
from tensorad.language.formulas import tensors_of
from tensorad.language.located import renewed
from tensorad.language.machine import Machine, one_or_all
from tensorad.language.operators import applied, arrays_made, folded, number_tensor
from tensorad.language.terms import (
    Atom,
    Binding,
    Formula,
    If,
    Loop,
    Match,
    Name,
    Operator,
    Program,
)
from tensorad.language.type_values import (
    Declared,
    Either,
    either,
    has_changed,
    is_function_value,
    mapped_types,
    type_of_number,
)
from tensorad.language.types import (
    DTYPE_NAMES,
    FunctionText,
    NamedText,
    RefText,
    SumType,
    TensorText,
    TensorType,
    TupleText,
    TypeText,
    dtype_named,
    same_shapes,
    type_text,
)
from tensorad.language.values import Cell, Closure, Derived, Env, Tagged, Value
from tensorad.process import deep_calls
from tensorad.program.values import alone, promoted

MOST_KINDS: Final = 16
"""Calls of a function inside of each other whose types differ; types may double each time."""


class _NeedsResult(DefinitionError):
    """The type of a call follows from the call itself."""


def check(program: Program) -> None:
    """The program is well formed: names, types, and what is applied to what.

    Functions whose parameters all have types are run on these; sizes stay symbolic. Others are
    checked at the types that they are called with, each kind once.

    Raises:
        UserError: it is not; the error has the binding and its line.
    """
    with deep_calls.changed():
        for name, f in program.functions.items():
            if all(t is not None and _is_closed(t, program) for _, t in f.params):
                run = _Checker(program)
                meanings: dict[str, Any] = {}
                args = [run.of_text(t, meanings) for _, t in f.params if t is not None]
                run.whole(name, args)


def checked_at(program: Program, name: str, args: Sequence[Value]) -> Value:
    """The type of a call: `TensorType` in the place of each tensor.

    Raises:
        UserError: see `check`.
    """
    run = _Checker(program)
    with deep_calls.changed():
        return run.whole(name, args)


def _is_closed(t: TypeText, program: Program) -> bool:
    match t:
        case TensorText():
            return t.dtype in DTYPE_NAMES and not any(str(e).startswith("*") for e in t.extents)
        case TupleText():
            return all(_is_closed(p, program) for p in t.parts)
        case FunctionText():
            return all(_is_closed(p, program) for p in (*t.params, t.result))
        case RefText():
            return _is_closed(t.content, program)
        case NamedText():
            return t.name in program.sums


class _Checker(Machine[TensorType]):
    """Values are types: `TensorType` for tensors, with a weak dtype for numbers."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.results: dict[object, Value] = {}
        self.open: dict[tuple[Any, Any, Any], bool] = {}
        """Calls that are under way, and whether they were needed for themselves."""

    def whole(self, name: str, args: Sequence[Value]) -> Value:
        """The type of a call of a function of the program."""
        try:
            return self.apply(self.function(name), tuple(args))
        except _NeedsResult as e:
            raise renewed(e, DefinitionError) from None

    def of_text(self, t: TypeText, meanings: dict[str, Any]) -> Value:
        """A value of a type."""
        match t:
            case TensorText():
                dtype = dtype_named(t.dtype, meanings)
                if dtype is None:
                    raise DefinitionError(
                        f"{type_text(t)} does not say which dtype it has.",
                        hint="write a dtype, or a name that a parameter's type decides.",
                    )
                return TensorType(dtype, self.extents(t, meanings))
            case TupleText():
                return tuple([self.of_text(p, meanings) for p in t.parts])
            case FunctionText():
                return Declared(t)
            case RefText():
                return self.new_cell("ref", 0, self.of_text(t.content, meanings))
            case NamedText():
                if t.name in self.program.sums:
                    return SumType(t.name)
        raise DefinitionError(
            f"{type_text(t)} is no type that is known here.",
            hint="sums are declared by data.",
        )

    def extents(self, t: TensorText, meanings: dict[str, Any]) -> Shape:
        """The shape of a type; a name that nothing decided is a size."""
        found: list[Dim] = []
        for e in t.extents:
            if isinstance(e, int):
                found.append(e)
            elif e.startswith("*"):
                found.extend(meanings.get(e[1:], ()))
            else:
                found.append(meanings.setdefault(e, size_var(e)))
        return tuple(found)

    def atom(self, a: Atom, env: Env) -> Value:
        """Numbers are of weak types."""
        value = super().atom(a, env)
        return type_of_number(value) if isinstance(value, (bool, int, float)) else value

    def type_of(self, value: Any) -> tuple[DType, Shape]:
        """Dtype and shape."""
        if isinstance(value, TensorType):
            return alone(value.dtype), value.shape
        raise DTypeError(f"a tensor is wanted, got {value}.", hint="match takes sums apart.")

    def shown(self, value: Value) -> str:
        """What a value is, for errors."""
        if isinstance(value, Either):
            return self.shown(value.options[0])
        if isinstance(value, (SumType, Declared)):
            return str(value) if isinstance(value, SumType) else type_text(value.text)
        return super().shown(value)

    def leaf(self, value: Value, title: str) -> Any:
        """A tensor."""
        if isinstance(value, (SumType, Declared, Either)):
            raise DTypeError(
                f"{title} takes tensors and numbers, got {self.shown(value)}.",
                hint="take a field, or what a reference holds.",
            )
        return super().leaf(value, title)

    def fitted(self, t: TypeText, value: Value, meanings: dict[str, Any]) -> tuple[Value] | None:
        """Sums by their names, functions by their types."""
        if isinstance(value, SumType):
            is_other = isinstance(t, NamedText) and t.name in self.program.sums
            fits = isinstance(t, NamedText) and (not is_other or t.name == value.name)
            return (value,) if fits else None
        if isinstance(value, (Declared, Either)):
            return (value,) if isinstance(t, (FunctionText, NamedText)) else None
        return super().fitted(t, value, meanings)

    def as_declared(self, t: TensorText, value: Value, meanings: dict[str, Any]) -> Any:
        """Numbers take a declared dtype."""
        wanted = dtype_named(t.dtype, meanings)
        is_weak = isinstance(value, TensorType) and value.dtype.is_weak
        if not is_weak or wanted is None or (value.dtype.is_float and not wanted.is_float):
            return value
        return TensorType(wanted, ())

    def callable(self, value: Value) -> Value:
        """A function value, or its type."""
        return value if isinstance(value, (Declared, Either)) else super().callable(value)

    def apply(self, function: Value, args: tuple[Value, ...]) -> Value:
        """A call, once for each kind of arguments."""
        f = self.callable(function)
        if isinstance(f, Either):
            makers = [lambda own=own: self.apply(own, args) for own in f.options]
            return self.all_joined(makers, "the functions that data choose")
        if isinstance(f, Declared):
            meanings: dict[str, Any] = {}
            pairs = enumerate(zip(f.text.params, args, strict=True))
            for n, (t, v) in pairs:
                self.checked(t, v, meanings, f"argument {n}")
            return self.of_text(f.text.result, meanings)
        if isinstance(f, Derived):
            return super().apply(f, args)
        key = (f.function, f.env, tuple(map(self.key, args)))
        if key in self.results and not self.has_cells(args):
            return self.results[key]
        if key in self.open:
            return self.recursive(f, args, key)
        if sum(open_f is f.function for open_f, _, _ in self.open) >= MOST_KINDS:
            raise LimitError(
                f"{f.function.name} is called with ever other types.",
                hint="a recursion needs arguments of the same types.",
            )
        self.open[key] = False
        try:
            made = super().apply(f, args)
            if self.open[key] and key not in self.results:
                self.results[key] = made
                self.joined(made, super().apply(f, args), f"the results of {f.function.name}")
        finally:
            del self.open[key]
        self.results[key] = made
        return made

    def has_cells(self, args: tuple[Value, ...]) -> bool:
        """Whether a call may write to what it is given."""
        return any(isinstance(a, (Cell, Closure, Either)) for a in args)

    def recursive(self, f: Closure, args: tuple[Value, ...], key: tuple[Any, Any, Any]) -> Value:
        """The type of a call inside of the same call."""
        if f.function.result is not None:
            return self.of_text(f.function.result, self.entered(f, args).meanings)
        if key in self.results:
            return self.results[key]
        self.open[key] = True
        raise _NeedsResult(
            f"the type of {f.function.name} follows from itself.",
            hint=f"declare it, {f.function.name}(...) -> float32[].",
        )

    def key(self, value: Value) -> object:
        """What tells kinds of arguments apart."""
        if isinstance(value, tuple):
            return tuple(map(self.key, value))
        if isinstance(value, Tagged):
            return value.tag, tuple(map(self.key, value.fields))
        if isinstance(value, Closure):
            return value.function, value.env
        if isinstance(value, Either):
            return tuple(map(self.key, value.options))
        if isinstance(value, Cell):
            return "ref", value
        return value

    def primitive(self, make: Callable[[Sequence[Any]], Any], args: Sequence[TensorType]) -> Value:
        """The types of what is made of tensors."""
        params: list[Any] = []
        for a in args:
            if a.dtype.is_weak:
                params.append(1.0 if a.dtype.is_float else 1)
            else:
                params.append(outputs(Placeholder("x", a.shape, a.dtype))[0])
        made = arrays_made(make, params)
        if isinstance(made, tuple):
            return tuple([TensorType(t.dtype, t.shape) for t in made])
        return TensorType(made.dtype, made.shape)

    def formula(self, term: Formula, env: Env, b: Binding) -> tuple[Value, ...]:
        """The types of the tensors of a formula."""
        given = {n: self.leaf(self.atom(Name(n), env), "a formula") for n in term.reads}

        def make(some: Sequence[Any]) -> tuple[Tensor, ...]:
            named = zip(given, some, strict=True)
            tensors = {n: v if isinstance(v, Tensor) else number_tensor(v) for n, v in named}
            return tensors_of(term, tensors, env.meanings, b.line)

        made = self.primitive(make, list(given.values()))
        return made if isinstance(made, tuple) else (made,)

    def operator(self, term: Operator, args: Sequence[Any], b: Binding) -> Value:
        """The type of what an operator makes."""
        if all(a.dtype.is_weak for a in args):
            number = folded(term.name, [1.0 if a.dtype.is_float else 1 for a in args])
            if number is not None:
                return type_of_number(number)
        options = dict(term.options)
        return self.primitive(lambda some: applied(term.name, some, options), args)

    def branch(self, condition: Any, term: If, env: Env, b: Binding) -> Value:
        """Both blocks have results of one type."""
        if condition.dtype is not BOOL or condition.shape:
            raise DTypeError(
                f"if takes a bool[], got {self.shown(condition)}.", hint="compare, x > 0.0."
            )
        makers = [lambda blk=blk: self.block(blk, Env(env, {})) for blk in (term.then, term.orelse)]
        return self.all_joined(makers, "the blocks of if")

    def all_joined(self, makers: Sequence[Callable[[], Value]], what: str) -> Value:
        """What all of these make, leaving out those whose type follows from itself."""
        found: list[Value] = []
        missing: _NeedsResult | None = None
        for make in makers:
            try:
                found.append(make())
            except _NeedsResult as e:
                missing = e
        if not found and missing is not None:
            raise missing
        made = found[0]
        for other in found[1:]:
            made = self.joined(made, other, what)
        return made

    def joined(self, a: Value, b: Value, what: str) -> Value:
        """A value that may be either.

        Raises:
            DTypeError: they are of different types.
        """
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple([self.joined(x, y, what) for x, y in zip(a, b, strict=True)])
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            dtype = promoted([a.dtype, b.dtype])
            if dtype is not None and same_shapes(a.shape, b.shape):
                return TensorType(dtype, a.shape)
        elif self.sum_of(a) is not None and self.sum_of(a) == self.sum_of(b):
            return SumType(str(self.sum_of(a)))
        elif is_function_value(a) and is_function_value(b):
            return either(a, b)
        elif isinstance(a, Cell) and isinstance(b, Cell):
            self.joined(self.read(a), self.read(b), what)
            return a
        raise DTypeError(
            f"{what} differ: {self.shown(a)} and {self.shown(b)}.",
            hint="results of one type, whatever is chosen.",
        )

    def sum_of(self, value: Value) -> str | None:
        """The sum of a tagged value."""
        if isinstance(value, Tagged):
            return self.tags[value.tag][0]
        return value.name if isinstance(value, SumType) else None

    def write(self, cell: Cell, content: Value) -> None:
        """What is written has the type of what is there."""
        self.store[cell] = self.joined(self.store[cell], content, f"the contents of {cell.name}")

    def match(self, value: Value, term: Match, env: Env, b: Binding) -> Value:
        """Every case of the sum, with results of one type."""
        name = self.sum_of(value)
        if name is None:
            return super().match(value, term, env, b)
        makers = []
        for alternative in self.program.sums[name]:
            case = self.case_of(term, alternative.tag)
            if isinstance(value, Tagged) and value.tag == alternative.tag:
                fields: Sequence[Value] = value.fields
            else:
                fields = [self.of_text(t, {}) for t in alternative.fields]
            tagged = Tagged(alternative.tag, tuple(fields))
            makers.append(lambda v=tagged: Machine.match(self, v, term, env, b))
            if len(case.fields) != len(fields):
                makers[-1]()
        return self.all_joined(makers, "the cases of match")

    def loop(self, term: Loop, env: Env, b: Binding) -> Value:
        """The body results in the types of the carries."""
        carried = self.atoms([a for _, a in term.carries], env)
        names = [n for n, _ in term.carries]
        if term.trips is not None:
            dtype, shape = self.type_of(self.leaf(self.atom(term.trips, env), "loop"))
            if shape or not dtype.is_integer:
                raise DTypeError(
                    f"loop goes to an integer without axes, not {dtype}.", hint="write [0, n)."
                )
        while True:
            own = Env(env, dict(zip(names, carried, strict=True)))
            if term.counter is not None:
                own.values[term.counter] = type_of_number(0)
            if term.test is not None:
                found = self.block(term.test, Env(env, dict(own.values)))
                if not isinstance(found, TensorType) or found.dtype is not BOOL or found.shape:
                    raise DTypeError(
                        f"while takes a bool[], got {self.shown(found)}.", hint="compare, s < 10.0."
                    )
            made = self.block(term.body, own)
            if len(names) != 1 and (not isinstance(made, tuple) or len(made) != len(names)):
                raise DefinitionError(
                    f"the loop has {len(names)} carries, its body results in {self.shown(made)}.",
                    hint="result in a tuple of the next carries.",
                )
            after = (made,) if len(names) == 1 else made
            joined = self.joined(carried, after, "carries before and after the body")
            if joined == carried or not has_changed(joined, carried):
                return one_or_all(carried)
            carried = joined

    def derivative(self, f: Derived, args: tuple[Value, ...]) -> Value:
        """Adjoints have the types of the arguments; those of all but floats are ()."""
        if f.kind == "jvp":
            y = self.apply(f.of, args[: len(args) // 2])
            return y, mapped_types(y)
        y = self.apply(f.of, args)
        if not isinstance(y, TensorType) or y.shape or not y.dtype.is_float:
            raise ShapeError(
                f"{f.kind} takes a function whose result is one float without axes, got "
                f"{self.shown(y)}.",
                hint="sum it, sum(y).",
            )
        found = one_or_all([mapped_types(a) for a in args])
        return found if f.kind == "grad" else (y, found)
