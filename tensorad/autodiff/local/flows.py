"""Where derivatives flow through operations: by their formulas, by rules, out of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tensorad.autodiff.local.overrides import (
    Rule,
    Rules,
    SoFar,
    Transpose,
    input_like,
    is_free,
)
from tensorad.autodiff.local.views import differentiable_inputs, view
from tensorad.errors import GradError
from tensorad.ir.analysis.blocks import block_ops, inner_ops, op_sizes
from tensorad.ir.arrays.elementwise import elementwise
from tensorad.ir.functions import stops_one_mode
from tensorad.ir.tensor import (
    Branch,
    CallRule,
    Constant,
    Control,
    FunctionCall,
    Loop,
    Op,
    Shape,
    Tensor,
    outputs,
)
from tensorad.ir.visit import op_expressions, op_inputs, topological_ops


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
                    total = _plus(total, _applied(adjoint, own, input_like("h", d), head, vjp))
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
                if head is not None and not is_free([adjoint], [head]):
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
        floats = [(t, t.dtype.is_float and h is not None) for t, h in pairs]
        return [input_like(f"d{t.name}", t) if wanted else None for t, wanted in floats]

    def _check_linear(self, made: Sequence[Tensor | None], heads: Sequence[Tensor | None]) -> None:
        if not is_free(made, [h for h in heads if h is not None]):
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


def stopped_in_one_mode(roots: Iterable[Tensor]) -> Op | None:
    """An operation behind some tensors, maybe in a block, whose derivatives differ between modes,
    since `stop_gradient` stops one."""
    ops = topological_ops(roots)
    every = (*ops, *inner_ops(ops))
    return next((op for op in every if stops_one_mode(op_expressions(op))), None)


def derivation_inputs(op: Op, rules: Rules) -> Sequence[Tensor]:
    """The float tensors that derivatives of the operation's outputs flow to."""
    if not rules:
        return differentiable_inputs(view(op))
    made = outputs(op)
    ruled = [t for t in made if t in rules]
    found: dict[Tensor, None] = {}
    if not ruled or any(t not in rules for t in made if t.dtype.is_differentiable):
        found.update(dict.fromkeys(differentiable_inputs(view(op))))
        if isinstance(op, Control):
            found.update(dict.fromkeys(outer_deps(op, rules)))
    for t in ruled:
        found.update(dict.fromkeys(rules[t].deps))
    return list(found)


def derivation_order(roots: Sequence[Tensor], rules: Rules) -> list[Op]:
    """The operations the roots depend on through views and rules, producers first."""
    return topological_ops(roots, inputs_of=lambda op: derivation_inputs(op, rules))


def block_operands(op: Control) -> tuple[Tensor, ...]:
    """The operands that the params of blocks stand for."""
    return op.operands[1:] if isinstance(op, Branch) else op.operands


def outer_deps(op: Control, rules: Rules) -> tuple[Tensor, ...]:
    """The tensors outside of blocks, no operands, that derivatives flow to by rules inside."""
    if not any(r.deps for r in rules.values()):
        return ()
    found: dict[Tensor, None] = {}
    for n in range(1 if isinstance(op, Loop) else len(op.blocks)):
        block = op.blocks[n]
        kept = [inner for inner, b in op.kept if b == n]
        own = {**rules, **stops(block.params)}
        order = derivation_order([*block.results, *kept], own)
        inside = _inside(op, n, kept, order)
        params = dict.fromkeys(block.params)
        for o in order:
            inputs = derivation_inputs(o, own) if o in inside else ()
            found.update({t: None for t in inputs if t not in params and t.op not in inside})
    return tuple([t for t in found if not isinstance(t.op, Constant)])


def stops(params: Iterable[Tensor]) -> dict[Tensor, Rule]:
    """No derivative flows through these."""
    return {p: Rule(p, (), None, None) for p in params}


def _inside(op: Control, n: int, kept: Sequence[Tensor], order: Sequence[Op]) -> dict[Op, None]:
    """Which operations belong to a block: those that make its results, and what else has values of
    one run of it only."""
    block = op.blocks[n]
    pairs = zip(block.params, block_operands(op), strict=True)
    bound = {p: None for p, t in pairs if p is not t}
    inside = dict.fromkeys(block_ops(block, kept))
    for o in order:
        runs = isinstance(op, Loop) and op.counter in op_sizes(o)
        if runs or any(t in bound or t.op in inside for t in op_inputs(o)):
            inside[o] = None
    return inside
