"""Calls of functions of Python, on arrays: what no formula tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tensorad.errors import DefinitionError, DTypeError, ShapeError, counted
from tensorad.ir.tensor import Block, CallRule, FunctionCall, Placeholder, Tensor, outputs

Array = np.ndarray[Any, np.dtype[Any]]
Run = Callable[[Sequence[Array], Sequence[tuple[int, ...]]], Sequence[Array]]
"""(arrays, shapes of the results) -> results, checked; the arrays are its own."""


@dataclass(frozen=True, eq=False)
class Foreign(FunctionCall):
    """The results of a function of Python on the operands, a function of their elements alone.

    Its block has params like the operands and placeholders, which have no values, as results: they
    tell shapes and dtypes. Its rule has neither direction: a derivative through it is an error.
    """

    run: Run = field(kw_only=True)


class ResultChecks(NamedTuple):
    """What is checked of what a function of Python returns.

    Attributes:
        names: of the results; `dtypes`: that they are to have.
    """

    names: tuple[str, ...]
    dtypes: tuple[np.dtype[Any], ...]

    def __call__(
        self, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]
    ) -> Sequence[Array]:
        """The results.

        Raises:
            ShapeError, DTypeError: one is of another shape or dtype.
        """
        for array, name, shape, dtype in zip(arrays, self.names, shapes, self.dtypes, strict=True):
            if array.shape != shape:
                raise ShapeError(
                    f"{name} has shape {array.shape}, but foreign was told {shape}.",
                    hint="correct what it returns, or the second argument of foreign.",
                )
            if array.dtype != dtype and not np.can_cast(array.dtype, dtype, "same_kind"):
                raise DTypeError(
                    f"{name} has dtype {array.dtype}, but foreign was told {dtype}.",
                    hint="correct what it returns, or the second argument of foreign.",
                )
        return arrays


@dataclass(frozen=True)
class NamedRun:
    """A function of a text on arrays: it returns an array, or a tuple or list of several."""

    f: Callable[..., Any]
    name: str
    checks: ResultChecks

    def __call__(
        self, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]
    ) -> Sequence[Array]:
        made = self.f(*arrays)
        found = [np.asarray(v) for v in (made if isinstance(made, (tuple, list)) else (made,))]
        if len(found) != len(shapes):
            raise DefinitionError(
                f"{self.name} returns {counted(len(found), 'array')}, but its text has "
                f"{counted(len(shapes), 'result')}.",
                hint="return an array for each name on the left.",
            )
        return self.checks(found, shapes)


def foreign_call(
    name: str, source: str, operands: Sequence[Tensor], names: Sequence[str],
    results: Sequence[Tensor], run: Run,
) -> Foreign:  # fmt: skip
    """A call of a function of Python.

    Args:
        names: of the outputs; `results`: placeholders of their shapes and dtypes.
    """
    params = [outputs(Placeholder(t.name, t.shape, t.dtype))[0] for t in operands]
    block = Block(tuple(params), tuple(results))
    return Foreign(
        tuple(names), tuple(operands), (block,),
        function=name, rule=CallRule(), run=run, source=source,
    )  # fmt: skip
