"""Data of several kinds, and functions that call themselves, as operations.

A record has one of the variants of its type, and a value for each field of the variant. A 0-d
tensor of the type is a handle of it; records are never changed, so equal handles are equal values.
They are told apart by a branch by their tag, whose blocks use the fields of one variant each.
These operations have no effects: a program with them is data flow like any other. What a definition
uses are its params, constants, sizes that are extents of its params, and the sizes that calls give
it: those may have other values in each call, and so may shapes of params, results and fields of
records that are made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tensorad.errors import DefinitionError, InternalError
from tensorad.ir.cached import cached_property
from tensorad.ir.dtypes import INT64, DType
from tensorad.ir.expr import Expr, LocalSize
from tensorad.ir.source import source_line
from tensorad.ir.tensor import (
    Block,
    CallRule,
    Control,
    FunctionCall,
    Placeholder,
    Shape,
    Tensor,
    dim_expr,
    dim_of,
    outputs,
)
from tensorad.ir.visit import substitute_all


class Field(NamedTuple):
    """A value that records of a variant have."""

    name: str
    shape: Shape
    dtype: DType


class Variant(NamedTuple):
    """One of the kinds of records that a type has."""

    name: str
    fields: tuple[Field, ...]


class RecordType(DType):
    """The dtype of handles: records of several variants, nominal.

    It is made before its variants are known (`complete`), since fields may have the type itself.
    """

    _variants: tuple[Variant, ...] | None
    _make: Callable[[], Sequence[Variant]] | None
    _is_ready: bool
    """Whether its variants can be made at any time."""
    _source: RecordType | None
    """The type that tells whether this one is differentiable."""
    _holds_floats: bool | None
    _holds_functions: bool | None
    derived: dict[object, Any]
    """What is derived of it, by what was asked for."""

    def __new__(cls, name: str) -> RecordType:
        self = super().__new__(cls, name, "record", 64)
        assert isinstance(self, RecordType)
        self._variants = None
        self._make = None
        self._is_ready = False
        self._source = None
        self._holds_floats = None
        self._holds_functions = None
        self.derived = {}
        return self

    def __reduce__(self) -> str:
        raise DefinitionError(
            f"values of the data type {self} cannot be pickled.",
            hint="keep the function that makes them, and call it again.",
        )

    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The kinds of records, by tag."""
        if self._variants is None and self._make is not None:
            made = self._make()  # which may say it by itself, before it ends
            self._variants = self._variants or tuple(made)
        if self._variants is None:
            raise InternalError(f"the record type {self} has no variants yet")
        return self._variants

    @property
    def is_differentiable(self) -> bool:
        """Whether a record may hold a float.

        So it is where that is asked before the variants can be known, and stays: what was derived
        since goes by it.
        """
        if self._source is not None:
            return self._source.is_differentiable
        if self._holds_floats is None:
            self._holds_floats = self._may_hold_floats()
        return self._holds_floats

    @property
    def holds_functions(self) -> bool:
        """Whether a value of a declared type may hold a function, at any depth."""
        if self._holds_functions is None:
            self._holds_functions = self._is_ready and any(
                f.dtype.is_function for t in self._declared() for v in t.variants for f in v.fields
            )
        return self._holds_functions

    def _declared(self) -> list[RecordType]:
        """The type and those of its fields, at any depth, that can be asked for variants."""
        found: dict[RecordType, None] = {}
        stack = [self]
        while stack:
            at = stack.pop()
            if at not in found and at._is_ready:
                found[at] = None
                inner = [f.dtype for v in at.variants for f in v.fields]
                stack += [d for d in inner if isinstance(d, RecordType)]
        return list(found)

    def _may_hold_floats(self) -> bool:
        seen: dict[RecordType, None] = {}
        stack = [self]
        while stack:
            dtype = stack.pop()
            dtype = dtype._source or dtype
            if dtype in seen:
                continue
            seen[dtype] = None
            known = dtype.variants if dtype._is_ready else dtype._variants
            if dtype._holds_floats is not None or known is None:
                dtype._holds_floats = dtype._holds_floats is not False
                if dtype._holds_floats:
                    return True
                continue
            for f in [f for v in known for f in v.fields]:
                if f.dtype.is_float:
                    return True
                if isinstance(f.dtype, RecordType):
                    stack.append(f.dtype)
        return False

    def later(
        self,
        make: Callable[[], Sequence[Variant]],
        *,
        is_ready: bool = False,
        source: RecordType | None = None,
    ) -> RecordType:
        """Have the variants made when they are asked for.

        Args:
            is_ready: whether that may be at any time; otherwise nothing asks for what they hold.
            source: the type that this one is derived of, and is differentiable with.
        """
        self._make = make
        self._is_ready = is_ready
        self._source = source
        return self

    def complete(self, variants: Sequence[Variant]) -> RecordType:
        """Say what the variants are, once."""
        if self._variants is not None:
            raise InternalError(f"the record type {self} has variants already")
        self._variants = tuple(variants)
        return self

    def tag(self, name: str) -> int:
        """The number of a variant."""
        return [v.name for v in self.variants].index(name)


