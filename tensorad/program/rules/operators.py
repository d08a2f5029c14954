"""Operators with derivatives of their users' own: rules for functions, and classes."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tensorad.errors import DefinitionError, DTypeError, GradError, ShapeError
from tensorad.ir.arrays.elementwise import elementwise, same_dim
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Compute, SoFar, Tensor, format_shape, outputs
from tensorad.program.call_rules import Asked, Derivative, no_grad
from tensorad.program.functions import Function
from tensorad.program.trees import flatten, unflatten
from tensorad.program.values import as_tensor

Given = TypeVar("Given")


class Builder:
    """What a rule of four arguments binds values with."""

    def emit(self, value: Any, name_hint: str = "") -> Tensor:
        """A tensor, formula or number as a binding of the gradient's program.

        Args:
            name_hint: what the binding is called; the tensor's own name unless given.
        """
        t = as_tensor(value, name_hint or "lv")
        if not name_hint or not isinstance(t.op, Compute) or t.name == name_hint:
            return t
        op = Compute(name_hint, t.op.axes, t.op.bodies, t.op.source)
        return outputs(op)[t.index]


@dataclass(frozen=True)
class Partials:
    """A rule that is a function: (call, gradient), or (result, call, gradient, builder)."""

    function: Callable[..., Any]
    takes_builder: bool

    def __call__(self, asked: Asked) -> Any:
        if self.takes_builder:
            return self.function(asked.call.result, asked.call, asked.gradient, Builder())
        return self.function(asked.call, asked.gradient)


class Adjoints:
    """The adjoints that are being collected; a tensor's is `adjoints[x]`, None before any came."""

    def __init__(self, name: str, args: Sequence[Any], so_far: SoFar) -> None:
        leaves = flatten(tuple(args)).leaves
        self._name = name
        self._args = dict.fromkeys([t for t in leaves if isinstance(t, Tensor)])
        self._so_far = so_far
        self._added: dict[Tensor, Tensor] = {}

    def __getitem__(self, x: Tensor) -> Tensor | None:
        """The sum of what x has received so far, from all its readers."""
        before, added = self._so_far(x), self._added.get(x)
        if before is None or added is None:
            return before if added is None else added
        return elementwise("add", before, added)

    def add_delta(self, x: Tensor, delta: Any) -> None:
        """Add a contribution to the adjoint of an argument.

        Args:
            delta: tensor of the shape and dtype of x, or a number for a 0-d x.
        Raises:
            GradError: x is no argument of the operator, or no float.
            ShapeError, DTypeError: the contribution is not like x.
        """
        called = self._name
        if not isinstance(x, Tensor) or x not in self._args:
            what = x.name if isinstance(x, Tensor) else type(x).__name__
            raise GradError(
                f"generate_adjoints of {called} adds to {what}, which is no argument of {called}.",
                hint="add to the arguments that generate_adjoints is given.",
            )
        if not x.dtype.is_float:
            raise GradError(
                f"generate_adjoints of {called} adds to {x.name}, which has dtype {x.dtype}.",
                hint="integers and booleans have no derivative: leave it out.",
            )
        is_number = isinstance(delta, (int, float, Expr))
        t = as_tensor(delta, f"d{x.name}", x.dtype if is_number else None)
        if t.ndim != x.ndim or not all(map(same_dim, t.shape, x.shape)):
            raise ShapeError(
                f"generate_adjoints of {called} adds shape {format_shape(t.shape)} to the adjoint "
                f"of {x.name}; it must be {format_shape(x.shape)}.",
                hint="an argument that is broadcast has the sum over its copies as adjoint.",
            )
        if t.dtype is not x.dtype:
            raise DTypeError(
                f"generate_adjoints of {called} adds dtype {t.dtype} to the adjoint of {x.name}; "
                f"it must be {x.dtype}.",
                hint=f"convert it: .astype('{x.dtype}').",
            )
        known = self._added.get(x)
        self._added[x] = t if known is None else elementwise("add", known, t)

    def by_argument(self, args: Sequence[Any]) -> list[Any]:
        """What was added, as trees like the arguments; once for a tensor that stands twice."""
        left = dict(self._added)
        found = []
        for arg in args:
            flat = flatten(arg)
            own = [left.pop(t, no_grad) if isinstance(t, Tensor) else t for t in flat.leaves]
            found.append(unflatten(flat.structure, own))
        return found


