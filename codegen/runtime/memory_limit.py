"""Whether a call stays within TENSORAD_MAX_BYTES: asked before it makes anything."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Sequence
from math import prod
from typing import Final, NamedTuple

import numpy as np

from tensorad import config
from tensorad.codegen.entry.checks_ir import WRITABLE
from tensorad.codegen.runtime.arena import Array
from tensorad.codegen.runtime.arguments import Parameter, addresses_of
from tensorad.codegen.runtime.executable import Layout
from tensorad.errors import LimitError
from tensorad.ir.analysis.sizes import bytes_of, bytes_text
from tensorad.ir.tensor import Tensor

_NAMED: Final = 3
"""Tensors that an error names, the largest first."""


class Part(NamedTuple):
    """Memory of a call that belongs to one tensor."""

    tensor: Tensor
    role: str
    shape: tuple[int, ...]
    size_bytes: int

    def __str__(self) -> str:
        size = bytes_text(self.size_bytes)
        return f"{self.role} {self.tensor.name} : {self.tensor.dtype} {self.shape}, {size}"


def check_memory(
    name: str,
    layout: Layout,
    inputs: Sequence[tuple[Parameter, object]],
    outputs: Sequence[tuple[Tensor, tuple[int, ...]]],
    out: object,
) -> bool:
    """Whether calls that need no conversion are within the limit, whatever their arrays are.

    Args:
        inputs: what is passed, which may still be refused; arrays mapped from files do not count,
            one that is passed again counts once.
        out: what is given for the outputs.
    Raises:
        LimitError: this call is not.
    """
    made = [Part(t, "output", s, prod(s) * t.dtype.size_bytes) for t, s in outputs]
    passed = [
        Part(p.tensor, "argument", a.shape, _stored(a))
        for p, a in inputs
        if isinstance(a, np.ndarray)
    ]
    targets = out if isinstance(out, (list, tuple)) else [out]
    given = [a for a in (*[a for _, a in inputs], *targets) if isinstance(a, np.ndarray)]
    elsewhere = sum([_stored(a) for a in given if _is_mapped(a)]) + _again(given)
    beside = [c._replace(role="copy of") for c, a in zip(made, targets) if _needs_copy(a)]
    copied = [*_copies(inputs), *beside]
    plain = layout.own_bytes + sum([p.size_bytes for p in (*made, *passed)])
    total = plain + sum([p.size_bytes for p in copied]) - elsewhere
    limit = config.current().max_bytes
    if total > limit:
        inner = [
            Part(t, "temporary", s, bytes_of(t, layout.numbers)) for t, s in layout.temporaries()
        ]
        raise _too_much(name, total, [*made, *passed, *copied, *inner])
    return plain <= limit


def _copies(inputs: Iterable[tuple[Parameter, object]]) -> list[Part]:
    """What conversion makes."""
    return [
        Part(p.tensor, "copy of", a.shape, a.size * p.dtype.itemsize)
        for p, a in inputs
        if isinstance(a, np.ndarray) and not p.is_ready(a)
    ]


def _stored(array: Array) -> int:
    """Bytes of the elements, those that broadcasting repeats counted once."""
    extents = [n for n, s in zip(array.shape, array.strides, strict=True) if s or not n]
    return int(prod(extents) * array.itemsize)


def _again(arrays: Sequence[Array]) -> int:
    """Bytes of arrays that lie where one before them does."""
    if len(arrays) < 2:
        return 0
    own = [a for a in arrays if not _is_mapped(a)]
    places = list(zip(addresses_of(own), map(_stored, own), strict=True))
    every, once = [sum([n for _, n in found]) for found in (places, dict.fromkeys(places))]
    return every - once


def _needs_copy(target: object) -> bool:
    """Whether an output is made elsewhere and copied there."""
    return isinstance(target, np.ndarray) and target.flags.num & WRITABLE != WRITABLE


def _is_mapped(array: Array) -> bool:
    """Whether the elements lie in a file, whose pages need not stay in memory."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)


def _too_much(name: str, total: int, parts: Iterable[Part]) -> LimitError:
    limit = config.current().max_bytes
    largest = sorted(parts, key=lambda p: -p.size_bytes)[:_NAMED]
    taken, allowed = bytes_text(total), bytes_text(limit)
    if taken == allowed:
        taken, allowed = f"{total} bytes", f"{limit} bytes"
    return LimitError(
        f"a call of {name} takes {taken} of memory together with its arguments; "
        f"the limit is {allowed}.",
        where="; ".join([str(p) for p in largest]),
        hint="use smaller sizes, or raise the limit with the environment variable "
        "TENSORAD_MAX_BYTES.",
    )
