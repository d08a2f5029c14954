"""Derivatives that the user gives for a tensor, in place of those of its formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorad.errors import DTypeError, GradError, ShapeError, counted
from tensorad.ir.arrays.elementwise import elementwise, same_dim
from tensorad.ir.tensor import (
    Placeholder,
    Shape,
    SoFar,
    Tensor,
    format_shape,
    outputs,
)
from tensorad.ir.visit import op_inputs, topological_ops

Vjp = Callable[[Tensor, list[Tensor], Tensor], Any]
"""(tensor, deps, head of shape (*batch, *tensor.shape)) -> one adjoint (*batch, *dep.shape) or
None (zero) per dep."""
Jvp = Callable[[Tensor, list[Tensor], list["Tensor | None"]], Any]
"""(tensor, deps, their tangents (*batch, *dep.shape) or None) -> the tensor's tangent or None."""
Transpose = Callable[[Tensor, Sequence[Tensor], Tensor], Sequence[Tensor]]
"""(y, wrt, head) -> adjoints of tensors that y is linear in."""


@dataclass(frozen=True, eq=False)
class DerivativeRule:
    """The derivative of a tensor by tensors behind it, for `override`.

    One direction is enough: both are linear maps, and the missing one is the given one
    transposed.

    Attributes:
        deps: the tensors the derivative flows to, not necessarily read directly; None: the
            float tensors that the tensor's own formula reads.
        vjp: (tensor, deps, head) -> adjoints of the deps, None for zero.
        jvp: (tensor, deps, tangents) -> tangent of the tensor; None is zero in both.
    """

    deps: Sequence[Tensor] | None = None
    vjp: Vjp | None = None
    jvp: Jvp | None = None


Override = Mapping[Tensor, "DerivativeRule | Vjp | tuple[Sequence[Tensor], Vjp]"]


@dataclass(frozen=True, eq=False)
class Rule:
    """A checked rule of one tensor."""

    of: Tensor
    deps: tuple[Tensor, ...]
    vjp: Vjp | None
    jvp: Jvp | None

    @property
    def made(self) -> tuple[Tensor, ...]:
        """The tensors whose derivative it is."""
        return (self.of,)

    def all_adjoints(
        self, heads: Sequence[Tensor | None], batch: Shape, vjp: Transpose, so_far: SoFar
    ) -> Sequence[Tensor | None]:
        """The adjoints of the deps, for heads of what is made."""
        (head,) = heads
        return [None] * len(self.deps) if head is None else self.adjoints(head, batch, vjp)

    def all_tangents(
        self, tangents: Sequence[Tensor | None], batch: Shape, vjp: Transpose
    ) -> Sequence[Tensor | None]:
        """The tangents of what is made."""
        return (self.tangent(tangents, batch, vjp),)

    def adjoints(self, head: Tensor, batch: Shape, vjp: Transpose) -> list[Tensor | None]:
        """The adjoints of the deps.

        Args:
            vjp: to transpose a rule that knows forward mode only.
        """
        if self.vjp is None:
            return self._transposed_jvp(head, vjp)
        found = self.vjp(self.of, list(self.deps), head)
        return self._checked(found, batch)

    def tangent(
        self, tangents: Sequence[Tensor | None], batch: Shape, vjp: Transpose
    ) -> Tensor | None:
        """The tangent of the tensor."""
        if self.jvp is None:
            return self._transposed_vjp(tangents, vjp)
        found = self.jvp(self.of, list(self.deps), list(tangents))
        if found is None:
            return None
        return self._fitting(found, self.of, batch, "tangent")

    def _transposed_jvp(self, head: Tensor, vjp: Transpose) -> list[Tensor | None]:
        directions = [input_like(f"d{d.name}", d) for d in self.deps]
        found = self.jvp(self.of, list(self.deps), list(directions)) if self.jvp else None
        if found is None:
            return [None] * len(self.deps)
        tangent = self._fitting(found, self.of, (), "tangent")
        adjoints: list[Tensor | None] = list(vjp(tangent, directions, head))
        self._check_linear(adjoints, directions)
        return adjoints

    def _transposed_vjp(self, tangents: Sequence[Tensor | None], vjp: Transpose) -> Tensor | None:
        head = input_like(f"d{self.of.name}", self.of)
        found = self.vjp(self.of, list(self.deps), head) if self.vjp else None
        total: Tensor | None = None
        for adjoint, tangent in zip(self._checked(found, ()), tangents, strict=True):
            if adjoint is not None and tangent is not None:
                (part,) = vjp(adjoint, [head], tangent)
                total = part if total is None else elementwise("add", total, part)
        self._check_linear([total], [head])
        return total

    def _check_linear(self, made: Sequence[Tensor | None], of: Sequence[Tensor]) -> None:
        if not is_free(made, of):
            given = "vjp" if self.jvp is None else "jvp"
            raise GradError(
                f"the {given} given for {self.of.name} is not linear, so it has no transpose.",
                hint="a rule multiplies its head (or tangents) by values that do not depend on "
                "it; or give both vjp and jvp: DerivativeRule(deps, vjp=..., jvp=...).",
            )

    def _checked(self, found: object, batch: Shape) -> list[Tensor | None]:
        parts = [found] if found is None or isinstance(found, Tensor) else found
        if not isinstance(parts, (list, tuple)) or len(parts) != len(self.deps):
            given = f"{len(parts)}" if isinstance(parts, (list, tuple)) else type(found).__name__
            raise GradError(
                f"the rule given for {self.of.name} must return "
                f"{counted(len(self.deps), 'adjoint')}, got {given}.",
                where=f"{self.of.name} by {', '.join([d.name for d in self.deps])}",
                hint="return a list with one adjoint per tensor; None is zero.",
            )
        pairs = zip(parts, self.deps, strict=True)
        return [None if p is None else self._fitting(p, d, batch, "adjoint") for p, d in pairs]

    def _fitting(self, found: object, like: Tensor, batch: Shape, kind: str) -> Tensor:
        rule = f"the rule given for {self.of.name}"
        if not isinstance(found, Tensor):
            raise GradError(
                f"{rule} returned {type(found).__name__} as {kind} of {like.name}.",
                hint="return tensors: topi and compute make them.",
            )
        shape = (*batch, *like.shape)
        if found.ndim != len(shape) or not all(map(same_dim, found.shape, shape)):
            raise ShapeError(
                f"{rule} returned shape {format_shape(found.shape)} as {kind} of {like.name}; "
                f"it must be {format_shape(shape)}.",
                hint="extra leading axes of the head lead every adjoint.",
            )
        if not found.dtype.is_float:
            raise DTypeError(
                f"{rule} returned dtype {found.dtype} as {kind} of {like.name}.",
                hint="convert it: .astype('float32').",
            )
        return found


