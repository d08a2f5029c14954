"""Linear functions of trees, as programs: products, transposes, matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorad.autodiff import jacobian, vjp
from tensorad.autodiff.local.linearity import freed, vanish
from tensorad.autodiff.local.overrides import input_like
from tensorad.errors import DefinitionError, GradError
from tensorad.implicit.calls import Packing, Tensors, applied
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.tensor import Tensor
from tensorad.program.references.frames import frame
from tensorad.program.sides import side_by_side
from tensorad.program.traces import Program, traced
from tensorad.program.trees import Flat, unflatten
from tensorad.program.values import as_tensor, parameters


def written(function: Callable[[Any], Any], x: Flat, title: str, name: str) -> Program:
    """A function of a tree written down; what it reads is what it depends on beside the tree.

    Args:
        x: where it is written down; leaves are tensors.
        title: the construct, for errors; `name`: of the function.
    Raises:
        DefinitionError: it writes a reference of outside.
    """
    shapes, dtypes = [t.shape for t in x.leaves], [t.dtype for t in x.leaves]
    owner = f"the function of {title}"
    params = parameters(x.paths, shapes, dtypes, owner)
    with frame(owner, refuses=True):
        return traced(name, lambda p: function(unflatten(x.structure, p)), params)


def like_x(program: Program, x: Flat, title: str) -> Program:
    """A program whose results are like the tree it is a function of.

    Raises:
        DefinitionError: what it returns is another tree, of other shapes or of wider dtypes.
    """
    found = Flat(list(program.results), list(program.paths), program.structure)
    same = program.structure == x.structure and all(
        a.ndim == b.ndim
        and all(map(same_dim, a.shape, b.shape))
        and b.dtype.is_float
        and b.dtype.bits <= a.dtype.bits
        for a, b in zip(x.leaves, program.results, strict=True)
    )
    if not same:
        raise DefinitionError(
            f"the function of {title} must return a tree like x.",
            where=side_by_side(("x", "result"), x, found, "x"),
            hint="return a tree of the structure, the shapes and the dtypes of x.",
        )
    made = zip(program.results, program.paths, x.leaves, strict=True)
    return replace(program, results=tuple([as_tensor(t, p, like.dtype) for t, p, like in made]))


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A linear function of tensors, with its transpose; both read `rest` beside their operands.

    Attributes:
        forward: the function, in its parameters; `backward`: the transpose.
        rest: what both read.
    """

    forward: Program
    backward: Program
    rest: tuple[Tensor, ...]

    @staticmethod
    def of(program: Program, title: str, *, symmetric: bool = False) -> LinearMap:
        """The map that a program is in its parameters.

        Raises:
            GradError: it is not linear.
        """
        inputs = [input_like(t.name, t) for t in program.parameters]
        heads = [input_like(f"c{t.name}", t) for t in program.results]

        def transposed(c: Sequence[Tensor]) -> Any:
            made = applied(program, (*inputs, *program.reads))
            found = freed(vjp(list(made), inputs, list(c)), inputs)
            if found is None or not vanish(made, inputs):
                raise GradError(
                    f"the function of {title} is not linear in x.",
                    hint="write sums of elements of x times what does not depend on x; ta.root "
                    "solves other equations.",
                )
            return tuple(found)

        back = traced(f"{program.name}_transpose", transposed, heads)
        if symmetric:
            back = program
        rest = dict.fromkeys((*program.reads, *back.reads))
        return LinearMap(program, back, tuple(rest))

    def __call__(self, x: Tensors, rest: Tensors) -> tuple[Tensor, ...]:
        """The image of operands."""
        bound = dict(zip(self.rest, rest, strict=True))
        return applied(self.forward, (*x, *[bound[t] for t in self.forward.reads]))

    @property
    def transpose(self) -> LinearMap:
        """The transposed map."""
        return LinearMap(self.backward, self.forward, self.rest)


def matrix_of(linear: LinearMap, rest: Tensors, packing: Packing) -> Tensor:
    """The matrix of a map on packed vectors: its Jacobian, which is the same everywhere."""
    x = input_like("x", packing.pack(list(linear.forward.parameters)))
    y = packing.pack(linear(packing.unpack(x), rest))
    return jacobian(y, x)
