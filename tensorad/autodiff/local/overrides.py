"""Derivatives that the user gives for a tensor, in place of those of its formula."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorad.autodiff.local.views import differentiable_inputs, view
from tensorad.errors import DTypeError, GradError, ShapeError
from tensorad.ir.analysis.blocks import inner_ops
from tensorad.ir.arrays.elementwise import elementwise, same_dim
from tensorad.ir.tensor import (
    CallRule,
    FunctionCall,
    Op,
    Placeholder,
    Shape,
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
SoFar = Callable[[Tensor], "Tensor | None"]
"""What is collected so far of a tensor's adjoint."""


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
        directions = [_like(f"d{d.name}", d) for d in self.deps]
        found = self.jvp(self.of, list(self.deps), list(directions)) if self.jvp else None
        if found is None:
            return [None] * len(self.deps)
        tangent = self._fitting(found, self.of, (), "tangent")
        adjoints: list[Tensor | None] = list(vjp(tangent, directions, head))
        self._check_linear(adjoints, directions)
        return adjoints

    def _transposed_vjp(self, tangents: Sequence[Tensor | None], vjp: Transpose) -> Tensor | None:
        head = _like(f"d{self.of.name}", self.of)
        found = self.vjp(self.of, list(self.deps), head) if self.vjp else None
        total: Tensor | None = None
        for adjoint, tangent in zip(self._checked(found, ()), tangents, strict=True):
            if adjoint is not None and tangent is not None:
                (part,) = vjp(adjoint, [head], tangent)
                total = part if total is None else elementwise("add", total, part)
        self._check_linear([total], [head])
        return total

    def _check_linear(self, made: Sequence[Tensor | None], of: Sequence[Tensor]) -> None:
        if not _is_free(made, of):
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
                f"the rule given for {self.of.name} must return {len(self.deps)} adjoints, "
                f"got {given}.",
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


def _is_free(made: Sequence[Tensor | None], of: Sequence[Tensor]) -> bool:
    """Whether nothing depends on some inputs."""
    behind = dict.fromkeys(topological_ops([t for t in made if t is not None]))
    return not any(t.op in behind for t in of)


@dataclass(frozen=True, eq=False)
class RuleOfCall:
    """The rule that a call carries, flowing to its operands."""

    call: FunctionCall
    rule: CallRule

    @property
    def made(self) -> tuple[Tensor, ...]:
        """The tensors whose derivative it is."""
        return outputs(self.call)

    @property
    def deps(self) -> tuple[Tensor, ...]:
        """The float operands; one that stands at several places is there as often."""
        return tuple([t for t in self.call.operands if t.dtype.is_float])

    def all_adjoints(
        self, heads: Sequence[Tensor | None], batch: Shape, vjp: Transpose, so_far: SoFar
    ) -> Sequence[Tensor | None]:
        """The adjoints of the deps, for heads of what is made.

        The rule is asked for heads without extra axes: it is linear in them.
        """
        if not batch:
            return self._asked(heads, so_far)
        plain = self._like_made(heads)
        found = self._asked(plain, so_far)
        made: list[Tensor | None] = []
        for adjoint, d in zip(found, self.deps, strict=True):
            total: Tensor | None = None
            for own, head in zip(plain, heads, strict=True) if adjoint is not None else ():
                assert adjoint is not None, "there is nothing to add otherwise"
                if own is not None and head is not None:
                    total = _plus(total, _applied(adjoint, own, _like("h", d), head, vjp))
            made.append(total)
        self._check_linear(made, plain)
        return made

    def all_tangents(
        self, tangents: Sequence[Tensor | None], batch: Shape, vjp: Transpose
    ) -> Sequence[Tensor | None]:
        """The tangents of what is made: the rule transposed."""
        heads = self._like_made(self.made)
        found: list[Tensor | None] = [None] * len(heads)
        for adjoint, tangent in zip(self._asked(heads, _nothing), tangents, strict=True):
            if adjoint is None or tangent is None:
                continue
            for k, head in enumerate(heads):
                if head is not None and not _is_free([adjoint], [head]):
                    (part,) = vjp(adjoint, [head], tangent)
                    found[k] = _plus(found[k], part)
        self._check_linear(found, heads)
        return found

    def _asked(self, heads: Sequence[Tensor | None], so_far: SoFar) -> list[Tensor | None]:
        found = self.rule(self.call, heads, so_far)
        pairs = zip(self.call.operands, found, strict=True)
        return [part for t, part in pairs if t.dtype.is_float]

    def _like_made(self, heads: Sequence[Tensor | None]) -> list[Tensor | None]:
        """An input for each head of a float."""
        pairs = zip(self.made, heads, strict=True)
        return [
            _like(f"d{t.name}", t) if h is not None and t.dtype.is_float else None for t, h in pairs
        ]

    def _check_linear(self, made: Sequence[Tensor | None], heads: Sequence[Tensor | None]) -> None:
        if not _is_free(made, [h for h in heads if h is not None]):
            raise GradError(
                f"the rule given for {self.call.function} is not linear in its adjoint.",
                hint="a rule multiplies the adjoint by values that do not depend on it.",
            )


