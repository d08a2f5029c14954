"""The leaves of a tree that comes again: shapes, and dtypes that numbers take of what they meet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import INT64, DType
from tensorad.ir.hooks import Hook
from tensorad.ir.records import RecordType
from tensorad.ir.tensor import Shape, Tensor
from tensorad.program.calls import shape_of
from tensorad.program.data.closures import Handle
from tensorad.program.data.function_types import (
    ANY_FUNCTION,
    FunctionsType,
    data_of,
    inner_functions,
    is_function,
    joined,
)
from tensorad.program.data.instances import is_value
from tensorad.program.data.rounds import functions_type
from tensorad.program.trees import (
    LEAF,
    Branching,
    Flat,
    Leaf,
    Static,
    Structure,
    data_type_of,
    leaf_maker,
    n_leaves,
    static,
    statics,
    unflatten,
)
from tensorad.program.values import alone, as_tensor, dtype_of, parameter, parameters, promoted
from tensorad.te.scalars import select

chosen: Final[Hook[[], type]] = Hook("tensorad.program.kinds.references")
"""The class of references that data choose: trees of a number, and of those it may be."""


class LeafTypes:
    """Types of the leaves of a tree.

    Attributes:
        flat: the tree that they are from.
        own: dtypes of its leaves, weak ones of Python numbers.
        dtypes: what tensors in their places have, so far.
    """

    def __init__(self, flat: Flat, name: str) -> None:
        """`name`: what paths begin with."""
        self.flat = Flat([], [], flat.structure)
        self.name = name
        self.own: list[DType] = []
        self.dtypes: list[DType] = []
        self.shapes: list[Shape] = []
        self._functions: list[FunctionsType] = []
        self.add(flat, [dtype_of(v) for v in flat.leaves])

    def add(self, flat: Flat, dtypes: Sequence[DType]) -> None:
        """Leaves more, of these dtypes, weak ones of Python numbers."""
        for v, path, dtype in zip(flat.leaves, flat.paths, dtypes, strict=True):
            is_new = is_function(v) and not isinstance(v, Tensor)
            self.own.append(self._new(path, v) if is_new else dtype)
            self.dtypes.append(alone(self.own[-1]))
            self.shapes.append(shape_of(v))
        leaves, paths = [*self.flat.leaves, *flat.leaves], [*self.flat.paths, *flat.paths]
        self.flat = Flat(leaves, paths, self.flat.structure)

    def _new(self, path: str, first: Any) -> FunctionsType:
        """A type of functions, to which one belongs."""
        self._functions.append(functions_type(path))
        self._functions[-1].tensor_of(first)
        return self._functions[-1]

    def parameters(self, owner: str) -> list[Tensor]:
        """A placeholder for each leaf."""
        return parameters(self.flat.paths, self.shapes, self.dtypes, owner)

    def is_number(self, n: int) -> bool:
        """Whether a leaf stands for a Python number, and has met nothing else so far."""
        return self.own[n].is_weak and self.dtypes[n] is alone(self.own[n])

    def promote(self, leaves: Sequence[object]) -> bool:
        """Let numbers take the dtypes of what is made of them; whether one did."""
        return self.promote_to([dtype_of(v) for v in leaves])

    def promote_to(self, dtypes: Sequence[DType | None]) -> bool:
        """The same, of what has these dtypes; None where nothing is to be learned."""
        changed = False
        for n, made in enumerate(dtypes):
            if made is None or made.is_function or not self.own[n].is_weak:
                continue
            joined = promoted([self.own[n], made])
            if joined is None:
                continue
            dtype = promoted([self.own[n], self.dtypes[n], alone(joined)])
            dtype = alone(joined) if dtype is None else alone(dtype)
            changed |= dtype is not self.dtypes[n]
            self.dtypes[n] = dtype
        return changed

    def same_shape(self, n: int, value: object) -> bool:
        """Whether a value has the shape of a leaf."""
        before, now = self.shapes[n], shape_of(value)
        return len(before) == len(now) and all(map(same_dim, before, now))

    def takes(self, n: int, value: object) -> bool:
        """Whether a value has the dtype of a leaf, or is a number or function that takes it."""
        if isinstance(self.dtypes[n], FunctionsType) or is_function(value):
            return isinstance(self.dtypes[n], FunctionsType) and is_function(value)
        return promoted([self.dtypes[n], dtype_of(value)]) is self.dtypes[n]

    # functions

    def meet(self, after: Flat) -> tuple[Flat, bool]:
        """The tree with leaves where functions differ, and whether there were none before."""
        before, now = opened([self.flat, after], self.name)
        if before.paths == self.flat.paths and before.structure == self.flat.structure:
            return now, False
        kept = dict(zip(self.flat.paths, zip(self.own, self.dtypes, strict=True), strict=True))
        functions = self._functions
        LeafTypes.__init__(self, before, self.name)
        for n, path in enumerate(before.paths):
            if path in kept:
                self.own[n], self.dtypes[n] = kept[path]
        self._functions += functions
        return now, True

    def join(self, leaves: Sequence[object]) -> bool:
        """Let functions of one type and others be of a type to which both belong; whether some
        were not. A type that is open, such as that of a loop around, takes the others."""
        changed = False
        for n, value in enumerate(leaves):
            own = self.dtypes[n]
            is_other = is_function(value) and getattr(value, "dtype", None) is not own
            is_done = own is ANY_FUNCTION or not getattr(own, "is_open", True)
            is_given = isinstance(own, FunctionsType) and own not in self._functions
            if is_given and is_other and is_done:
                self.own[n] = self.dtypes[n] = self._new(self.flat.paths[n], value)
                changed = True
        return changed

    @property
    def n_functions(self) -> int:
        """How many functions belong to types of these leaves so far."""
        return sum([len(t.chosen) for t in self._functions])

    def close(self) -> None:
        """No more functions are added."""
        for t in self._functions:
            t.is_open = False

    def tensors(self, leaves: Sequence[object]) -> list[Tensor]:
        """Leaves that fit, as tensors of these dtypes."""
        triples = zip(leaves, self.flat.paths, self.dtypes, strict=True)
        return [as_tensor(*three) for three in triples]


def opened(flats: Sequence[Flat], name: str) -> list[Flat]:
    """The trees with leaves where they have different functions, or parts that leaves stand for;
    and with references that data choose where they have different ones.

    Args:
        name: what their paths begin with.
    """
    flats = _with_chosen(flats, name)
    places: list[str] = []
    rest = [iter(f.leaves) for f in flats]
    stack: list[tuple[str, list[Structure]]] = [(name, [f.structure for f in flats])]
    while stack:
        path, parts = stack.pop()
        if all(map(_like(parts[0]), parts)):
            first = parts[0]
            if isinstance(first, Branching):
                columns = zip(*[p.children for p in parts if isinstance(p, Branching)], strict=True)
                inner = zip(first.keys, columns, strict=True)
                stack += [(path + key, list(some)) for key, some in inner][::-1]
            elif isinstance(first, Leaf):
                for values in rest:
                    next(values)
            continue
        own = [list(islice(values, n_leaves(p))) for p, values in zip(parts, rest, strict=True)]
        pairs = list(zip(parts, own, strict=True))
        if all(_is_one(*pair) for pair in pairs) and len({_data(*pair) for pair in pairs}) == 1:
            places.append(path)
    return [with_leaves(f, name, places) for f in flats] if places else list(flats)


def _like(first: Structure) -> Callable[[Structure], bool]:
    """Whether parts are as the first one, as far as one can see without their children."""

    def is_like(other: Structure) -> bool:
        if isinstance(first, Branching) and isinstance(other, Branching):
            same = (first.kind, first.meta, first.keys)
            return same == (other.kind, other.meta, other.keys) and len(first.children) == len(
                other.children
            )
        if isinstance(first, Static) and isinstance(other, Static):
            return first is other or first == other
        return isinstance(first, Leaf) and isinstance(other, Leaf)

    return is_like


def _is_one(at: Structure, leaves: Sequence[Any]) -> bool:
    """Whether a part is a function or a value of a data type, or may be one."""
    if isinstance(at, Leaf):
        return is_function(leaves[0]) or is_value(leaves[0])
    return is_function(at.value) if isinstance(at, Static) else leaf_maker(at) is not None


def _data(at: Structure, leaves: Sequence[Any]) -> RecordType | None:
    """The data type of a part that is a value with functions in it, which meets its like alone."""
    return data_of(leaves[0]) if isinstance(at, Leaf) else data_type_of(at)


def with_leaves(flat: Flat, name: str, places: Collection[str]) -> Flat:
    """The tree with leaves at these places, whose values are what is there now."""
    leaves: list[Any] = []
    paths: list[str] = []
    rest = iter(flat.leaves)

    def walk(at: Structure, path: str) -> Structure:
        make = leaf_maker(at) if path in places else None
        if isinstance(at, Branching) and make is None:
            pairs = zip(at.children, at.keys, strict=True)
            return Branching(
                at.kind, at.meta, at.keys, tuple([walk(c, path + k) for c, k in pairs])
            )
        if isinstance(at, Static) and path not in places:
            return at
        if make is not None:
            leaves.append(make(unflatten(at, islice(rest, n_leaves(at)))))
        else:
            leaves.append(at.value if isinstance(at, Static) else next(rest))
        paths.append(path)
        return LEAF

    structure = walk(flat.structure, name)
    return Flat(leaves, paths, structure)


def with_values(flat: Flat, name: str) -> Flat:
    """A result with tensors in the place of functions that capture what is computed inside."""
    places = inner_functions(dict(statics(flat.structure, name)))
    if not places:
        return flat
    made = with_leaves(flat, name, places)
    leaves = [joined([v], p)[0] if p in places else v for v, p in zip(*made[:2], strict=True)]
    return made._replace(leaves=leaves)


def _with_chosen(flats: Sequence[Flat], name: str) -> list[Flat]:
    """The trees with references that data choose where they have different ones."""
    rest = [iter(f.leaves) for f in flats]
    leaves: list[list[Any]] = [[] for _ in flats]
    paths: list[list[str]] = [[] for _ in flats]
    old = [iter(f.paths) for f in flats]
    changes = False

    def copy(parts: Sequence[Structure]) -> list[Structure]:
        for n, part in enumerate(parts):
            count = n_leaves(part)
            leaves[n] += islice(rest[n], count)
            paths[n] += islice(old[n], count)
        return list(parts)

    def walk(parts: Sequence[Structure], path: str) -> list[Structure]:
        nonlocal changes
        first = parts[0]
        if all(p == first for p in parts):
            return copy(parts)
        every = [references_in(p) for p in parts]
        if all(every):
            changes = True
            cells = list(dict.fromkeys([c for some in every for c in some]))
            for n, some in enumerate(every):
                own = list(islice(rest[n], n_leaves(parts[n])))
                list(islice(old[n], len(own)))
                leaves[n].append(_number(own, some, cells))
                paths[n].append(f"{path}[0]")
            return [_structure(cells)] * len(parts)
        branching = [p for p in parts if isinstance(p, Branching)]
        kinds = [(p.kind, p.meta, p.keys, len(p.children)) for p in branching]
        if len(branching) < len(parts) or any(k != kinds[0] for k in kinds):
            return copy(parts)
        columns = zip(*[p.children for p in branching], strict=True)
        pairs = zip(branching[0].keys, columns, strict=True)
        made = [walk(list(column), path + key) for key, column in pairs]
        rows: Iterator[tuple[Structure, ...]] = zip(*made, strict=True)
        return [
            Branching(p.kind, p.meta, p.keys, row) for p, row in zip(branching, rows, strict=True)
        ]

    structures = walk([f.structure for f in flats], name)
    if not changes:
        return list(flats)
    return [Flat(*three) for three in zip(leaves, paths, structures, strict=True)]


def references_in(part: Structure) -> list[Handle]:
    """The references that a part of a tree may be; none if it is no reference."""
    if isinstance(part, Static):
        return [part.value] if isinstance(part.value, Handle) else []
    if isinstance(part, Branching) and part.kind is chosen.call():
        return [c.value for c in part.children if isinstance(c, Static)]
    return []


def _structure(cells: Sequence[Handle]) -> Structure:
    keys = tuple([f"[{n}]" for n in range(len(cells) + 1)])
    return Branching(chosen.call(), None, keys, (LEAF, *[static(c) for c in cells]))


def _number(tag: Sequence[Any], own: Sequence[Handle], cells: Sequence[Handle]) -> Any:
    """Which of all references it is, of the number that tells which of its own, if there are
    several."""
    places = [cells.index(c) for c in own]
    if not tag:
        return places[0]
    if places == list(range(len(own))):
        return tag[0]
    found: Any = places[-1]
    for n in reversed(range(len(places) - 1)):
        found = select(tag[0] <= n, places[n], found)
    return as_tensor(found, "tag", INT64)


def function_types(paths: Sequence[str], dtypes: Sequence[DType]) -> list[DType]:
    """The dtypes of parameters, functions being of types to which others may be added."""
    found: list[DType] = []
    for path, dtype in zip(paths, dtypes, strict=True):
        own = dtype
        if isinstance(dtype, FunctionsType):
            own = functions_type(path)
            own.tensor_of(parameter(path, (), dtype, path))
        found.append(own)
    return found


def without_functions(dtypes: Sequence[DType]) -> tuple[DType, ...]:
    """The dtypes, functions being alike."""
    return tuple([ANY_FUNCTION if d.is_function else d for d in dtypes])
