"""Functions that data choose: records whose variant tells which function it is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from os.path import basename
from typing import Any, Final, TypeGuard
from weakref import WeakValueDictionary

from tensorad.errors import DTypeError, InternalError
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.arrays.tracing import stand_ins
from tensorad.ir.expr import Expr
from tensorad.ir.records import Field, RecordType, Variant, fields_of, inject, tag_of
from tensorad.ir.tensor import (
    Block,
    Branch,
    Compute,
    Placeholder,
    Tensor,
    births,
    outputs,
)
from tensorad.program.data.closures import Captures, Closure, Handle

_inside: Final[ContextVar[int | None]] = ContextVar("inside", default=None)
"""When the outermost branch, loop or inner function began that is being written down."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """One function of a type.

    Attributes:
        function: one like it, that captures `tensors` in the place of the fields.
        handles: references that it captures.
    """

    name: str
    function: Callable[..., Any]
    tensors: tuple[Tensor, ...]
    variant: Variant
    handles: tuple[Handle, ...]


class FunctionsType(RecordType):
    """The dtype of functions that meet: which they are may be found while a program is traced.

    Attributes:
        is_open: whether further functions may be added.
        chosen: the functions so far, by tag.
        data: the data type, if they stand for values of one.
        applied: what applies one of them; made where it is first asked for.
    """

    is_function = True
    is_open: bool
    chosen: list[Chosen]
    data: RecordType | None
    applied: Any
    _n_applied: int
    _tags: dict[Hashable, int]

    def __new__(cls, name: str) -> FunctionsType:
        self = super().__new__(cls, name)
        assert isinstance(self, FunctionsType)
        self.is_open = True
        self.chosen = []
        self.data = None
        self.applied, self._n_applied = None, 0
        self._tags = {}
        return self

    def opened(self) -> FunctionsType:
        """The type, to which functions may be added again; nothing made of it before is used."""
        self.is_open, self.derived = True, {}
        self._holds_floats = self._holds_functions = None
        return self

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The kinds of records so far."""
        return tuple([c.variant for c in self.chosen])

    def no_number(self, name: str) -> DTypeError:
        """What to say where one is used as an array."""
        if self.data is not None:
            return DTypeError(
                f"{name} is a value of {self.data} that data choose, no array.",
                hint=f"take it apart: ta.match({name}, ...).",
            )
        return DTypeError(
            f"{name} is a function that data choose, no array.", hint=f"call it: {name}(x)."
        )

    def tensor_of(self, value: Any) -> Tensor:
        """The record of a function; it is added to the type if it is new."""
        if isinstance(value, Tensor) and value.dtype is self:
            return value
        c = closure_of(value)
        if isinstance(c.function, PassedOn) and c.key not in self._tags and self._takes(value):
            return self._each_of(value)
        return self.record(c)

    def settle_applied(self) -> None:
        """Forget what applying has made, if functions that these capture were added meanwhile."""
        n = len(functions_inside([self]))
        if n != self._n_applied:
            self.applied, self._n_applied = None, n

    def _takes(self, value: Tensor) -> bool:
        """Whether functions of another type, all of which are known, are to be of this one."""
        own = value.dtype
        assert isinstance(own, FunctionsType), "functions have such types"
        return not own.is_open and own.data is self.data is None

    def _each_of(self, value: Tensor) -> Tensor:
        """The record of what was chosen among the functions of another type: of this one, too."""
        made = []
        for n, c in enumerate(value.dtype.chosen):  # type: ignore[attr-defined]  # `_takes`
            known = Closure(c.function, dict.fromkeys(c.tensors).__contains__, formula_tensor)
            made.append(self.record(known, fields_of(value, n)))
        if len(made) == 1:
            return made[0]
        blocks = tuple([Block((value,), (record,)) for record in made])
        return outputs(Branch((value.name,), (tag_of(value), value), blocks))[0]

    def record(self, c: Closure, fields: Sequence[Tensor] | None = None) -> Tensor:
        """The record of a function that was taken apart; `fields` in the place of its tensors."""
        if self.chosen and data_of(c.function) is not self.data:
            raise DTypeError(
                f"{self} is {_told(self.data)} in one place, {_told(data_of(c.function))} in "
                "another.",
                hint="what data choose is of one data type, or a function, everywhere.",
            )
        tag = self._tags.get(c.key)
        if tag is None:
            if not self.is_open:
                raise InternalError(f"{function_name(c.function)} is none of the functions {self}")
            tag = self._tags[c.key] = len(self.chosen)
            self.chosen.append(self._new(c))
            self.applied = None
        return inject(self, tag, c.tensors if fields is None else fields)

    def _new(self, c: Closure) -> Chosen:
        name = function_name(c.function)
        if not self.chosen:
            self.data = data_of(c.function)
        own = [Field(f"{t.name}", t.shape, t.dtype) for t in c.tensors]
        title = f"{name}_{len(self.chosen)}" if name in [f.name for f in self.chosen] else name
        variant = Variant(title, tuple(own))
        return Chosen(title, c.function, c.tensors, variant, tuple(c.handles))


ANY_FUNCTION: Final = FunctionsType("function")
"""The dtype of Python functions among leaves."""


MOST_CODES: Final = 200
"""From so many functions of other code on, rounds that find more are counted: a body may make ever
new ones."""


