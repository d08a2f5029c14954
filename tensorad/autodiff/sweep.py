"""One sweep of reverse mode: from outputs, consumers first, back to the tensors they depend on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tensorad.autodiff.adjoints.adjoint import Adjoint, Contribution, Target, store, variable, whole
from tensorad.autodiff.adjoints.fold_adjoints import adjoint_terms
from tensorad.autodiff.adjoints.inlining import Uses
from tensorad.autodiff.adjoints.overwritten import last_writers, overwrites_once, to_first_values
from tensorad.autodiff.adjoints.read_back import finished
from tensorad.autodiff.adjoints.shifts import Shifts
from tensorad.autodiff.adjoints.switched_scans import ScanSwitch
from tensorad.autodiff.adjoints.told import returned
from tensorad.autodiff.adjoints.transposed import (
    behind,
    contribution,
    given,
    is_formula,
    may_have_elements,
    passed_on,
    pointwise,
    received,
    sizes_with_points,
    whole_contribution,
)
from tensorad.autodiff.adjoints.weights import WeightedTarget, with_stored_weights
from tensorad.autodiff.checks import check_depends
from tensorad.autodiff.control.activity import active_tensors
from tensorad.autodiff.control.adjoints import control_adjoints
from tensorad.autodiff.control.handles import moves_handles
from tensorad.autodiff.control.heads import (
    BlockAdjoints,
    Given,
    Head,
    Seed,
    Starts,
    seed_adjoints,
    with_switch,
)
from tensorad.autodiff.control.missing import check_complete
from tensorad.autodiff.control.pieces import opened, zeros_like
from tensorad.autodiff.control.record_flows import RecordSums
from tensorad.autodiff.counting.contribution_points import points_per_contribution
from tensorad.autodiff.heads import seeds
from tensorad.autodiff.local.box import Box
from tensorad.autodiff.local.combiners import fold_groups
from tensorad.autodiff.local.flows import (
    AnyRule,
    derivation_inputs,
    derivation_order,
    is_ruled,
    rules_at,
    told,
)
from tensorad.autodiff.local.linear import InMode, Term, body_terms
from tensorad.autodiff.local.overrides import Rules
from tensorad.autodiff.local.records import check_no_batch
from tensorad.autodiff.local.scan_forms import scatter_scan
from tensorad.autodiff.local.scans import Heads as ScanHeads
from tensorad.autodiff.local.scans import reverse_sweep
from tensorad.autodiff.local.views import compute_terms, differentiable_inputs, view
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.analysis.flow import flowing_components
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.arrays.scan_outputs import last_states
from tensorad.ir.expr import TRUE, Axis, Call, Expr, Reduce, call, read
from tensorad.ir.records import is_record
from tensorad.ir.tensor import Compute, Control, Op, Saved, Scan, Scatter, Shape, Tensor, outputs
from tensorad.ir.visit import op_inputs, reads, substitute, topological_ops
from tensorad.progress import advance, expect
from tensorad.simplify.formula.choose import tidy
from tensorad.simplify.formula.joined import inner_reductions, joined

Indices = tuple[Expr, ...]


class Sweep:
    """One pass over the operations between `wrt` and the outputs, consumers first."""

    def __init__(
        self,
        ys: Sequence[Tensor],
        wrt: Sequence[Tensor],
        batch: Shape,
        rules: Rules,
        kind: type[Target] = Target,
        passed: Collection[Tensor] = (),
        starts: Starts | None = None,
    ) -> None:
        """`passed`: formulas and sums whose adjoints are not kept but go straight on."""
        self.ys = dict.fromkeys(ys)
        self.wrt = dict.fromkeys(wrt)
        self.batch = batch
        self.rules = rules
        self.kind = kind
        self.passed = dict.fromkeys(passed)
        self.starts = dict(starts or {})  # that no operation has used
        self.order = derivation_order(ys, rules)
        self.forward = topological_ops([*ys, *wrt])
        self.inner = inner_reductions(self.forward)
        self.in_place: dict[Op, None] = {}
        """Formulas that store the adjoint of a reduction inside in place of their own."""
        self.active = active = active_tensors(self.order, self.wrt, rules)
        self.wanted = InMode(lambda e: e.tensor in active, "reverse")
        self.targets: dict[Tensor, Target] = {}
        self.records = RecordSums()
        self.done: dict[Tensor, Adjoint | None] = {}
        self.inside: dict[Op, dict[Tensor, Head]] = {}
        """Adjoints of what is saved of the insides of operations not visited yet."""
        self.shifts = Shifts(self.order)
        self.needed: dict[Tensor, None] = {}
        """Forward values that the coefficients so far read, directly or through others."""

    def run(self, seeds: Mapping[Tensor, Adjoint], strict: bool) -> list[Tensor]:
        """The adjoints of `wrt`."""
        self._walk(seeds)
        return [self._result(x, strict) for x in self.wrt]

    def _walk(self, seeds: Mapping[Tensor, Adjoint]) -> None:
        inner = {t: None for op in self.order for t in derivation_inputs(op, self.rules)}
        for y, seed in seeds.items():
            if y in inner:  # an output that another one depends on receives more
                self._push_seed(y, seed)
            else:
                self.done[y] = seed
        expect(len(self.order))
        for op in reversed(self.order):
            self._visit(op)
            advance()

    def tidied(self, results: list[Tensor]) -> list[Tensor]:
        """The results of `run` with less work."""
        stored = [a.tensor for a in self.done.values() if a is not None]
        made = [*[t for t in stored if t is not None], *results]
        own = {t: None for op in topological_ops(self.ys) for t in outputs(op)}
        heads = dict.fromkeys(self.ys)
        formulas = [t for t, a in self.done.items() if a is not None and a.tensor is None]
        spared = [t for t in formulas if t in own and t not in heads]
        return tidy(results, made, self.order, spared)

    def points_per_contribution(
        self, results: list[Tensor], heads: Sequence[Tensor], sizes: Mapping[Expr, int], enough: int
    ) -> int | None:
        """The points of such results where every contribution is gathered by itself."""
        own = {t: a for t, a in self.done.items() if t in self.targets and a is not None}
        stored = {t: a.tensor for t, a in own.items() if a.tensor is not None}
        read = dict.fromkeys(topological_ops(results))
        sums = [t for t, made in stored.items() if made.op in read and not is_formula(made)]
        counted = dict.fromkeys((*self.wrt, *sums, *[t for t in own if t.op not in self.inner]))
        parts = {t: self.targets[t].contributions if t in self.targets else [] for t in counted}
        made = [*stored.values(), *results]
        return points_per_contribution(results, parts, made, self.inner, heads, sizes, enough)

    def joined(self, results: list[Tensor], heads: Sequence[Tensor]) -> list[Tensor]:
        """The results; what is computed from reductions inside of formulas stands with them."""
        if not self.inner:
            return results
        fixed = [t.op for t, rule in self.rules.items() if not rule.deps]  # params of blocks
        return joined(results, self.forward, self.inner, [*topological_ops(heads), *fixed])

    def _result(self, x: Tensor, strict: bool) -> Tensor:
        adjoint = self._last(x)
        if adjoint is None:
            if strict:
                check_depends([y for y in self.ys if may_have_elements(y)], x)
            return zeros_like(x, self.batch)
        return store(adjoint, f"d{x.name}")

    def adjoints(self, seeds: Mapping[Tensor, Adjoint]) -> list[Tensor | None]:
        """The adjoints of `wrt`; None where nothing flows."""
        self._walk(seeds)
        found = [self._last(x) for x in self.wrt]
        return [
            None if a is None else store(a, f"d{x.name}")
            for a, x in zip(found, self.wrt, strict=True)
        ]

    def collected(self, x: Tensor) -> Target | None:
        """What has collected the adjoint of one of `wrt`."""
        adjoint = self.done.get(x)
        return self.targets.get(x) if adjoint is None else adjoint.sum_of

    def _last(self, x: Tensor) -> Adjoint | None:
        """The adjoint of a tensor once all operations are visited."""
        adjoint = self.done.get(x, self.records.adjoint(x))
        if adjoint is None and x in self.targets:
            adjoint = finished(self.targets[x], f"d{x.name}", True, Uses(0, False))
        return adjoint

    def _visit(self, op: Op) -> None:
        made = outputs(op)
        reached = any(t in self.targets or t in self.done or t in self.records for t in made)
        if not reached and op not in self.inside:
            return
        for rule in rules_at(op, self.rules):
            self._visit_rule(rule)
        viewed = view(op)
        flows = any(t in self.active for t in differentiable_inputs(viewed))
        if isinstance(op, (Control, Saved)) or moves_handles(op):
            self._visit_control(op, made)
        elif isinstance(viewed, Compute):
            swept = self._visit_folds(viewed, made) if flows and not self.batch else {}
            for t in made:
                if t not in swept:
                    self._visit_element(op, viewed, t, flows)
        elif isinstance(viewed, Scatter) and flows:
            self._visit_scatter(viewed, made[0])
        elif isinstance(op, Scan) and isinstance(viewed, Scan) and flows:
            self._visit_scan(op, viewed, {t: self._finish(t, Uses(1, True)) for t in made})
        else:
            for t in made:
                self._finish(t, Uses(0, False))

    def _visit_element(self, op: Op, viewed: Compute, t: Tensor, flows: bool) -> None:
        terms = compute_terms(viewed, t.index, self.wanted) if flows else []
        terms = self._read_back(viewed, t, terms)
        if t in self.passed and t in self.targets:
            for term in terms:
                for c in self.targets[t].contributions:
                    self._push(term.read.tensor, passed_on(c, viewed, t, term))
            return
        formula = self.inner.get(op)
        where = TRUE if formula is None else sizes_with_points(viewed)
        inner = formula is not None and not self._may_store(formula)
        adjoint = self._finish(t, Uses(len(terms), pointwise(viewed, terms), inner, where))
        if adjoint is None:
            return
        if formula is not None and adjoint.tensor is not None:
            self.in_place[formula] = None
        if self.kind is WeightedTarget:
            adjoint, terms = with_stored_weights(
                viewed, f"d{t.name}.weights", adjoint, terms, kept=t in self.wrt
            )
        for term in terms:
            self._push_term(viewed, adjoint, term)

    def _may_store(self, formula: Op) -> bool:
        """Whether a reduction in a formula may store its adjoint: the formula stores none."""
        own = [self.done.get(t) for t in outputs(formula) if t not in self.ys]
        left_out = any(a is not None and a.tensor is None for a in own)
        return left_out and formula not in self.in_place

    def _read_back(self, op: Compute, made: Tensor, terms: list[Term]) -> list[Term]:
        """Coefficients that contain the value of `made` read it, if it is needed anyway."""
        root = op.bodies[made.index]
        if made in self.needed and isinstance(root, Call) and root.op != "add":
            value: dict[Expr, Expr] = {root: read(made, op.axes)}
            terms = [replace(t, coefficient=substitute(t.coefficient, value)) for t in terms]
        for t in terms:
            self._need([r.tensor for r in reads(t.coefficient)])
        return terms

    def _need(self, tensors: Sequence[Tensor]) -> None:
        """These values are computed for the gradient, and so is all that they depend on."""
        stack = list(tensors)
        while stack:
            t = stack.pop()
            if t not in self.needed:
                self.needed[t] = None
                stack += op_inputs(t.op)

    def _finish(self, t: Tensor, uses: Uses) -> Adjoint | None:
        """The adjoint that flows on through the operation of t."""
        return None if is_ruled(t, self.rules) else self._adjoint_of(t, uses)

    def _adjoint_of(self, t: Tensor, uses: Uses) -> Adjoint | None:
        if t in self.done:
            return self.done[t]
        target = self.targets.get(t)
        if target is None:
            return self.records.adjoint(t)
        adjoint = finished(target, f"d{t.name}", t in self.wrt, uses)
        adjoint = adjoint and replace(adjoint, sum_of=target)
        if adjoint and t not in self.wrt and self.shifts.is_shift(t, adjoint, self.done):
            note(Decision((t,), "zero", "shifting it changes nothing: its contributions cancel"))
            adjoint = None
        self.done[t] = adjoint
        return adjoint

    def _visit_rule(self, rule: AnyRule) -> None:
        """The adjoint flows to the rule's tensors as the rule says."""
        found = {t: self._adjoint_of(t, Uses(1, False)) for t in told(rule, self.rules)}
        stored = {t: variable(a, f"d{t.name}") for t, a in found.items() if a is not None}
        if not stored or not any(d in self.active for d in rule.deps):
            return
        check_no_batch(rule.made[0].op, self.batch, [d for d in rule.deps if d in self.active])
        heads = [stored.get(t) for t in rule.made]
        parts = rule.all_adjoints(heads, self.batch, transposed, self._so_far)
        for d, part in zip(rule.deps, parts, strict=True):
            if part is not None and d in self.active:
                self._push_seed(d, whole(part))

    def _so_far(self, t: Tensor) -> Tensor | None:
        """The sum of what a tensor's adjoint has received by now."""
        if t not in self.targets:
            return None
        name = f"d{t.name}_so_far"
        now = self.kind(t, self.batch, list(self.targets[t].contributions))
        adjoint = finished(now, name, True, Uses(0, False))
        return None if adjoint is None else store(adjoint, name)

    def _push_seed(self, t: Tensor, seed: Adjoint) -> None:
        if is_record(t.dtype):
            self.records.receive(t, store(seed, f"d{t.name}"))
            return
        self._push(t, given(seed, compute_axes(t.shape)))

    def _push(self, tensor: Tensor, contribution: Contribution) -> None:
        if tensor not in self.targets:
            self.targets[tensor] = self.kind(tensor, self.batch)
        self.targets[tensor].contributions.append(contribution)

    def _push_term(self, op: Compute, adjoint: Adjoint, term: Term) -> None:
        made = contribution(op, adjoint, term)
        if term.at_winner is not None:
            made = replace(made, sparse=contribution(op, adjoint, term.at_winner))
        self._push(term.read.tensor, made)

    def _visit_scatter(self, op: Scatter, made: Tensor) -> None:
        """out[f(p)] += v(p): each point's adjoint is the head where the point went."""
        adjoint = self._finish(made, Uses(len(op.updates) + 1, False))
        if adjoint is None:
            return
        if not op.combiner.is_sum:
            self._visit_folding_scatter(op, adjoint)
            return
        for u in op.updates:
            for t in body_terms(0, u.value, self.wanted):
                made_of = received(t, op.axes, u.condition, adjoint, u.indices)
                self._push(t.read.tensor, made_of)
        if op.init is not None and op.init in self.active:
            self._push_seed(op.init, adjoint)

    def _visit_folds(self, op: Compute, made: Sequence[Tensor]) -> dict[Tensor, None]:
        """One sweep for all components of a fold, from their adjoints; the tensors done so."""
        done: dict[Tensor, None] = {}
        for e, swept, beside in fold_groups(op):
            heads = self._fold_heads(made, e, swept)
            done.update(dict.fromkeys([made[n] for n in swept.values()]))
            if heads:
                heads.update(self._fold_heads(made, e, beside))
                done.update(dict.fromkeys([made[n] for n in beside.values()]))
                for term in adjoint_terms(op, e, heads, self.wanted):
                    made_of = whole_contribution(op, term, [*heads.values()])
                    self._push(term.read.tensor, made_of)
        return done

    def _fold_heads(
        self, made: Sequence[Tensor], e: Reduce, components: Mapping[int, int]
    ) -> dict[int, Adjoint]:
        """The adjoints of those components that depend on what is asked for."""
        moving = [n for n, s in enumerate(e.sources) if any(map(self.wanted, reads(s)))]
        adjoints = {
            c: self._finish(made[n], Uses(1, True))
            for c, n in components.items()
            if not set(moving).isdisjoint(flowing_components(e.combiner, [c]))
        }
        return {c: a for c, a in adjoints.items() if a is not None}

    def _visit_folding_scatter(self, op: Scatter, adjoint: Adjoint) -> None:
        """out[f(p)] = out[f(p)] (+) v(p), as a scan whose state lies in the cells of `out`."""
        (u,) = op.updates
        scan, alone = scatter_scan(op), overwrites_once(op)
        writers = None if alone else last_writers(scan)
        if writers is None and not alone:
            self._visit_scan(scan, scan, {last_states(scan)[0]: adjoint})
            return
        position = Box.around(op.axes).position()
        won = TRUE if writers is None else call("eq", read(writers, u.indices), position)
        for t in body_terms(0, u.value, self.wanted):
            made_of = received(t, op.axes, u.condition, adjoint, u.indices, won)
            self._push(t.read.tensor, made_of)
        if op.init is not None and op.init in self.active:
            made_of = to_first_values(op, op.init, adjoint, writers, self.batch, self.rules)
            self._push(op.init, made_of)

    def _visit_scan(
        self, op: Scan, viewed: Scan, adjoints: Mapping[Tensor, Adjoint | None]
    ) -> None:
        lead = compute_axes(self.batch, tuple(f"b{d}" for d in range(len(self.batch))))
        live = {t: a for t, a in adjoints.items() if a is not None}
        if not live:
            return
        given = {t: behind(lead, a) for t, a in live.items()}
        heads = ScanHeads.of(op, given, viewed.combiner.arity)
        smooth = [d for d, e in enumerate(viewed.sources) if self._flows(e)]
        sweep = reverse_sweep(viewed, [heads], smooth, lead)
        switch = ScanSwitch(op, viewed, live, smooth, lead, self.batch)
        for d, t in sweep.elements[0].items():
            sent, place = switch.element(d, t), viewed.indices
            self._push_terms(viewed.sources[d], viewed.scope, viewed.condition, sent, place)
        for c, t in sweep.starts[0].items():
            self._push_terms(viewed.start[c], viewed.axes, TRUE, switch.start(c, t), viewed.axes)

    def _visit_control(self, op: Op, made: Sequence[Tensor]) -> None:
        """One operation for all outputs and all that is saved, visited with its outputs."""
        found = {t: self._finish(t, Uses(1, False)) for t in made}
        heads = {t: Head.of(a, t, self.batch) for t, a in found.items() if a is not None}
        if isinstance(op, Saved):
            self.inside.setdefault(op.control, {}).update(heads)
            return
        heads.update(self.inside.pop(op, {}))
        given = Given(self.active, heads, self.batch, self.rules, block_vjp, self.starts)
        for t, part, on, begun in control_adjoints(op, given):
            self._push_seed(t, with_switch(opened(part), t, self.batch, on))
            if begun:
                del self.starts[t]

    def _flows(self, e: Expr) -> bool:
        return e.dtype.is_float and any(self.wanted(r) for r in reads(e))

    def _push_terms(
        self, e: Expr, axes: tuple[Axis, ...], condition: Expr, adjoint: Adjoint, place: Indices
    ) -> None:
        """The adjoint of `e`, at (batch, place), flows to what `e` reads."""
        for t in body_terms(0, e, self.wanted):
            self._push(t.read.tensor, received(t, axes, condition, adjoint, place))


