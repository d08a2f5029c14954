"""Partial evaluation of what is being traced: branches and loops by values that are known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tensorad.errors import LimitError, UserError
from tensorad.ir.analysis.blocks import op_sizes
from tensorad.ir.arrays.tracing import stand_ins
from tensorad.ir.expr import Const, Expr
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Constant, Scan, Scatter, Tensor
from tensorad.ir.visit import op_inputs

MOST_ITERATIONS: Final = 64
"""Of a loop that is written out."""
MOST_UNFOLDINGS: Final = 10_000
"""Of a function."""
MOST_CALLS: Final = 1_000
"""Inside of each other."""
_MOST_ELEMENTS: Final = 256
"""Larger tensors are not computed when a program is written down."""


@dataclass
class Evaluation:
    """A partial evaluation.

    Attributes:
        iterations: how often a body is written out at most.
        budget: how often a function is unfolded at most.
        unfolded: how often each was; depth: how many are unfolded inside of each other.
        made: tensors of texts in the order in which they were made, outside of branches and loops.
        values: what is known of tensors where these stand for others; None if it is nothing.
    """

    iterations: int = MOST_ITERATIONS
    budget: int = MOST_UNFOLDINGS
    unfolded: dict[object, int] = field(default_factory=dict)
    depth: int = 0
    made: list[Tensor] = field(default_factory=list)
    values: dict[tuple[Tensor, ...], dict[Tensor, Any]] = field(default_factory=dict)

    def is_spent(self, function: object) -> bool:
        """Whether a function was unfolded as often as it may be: further calls stay calls."""
        return self.unfolded.get(function, 0) >= self.budget

    def spent(self, name: str, error: UserError) -> LimitError:
        """What to say of a function that was unfolded so often, and is no program by itself."""
        first = str(error).split("\n")[0]
        return LimitError(
            f"{name} is unfolded more than {self.budget:,} times; as a call it is refused: {first}",
            hint="pass a larger budget=, or repeat with a loop.",
        )

    @contextmanager
    def unfolding(self, function: object, name: str) -> Iterator[None]:
        """Within, a call of a function is unfolded.

        Raises:
            LimitError: too many are, inside of each other.
        """
        self.unfolded[function] = self.unfolded.get(function, 0) + 1
        if self.depth >= MOST_CALLS:
            raise LimitError(
                f"{name} is called inside of more than {MOST_CALLS:,} calls.",
                hint="a recursion ends where its argument says so; repeat with a loop.",
            )
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


_current: Final[ContextVar[Evaluation | None]] = ContextVar("evaluation", default=None)


def current() -> Evaluation | None:
    """The partial evaluation that is going on."""
    return _current.get()


@contextmanager
def evaluating(evaluation: Evaluation | None = None) -> Iterator[Evaluation]:
    """Within, branches by known values are chosen, and loops of few known iterations written out.

    Args:
        evaluation: a new one unless given.
    """
    made = evaluation or Evaluation()
    token = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(token)


def known(value: object) -> Any:
    """The value of a number, a formula or a tensor that is known within `evaluating`; or None."""
    evaluation = _current.get()
    if evaluation is None:
        return None
    if isinstance(value, (bool, int, float, np.generic)):
        return value
    if isinstance(value, Tensor):
        own = stand_ins()
        values = evaluation.values.setdefault(tuple(own), dict.fromkeys(own))
        return _known_tensor(value, values)
    return value.value if isinstance(value, Expr) and isinstance(value, Const) else None


def is_known(value: object) -> bool:
    """Whether `known` has a value of it."""
    return known(value) is not None


def _known_tensor(wanted: Tensor, values: dict[Tensor, Any]) -> Any:
    stack = [wanted]
    while stack:
        t = stack[-1]
        if t in values:
            stack.pop()
            continue
        if not _is_small(t):
            values[stack.pop()] = None
            continue
        inputs = op_inputs(t.op)
        missing = [i for i in inputs if i not in values]
        if any(i in values and values[i] is None for i in inputs):
            values[stack.pop()] = None
        elif missing:
            stack.append(missing[0])
        else:
            values[stack.pop()] = _computed(t, {i: values[i] for i in inputs})
    found = values[wanted]
    return found.item() if found is not None and not wanted.shape else found


def _is_small(t: Tensor) -> bool:
    """Whether it is computed by a formula of numbers of which there are few."""
    if not isinstance(t.op, (Compute, Scan, Scatter, Constant)):
        return False
    extents = [n for n in t.shape if isinstance(n, int)]
    is_fixed = len(extents) == len(t.shape) and not op_sizes(t.op)
    return is_fixed and int(np.prod(extents, dtype=int)) <= _MOST_ELEMENTS


def _computed(t: Tensor, inputs: dict[Tensor, Any]) -> Any:
    if isinstance(t.op, Constant):
        return t.op.array
    found = interpret(t, inputs)
    return found.astype(str(t.dtype)).astype(found.dtype)  # as the program rounds
