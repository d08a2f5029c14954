"""Expressions to LLVM: each distinct node once, placed as far outside the loops as it may be."""

from __future__ import annotations

from collections.abc import Iterable

from tensorad.codegen.llvm.addresses import Addresses
from tensorad.codegen.llvm.context import Lanes, Lowering
from tensorad.codegen.llvm.ops import CHEAP, conversion, iota, operation, splat_operand
from tensorad.codegen.llvm.text import Code, Value, Writer, constant_text, type_text
from tensorad.codegen.loops.ir import Kernel
from tensorad.errors import InternalError
from tensorad.ir.dtypes import BOOL, INT64
from tensorad.ir.expr import Axis, Call, Cast, Const, Expr, Read, Select, Size
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import children


class Expressions(Lowering):
    """Values of expressions at the current point of one kernel."""

    def __init__(
        self, code: Code, tensors: Iterable[Tensor], written: Iterable[Tensor], kernel: Kernel
    ) -> None:
        super().__init__(code, tensors, written, kernel)
        self.addresses = Addresses(self)

    def value(self, root: Expr) -> Value:
        """The value of an expression here; operands before users, without recursion."""
        cache = self.cache
        found = cache.get(root)
        if found is not None:
            return found
        stack = [root]
        while stack:
            e = stack[-1]
            if e in cache:
                stack.pop()
                continue
            missing = [c for c in self._operands(e) if c not in cache]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            self._emit(e)
        return cache[root]

    def scalar(self, e: Expr) -> Value:
        """A value that must be the same in every lane."""
        v = self.value(e)
        if v.lanes:
            raise InternalError(f"{e} differs between lanes where it must not")
        return v

    def _operands(self, e: Expr) -> tuple[Expr, ...]:
        if isinstance(e, Read):
            guard = self.guards.get(e)
            parts = self.addresses.operands(e.tensor, e.indices)
            return parts if guard is None else (*parts, guard)
        return children(e)

    def _emit(self, e: Expr) -> None:
        match e:
            case Const():
                text = constant_text(e.value, e.dtype)
                self.cache[e] = Value((text,), e.dtype, 0, 0, 0)
            case Size():
                self._size(e)
            case Read():
                self.keep(e, self.addresses.load(e, self.guards.get(e)))
            case Call():
                self._call(e)
            case Select():
                self._select(e)
            case Cast():
                v = self.cache[e.value]
                self._each(e, (v,), lambda w, names: conversion(w, names[0], e.dtype))
            case Axis() if self.vector is not None and e is self.vector.axis:
                self._lane_numbers(e, self.vector)
            case _:
                raise InternalError(f"{type(e).__name__} {e} has no value in the loops")

    def _size(self, e: Size) -> None:
        number = self.sizes.setdefault(e, len(self.sizes))
        put = self.code.put
        where = put(f"getelementptr i64, ptr %index, i64 {len(self.slots) + number}", 0)
        slot = put(f"load i64, ptr {where}, !invariant.load !0", 0)
        where = put(f"getelementptr i64, ptr %sizes, i64 {slot}", 0)
        name = put(f"load i64, ptr {where}, !invariant.load !0", 0)
        self.keep(e, Value((name,), INT64, 0, 0, 0))

    def _lane_numbers(self, e: Expr, lanes: Lanes) -> None:
        """The vector axis as data: base + 0, 1, 2, ..."""
        base = self.value(lanes.base)
        w = Writer(self.code, base.level, INT64, lanes.lanes)
        start = splat_operand(w, base.name)
        names = [w.add(start, iota(lanes.lanes, r * lanes.lanes)) for r in range(lanes.count)]
        self.keep(e, Value(tuple(names), INT64, lanes.lanes, base.level, base.mask))

    def _call(self, e: Call) -> None:
        if e.op in ("floordiv", "mod") and self._divided(e):
            return
        args = tuple([self.cache[a] for a in e.args])
        self._each(e, args, lambda w, names: operation(w, e, names))

    def _divided(self, e: Call) -> bool:
        """A quotient or remainder of what is never negative: one instruction, or none.

        Lanes past the end may leave the range; nothing uses them.
        """
        number, divisor = e.args
        if e.dtype is not INT64 or not isinstance(divisor, Const) or divisor.value <= 0:
            return False
        low, high = self.ranges.of(number)
        if low < 0:
            return False
        v = self.cache[number]
        if high < divisor.value and e.op == "mod":
            self.keep(e, v)
        elif high < divisor.value:
            self.cache[e] = Value((constant_text(0, INT64),), INT64, 0, 0, 0)
        else:
            made = "urem" if e.op == "mod" else "udiv"
            self._each(e, (v, self.cache[divisor]), lambda w, names: w.binary(made, *names))
        return True

    def _each(self, e: Expr, args: tuple[Value, ...], write: object) -> Value:
        """One result per register from the operands, placed by `_hoist_level`."""
        level, mask = self._hoist_level(e, args)
        lanes = max([a.lanes for a in args])
        count = max([len(a.names) for a in args])
        spread = [self.spread(a, lanes, count).names if lanes else a.names for a in args]
        w = Writer(self.code, level, args[0].dtype, lanes)
        names = tuple([write(w, group) for group in zip(*spread, strict=True)])  # type: ignore[operator]
        return self.keep(e, Value(names, e.dtype, lanes, level, mask))

    def _select(self, e: Select) -> None:
        cond, then, orelse = (self.cache[c] for c in (e.cond, e.then, e.orelse))
        level, mask = self._hoist_level(e, (cond, then, orelse))
        lanes = max(cond.lanes, then.lanes, orelse.lanes)
        count = max(len(v.names) for v in (cond, then, orelse))
        if lanes:
            then, orelse = (self.spread(v, lanes, count) for v in (then, orelse))
            if cond.lanes or cond.name in ("true", "false"):
                cond = self.spread(cond, lanes, count)
        flags = cond.names if cond.lanes == lanes else cond.names * count
        flag = type_text(BOOL, cond.lanes)
        ty = type_text(e.dtype, lanes)
        names = [
            self.code.put(f"select {flag} {c}, {ty} {x}, {ty} {y}", level)
            for c, x, y in zip(flags, then.names, orelse.names, strict=True)
        ]
        self.keep(e, Value(tuple(names), e.dtype, lanes, level, mask))

    def _hoist_level(self, e: Expr, operands: Iterable[Value]) -> tuple[int, int]:
        """The outermost level `e` may be computed at, and its mask."""
        level, mask = 0, 0
        for v in operands:
            level = max(level, v.level)
            mask |= v.mask
        if isinstance(e, Call) and e.op not in CHEAP:
            level = self.outermost(level)
        return level, mask
