"""Sparse Jacobians: entries, and the time to fill their values beside a copy of the same bytes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import tensorad as ta
from benchmarks.measure.timing import interleaved_ms
from tensorad import topi
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor

MOST_COPIES = 4.0
"""A fill may take as long as this many copies of its values."""
MOST_SECONDS = 1.0
"""The Hessian of the chain, from formula to matrix."""


@dataclass(frozen=True)
class Case:
    """A Jacobian, its inputs, and how many entries it must have."""

    name: str
    make: Callable[[], tuple[Tensor, Tensor, list[Tensor]]]
    nnz: int
    limit: float | None = None


@dataclass(frozen=True)
class Row:
    """What was measured of one case; times in milliseconds."""

    name: str
    shape: tuple[int, ...]
    nnz: int
    expected: int
    first_ms: float
    fill_ms: float
    copy_ms: float
    limit: float | None

    @property
    def wrong(self) -> bool:
        """Whether the count is wrong or the fill too slow."""
        slow = self.limit is not None and self.fill_ms > self.limit * self.copy_ms
        return slow or self.nnz != self.expected


def reaction_diffusion(n: int, dt: float = 0.5) -> tuple[Tensor, Tensor, list[Tensor]]:
    """One implicit Euler step of the Gray-Scott system on n x n cells without flow outside."""
    u = ta.placeholder((2, n, n), "float64", name="U")
    old = ta.placeholder((2, n, n), "float64", name="old")

    def residual(s: Expr, i: Expr, j: Expr) -> Expr:
        here = u[s, i, j]
        flow = ta.select(i > 0, u[s, i - 1, j] - here, 0.0)
        flow += ta.select(i < n - 1, u[s, i + 1, j] - here, 0.0)
        flow += ta.select(j > 0, u[s, i, j - 1] - here, 0.0)
        flow += ta.select(j < n - 1, u[s, i, j + 1] - here, 0.0)
        a, b = u[0, i, j], u[1, i, j]
        change = ta.select(s == 0, 0.035 * (1 - a) - a * b * b, a * b * b - 0.1 * b)
        diffusion = ta.select(s == 0, 0.16, 0.08) * flow
        result: Expr = here - old[s, i, j] - dt * (diffusion + change)
        return result

    return ta.compute((2, n, n), residual, name="F"), u, [u, old]


def convolution() -> tuple[Tensor, Tensor, list[Tensor]]:
    """d Y / d X of a 3 x 3 convolution."""
    x = ta.placeholder((8, 17, 28, 28), name="X")
    w = ta.placeholder((19, 17, 3, 3), name="W")
    return topi.nn.conv2d(x, w, padding=1), x, [x, w]


def triangle(n: int = 2000) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Rows of growing length: positions are counted, not computed."""
    x = ta.placeholder((n,), "float64", name="X")
    return ta.scan(x * x, 0, "sum", name="Y"), x, [x]


def gathered(n: int = 200_000) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Indices from data: compressed columns."""
    x = ta.placeholder((n,), "float64", name="X")
    at = ta.placeholder((n,), "int64", name="I")
    return ta.compute((n,), lambda i: x[at[i]] * x[i], name="Y"), x, [x, at]


CASES = (
    Case("reaction-diffusion 100 x 100", lambda: reaction_diffusion(100), 119_200, MOST_COPIES),
    Case(
        "reaction-diffusion 1000 x 1000", lambda: reaction_diffusion(1000), 11_992_000, MOST_COPIES
    ),
    Case("conv2d 8x17x28x28, 19x3x3", convolution, 17_374_816),
    Case("prefix sums of squares, 2000", triangle, 2_001_000),
    Case("x[I[i]] * x[i], 200000", gathered, 400_000),
)

CHAIN = """
import time
import numpy as np, scipy.sparse, tensorad as ta
start = time.perf_counter()
n = 100_000
x, i = ta.placeholder((n,), "float64", name="X"), ta.reduce_axis(n - 1)
y = ta.compute((), lambda: ta.sum(
    100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2, axis=i))
h = ta.sparse_hessian(y, x)(np.linspace(0, 1, n))
print(time.perf_counter() - start, h.nnz)
"""


def measure(case: Case, rounds: int) -> Row:
    """Build, fill once, then fill and copy in turns; the shortest times count."""
    start = time.perf_counter()
    y, x, inputs = case.make()
    j = ta.sparse_jacobian(y, x)
    f = j.build(inputs)
    arrays = [_array(t) for t in inputs]
    nnz = len(f.pattern(*arrays)[1])
    data = np.empty(nnz, str(j.dtype))
    f.values(*arrays, out=data)
    first = time.perf_counter() - start
    source = np.random.default_rng(0).random(nnz).astype(data.dtype)
    times = interleaved_ms(
        {
            "fill": lambda: f.values(*arrays, out=data),
            "copy": lambda: np.copyto(data, source),
        },
        rounds,
        pick=min,
    )
    shape = tuple([n for n in j.shape if isinstance(n, int)])
    return Row(
        case.name, shape, nnz, case.nnz, first * 1e3, times["fill"], times["copy"], case.limit
    )


def _array(t: Tensor) -> np.ndarray:
    shape = [n for n in t.shape if isinstance(n, int)]
    rng = np.random.default_rng(1)
    if t.dtype.is_integer:  # a permutation without fixed points
        n = shape[0]
        return (np.arange(n) * 7 + 1) % n
    return rng.random(shape).astype(str(t.dtype))


def run(names: Sequence[str], rounds: int) -> list[Row]:
    """The rows whose names contain one of the parts."""
    chosen = [c for c in CASES if not names or any(n in c.name for n in names)]
    return [measure(c, rounds) for c in chosen]


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    head = f"{'Jacobian':32}{'rows':>9}{'columns':>9}{'entries':>12}"
    head += f"{'first ms':>10}{'fill ms':>10}{'copy ms':>10}{'fill/copy':>10}"
    lines = [head]
    for r in rows:
        line = f"{r.name:32}{r.shape[0]:>9}{r.shape[1]:>9}{r.nnz:>12,}"
        line += f"{r.first_ms:>10.0f}{r.fill_ms:>10.3f}{r.copy_ms:>10.3f}"
        line += f"{r.fill_ms / r.copy_ms:>10.2f}"
        if r.nnz != r.expected:
            line += f"  expected {r.expected:,} entries"
        elif r.wrong:
            line += f"  above {r.limit}"
        lines.append(line)
    return "\n".join(lines)


def chain_seconds(rounds: int = 3) -> tuple[float, int]:
    """Seconds from formula to scipy matrix in a fresh process (the best), and the entries."""
    command = [sys.executable, "-c", CHAIN]
    best, nnz = float("inf"), 0
    for _ in range(rounds):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, entries = done.stdout.split()
        best, nnz = min(best, float(seconds)), int(entries)
    return best, nnz
