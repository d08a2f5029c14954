"""Whole numbers that wait in scratch take as few bytes as their range needs.

Which of a window's elements won is a number from a small range, an int64 by its formula. Where a
kernel stores such numbers for itself only, a narrower buffer holds the same values: an eighth of
the bytes, and comparisons with constants in as few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tensorad.codegen.loops.index_ranges import ANY, COMPARES, Range, Ranges
from tensorad.codegen.loops.ir import Assign, Check, Fold, For, Kernel, Stmt, Store
from tensorad.codegen.loops.rewrite import rewrite
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.loops.visit import statements
from tensorad.ir.dtypes import INT8, INT16, INT32, INT64, DType
from tensorad.ir.expr import Call, Cast, Const, Expr, Param, Read, Select, call, cast, const, read
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import rewriter

NARROW: Final = (INT8, INT16, INT32)


def with_narrow_scratch(kernel: Kernel) -> Kernel:
    """The kernel with its int64 scratch in narrower types where all that is stored fits."""
    wide = [t for t in kernel.scratch if t.dtype is INT64]
    if not wide or any(isinstance(s, Check) for s in statements(kernel.body)):
        return kernel
    values = _Values(kernel)
    found: dict[Tensor, Tensor] = {}
    for t in wide:
        dtype = _narrowest(values.of(t))
        if dtype is not None:
            found[t] = buffer(t.name, t.shape, dtype)
    if not found:
        return kernel
    scratch = tuple([found.get(t, t) for t in kernel.scratch])
    return replace(kernel, body=_narrowed(kernel.body, found), scratch=scratch)


def _narrowest(values: Range) -> DType | None:
    low, high = values
    fits = [d for d in NARROW if d.lowest <= low and high <= d.highest]
    return fits[0] if fits else None


class _Values:
    """What the statements of a kernel store and set."""

    def __init__(self, kernel: Kernel) -> None:
        self.stored: dict[Tensor, list[Expr]] = {}
        self.set: dict[Param, list[Expr]] = {}
        """Of scalars, those of combiners too."""
        self.ranges = Ranges()
        for s in statements(kernel.body):
            self._enter(s)

    def _enter(self, s: Stmt) -> None:
        if isinstance(s, For):
            self.ranges.enter(s.axis)
        elif isinstance(s, Store):
            for t, v in zip(s.tensors, s.values, strict=True):
                self.stored.setdefault(t, []).append(v)
        elif isinstance(s, Assign):
            self._set(s.targets, s.values)
        elif isinstance(s, Fold):
            c = s.combiner
            self._set((*c.lhs, *c.rhs), (*s.targets, *s.values))
            self._set(s.targets, c.results)

    def _set(self, targets: Sequence[Param], values: Sequence[Expr]) -> None:
        for p, v in zip(targets, values, strict=True):
            self.set.setdefault(p, []).append(v)

    def of(self, t: Tensor) -> Range:
        """The range of all that is stored; scalars hold one of the values they are set to."""
        low, high = float("inf"), float("-inf")
        stack, seen = list(self.stored.get(t, ())), dict[Expr, None]()
        while stack:
            e = stack.pop()
            if e in seen:
                continue
            seen[e] = None
            if isinstance(e, Select):
                stack.extend((e.then, e.orelse))
            elif isinstance(e, Cast) and self._keeps(e):
                stack.append(e.value)
            elif isinstance(e, Param):
                stack.extend(self.set[e])
            else:
                least, most = self.ranges.of(e) if e.dtype.is_integer else ANY
                low, high = min(low, least), max(high, most)
        return low, high

    def _keeps(self, e: Cast) -> bool:
        """Whether a conversion keeps all values: from a narrower whole number, or one that fits."""
        source = e.value.dtype
        if not source.is_integer or not e.dtype.is_integer:
            return False
        if e.dtype.lowest <= source.lowest and source.highest <= e.dtype.highest:
            return True
        least, most = self.ranges.of(e.value)
        return e.dtype.lowest <= least and most <= e.dtype.highest


def _narrowed(body: tuple[Stmt, ...], found: Mapping[Tensor, Tensor]) -> tuple[Stmt, ...]:
    """The statements over narrower buffers."""

    def expression(e: Expr) -> Expr | None:
        if isinstance(e, Read) and e.tensor in found:
            return cast(read(found[e.tensor], e.indices), INT64)
        return _compared(e) if isinstance(e, Call) and e.op in COMPARES else None

    def store(s: Stmt) -> Stmt | None:
        if not isinstance(s, Store):
            return None
        tensors = tuple([found.get(t, t) for t in s.tensors])
        pairs = zip(s.values, tensors, strict=True)
        return replace(s, tensors=tensors, values=tuple([_converted(v, t.dtype) for v, t in pairs]))

    return rewrite(body, store, rewriter(expression))


def _converted(value: Expr, dtype: DType) -> Expr:
    """The value in a type that holds it: not through a wider one on the way."""
    if value.dtype is dtype:
        return value
    inner = value.value if isinstance(value, Cast) and value.value.dtype.is_integer else value
    return cast(inner, dtype)


def _compared(e: Call) -> Expr | None:
    """A widened number beside a constant of its own range: int64(x) == 3 -> x == int8(3)."""
    x, y = e.args
    for wide, other in ((x, y), (y, x)):
        if not isinstance(wide, Cast) or not isinstance(other, Const) or wide.dtype is not INT64:
            continue
        source = wide.value.dtype
        if source in NARROW and source.lowest <= other.value <= source.highest:
            same = const(other.value, source)
            return call(e.op, wide.value, same) if wide is x else call(e.op, same, wide.value)
    return None
