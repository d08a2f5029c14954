"""Addresses, loads and stores: offsets split by loop level, vectors where lanes are adjacent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tensorad.codegen.cost.memory_model import MAX_STRIDE
from tensorad.codegen.llvm.call_block import SCRATCH_WORD
from tensorad.codegen.llvm.context import Address, Lowering
from tensorad.codegen.llvm.ops import iota
from tensorad.codegen.llvm.row_transposes import (
    OffsetWindow,
    load_block,
    pieces_of_rows,
    store_rows,
)
from tensorad.codegen.llvm.strided import load_strided, store_strided
from tensorad.codegen.llvm.text import Value, memory_suffix, memory_type, type_text, vector_constant
from tensorad.codegen.loops.index_ranges import joined_digits
from tensorad.codegen.loops.scratch import ALIGNMENT
from tensorad.codegen.model import PAGE
from tensorad.ir.dtypes import BOOL, INT64, DType
from tensorad.ir.expr import Const, Expr, Read, int_const, mul
from tensorad.ir.tensor import Tensor, dim_expr
from tensorad.ir.visit import free_leaves, substitute
from tensorad.simplify.index.linear import Linear, linear_form

ALIAS_DISTANCE: Final = 1024
"""Bytes between places of a page: loads are compared with stores by these bits of addresses, and
one that seems to read what was just stored waits."""


@dataclass(frozen=True)
class Offset:
    """An element offset: constant + sum of coefficient * unit + lane * stride."""

    units: dict[Expr, int]
    constant: int
    stride: int
    rows: Expr | None = None
    """The elements between lanes where the units hold them as products of sizes: rows of symbolic
    length, one for each lane."""

    @property
    def has_row_per_lane(self) -> bool:
        """Whether lanes are evenly spaced and farther apart than vectors are shared."""
        return self.rows is not None or abs(self.stride) > MAX_STRIDE


class Addresses:
    """Loads and stores of one kernel."""

    def __init__(self, values: Lowering) -> None:
        self.values = values
        self._plans: dict[object, Offset] = {}
        self.windows: dict[Read, OffsetWindow] = {}
        """Which reads of the vector loop being written have neighbours."""
        self._strides: dict[Tensor, list[Expr]] = {}

    def strides(self, t: Tensor) -> list[Expr]:
        """Row-major strides in elements."""
        found = self._strides.get(t)
        if found is None:
            found, stride = [], int_const(1)
            for n in reversed(t.shape):
                found.append(stride)
                stride = mul(dim_expr(n), stride)  # type: ignore[assignment]
            found.reverse()
            self._strides[t] = found
        return found

    def plan(self, t: Tensor, indices: tuple[Expr, ...]) -> Offset:
        """The offset of t[indices], the vector axis replaced by its first lane."""
        lanes = self.values.vector
        key = (t, indices, None if lanes is None else lanes.base)
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = self._make_plan(t, indices)
        return found

    def _make_plan(self, t: Tensor, indices: tuple[Expr, ...]) -> Offset:
        lanes = self.values.vector
        terms: dict[Expr, int] = {}
        rows: dict[Expr, Expr] = {}
        constant = 0
        for index, stride in zip(indices, self.strides(t), strict=True):
            form = linear_form(index)
            if isinstance(stride, Const):
                step = int(stride.value)
                constant += step * form.constant
                for leaf, c in form.terms.items():
                    terms[leaf] = terms.get(leaf, 0) + step * c
                continue
            if lanes is not None and lanes.axis in form.terms:
                rows[mul(lanes.axis, stride)] = stride
            for leaf, c in (
                *[(mul(e, stride), n) for e, n in form.terms.items()],
                (stride, form.constant),
            ):
                terms[leaf] = terms.get(leaf, 0) + c
        total = joined_digits(Linear(terms, constant))
        if lanes is None:
            return Offset(dict(total.terms), total.constant, 0)
        units = dict(total.terms)
        stride_of_lane = units.pop(lanes.axis, 0)
        if stride_of_lane:
            units[lanes.base] = units.get(lanes.base, 0) + stride_of_lane
        moving = [unit for unit in units if lanes.axis in free_leaves(unit)]
        if stride_of_lane or not moving or any(unit not in rows for unit in moving):
            return Offset(units, total.constant, stride_of_lane)
        apart = Linear({rows[unit]: units[unit] for unit in moving}, 0).to_expr()
        return Offset(units, total.constant, 0, apart)

    def operands(self, t: Tensor, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """What must have a value before the address can be formed."""
        return tuple(self.plan(t, indices).units)

    def place(self, t: Tensor, indices: tuple[Expr, ...]) -> Address:
        """The address; operands that differ between lanes give offsets per lane."""
        values, plan = self.values, self.plan(t, indices)
        uniform: dict[int, dict[Expr, int]] = {}
        varying: dict[Expr, int] = {}
        for unit, c in plan.units.items():
            v = values.value(unit)
            if v.lanes:
                varying[unit] = c
            else:
                uniform.setdefault(v.level, {})[unit] = c
        if varying and plan.stride and values.vector is not None:
            base, axis = values.vector.base, values.vector.axis
            level = values.value(base).level
            uniform[level].pop(base)
            varying[axis] = plan.stride
        pointer = self._pointer(t, uniform)
        if not varying:
            return Address(pointer, plan.constant, plan.stride, None)
        offsets = values.value(Linear(varying, 0).to_expr())
        return Address(pointer, plan.constant, 0, offsets)

    def rows_apart(self, e: Read) -> Address:
        """The address of a read's first lane where the others are rows of symbolic length apart."""
        values, plan = self.values, self.plan(e.tensor, e.indices)
        assert plan.rows is not None  # a window has seen it
        first: dict[Expr, Expr] = {values.lanes.axis: values.lanes.base}
        uniform: dict[int, dict[Expr, int]] = {}
        for unit, c in plan.units.items():
            moved = substitute(unit, first)
            uniform.setdefault(values.value(moved).level, {})[moved] = c
        pointer = self._pointer(e.tensor, uniform)
        return Address(pointer, plan.constant, 0, None, values.value(plan.rows))

    def _pointer(self, t: Tensor, groups: dict[int, dict[Expr, int]]) -> Value:
        """The tensor's base plus the offsets of each level, outermost first."""
        key: tuple[object, ...] = ("pointer", t)
        pointer = self.values.cache.get(key)
        if pointer is None:
            pointer = self.values.keep(key, self._base(t))
        element = memory_type(t.dtype)
        for level in sorted(groups):
            if not groups[level]:
                continue
            key = (*key, tuple(groups[level].items()))
            found = self.values.cache.get(key)
            if found is None:
                v = self.values.value(Linear(groups[level], 0).to_expr())
                at = max(pointer.level, v.level)
                text = f"getelementptr {element}, ptr {pointer.name}, i64 {v.name}"
                name = self.values.code.put(text, at)
                found = Value((name,), INT64, 0, at, pointer.mask | v.mask)
                self.values.keep(key, found)
            pointer = found
        return pointer

    def _base(self, t: Tensor) -> Value:
        put = self.values.code.put
        if t in self.values.scratch:
            offset = self.values.value(self.values.scratch[t])
            where = put(f"getelementptr i64, ptr %error, i64 {SCRATCH_WORD}", 0)
            block = self._unaliased(put(f"load ptr, ptr {where}, !invariant.load !0", 0))
            name = put(f"getelementptr i8, ptr {block}, i64 {offset.name}", offset.level)
            if t in self.values.beside:
                name = self._beside(t, name, offset.level)
            return Value((name,), INT64, 0, offset.level, offset.mask)
        where = put(f"getelementptr i64, ptr %index, i64 {self.values.slots[t]}", 0)
        slot = put(f"load i64, ptr {where}, !invariant.load !0", 0)
        where = put(f"getelementptr ptr, ptr %slots, i64 {slot}", 0)
        return Value((put(f"load ptr, ptr {where}, !invariant.load !0", 0),), INT64, 0, 0, 0)

    def _unaliased(self, block: str) -> str:
        """The first line of the block that lies away in its page from what the kernel stores."""
        put, other = self.values.code.put, self.values.unaliased_with
        if other is None:
            return block
        wanted = put(
            f"add i64 {put(f'ptrtoint ptr {self._base(other).name} to i64', 0)}, {ALIAS_DISTANCE}",
            0,
        )
        missing = put(f"sub i64 {wanted}, {put(f'ptrtoint ptr {block} to i64', 0)}", 0)
        shift = put(f"and i64 {missing}, {PAGE - ALIGNMENT}", 0)
        return put(f"getelementptr i8, ptr {block}, i64 {shift}", 0)

    def _beside(self, t: Tensor, pointer: str, level: int) -> str:
        """The first address from a pointer on that lies in its line as the other tensor's does,
        and apart from it and from other scratch in its page."""
        put, beside = self.values.code.put, self.values.beside
        other = self._base(beside[t])
        distance = ALIAS_DISTANCE * (1 + [*beside].index(t))
        wanted = put(f"add i64 {put(f'ptrtoint ptr {other.name} to i64', 0)}, {distance}", 0)
        missing = put(f"sub i64 {wanted}, {put(f'ptrtoint ptr {pointer} to i64', level)}", level)
        shift = put(f"and i64 {missing}, {PAGE - t.dtype.size_bytes}", level)
        return put(f"getelementptr i8, ptr {pointer}, i64 {shift}", level)

    def load(self, e: Read, guard: Expr | None) -> Value:
        """t[indices]; under a guard that fails, some number that nothing uses."""
        values, t = self.values, e.tensor
        window = self.windows.get(e)
        far = window is not None and self.plan(t, e.indices).rows is not None
        place = self.rows_apart(e) if far else self.place(t, e.indices)
        level, mask = place.pointer.level, place.pointer.mask
        if place.offsets is not None:
            level = max(level, place.offsets.level)
            mask |= place.offsets.mask
        if t in values.written_level:
            level = max(level, values.written_level[t])
            mask |= values.bit(t)
        if guard is not None:
            condition = values.value(guard)
            return self._guarded(t, place, condition, max(level, condition.level), mask)
        level = max(level, values.check_level)
        lanes = values.vector
        in_lanes = lanes is not None and (place.step != "0" or place.offsets is not None)
        if in_lanes and lanes is not None and lanes.mask is not None:
            level = max(level, lanes.level)
        level = values.outermost(level)
        if not in_lanes or lanes is None:
            pointer = values.element(t, place, level)
            return Value((self._load_scalar(t, pointer, level),), t.dtype, 0, level, mask)
        block = far or (place.offsets is None and abs(place.stride) > MAX_STRIDE)
        if window is not None and block:
            return load_block(self.values, e, place, window, level, mask)
        names = [self._load_lanes(e, place, r, level) for r in range(lanes.count)]
        return Value(tuple(names), t.dtype, lanes.lanes, level, mask)

    def _guarded(self, t: Tensor, place: Address, condition: Value, level: int, mask: int) -> Value:
        """A scalar load from the element if the condition holds, else from a dummy."""
        put = self.values.code.put
        pointer = self.values.element(t, place, level)
        chosen = put(f"select i1 {condition.name}, ptr {pointer}, ptr %dummy", level)
        name = self._load_scalar(t, chosen, level)
        return Value((name,), t.dtype, 0, level, mask | condition.mask)

    def _load_scalar(self, t: Tensor, pointer: str, level: int) -> str:
        put = self.values.code.put
        text = f"load {memory_type(t.dtype)}, ptr {pointer}{self.values.metadata(t)}"
        name = put(text, level)
        return put(f"icmp ne i8 {name}, 0", level) if t.dtype is BOOL else name

    def _load_lanes(self, e: Read, place: Address, r: int, level: int) -> str:
        """Register `r` of a read whose lanes differ."""
        t, window = e.tensor, self.windows.get(e)
        lanes = self.values.lanes
        n, put = lanes.lanes, self.values.code.put
        shift = place.constant + r * n * place.stride
        even = place.offsets is None and abs(place.stride) <= MAX_STRIDE
        if even and (lanes.mask is None or place.stride > 0):
            around = (0, 0)
            if window is not None and place.stride > 1:
                around = place.constant - window.low, window.high - place.constant
            origin = place.pointer.name
            name = load_strided(self.values, t, origin, place.stride, level, around, shift)
        else:
            pointer = self.values.shifted(t, place.pointer.name, shift, level)
            name = self._gather(t, pointer, self._lane_offsets(place, r, n), n, level)
        if t.dtype is not BOOL:
            return name
        return put(f"icmp ne {memory_type(BOOL, n)} {name}, zeroinitializer", level)

    def _lane_offsets(self, place: Address, r: int, n: int) -> str:
        if place.offsets is None:
            return iota(n, 0, place.stride)
        return place.offsets.names[r]

    def _mask(self, n: int) -> str:
        lanes = self.values.vector
        if lanes is None or lanes.mask is None:
            return vector_constant(True, BOOL, n)
        return lanes.mask

    def _gather(self, t: Tensor, pointer: str, offsets: str, n: int, level: int) -> str:
        put = self.values.code.put
        ty, pointers, flags = memory_type(t.dtype, n), f"<{n} x ptr>", f"<{n} x i1>"
        where = put(
            f"getelementptr {memory_type(t.dtype)}, ptr {pointer}, <{n} x i64> {offsets}", level
        )
        name = f"llvm.masked.gather.{memory_suffix(t.dtype, n)}.v{n}p0"
        how = (("i32", t.dtype.size_bytes), (flags, self._mask(n)), (ty, "zeroinitializer"))
        return put(self.values.code.called(name, ty, (pointers, where), *how), level)

    def store(self, t: Tensor, indices: tuple[Expr, ...], v: Value) -> None:
        """t[indices] = v."""
        values, lanes = self.values, self.values.vector
        place = self.place(t, indices)
        if lanes is None or (place.stride == 0 and place.offsets is None):
            pointer = values.element(t, place)
            name = self._stored(v.names[0], t.dtype, 0)
            values.code.line(f"store {memory_type(t.dtype)} {name}, ptr {pointer}")
            return
        v = values.spread(v, lanes.lanes, lanes.count)
        for r, name in enumerate(v.names):
            name = self._stored(name, t.dtype, lanes.lanes)
            if place.offsets is None and place.stride == 1:
                pointer = self._register_pointer(t, place, r)
                store_strided(self.values, t, pointer, [name], 1)
            else:
                self._scatter(t, place, r, name)

    def store_groups(self, t: Tensor, plans: Sequence[Offset]) -> list[list[int]]:
        """Positions of stores to `t` that are made together: side by side, or blocks of rows."""
        lanes = self.values.lanes
        groups = side_by_side(plans)
        if not groups or abs(plans[0].stride) <= MAX_STRIDE or lanes.mask is not None:
            return groups
        return pieces_of_rows([plan.constant for plan in plans], t.dtype.size_bytes, lanes.lanes)

    def store_group(
        self, t: Tensor, indices: Sequence[tuple[Expr, ...]], group: Sequence[Value]
    ) -> None:
        """Stores whose lanes lie side by side in turn: t[indices[k]] is k past t[indices[0]];
        or, where lanes lie far apart, one piece of a row for each lane."""
        values, lanes = self.values, self.values.lanes
        place = self.place(t, indices[0])
        group = [values.spread(v, lanes.lanes, lanes.count) for v in group]
        for r in range(lanes.count):
            names = [self._stored(v.names[r], t.dtype, lanes.lanes) for v in group]
            store = store_strided if abs(place.stride) <= MAX_STRIDE else store_rows
            store(self.values, t, self._register_pointer(t, place, r), names, place.stride)

    def _register_pointer(self, t: Tensor, place: Address, r: int) -> str:
        lanes = self.values.lanes
        shift = place.constant + r * lanes.lanes * place.stride
        return self.values.shifted(t, place.pointer.name, shift, self.values.code.depth)

    def _stored(self, name: str, dtype: DType, n: int) -> str:
        if dtype is not BOOL:
            return name
        source, target = type_text(BOOL, n), memory_type(BOOL, n)
        return self.values.code.put(f"zext {source} {name} to {target}")

    def _scatter(self, t: Tensor, place: Address, r: int, name: str) -> None:
        code, lanes = self.values.code, self.values.lanes
        n, element = lanes.lanes, memory_type(t.dtype)
        ty, flags = memory_type(t.dtype, n), f"<{n} x i1>"
        offsets = self._lane_offsets(place, r, n)
        pointer = self._register_pointer(t, place, r)
        where = code.put(f"getelementptr {element}, ptr {pointer}, <{n} x i64> {offsets}")
        full = f"llvm.masked.scatter.{memory_suffix(t.dtype, n)}.v{n}p0"
        how = (("i32", t.dtype.size_bytes), (flags, self._mask(n)))
        code.line(code.called(full, "void", (ty, name), (f"<{n} x ptr>", where), *how))


def side_by_side(plans: Sequence[Offset]) -> list[list[int]]:
    """Positions grouped so that the lanes of a group, dealt out in turn, fill a whole range.

    Empty when the offsets differ by more than a number: then two of them might be equal, and
    their order matters.
    """
    if len({(plan.stride, tuple(plan.units.items())) for plan in plans}) != 1:
        return []
    stride = plans[0].stride
    groups: list[list[int]] = []
    rest = sorted(range(len(plans)), key=lambda n: plans[n].constant)
    while rest:
        first = plans[rest[0]].constant
        group = rest[:stride] if 1 < stride <= MAX_STRIDE else rest[:1]
        if [plans[n].constant - first for n in group] != list(range(stride)):
            group = rest[:1]
        groups.append(group)
        rest = rest[len(group) :]
    return groups
