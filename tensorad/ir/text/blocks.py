"""What is known in a block while its text is read: values, sizes, bindings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Axis, Size, read
from tensorad.ir.tensor import Compute, Placeholder, Shape, Tensor, dim_of, outputs
from tensorad.ir.text.program import Binding, NameTree, Scope, Tree, tree_leaves

TypeTree = tuple[DType, Shape] | list["TypeTree"]
"""A dtype with a shape, or a list of types."""


@dataclass(frozen=True)
class Known:
    """What a block's statements have defined so far.

    Attributes:
        outer: the block around this one; of its values only constants and sizes are in reach.
        sizes: also those of the function, in its outermost block.
        names: of tensors: the first that each got.
    """

    outer: Known | None
    values: dict[str, Tree] = field(default_factory=dict)
    sizes: dict[str, Size] = field(default_factory=dict)
    bindings: list[Binding] = field(default_factory=list)
    names: dict[Tensor, str] = field(default_factory=dict)

    def add(self, name: str, tree: Tree) -> None:
        """A value from here on."""
        self.values[name] = tree
        if isinstance(tree, Tensor):
            self.names.setdefault(tree, name)

    def around(self) -> Iterator[Known]:
        """This block and those around it."""
        known: Known | None = self
        while known is not None:
            yield known
            known = known.outer

    def find(self, name: str) -> Tree | Size | None:
        """What a name means here."""
        if name in self.values:
            return self.values[name]
        for known in self.around():
            if name in known.sizes:
                return known.sizes[name]
            found = known.values.get(name)
            if isinstance(found, Tensor) and found.is_constant:
                return found
        return None

    def is_outside(self, name: str) -> bool:
        """Whether a block around this one has such a value."""
        return any(name in known.values for known in self.around())

    def scope(self, results: Sequence[NameTree]) -> Scope:
        """The record of the block."""
        return Scope(tuple(self.bindings), tuple(results), self.names)


def placeholder_tree(name: str, of: TypeTree) -> Tree:
    """Placeholders of a type, called x, or x_0, x_1_0 in a tuple."""
    if isinstance(of, tuple):
        dtype, shape = of
        return outputs(Placeholder(name, shape, dtype))[0]
    return tuple([placeholder_tree(f"{name}_{n}", t) for n, t in enumerate(of)])


def another(name: str, tree: Tree, source: str) -> Tree:
    """A value under another name: copies of its floats, so that each name has its own adjoint."""
    if isinstance(tree, tuple):
        return tuple([another(f"{name}_{n}", t, source) for n, t in enumerate(tree)])
    if tree.is_constant or not tree.dtype.is_float:
        return tree
    axes = compute_axes(tree.shape)
    return outputs(Compute(name, axes, (read(tree, axes),), source))[0]


def type_of(tree: Tree) -> TypeTree:
    """The type of a value."""
    return (tree.dtype, tree.shape) if isinstance(tree, Tensor) else [type_of(t) for t in tree]


def same_type(a: TypeTree, b: TypeTree) -> bool:
    """Whether structures, dtypes and shapes agree; extents do as formulas."""
    if isinstance(a, list) or isinstance(b, list):
        if not isinstance(a, list) or not isinstance(b, list) or len(a) != len(b):
            return False
        return all(map(same_type, a, b))
    (first, own), (second, other) = a, b
    return first is second and same_extents(own, other)


def same_extents(a: Shape, b: Shape) -> bool:
    """Whether shapes agree, as formulas."""
    return len(a) == len(b) and all(
        m is n or (isinstance(m, int) and isinstance(n, int) and m == n)
        for m, n in zip(a, b, strict=True)
    )


def kept_shape(scope: Sequence[Axis]) -> Shape:
    """The shape of the states of a scan whose text does not say it: the extents of its axes."""
    return tuple([dim_of(a.upper) for a in scope])


def type_text(of: TypeTree) -> str:
    """float32[5, n], or (float32[5, n], bool[])."""
    if isinstance(of, list):
        parts = [type_text(t) for t in of]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
    dtype, shape = of
    return f"{dtype}[{', '.join([_extent(n) for n in shape])}]"


def _extent(n: object) -> str:
    return getattr(n, "label", None) or str(n)


def value_text(tree: Tree) -> str:
    """The type of a value."""
    return type_text(type_of(tree))


def leaf_names(name: str, tree: Tree) -> list[str]:
    """A name for each tensor of a value."""
    if isinstance(tree, Tensor):
        return [name]
    return [f"{name}_{n}" for n in range(len(tree_leaves(tree)))]