Rules = Mapping[Tensor, Rule]


def is_free(made: Sequence[Tensor | None], of: Sequence[Tensor]) -> bool:
    """Whether nothing depends on some inputs."""
    behind = dict.fromkeys(topological_ops([t for t in made if t is not None]))
    return not any(t.op in behind for t in of)


def check_override(override: Override | None) -> dict[Tensor, Rule]:
    """The rules of `override`, by tensor.

    Raises:
        GradError: no mapping from computed tensors to rules, or a rule's tensor is a dependency
            of its own.
    """
    if override is None:
        return {}
    if not isinstance(override, Mapping):
        raise GradError(
            f"override must be a dict from tensors to rules, got {type(override).__name__}.",
            hint="write override={T: lambda t, deps, head: [adjoint of each dep]}.",
        )
    return {t: _rule(t, given) for t, given in override.items()}


def _rule(t: object, given: object) -> Rule:
    if not isinstance(t, Tensor) or isinstance(t.op, Placeholder):
        what = f"the input {t.name}" if isinstance(t, Tensor) else f"a {type(t).__name__}"
        raise GradError(
            f"override names {what}; it holds rules for computed tensors.",
            hint="name the tensor whose derivative by the tensors behind it is to be replaced.",
        )
    deps: object = None
    vjp: object = given
    jvp: object = None
    if isinstance(given, DerivativeRule):
        deps, vjp, jvp = given.deps, given.vjp, given.jvp
    elif isinstance(given, tuple) and len(given) == 2:
        deps, vjp = given
    if (vjp is None and jvp is None) or not all(r is None or callable(r) for r in (vjp, jvp)):
        raise GradError(
            f"the rule given for {t.name} is no function but {type(given).__name__}.",
            hint="give rule(t, deps, head) -> adjoints, a pair (deps, rule), or a DerivativeRule.",
        )
    return Rule(t, _check_deps(t, deps), vjp, jvp)  # type: ignore[arg-type]  # checked callable


def _check_deps(t: Tensor, deps: object) -> tuple[Tensor, ...]:
    if deps is None:
        return tuple([d for d in op_inputs(t.op) if d.dtype.is_float])
    found = [deps] if isinstance(deps, Tensor) else deps
    if not isinstance(found, (list, tuple)) or not all(isinstance(d, Tensor) for d in found):
        raise GradError(
            f"the rule given for {t.name} names no list of tensors to flow to.",
            hint="write override={T: ([X, W], rule)}.",
        )
    behind = topological_ops(found)
    for d in found:
        if not d.dtype.is_float:
            raise GradError(
                f"the rule given for {t.name} flows to {d.name} of dtype {d.dtype}.",
                hint="integers and booleans have no derivative: leave it out.",
            )
    if any(t.op is op for op in behind):
        raise GradError(
            f"the rule given for {t.name} flows to a tensor that depends on {t.name}.",
            hint="name tensors behind it.",
        )
    return tuple(found)


def input_like(name: str, t: Tensor) -> Tensor:
    """An input of the shape and dtype of a tensor."""
    return outputs(Placeholder(name, t.shape, t.dtype))[0]
