"""Derivatives that users give for calls of their functions: what rules are told and return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from tensorad.autodiff.control.pieces import zeros_like
from tensorad.autodiff.local.record_gradients import has_gradient
from tensorad.errors import DefinitionError, DTypeError, GradError, ShapeError, counted
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.records import is_record
from tensorad.ir.tensor import (
    CallRule,
    FunctionCall,
    MaybeTensors,
    SoFar,
    Tensor,
    format_shape,
    outputs,
)
from tensorad.ir.visit import placeholders
from tensorad.program.calling.directions import direction, like_value
from tensorad.program.references.frames import frame
from tensorad.program.trees import (
    Fixed,
    Leaf,
    Static,
    Structure,
    children_like,
    n_leaves,
    static,
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
_ARTICLE: Final = {"adjoint": "an", "tangent": "a"}
_VERB: Final = {"adjoint": "flows", "tangent": "moves"}
_SHAPES: Final = {
    "adjoint": "an argument that is broadcast has the sum over its copies as adjoint.",
    "tangent": "a tangent has the shape of its tensor.",
}


@dataclass(frozen=True)
class OperatorCall:
    """A call of an operator, as its rule sees it.

    Attributes:
        op: the operator's name.
        args: its arguments, tensors and trees of them, by position; static ones left out.
        attrs: the static arguments by name.
        result: what it returned.
        every: all arguments by position, static ones among them.
    """

    op: str
    args: tuple[Any, ...]
    attrs: Mapping[str, Any]
    result: Any
    every: tuple[Any, ...]


@dataclass(frozen=True)
class Asked:
    """What a rule is asked: the adjoints of a call's arguments, given that of its result."""

    call: OperatorCall
    gradient: Any
    so_far: SoFar


@dataclass(frozen=True)
class Moving:
    """What a rule is asked: the tangent of a call's result, given those of all its arguments."""

    call: OperatorCall
    tangents: tuple[Any, ...]


@dataclass(frozen=True)
class Derivative:
    """The derivative that is given for a function, in one direction or both.

    Attributes:
        adjoints: -> a list with one tree for each of the call's `args`.
        tangents: -> a tree like the result.
        counts_static: whether there is something in the list for static arguments, too.
    """

    adjoints: Callable[[Asked], Any] | None = None
    tangents: Callable[[Moving], Any] | None = None
    counts_static: bool = False


