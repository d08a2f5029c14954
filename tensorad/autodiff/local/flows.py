"""Where derivatives flow through operations: by their formulas, by rules, out of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorad.autodiff.local.call_rules import RuleOfCall
from tensorad.autodiff.local.overrides import Rule, Rules
from tensorad.autodiff.local.views import differentiable_inputs, view
from tensorad.ir.analysis.blocks import block_ops, inner_ops, op_sizes
from tensorad.ir.functions import stops_one_mode
from tensorad.ir.tensor import (
    Branch,
    Constant,
    Control,
    FunctionCall,
    Loop,
    Op,
    Tensor,
    outputs,
)
from tensorad.ir.visit import op_expressions, op_inputs, topological_ops

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
