"""The point of a kernel that LLVM text is written for: its lanes, and the values known there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensorad.codegen.llvm.ops import splat_operand
from tensorad.codegen.llvm.text import Code, Value, Writer, memory_type
from tensorad.codegen.loops.index_ranges import Ranges
from tensorad.codegen.loops.ir import Kernel
from tensorad.codegen.loops.scratch import scratch_offsets
from tensorad.errors import InternalError
from tensorad.ir.expr import Axis, Expr, Param, Size
from tensorad.ir.tensor import Tensor


class Lanes:
    """The vector loop being emitted: `count` registers of `lanes` lanes from `base` on."""

    def __init__(
        self,
        axis: Axis,
        base: Axis,
        lanes: int,
        count: int,
        mask: str | None,
        left: str,
        level: int,
    ) -> None:
        self.axis = axis
        self.base = base
        """A scalar axis: the value of `axis` in the first lane."""
        self.lanes = lanes
        self.count = count
        self.mask = mask
        """Register with the active lanes of a tail (then `count` is 1); None when all are."""
        self.left = left
        """In a tail: how many iterations are left (may exceed `lanes`)."""
        self.level = level
        """The region of the loop's body."""
        self.streams: dict[Tensor, int] = {}
        """Tensors whose whole registers are stored past the caches, with the alignment of each."""


@dataclass(frozen=True)
class Address:
    """Where the elements are: a scalar pointer, and how the lanes lie around it."""

    pointer: Value
    constant: int
    stride: int
    offsets: Value | None
    """Element offsets per lane from the pointer, when they are not evenly spaced."""
    rows: Value | None = None
    """The elements between lanes where they are no number."""

    @property
    def step(self) -> str:
        """The elements between lanes."""
        return str(self.stride) if self.rows is None else self.rows.name


class Lowering:
    """Values at the current point of one kernel: what writers of addresses and of operations need
    of each other."""

    def __init__(
        self,
        code: Code,
        tensors: Iterable[Tensor],
        written: Iterable[Tensor],
        kernel: Kernel,
    ) -> None:
        self.code = code
        self.scratch = scratch_offsets(kernel.scratch)[0]
        """Where a thread's own buffers are in its block, in bytes."""
        self.beside = dict(kernel.beside)
        """Those that begin inside of a line where another tensor does."""
        self.unaliased_with = kernel.unaliased_with
        """What scratch is kept away from in its page."""
        self.slots = {t: n for n, t in enumerate(tensors)}
        self.sizes: dict[Size, int] = {}
        self.cache: dict[object, Value] = {}
        self.bits: dict[object, int] = {}
        self.dependents: dict[int, list[object]] = {}
        self.written_level: dict[Tensor, int] = dict.fromkeys(written, 0)
        """Tensors this kernel writes, with the region of the last write."""
        self.vector: Lanes | None = None
        self.guards: Mapping[Expr, Expr] = {}
        """The test each read of the current statement needs that may leave its tensor."""
        self.ranges = Ranges()
        """Of the axes of the loops begun so far."""
        self.check_level = 0
        """Region of the last check: no read may move out beyond it."""

    # Mutable things and the cache

    def bit(self, thing: object) -> int:
        """The mask bit of a scalar or written tensor."""
        found = self.bits.get(thing)
        if found is None:
            found = self.bits[thing] = 1 << len(self.bits)
            self.dependents[found] = []
        return found

    def keep(self, key: object, value: Value) -> Value:
        """Remember a value until its region closes or something it depends on changes."""
        self.cache[key] = value
        self.code.regions[value.level].cached.append(key)
        rest = value.mask
        while rest:
            lowest = rest & -rest
            self.dependents[lowest].append(key)
            rest ^= lowest
        return value

    def changed(self, bit: int) -> None:
        """Forget every value computed from a thing that now changes."""
        for key in self.dependents[bit]:
            found = self.cache.get(key)
            if found is not None and found.mask & bit:
                del self.cache[key]
        self.dependents[bit].clear()

    def set_param(self, p: Param, value: Value) -> None:
        """`p` is `value` from here on."""
        bit = self.bit(p)
        self.changed(bit)
        self.keep(p, value._replace(level=self.code.depth, mask=bit))

    def stored(self, t: Tensor) -> None:
        """Reads of `t` from here on see new elements."""
        if t in self.written_level:
            self.changed(self.bit(t))
            self.written_level[t] = self.code.depth

    def close_region(self) -> None:
        """Forget what the innermost region holds (the region itself is popped by the caller)."""
        depth = self.code.depth
        for key in self.code.region.cached:
            found = self.cache.get(key)
            if found is not None and found.level >= depth:
                del self.cache[key]
        for t, level in self.written_level.items():
            self.written_level[t] = min(level, depth - 1)
        self.check_level = min(self.check_level, depth - 1)

    # Values

    def value(self, root: Expr) -> Value:
        """The value of an expression here (the subclass that knows operations gives it)."""
        raise InternalError(f"no value for {root}")

    def spread(self, v: Value, lanes: int, count: int) -> Value:
        """`v` in lanes; a scalar register is copied to all of them once."""
        if v.lanes:
            return v
        key = ("splat", v.names, v.dtype, lanes)
        found = self.cache.get(key)
        if found is None:
            name = splat_operand(Writer(self.code, v.level, v.dtype, lanes), v.name)
            found = self.keep(key, Value((name,), v.dtype, lanes, v.level, v.mask))
        return found._replace(names=found.names * count)

    def outermost(self, level: int) -> int:
        """How far out, down to `level`, a value may move that is always computed here."""
        at = self.code.depth
        while at > level:
            region = self.code.regions[at]
            if region.kind == "branch" or not region.always_entered:
                break
            at -= 1
        return at

    # Memory

    def shifted(self, t: Tensor, pointer: str, elements: int, level: int) -> str:
        if elements == 0:
            return pointer
        element = memory_type(t.dtype)
        return self.code.put(f"getelementptr {element}, ptr {pointer}, i64 {elements}", level)

    def metadata(self, t: Tensor) -> str:
        return "" if t in self.written_level else ", !invariant.load !0"
