"""Products of matrices, dense layers and convolutions one by one, beside the peak and the peers."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from tqdm import tqdm

from benchmarks.limits.limits import Peak
from benchmarks.measure.timing import Call, race
from benchmarks.peers.ours import FRESH, NAME, Program, allocated
from benchmarks.peers.registry import missing
from benchmarks.report.figures import Figures, Suite, asked, those
from benchmarks.report.verdicts import Verdict
from benchmarks.workloads.catalogue import WORKLOADS
from benchmarks.workloads.problem import Array
from tensorad import te
from tensorad.building import build
from tensorad.ir.tensor import Tensor

LARGE: Final = (512, 1024, 2048)
SMALL: Final = ((256, 256, 256), (100, 100, 100), (64, 64, 64), (17, 19, 23))
BATCH: Final = 64
PEERS: Final = ("torch", "jax", "numba")
MOST_BY_HAND: Final = 256
"""Loops by hand take part in products of at most so many rows; larger ones take them minutes."""
DENSE: Final = {
    "dense Y": (32, 10000, 3000, "nt"),
    "dense dX": (32, 3000, 10000, "nn"),
    "dense dW": (3000, 32, 10000, "tn"),
}
"""(rows, summed, columns) of the notebook's dense layer, and which operand is transposed."""


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Every product whose name contains one of the parts."""
    cases = [(name, make) for name, make in _cases(names) if name not in done]
    for name, make in tqdm(cases, unit="product", leave=False):
        dtype, flops, calls = make(threads)
        peak = Peak(dtype, threads)
        turns: dict[tuple[str, str], Call] = {("product", n): c for n, c in calls.items()}
        raced = race({**turns, ("peak", "peak"): peak.seconds}, rounds)
        times = raced.times
        ours = times["product", NAME].median_s
        peers = {n: times["product", n].median_s for n in calls if n not in (NAME, FRESH)}
        reached = flops / ours / (peak.flops / times["peak", "peak"].median_s)
        values = {"ms": ours * 1e3, "fresh ms": times["product", FRESH].median_s * 1e3}
        values |= {f"{n} ms": s * 1e3 for n, s in peers.items()} | {"share of peak": reached}
        if peers:
            values["best / ours"] = min(peers.values()) / ours
        values |= {f"{n} / ours": s / ours for n, s in peers.items()}
        yield Figures(name, threads, values, foreign=raced.foreign)


Made = tuple[str, float, dict[str, Call]]


def _cases(names: Sequence[str]) -> list[tuple[str, Callable[[int], Made]]]:
    cases: dict[str, Callable[[int], Made]] = {}
    for dtype in ("float32", "float64"):
        for n in LARGE:
            cases[f"matmul {n} {dtype}"] = partial(_matmul, (n, n, n), "nn", dtype)
    for shape in SMALL:
        text = " x ".join([str(n) for n in dict.fromkeys(shape)])
        cases[f"small matmul {text}"] = partial(_matmul, shape, "nn", "float32")
    cases["small matmul 64 in batches"] = _batched
    for name, (*sizes, kind) in DENSE.items():
        cases[name] = partial(_matmul, sizes, kind, "float32")
    for name in ("conv_seed", "conv3x3_64"):
        for part in ("Y", "dX", "dW"):
            cases[f"{name} {part}"] = partial(_convolution, name, part)
    return [(n, c) for n, c in cases.items() if not names or any(part in n for part in names)]


def _matmul(shape: Sequence[Any], kind: str, dtype: str, threads: int) -> Made:
    """(n, k) times (k, m); "nt" and "tn" store one of the operands transposed."""
    n, k, m = shape
    rng = np.random.default_rng(0)
    left = rng.standard_normal((k, n) if kind == "tn" else (n, k)).astype(dtype)
    right = rng.standard_normal((m, k) if kind == "nt" else (k, m)).astype(dtype)
    a, b = te.placeholder(left.shape, dtype, name="A"), te.placeholder(right.shape, dtype, name="B")
    r = te.reduce_axis(k, name="k")

    def formula(i: Any, j: Any) -> Any:
        one = a[r, i] if kind == "tn" else a[i, r]
        two = b[j, r] if kind == "nt" else b[r, j]
        return te.sum(one * two, axis=r)

    y: Tensor = te.compute((n, m), formula, name="Y")
    seen = left.T if kind == "tn" else left, right.T if kind == "nt" else right
    return dtype, 2.0 * n * k * m, _product_calls(threads, y, [a, b], [left, right], seen)


def _batched(threads: int) -> Made:
    rng = np.random.default_rng(0)
    shape = (BATCH, 64, 64)
    arrays = [rng.standard_normal(shape, np.float32) for _ in range(2)]
    a, b = te.placeholder(shape, name="A"), te.placeholder(shape, name="B")
    r = te.reduce_axis(64, name="k")
    y: Tensor = te.compute(shape, lambda s, i, j: te.sum(a[s, i, r] * b[s, r, j], axis=r), name="Y")
    seen = arrays[0], arrays[1]
    return "float32", 2.0 * BATCH * 64**3, _product_calls(threads, y, [a, b], arrays, seen)


def _product_calls(
    threads: int, y: Tensor, inputs: list[Tensor], given: list[Array], seen: tuple[Array, Array]
) -> dict[str, Call]:
    """All checked, into arrays allocated once, but for JAX: it has none, nor has `FRESH`."""
    f = build(y, inputs)
    (out,) = allocated([y])
    one, two = given
    target, (left, right) = np.empty_like(out), seen
    absent = missing(PEERS)
    calls: dict[str, Call] = {
        NAME: lambda: f(one, two, out=out),
        FRESH: lambda: f(one, two),
        "numpy": lambda: np.matmul(left, right, out=target),
    }
    if "torch" not in absent:
        calls["torch"] = _torch_product(threads, seen, np.empty_like(out))
    if "jax" not in absent:
        calls["jax"] = _jax_product(seen)
    if "numba" not in absent and max(one.shape[1:]) <= MOST_BY_HAND:
        calls["numba"] = _numba_product(threads, seen, np.empty_like(out))
    expected = np.matmul(left, right)
    for name, call in calls.items():
        _check(f"matmul by {name}", np.asarray(call()), expected)
    return calls


def _check(name: str, found: Array, expected: Array) -> None:
    apart = float(np.abs(found - expected).max()) / float(np.abs(expected).max())
    if not apart <= 1e-4:
        raise ArithmeticError(f"{name}: the result is off by {apart:.1e}.")


def _torch_product(threads: int, seen: tuple[Array, Array], out: Array) -> Call:
    import torch

    torch.set_num_threads(threads)
    tensors, place = [torch.from_numpy(a) for a in seen], torch.from_numpy(out)
    return lambda: torch.matmul(*tensors, out=place)


def _jax_product(seen: tuple[Array, Array]) -> Call:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    jax.config.update("jax_enable_x64", True)
    given, run = [jax.numpy.asarray(a) for a in seen], jax.jit(jax.numpy.matmul)
    return lambda: jax.block_until_ready(run(*given))


def _numba_product(threads: int, seen: tuple[Array, Array], out: Array) -> Call:
    from benchmarks.workloads.loops.by_numba import product, use_threads

    use_threads(threads)
    left, right, into = [a.reshape(-1, *a.shape[-2:]) for a in (*seen, out)]

    def call() -> Array:
        product(left, right, into)
        return out

    return call


def _convolution(name: str, part: str, threads: int) -> Made:
    """One of the three passes by itself; PyTorch's runs oneDNN."""
    p = WORKLOADS[name].problem()
    program = Program(p)
    output = {"Y": program.y, "dX": program.gradients[0], "dW": program.gradients[1]}[part]
    arguments = program.arguments("fwd" if part == "Y" else "grad")
    f = build(output, arguments)
    given = program.arrays("fwd" if part == "Y" else "grad")
    (out,) = allocated([output])
    calls: dict[str, Call] = {NAME: lambda: f(*given, out=out), FRESH: lambda: f(*given)}
    passes = p.numpy(p.inputs, p.head)
    calls["numpy"] = passes.forward if part == "Y" else passes.gradients
    calls[NAME]()
    expected = (passes.forward if part == "Y" else passes.gradients)()
    _check(f"{name} {part}", out, expected[1 if part == "dW" else 0])
    if part != "Y":
        del calls["numpy"]  # it computes both gradients
    if "torch" not in missing(PEERS):
        calls["torch"] = _torch_convolution(threads, name, part)
    return "float32", p.flops[0], calls


