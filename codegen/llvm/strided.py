"""Lanes a few elements apart: whole vectors loaded or stored, and shuffled."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.codegen.llvm.context import Lowering
from tensorad.codegen.llvm.ops import is_constant
from tensorad.codegen.llvm.text import Value, memory_suffix, memory_type
from tensorad.ir.dtypes import INT64
from tensorad.ir.tensor import Tensor


def load_strided(
    values: Lowering, t: Tensor, pointer: str, stride: int, level: int,
    window: tuple[int, int] = (0, 0), at: int = 0,
) -> str:  # fmt: skip
    """Elements pointer[at], pointer[at + stride], ...

    `window` says how far before and behind each of them other reads take elements too: all use
    the same vectors, and nothing outside of what they read is touched. In a masked tail
    `stride` is positive.
    """
    before, behind = window
    lanes = values.lanes
    n, step = lanes.lanes, abs(stride)
    if stride < 0:
        at += stride * (n - 1)
    spare = before + behind
    last = n * step if lanes.mask is not None else step * (n - 1) - (n - 1) + spare
    starts = [min(part * n, last) for part in range(step)]
    parts = []
    for start in starts:
        mask = _mask(values, start, step, 1 - step + spare)
        parts.append(_load(values, t, pointer, at + start - before, mask, level))
    ty = memory_type(t.dtype, n)
    if step == 1:
        down = range(n - 1, -1, -1)
        return parts[0] if stride == 1 else shuffle(values, ty, parts * 2, down, level)
    return _pick(values, ty, parts, [start - before for start in starts], stride, level)


def _load(
    values: Lowering, t: Tensor, pointer: str, start: int, mask: str | None, level: int
) -> str:
    """The vector at pointer[start]: once for all that need it, if nothing may change it."""
    key = ("vector", t, pointer, start, mask)
    found = values.cache.get(key)
    if found is not None and found.level <= level:
        return found.name
    where = values.shifted(t, pointer, start, level)
    name = values.load_vector(t, where, values.lanes.lanes, mask, level)
    if t not in values.written_level:
        values.keep(key, Value((name,), t.dtype, 0, level, 0))
    return name


def _mask(values: Lowering, start: int, step: int, extra: int) -> str | None:
    """Which of the elements start, start + 1, ... lie below step * (active lanes) + extra."""
    lanes = values.lanes
    if lanes.mask is None:
        return None
    if step == 1:
        return lanes.mask
    n = lanes.lanes
    if is_constant(lanes.left):
        limit = step * int(lanes.left) + extra
        flags = ["i1 true" if start + lane < limit else "i1 false" for lane in range(n)]
        return f"<{', '.join(flags)}>"
    key = ("mask", lanes.mask, start, step, extra)
    found = values.cache.get(key)
    if found is None:
        put = values.code.put
        scaled = put(f"mul i64 {lanes.left}, {step}", lanes.level)
        end = put(f"add i64 {scaled}, {extra - start}", lanes.level)
        name = values.lanes_compared("slt", end, lanes.level, n)
        found = values.keep(key, Value((name,), INT64, 0, lanes.level, 0))
    return found.name


def _pick(
    values: Lowering, ty: str, parts: Sequence[str], starts: Sequence[int], stride: int, level: int
) -> str:
    """Lane l from element l * |stride| of the loaded parts, two parts at a time."""
    lanes = values.lanes
    n = lanes.lanes
    wanted = [abs(stride) * lane for lane in range(n)]
    if stride < 0:
        wanted.reverse()
    chosen = [max(p for p in range(len(parts)) if starts[p] <= w) for w in wanted]
    result = parts[0]
    for p in range(1, len(parts)):
        order = []
        for lane, w in enumerate(wanted):
            keep = lane if p > 1 else w - starts[0] if chosen[lane] == 0 else 0
            order.append(n + w - starts[p] if chosen[lane] == p else keep)
        result = shuffle(values, ty, (result, parts[p]), order, level)
    return result


def shuffle(
    values: Lowering, ty: str, pair: Sequence[str], order: Sequence[int], level: int
) -> str:
    lanes = ", ".join([f"i32 {o}" for o in order])
    return values.code.put(
        f"shufflevector {ty} {pair[0]}, {ty} {pair[1]}, <{len(order)} x i32> <{lanes}>", level
    )


def store_strided(
    values: Lowering, t: Tensor, pointer: str, vectors: Sequence[str], stride: int
) -> None:
    """pointer[l * stride + m] = vectors[m][l] for as many vectors as the stride: whole vectors side
    by side."""
    lanes, code = values.lanes, values.code
    n, k, depth = lanes.lanes, stride, code.depth
    ty, align, flags = memory_type(t.dtype, n), t.dtype.size_bytes, f"<{n} x i1>"
    for part in range(k):
        name = _interleaved(values, ty, vectors, part * n)
        where = values.shifted(t, pointer, part * n, depth)
        mask = _mask(values, part * n, k, 0)
        if mask is None:
            wide = lanes.streams.get(t)
            how = f"align {align}" if wide is None else f"align {wide}, !nontemporal !1"
            code.line(f"store {ty} {name}, ptr {where}, {how}")
            continue
        if mask.count("i1 true") == 1:  # LLVM forgets that such a store narrows what it stores
            first = code.put(f"extractelement {ty} {name}, i64 0", depth)
            code.line(f"store {memory_type(t.dtype)} {first}, ptr {where}, align {align}")
            continue
        full = f"llvm.masked.store.{memory_suffix(t.dtype, n)}.p0"
        rest = (("i32", align), (flags, mask))
        code.line(code.called(full, "void", (ty, name), ("ptr", where), *rest))


def _interleaved(values: Lowering, ty: str, vectors: Sequence[str], start: int) -> str:
    """Elements start, start + 1, ... of the vectors dealt out in turn."""
    lanes = values.lanes
    n, k = lanes.lanes, len(vectors)
    result = vectors[0]
    for m in range(1, k):
        order = []
        for lane in range(n):
            source, position = (start + lane) % k, (start + lane) // k
            keep = lane if m > 1 else position
            order.append(n + position if source == m else keep)
        result = shuffle(values, ty, (result, vectors[m]), order, values.code.depth)
    return result
