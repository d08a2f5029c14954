"""Views of what references hold: lenses, each a way to get a part and to put it back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import add, mul
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tensorad.errors import DefinitionError
from tensorad.ir.tensor import Dim, Placeholder, Shape, outputs
from tensorad.program.calls import shape_of
from tensorad.program.data.function_types import is_function
from tensorad.program.references.contents import check_structure, fitted, shown
from tensorad.program.references.frames import Cell, Held
from tensorad.program.trees import Branching, Leaf, Structure, flatten, n_leaves, unflatten
from tensorad.program.values import alone, as_tensor
from tensorad.te import places, views

_OPERATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {"add": add, "mul": mul}
_SEVERAL: Final = ("broadcast_to", "expand", "repeat", "tile")
"""What other arrays have that shows elements several times."""


@dataclass(frozen=True, eq=False)
class View:
    """A part of what a reference holds; `r.at[i]`, `r.at["w"].T`, `v[1:3]` are views.

    It shows what the reference holds at the time. `get` and `set` keep the laws of lenses: what was
    set is got, setting what was got changes nothing, and the last one of two sets counts.

    Attributes:
        cell: the reference.
        path: how errors call the part; `children`: where in the tree it is.
        of: of the elements of one leaf, those that are shown.
    """

    cell: Cell
    path: str
    children: tuple[int, ...] = ()
    of: views.View | None = None

    @classmethod
    def whole(cls, cell: Cell) -> View:
        """All that a reference holds."""
        return cls(cell, cell.name)

    def __repr__(self) -> str:
        return f"<View of {self.path}>"

    def __bool__(self) -> NoReturn:
        self._no_value("has no truth value")

    def _no_value(self, what: str) -> NoReturn:
        raise DefinitionError(
            f"a view of {self._described} {what}: it is a place, not what it shows.",
            hint="its get() is what it shows now.",
        )

    @property
    def at(self) -> View:
        """The view itself: `r.at[0].at[1]` is `r.at[0][1]`."""
        return self

    @property
    def shape(self) -> Shape:
        """The shape of what it shows.

        Raises:
            DefinitionError: it shows a tree.
        """
        return self._elements().shape

    def __getitem__(self, key: object) -> View:
        """A field of a tree, by its key, name or position; of an array what an index selects.

        Raises:
            DefinitionError: there is no such field; the index names an element several times, or
                may do so.
            BoundsError, DTypeError, ShapeError: the index does not fit.
        """
        structure = self._part(self.cell.read()).structure
        if self.of is None and isinstance(structure, Branching):
            return self._field(structure, key)
        return self._then(views.part(self._elements(), key))

    @property
    def T(self) -> View:
        """The axes in reverse order."""
        return self._then(views.transposed(self._elements()))

    def transpose(self, *axes: Any) -> View:
        """The axes in another order: in reverse order if none is given.

        Raises:
            DefinitionError: they are no permutation.
        """
        given = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        return self._then(views.transposed(self._elements(), given or None))

    def reshape(self, *shape: Any) -> View:
        """The elements in row-major order in another shape; one extent may be -1.

        Raises:
            ShapeError: the numbers of elements differ.
        """
        given: Sequence[Dim] = shape
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            given = shape[0]
        return self._then(views.reshaped(self._elements(), given))

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> View:
        """The elements at i, i + offset of two axes, along a last axis.

        Raises:
            ShapeError: there are no such axes, or their extents are different sizes.
        """
        return self._then(views.diagonal(self._elements(), offset, axis1, axis2))

    def get(self) -> Any:
        """What it shows now: a tensor; of a tree the tree, of what is held as it is."""
        held = self._part(self.cell.read())
        return shown(held) if self.of is None else self._now(held).get()

    def set(self, value: object) -> None:
        """Let what it shows be the value.

        Args:
            value: a tree of the same structure, shapes and dtypes; for elements of an array what
                broadcasts to them.
        Raises:
            DefinitionError, ShapeError, DTypeError: it does not fit; see `Ref.set`.
        """
        held = self.cell.read()
        part = self._part(held)
        if self.of is not None or (isinstance(part.structure, Leaf) and shape_of(part.leaves[0])):
            self._change("set", value)
        else:
            self._write(held, fitted(self.cell, part, value, self.path))

    def add(self, value: object) -> None:
        """Add the value to what it shows: a tree leaf by leaf."""
        self._combine("add", value)

    def mul(self, value: object) -> None:
        """Multiply what it shows by the value: a tree leaf by leaf."""
        self._combine("mul", value)

    def _combine(self, method: str, value: object) -> None:
        held = self.cell.read()
        part = self._part(held)
        if self.of is not None:
            self._change(method, value)
            return
        new = flatten(value, self.path)
        check_structure(self.cell, part, new, self.path)
        old = flatten(shown(part)).leaves
        made = [_OPERATIONS[method](a, b) for a, b in zip(old, new.leaves, strict=True)]
        tree = unflatten(part.structure, made)
        self._write(held, fitted(self.cell, part, tree, self.path))

    def _change(self, method: str, value: object) -> None:
        """Put values into the elements of one leaf."""
        held = self.cell.read()
        part = self._part(held)
        leaf = places.changed(method, self._now(part), value, self.path)
        self._write(held, part.with_leaves({0: (leaf, part.dtypes[0])}))

    def _write(self, held: Held, part: Held) -> None:
        """Let the reference hold another part here."""
        start, before = self._span(held.structure)
        stop = start + n_leaves(before)

        def spliced(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
            return (*old[:start], *new, *old[stop:])

        structure = _put(held.structure, self.children, part.structure)
        leaves, paths = spliced(held.leaves, part.leaves), spliced(held.paths, part.paths)
        self.cell.write(Held(leaves, paths, structure, spliced(held.dtypes, part.dtypes)))

    def _span(self, structure: Structure) -> tuple[int, Structure]:
        """Which leaf is the first one of the part, and the part's structure."""
        start, at = 0, structure
        for n in self.children:
            assert isinstance(at, Branching), "the structure never changes"
            start += sum(map(n_leaves, at.children[:n]))
            at = at.children[n]
        return start, at

    def _part(self, held: Held) -> Held:
        start, structure = self._span(held.structure)
        own = slice(start, start + n_leaves(structure))
        return Held(held.leaves[own], held.paths[own], structure, held.dtypes[own])

    @property
    def _described(self) -> str:
        own = self.path.removeprefix(self.cell.name)
        return f"{own} of {self.cell.described}" if own else self.cell.described

    def _field(self, structure: Branching, key: object) -> View:
        names = (f"[{key!r}]", f".{key}")
        found = [n for n, k in enumerate(structure.keys) if k in names]
        count = len(structure.keys)
        if not found and isinstance(key, int) and issubclass(structure.kind, tuple):
            found = [key % count] if -count <= key < count else []
        if not found:
            raise DefinitionError(
                f"{self._described} has no field {key!r}.",
                where=f"{structure.kind.__name__} with {', '.join(structure.keys) or 'nothing'}",
                hint="a view of a tree is of one of its fields; then of its elements.",
            )
        n = found[0]
        return replace(self, path=self.path + structure.keys[n], children=(*self.children, n))

    def _elements(self) -> views.View:
        """The elements that it shows, of a tensor that stands for the leaf.

        Raises:
            DefinitionError: it shows a tree, a function or a reference.
        """
        if self.of is not None:
            return self.of
        part = self._part(self.cell.read())
        if not isinstance(part.structure, Leaf) or is_function(part.leaves[0]):
            raise DefinitionError(
                f"{self._described} is no array: it has no elements.",
                hint="choose a field first: a view of elements is of one array.",
            )
        (leaf,), (dtype,) = part.leaves, part.dtypes
        standing = Placeholder(self.path, shape_of(leaf), alone(dtype))
        return views.whole(outputs(standing)[0])

    def _now(self, part: Held) -> views.View:
        """The elements of what is held."""
        (leaf,), (dtype,) = part.leaves, part.dtypes
        return self._elements().of(as_tensor(leaf, self.path, alone(dtype)))

    def _then(self, of: views.View) -> View:
        return replace(self, of=None if of.is_whole else of)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name in _SEVERAL:
                raise DefinitionError(
                    f"a view of {self.path} cannot show an element several times, as {name} does.",
                    hint=f"what is set there would not be told: broadcast what is got, "
                    f"{self.path}.get().",
                )
            if name.startswith("_"):
                raise AttributeError(name, name=name, obj=self)
            raise AttributeError(
                f"a view of {self.path} has no {name}: it has get, set, add and mul",
                name=name,
                obj=self,
            )


def _put(structure: Structure, children: Sequence[int], part: Structure) -> Structure:
    """The structure with another part at a place."""
    if not children:
        return part
    assert isinstance(structure, Branching), "there is a part there"
    n, *rest = children
    own = list(structure.children)
    own[n] = _put(own[n], rest, part)
    return replace(structure, children=tuple(own))