@dataclass(frozen=True, eq=False)
class OperatorRule:
    """The derivative of one call, by the leaves of its arguments.

    Attributes:
        name: the operator's.
        arguments: name and structure of each argument; `result`: the structure of the result.
    """

    given: Derivative
    name: str
    arguments: tuple[tuple[str, Structure], ...]
    result: Structure

    @property
    def rule(self) -> CallRule:
        """What the call carries."""
        adjoints = None if self.given.adjoints is None else self.adjoints
        tangents = None if self.given.tangents is None else self.tangents
        return CallRule(adjoints, tangents)

    def adjoints(self, op: FunctionCall, heads: MaybeTensors, so_far: SoFar) -> MaybeTensors:
        """The adjoints of the operands, None where nothing flows.

        Raises:
            GradError: the rule returns something else than one adjoint for each argument.
            ShapeError, DTypeError: one is not like its argument.
        """
        assert self.given.adjoints is not None, "the call has no such rule otherwise"
        pairs = zip(outputs(op), heads, strict=True)
        whole = [_told(t, h) for t, h in pairs]
        call = self.call(op)
        with frame(f"the rule of {self.name}", refuses=True):
            found = self.given.adjoints(Asked(call, unflatten(self.result, whole), so_far))
        every = self.given.counts_static
        own = [(n, s) for n, s in self.arguments if every or not isinstance(s, Static)]
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
        args = call.every if every else call.args
        for value, arg, (name, structure) in zip(found, args, own, strict=True):
            parts += self.leaves(value, arg, name, structure, "adjoint")
        return [*parts, *[None] * (len(op.operands) - len(parts))]

    def tangents(self, op: FunctionCall, tangents: MaybeTensors) -> MaybeTensors:
        """The tangents of the outputs, None where nothing moves.

        Raises:
            GradError, ShapeError, DTypeError: what the rule returns is not like the result.
        """
        assert self.given.tangents is not None, "the call has no such rule otherwise"
        pairs = zip(op.operands, tangents, strict=True)
        rest = iter([_told(t, d) for t, d in pairs])
        moved = [None if isinstance(s, Static) else unflatten(s, rest) for _, s in self.arguments]
        call = self.call(op)
        with frame(f"the rule of {self.name}", refuses=True):
            found = self.given.tangents(Moving(call, tuple(moved)))
        return self.leaves(found, call.result, self.name, self.result, "tangent")

    @property
    def written(self) -> str:
        """The call as users write it."""
        return f"{self.name}({', '.join([n for n, _ in self.arguments])})"

    def call(self, op: FunctionCall) -> OperatorCall:
        """The call by its arguments."""
        rest = iter(op.operands)
        every = tuple([unflatten(s, rest) for _, s in self.arguments])
        pairs = zip(every, self.arguments, strict=True)
        args = tuple([v for v, (_, s) in pairs if not isinstance(s, Static)])
        fixed = {n: s.value for n, s in self.arguments if isinstance(s, Static)}
        result = unflatten(self.result, outputs(op))
        return OperatorCall(self.name, args, MappingProxyType(fixed), result, every)

    def leaves(
        self, value: object, like: object, path: str, structure: Structure, kind: str
    ) -> list[Tensor | None]:
        """The adjoints of an argument's leaves, or the tangents of the result's.

        Args:
            like: what they belong to; `path`: how errors call it; `kind`: "adjoint" or "tangent".
        """
        found: list[Tensor | None] = []
        stack = [(value, like, path, structure)]
        while stack:
            value, like, path, structure = stack.pop()
            if value is None or value is no_grad:
                found += [None] * n_leaves(structure)
            elif isinstance(structure, Leaf):
                assert isinstance(like, Tensor), "leaves of calls are tensors"
                found.append(self.checked(value, like, path, kind))
            elif isinstance(structure, Static):
                self._check_static(value, path, structure, kind)
            else:
                own, given = children_like(like, structure), children_like(value, structure)
                if own is None or given is None:
                    raise GradError(
                        f"the rule of {self.name} returns {type(value).__name__} as {kind} of "
                        f"{path}, which is another structure than that of {path}.",
                        where=self.written,
                        hint=f"the {kind} of a tree is a tree like it; ta.no_grad may stand for "
                        "any part.",
                    )
                paths = [path + key for key in structure.keys]
                stack += list(zip(given, own, paths, structure.children, strict=True))[::-1]
        return found

    def _check_static(self, value: object, path: str, structure: Static, kind: str) -> None:
        """What stands in the place of a static part is that part, or nothing."""
        own = value.value if isinstance(value, Fixed) else value
        if static(own) != structure:
            raise GradError(
                f"the rule of {self.name} returns {type(value).__name__} as {kind} of {path}, "
                "which is static.",
                where=self.written,
                hint="a static argument has no derivative: return ta.no_grad for it.",
            )

    def checked(self, value: object, like: Tensor, path: str, kind: str) -> Tensor:
        """An adjoint or tangent of one tensor."""
        if is_record(like.dtype) and has_gradient(like.dtype):
            return direction(like, value, self.written, f"{kind} of {path} by a rule")
        if not isinstance(value, Tensor):
            raise GradError(
                f"the rule of {self.name} returns {type(value).__name__} as {kind} of {path}.",
                where=self.written,
                hint="return tensors: topi and compute make them; ta.no_grad where nothing "
                f"{_VERB[kind]}.",
            )
        if not like.dtype.is_float:
            raise GradError(
                f"the rule of {self.name} returns {_ARTICLE[kind]} {kind} of {path}, which has "
                f"dtype {like.dtype}.",
                where=self.written,
                hint="integers and booleans have no derivative: return ta.no_grad for it.",
            )
        if value.ndim != like.ndim or not all(map(same_dim, value.shape, like.shape)):
            raise ShapeError(
                f"the rule of {self.name} returns shape {format_shape(value.shape)} as {kind} of "
                f"{path}; it must be {format_shape(like.shape)}.",
                where=self.written,
                hint=_SHAPES[kind],
            )
        if value.dtype is not like.dtype:
            raise DTypeError(
                f"the rule of {self.name} returns dtype {value.dtype} as {kind} of {path}; it "
                f"must be {like.dtype}.",
                where=self.written,
                hint=f"convert it: .astype('{like.dtype}').",
            )
        return value


def _told(t: Tensor, derivative: Tensor | None) -> Any:
    """The derivative of a tensor as rules get it."""
    if not has_gradient(t.dtype):
        return None
    return like_value(t, zeros_like(t, ()) if derivative is None else derivative)


def check_captured(name: str, reads: Sequence[Tensor]) -> None:
    """A function with a rule is a function of its arguments.

    Raises:
        DefinitionError: it reads another float tensor that may be differentiated by.
    """
    for t in reads:
        if t.dtype.is_differentiable and placeholders([t]):
            raise DefinitionError(
                f"{name} has a gradient rule, but reads {t.name}, which is no argument of it.",
                where=f"{t.name} : {t.dtype} {format_shape(t.shape)}",
                hint=f"a rule tells the adjoints of arguments only: make {t.name} one.",
            )
