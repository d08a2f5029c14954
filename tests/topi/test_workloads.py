"""The notebook's eight workloads: values, counted work, shape of the gradients and their texts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.bound import bound
from tensorad.ir.expr import TRUE, Axis, Call, Expr, Read, Reduce, Select
from tensorad.ir.order import any_node
from tensorad.ir.tensor import Compute, Tensor
from tensorad.ir.visit import (
    op_expressions,
    postorder,
    reads,
    topological_ops,
    uses_any,
)
from tensorad.workloads import WORKLOADS, Workload

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-4
SLACK = 1.05
Make = Callable[[], Workload]
LARGE = ("dense_big", "average_pool")

every_workload = pytest.mark.parametrize("make", WORKLOADS, ids=lambda m: m.__name__)


def largest_relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def check_agreement(make: Make) -> None:
    w = make()
    head, gradients = w.differentiate()
    arrays = w.arrays(seed=7)
    given = [arrays[t.name] for t in w.inputs]
    exact = {n: a.astype(np.float64) for n, a in arrays.items()}
    y, *found = ta.build([w.output, *gradients], [*w.inputs, head])(*given, arrays["H"])
    assert largest_relative_error(y, w.reference(exact)) <= TOLERANCE
    for g, e in zip(found, w.gradients(exact), strict=True):
        assert g.dtype == np.float32
        assert largest_relative_error(g, e) <= TOLERANCE


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "make",
    [m for m in WORKLOADS if m.__name__ not in LARGE],
    ids=lambda m: m.__name__,
)
def test_values_at_full_shapes(make: Make) -> None:
    check_agreement(make)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [m for m in WORKLOADS if m.__name__ in LARGE], ids=lambda m: m.__name__
)
def test_values_at_the_largest_shapes(make: Make) -> None:
    check_agreement(make)


@every_workload
def test_work_stays_within_the_bound(make: Make) -> None:
    w = make()
    _, gradients = w.differentiate()
    assert ta.work(gradients).iterations <= SLACK * bound(w.output, list(w.wrt))


def computes(tensors: list[Tensor]) -> list[Compute]:
    return [op for op in topological_ops(tensors) if isinstance(op, Compute)]


def forward_ops(w: Workload) -> set[object]:
    return set(topological_ops([w.output]))


def gradient_computes(w: Workload) -> list[Compute]:
    """What the gradients add to the forward program."""
    known = forward_ops(w)
    return [op for op in computes(w.differentiate()[1]) if op not in known]


def is_index_only(e: Expr) -> bool:
    return not any_node(e, lambda n: isinstance(n, Read))


def guards(op: Compute) -> Iterator[Expr]:
    """Conditions over indices alone: of selects and of reductions."""
    for e in postorder(*op_expressions(op)):
        if isinstance(e, Select) and is_index_only(e.cond):
            yield e.cond
        if isinstance(e, Reduce) and e.condition is not TRUE and is_index_only(e.condition):
            yield e.condition


def innermost_axis(op: Compute) -> Axis | None:
    inner = [e for b in op.bodies for e in postorder(b) if isinstance(e, Reduce)]
    axes = inner[0].axes if inner else op.axes
    return axes[-1] if axes else None


@every_workload
def test_no_guard_and_no_index_multiplication_innermost(make: Make) -> None:
    for op in gradient_computes(make()):
        assert list(guards(op)) == []
        innermost = innermost_axis(op)
        for r in reads(*op_expressions(op)):
            for e in postorder(*r.indices):
                if isinstance(e, Call) and e.op in ("mul", "mod"):
                    assert innermost is None or not uses_any(e, [innermost]), f"{e} in {r}"


@pytest.mark.parametrize("name", ["flatten", "average_pool"])
def test_data_movement_has_no_reduction(name: str) -> None:
    make = next(m for m in WORKLOADS if m.__name__ == name)
    ops = gradient_computes(make())
    assert len(ops) == 1
    assert not any(isinstance(e, Reduce) for e in postorder(*op_expressions(ops[0])))
    assert list(guards(ops[0])) == []


def test_the_weight_gradient_of_dense_sums_over_the_batch_alone() -> None:
    w = WORKLOADS[0]()
    d_weights = w.differentiate()[1][0]
    assert isinstance(d_weights.op, Compute)
    (body,) = d_weights.op.bodies
    assert isinstance(body, Reduce)
    assert [a.extent for a in body.axes] == [32]
    assert body.condition is TRUE


@every_workload
def test_gradient_texts(make: Make, golden: Callable[[str, str], None]) -> None:
    _, gradients = make().differentiate()
    golden(f"gradient_{make.__name__}", ta.PrintTensorRecursively(gradients))


PRINT_ALL = """
import hashlib, tensorad as ta
from tensorad.workloads import WORKLOADS
def texts():
    found = []
    for make in WORKLOADS:
        w = make()
        head, gradients = w.differentiate()
        found.append(ta.PrintTensorRecursively(gradients))
        found.append(str(ta.lower(gradients, [*w.inputs, head])))
    return "\\n".join(found)