def _nothing(t: Tensor) -> None:
    """Forward mode collects no adjoints."""


def _plus(total: Tensor | None, part: Tensor) -> Tensor:
    return part if total is None else elementwise("add", total, part)


def _applied(y: Tensor, x: Tensor, plain: Tensor, head: Tensor, vjp: Transpose) -> Tensor:
    """y, which is linear in the input x, at `head`, which has extra leading axes: transposed twice.

    Args:
        plain: an input like y.
    """
    (back,) = vjp(y, [x], plain)
    (found,) = vjp(back, [plain], head)
    return found


AnyRule = Rule | RuleOfCall


def rules_at(op: Op, rules: Rules) -> list[AnyRule]:
    """The rules for what an operation makes: those given, then that of the rest of a call."""
    found: list[AnyRule] = [rules[t] for t in outputs(op) if t in rules]
    if isinstance(op, FunctionCall) and op.rule is not None and len(found) < len(outputs(op)):
        found.append(RuleOfCall(op, op.rule))
    return found


def told(rule: AnyRule, rules: Rules) -> list[Tensor]:
    """The tensors that a rule of `rules_at` decides about."""
    return [t for t in rule.made if isinstance(rule, Rule) or t not in rules]


def is_ruled(t: Tensor, rules: Rules) -> bool:
    """Whether a rule says how derivatives flow through the operation of a tensor."""
    return t in rules or (isinstance(t.op, FunctionCall) and t.op.rule is not None)


def ruled_deps(t: Tensor, rules: Rules) -> Sequence[Tensor] | None:
    """What derivatives of a tensor flow to by its rule; None: it has none."""
    if t in rules:
        return rules[t].deps
    return differentiable_inputs(t.op) if is_ruled(t, rules) else None


def are_ruled(ops: Iterable[Op]) -> bool:
    """Whether calls that carry rules are among operations or in their blocks."""
    every = list(ops)
    return any(isinstance(o, FunctionCall) and o.rule for o in (*every, *inner_ops(every)))


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


def derivation_inputs(op: Op, rules: Rules) -> Sequence[Tensor]:
    """The float tensors that derivatives of the operation's outputs flow to."""
    if not rules:
        return differentiable_inputs(view(op))
    made = outputs(op)
    ruled = [t for t in made if t in rules]
    found: dict[Tensor, None] = {}
    if not ruled or any(t not in rules for t in made if t.dtype.is_float):
        found.update(dict.fromkeys(differentiable_inputs(view(op))))
    for t in ruled:
        found.update(dict.fromkeys(rules[t].deps))
    return list(found)


def derivation_order(roots: Sequence[Tensor], rules: Rules) -> list[Op]:
    """The operations the roots depend on through views and rules, producers first."""
    return topological_ops(roots, inputs_of=lambda op: derivation_inputs(op, rules))


def _like(name: str, t: Tensor) -> Tensor:
    return outputs(Placeholder(name, t.shape, t.dtype))[0]
