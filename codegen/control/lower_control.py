"""Programs with calls, branches and loops as trees of nodes, formulas between them in kernels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tensorad.codegen.control.in_place import (
    InPlace,
    Updates,
    find_updates,
    in_order,
    inputs_of,
    stored_in_place,
)
from tensorad.codegen.control.renew import Image, renewed
from tensorad.codegen.loops.ir import Choose, Kernel, LoopProgram, Node, Place, Repeat, Reserve
from tensorad.codegen.loops.rename_tensors import with_tensors
from tensorad.codegen.loops.scratch import buffer
from tensorad.errors import InternalError
from tensorad.ir.analysis.blocks import ops_between, saves_of
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Expr, LocalSize, call, cast, int_const, local_size, read
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import (
    Branch,
    Compute,
    Control,
    FunctionCall,
    Loop,
    Op,
    Saved,
    Scan,
    Scatter,
    Tensor,
    dim_expr,
    outputs,
)
from tensorad.ir.visit import op_inputs

Straight = Callable[[Sequence[Tensor], Sequence[Tensor]], LoopProgram]
"""(outputs, inputs) -> the kernels of formulas alone."""
Given = dict[Tensor, None]
_FORMULAS: Final = (Compute, Scatter, Scan)


def has_control(results: Iterable[Tensor], given: Collection[Tensor]) -> bool:
    """Whether a call, branch or loop is needed for the results."""
    return any(isinstance(op, (Control, Saved)) for op in ops_between(results, given))


def lower_tree(
    wanted: Sequence[Tensor], given: Sequence[Tensor], straight: Straight
) -> tuple[tuple[Tensor, ...], tuple[Node, ...]]:
    """Tensors that hold what is wanted, computed by the nodes, one buffer each.

    Requires: none of `wanted` is given, and none is there twice.
    """
    known = dict.fromkeys(given)
    results = tuple([t if _is_own(t) else copy_of(t) for t in wanted])
    return results, tuple(_Lowering(straight).sequence(results, known))


def _is_own(t: Tensor) -> bool:
    """Whether the tensor has a buffer of its own wherever it is computed."""
    op = t.op
    return isinstance(op, _FORMULAS) or (isinstance(op, Saved) and isinstance(op.control, Loop))


def copy_of(t: Tensor) -> Tensor:
    """A compute of the same elements."""
    axes = compute_axes(t.shape)
    return outputs(Compute(t.name, axes, (read(t, axes),), ""))[0]


def is_dynamic(t: Tensor) -> bool:
    """Whether only the run tells how large the tensor is."""
    return any(isinstance(s, LocalSize) for s in sizes_in(*map(dim_expr, t.shape)))


def _scalar(name: str, body: Expr) -> Tensor:
    return outputs(Compute(name, (), (body,), ""))[0]


@dataclass(frozen=True)
class _Lowering:
    straight: Straight

    def sequence(
        self, wanted: Sequence[Tensor], given: Given, updates: Updates | None = None
    ) -> list[Node]:
        """Nodes after which the wanted tensors are there, from the given ones."""
        updates = updates or {}
        order = in_order(wanted, given, updates)
        ops = list(order)
        stages = _stages(order, given, updates)
        kept = saves_of(ops)
        between = [op for op in ops if isinstance(op, Control) or op in updates]
        known = dict(given)
        nodes: list[Node] = []
        for n, stretch in enumerate(_stretches(ops, stages, wanted, updates, len(between))):
            nodes += self.formulas(stretch, known)
            known.update(dict.fromkeys(stretch))
            if n == len(between):
                continue
            op = between[n]
            if isinstance(op, Control):
                nodes += self.control(op, kept.get(op, []), known)
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
        match op:
            case FunctionCall():
                return self.block(op, 0, op.operands, kept, given)
            case Branch():
                return self.branch(op, kept, given)
            case Loop():
                return self.loop(op, kept, given)
        raise InternalError(f"{type(op).__name__} has no loops")

    def block(
        self, op: Control, n: int, operands: Sequence[Tensor], kept: Sequence[Saved], given: Given
    ) -> list[Node]:
        """A block, after which the outputs and what is saved of it lie where it left them."""
        block = op.blocks[n]
        own = [s for s in kept if s.block == n]
        image = renewed(block, operands, [s.inner for s in own])
        found = [image.get(t, t) for t in (*block.results, *[s.inner for s in own])]
        nodes = self.sequence(list(dict.fromkeys(found)), given)
        made = (*outputs(op), *_tensors(own))
        return [*nodes, *[Place(t, f) for t, f in zip(made, found, strict=True)]]

    def branch(self, op: Branch, kept: Sequence[Saved], given: Given) -> list[Node]:
        index, *operands = op.operands
        last = len(op.blocks) - 1
        body = call("maximum", cast(read(index, ()), INT64), int_const(0))
        chosen = _scalar(f"{op.name}_arm", call("minimum", body, int_const(last)))
        spare = {s: buffer(s.name, s.shape, s.inner.dtype) for s in kept}
        arms = []
        for n in range(len(op.blocks)):
            nodes = self.block(op, n, operands, kept, given)
            others = [s for s in kept if s.block != n]
            arms.append((*nodes, *[Place(outputs(s)[0], spare[s]) for s in others]))
        return [*self.formulas([chosen], given), Choose(chosen, tuple(arms))]

    def loop(self, op: Loop, kept: Sequence[Saved], given: Given) -> list[Node]:
        body = _Body.of(op, kept)
        known = {**given, **dict.fromkeys((*body.carried, *body.scanned))}
        first = [copy_of(t) for t in op.operands[: op.carries]]
        wanted = list(dict.fromkeys((*body.results, *body.kept)))
        pairs = tuple(zip(body.carried, body.results, strict=True))
        updates = find_updates(pairs, wanted, known)
        exchanged = tuple([(p, r) for p, r in pairs if r.op not in updates])
        spare = [(r, buffer(r.name, r.shape, r.dtype)) for _, r in exchanged]
        own_trips = op.count is not None or len(op.blocks) > 1
        trips = op.trips if own_trips else local_size("trips")
        assert isinstance(trips, LocalSize)  # a loop that counts has a size of its own
        count = None
        if op.count is not None:
            count = _scalar(f"{op.name}_count", cast(read(op.count, ()), INT64))
        elif not own_trips:
            count = _scalar(f"{op.name}_count", op.trips)
        stores = _tensors(kept)
        rows = zip((*body.scanned, *body.kept), (*body.sources, *stores), strict=True)
        placed = [Place(t, source, op.counter) for t, source in rows]
        test, condition = self.test(op, body, known)
        repeat = Repeat(
            op.counter, trips, count, tuple(test), condition,
            (*placed, *self.sequence(wanted, known, updates)),
            exchanged, stores, op.reverse, op.source,
        )  # fmt: skip
        return [
            *self.formulas([*first, *([] if count is None else [count])], given),
            *[Place(p, c) for p, c in zip(body.carried, first, strict=True)],
            *[Place(r, s) for r, s in spare],
            repeat,
            *[Place(t, p) for t, p in zip(outputs(op), body.carried, strict=True)],
        ]

    def test(self, op: Loop, body: _Body, given: Given) -> tuple[list[Node], Tensor | None]:
        if len(op.blocks) == 1:
            return [], None
        block = op.blocks[1]
        fixed = op.operands[op.carries + op.scanned :]
        image = renewed(block, (*body.carried, *fixed))
        condition = image.get(block.results[0], block.results[0])
        if not isinstance(condition.op, _FORMULAS):
            condition = copy_of(condition)
        return self.sequence([condition], given), condition


@dataclass(frozen=True)
class _Body:
    """A copy of a loop's block whose results and rows have buffers of their own.

    Attributes:
        carried, scanned: the copy's params.
        sources: what the scanned ones are parts of.
        results: next carries. kept: what is saved.
    """

    carried: tuple[Tensor, ...]
    scanned: tuple[Tensor, ...]
    sources: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    kept: tuple[Tensor, ...]
    taken: dict[Tensor, None] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(op: Loop, kept: Sequence[Saved]) -> _Body:
        block, last = op.blocks[0], op.carries + op.scanned
        moving = [buffer(p.name, p.shape, p.dtype) for p in block.params[:last]]
        image = renewed(block, (*moving, *op.operands[last:]), [s.inner for s in kept])
        given = dict.fromkeys((*moving, *op.operands))
        taken: dict[Tensor, None] = {}

        def own(inner: Tensor) -> Tensor:
            found = image.get(inner, inner)
            if found in taken or found in given or not isinstance(found.op, _FORMULAS):
                found = copy_of(found)
            taken[found] = None
            return found

        results = tuple([own(t) for t in block.results])
        return _Body(
            tuple(moving[: op.carries]),
            tuple(moving[op.carries :]),
            op.operands[op.carries : last],
            results,
            tuple([own(s.inner) for s in kept]),
        )


def _tensors(kept: Sequence[Saved]) -> tuple[Tensor, ...]:
    return tuple([outputs(s)[0] for s in kept])


def _stages(order: Mapping[Op, Sequence[Tensor]], given: Given, updates: Updates) -> dict[Op, int]:
    """The number of the control operation, or update in place, that each operation runs before, at
    the earliest."""
    found: dict[Op, int] = {}
    count = 0
    for op, needed in order.items():
        before = [t.op for t in needed if t not in given]
        after = [found[o] + (isinstance(o, Control) or o in updates) for o in before]
        found[op] = max(after, default=0)
        if isinstance(op, Control) or op in updates:
            found[op], count = count, count + 1
    return found


def _stretches(
    ops: Sequence[Op],
    stages: Mapping[Op, int],
    wanted: Sequence[Tensor],
    updates: Updates,
    between: int,
) -> list[list[Tensor]]:
    """For each stage the tensors of formulas that others than formulas of that stage need."""
    found: list[dict[Tensor, None]] = [{} for _ in range(between + 1)]
    needed = [(t, -1) for t in wanted]
    for op in ops:
        own = stages[op] if isinstance(op, _FORMULAS) and op not in updates else -1
        needed += [(t, own) for t in inputs_of(op, updates)]
    for t, reader in needed:
        is_formula = isinstance(t.op, _FORMULAS) and t.op not in updates
        if is_formula and t.op in stages and stages[t.op] != reader:
            found[stages[t.op]][t] = None
    return [list(f) for f in found]


def _over(kernel: Kernel, other: Image) -> Kernel:
    """The kernel with some tensors replaced."""
    used = (*kernel.reads, *kernel.writes, *kernel.scratch)
    if not any(t in other for t in used):
        return kernel
    return with_tensors(kernel, kernel.name, {t: other.get(t, t) for t in used})