def _torch_convolution(threads: int, name: str, part: str) -> Call:
    import torch

    torch.set_num_threads(threads)
    p = WORKLOADS[name].problem()
    x, w, h = (torch.from_numpy(a) for a in (p.inputs["X"], p.inputs["W"], p.head))
    pad = WORKLOADS[name].sizes["pad"]
    if part == "Y":
        return lambda: torch.nn.functional.conv2d(x, w, None, 1, pad)
    mask = [part == "dX", part == "dW", False]
    back = torch.ops.aten.convolution_backward
    return lambda: back(h, x, w, None, [1, 1], [pad, pad], [1, 1], False, [0, 0], 1, mask)


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """What products are asked."""

    def named(start: str) -> list[Figures]:
        return [r for r in rows if r.name.startswith(start)]

    large = named("matmul")
    return those(
        [
            asked(large, "matmul 512 to 2048, share of the peak", "share of peak", 0.92),
            asked(large, "matmul 512 to 2048, OpenBLAS / ours", "numpy / ours", 1.03),
            asked(named("small"), "small products, best peer / ours", "best / ours", 1.0),
            asked(named("dense"), "the notebook's dense products, best / ours", "best / ours", 1.2),
            asked(named("conv_seed"), "conv_seed, oneDNN / ours", "torch / ours", 2.0),
            asked(named("conv3x3"), "conv3x3_64, oneDNN / ours", "torch / ours", 1.15),
        ]
    )


SUITE: Final = Suite(
    "products", "matrix products and convolutions pass by pass, beside the peak and the peers",
    measure, judge, peers=PEERS,
)  # fmt: skip
