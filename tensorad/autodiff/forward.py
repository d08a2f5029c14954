"""Forward mode: tangents from inputs to an output, from the same linear terms as reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, overload

import numpy as np

from tensorad.autodiff.adjoints.adjoint import Adjoint, banded, store, variable, whole
from tensorad.autodiff.adjoints.inlining import Uses, may_inline
from tensorad.autodiff.adjoints.told import returned
from tensorad.autodiff.checks import (
    as_direction,
    check_fw_mode,
    check_outputs,
    check_wrt,
    leading_axes,
)
from tensorad.autodiff.control.handles import moves_handles
from tensorad.autodiff.control.missing import check_complete
from tensorad.autodiff.control.pieces import with_dtype, zeros_like
from tensorad.autodiff.control.recursion import Moving
from tensorad.autodiff.control.tangents import control_tangents
from tensorad.autodiff.local.flows import (
    AnyRule,
    derivation_inputs,
    derivation_order,
    is_ruled,
    rules_at,
    told,
)
from tensorad.autodiff.local.linear import InMode, Term, body_terms, times
from tensorad.autodiff.local.overrides import Override, Rules, check_override
from tensorad.autodiff.local.record_gradients import as_derivative
from tensorad.autodiff.local.records import added
from tensorad.autodiff.local.scan_forms import scatter_scan, traced_scan
from tensorad.autodiff.local.scans import tangent_scan
from tensorad.autodiff.local.views import compute_terms, differentiable_inputs, view
from tensorad.autodiff.provenance import remember_along
from tensorad.autodiff.reverse import vjp
from tensorad.collector import old_objects_at_rest
from tensorad.errors import GradError
from tensorad.ir.analysis.blocks import saves_of
from tensorad.ir.analysis.finite import may_be_infinite
from tensorad.ir.arrays.elementwise import compute_axes, copy_of
from tensorad.ir.arrays.scan_outputs import last_states
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    Read,
    add,
    cast,
    const,
    logical_and,
    read,
    reduce_expr,
    summed,
)
from tensorad.ir.records import is_record
from tensorad.ir.tensor import (
    Compute,
    Control,
    Op,
    Saved,
    Scan,
    Scatter,
    Shape,
    Tensor,
    Update,
    outputs,
)
from tensorad.ir.visit import copy_bodies, fresh_axes, substitute
from tensorad.process import deep_calls
from tensorad.progress import advance, expect, progress
from tensorad.simplify.formula.choose import tidy
from tensorad.simplify.zeros.lift import guarded
from tensorad.simplify.zeros.passes import nonzero_body

_MANY_USES: Final = Uses(2, False)
"""How a tangent is read is not known yet: only reads, constants and deltas stay formulas."""

Direction = Tensor | np.ndarray | np.number | float | int


@overload
def jvp(
    y: Tensor,
    tangents: Mapping[Tensor, Direction],
    *,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> Tensor: ...
@overload
def jvp(
    y: Sequence[Tensor],
    tangents: Mapping[Tensor, Direction],
    *,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> list[Tensor]: ...
@progress("differentiating")
@deep_calls.changed()
@old_objects_at_rest()
def jvp(
    y: Tensor | Sequence[Tensor],
    tangents: Mapping[Tensor, Direction],
    *,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> Tensor | list[Tensor]:
    """sum over x of d y / d x applied to the tangent of x.

    Args:
        y: float tensor, or several: they share the work (integer tensors of a tuple are left
            out).
        tangents: for each x (input or intermediate, float) a tensor or array of shape
            (*batch, *x.shape), all with one batch shape, or a number for every element. That of
            an intermediate is added to the one that reaches it: jvp is the transpose of vjp.
        fw_mode: False: by reverse mode twice, as the derivative by the head of `vjp`, which is
            linear in it; otherwise by forward mode, which costs less.
        override: derivatives to use in place of those of the formulas, as in `vjp`; a rule
            without a jvp of its own is transposed.
    Returns:
        a tensor of shape (*batch, *y.shape) and y's dtype; for several outputs a list.
    Raises:
        GradError: an integer tensor, a bad argument, or a rule that is not linear.
        ShapeError: a tangent's shape does not end in its tensor's, or the batches differ.
    """
    outputs_wanted = check_outputs(y)
    many = not isinstance(outputs_wanted, Tensor)
    ys = [outputs_wanted] if isinstance(outputs_wanted, Tensor) else outputs_wanted
    if not isinstance(tangents, Mapping):
        raise GradError(
            f"the tangents must be a dict from tensors, got {type(tangents).__name__}.",
            hint="write jvp(Y, {X: dX}).",
        )
    given, batch = directions(tangents)
    rules = check_override(override)
    floats = [t for t in ys if t.dtype.is_differentiable]
    along = dict(tangents)
    if check_fw_mode(fw_mode) is False:
        results = _by_heads(floats, given, override)
        return results if many else results[0]
    push = Push(given, batch, rules)

    def again() -> list[Tensor]:
        return jvp(floats, along, override=override)

    results = remember_along(push.run(floats), floats, list(given), again)
    return results if many else results[0]


def _by_heads(
    ys: Sequence[Tensor], given: Mapping[Tensor, Adjoint], override: Override | None
) -> list[Tensor]:
    """The tangents by reverse mode: the adjoints are linear in the heads, and are transposed.

    The heads are tensors like the outputs; what values they have does not matter.
    """
    heads = [as_derivative(y) if is_record(y.dtype) else copy_of(y) for y in ys]
    adjoints = vjp(ys, list(given), heads, override=override)
    tangents = [store(a, f"d{x.name}") for x, a in given.items()]
    return vjp(adjoints, heads, tangents)


@progress("differentiating")
@deep_calls.changed()
@old_objects_at_rest()
def tangents_along(
    ys: Sequence[Tensor], along: Mapping[Tensor, Tensor], rules: Rules
) -> dict[Tensor, Tensor]:
    """The tangents of those float tensors that move, in one pass.

    Args:
        along: tangents of tensors behind them, of the same shapes.
        rules: derivatives in place of those of the formulas.
    Raises:
        GradError: foreign functions that they flow through have none.
    """
    check_complete(ys, along, rules)
    found = block_jvp(along, ys, (), rules)

    def again() -> list[Tensor]:
        return list(block_jvp(along, ys, (), rules).values())

    remember_along(list(found.values()), list(found), list(along), again)
    return found


def directions(tangents: Mapping[Tensor, Direction]) -> tuple[dict[Tensor, Adjoint], Shape]:
    """The tangents as formulas over (batch axes, tensor axes), and the batch shape."""
    tensors = check_wrt(tangents)
    given = [(x, _as_tensor(x, t)) for x, t in zip(tensors, tangents.values(), strict=True)]
    batch = leading_axes("tangent", given)
    return {x: _direction(x, t, batch) for x, t in given}, batch


def _direction(x: Tensor, tangent: Tensor | float, batch: Shape) -> Adjoint:
    if isinstance(tangent, Tensor) and is_record(x.dtype):
        return whole(tangent)
    axes = compute_axes((*batch, *x.shape))
    if isinstance(tangent, Tensor):
        return Adjoint(axes, cast(read(tangent, axes), x.dtype))
    return Adjoint(axes, const(tangent, x.dtype))


def _as_tensor(x: Tensor, value: Direction) -> Tensor | float:
    name, rule = f"d{x.name}", "a tangent has the shape of its tensor"
    return as_direction(f"the tangent of {x.name}", name, name, x, value, rule)


class Push:
    """One pass over the operations the outputs depend on, producers first."""

    def __init__(self, given: Mapping[Tensor, Adjoint], batch: Shape, rules: Rules) -> None:
        self.given = dict(given)
        self.batch = batch
        self.lead = compute_axes(batch, tuple(f"b{d}" for d in range(len(batch))))
        self.rules = rules
        self.tangents = tangents = dict(given)
        """Formulas over (batch axes, tensor axes), or stored tensors of these."""
        self.order: list[Op] = []
        self.ends: dict[Tensor, None] = {}
        self.read: dict[Tensor, None] = {}
        """What has its tangent used."""
        self.wanted = InMode(lambda e: e.tensor in tangents, "forward")

    def run(self, ys: Sequence[Tensor]) -> list[Tensor]:
        """The tangents of the outputs, stored."""
        check_complete(ys, self.given, self.rules)
        self.run_order(ys)
        found = [self._result(y) for y in ys]
        return returned(found, self.tidied(found), self.order)

    def tidied(self, results: list[Tensor]) -> list[Tensor]:
        """The results with less work; the tangents on the way may be rewritten."""
        own = [a.tensor for t, a in self.tangents.items() if t not in self.given]
        return tidy(results, [*[t for t in own if t is not None], *results], self.order)

    def run_order(self, ys: Sequence[Tensor]) -> None:
        """Fill `tangents` up to the outputs."""
        self.ends = dict.fromkeys(ys)
        self.order = derivation_order(ys, self.rules)
        saves = saves_of(self.order)
        inputs = [t for op in self.order for t in derivation_inputs(op, self.rules)]
        self.read = {**self.ends, **dict.fromkeys(inputs)}
        expect(len(self.order))
        for op in self.order:
            advance()
            viewed = view(op)
            made = outputs(op)
            if isinstance(op, (Control, Saved)) or moves_handles(op):
                self._push_control(op, saves)
            elif any(t in self.tangents for t in differentiable_inputs(viewed)):
                pairs = list(zip(made, self._push(viewed, made), strict=True))
                for t, tangent in pairs:
                    if tangent is not None and not is_ruled(t, self.rules):
                        self.tangents[t] = self._joined(t, tangent)
            for rule in rules_at(op, self.rules):
                self._push_rule(rule)

    def _push_control(self, op: Op, saves: Mapping[Control, Sequence[Saved]]) -> None:
        """The tangents of the outputs, and of all that is saved of the inside."""
        moved = [t for t in derivation_inputs(op, self.rules) if t in self.tangents]
        is_told = op not in saves and all(is_ruled(t, self.rules) for t in outputs(op))
        if isinstance(op, Saved) or not moved or is_told:
            return
        stored = {t: with_dtype(variable(self.tangents[t], f"d{t.name}"), t.dtype) for t in moved}
        kept = saves.get(op, ()) if isinstance(op, Control) else ()
        given = Moving(stored, kept, self.batch, self.rules, block_jvp, self.read)
        for t, tangent in control_tangents(op, given).items():
            if not is_ruled(t, self.rules):
                self.tangents[t] = self._joined(t, whole(tangent))

    def _joined(self, t: Tensor, tangent: Adjoint) -> Adjoint:
        """A given direction of an intermediate is added to what reaches it."""
        if t not in self.given:
            return tangent
        if is_record(t.dtype):
            parts = [store(a, f"d{t.name}") for a in (self.given[t], tangent)]
            return whole(added(*parts))
        axes = compute_axes((*self.batch, *t.shape))
        own = self.given[t].at(axes)
        return Adjoint(axes, add(own, cast(tangent.at(axes), own.dtype)))

    def _result(self, y: Tensor) -> Tensor:
        name = f"d{y.name}"
        if y in self.tangents:
            return store(self.tangents[y], name)
        return zeros_like(y, self.batch)

    def _push_rule(self, rule: AnyRule) -> None:
        """The tangent as the rule says."""
        tangents = [self.tangents.get(d) for d in rule.deps]
        if all(t is None for t in tangents):
            return
        stored = [
            None if t is None else store(t, f"d{d.name}")
            for t, d in zip(tangents, rule.deps, strict=True)
        ]
        made = dict(zip(rule.made, rule.all_tangents(stored, self.batch, vjp), strict=True))
        for t in told(rule, self.rules):
            found = made[t]
            if found is not None:
                self.tangents[t] = self._joined(t, whole(found))

    def _push(self, op: Op, made: Sequence[Tensor]) -> Sequence[Adjoint | None]:
        if isinstance(op, Compute):
            return [self._compute(op, c, t) for c, t in enumerate(made)]
        if isinstance(op, Scatter):
            return [self._scatter(op)]
        if isinstance(op, Scan):
            return [None if t is None else whole(t) for t in self._scan(op, made)]
        return [None for _ in made]

    def _scan(self, op: Scan, made: Sequence[Tensor]) -> list[Tensor | None]:
        """The tangents of `made`, the first components' states of the viewed scan."""

        def moved(e: Expr) -> Expr | None:
            total = self._moved(e) if e.dtype.is_float else None
            return None if total is None else cast(total, e.dtype)

        starts, sources = [moved(e) for e in op.start], [moved(e) for e in op.sources]
        found = tangent_scan(op, starts, sources, self.lead)
        size, kept = op.combiner.arity, len(made) // 3
        own = outputs(op)
        return [found.get(own[t.index // kept * size + t.index % kept]) for t in made]

    def _compute(self, op: Compute, component: int, made: Tensor) -> Adjoint | None:
        found = compute_terms(op, component, self.wanted)
        terms = [t.at_winner or t for t in found]
        if not terms:
            return None
        body = directional(terms, self._read, made)
        axes, (body,) = copy_bodies((*self.lead, *op.axes), (body,))
        body = nonzero_body(axes, body)
        if may_inline(body, _MANY_USES):
            return Adjoint(axes, body)
        narrow = None if made in self.ends else banded(made, axes, body, len(self.lead))
        return narrow or whole(outputs(Compute(f"d{made.name}", axes, (body,)))[0])

    def _read(self, e: Read) -> Expr:
        return self.tangents[e.tensor].at((*self.lead, *e.indices))

    def _scatter(self, op: Scatter) -> Adjoint | None:
        if not op.combiner.is_sum:
            scan = scatter_scan(op)
            result = last_states(scan)[0]
            tangent = self._scan(traced_scan(scan), outputs(scan))[result.index]
            return None if tangent is None else whole(tangent)
        mapping = fresh_axes((*self.lead, *op.axes))
        axes = tuple([a for a in mapping.values() if isinstance(a, Axis)])
        updates = []
        for u in op.updates:
            value = self._moved(u.value)
            if value is not None:
                indices = tuple([substitute(i, mapping) for i in (*self.lead, *u.indices)])
                new = cast(substitute(value, mapping), op.dtype)
                updates.append(Update(indices, new, substitute(u.condition, mapping)))
        start = None if op.init is None else self.tangents.get(op.init)
        if not updates:
            return start
        init = None if start is None or op.init is None else store(start, f"d{op.init.name}")
        shape = (*self.batch, *op.shape)
        made = Scatter(
            f"d{op.name}", shape, op.dtype, axes, tuple(updates), op.combiner, init, op.source
        )
        return whole(outputs(made)[0])

    def _moved(self, e: Expr) -> Expr | None:
        """How a formula moves with what it reads; None if nothing does."""
        return summed(_product(t, self._read(t.read)) for t in body_terms(0, e, self.wanted))


def block_jvp(
    tangents: Mapping[Tensor, Tensor],
    roots: Sequence[Tensor],
    batch: Shape,
    rules: Rules,
) -> dict[Tensor, Tensor]:
    """The tangents of tensors of a block that move with some of its params."""
    push = Push({p: whole(d) for p, d in tangents.items()}, batch, rules)
    push.run_order(roots)
    moved = [t for t in dict.fromkeys(roots) if t in push.tangents]
    stored = [store(push.tangents[t], f"d{t.name}") for t in moved]
    return dict(zip(moved, returned(stored, push.tidied(stored), push.order), strict=True))


def _product(t: Term, tangent: Expr) -> Expr:
    """The term with a tangent in the place of its read; what selects switch off is no product."""
    infinite = t.switch is not TRUE and may_be_infinite(tangent)
    guard = logical_and(t.guard, t.switch) if infinite else t.guard
    return guarded(guard, times(cast(tangent, t.coefficient.dtype), t.coefficient))


def directional(terms: Sequence[Term], tangent: Callable[[Read], Expr], made: Tensor) -> Expr:
    """The sum of the terms with `tangent(read)` in the place of each read.

    Terms of one reduction share one sum over its axes.
    """
    groups: dict[tuple[tuple[Axis, ...], Expr], Expr] = {}
    for t in terms:
        part = cast(_product(t, tangent(t.read)), made.dtype)
        key = (t.axes, t.condition)
        groups[key] = part if key not in groups else add(groups[key], part)
    total = summed(
        reduce_expr(sum_combiner(made.dtype), (source,), axes, condition)
        if axes
        else guarded(condition, source)
        for (axes, condition), source in groups.items()
    )
    return const(0, made.dtype) if total is None else total