def transposed(y: Tensor, wrt: Sequence[Tensor], head: Tensor) -> list[Tensor]:
    """The adjoints of tensors that y is linear in."""
    check_complete([y], wrt, {})
    starts, batch = seeds([(y, head)])
    sweep = Sweep([y], wrt, batch, {})
    found = sweep.run(starts, strict=False)
    return returned(found, sweep.joined(sweep.tidied(found), [head]), [*sweep.order, head.op])


def block_vjp(
    seeds: Sequence[Seed],
    wrt: Sequence[Tensor],
    batch: Shape,
    rules: Rules,
    starts: Starts | None = None,
    passed: Collection[Tensor] = (),
) -> BlockAdjoints:
    """The adjoints of params of a block whose tensors have heads; all its values may be stored."""
    heads = seed_adjoints(seeds, batch)
    sweep = Sweep(list(heads), wrt, batch, rules, passed=passed, starts=starts)
    sweep.needed.update({t: None for op in sweep.order for t in outputs(op)})
    found = sweep.adjoints(heads)
    live = [t for t in found if t is not None]
    given = [s.head for s in seeds]
    known = [*sweep.order, *[h.op for h in given]]
    made = iter(returned(live, sweep.joined(sweep.tidied(live), given), known) if live else ())
    adjoints = [None if t is None else next(made) for t in found]
    begun = [t for t in starts or () if t not in sweep.starts]
    return BlockAdjoints.of(adjoints, [sweep.collected(x) for x in wrt], begun)
