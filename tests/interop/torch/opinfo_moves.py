"""PyTorch's operators that move elements, and prefix folds, as graphs of `topi`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import tensorad as ta
from tensorad import topi
from tests.interop.torch.opinfo_elements import NotTakenError, only, place

Graph = Callable[..., Any]


def _list_of(args: Sequence[Any]) -> list[int]:
    flat = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    return [int(a) for a in flat]


def _reshape(x: Any, *shape: Any) -> Any:
    given = shape[0] if len(shape) == 1 and hasattr(shape[0], "__iter__") else shape
    return topi.reshape(x, tuple(int(n) for n in given))


def _like(f: Graph) -> Graph:
    return lambda x, other: f(x, tuple(other.shape))


def _flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    shape = tuple(x.shape) or (1,)
    start, end = start_dim % len(shape), end_dim % len(shape)
    middle = math.prod(shape[start : end + 1])
    return topi.reshape(x, (*shape[:start], middle, *shape[end + 1 :]))


def _unflatten(x: Any, dim: int, sizes: Any) -> Any:
    dim %= len(x.shape)
    sizes = [int(n) for n in sizes]
    known = math.prod(n for n in sizes if n != -1)
    sizes = [x.shape[dim] // known if n == -1 else n for n in sizes]
    return topi.reshape(x, (*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))


def _permute(x: Any, dims: Any, *more: int) -> Any:
    return topi.transpose(x, _list_of([dims, *more] if more else [dims])) if x.shape else x


def _swap(x: Any, a: int = -2, b: int = -1) -> Any:
    rank = len(x.shape)
    order = list(range(rank))
    if rank:
        a, b = a % rank, b % rank
        order[a], order[b] = order[b], order[a]
    return topi.transpose(x, order) if rank else x


def _t(x: Any) -> Any:
    if len(x.shape) > 2:
        raise NotTakenError("more than two axes")
    return topi.transpose(x) if len(x.shape) == 2 else x


def _movedim(x: Any, source: Any, to: Any) -> Any:
    rank = len(x.shape)
    sources = [place(s, rank) for s in ([source] if isinstance(source, int) else source)]
    targets = [place(t, rank) for t in ([to] if isinstance(to, int) else to)]
    if len({*sources}) != len({*targets}) or len(sources) != len({*targets}):
        raise NotTakenError("axes that are named twice")
    order = [d for d in range(rank) if d not in sources]
    for target, s in sorted(zip(targets, sources, strict=True)):
        order.insert(target, s)
    return topi.transpose(x, order) if rank else x


def _squeeze(x: Any, dim: Any = None) -> Any:
    if dim is None:
        return topi.squeeze(x)
    rank = len(x.shape)
    dims = {d % max(rank, 1) for d in ([dim] if isinstance(dim, int) else dim)}
    kept = tuple(n for d, n in enumerate(x.shape) if d not in dims or n != 1)
    return topi.reshape(x, kept)


def _expand(x: Any, *shape: Any) -> Any:
    wanted = _list_of(shape)
    own = [1] * (len(wanted) - len(x.shape)) + list(x.shape)
    return topi.broadcast_to(
        x, tuple(o if n == -1 else n for n, o in zip(wanted, own, strict=True))
    )


def _flip(x: Any, dims: Any, *more: int) -> Any:
    axes = _list_of([dims, *more] if more else [dims])
    return topi.flip(x, axes) if axes else topi.reshape(x, tuple(x.shape))


def _roll(x: Any, shifts: Any, dims: Any = None) -> Any:
    if dims is None or dims == ():
        rolled = topi.roll(topi.reshape(x, (math.prod(x.shape),)), _list_of([shifts])[0], 0)
        return topi.reshape(rolled, tuple(x.shape))
    pairs = zip(_list_of([shifts]), _list_of([dims]), strict=True)
    for shift, dim in pairs:
        x = topi.roll(x, shift, dim)
    return x


def _rot90(x: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    a, b = (place(d, len(x.shape)) for d in dims)
    if a == b:
        raise NotTakenError("one axis twice")
    for _ in range(k % 4):
        x = _swap(topi.flip(x, [b]), a, b)
    return topi.reshape(x, tuple(x.shape)) if k % 4 == 0 else x


def _cat(tensors: Any, dim: int = 0, **other: Any) -> Any:
    if other:
        raise NotTakenError(f"options {sorted(other)}")
    if len({len(t.shape) for t in tensors}) > 1:
        raise NotTakenError("empty tensors of another rank")
    return topi.concatenate(tensors, dim)


def _at_least(x: Any, rank: int) -> Any:
    shape = tuple(x.shape)
    for _ in range(rank - len(shape)):
        shape = (*shape, 1) if len(shape) == 2 else (1, *shape)
    return topi.reshape(x, shape)


def _joined(rank: int, dim: int) -> Graph:
    def graph(tensors: Any) -> Any:
        made = [_at_least(t, rank) for t in tensors]
        return topi.concatenate(made, 0 if dim == 1 and len(made[0].shape) == 1 else dim)

    return graph


def _tile(x: Any, *reps: Any) -> Any:
    counts = _list_of(reps)
    return topi.tile(x, [1] * (len(x.shape) - len(counts)) + counts)


def _repeat_interleave(x: Any, repeats: Any, dim: int | None = None, **other: Any) -> Any:
    if not isinstance(repeats, int):
        raise NotTakenError("numbers of repeats that are data")
    if dim is None:
        x, dim = topi.reshape(x, (math.prod(x.shape),)), 0
    return topi.repeat(x, repeats, dim)


def _pad(mode: str) -> Graph:
    def graph(x: Any, pad: Any, mode: str = mode, value: float | None = None) -> Any:
        if any(p < 0 for p in pad):
            raise NotTakenError("negative padding")
        free = len(x.shape) - len(pad) // 2
        before = [0] * free + list(pad[0::2][::-1])
        after = [0] * free + list(pad[1::2][::-1])
        names = {"replicate": "edge", "circular": "wrap"}
        return topi.pad(x, before, after, value=value or 0.0, mode=names.get(mode, mode))

    return graph


def _unfold(x: Any, dim: int, size: int, step: int) -> Any:
    if not x.shape:
        raise NotTakenError("tensors of no dimension")
    dim %= len(x.shape)
    count = (x.shape[dim] - size) // step + 1
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    return ta.compute(
        shape, lambda *i: x[(*i[:dim], i[dim] * step + i[-1], *i[dim + 1 : -1])], name="unfold"
    )


def _gather(x: Any, dim: int, index: Any, **other: Any) -> Any:
    if len(index.shape) != len(x.shape) or not x.shape or "out" in other:
        raise NotTakenError("tensors of no dimension")
    dim %= len(x.shape)
    x = _cut(x, index.shape, dim)
    return topi.gather(x, index, dim)


def _cut(x: Any, shape: Any, dim: int) -> Any:
    """x as long as the index, apart from the axis it points along."""
    if any(n > m for d, (n, m) in enumerate(zip(shape, x.shape, strict=True)) if d != dim):
        return x
    ends = [m if d == dim else n for d, (n, m) in enumerate(zip(shape, x.shape, strict=True))]
    return topi.strided_slice(x, [0] * len(ends), ends)


def _take_along(x: Any, indices: Any, dim: int | None = None) -> Any:
    if dim is None:
        flat = topi.reshape(x, (math.prod(x.shape),))
        return topi.gather(flat, topi.reshape(indices, (math.prod(indices.shape),)), 0)
    dim %= len(x.shape)
    pairs = enumerate(zip(x.shape, indices.shape, strict=True))
    sides = [(n, n) if d == dim else (max(n, m),) * 2 for d, (n, m) in pairs]
    x = topi.broadcast_to(x, tuple(n for n, _ in sides))
    wide = tuple(indices.shape[d] if d == dim else n for d, (n, _) in enumerate(sides))
    return topi.gather(x, topi.broadcast_to(indices, wide), dim)


def _index_select(x: Any, dim: int, index: Any) -> Any:
    if not x.shape or not index.shape:
        raise NotTakenError("tensors of no dimension")
    return topi.take(x, index, dim)


def _scatter(reduction: str | None = None) -> Graph:
    names = {"multiply": "mul", "prod": "mul", "amax": "max", "amin": "min", "sum": "add"}

    def graph(x: Any, dim: int, index: Any, src: Any, *more: Any, **other: Any) -> Any:
        chosen = more[0] if more else other.get("reduce", reduction)
        if chosen == "mean" or not other.get("include_self", True):
            raise NotTakenError("means, and folds without the tensor itself")
        if not x.shape or not hasattr(src, "shape") or "out" in other:
            raise NotTakenError("tensors of no dimension, and numbers")
        if any(n > m for n, m in zip(index.shape, src.shape, strict=True)):
            raise NotTakenError("more positions than elements")
        src = topi.strided_slice(src, [0] * len(src.shape), list(index.shape))
        return topi.scatter_elements(
            x, index, src, dim, names.get(chosen or "set", chosen or "set")
        )

    return graph


def _index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Any:
    if not x.shape or not index.shape:
        raise NotTakenError("tensors of no dimension")
    source = source if alpha == 1 else topi.multiply(source, alpha)
    beside = [1] * len(x.shape)
    beside[dim] = index.shape[0]
    places = topi.broadcast_to(topi.reshape(index, tuple(beside)), tuple(source.shape))
    return topi.scatter_add(x, places, source, dim)


def _prefix(f: Graph) -> Graph:
    def graph(x: Any, dim: int, *, dtype: Any = None) -> Any:
        only(dtype=(dtype, None))
        if not x.shape:
            raise NotTakenError("tensors of no dimension")
        return f(x, dim)

    return graph


def _triangle(f: Graph) -> Graph:
    return lambda x, diagonal=0: f(x, diagonal)


def _diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    x = _movedim(x, (dim1, dim2), (-2, -1))
    n, m = x.shape[-2:]
    down, right = max(-offset, 0), max(offset, 0)
    length = max(min(n - down, m - right), 0)
    return ta.compute(
        (*x.shape[:-2], length),
        lambda *i: x[(*i[:-1], i[-1] + down, i[-1] + right)],
        name="diagonal",
    )


def _diagonal_last(x: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    return _diagonal(x, offset, dim1, dim2)


def _part(x: Any, dim: int, start: int, length: int) -> Any:
    dim = place(dim, len(x.shape))
    begin = [0] * len(x.shape)
    end = list(x.shape)
    begin[dim], end[dim] = start, start + length
    return topi.strided_slice(x, begin, end)


def _narrow(x: Any, dim: int, start: Any, length: int) -> Any:
    if not isinstance(start, int):
        raise NotTakenError("a start that is data")
    n = x.shape[place(dim, len(x.shape))] if x.shape else 0
    start = start + n if start < 0 else start
    if not 0 <= start <= start + length <= n:
        raise NotTakenError("elements outside")
    return _part(x, dim, start, length)


def _select(x: Any, dim: int, index: int) -> Any:
    dim %= len(x.shape)
    part = _part(x, dim, index % x.shape[dim], 1)
    return topi.squeeze(part, dim)


def _unbind(x: Any, dim: int = 0) -> list[Any]:
    return [_select(x, dim, i) for i in range(x.shape[dim])]


def _parts(x: Any, sizes: Sequence[int], dim: int) -> list[Any]:
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    return [_part(x, dim, s, n) for s, n in zip(starts, sizes, strict=True)]


def _split(x: Any, size: Any, dim: int = 0) -> list[Any]:
    if isinstance(size, int):
        n = x.shape[dim]
        size = [min(size, n - s) for s in range(0, n, size)]
    return _parts(x, list(size), dim)


def _chunk(x: Any, chunks: int, dim: int = 0) -> list[Any]:
    return _split(x, max(-(-x.shape[dim] // chunks), 1), dim)


def _diff(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    parts = [p for p in (prepend, x, append) if p is not None]
    x = topi.concatenate(parts, dim) if len(parts) > 1 else x
    if n < 1:
        raise NotTakenError("no differences")
    for _ in range(n):
        size = x.shape[dim]
        if size < 2:
            raise NotTakenError("differences of nothing")
        x = topi.subtract(_part(x, dim, 1, size - 1), _part(x, dim, 0, size - 1))
    return x


def _unsqueeze(x: Any, dim: int) -> Any:
    return topi.expand_dims(x, dim)


def _meshgrid(*tensors: Any, indexing: str = "ij") -> Any:
    flat = tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors
    return topi.meshgrid(*[_at_least(t, 1) for t in flat], indexing=indexing)


MOVES: Final[dict[str, Graph]] = {
    "reshape": _reshape,
    "view": _reshape,
    "reshape_as": _like(_reshape),
    "view_as": _like(_reshape),
    "flatten": _flatten,
    "ravel": lambda x: topi.reshape(x, (math.prod(x.shape),)),
    "unflatten": _unflatten,
    "permute": _permute,
    "transpose": _swap,
    "t": _t,
    "T": _t,
    "mT": _swap,
    "movedim": _movedim,
    "squeeze": _squeeze,
    "squeeze|multiple": _squeeze,
    "unsqueeze": _unsqueeze,
    "expand": _expand,
    "expand_as": _like(_expand),
    "broadcast_to": _expand,
    "flip": _flip,
    "fliplr": lambda x: topi.flip(x, [1]),
    "flipud": lambda x: topi.flip(x, [0]),
    "roll": _roll,
    "rot90": _rot90,
    "cat": _cat,
    "stack": lambda tensors, dim=0: topi.stack(tensors, dim),
    "hstack": _joined(1, 1),
    "vstack": _joined(2, 0),
    "dstack": _joined(3, 2),
    "tile": _tile,
    "repeat": _tile,
    "repeat_interleave": _repeat_interleave,
    "nn.functional.pad|constant": _pad("constant"),
    "nn.functional.pad|reflect": _pad("reflect"),
    "nn.functional.pad|replicate": _pad("replicate"),
    "nn.functional.pad|circular": _pad("circular"),
    "constant_pad_nd": lambda x, pad, value=0: _pad("constant")(x, pad, value=float(value)),
    "unfold": _unfold,
    "gather": _gather,
    "take_along_dim": _take_along,
    "index_select": _index_select,
    "index_add": _index_add,
    "scatter": _scatter(),
    "scatter_add": _scatter("add"),
    **{f"scatter_reduce|{r}": _scatter(r) for r in ("sum", "prod", "amax", "amin")},
    "cumsum": _prefix(topi.cumsum),
    "cumprod": _prefix(topi.cumprod),
    "cummax": _prefix(topi.cummax),
    "cummin": _prefix(topi.cummin),
    "tril": _triangle(topi.tril),
    "triu": _triangle(topi.triu),
    "diagonal": _diagonal,
    "linalg.diagonal": _diagonal_last,
    "narrow": _narrow,
    "select": _select,
    "unbind": _unbind,
    "split": _split,
    "split|list_args": _split,
    "split_with_sizes": _split,
    "chunk": _chunk,
    "diff": _diff,
    "meshgrid|list_of_tensors": _meshgrid,
    "meshgrid|variadic_tensors": _meshgrid,
}
