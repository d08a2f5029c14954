"""Programs with calls, branches and loops as trees of nodes, formulas between them in kernels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorad.codegen.control.carries import Around, copy_of, is_dynamic
from tensorad.codegen.control.counts import count_of, scalar, telling
from tensorad.codegen.control.in_place import (
    InPlace,
    Updates,
    find_updates,
    in_order,
    late_starts,
    stored_in_place,
)
from tensorad.codegen.control.last_iteration import without_dead_ends
from tensorad.codegen.control.loop_body import Body, own
from tensorad.codegen.control.stretches import FORMULAS, copied, has_memory, stretches
from tensorad.codegen.control.taken_over import Taken, taken_carries, taken_results
from tensorad.codegen.control.told_products import told_products
from tensorad.codegen.control.totals import Adding, added_up, totals_of, zero
from tensorad.codegen.loops.ir import (
    Activate,
    CallPython,
    Choose,
    Inside,
    Kernel,
    LoopProgram,
    Make,
    Node,
    Place,
    Repeat,
    Reserve,
    Routine,
    Settle,
)
from tensorad.codegen.loops.rename_tensors import with_tensors
from tensorad.codegen.loops.scratch import buffer
from tensorad.errors import InternalError
from tensorad.ir.analysis.blocks import ops_between, saves_of
from tensorad.ir.arrays.foreign import Foreign
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    Const,
    Expr,
    LocalSize,
    Size,
    call,
    cast,
    int_const,
    local_size,
    read,
)
from tensorad.ir.records import Definition, Fields, Inject, Recursion, Tag, is_record
from tensorad.ir.reference.verify import verify_control
from tensorad.ir.tensor import (
    Block,
    Branch,
    Control,
    FunctionCall,
    Loop,
    Op,
    Saved,
    Tensor,
    outputs,
)
from tensorad.ir.visit import op_inputs
from tensorad.simplify.control.passes import simplified
from tensorad.simplify.control.renew import Image, renewed

Straight = Callable[[Sequence[Tensor], Sequence[Tensor]], LoopProgram]
"""(outputs, inputs) -> the kernels of formulas alone."""
Given = dict[Tensor, None]


def has_control(results: Iterable[Tensor], given: Collection[Tensor]) -> bool:
    """Whether a call, branch or loop is needed for the results."""
    return any(isinstance(op, (Control, Saved)) for op in ops_between(results, given))


def lower_tree(
    wanted: Sequence[Tensor], given: Sequence[Tensor], straight: Straight
) -> LoopProgram:
    """Nodes that compute what is wanted, each tensor, or a copy of it, in a buffer of its own.

    Requires: none of `wanted` is given, and none is there twice.
    """
    known = dict.fromkeys(given)
    results = tuple([t if has_memory(t) else copy_of(t) for t in wanted])
    lowering = _Lowering(straight)
    made = lowering.sequence(results, known, delivered=results)
    nodes, products = told_products(made, (), lowering.tell)
    routines: list[Routine] = []
    while len(routines) < len(lowering.called):  # those of definitions may call more
        routines.append(lowering.routine([*lowering.called][len(routines)]))
    return LoopProgram(tuple(given), results, nodes, tuple(routines), products)


@dataclass(frozen=True)
class _Lowering:
    """Nodes of a sequence of operations.

    Attributes:
        late: first values of carries that are computed where the loop begins.
        delivered: tensors that are made in the memory they have.
        used: tensors that are read.
        taken: carries that loops change where they lie already.
        totals: what calls and branches add to in place of making it -> to what.
        called: definitions, as they are met.
    """

    straight: Straight
    called: dict[Definition, None] = field(default_factory=dict)
    late: Collection[Tensor] = ()
    delivered: Collection[Tensor] = ()
    used: Collection[Tensor] = ()
    taken: Taken = field(default_factory=dict)
    totals: Image = field(default_factory=dict)

    def sequence(
        self,
        wanted: Sequence[Tensor],
        given: Given,
        updates: Updates | None = None,
        delivered: Collection[Tensor] = (),
        taken: Taken | None = None,
        adding: Adding = (),
    ) -> list[Node]:
        """Nodes after which the wanted tensors are there, from the given ones.

        Args:
            delivered: those of the wanted that are made in the memory they have; others may lie
                anywhere.
            taken: carries of what is around that loops change where they lie.
            adding: what is not to be there but in sums, which are given.
        """
        added = added_up(adding, wanted, given)
        wanted = [*wanted, *added.made]
        updates = {**(updates or {}), **added.updates}
        copies = copied(wanted, delivered, given, updates)
        wanted = [copies.get(t, t) for t in wanted]
        delivered = [copies.get(t, t) for t in delivered]
        late = late_starts(wanted, given, updates)
        order = in_order(wanted, given, updates, late)
        ops = list(order)
        kept = saves_of(ops)
        between = [op for op in ops if isinstance(op, Control) or op in updates]
        known = dict(given)
        nodes: list[Node] = [Place(source, t) for t, source in copies.items()]
        readers = [inputs for op, inputs in order.items() if not isinstance(op, Saved)]
        used = dict.fromkeys([*wanted, *[t for inputs in readers for t in inputs]])
        results = taken_results(wanted, given, updates, dict.fromkeys(delivered))
        lowered = replace(
            self, late=late, delivered=dict.fromkeys(delivered), used=used, totals=added.calls,
            taken={op: (*results.get(op, ()), *(taken or {}).get(op, ())) for op in between},
        )  # fmt: skip
        for n, stretch in enumerate(stretches(order, given, wanted, updates, len(between))):
            nodes += self.formulas(stretch, known)
            known.update(dict.fromkeys(stretch))
            if n == len(between):
                continue
            op = between[n]
            if isinstance(op, Control):
                nodes += lowered.control(op, kept.get(op, []), known)
                known.update(dict.fromkeys((*outputs(op), *_tensors(kept.get(op, [])))))
            else:
                nodes += self.update(updates[op])
                known[updates[op].result] = None
        return nodes

    def update(self, u: InPlace) -> list[Node]:
        """A carry changed where it lies; the next one lies there."""
        kernels = self.straight([u.made], u.inputs).kernels
        return [*stored_in_place(kernels, u), Place(u.result, u.carry)]

    def formulas(self, wanted: Sequence[Tensor], given: Given) -> list[Node]:
        """Kernels that compute tensors of formulas, into these tensors themselves."""
        if not wanted:
            return []
        read_here = dict.fromkeys(t for op in ops_between(wanted, given) for t in op_inputs(op))
        program = self.straight(wanted, [t for t in read_here if t in given])
        other = {m: t for t, m in zip(wanted, program.outputs, strict=True) if m is not t}
        nodes: list[Node] = []
        for k in program.kernels:
            kernel = _over(k, other) if other else k
            nodes += [Reserve(t) for t in kernel.writes if is_dynamic(t)]
            nodes.append(kernel)
        return nodes

    def control(self, op: Control, kept: Sequence[Saved], given: Given) -> list[Node]:
        verify_control(op)  # bytes of another dtype would be read as they are
        match op:
            case Foreign():
                return self.python(op)
            case FunctionCall():
                return self.block(op, 0, op.operands, kept, given)
            case Branch():
                return self.branch(op, kept, given)
            case Loop():
                return self.loop(op, kept, given)
            case Inject():
                return [Make(outputs(op)[0], op.dtype, op.tag, op.operands)]
            case Tag():
                return [Inside(outputs(op)[0], op.operands[0])]
            case Fields():
                (handle,) = op.operands
                return [Inside(t, handle, op.variant, k) for k, t in enumerate(outputs(op))]
            case Recursion():
                return self.activation(op, given)
        raise InternalError(f"{type(op).__name__} has no loops")

    def activation(self, op: Recursion, given: Given) -> list[Node]:
        """A call of a definition; sums that it adds to begin here if nobody else's do."""
        self.called.setdefault(op.definition)
        made = outputs(op)
        nodes: list[Node] = [Reserve(t) for t in made if is_dynamic(t)]
        sums = tuple([made[k] for k in totals_of(op.definition)])
        for t in sums:
            nodes += [Place(t, self.totals[t])] if t in self.totals else self.over(zero(t), t, ())
        asked = [e for e in dict.fromkeys(op.sizes) if not isinstance(e, (Const, Size))]
        sizes = {e: local_size("size") for e in asked}
        values = tuple([sizes.get(e, e) for e in op.sizes])
        return [*self.tell(sizes), *nodes, Activate(op.definition, op.operands, made, values, sums)]

    def block(
        self, op: Control, n: int, operands: Sequence[Tensor], kept: Sequence[Saved], given: Given
    ) -> list[Node]:
        """A block, after which the outputs and what is saved of it lie where it left them, or where
        they should."""
        block = op.blocks[n]
        saves = [s for s in kept if s.block == n]
        extra = [s.inner for s in saves]
        image = renewed(block, operands, extra)
        found: dict[Tensor, Tensor] = {}
        taken: dict[Tensor, None] = {}
        adding: list[tuple[Tensor, Tensor]] = []
        places = (*outputs(op), *_tensors(saves))
        for t, inner in zip(places, (*block.results, *extra), strict=True):
            if t in self.totals:
                adding.append((image.get(inner, inner), self.totals[t]))
                continue
            found[t] = image.get(inner, inner)
            if t in self.delivered:
                found[t] = own(found[t], (taken, given))
                taken[found[t]] = None
        before = [Place(f, t) for t, f in found.items() if t in self.delivered]
        after = [Place(t, f) for t, f in found.items() if t not in self.delivered]
        wanted = list(dict.fromkeys(found.values()))
        nodes = self.sequence(wanted, given, delivered=taken, adding=adding)
        return [*before, *nodes, *after]

    def python(self, op: Foreign) -> list[Node]:
        """A call of Python's code, whose results have memory of their own."""
        made = outputs(op)
        reserved = [Reserve(t) for t in made if is_dynamic(t)]
        return [*reserved, CallPython(op.function, op.run, op.operands, made)]

    def branch(self, op: Branch, kept: Sequence[Saved], given: Given) -> list[Node]:
        index, *operands = op.operands
        last = len(op.blocks) - 1
        body = call("maximum", cast(read(index, ()), INT64), int_const(0))
        chosen = scalar(f"{op.name}_arm", call("minimum", body, int_const(last)))
        spare = {s: buffer(s.name, s.shape, s.inner.dtype) for s in kept}
        arms = []
        for n in range(len(op.blocks)):
            nodes = self.block(op, n, operands, kept, given)
            others = [s for s in kept if s.block != n]
            rows = [Reserve(spare[s]) for s in others if is_dynamic(spare[s])]
            arms.append((*nodes, *rows, *[Place(outputs(s)[0], spare[s]) for s in others]))
        if isinstance(index.op, Tag) and len(arms) == len(index.op.record.variants):
            return [Choose(index, tuple(arms))]  # it is in range
        return [*self.formulas([chosen], given), Choose(chosen, tuple(arms))]

    def tell(self, sizes: Mapping[Expr, LocalSize]) -> list[Node]:
        """Nodes that give sizes the values of formulas of sizes."""
        counts = {scalar("size", e): size for e, size in sizes.items()}
        loops = [telling(size, count) for count, size in counts.items()]
        return [*self.formulas([*counts], {}), *loops]

    def routine(self, definition: Definition) -> Routine:
        """What calls of a definition run."""
        params = definition.params
        block = Block(params, tuple(simplified(definition.block.results, params)))
        given = tuple([buffer(p.name, p.shape, p.dtype) for p in params])
        image = renewed(block, given)
        sums = totals_of(definition)
        totals = {k: buffer(*definition.types[k]) for k in sums}
        known = dict.fromkeys((*given, *totals.values()))
        results: dict[int, Tensor] = dict(totals)
        for k, t in enumerate(block.results):
            if k not in totals:
                results[k] = own(image.get(t, t), (results.values(), known))
        wanted = [t for k, t in results.items() if k not in totals]
        adding = [(image.get(block.results[k], block.results[k]), t) for k, t in totals.items()]
        nodes = self.sequence(wanted, known, delivered=wanted, adding=adding)
        made = tuple([results[k] for k in range(len(results))])
        told, products = told_products(nodes, definition.sizes, self.tell)
        return Routine(definition, given, made, told, products, tuple(totals.values()))

    def loop(self, op: Loop, kept: Sequence[Saved], given: Given) -> list[Node]:
        body = Body.of(op, kept, self.delivered)
        known = {**given, **dict.fromkeys((*body.carried, *body.scanned))}
        own_trips = op.count is not None or len(op.blocks) > 1
        trips = op.trips if own_trips else local_size("trips")
        assert isinstance(trips, LocalSize)  # a loop that counts has a size of its own
        outs = {k: t for k, t in enumerate(outputs(op)) if t in self.delivered}
        read = [k for k, t in enumerate(outputs(op)) if t in self.used]
        is_known = op.count is not None or not own_trips
        around = Around(
            op.counter, trips, op.trips, is_known, op.reverse, body.carried,
            op.operands[: op.carries], self.late, outs, read, self.taken.get(op, ()),
        )  # fmt: skip
        wanted = list(dict.fromkeys((*body.made, *[t for t, _ in body.rows])))
        updates = find_updates(body.may_be_in_place, wanted, known)
        taken = taken_carries(body, wanted, known, updates)
        layout = body.layout(around, (*[u.result for u in updates.values()], *taken))
        placed = [
            *layout.each,
            *[Place(t, s, op.counter) for t, s in zip(body.scanned, body.sources, strict=True)],
            *[Place(t, s, op.counter) for t, s in body.rows],
        ]
        test, condition = self.test(op, body, known)
        count, counted = count_of(op, own_trips)
        delivered = [t for t in wanted if t.op not in updates and t not in taken]
        by_loop: dict[Op, list[int]] = {}
        for t, o in taken.items():
            by_loop.setdefault(o, []).append(t.index)
        inner = self.sequence(wanted, known, updates, delivered, by_loop)
        if is_known:
            inner = without_dead_ends(inner, body.left(read), op.counter, trips, op.reverse)
        repeat = Repeat(
            op.counter, trips, count,
            (*layout.start, *self.formulas(layout.first, given), *layout.carries),
            tuple([*layout.read, *test] if test else []), condition,
            (*placed, *inner),
            tuple(layout.moves), (*layout.stores, *[s for _, s in body.rows]),
            op.reverse, op.source,
            not any(is_record(t.dtype) for t in (*body.carried, *[s.inner for s in kept])),
        )  # fmt: skip
        nodes: list[Node] = [*self.formulas(counted, given), repeat, *layout.after]
        for k in [k for c in body.chains for k in c.carries[::-1]]:  # others may lie in the first's
            t, p = outputs(op)[k], body.carried[k]
            if k not in outs:
                nodes.append(Place(t, p))
            elif not (k in layout.placed or (k in layout.rare and _runs(op))):
                nodes.append(Settle(t, p, tuple(self.copy_into(p, t)), k in layout.rare))
        return nodes

    def copy_into(self, source: Tensor, target: Tensor) -> list[Node]:
        """The elements of a tensor in the memory of another one."""
        return self.over(copy_of(source), target, [source])

    def over(self, made: Tensor, target: Tensor, given: Sequence[Tensor]) -> list[Node]:
        """A formula in the memory of another tensor."""
        return [_over(k, {made: target}) for k in self.straight([made], given).kernels]

    def test(self, op: Loop, body: Body, given: Given) -> tuple[list[Node], Tensor | None]:
        if len(op.blocks) == 1:
            return [], None
        block = op.blocks[1]
        fixed = op.operands[op.carries + op.scanned :]
        image = renewed(block, (*body.carried, *fixed))
        condition = image.get(block.results[0], block.results[0])
        if not isinstance(condition.op, FORMULAS):
            condition = copy_of(condition)
        return self.sequence([condition], given), condition


def _runs(op: Loop) -> bool:
    """Whether it is known that the loop has iterations."""
    return isinstance(op.trips, Const) and op.trips.value > 0


def _tensors(kept: Sequence[Saved]) -> tuple[Tensor, ...]:
    return tuple([outputs(s)[0] for s in kept])


def _over(kernel: Kernel, other: Image) -> Kernel:
    """The kernel with some tensors replaced."""
    used = (*kernel.reads, *kernel.writes, *kernel.scratch)
    if not any(t in other for t in used):
        return kernel
    return with_tensors(kernel, kernel.name, {t: other.get(t, t) for t in used})
