"""The main job: differentiate, eliminate, compile, check and time the notebook's operators."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from tensorad.autodiff import (
    InlineNonReductions,
    Jacobian,
    OptimizeAndLiftNonzeronessConditions,
    generalized_matmul,
)
from tensorad.autodiff.jacobian import direct_jacobian
from tensorad.bound import bound
from tensorad.building import build
from tensorad.compiled import CompiledFunction
from tensorad.counting import work
from tensorad.ir.analysis.symbolic_points import Count
from tensorad.ir.tensor import Tensor
from tensorad.ir.text.printer import format_tensor_recursively
from tensorad.workloads import WORKLOADS, Array, Workload, dense_big

TOLERANCE = 1e-4
"""Agreement demanded of float32 results, relative to the largest value."""


@dataclass(frozen=True)
class Result:
    """One row of the table."""

    name: str
    forward_ms: float
    backward_ms: float
    work: Count
    bound: int
    seed_ms: tuple[int, int]
    error: float

    @property
    def agrees(self) -> bool:
        return self.error <= TOLERANCE


def largest_error(found: Sequence[Array], expected: Sequence[Array]) -> float:
    """The largest difference over the arrays, each relative to its largest value."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        scale = float(np.abs(b).max(initial=0.0)) or 1.0
        worst = max(worst, float(np.abs(a - b).max(initial=0.0)) / scale)
    return worst


def median_ms(call: Callable[[], object], seconds: float = 0.4, least: int = 5) -> float:
    """The median duration of a call in milliseconds, after one warm-up call."""
    call()
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e3


def _time(f: CompiledFunction, arrays: list[Array], shapes: Sequence[Tensor]) -> float:
    out = [np.empty(f_out.shape, f_out.dtype) for f_out in shapes]
    return median_ms(lambda: f(*arrays, out=out))


def run(workload: Workload) -> Result:
    """Differentiate, build, check against float64 NumPy, count and time one workload."""
    head, gradients = workload.differentiate()
    forward = build([workload.output], list(workload.inputs))
    backward = build(gradients, [*workload.inputs, head])
    arrays = workload.arrays()
    given = [arrays[t.name] for t in workload.inputs]
    exact = {n: a.astype(np.float64) for n, a in arrays.items()}
    found = [forward(*given), *_listed(backward(*given, arrays["H"]))]
    expected = [workload.reference(exact), *workload.gradients(exact)]
    return Result(
        name=workload.name,
        forward_ms=_time(forward, given, [workload.output]),
        backward_ms=_time(backward, [*given, arrays["H"]], gradients),
        work=work(gradients).iterations,
        bound=bound(workload.output, list(workload.wrt)),
        seed_ms=workload.seed_ms,
        error=largest_error(found, expected),
    )


def _listed(values: Array | Sequence[Array]) -> list[Array]:
    return [values] if isinstance(values, np.ndarray) else list(values)


def show_dense(workload: Workload) -> None:
    """The gradient of the weights, as the naive Jacobian product and after elimination."""
    head, gradients = workload.differentiate()
    weights = workload.wrt[0]
    product = _reads(workload.output)
    naive = direct_jacobian(product, weights, optimize=False)
    print("The Jacobian by W as the definition says:\n")
    print(format_tensor_recursively(naive))
    eliminated = Jacobian(product, weights)
    contracted = generalized_matmul(head, eliminated, 2)
    inlined = InlineNonReductions(contracted, [eliminated])
    print("\nH times that Jacobian, its zeros not yet removed:\n")
    print(format_tensor_recursively(inlined))
    print("\nThe same after zero elimination:\n")
    print(format_tensor_recursively(OptimizeAndLiftNonzeronessConditions(inlined)))
    print("\nWhat JacobianRecursive returns for W and B:\n")
    print(format_tensor_recursively(gradients))


def _reads(y: Tensor) -> Tensor:
    """The product inside a dense layer with a bias."""
    from tensorad.ir.visit import op_inputs

    return op_inputs(y.op)[0]


def table(results: Sequence[Result]) -> str:
    """The results as aligned text."""
    header = (
        "workload", "forward ms", "backward ms", "ratio", "work", "B", "seed fwd", "seed bwd",
        "error", "agrees",
    )  # fmt: skip
    rows = [header]
    for r in results:
        rows.append((
            r.name, f"{r.forward_ms:.3f}", f"{r.backward_ms:.3f}",
            f"{r.backward_ms / r.forward_ms:.2f}", f"{r.work}", f"{r.bound}",
            f"{r.seed_ms[0]}", f"{r.seed_ms[1]}", f"{r.error:.1e}", "yes" if r.agrees else "NO",
        ))  # fmt: skip
    widths = [max(len(row[n]) for row in rows) for n in range(len(header))]
    lines = []
    for row in rows:
        first, *rest = [
            c.ljust(w) if n == 0 else c.rjust(w)
            for n, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join([first, *rest]))
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the dense layer, or with --all every workload; the exit code says whether all agree."""
    parser = argparse.ArgumentParser(prog="python -m tensorad", description=__doc__)
    parser.add_argument("--all", action="store_true", help="all eight workloads as one table")
    options = parser.parse_args(arguments)
    if options.all:
        makers = tqdm(WORKLOADS, unit="workload", leave=False)
        results = [run(make()) for make in makers]
    else:
        workload = dense_big()
        show_dense(workload)
        results = [run(workload)]
        print()
    print(table(results))
    return 0 if all(r.agrees for r in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
