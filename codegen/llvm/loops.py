"""Loops to LLVM: counted loops with phi nodes, vector loops with masked tails, whole kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from tensorad.codegen.cost.store_groups import group_of
from tensorad.codegen.llvm.context import Lanes
from tensorad.codegen.llvm.ops import is_constant
from tensorad.codegen.llvm.statements import PARAMETERS, Statements
from tensorad.codegen.llvm.streaming import (
    Stream,
    ahead_of_line,
    head_length,
    prefetch_ahead,
    prefetch_stores,
    start_of_head,
    streams_of,
)  # fmt: skip
from tensorad.codegen.llvm.text import Region, Value, Writer, type_text
from tensorad.codegen.loops.ir import For
from tensorad.codegen.loops.vector_loops import is_vectorised, registers_for
from tensorad.ir.dtypes import BOOL, INT64
from tensorad.ir.expr import Axis, Size, axis


@dataclass(frozen=True)
class FunctionText:
    """One phase of a kernel as LLVM IR."""

    name: str
    text: str
    parallel: bool
    """Whether a call with end < 0 asks for the number of iterations."""
    sizes: tuple[Size, ...]
    largest_block: int
    """Instructions of the longest stretch without a branch."""
    declarations: dict[str, str]
    functions: dict[str, str]

    def renamed(self, name: str) -> FunctionText:
        """The same function under another name."""
        text = self.text.replace(f"@{self.name}(", f"@{name}(", 1)
        return replace(self, name=name, text=text)


@dataclass(frozen=True)
class Stage:
    """A part of a vector loop: [start, stop) in steps of `count` registers."""

    start: str
    stop: str
    count: int
    masked: bool
    always_entered: bool
    mask: str | None = None
    left: str = ""
    """How many iterations a masked stage of known length has."""
    lanes: int = 0
    """Lanes of its registers where they are narrower."""
    streams: tuple[Stream, ...] = ()
    """Stores that pass the caches where registers are whole: they are aligned."""
    first: str = ""
    """The first iteration of a masked stage that may start before it."""


class Loops(Statements):
    """Adds loops to the statements."""

    width: int = 0
    """Lanes of a register of the vector loop being emitted."""

    def loop(self, s: For) -> None:
        """Emit a loop of any kind."""
        self.axes[s.axis] = None
        if is_vectorised(s) and self.values.vector is None:
            self._vector_loop(s)
        elif s.covering:
            self._covering_loop(s)
        else:
            lower, upper, step = (
                self.values.scalar(b).name for b in (s.axis.lower, s.axis.upper, s.axis.step)
            )
            entered = bool(s.axis.extent)
            if s.axis.extent != 0:
                self.counted(s, s.axis, (lower, upper, step), entered, lambda: self.block(s.body))
        del self.axes[s.axis]

    def counted(
        self,
        s: For,
        counter: Axis,
        bounds: tuple[str, str, str],
        always_entered: bool,
        body: Callable[[], None],
    ) -> None:
        """for counter in range(*bounds): body(), scalars that change as phi nodes."""
        lower, upper, step = bounds
        code, values = self.code, self.values
        values.ranges.enter(counter)
        before = self.changing(s)
        folded = [t for t in self.use.folded[s] if t in self.partials]
        first = self.carried(before, folded)
        code.regions.append(Region("preheader", code.fresh("pre"), always_entered))
        code.regions.append(Region("body", code.fresh("loop")))
        start = code.region.label
        number = f"%{code.fresh('i')}"
        values.keep(counter, Value((number,), INT64, 0, code.depth, 0))
        self.renew(s)
        inside = first.each(self._phi_names)
        self.carry(before, folded, inside)
        body()
        last = self.carried(before, folded)
        following = code.put(f"add i64 {number}, {step}")
        again = code.put(f"icmp slt i64 {following}, {upper}")
        body_region = code.region
        self.close()
        preheader = code.region
        self.close()
        entry, leave = code.region.label, code.fresh("done")
        if always_entered:
            code.line(f"br label %{preheader.label_at_start}")
        else:
            runs = code.put(f"icmp slt i64 {lower}, {upper}")
            code.line(f"br i1 {runs}, label %{preheader.label_at_start}, label %{leave}")
        self.join(preheader, f"br label %{start}")
        edges = (preheader.label, body_region.label)
        phis = [f"{number} = phi i64 [{lower}, %{edges[0]}], [{following}, %{edges[1]}]"]
        for ends in zip(first.all(), inside.all(), last.all(), strict=True):
            phis.extend(_phi_lines(*ends, edges))
        body_region.lines[:0] = phis
        self.join(body_region, f"br i1 {again}, label %{start}, label %{leave}")
        code.start_block(leave)
        self.renew(s)
        if always_entered:
            self.carry(before, folded, last.each(lambda v: v._replace(level=code.depth)))
        else:
            labels = (entry, body_region.label)
            self.carry(before, folded, self.merged(first, last, labels))

    def _covering_loop(self, s: For) -> None:
        """Steps from an aligned start on, the first and the last moved to where they fit."""
        put, values = self.code.put, self.values
        bounds = (values.scalar(b).name for b in (s.axis.lower, s.axis.upper, s.axis.step))
        lower, upper, step = bounds
        first = put(f"sub i64 {lower}, {ahead_of_line(values, s, step)}")
        stop = put(f"add i64 {upper}, {put(f'sub i64 {step}, 1')}")
        last = put(f"sub i64 {upper}, 1")
        counter = axis(s.axis.name, s.axis.lower, s.axis.upper, s.axis.step)

        def body() -> None:
            number = values.value(counter).name
            early = put(f"icmp slt i64 {number}, {lower}")
            start = put(f"select i1 {early}, i64 {lower}, i64 {number}")
            late = put(f"icmp sgt i64 {start}, {last}")
            start = put(f"select i1 {late}, i64 {last}, i64 {start}")
            values.ranges.enter(s.axis)
            values.keep(s.axis, Value((start,), INT64, 0, self.code.depth, 0))
            self.block(s.body)

        self.counted(s, counter, (first, stop, step), True, body)

    def finish(self, name: str, parallel: bool) -> FunctionText:
        """The whole function, declarations and helpers included."""
        code = self.code
        if code.streamed:
            code.line("fence seq_cst")  # streamed stores come before what any thread does next
        code.line("ret i64 0")
        blocks = ["entry:", *code.regions[0].lines, *code.failures]
        blocks.insert(1, "%dummy = alloca i64")
        # registers kept on the stack would cross lines where it is aligned to 16 bytes only
        head = f'define i64 @{name}({PARAMETERS}) nounwind "stackrealign" {{'
        text = "\n".join([head, *blocks, "}"])
        return FunctionText(
            name, text, parallel, self.sizes(), largest_block(blocks), code.declarations,
            code.functions,
        )  # fmt: skip

    def _phi_names(self, v: Value) -> Value:
        names = tuple([f"%{self.code.fresh('p')}" for _ in v.names])
        return v._replace(names=names, level=self.code.depth)

    # Vector loops

    def _vector_loop(self, s: For) -> None:
        self.values.ranges.enter(s.axis)
        self.width = self.use.lanes[s]
        for stage in self._stages(s):
            base = axis(s.axis.name, s.axis.lower, s.axis.upper)
            step = stage.count * (stage.lanes or self.width)
            lanes = partial(self._lanes, s, stage, base)
            if stage.always_entered and int(stage.stop) - int(stage.start) <= step:
                self._once(s, base, stage.start, lanes)
                continue
            bounds = (stage.start, stage.stop, str(step))
            self.counted(s, base, bounds, stage.always_entered, lanes)

    def _once(self, s: For, counter: Axis, start: str, body: Callable[[], None]) -> None:
        """body() for one value of the counter: a region without a block of its own."""
        code, values = self.code, self.values
        values.ranges.enter(counter)
        before = self.changing(s)
        code.regions.append(Region("body", code.region.label))
        values.keep(counter, Value((start,), INT64, 0, code.depth, 0))
        body()
        folded = [t for t in self.use.folded[s] if t in self.partials]
        last = self.carried(before, folded)
        region = code.region
        self.close()
        code.region.lines.extend(region.lines)
        code.region.label = region.label
        self.renew(s)
        self.carry(before, folded, last.each(lambda v: v._replace(level=code.depth)))

    def _lanes(self, s: For, stage: Stage, base: Axis) -> None:
        values = self.values
        level = self.code.depth
        mask, left = stage.mask, stage.left
        if stage.masked and mask is None:
            w = Writer(self.code, level, INT64, self.width)
            here = values.value(base)
            left = self.code.put(f"sub i64 {stage.stop}, {here.name}")
            mask = values.lanes_compared("slt", left, level, self.width)
            if stage.first:
                before = self.code.put(f"sub i64 {stage.first}, {here.name}")
                early = values.lanes_compared("sge", before, level, self.width)
                mask = w.of(BOOL).binary("and", mask, early)
        width = stage.lanes or self.width
        values.vector = Lanes(s.axis, base, width, stage.count, mask, left, level)
        values.vector.streams = {stream.tensor: stream.align for stream in stage.streams}
        if s.prefetched:
            prefetch_ahead(values, s)
            prefetch_stores(values, s)
        self.block(s.body)
        values.vector = None

    def _stages(self, s: For) -> list[Stage]:
        lanes, count = self.width, group_of(s, self.width)
        lower, upper = self.values.scalar(s.axis.lower).name, self.values.scalar(s.axis.upper).name
        streams = tuple(streams_of(self.values, s, lanes))
        if streams:
            return self._streaming_stages(s, lower, upper, count, streams)
        if is_constant(lower) and is_constant(upper):
            narrow = s.width if s.width < lanes and not self.use.folded[s] else 0
            return _constant_stages(int(lower), int(upper), lanes, count, narrow)
        put = self.code.put
        extent = self._extent(lower, upper)
        whole = self._rounded(extent, lanes * count)
        middle = put(f"add i64 {lower}, {whole}")
        return [
            Stage(lower, middle, count, False, False),
            Stage(middle, upper, 1, True, False),
        ]

    def _extent(self, lower: str, upper: str) -> str:
        """The values from a lower bound to an upper one."""
        extent = self.code.put(f"sub i64 {upper}, {lower}")
        positive = self.code.put(f"icmp sgt i64 {extent}, 0")
        return self.code.put(f"select i1 {positive}, i64 {extent}, i64 0")

    def _rounded(self, extent: str, step: int) -> str:
        """The largest multiple of `step` in an extent."""
        if step & (step - 1) == 0:
            return self.code.put(f"and i64 {extent}, {-step}")
        rest = self.code.put(f"urem i64 {extent}, {step}")
        return self.code.put(f"sub i64 {extent}, {rest}")

    def _streaming_stages(
        self, s: For, lower: str, upper: str, count: int, streams: tuple[Stream, ...]
    ) -> list[Stage]:
        """A masked head up to an aligned element, whole aligned groups, the masked rest."""
        put = self.code.put
        self.code.streamed = True
        if s.within is not None:
            return self._streaming_strip(s, s.within, streams)
        extent = self._extent(lower, upper)
        head = head_length(self.values, s, streams, extent)
        start = put(f"add i64 {lower}, {head}")
        rest = put(f"sub i64 {extent}, {head}")
        middle = put(f"add i64 {start}, {self._rounded(rest, self.width * count)}")
        last, singles = middle, []
        if count > 1:  # whole registers after the last whole group stream, too
            last = put(f"add i64 {start}, {self._rounded(rest, self.width)}")
            singles = [Stage(middle, last, 1, False, False, streams=streams)]
        return [
            self._head(s, lower, start, streams),
            Stage(start, middle, count, False, False, streams=streams),
            *singles,
            Stage(last, upper, 1, True, False, streams=streams),
        ]

    def _head(self, s: For, lower: str, start: str, streams: tuple[Stream, ...]) -> Stage:
        """The part before the first line; part of a register ends where the line begins."""
        begin = start_of_head(self.values, s, lower, start, self.width)
        if begin == lower:
            return Stage(lower, start, 1, True, False, streams=streams)
        return Stage(begin, start, 1, True, False, streams=streams, first=lower)

    def _streaming_strip(self, s: For, whole: Axis, streams: tuple[Stream, ...]) -> list[Stage]:
        """The strip with its borders moved back to lines; only the ends of rows are masked."""
        put = self.code.put
        lower, upper, first, last = (
            self.values.scalar(b).name
            for b in (s.axis.lower, s.axis.upper, whole.lower, whole.upper)
        )
        length = put(f"sub i64 {last}, {first}")
        head = head_length(self.values, s, streams, length)
        never = put(f"icmp eq i64 {head}, {length}")
        after = put(f"add i64 {first}, {head}")

        def moved(border: str) -> str:
            behind = put(f"and i64 {put(f'sub i64 {border}, {after}')}, {elements - 1}")
            there = put(f"sub i64 {border}, {behind}")
            below = put(f"icmp slt i64 {there}, {first}")
            inside = put(f"select i1 {below}, i64 {first}, i64 {there}")
            ends = put(f"icmp eq i64 {border}, {last}")
            fixed = put(f"or i1 {never}, {ends}")
            return put(f"select i1 {fixed}, i64 {border}, i64 {inside}")

        elements = streams[0].steps_of_line
        start, stop = moved(lower), moved(upper)
        early = put(f"icmp slt i64 {start}, {after}")
        middle = put(f"select i1 {early}, i64 {after}, i64 {start}")
        short = put(f"icmp sgt i64 {middle}, {stop}")
        middle = put(f"select i1 {short}, i64 {stop}, i64 {middle}")
        count = registers_for(s, self.width)
        left = put(f"sub i64 {stop}, {middle}")
        stages, at = [self._head(s, start, middle, streams)], middle
        for n in dict.fromkeys((count, 1)):  # whole groups, then single registers
            end = put(f"add i64 {middle}, {self._rounded(left, self.width * n)}")
            stages.append(Stage(at, end, n, False, False, streams=streams))
            at = end
        return [*stages, Stage(at, stop, 1, True, False, streams=streams)]


def _constant_stages(lower: int, upper: int, lanes: int, count: int, narrow: int) -> list[Stage]:
    """Whole groups, then single registers, then the masked rest, in `narrow` lanes if they do."""
    stages = []
    at = lower
    for registers in dict.fromkeys((count, 1)):
        step = registers * lanes
        whole = max(0, upper - at) // step * step
        if whole:
            stages.append(Stage(str(at), str(at + whole), registers, False, True))
        at += whole
    if at < upper:
        left = upper - at
        if left <= narrow:
            lanes = narrow
        bits = ", ".join(["i1 true" if n < left else "i1 false" for n in range(lanes)])
        full = left == lanes
        mask = None if full else f"<{bits}>"
        stages.append(Stage(str(at), str(upper), 1, not full, True, mask, str(left), lanes))
    return stages


def largest_block(lines: list[str]) -> int:
    """Instructions of the longest basic block."""
    labels = [n for n, line in enumerate(lines) if line.endswith(":")]
    ends = [-1, *labels, len(lines)]
    return max([after - before - 1 for before, after in pairwise(ends)])


def _phi_lines(first: Value, phi: Value, last: Value, edges: tuple[str, str]) -> list[str]:
    ty = type_text(phi.dtype, phi.lanes)
    return [
        f"{p} = phi {ty} [{x}, %{edges[0]}], [{y}, %{edges[1]}]"
        for p, x, y in zip(phi.names, first.names, last.names, strict=True)
    ]
