"""Derivatives that users give for calls of their functions: what rules are told and return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from tensorad.autodiff.control.pieces import zeros_like
from tensorad.errors import DefinitionError, DTypeError, GradError, ShapeError, counted
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.tensor import FunctionCall, Tensor, format_shape, outputs
from tensorad.ir.visit import placeholders
from tensorad.program.references.frames import frame
from tensorad.program.trees import (
    Leaf,
    Static,
    Structure,
    children_like,
    n_leaves,
    unflatten,
)


class _NoGrad:
    """Nothing flows to an argument."""

    def __repr__(self) -> str:
        return "no_grad"

    def __reduce__(self) -> str:
        return "no_grad"


no_grad: Final = _NoGrad()
"""In the place of a partial derivative: nothing flows to this argument."""

SoFar = Callable[[Tensor], "Tensor | None"]


@dataclass(frozen=True)
class OperatorCall:
    """A call of an operator, as its rule sees it.

    Attributes:
        op: the operator's name.
        args: its arguments, tensors and trees of them, by position; static ones left out.
        attrs: the static arguments by name.
        result: what it returned.
    """

    op: str
    args: tuple[Any, ...]
    attrs: Mapping[str, Any]
    result: Any


@dataclass(frozen=True)
class Asked:
    """What a rule is asked: the adjoints of a call's arguments, given that of its result."""

    call: OperatorCall
    gradient: Any
    so_far: SoFar


Rule = Callable[[Asked], Any]
"""-> a list with one tree for each of the call's `args`."""


@dataclass(frozen=True, eq=False)
class OperatorRule:
    """The rule of one call, by the leaves of its arguments (`FunctionCall.rule`).

    Attributes:
        name: the operator's.
        arguments: name and structure of each argument; `result`: the structure of the result.
    """

    rule: Rule
    name: str
    arguments: tuple[tuple[str, Structure], ...]
    result: Structure

    def __call__(
        self, op: FunctionCall, heads: Sequence[Tensor | None], so_far: SoFar
    ) -> list[Tensor | None]:
        """The adjoints of the operands, None where nothing flows.

        Raises:
            GradError: the rule returns something else than one adjoint for each argument.
            ShapeError, DTypeError: one is not like its argument.
        """
        pairs = zip(outputs(op), heads, strict=True)
        whole = [zeros_like(t, ()) if h is None and t.dtype.is_float else h for t, h in pairs]
        call = self.call(op)
        with frame(f"the rule of {self.name}", refuses=True):
            found = self.rule(Asked(call, unflatten(self.result, whole), so_far))
        own = [(n, s) for n, s in self.arguments if not isinstance(s, Static)]
        if not isinstance(found, (list, tuple)) or len(found) != len(own):
            given = f"{len(found)}" if isinstance(found, (list, tuple)) else type(found).__name__
            raise GradError(
                f"the rule of {self.name} must return a list of "
                f"{counted(len(own), 'adjoint')}, got {given}.",
                where=self.written,
                hint="return one adjoint for each argument, by position; ta.no_grad where nothing "
                "flows.",
            )
        parts: list[Tensor | None] = []
        for value, arg, (name, structure) in zip(found, call.args, own, strict=True):
            parts += self.leaves(value, arg, name, structure)
        return [*parts, *[None] * (len(op.operands) - len(parts))]

    @property
    def written(self) -> str:
        """The call as users write it."""
        return f"{self.name}({', '.join([n for n, _ in self.arguments])})"

    def call(self, op: FunctionCall) -> OperatorCall:
        """The call by its arguments."""
        rest = iter(op.operands)
        args = [unflatten(s, rest) for _, s in self.arguments if not isinstance(s, Static)]
        fixed = {n: s.value for n, s in self.arguments if isinstance(s, Static)}
        result = unflatten(self.result, outputs(op))
        return OperatorCall(self.name, tuple(args), MappingProxyType(fixed), result)

    def leaves(
        self, value: object, arg: object, path: str, structure: Structure
    ) -> list[Tensor | None]:
        """The adjoints of an argument's leaves."""
        found: list[Tensor | None] = []
        stack = [(value, arg, path, structure)]
        while stack:
            value, arg, path, structure = stack.pop()
            if value is None or value is no_grad:
                found += [None] * n_leaves(structure)
            elif isinstance(structure, Leaf):
                assert isinstance(arg, Tensor), "leaves of calls are tensors"
                found.append(self.checked(value, arg, path))
            elif not isinstance(structure, Static):
                own, given = children_like(arg, structure), children_like(value, structure)
                if own is None or given is None:
                    raise GradError(
                        f"the rule of {self.name} returns {type(value).__name__} as adjoint of "
                        f"{path}, which is another structure than that of {path}.",
                        where=self.written,
                        hint="the adjoint of a tree is a tree like it; ta.no_grad may stand for "
                        "any part.",
                    )
                paths = [path + key for key in structure.keys]
                stack += list(zip(given, own, paths, structure.children, strict=True))[::-1]
        return found

    def checked(self, value: object, arg: Tensor, path: str) -> Tensor:
        """An adjoint of one tensor."""
        if not isinstance(value, Tensor):
            raise GradError(
                f"the rule of {self.name} returns {type(value).__name__} as adjoint of {path}.",
                where=self.written,
                hint="return tensors: topi and compute make them; ta.no_grad where nothing flows.",
            )
        if not arg.dtype.is_float:
            raise GradError(
                f"the rule of {self.name} returns an adjoint of {path}, which has dtype "
                f"{arg.dtype}.",
                where=self.written,
                hint="integers and booleans have no derivative: return ta.no_grad for it.",
            )
        if value.ndim != arg.ndim or not all(map(same_dim, value.shape, arg.shape)):
            raise ShapeError(
                f"the rule of {self.name} returns shape {format_shape(value.shape)} as adjoint of "
                f"{path}; it must be {format_shape(arg.shape)}.",
                where=self.written,
                hint="an argument that is broadcast has the sum over its copies as adjoint.",
            )
        if value.dtype is not arg.dtype:
            raise DTypeError(
                f"the rule of {self.name} returns dtype {value.dtype} as adjoint of {path}; it "
                f"must be {arg.dtype}.",
                where=self.written,
                hint=f"convert it: .astype('{arg.dtype}').",
            )
        return value


def check_captured(name: str, reads: Sequence[Tensor]) -> None:
    """A function with a rule is a function of its arguments.

    Raises:
        DefinitionError: it reads another float tensor that may be differentiated by.
    """
    for t in reads:
        if t.dtype.is_float and placeholders([t]):
            raise DefinitionError(
                f"{name} has a gradient rule, but reads {t.name}, which is no argument of it.",
                where=f"{t.name} : {t.dtype} {format_shape(t.shape)}",
                hint=f"a rule tells the adjoints of arguments only: make {t.name} one.",
            )
