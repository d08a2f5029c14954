"""Operators as other systems need them: outputs of inputs, with their derivatives and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from keyword import iskeyword
from typing import Any, NamedTuple

from tensorad.autodiff import jvp, vjp
from tensorad.batching.tensors import for_rows
from tensorad.building import build
from tensorad.codegen.runtime.c_entry import CEntry
from tensorad.compiled import CompiledFunction
from tensorad.errors import BindError, DefinitionError, DTypeError
from tensorad.interop.kept import with_values, worth_keeping
from tensorad.interop.same import same_program
from tensorad.interop.shapes import Extents, output_shapes, sizes_told, symbols_of
from tensorad.ir.arrays.arguments import meant
from tensorad.ir.expr import size_var
from tensorad.ir.records import is_record
from tensorad.ir.tensor import Placeholder, Tensor, format_shape
from tensorad.ir.tensor import outputs as results_of
from tensorad.ir.visit import placeholders
from tensorad.process import Guard

_guard = Guard()
"""Held while an operator is derived or built; one for all, so that a forked child can have a new
one."""


class Derived(NamedTuple):
    """An operator that was made of another one.

    Attributes:
        takes: which of the values that there are it is given, by position: the inputs of the other
            operator, then cotangents or tangents.
        moves: of each output, whether it has the rows.
    """

    operator: Operator
    takes: tuple[int, ...]
    moves: tuple[bool, ...] = ()


class Keeping(NamedTuple):
    """What a backward reads of the values of its forward.

    Attributes:
        operator: the operator itself, or one with further outputs behind its own.
        used: which of the outputs are read, by position.
    """

    operator: Operator
    used: tuple[int, ...]


class Operator:
    """Outputs as a function of inputs.

    Attributes:
        name: an identifier.
        outputs: what is computed; `inputs`: placeholders that it is computed from, all of them.
    """

    def __init__(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], name: str) -> None:
        """An operator; nothing is built before it is needed.

        Raises:
            DefinitionError: the name is no identifier; there are no outputs; an input is no
                placeholder, is given twice, or is missing.
            DTypeError: an input or output is a value of a data type.
        """
        if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):
            raise DefinitionError(
                f"the name of an operator must be an identifier, got {name!r}.",
                hint='write a name such as "min_plus".',
            )
        self.name = name
        self.outputs = _tensors(outputs, name, "outputs")
        self.inputs = _tensors(inputs, name, "inputs")
        _check_inputs(self)
        self._derived: dict[object, Derived] = {}
        self._keeping: dict[tuple[int, ...], Keeping] = {}
        self._along: tuple[Operator, dict[Tensor, Tensor]] | None = None
        self._built: CompiledFunction | None = None
        self._entries: dict[tuple[Extents, ...], CEntry] = {}

    def __repr__(self) -> str:
        own = ", ".join([f"{t.name} : {t.dtype} {format_shape(t.shape)}" for t in self.inputs])
        return f"<Operator {self.name}({own})>"

    @property
    def differentiable_inputs(self) -> tuple[int, ...]:
        """Positions of float inputs."""
        return tuple([n for n, t in enumerate(self.inputs) if t.dtype.is_float])

    @property
    def differentiable_outputs(self) -> tuple[int, ...]:
        """Positions of float outputs."""
        return tuple([n for n, t in enumerate(self.outputs) if t.dtype.is_float])

    def pullback(self, wanted: Sequence[int], given: Sequence[int]) -> Derived:
        """Adjoints of the inputs `wanted`, by cotangents of the outputs `given`, both floats."""

        def made() -> Derived:
            heads = _moves_of([self.outputs[n] for n in given], self.inputs)
            results = self.adjoints(wanted, given, heads)
            name = f"{self.name}_vjp_{_bits(wanted, self.inputs)}_{_bits(given, self.outputs)}"
            return _of_those_read(results, [*self.inputs, *heads], name)

        return self._once(("vjp", tuple(wanted), tuple(given)), made)

    def pullback_from(
        self, wanted: Sequence[int], given: Sequence[int], used: Sequence[int]
    ) -> Derived:
        """The same, by values of the outputs `used` too, where the adjoints have these in them.

        What it takes is counted over inputs, outputs, cotangents.
        """

        def made() -> Derived:
            heads = _moves_of([self.outputs[n] for n in given], self.inputs)
            results = self.adjoints(wanted, given, heads)
            stand = _values_of(self.outputs, (*self.inputs, *heads))
            results = with_values(results, {self.outputs[n]: stand[n] for n in used})
            bits = [(wanted, self.inputs), (given, self.outputs), (used, self.outputs)]
            name = "_".join([self.name, "of", *[_bits(chosen, among) for chosen, among in bits]])
            return _of_those_read(results, [*self.inputs, *stand, *heads], name)

        return self._once(("vjp", tuple(wanted), tuple(given), tuple(used)), made)

    def keeping(self, wanted: Sequence[int]) -> Keeping:
        """What to keep of the values that are computed, for the adjoints of the inputs `wanted`."""
        with _guard.lock:
            key = tuple(wanted)
            if key not in self._keeping:
                self._keeping[key] = self._kept(key)
            return self._keeping[key]

    def _kept(self, wanted: tuple[int, ...]) -> Keeping:
        given = self.differentiable_outputs
        heads = _moves_of([self.outputs[n] for n in given], self.inputs)
        results = self.adjoints(wanted, given, heads)
        kept = worth_keeping(self.outputs, self.inputs, results, heads)
        own = dict.fromkeys(self.outputs)
        others = [t for t in kept if t not in own]
        if not others:
            return Keeping(self, tuple([n for n, t in enumerate(self.outputs) if t in kept]))
        name = f"{self.name}_kept_{_bits(wanted, self.inputs)}"
        larger = Operator([*self.outputs, *others], self.inputs, name)
        return Keeping(larger, tuple([n for n, t in enumerate(larger.outputs) if t in kept]))

    def pushforward(self, moving: Sequence[int]) -> Derived:
        """Tangents of the float outputs, by tangents of the inputs `moving`."""

        def made() -> Derived:
            tangents = _moves_of([self.inputs[n] for n in moving], self.inputs)
            along = {self.inputs[n]: t for n, t in zip(moving, tangents, strict=True)}
            floats = [self.outputs[n] for n in self.differentiable_outputs]
            each = list(dict.fromkeys(floats))
            moved = dict(zip(each, jvp(each, along), strict=True))
            results = [moved[t] for t in floats]
            name = f"{self.name}_jvp_{_bits(moving, self.inputs)}"
            derived = _of_those_read(results, [*self.inputs, *tangents], name)
            derived.operator._along = (self, {t: x for x, t in along.items()})
            return derived

        return self._once(("jvp", tuple(moving)), made)

    def adjoints(
        self, wanted: Sequence[int], given: Sequence[int], heads: Sequence[Tensor]
    ) -> list[Tensor]:
        """Adjoints of inputs; of tangents those of what moves along them, a shorter formula."""
        if self._along is not None:
            source, along = self._along
            moved = [along[t] for t in [self.inputs[n] for n in wanted] if t in along]
            if len(moved) == len(wanted):
                floats = [source.outputs[n] for n in source.differentiable_outputs]
                results = _pulled([floats[n] for n in given], moved, heads)
                if {*self.inputs, *heads}.issuperset(placeholders(results)):
                    return results
        return _pulled([self.outputs[n] for n in given], [self.inputs[n] for n in wanted], heads)

    def for_rows(self, mapped: Sequence[int]) -> Derived:
        """The operator for many rows: the inputs `mapped` have a leading axis."""

        def made() -> Derived:
            inputs = list(self.inputs)
            known = {s.name for t in (*inputs, *self.outputs) for s in symbols_of(t)}
            rows = size_var(next(n for n in numbered("rows") if n not in known))
            for n in mapped:
                inputs[n] = _like(inputs[n], inputs[n].name, (rows,))
            image = {self.inputs[n]: inputs[n] for n in mapped}
            pairs = for_rows(self.outputs, image)
            name = f"{self.name}_rows_{_bits(mapped, self.inputs)}"
            operator = Operator([t for t, _ in pairs], inputs, name)
            return Derived(operator, tuple(range(len(inputs))), tuple([m for _, m in pairs]))

        return self._once(("rows", tuple(mapped)), made)

    def _once(self, key: object, made: Callable[[], Derived]) -> Derived:
        with _guard.lock:
            if key not in self._derived:
                self._derived[key] = made()
            return self._derived[key]

    def computes(self, other: Operator) -> bool:
        """Whether another one is the same: outputs of inputs, with their names."""
        own, others = [(*o.outputs, *o.inputs) for o in (self, other)]
        return len(self.outputs) == len(other.outputs) and same_program(own, others)

    def output_shapes(self, shapes: Sequence[Sequence[Any]]) -> list[Extents]:
        """The shapes of the outputs, by those of the inputs; see `output_shapes`."""
        return output_shapes(self.outputs, dict(zip(self.inputs, shapes, strict=True)))

    @property
    def built(self) -> CompiledFunction:
        """The compiled function."""
        if self._built is None:
            with _guard.lock:
                if self._built is None:
                    self._built = build(list(self.outputs), list(self.inputs), name=self.name)
        return self._built

    def entry(self, shapes: Sequence[Extents]) -> CEntry:
        """The function of C for inputs of these shapes."""
        key = tuple([tuple(s) for s in shapes])
        found = self._entries.get(key)
        if found is None:
            told = sizes_told(dict(zip(self.inputs, key, strict=True)))
            known = {str(s): n for s, n in told.items()}
            sizes = {name: known[name] for name in self.built.sizes if name in known}
            found = self._entries[key] = self.built.c_entry(**sizes)
            if len(self._entries) > _KEPT_ENTRIES:
                del self._entries[next(iter(self._entries))]
        return found


def in_order(own: Operator, given: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """Arguments of a call in the order of the inputs: some by place, the others by name.

    Raises:
        BindError: a name is that of no input, of two, or of one that is given already; one is
            missing.
    """
    names = [t.name for t in own.inputs]
    rest = names[len(given) :]
    for k in named:
        if rest.count(k) != 1:
            known = "is given twice" if k in names[: len(given)] else "is no name of one input"
            raise BindError(
                f"argument {k} of {own.name} {known}.",
                where=f"{own.name}({', '.join(names)})",
                hint=f"{'' if k in names else meant(k, names)}"
                "pass each input once, by its place or by its name.",
            )
    missing = [k for k in rest if k not in named]
    if missing:
        raise BindError(
            f"argument {missing[0]} of {own.name} is missing.",
            where=f"{own.name}({', '.join(names)})",
            hint="pass each input once, by its place or by its name.",
        )
    return [*given, *[named[k] for k in rest]]


_KEPT_ENTRIES = 64
"""Functions of C of an operator that are kept, for the shapes seen last."""


def _tensors(given: Sequence[Tensor], name: str, what: str) -> tuple[Tensor, ...]:
    several = list(given)
    wrong = [t for t in several if not isinstance(t, Tensor)]
    if wrong or (what == "outputs" and not several):
        raise DefinitionError(
            f"the {what} of operator {name} must be tensors, got "
            f"{f'a {type(wrong[0]).__name__}' if wrong else 'none'}.",
            hint="write op([Y], [X, W], name), as for ta.build.",
        )
    for t in several:
        if is_record(t.dtype):
            raise DTypeError(
                f"{t.name} is a value of a data type, which is no array of another library.",
                where=f"{what} of operator {name}",
                hint="make an operator of arrays.",
            )
    return tuple(several)


def _check_inputs(own: Operator) -> None:
    for n, t in enumerate(own.inputs):
        if not isinstance(t.op, Placeholder) or t in own.inputs[:n]:
            wrong = "is given twice" if t in own.inputs[:n] else "is no placeholder"
            raise DefinitionError(
                f"input {t.name} of operator {own.name} {wrong}.",
                where=f"{t.name} : {t.dtype} {format_shape(t.shape)}",
                hint="pass each placeholder that the outputs read once.",
            )
    missing = [t for t in placeholders(own.outputs) if t not in own.inputs]
    if missing:
        raise DefinitionError(
            f"operator {own.name} reads {missing[0].name}, which is none of its inputs.",
            where=f"inputs: {', '.join([t.name for t in own.inputs])}",
            hint="add it to the inputs.",
        )


def _pulled(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], heads: Sequence[Tensor]
) -> list[Tensor]:
    """Adjoints of inputs; an output that stands at several places has the sum of their heads."""
    own: dict[Tensor, Tensor] = {}
    for t, head in zip(outputs, heads, strict=True):
        own[t] = own[t] + head if t in own else head
    return vjp(list(own), inputs, list(own.values()))


def numbered(name: str) -> Iterator[str]:
    """A name, and others after it."""
    yield name
    yield from (f"{name}_{n}" for n in count(2))


def _moves_of(tensors: Sequence[Tensor], beside: Sequence[Tensor]) -> list[Tensor]:
    """Cotangents or tangents, called otherwise than each other and than the inputs beside them."""
    return _values_of(tensors, beside, "d_")


def _values_of(
    tensors: Sequence[Tensor], beside: Sequence[Tensor], before: str = ""
) -> list[Tensor]:
    """Placeholders like tensors, called otherwise than each other and than those beside them."""
    known = {t.name for t in beside}
    made = []
    for t in tensors:
        name = next(n for n in numbered(f"{before}{t.name}") if n not in known)
        known.add(name)
        made.append(_like(t, name))
    return made


def _like(t: Tensor, name: str, rows: tuple[Any, ...] = ()) -> Tensor:
    return results_of(Placeholder(name, (*rows, *t.shape), t.dtype))[0]


def _of_those_read(results: Sequence[Tensor], values: Sequence[Tensor], name: str) -> Derived:
    """The operator with these results, of the values that they read."""
    read = dict.fromkeys(placeholders(results))
    symbols = {s for t in results for s in symbols_of(t)}
    told = {s for t in read for s in symbols_of(t)}
    takes = []
    for n, t in enumerate(values):
        tells = not told.issuperset(symbols) and bool(symbols & set(symbols_of(t)) - told)
        if t in read or tells:
            told.update(symbols_of(t))
            takes.append(n)
    return Derived(Operator(list(results), [values[n] for n in takes], name), tuple(takes))


def _bits(chosen: Iterable[int], among: Sequence[Tensor]) -> str:
    own = set(chosen)
    return "".join(["1" if n in own else "0" for n in range(len(among))])