one, two = texts(), texts()
assert one == two
print(hashlib.sha256(one.encode()).hexdigest(), len(one))
"""


@pytest.mark.slow
def test_texts_do_not_depend_on_the_hash_seed() -> None:
    printed = set()
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        result = subprocess.run(
            [sys.executable, "-c", PRINT_ALL],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        printed.add(result.stdout)
    assert len(printed) == 1


def node_count(tensors: list[Tensor]) -> int:
    ops = computes(tensors)
    return len(ops) + sum(len(postorder(*op_expressions(op))) for op in ops)


def gradients_of(y: Tensor, wrt: list[Tensor]) -> list[Tensor]:
    return ta.JacobianRecursive(y, wrt, ta.placeholder(y.shape, name="H"))


def dense_of(n: int) -> tuple[Tensor, list[Tensor]]:
    x, w = ta.placeholder((n, 2 * n), name="X"), ta.placeholder((3 * n, 2 * n), name="W")
    b = ta.placeholder((3 * n,), name="B")
    return topi.nn.dense(x, w, b), [x, w, b]


def conv2d_of(n: int) -> tuple[Tensor, list[Tensor]]:
    x, w = ta.placeholder((2, 3, n, n), name="X"), ta.placeholder((4, 3, 3, 3), name="W")
    return topi.nn.conv2d(x, w, [1, 1], [0, 0]), [x, w]


def pool_of(kernel: int, stride: int, kind: str) -> Callable[[int], tuple[Tensor, list[Tensor]]]:
    def make(n: int) -> tuple[Tensor, list[Tensor]]:
        x = ta.placeholder((1, 2, n, n), name="X")
        k, s = [kernel, kernel], [stride, stride]
        return topi.nn.pool(x, k, s, [0, 0, 0, 0], kind), [x]

    return make


def product_pool_of(n: int) -> tuple[Tensor, list[Tensor]]:
    x = ta.placeholder((1, 2, n, n), name="X")
    p, q = ta.reduce_axis(2, name="p"), ta.reduce_axis(2, name="q")
    y = ta.compute(
        (1, 2, n // 2, n // 2),
        lambda b, c, i, j: ta.prod(x[b, c, 2 * i + p, 2 * j + q], axis=[p, q]),
        name="Y",
    )
    return y, [x]


def softmax_of(n: int) -> tuple[Tensor, list[Tensor]]:
    x = ta.placeholder((6, n), name="X")
    return topi.nn.softmax(x), [x]


def flatten_of(n: int) -> tuple[Tensor, list[Tensor]]:
    x = ta.placeholder((2, 3, n, n), name="X")
    return topi.nn.flatten(x), [x]


def softmax_by_hand_of(n: int) -> tuple[Tensor, list[Tensor]]:
    x, w = ta.placeholder((6, n), name="X"), ta.placeholder((n, n), name="W")
    exps = topi.exp(topi.nn.dense(x, w))
    return exps / topi.sum(exps, axis=-1, keepdims=True), [x, w]


SCALED = {
    "dense": dense_of,
    "conv2d": conv2d_of,
    "average pool": pool_of(2, 2, "avg"),
    "max pool": pool_of(2, 2, "max"),
    "max pool 3x3": pool_of(3, 1, "max"),
    "max pool 3x3 stride 2": pool_of(3, 2, "max"),
    "product pool": product_pool_of,
    "softmax": softmax_of,
    "softmax by hand": softmax_by_hand_of,
    "flatten": flatten_of,
}


@pytest.mark.parametrize("name", SCALED)
def test_the_size_of_the_program_does_not_grow_with_the_extents(name: str) -> None:
    counts = {node_count(gradients_of(*SCALED[name](n))) for n in (20, 40)}
    assert len(counts) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name",
    ["max pool", "max pool 3x3", "max pool 3x3 stride 2", "product pool", "softmax"],
)
def test_folds_are_linear(name: str) -> None:
    """Iterations for each input element agree within 1 % over four sizes."""
    rates = []
    for n in (400, 800, 1600, 3200):
        y, wrt = SCALED[name](n)
        elements = float(np.prod(wrt[0].shape, dtype=float))
        rates.append(ta.work(gradients_of(y, wrt)).iterations / elements)
    assert max(rates) <= 1.01 * min(rates)


def symmetric(n: int) -> tuple[Tensor, list[Tensor]]:
    a = ta.placeholder((n, n), name="A")
    return ta.compute((n, n), lambda i, j: a[i, j] + a[j, i], name="Y"), [a]


def square_trace(n: int) -> tuple[Tensor, list[Tensor]]:
    a, k = ta.placeholder((n, n), name="A"), ta.reduce_axis(n, name="k")
    return ta.compute((n,), lambda i: ta.sum(a[i, k] * a[k, i], axis=k), name="Y"), [a]


def gram(n: int) -> tuple[Tensor, list[Tensor]]:
    a, k = ta.placeholder((n, n), name="A"), ta.reduce_axis(n, name="k")
    return ta.compute((n, n), lambda i, j: ta.sum(a[i, k] * a[j, k], axis=k), name="Y"), [a]


@pytest.mark.parametrize("make", [symmetric, square_trace, gram])
def test_two_reads_of_one_tensor_stay_within_the_bound(
    make: Callable[[int], tuple[Tensor, list[Tensor]]],
) -> None:
    y, wrt = make(12)
    gradients = gradients_of(y, wrt)
    assert ta.work(gradients).iterations <= SLACK * bound(y, wrt)


def test_the_plain_jacobian_counts_its_dense_domain() -> None:
    x, w = ta.placeholder((32, 10000), name="X"), ta.placeholder((3000, 10000), name="W")
    dense = ta.Jacobian(topi.nn.dense(x, w), w, False)
    assert ta.work(dense).iterations == 32 * 3000 * 3000 * 10000 * 10000