@dataclass(frozen=True)
class Deltas:
    """A rule that is an object with `generate_adjoints(adjoints, delta, *args)`."""

    operator: Any

    def __call__(self, asked: Asked) -> Any:
        adjoints = Adjoints(asked.call.op, asked.call.args, asked.so_far)
        self.operator.generate_adjoints(adjoints, asked.gradient, *asked.call.args)
        return adjoints.by_argument(asked.call.args)


def register_gradient(operator: Function) -> Callable[[Given], Given]:
    """A decorator: the derivative of an operator, in place of that of its formulas.

    It holds in every program that calls the operator, in both modes (forward mode transposes it)
    and to any order, since a rule is formulas that are differentiated themselves.

    Args:
        operator: a `ta.function`, before a program calls it.
    Returns:
        a decorator of the rule, which it returns. The rule is one of
            f(call, gradient) -> adjoints;
            f(result, call, gradient, builder) -> adjoints, where `builder.emit(value, name)` binds
            values of its own;
            a class, or an object, with `generate_adjoints(self, adjoints, delta, *args)`, see
            `Operator`.
        `call.args` are the arguments, `call.attrs` the static ones, `gradient` is the adjoint of
        the result, of its structure and shapes. Adjoints are a list of one for each argument, of
        its structure, shapes and dtypes; `ta.no_grad` (or None) where nothing flows.
    Raises:
        DefinitionError: it is no `ta.function`, or a program calls it already; the rule has
            another signature.
    Source: "Reverse Mode Automatic Differentiation in Relax" (2023), section 1.
    """
    if not isinstance(operator, Function):
        raise DefinitionError(
            f"register_gradient takes a function of ta.function, got {type(operator).__name__}.",
            hint="decorate the operator with @ta.function, and pass what that returns.",
        )

    def register(given: Given) -> Given:
        operator.give_rule(Derivative(_as_rule(given, operator.name)))
        return given

    return register


def _as_rule(given: object, name: str) -> Partials | Deltas:
    if hasattr(given, "generate_adjoints"):
        return Deltas(given() if isinstance(given, type) else given)
    if not callable(given):
        raise DefinitionError(
            f"the rule of {name} is no function but {type(given).__name__}.",
            hint="write rule(call, gradient) -> [adjoint of each argument].",
        )
    own = inspect.signature(given).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = len([p for p in own if p.kind in kinds and p.default is p.empty])
    if count not in (2, 4):
        raise DefinitionError(
            f"the rule of {name} takes {count} arguments.",
            where=f"{getattr(given, '__name__', 'rule')}{inspect.signature(given)}",
            hint="write rule(call, gradient), or rule(result, call, gradient, builder).",
        )
    return Partials(given, count == 4)


class Operator(ABC):
    """Base of operators that are classes: their value, and what flows to their arguments.

    `compute(self, *args)` returns the value, `generate_adjoints(self, adjoints, delta, *args)`
    adds to the adjoints of the arguments: for df = a dx + b dy it calls
    `x.generate_add_delta(adjoints, a * delta)` and `y.generate_add_delta(adjoints, b * delta)`;
    `x.add_delta` and `adjoints.add_delta(x, ...)` are the same. `delta` is the complete adjoint of
    the value, `adjoints[x]` what x has received so far, or None. What is not added to has no
    adjoint. Instances are called like functions; what they have as attributes does not change
    once they are.

    Source: nGraph, "Autodiff" (2018).
    """

    @abstractmethod
    def compute(self, *args: Any) -> Any:
        """The value for tensors, or trees of them."""

    @abstractmethod
    def generate_adjoints(self, adjoints: Adjoints, delta: Any, *args: Any) -> None:
        """Add what flows to each argument."""

    def __call__(self, *args: Any) -> Any:
        """The value: of arrays NumPy's arrays, of tensors tensors."""
        own: Function | None = self.__dict__.get("_function")
        if own is None:
            own = Function(self.compute, (), type(self).__name__)
            own.give_rule(Derivative(Deltas(self)))
            self.__dict__["_function"] = own
        return own(*args)
