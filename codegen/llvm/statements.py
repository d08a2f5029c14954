"""Statements to LLVM: loops with phi nodes, lane groups, folds and checks of one kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tensorad.codegen.llvm.context import Carried, Lanes
from tensorad.codegen.llvm.expressions import Expressions
from tensorad.codegen.llvm.guarded_reads import guarded_reads
from tensorad.codegen.llvm.nan_extrema import is_extremum, of_numbers, step, with_nan
from tensorad.codegen.llvm.ops import is_constant
from tensorad.codegen.llvm.streaming import emit_prefetch
from tensorad.codegen.llvm.text import Code, Region, Value, Writer, type_text, vector_constant
from tensorad.codegen.llvm.windows import find_windows
from tensorad.codegen.loops.ir import (
    Assign,
    Check,
    Fold,
    For,
    If,
    Kernel,
    Prefetch,
    Stmt,
    Store,
    Visit,
)
from tensorad.codegen.loops.vector_loops import InLanes, LaneUse, store_run
from tensorad.codegen.loops.visit import expressions, statements
from tensorad.errors import InternalError
from tensorad.ir.combiner import Combiner
from tensorad.ir.dtypes import BOOL, INT64
from tensorad.ir.expr import Axis, Call, Param, Size
from tensorad.ir.tensor import Tensor

PARAMETERS = "ptr %slots, ptr %index, ptr %sizes, i64 %begin, i64 %end, ptr %error"


@dataclass
class Partial:
    """A fold kept in lanes: the combiner, the value before, and the lane group.

    An extremum of floats has one value more: a register of the lanes that have seen NaN.
    """

    combiner: Combiner
    before: tuple[Value, ...]
    lanes: list[Value]


class Statements:
    """Emits the statements of one kernel into its code."""

    def __init__(
        self,
        body: tuple[Stmt, ...],
        tensors: tuple[Tensor, ...],
        first_check: int,
        kernel: Kernel,
    ) -> None:
        self.code = Code()
        self.use = LaneUse(body)
        written = {t: None for s in body for t in self.use.stored[s]}
        self.values = Expressions(self.code, tensors, written, kernel)
        self.partials: dict[tuple[Param, ...], Partial] = {}
        found = [s for s in statements(body) if isinstance(s, Check)]
        self.checks = {s: first_check + n for n, s in enumerate(found)}
        """The code each check fails with."""
        self.axes: dict[Axis, None] = {}
        """Axes of the loops around this point: ranges for proving reads in bounds."""

    # Blocks

    def block(self, body: Sequence[Stmt]) -> None:
        """Emit statements; what they begin to fold in lanes ends with the block."""
        before = dict.fromkeys(self.partials)
        if self.values.vector is not None:
            stored = {t for s in body for t in self.use.stored[s]}
            self.values.addresses.windows.update(find_windows(self.values, body, stored))
        at = 0
        while at < len(body):
            run = store_run(body[at:]) if self.values.vector is not None else 1
            if run > 1:
                self._store_run([s for s in body[at : at + run] if isinstance(s, Store)])
            else:
                self.statement(body[at])
            at += run
        for targets in list(self.partials):
            if targets not in before:
                self._finish(targets)

    def loop(self, s: For) -> None:
        """Emit a loop (the subclass that knows loops does it)."""
        raise InternalError(f"no code for the loop {s.axis}")

    def statement(self, s: Stmt) -> None:
        if isinstance(s, Visit):
            return
        self.settle(s)
        if not isinstance(s, Prefetch):
            self._guard(s)
        match s:
            case For():
                self.loop(s)
            case If():
                self._branch(s)
            case Assign():
                self._set(s.targets, [self.values.value(v) for v in s.values])
            case Fold():
                self._fold(s)
            case Store():
                self._store(s)
            case Check():
                self._check(s)
            case Prefetch():
                emit_prefetch(self.values, s)
            case _:
                raise InternalError(f"unknown statement {type(s).__name__}")

    def _guard(self, s: Stmt) -> None:
        inside = self.values.vector is not None  # there every read is in bounds in every lane
        self.values.guards = {} if inside else guarded_reads(expressions(s), self.axes)

    def _store(self, s: Store) -> None:
        results = [self.values.value(v) for v in s.values]
        for t, v in zip(s.tensors, results, strict=True):
            self.values.addresses.store(t, s.indices, v)
        for t in s.tensors:
            self.values.stored(t)

    def _store_run(self, run: Sequence[Store]) -> None:
        """Stores to one tensor, those that fill neighbouring elements in turn as groups."""
        t, addresses = run[0].tensors[0], self.values.addresses
        results = [self.values.value(s.values[0]) for s in run]
        plans = [addresses.plan(t, s.indices) for s in run]
        if any(self.values.value(unit).lanes for plan in plans for unit in plan.units):
            plans = []
        for group in addresses.store_groups(t, plans) or [[n] for n in range(len(run))]:
            if len(group) > 1:
                indices = [run[n].indices for n in group]
                addresses.store_group(t, indices, [results[n] for n in group])
            else:
                addresses.store(t, run[group[0]].indices, results[group[0]])
        self.values.stored(t)

    def _set(self, targets: Sequence[Param], results: Sequence[Value]) -> None:
        """Scalars set in a vector loop are kept in lanes: they may differ there soon."""
        lanes = self.values.vector
        for p, v in zip(targets, results, strict=True):
            wide = v if lanes is None else self.values.spread(v, lanes.lanes, lanes.count)
            self.values.set_param(p, wide)

    # Folds

    def _fold(self, s: Fold) -> None:
        partial = self.partials.get(s.targets)
        if partial is None:
            before = [self.values.value(t) for t in s.targets]
            self._set(s.targets, self._combined(s, before))
            return
        lanes = self.values.vector
        if lanes is None:
            raise InternalError("a fold in lanes outside of a vector loop")
        old = [self._part(v, lanes.count) for v in partial.lanes]
        if is_extremum(s.combiner):
            value = self.values.spread(self.values.value(s.values[0]), lanes.lanes, lanes.count)
            w = Writer(self.code, self.code.depth, value.dtype, lanes.lanes)
            new = step(w, s.combiner, old, value)
        else:
            new = [self.values.spread(v, lanes.lanes, lanes.count) for v in self._combined(s, old)]
        if lanes.mask is not None:
            new = [self._masked(lanes, n, o) for n, o in zip(new, old, strict=True)]
        for n, v in enumerate(partial.lanes):
            names = (*new[n].names, *v.names[lanes.count :])
            partial.lanes[n] = v._replace(names=names, level=self.code.depth)

    def _part(self, v: Value, count: int) -> Value:
        return v._replace(names=v.names[:count], level=self.code.depth)

    def _masked(self, lanes: Lanes, new: Value, old: Value) -> Value:
        w = Writer(self.code, self.code.depth, new.dtype, lanes.lanes)
        names = [w.select(str(lanes.mask), x, y) for x, y in zip(new.names, old.names, strict=True)]
        return new._replace(names=tuple(names))

    def _combined(self, s: Fold, before: Sequence[Value]) -> list[Value]:
        """combiner(before, values); a product that is summed is one fused multiply-add."""
        if s.combiner.is_sum and s.combiner.identity[0].dtype.is_float:
            value = s.values[0]
            if isinstance(value, Call) and value.op == "mul":
                operands = [self.values.value(a) for a in value.args]
                return [self._sum_step(before[0], operands)]
            return [self._sum_step(before[0], [self.values.value(value)])]
        after = [self.values.value(v) for v in s.values]
        return self._combine(s.combiner, before, after)

    def _sum_step(self, total: Value, factors: list[Value]) -> Value:
        lanes = max(total.lanes, *[f.lanes for f in factors])
        count = max(len(total.names), *[len(f.names) for f in factors])
        if lanes:
            total = self.values.spread(total, lanes, count)
            factors = [self.values.spread(f, lanes, count) for f in factors]
        w = Writer(self.code, self.code.depth, total.dtype, lanes)
        groups = zip(*[f.names for f in factors], total.names, strict=True)
        names = [w.fma(*g) if len(g) == 3 else w.add(g[1], g[0]) for g in groups]
        return Value(tuple(names), total.dtype, lanes, self.code.depth, 0)

    def _combine(self, c: Combiner, before: Sequence[Value], after: Sequence[Value]) -> list[Value]:
        for p, v in zip((*c.lhs, *c.rhs), (*before, *after), strict=True):
            self.values.set_param(p, v)
        return [self.values.value(r) for r in c.results]

    # Scalars folded in lanes

    def settle(self, s: Stmt) -> None:
        """Before `s`: scalars it folds only in lanes become lane groups, the others scalars."""
        if self.values.vector is not None:
            return
        use = self.use
        for targets in list(self.partials):
            if any(p in use.used[s] for p in targets):
                self._finish(targets)
        for targets, way in use.folded[s].items():
            inner = any(p in use.used[s] for p in targets)
            if targets not in self.partials and not inner:
                self._begin(targets, way)

    def _begin(self, targets: tuple[Param, ...], way: InLanes) -> None:
        before = tuple([self.values.value(p) for p in targets])
        combiner, lanes = way.fold.combiner, way.lanes
        start = []
        for c in combiner.identity:
            text = vector_constant(c.value, c.dtype, lanes)
            start.append(Value((text,) * way.registers, c.dtype, lanes, self.code.depth, 0))
        if is_extremum(combiner):
            text = vector_constant(0.0, start[0].dtype, lanes)
            start.append(Value((text,), start[0].dtype, lanes, self.code.depth, 0))
        self.partials[targets] = Partial(combiner, before, start)

    def _finish(self, targets: tuple[Param, ...]) -> None:
        """The lanes are combined in halves, then with the value from before."""
        p = self.partials.pop(targets)
        seen = p.lanes.pop() if is_extremum(p.combiner) else None
        lanes = p.lanes[0].lanes
        parts = [list(v.names) for v in p.lanes]
        while len(parts[0]) > 1:
            half = (len(parts[0]) + 1) // 2
            pairs = len(parts[0]) - half
            merged = [
                self._tree_step(p, [x[n] for x in parts], [x[n + half] for x in parts], lanes)
                for n in range(pairs)
            ]
            parts = [[m[c] for m in merged] + names[pairs:half] for c, names in enumerate(parts)]
        result = self._halve(p, [names[0] for names in parts])
        if seen is not None:
            w = Writer(self.code, self.code.depth, seen.dtype, 0)
            result = [result[0]._replace(names=(with_nan(w, result[0].name, seen),))]
        if not self._is_identity(p):
            result = self._combine(p.combiner, p.before, result)
        self._set(targets, result)

    def _is_identity(self, p: Partial) -> bool:
        texts = [vector_constant(c.value, c.dtype, 0) for c in p.combiner.identity]
        return all(v.lanes == 0 and v.name == t for v, t in zip(p.before, texts, strict=True))

    def _tree_step(
        self, p: Partial, left: Sequence[str], right: Sequence[str], lanes: int
    ) -> list[str]:
        depth = self.code.depth
        dtypes = [v.dtype for v in p.lanes]
        if is_extremum(p.combiner):
            w = Writer(self.code, depth, dtypes[0], lanes)
            return [of_numbers(w, p.combiner, left[0], right[0])]
        before = [Value((x,), d, lanes, depth, 0) for x, d in zip(left, dtypes, strict=True)]
        after = [Value((x,), d, lanes, depth, 0) for x, d in zip(right, dtypes, strict=True)]
        results = self._combine(p.combiner, before, after)
        return [self.values.spread(v, lanes, 1).name for v in results]

    def _halve(self, p: Partial, names: list[str]) -> list[Value]:
        lanes = p.lanes[0].lanes
        while lanes > 1:
            half = lanes // 2
            left, right = (
                [self._lanes_of(v, n, lanes, at, half) for v, n in zip(p.lanes, names, strict=True)]
                for at in (0, half)
            )
            names = self._tree_step(p, left, right, half)
            lanes = half
        depth = self.code.depth
        scalars = []
        for v, n in zip(p.lanes, names, strict=True):
            name = self.code.put(f"extractelement {type_text(v.dtype, 1)} {n}, i64 0")
            scalars.append(Value((name,), v.dtype, 0, depth, 0))
        return scalars

    def _lanes_of(self, v: Value, name: str, lanes: int, start: int, count: int) -> str:
        ty = type_text(v.dtype, lanes)
        order = ", ".join([f"i32 {start + n}" for n in range(count)])
        return self.code.put(f"shufflevector {ty} {name}, {ty} poison, <{count} x i32> <{order}>")

    # Control flow

    def _branch(self, s: If) -> None:
        cond = self.values.scalar(s.cond)
        if is_constant(cond.name):
            self.block(s.then if cond.name == "true" else s.orelse)
            return
        before = self.changing(s)
        folds = list(self.partials)
        first = self.carried(before, folds)
        join = self.code.fresh("join")
        sides, ends = [], []
        for body in (s.then, s.orelse):
            self.carry(before, folds, first)
            region = Region("branch", self.code.fresh("side"))
            self.code.regions.append(region)
            self.renew(s)
            self.block(body)
            sides.append(region)
            ends.append(self.carried(before, folds))
            self.close()
        targets = [f"label %{region.label_at_start}" for region in sides]
        self.code.line(f"br i1 {cond.name}, {', '.join(targets)}")
        for region in sides:
            self.join(region, f"br label %{join}")
        self.code.start_block(join)
        self.renew(s)
        labels = [region.label for region in sides]
        self.carry(before, folds, self.merged(ends[0], ends[1], labels))

    def close(self) -> None:
        self.values.close_region()
        self.code.regions.pop()

    def join(self, region: Region, end: str) -> None:
        """Put a closed region's blocks behind the innermost region's, ended by a branch."""
        lines = self.code.region.lines
        lines.append(f"{region.label_at_start}:")
        lines.extend(region.lines)
        lines.append(end)

    def renew(self, s: Stmt) -> None:
        """Reads of tensors that `s` writes may not be remembered across its border."""
        for t in self.use.stored[s]:
            self.values.stored(t)

    def changing(self, s: Stmt) -> dict[Param, Value]:
        """Scalars set before `s` that it changes, with their values."""
        in_lanes = {p: None for targets in self.partials for p in targets}
        found: dict[Param, Value] = {}
        for p in self.use.assigned[s]:
            value = self.values.cache.get(p)
            if value is not None and p not in in_lanes:
                found[p] = value
        return found

    def carried(self, params: Iterable[Param], folds: Iterable[tuple[Param, ...]]) -> Carried:
        """What scalars and folds in lanes are here."""
        lanes = [list(self.partials[t].lanes) for t in folds]
        return Carried([self.values.value(p) for p in params], lanes)

    def carry(
        self, params: Iterable[Param], folds: Iterable[tuple[Param, ...]], values: Carried
    ) -> None:
        """Have scalars and folds be these from here on."""
        for p, v in zip(params, values.scalars, strict=True):
            self.values.set_param(p, v)
        for t, lanes in zip(folds, values.folds, strict=True):
            self.partials[t].lanes = list(lanes)

    def merged(self, one: Carried, other: Carried, labels: Sequence[str]) -> Carried:
        """What comes from one of two blocks."""
        firsts = iter(one.all())
        return other.each(lambda v: self.phi((next(firsts), v), labels))

    def phi(self, ends: Sequence[Value], labels: Sequence[str]) -> Value:
        """The value that came with the edge taken."""
        lanes = max(v.lanes for v in ends)
        if lanes and any(not v.lanes for v in ends):
            raise InternalError("one side of a branch holds lanes, the other a scalar")
        if all(v.names == ends[0].names for v in ends):
            return ends[0]._replace(level=self.code.depth)
        ty = type_text(ends[0].dtype, lanes)
        names = []
        for group in zip(*[v.names for v in ends], strict=True):
            edges = ", ".join([f"[{n}, %{b}]" for n, b in zip(group, labels, strict=True)])
            names.append(self.code.put(f"phi {ty} {edges}"))
        return Value(tuple(names), ends[0].dtype, lanes, self.code.depth, 0)

    # Checks

    def _check(self, s: Check) -> None:
        """Leave the function with the check's code unless the index lies in the extent."""
        index = self.values.value(s.index)
        extent = self.values.value(s.extent)
        for r, name in enumerate(index.names):
            self._check_register(s, r, index._replace(names=(name,)), extent)
        self.values.check_level = self.code.depth

    def _check_register(self, s: Check, r: int, index: Value, extent: Value) -> None:
        code, lanes = self.code, self.values.vector
        w = Writer(code, code.depth, INT64, index.lanes)
        limit = self.values.spread(extent, index.lanes, 1).name if index.lanes else extent.name
        bad = w.compare("uge", index.name, limit)
        fail, go_on = code.fresh("fail"), code.fresh("ok")
        code.failures.append(f"{fail}:")
        if index.lanes:
            if lanes is not None and lanes.mask is not None:
                bad = w.of(BOOL).binary("and", bad, lanes.mask)
            bits = code.put(f"bitcast <{index.lanes} x i1> {bad} to i{index.lanes}")
            bad = code.put(f"icmp ne i{index.lanes} {bits}, 0")
            lane = f"%{code.fresh()}"
            flags = f"i{index.lanes}"
            call = code.called(f"llvm.cttz.{flags}", flags, (flags, bits), ("i1", "true"))
            code.failures.append(f"{lane} = {call}")
            shown = f"%{code.fresh()}"
            element = f"extractelement {w.type} {index.name}, i{index.lanes} {lane}"
            code.failures.append(f"{shown} = {element}")
        else:
            shown = index.name
        code.line(f"br i1 {bad}, label %{fail}, label %{go_on}")
        second = f"%{code.fresh()}"
        code.failures.extend(
            (
                f"store i64 {shown}, ptr %error",
                f"{second} = getelementptr i64, ptr %error, i64 1",
                f"store i64 {extent.name}, ptr {second}",
                f"ret i64 {self.checks[s]}",
            )
        )
        code.start_block(go_on)

    def sizes(self) -> tuple[Size, ...]:
        """Symbolic sizes the code reads, by position."""
        return tuple(self.values.sizes)