def is_record(dtype: DType) -> bool:
    """Whether elements of a dtype are handles."""
    return isinstance(dtype, RecordType)


def stand_ins(fields: Sequence[Field], owner: str = "") -> tuple[Tensor, ...]:
    """A placeholder for each field."""
    made = [Placeholder(f.name, f.shape, f.dtype, owner) for f in fields]
    return tuple([outputs(p)[0] for p in made])


@dataclass(frozen=True, eq=False)
class Inject(Control):
    """A new record of variant `tag`; the operands are its fields. One output, its handle."""

    dtype: RecordType = field(kw_only=True)
    tag: int = field(kw_only=True)

    @cached_property
    def results(self) -> tuple[Tensor, ...]:
        return stand_ins([Field(self.names[0], (), self.dtype)])

    @property
    def variant(self) -> Variant:
        """The variant of the record."""
        return self.dtype.variants[self.tag]


@dataclass(frozen=True, eq=False)
class Tag(Control):
    """The number of a record's variant (0-d int64). A branch by it tells records apart."""

    @property
    def record(self) -> RecordType:
        """The type of the record."""
        dtype = self.operands[0].dtype
        assert isinstance(dtype, RecordType), "the operand is a handle"
        return dtype

    @cached_property
    def results(self) -> tuple[Tensor, ...]:
        return stand_ins([Field(self.names[0], (), INT64)])


@dataclass(frozen=True, eq=False)
class Fields(Control):
    """The fields of a record that has variant `tag`: known where a branch by its tag says so."""

    tag: int = field(kw_only=True)

    @cached_property
    def results(self) -> tuple[Tensor, ...]:
        return stand_ins(self.variant.fields)

    @property
    def variant(self) -> Variant:
        """The variant of the record."""
        dtype = self.operands[0].dtype
        assert isinstance(dtype, RecordType), "the operand is a handle"
        return dtype.variants[self.tag]


class Definition:
    """A function that may call itself, or others that call it: nominal, complete later.

    Attributes:
        name: the user's.
        params: stand for the operands of a call.
        types: name, shape and dtype of each result.
        extends: a definition whose results are the first of these.
        totals: numbers of results that are sums of what calls inside give and of more, in any
            order: each addend may be added where the sum lies.
        sizes: to which each call gives values; those with an extent are below it.
        origin: the definition it is a derivative of, or saves for; None if of none.
    """

    def __init__(
        self,
        name: str,
        params: Sequence[Tensor],
        types: Sequence[Field],
        extends: Definition | None = None,
        totals: Sequence[int] = (),
        sizes: Sequence[LocalSize] = (),
        origin: Definition | None = None,
    ) -> None:
        self.name = name
        self.origin = origin
        self.extends = extends
        self.totals = tuple(totals)
        self.sizes = tuple(sizes)
        self.params = tuple(params)
        self.types = tuple(types)
        self.derived: dict[object, Any] = {}
        """What is derived of it, by what was asked for."""
        self._block: Block | None = None
        self._make: Callable[[], Sequence[Tensor]] | None = None
        self._after: Definition | None = None

    def __repr__(self) -> str:
        return f"<Definition {self.name}>"

    @property
    def is_complete(self) -> bool:
        """Whether it is known what a call does."""
        at: Definition | None = self
        while at is not None and at._block is None:
            if at._make is None:
                return False
            at = at._after
        return True

    @property
    def block(self) -> Block:
        """What a call does."""
        if self._block is None and self._make is not None:
            self._block = Block(self.params, tuple(self._make()))
        if self._block is None:
            raise InternalError(f"the definition of {self.name} is not complete")
        return self._block

    def later(
        self, make: Callable[[], Sequence[Tensor]], after: Definition | None = None
    ) -> Definition:
        """Have the results made when they are asked for, of those of another definition."""
        self._make = make
        self._after = after
        return self

    def complete(self, results: Sequence[Tensor]) -> Definition:
        """Say what a call does, once."""
        if self._block is not None or self._make is not None:
            raise InternalError(f"the definition of {self.name} is complete already")
        self._block = Block(self.params, tuple(results))
        return self


