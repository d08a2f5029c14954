"""Arrays between pages that nobody may touch, and a command that runs programs on them.

python -m tests.support.guarded FIRST LAST [all]: a byte read or written outside ends the process
by a signal; the last line printed names the program.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np

from tensorad import te
from tensorad.codegen.directives import Choices
from tensorad.codegen.entry.frames_ir import frame_library
from tensorad.codegen.loops.ir import LoopProgram
from tensorad.codegen.loops.scratch import ALIGNMENT
from tensorad.codegen.lower import lower_program
from tensorad.codegen.target import link
from tensorad.compiled import CompiledFunction
from tensorad.config import override
from tensorad.errors import BuildError
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.random.generators import WIDE, random_program
from tests.support.choice_cases import close, general

Array = np.ndarray
DTYPES = ("float64", "float32", "int32", "float64", "uint8", "int64", "bool")
_kept: list[mmap.mmap] = []
_protect = ctypes.CDLL(None, use_errno=True).mprotect
_protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def guarded_bytes(size: int, at_end: bool) -> Array:
    """Bytes whose first or last one touches a page that nobody may touch."""
    whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    block = mmap.mmap(-1, whole + 2 * mmap.PAGESIZE)
    _kept.append(block)  # the pages stay forbidden: never given back
    every = np.frombuffer(block, np.uint8)
    for page in (every.ctypes.data, every.ctypes.data + mmap.PAGESIZE + whole):
        if _protect(page, mmap.PAGESIZE, 0):  # PROT_NONE
            raise OSError(ctypes.get_errno(), "mprotect")
    start = mmap.PAGESIZE + (whole - size if at_end else 0)
    return every[start : start + size]


def guarded(shape: tuple[int, ...], dtype: str, at_end: bool) -> Array:
    """An array there; writing or reading one element beside it ends the process."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return guarded_bytes(size, at_end).view(dtype).reshape(shape)


def guarded_temporaries(at_end: bool) -> None:
    """Temporaries of calls from now on lie between such pages too."""

    _at_end[0] = at_end


def _reserve(_: int, size: int) -> int:
    whole = -(-size // ALIGNMENT) * ALIGNMENT
    return int(guarded_bytes(whole, _at_end[0]).ctypes.data)


_at_end = [False]
_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)(_reserve)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)


def guard_frames() -> None:
    """Have native code reserve the memory of frames here; it is never given back."""
    own = {"aligned_alloc": _ALLOCATE, "free": _FREE}
    found = {name: ctypes.cast(f, ctypes.c_void_p).value or 0 for name, f in own.items()}
    known = link.external_address
    with patch.object(link, "external_address", lambda name: found.get(name) or known(name)):
        frame_library()


def product(rows: int, columns: int, steps: int) -> tuple[list[Tensor], list[Tensor]]:
    a, b = te.placeholder((rows, steps), name="A"), te.placeholder((steps, columns), name="B")
    k = te.reduce_axis(steps, name="k")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    turned = te.compute((columns, rows), lambda i, j: c[j, i] * 2.0, name="T")
    return [c, turned], [a, b]


def window(n: int) -> tuple[list[Tensor], list[Tensor]]:
    """Padding, neighbours and strides: what reads near the borders."""
    x = te.placeholder((n, n + 3), name="X")
    k, m = te.reduce_axis(3, name="k"), te.reduce_axis(3, name="m")
    inside = te.compute(
        (n, n + 3),
        lambda i, j: te.sum(
            te.select(
                (i + k >= 1) & (i + k <= n) & (j + m >= 1) & (j + m <= n + 3),
                x[i + k - 1, j + m - 1],
                0.0,
            ),
            axis=[k, m],
        ),
        name="W",
    )
    half = te.compute(((n + 1) // 2, n), lambda i, j: x[2 * i, n + 2 - j], name="S")
    return [inside, half], [x]


def looked_up(n: int) -> tuple[list[Tensor], list[Tensor]]:
    """Indices that come from data and stand under a condition."""
    x, p = te.placeholder((n,), name="X"), te.placeholder((n,), "int64", name="P")
    row = te.compute((n + 2,), lambda i: x[te.select((i >= 1) & (i <= n), p[i - 1], 0)], name="L")
    return [row], [x, p]


def cases(first: int, last: int) -> Iterator[tuple[str, list[Tensor], dict[Tensor, Array]]]:
    rng = np.random.default_rng(first)
    for n in range(first, last):
        made = random_program(n, DTYPES[n % len(DTYPES)], 3, extents=WIDE)
        yield f"program {n}", made.tensors, made.arrays()
        shape = (1 + n % 11, 1 + 7 * n % 67, 1 + n % 5)
        for make, sizes in ((product, shape), (window, shape[1:2]), (looked_up, shape[1:2])):
            outputs, inputs = make(*sizes)  # type: ignore[operator]  # as many sizes as it takes
            values = {t: rng.integers(0, shape[1], t.shape).astype(str(t.dtype)) for t in inputs}
            yield f"{make.__name__}{sizes}", outputs, values


def run(
    program: LoopProgram, outputs: list[Tensor], arrays: dict[Tensor, Array], at_end: bool
) -> list[Array]:
    """The outputs, every array of the call between forbidden pages."""
    guarded_temporaries(at_end)
    f = CompiledFunction(outputs, program, "f")
    given, results = [], []
    for t, a in arrays.items():
        given.append(guarded(a.shape, str(t.dtype), at_end))
        given[-1][...] = a
    for t in f.outputs:
        results.append(guarded(tuple(map(int, t.shape)), str(t.dtype), at_end))  # type: ignore[arg-type]  # numbers
    f(*given, out=results)
    return results


def is_noticed() -> bool:
    """Whether touching the byte behind an array ends a process."""
    child = os.fork()
    if child == 0:
        a = guarded((4,), "float32", True)
        np.lib.stride_tricks.as_strided(a, (5,), (4,))[4] = 1.0
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main(first: int, last: int, every: bool) -> None:
    assert is_noticed()
    guard_frames()
    for number, (name, outputs, arrays) in enumerate(cases(first, last)):
        want = interpret(outputs, arrays)
        choices = (
            [Choices(), *general()[number % 2 :: 2]]
            if every
            else [general()[number % len(general())]]
        )
        for c in choices:
            with override(num_threads=1 + number % 3):
                try:
                    program = lower_program(outputs, list(arrays), choices=c)
                except BuildError as error:
                    assert "cannot run in lanes" in str(error)
                    continue
                for at_end in (False, True):
                    print(name, c, "end" if at_end else "start", flush=True)  # read after a crash
                    close(outputs, run(program, outputs, arrays, at_end), want)
    print("done")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), "all" in sys.argv)
