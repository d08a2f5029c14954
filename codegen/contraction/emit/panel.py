"""Panels: the vectors of an operand, packed into scratch memory in the order of their use."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from tensorad.codegen.contraction.blocking import Blocking
from tensorad.codegen.contraction.digits import Mapping, digits, position
from tensorad.codegen.contraction.emit.pack import PaddedWindow, fill
from tensorad.codegen.contraction.emit.prefetch import with_packing_prefetches
from tensorad.codegen.contraction.operand_layout import in_place
from tensorad.codegen.contraction.recognise import size
from tensorad.codegen.loops.index_ranges import Ranges, substitutor
from tensorad.codegen.loops.ir import Stmt
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.model import PAGE
from tensorad.codegen.nest.ir import Nest
from tensorad.ir.expr import Axis, Expr, Read, add, axis, floordiv, int_const, mul, read
from tensorad.ir.tensor import Tensor


class Panel:
    """What one block of the reduce axes reads of the lanes.

    A panel is [k, lane], or [sliver, k, lane] where the lanes of a register tile lie side by side:
    the inner loop then reads memory without gaps.
    """

    def __init__(self, b: Blocking, value: Expr, scratch: list[Tensor]) -> None:
        """`scratch` takes the buffers that are made."""
        self.b = b
        self.value = value
        shape = [b.depth, b.panel]
        if b.sliver:
            shape = [ceil(b.panel / b.sliver), b.depth, b.sliver]
        self.tensor = buffer("panel", shape, value.dtype)
        self.scratch = scratch
        scratch.append(self.tensor)

    def read(self, k: Expr, sliver: Expr, lane: Expr) -> Read:
        """The lane of a sliver, or of the panel."""
        return read(self.tensor, (sliver, k, lane) if self.b.sliver else (k, lane))

    def fill(
        self, mapping: Mapping, local: Sequence[Axis], base: Expr, lanes: int, ranges: Ranges
    ) -> tuple[Stmt, ...]:
        """The lanes from `base` on, for the points of `local`.

        Args:
            mapping: axes of the operand in terms of `local` and of loops around.
            ranges: of the loops around.
        """
        b, k = self.b, position(local)
        if b.sliver:
            return self._slivers(mapping, local, base, lanes)
        if in_place(b.lanes, b.group):
            lane = axis("l", 0, lanes)
            places = mapping | digits(add(base, lane), b.group)
            return self._packed([*local, lane], (k, lane), places, ranges)
        inner = prod(size(a) for a in b.group[1:])
        first = axis(b.group[0].name, 0, lanes // inner)
        others = [axis(a.name, 0, size(a)) for a in b.group[1:]]
        places = dict(mapping)
        places[b.group[0]] = add(floordiv(base, int_const(inner)), first)
        places.update(zip(b.group[1:], others, strict=True))
        return self._packed(
            [*local, first, *others], (k, position([first, *others])), places, ranges
        )

    def _slivers(
        self, mapping: Mapping, local: Sequence[Axis], base: Expr, lanes: int
    ) -> tuple[Stmt, ...]:
        """All whole slivers, and the lanes that are left in one more.

        Of lanes side by side each reduce step brings all slivers, longer pieces of rows, where
        these are shorter than a page: the slivers are few then, which is where the step stores.
        """
        b = self.b
        by_steps = in_place(b.lanes, b.group) and b.panel * self.value.dtype.size_bytes < PAGE
        whole, left = divmod(lanes, b.sliver)
        body: tuple[Stmt, ...] = ()
        numbers: list[tuple[Expr, int]] = [(axis("s", 0, whole), b.sliver)] if whole else []
        numbers += [(int_const(whole), left)] if left else []
        for s, count in numbers:
            lane = axis("l", 0, count)
            flat = add(add(base, mul(s, int_const(b.sliver))), lane)
            several = [s] if isinstance(s, Axis) else []
            axes = [*local, *several, lane] if by_steps else [*several, *local, lane]
            places = mapping | digits(flat, b.group)
            loops = self._packed(axes, (s, position(local), lane), places, Ranges())
            body += with_packing_prefetches(loops, min(lanes, b.panel)) if by_steps else loops
        return body

    def _packed(
        self, axes: list[Axis], indices: tuple[Expr, ...], mapping: Mapping, ranges: Ranges
    ) -> tuple[Stmt, ...]:
        value = substitutor(mapping)(self.value)
        before: tuple[Stmt, ...] = ()
        if self.b.lanes.padded:
            assert isinstance(value, Read)
            whole: dict[Expr, Axis] = {}
            for a in axes:
                constant = a if a.extent is not None else axis(a.name, 0, self.b.block)
                whole[a] = constant
            window = PaddedWindow(value, whole, ranges)
            self.scratch.append(window.tensor)
            before = window.fill()
            value = substitutor({v: k for k, v in whole.items()})(window.read())
        nest = Nest(tuple(axes), (), (self.tensor,), indices, (value,))
        return (*before, *fill(nest, threads=self.b.for_all))