@dataclass(frozen=True, eq=False)
class Recursion(Control):
    """The results of a definition on the operands: a call that stays one.

    Attributes:
        sizes: the values of the definition's sizes, by what is known around the call.
    """

    definition: Definition = field(kw_only=True)
    sizes: tuple[Expr, ...] = field(default=(), kw_only=True)

    @cached_property
    def results(self) -> tuple[Tensor, ...]:
        types = self.definition.types
        return stand_ins([f._replace(shape=self.here(f.shape)) for f in types])

    def here(self, shape: Shape) -> Shape:
        """A shape of the definition's with the sizes of this call."""
        return at_sizes(shape, self.definition.sizes, self.sizes)


def at_sizes(shape: Shape, sizes: Sequence[LocalSize], values: Sequence[Expr]) -> Shape:
    """A shape with values for some sizes."""
    if all(a is b for a, b in zip(sizes, values, strict=True)):
        return shape
    given: dict[Expr, Expr] = dict(zip(sizes, values, strict=True))
    return tuple(map(dim_of, substitute_all([dim_expr(n) for n in shape], given)))


def inject(dtype: RecordType, tag: int, fields: Sequence[Tensor], name: str = "") -> Tensor:
    """A new record's handle."""
    own = name or dtype.variants[tag].name.lower()
    return outputs(Inject((own,), tuple(fields), (), dtype=dtype, tag=tag))[0]


def recursion(
    definition: Definition, operands: Sequence[Tensor], source: str | None = None,
    sizes: Sequence[Expr] = (),
) -> tuple[Tensor, ...]:  # fmt: skip
    """The results of a call."""
    names = tuple([t.name for t in definition.types])
    where = source_line() if source is None else source
    op = Recursion(
        names, tuple(operands), (), source=where, definition=definition, sizes=tuple(sizes)
    )
    return outputs(op)


def tag_of(handle: Tensor) -> Tensor:
    """The number of a record's variant."""
    return outputs(Tag((f"{handle.name}.tag",), (handle,), (), source=""))[0]


def fields_of(handle: Tensor, tag: int) -> tuple[Tensor, ...]:
    """The fields of a record of a known variant, to be used in the block of a branch by the tag."""
    assert isinstance(handle.dtype, RecordType), "the operand is a handle"
    names = tuple([f.name for f in handle.dtype.variants[tag].fields])
    return outputs(Fields(names, (handle,), (), source="", tag=tag)) if names else ()


def same_record(
    handle: Tensor, name: str, function: str = "same", rule: CallRule | None = None
) -> Tensor:
    """The same handle as another tensor: what is differentiated by it is by nothing else.

    Args:
        function: what the call that returns it is called; `rule`: its derivative.
    """
    (own,) = stand_ins([Field(name, handle.shape, handle.dtype)])
    block = Block((own,), (own,))
    op = FunctionCall((name,), (handle,), (block,), source="", function=function, rule=rule)
    return outputs(op)[0]


def definitions_in(controls: Sequence[Control]) -> list[Definition]:
    """The definitions that operations call."""
    return list(dict.fromkeys([c.definition for c in controls if isinstance(c, Recursion)]))
