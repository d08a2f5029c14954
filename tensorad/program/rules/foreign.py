"""Functions of Python inside of programs (`foreign`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from tensorad.errors import DefinitionError
from tensorad.ir.arrays.foreign import Array, ResultChecks, foreign_call
from tensorad.ir.source import source_line
from tensorad.ir.tensor import Placeholder, Tensor, outputs
from tensorad.program.calls import check_callable
from tensorad.program.functions import Function
from tensorad.program.sides import side_by_side
from tensorad.program.trees import LEAF, Flat, Structure, flatten, n_leaves, unflatten
from tensorad.program.values import as_tensor

Anything = Callable[..., Any]


def foreign(
    f: Anything, shapes: Any, rule: Callable[[Anything], Function] | None = None
) -> Function:
    """A function of NumPy's arrays as a part of programs: what formulas cannot say.

        sort = ta.foreign(np.sort, lambda x: x, rule=ta.custom_rule(vjp=...))

    A call of a program that uses it is still one native call, which calls f back where its turn
    is; it costs what Python costs. What f raises comes out of the call as it is.

    Args:
        f: from arrays (trees of them, as the function is called) to a tree of arrays; a function
            of their elements alone: it may run once for equal calls, or not at all where nobody
            reads what it returns. The arrays are its own.
        shapes: what f returns, as a tree of tensors or arrays of its shapes and dtypes, such as
            `ta.placeholder((3,))`; or a function from the arguments to such a tree.
        rule: its derivative, as `ta.custom_rule(vjp=...)` says it; without one a derivative
            through f is an error, which lists all functions that have none.
    Returns:
        a `Function`.
    Raises:
        DefinitionError: f is no function; `shapes` is no tree of tensors or arrays. In a call:
            f returns another tree.
        ShapeError, DTypeError: in a call: f returns other shapes or dtypes.
    """
    check_callable(f, "the first argument of foreign")
    name = str(getattr(f, "__name__", type(f).__name__))
    source = source_line()

    def called(*args: Any, **options: Any) -> Any:
        given = flatten((args, options))
        is_function = callable(shapes) and not isinstance(shapes, Tensor)
        told = shapes(*args, **options) if is_function else shapes
        made = flatten(told, name)
        if not made.leaves:
            raise DefinitionError(
                f"shapes of {name} has no arrays.",
                where=f"foreign at {source}",
                hint="say what it returns: foreign(f, ta.placeholder((3,))).",
            )
        pairs = zip(made.leaves, made.paths, strict=True)
        like = [as_tensor(v, path) for v, path in pairs]
        operands = [as_tensor(v, p) for v, p in zip(given.leaves, given.paths, strict=True)]
        run = _Run(f, name, given.structure, made._replace(leaves=like))
        results = [
            outputs(Placeholder(path, t.shape, t.dtype))[0]
            for path, t in zip(made.paths, like, strict=True)
        ]
        call = foreign_call(name, source, operands, made.paths, results, run)
        return unflatten(made.structure, outputs(call))

    called.__name__ = name
    made = Function(called, (), name)
    return made if rule is None else rule(made)


@dataclass(frozen=True)
class _Run:
    """The function on the leaves of its arguments, its results checked.

    Attributes:
        given: the structure of (positional arguments, named ones); `made`: what it returns.
    """

    f: Anything
    name: str
    given: Structure
    made: Flat

    @cached_property
    def is_flat(self) -> bool:
        """Whether it is called with arrays by position alone."""
        args, options = unflatten(self.given, [_ONE] * n_leaves(self.given))
        return not options and all(a is _ONE for a in args)

    @cached_property
    def checks(self) -> ResultChecks:
        """What is checked of each result."""
        dtypes = [np.dtype(str(t.dtype)) for t in self.made.leaves]
        return ResultChecks(tuple(self.made.paths), tuple(dtypes))

    def __call__(
        self, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]
    ) -> Sequence[Array]:
        if self.is_flat:
            result = self.f(*arrays)
        else:
            args, options = unflatten(self.given, arrays)
            result = self.f(*args, **options)
        if self.made.structure is LEAF and isinstance(result, np.ndarray):
            return self.checks([result], shapes)
        flat = flatten(result, self.name)
        if flat.structure != self.made.structure:
            raise DefinitionError(
                f"{self.name} returns another tree than foreign was told.",
                where=side_by_side(("told", "returned"), self.made, flat, self.name),
                hint="correct what it returns, or the second argument of foreign.",
            )
        return self.checks([np.asarray(v) for v in flat.leaves], shapes)


_ONE: Final = np.zeros(())
