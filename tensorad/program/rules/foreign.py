"""Functions of Python inside of programs (`foreign`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tensorad.ir.arrays.foreign import Array, Foreign
from tensorad.ir.source import source_line
from tensorad.ir.tensor import Block, CallRule, Placeholder, Tensor, outputs
from tensorad.program.calls import check_callable
from tensorad.program.functions import Function
from tensorad.program.sides import side_by_side
from tensorad.program.trees import Flat, Structure, flatten, unflatten
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
        return unflatten(made.structure, _made(name, source, operands, made.paths, like, run))

    called.__name__ = name
    made = Function(called, (), name)
    return made if rule is None else rule(made)


def _made(
    name: str,
    source: str,
    operands: Sequence[Tensor],
    paths: Sequence[str],
    like: Sequence[Tensor],
    run: _Run,
) -> tuple[Tensor, ...]:
    params = [outputs(Placeholder(t.name, t.shape, t.dtype))[0] for t in operands]
    told = zip(paths, like, strict=True)
    results = [outputs(Placeholder(path, t.shape, t.dtype))[0] for path, t in told]
    block = Block(tuple(params), tuple(results))
    call = Foreign(
        tuple(paths), tuple(operands), (block,),
        function=name, rule=CallRule(), run=run, source=source,
    )  # fmt: skip
    return outputs(call)


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

    def __call__(
        self, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]
    ) -> Sequence[Array]:
        args, options = unflatten(self.given, arrays)
        flat = flatten(self.f(*args, **options), self.name)
        if flat.structure != self.made.structure:
            raise DefinitionError(
                f"{self.name} returns another tree than foreign was told.",
                where=side_by_side(("told", "returned"), self.made, flat, self.name),
                hint="correct what it returns, or the second argument of foreign.",
            )
        found = []
        for value, path, shape, t in zip(
            flat.leaves, flat.paths, shapes, self.made.leaves, strict=True
        ):
            array = np.asarray(value)
            if array.shape != shape:
                raise ShapeError(
                    f"{path} has shape {array.shape}, but foreign was told {shape}.",
                    hint="correct what it returns, or the second argument of foreign.",
                )
            if not np.can_cast(array.dtype, str(t.dtype), "same_kind"):
                raise DTypeError(
                    f"{path} has dtype {array.dtype}, but foreign was told {t.dtype}.",
                    hint="correct what it returns, or the second argument of foreign.",
                )
            found.append(array)
        return found