def codes(types: Iterable[object]) -> set[object]:
    """Functions of these types by their code alone, values by their alternative: a program has so
    many, whatever they capture."""
    chosen = [c.function for t in types if isinstance(t, FunctionsType) for c in t.chosen]
    return {getattr(f, "__code__", (type(f), getattr(f, "__name__", None))) for f in chosen}


def functions_inside(types: Iterable[FunctionsType]) -> list[Chosen]:
    """The functions of these types, and of those that they capture, at any depth."""
    found = dict.fromkeys(types)
    stack = list(found)
    while stack:
        inner = [t.dtype for c in stack.pop().chosen for t in c.tensors]
        new = [t for t in dict.fromkeys(inner) if isinstance(t, FunctionsType) and t not in found]
        found.update(dict.fromkeys(new))
        stack += new
    return [c for t in found for c in t.chosen]


class PassedOn(Captures):
    """A function that is another one, chosen elsewhere."""

    __name__ = "passed_on"

    def __init__(self, handle: Tensor) -> None:
        self.handle = handle
        self.record_type = data_of(handle)

    @property
    def parts(self) -> tuple[object, ...]:
        return (self.handle,)

    def __call__(self, *args: Any) -> Any:
        return self.handle(*args)


def _told(data: RecordType | None) -> str:
    return "a function" if data is None else f"a value of {data}"


def data_of(value: object) -> RecordType | None:
    """The data type of a value with functions in it that data choose; None for anything else."""
    if isinstance(value, Tensor):
        return value.dtype.data if isinstance(value.dtype, FunctionsType) else None
    return value.record_type if isinstance(value, Captures) else None


def function_name(f: Any) -> str:
    """What a function is called; one without a name by its line."""
    name = str(getattr(f, "__name__", type(f).__name__))
    code = getattr(f, "__code__", None)
    if name == "<lambda>" and code is not None:
        return f"lambda at {basename(code.co_filename)}:{code.co_firstlineno}"
    return name


def formula_tensor(e: Expr) -> Tensor:
    return outputs(Compute("i", compute_axes(()), (e,)))[0]


def is_field(t: Tensor) -> bool:
    """Whether a tensor may be out of reach where the function is applied."""
    if t.is_constant:
        return False
    if t in stand_ins():
        return True
    if isinstance(t.op, Placeholder):
        return t not in _everywhere.get() and bool(t.op.owner)
    start = _inside.get()
    return start is not None and getattr(t.op, "born", start) >= start


_everywhere: Final[ContextVar[dict[Tensor, None]]] = ContextVar("everywhere", default={})  # noqa: B039  # never changed
"""Parameters of the outermost function that is being written down."""


@contextmanager
def written_inside(
    params: Sequence[Tensor] = (), *, is_outermost: bool = False, since: int | None = None
) -> Iterator[None]:
    """Within: a branch, loop or function is written down; tensors from now on are its own.

    Args:
        params: those of a function.
        is_outermost: nothing is around the function.
        since: when it began, if that is not now.
    """
    before = _inside.get()
    around = _everywhere.get()
    begun = before if before is not None else births() if since is None else since
    token = _inside.set(None if is_outermost else begun)
    own = _everywhere.set(dict.fromkeys(params) if is_outermost else around)
    try:
        yield
    finally:
        _inside.reset(token)
        _everywhere.reset(own)


def is_function(value: object) -> TypeGuard[Any]:
    """Whether it is a function, or what stands for one in a program."""
    if isinstance(value, Tensor):
        return isinstance(value.dtype, FunctionsType)
    return callable(value) and not isinstance(value, (type, Expr))


_closed: Final[WeakValueDictionary[Hashable, FunctionsType]] = WeakValueDictionary()
"""Types of given functions, so that what is written down again has the same types."""


def joined(values: Sequence[Any], name: str) -> list[Tensor]:
    """Functions that meet, as tensors of one type: one that is open, or that all have, or another.

    Args:
        name: what the type is called.
    """
    types = [v.dtype for v in values if isinstance(v, Tensor)]
    for t in types:
        if isinstance(t, FunctionsType) and t.is_open:
            return [t.tensor_of(v) for v in values]
    if len(types) == len(values) and len(dict.fromkeys(types)) == 1:
        return list(values)
    closures = [closure_of(v) for v in values]
    key = tuple(dict.fromkeys([c.key for c in closures]))
    own = _closed.get(key)
    if own is None:
        own = _closed[key] = FunctionsType(name)
    made = [own.record(c) for c in closures]
    own.is_open = False
    return made


def closure_of(value: Any) -> Closure:
    """What a function captures; one that was chosen elsewhere is captured itself."""
    if isinstance(value, Tensor):
        return Closure(PassedOn(value), lambda t: True, formula_tensor)
    own = dict.fromkeys(value.fields if isinstance(value, Captures) else ())
    return Closure(value, lambda t: t in own or is_field(t), formula_tensor)


def inner_functions(flat: Mapping[str, Any]) -> list[str]:
    """The functions, by their paths, that capture what is out of reach elsewhere."""
    own = [(path, value) for path, value in flat.items() if is_function(value)]
    return [p for p, f in own if not isinstance(f, Tensor) and closure_of(f).tensors]
