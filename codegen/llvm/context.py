"""The point of a kernel that LLVM text is written for: its lanes, and the values known there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from tensorad.codegen.llvm.ops import iota, splat_operand
from tensorad.codegen.llvm.text import Code, Value, Writer, memory_suffix, memory_type
from tensorad.codegen.loops.index_ranges import Ranges
from tensorad.codegen.loops.ir import Kernel
from tensorad.codegen.loops.scratch import scratch_offsets
from tensorad.errors import InternalError
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Axis, Expr, Param, Size
from tensorad.ir.tensor import Tensor


@dataclass
class Lanes:
    """The vector loop being emitted: `count` registers of `lanes` lanes from `base` on.

    Attributes:
        base: a scalar axis: the value of `axis` in the first lane.
        mask: register with the active lanes of a tail (then `count` is 1); None when all are.
        left: in a tail: how many iterations are left (may exceed `lanes`).
        level: the region of the loop's body.
        streams: tensors whose whole registers are stored past the caches, with the alignment of
            each.
    """

    axis: Axis
    base: Axis
    lanes: int
    count: int
    mask: str | None
    left: str
    level: int
    streams: dict[Tensor, int] = field(default_factory=dict)


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


@dataclass(frozen=True)
class Carried:
    """What one iteration, or one side of a branch, leaves: scalars, and the lanes of each fold."""

    scalars: list[Value]
    folds: list[list[Value]]

    def all(self) -> list[Value]:
        """The scalars, then the folds one by one."""
        return [*self.scalars, *chain.from_iterable(self.folds)]

    def each(self, image: Callable[[Value], Value]) -> Carried:
        """The images of all, in order."""
        return Carried(
            [image(v) for v in self.scalars], [[image(v) for v in f] for f in self.folds]
        )


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

    @property
    def lanes(self) -> Lanes:
        """The vector loop being emitted, where there is one."""
        if self.vector is None:
            raise InternalError("lanes outside of a vector loop")
        return self.vector

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

    def lanes_compared(self, predicate: str, number: str, level: int, lanes: int) -> str:
        """Register with the lanes whose positions compare so with a number."""
        limit = self.spread(Value((number,), INT64, 0, level, 0), lanes, 1)
        w = Writer(self.code, level, INT64, lanes)
        return w.compare(predicate, iota(lanes, 0), limit.name)

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

    def element(self, t: Tensor, place: Address, level: int | None = None) -> str:
        """The pointer to what is at an address, in its first lane."""
        at = self.code.depth if level is None else level
        return self.shifted(t, place.pointer.name, place.constant, at)

    def load_vector(self, t: Tensor, pointer: str, lanes: int, mask: str | None, level: int) -> str:
        """Neighbouring elements, those in the mask if there is one; no others are touched."""
        ty, flags, align = memory_type(t.dtype, lanes), f"<{lanes} x i1>", t.dtype.size_bytes
        if mask is None:
            text = f"load {ty}, ptr {pointer}, align {align}{self.metadata(t)}"
            return self.code.put(text, level)
        name = f"llvm.masked.load.{memory_suffix(t.dtype, lanes)}.p0"
        rest = ((flags, mask), (ty, "zeroinitializer"))
        text = self.code.called(name, ty, ("ptr", pointer), ("i32", align), *rest)
        return self.code.put(text, level)

    def metadata(self, t: Tensor) -> str:
        return "" if t in self.written_level else ", !invariant.load !0"
