"""Machine code against the interpreters: statements, lanes, tails, memory and every operation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.building import build
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import (
    Assign,
    Check,
    Fold,
    For,
    If,
    Kernel,
    LoopKind,
    LoopProgram,
    Stmt,
    Store,
)
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.kernel_cache import compiled_kernel, kernel_text
from tensorad.compiled import CompiledFunction
from tensorad.config import override
from tensorad.errors import BoundsError
from tensorad.ir.combiner import arg_combiner, max_combiner, sum_combiner
from tensorad.ir.dtypes import DTYPES, FLOAT32, FLOAT64, INT64, DType
from tensorad.ir.expr import Expr, axis, call, const, int_const, param, select
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor

RNG = np.random.default_rng(7)


def run(body: tuple[Stmt, ...], inputs: Sequence[Tensor], out: Tensor, *arrays: Any) -> Any:
    """A hand-written kernel by machine code, checked against the loop interpreter."""
    kernel = Kernel("k", body, (out,), tuple(inputs))
    program = LoopProgram(tuple(inputs), (out,), (kernel,))
    got = CompiledFunction([out], program, "k")(*arrays)
    want, _ = interpret_loops(program, dict(zip(inputs, arrays, strict=True)))
    np.testing.assert_allclose(got, want[0], rtol=1e-5)
    return got


def vector_of(n: int, name: str = "O", dtype: str = "float32") -> Tensor:
    return te.placeholder((n,), dtype=dtype, name=name)


@pytest.mark.parametrize("n", [0, 1, 7, 15, 16, 17, 31, 33, 64, 65, 100, 200])
@pytest.mark.parametrize("width", [0, 16, 64])
def test_sum_in_lanes(n: int, width: int) -> None:
    x, out, acc, i = vector_of(n, "X"), vector_of(1), param("acc", FLOAT32), axis("i", 0, n)
    total = sum_combiner(FLOAT32)
    body = (
        Assign((acc,), total.identity),
        For(i, (Fold((acc,), total, (x[i] * x[i],)),), "vector", width),
        Store((out,), (int_const(0),), (acc + 1.0,)),
    )
    run(body, [x], out, RNG.random(n).astype("f"))


def test_lanes_live_through_serial_loops() -> None:
    x, out = te.placeholder((5, 26), name="X"), vector_of(1)
    acc, i, j = param("acc", FLOAT32), axis("i", 0, 5), axis("j", 0, 26)
    total = sum_combiner(FLOAT32)
    inner = For(j, (Fold((acc,), total, (x[i, j],)),), "vector", 16)
    body = (
        Assign((acc,), total.identity),
        For(i, (If(i > 0, (inner,)),)),
        Store((out,), (int_const(0),), (acc,)),
    )
    run(body, [x], out, RNG.random((5, 26)).astype("f"))
    text, _ = kernel_text(Kernel("k", body, (out,), (x,)), kernel_key_tensors(body, x, out))
    assert text.count("shufflevector <16 x float>") == 2, "lanes are combined once, at the end"


LOOPS: tuple[tuple[LoopKind, int], ...] = (("vector", 64), ("vector", 16), ("serial", 5))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("second", LOOPS)
@pytest.mark.parametrize("first", LOOPS)
def test_one_scalar_is_folded_in_two_loops(
    first: tuple[LoopKind, int], second: tuple[LoopKind, int], shared: bool
) -> None:
    x, out, acc = vector_of(64, "X"), vector_of(1), param("acc", FLOAT32)
    axes = [axis("i", 0, n) for _, n in (first, second)]
    total = sum_combiner(FLOAT32)
    fold = Fold((acc,), total, (x[3],))
    folds = [fold if shared else Fold((acc,), total, (x[i],)) for i in axes]
    kinds = [kind for kind, _ in (first, second)]
    loops = [For(i, (f,), kind, 64) for i, f, kind in zip(axes, folds, kinds, strict=True)]
    begin, end = Assign((acc,), (const(0.5, FLOAT32),)), Store((out,), (int_const(0),), (acc,))
    run((begin, *loops, end), [x], out, RNG.random(64).astype("f"))


@pytest.mark.parametrize(("n", "loops"), [(16, 0), (21, 0), (32, 0), (64, 1), (70, 1)])
def test_one_iteration_in_lanes_needs_no_loop(n: int, loops: int) -> None:
    x, out, last = vector_of(n, "X"), vector_of(n, "Y"), vector_of(1, "Z")
    acc, i = param("acc", FLOAT32), axis("i", 0, n)
    largest = max_combiner(FLOAT32)
    step: tuple[Stmt, ...] = (
        Fold((acc,), largest, (x[i],)),
        Store((out,), (i,), (x[i] * 2.0,)),
    )
    body = (
        Assign((acc,), (const(0.25, FLOAT32),)),
        For(i, step, "vector", 32),
        Store((last,), (int_const(0),), (acc,)),
    )
    kernel = Kernel("k", body, (out, last), (x,))
    text, _ = kernel_text(kernel, kernel_key(kernel)[1])
    assert len(re.findall(r"(?m)^loop\d+:", text)) == loops
    values = RNG.normal(size=n).astype("f")
    program = LoopProgram((x,), (out, last), (kernel,))
    doubled, found = CompiledFunction([out, last], program, "k")(values)
    np.testing.assert_array_equal(doubled, values * 2)
    assert found[0] == max(values.max(), np.float32(0.25))


def kernel_key_tensors(body: tuple[Stmt, ...], x: Tensor, out: Tensor) -> tuple[Tensor, ...]:
    return kernel_key(Kernel("k", body, (out,), (x,)))[1]


def test_scalar_and_lane_folds_of_one_accumulator() -> None:
    x, out = vector_of(40, "X"), vector_of(3)
    acc, o, i, j = (param("acc", FLOAT32), axis("o", 0, 3), axis("i", 0, 32), axis("j", 32, 40))
    largest = max_combiner(FLOAT32)
    body = (
        Assign((acc,), (const(0.25, FLOAT32),)),
        For(
            o,
            (
                For(i, (Fold((acc,), largest, (x[i] - o.astype("float32"),)),), "vector", 16),
                For(j, (Fold((acc,), largest, (x[j],)),)),
                Store((out,), (o,), (acc,)),
            ),
        ),
    )
    run(body, [x], out, RNG.normal(size=40).astype("f"))


def test_tuple_fold_and_branches_inside_lanes() -> None:
    x, out = te.placeholder((9, 21), name="X"), te.placeholder((21,), dtype="int64", name="O")
    i, k = axis("i", 0, 21), axis("k", 0, 9)
    arg = arg_combiner("maximum", FLOAT32)
    state = (param("v", FLOAT32), param("p", INT64))
    fold: Stmt = Fold(state, arg, (x[k, i], k))
    body = (
        For(
            i,
            (
                Assign(state, arg.identity),
                For(k, (If(k % 2 == 0, (fold,), ()),)),
                Store((out,), (i,), (state[1],)),
            ),
            "vector",
        ),
    )
    run(body, [x], out, RNG.random((9, 21)).astype("f"))


@pytest.mark.parametrize("stride", [-4, -2, -1, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bool", "int8"])
def test_strided_reads_and_writes(stride: int, dtype: str) -> None:
    n = 37
    x, out = vector_of(6 * n, "X", dtype), vector_of(6 * n, "O", dtype)
    i = axis("i", 0, n)
    where: Expr = i * stride + 200 if stride < 0 else i * stride + 1
    j = axis("j", 0, 6 * n)
    body = (
        For(j, (Store((out,), (j,), (const(0, x.dtype),)),)),
        For(i, (Store((out,), (where,), (x[where],)),), "vector"),
    )
    run(body, [x], out, (RNG.random(6 * n) * 2).astype(dtype))


@pytest.mark.parametrize("n", [1, 5, 16, 37])
@pytest.mark.parametrize("parts", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_neighbouring_stores_are_interleaved(n: int, parts: int, dtype: str) -> None:
    x, out = vector_of(n, "X", dtype), vector_of(parts * n, "O", dtype)
    i = axis("i", 0, n)
    other = call("not", x[i]) if dtype == "bool" else call("neg", x[i])
    values = [x[i] if p % 2 else other for p in range(parts)]
    stores = [Store((out,), (i * parts + p,), (v,)) for p, v in enumerate(values)]
    body: tuple[Stmt, ...] = (For(i, tuple(stores[::-1]), "vector"),)
    run(body, [x], out, (RNG.random(n) * 2).astype(dtype))
    if n > 1:
        kernel = Kernel("k", body, (out,), (x,))
        assert "scatter" not in kernel_text(kernel, kernel_key(kernel)[1])[0]


def test_a_failing_check_names_the_first_index() -> None:
    k = te.placeholder((100,), dtype="int64", name="K")
    x, out = vector_of(10, "X"), vector_of(100)
    i = axis("i", 0, 100)
    check = Check(x[k[i]], 0, int_const(10))
    store = Store((out,), (i,), (x[k[i]],))
    numbers = RNG.integers(0, 10, 100)
    numbers[[57, 83]] = 12, 11
    for kind in ("serial", "parallel", "vector"):
        for threads in (1, 3):
            kernel = Kernel("k", (For(i, (check, store), kind),), (out,), (k, x))
            f = CompiledFunction([out], LoopProgram((k, x), (out,), (kernel,)), "k")
            with override(num_threads=threads), pytest.raises(BoundsError, match="at index 12 of"):
                f(numbers, np.zeros(10, "f"))


def numbers(dtype: DType) -> np.ndarray:
    """Ordinary and extreme values."""
    if dtype.is_float:
        some = [0.0, -0.0, 1, -1, 0.5, -2.5, 1.5, 3e9, -3e9, 1e-40, np.inf, -np.inf, np.nan]
    elif dtype.kind == "bool":
        some = [0, 1]
    else:
        some = [0, 1, 2, 3, 7, dtype.lowest, dtype.highest, int(dtype.highest) - 1]
        some += [-1, -2, -7] if dtype.kind == "int" else []
    return np.array(some).astype(str(dtype))


INTEGER = ("add", "sub", "mul", "floordiv", "mod", "minimum", "maximum", "lt", "le", "eq", "ne")
FLOAT = ("add", "sub", "mul", "div", "minimum", "maximum", "lt", "le", "gt", "ge", "eq", "ne")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_arithmetic_on_extreme_values(dtype: DType) -> None:
    some = numbers(dtype)
    a, b = (v.ravel() for v in np.meshgrid(some, some))
    n = len(a)
    x, y = vector_of(n, "X", str(dtype)), vector_of(n, "Y", str(dtype))
    binary = FLOAT if dtype.is_float else INTEGER
    outs = [te.compute((n,), lambda i, op=op: call(op, x[i], y[i]), name=op) for op in binary]
    unary = ("neg", "abs", "sign") + (
        ("floor", "ceil", "round", "trunc", "isnan", "isfinite") if dtype.is_float else ()
    )
    outs += [te.compute((n,), lambda i, op=op: call(op, x[i]), name=op) for op in unary]
    given = {x: a, y: b}
    for schedule in (False, True):
        program = lower_program(outs, [x, y], schedule=schedule)
        results = CompiledFunction(outs, program, "f")(a, b)
        for t, got, want in zip(outs, results, interpret(outs, given), strict=True):
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(got, want.astype(got.dtype), err_msg=t.name)


@pytest.mark.parametrize("source", DTYPES)
def test_conversions(source: DType) -> None:
    some = np.tile(numbers(source), 5)
    x = vector_of(len(some), "X", str(source))
    outs = [te.compute(x.shape, lambda i, d=d: x[i].astype(d), name=str(d)) for d in DTYPES]
    for t, got, want in zip(outs, build(outs, [x])(some), interpret(outs, {x: some}), strict=True):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(got, want.astype(got.dtype), err_msg=t.name)


def test_integer_powers_wrap() -> None:
    x, y = vector_of(40, "X", "int64"), vector_of(40, "Y", "int64")
    a, b = RNG.integers(-9, 9, 40), RNG.integers(-2, 40, 40)
    out = te.compute((40,), lambda i: x[i] ** y[i], name="pow")
    np.testing.assert_array_equal(build(out, [x, y])(a, b), interpret(out, {x: a, y: b}))


def test_division_of_what_wrapped_around() -> None:
    """max(x, 0) is never negative, max(x, 0) * 3 is from 2**63 on."""
    x = vector_of(9, "X", "int64")
    ks = [te.reduce_axis((j, j + 1), name=f"k{j}") for j in range(2)]
    total = [te.sum(te.maximum(x[0], x[k]), axis=k) for k in ks]
    bodies = [
        lambda i: te.maximum(x[i], 0) * 3 // 2,
        lambda i: (te.maximum(x[i], 0) + 5) // 3,
        lambda i: (te.maximum(x[i], 0) * 6364136223846793005 + 1) % 7,
        lambda i: x[i] % 1000003 * (1 << 60) % 11,
        lambda i: te.minimum(te.maximum(x[i], 0) * 4, 1 << 61) // 3,
        lambda i: (te.maximum(total[0], 0) + 5 + i) // 3,
        lambda i: te.select(te.maximum(total[1], 0) + 5 >= 0, 1, 2),
        lambda i: te.select(x[i] % 5 + (2**63 - 3) > x[i] % 5, 1, 2),
        lambda i: (x[i] % 5 + (2**63 - 3)) // 3,
    ]
    outs = [te.compute((9,), body, name=f"O{n}") for n, body in enumerate(bodies)]
    a = np.array([2**63 - 1, 1, 5, 2**62, 2**61 + 3, -4, 7, 0, 123456789012345678])
    for got, want in zip(build(outs, [x])(a), interpret(outs, {x: a}), strict=True):
        np.testing.assert_array_equal(got, want)


def test_untaken_reads_do_not_fault() -> None:
    x, k = vector_of(8, "X"), vector_of(8, "K", "int64")

    def body(i: Expr) -> Expr:
        near = select((k[i] >= 0) & (k[i] < 8), x[k[i]], const(-1, FLOAT32))
        return near + select(i > 0, x[i - 1], const(0, FLOAT32))

    out = te.compute((8,), body, name="O")
    far = np.array([0, 1 << 40, -(1 << 40), 3, 8, -1, 7, 2])
    a = RNG.random(8).astype("f")
    for check in (True, False):
        got = build(out, [x, k], assume_in_bounds=check)(a, far)
        np.testing.assert_array_equal(got, interpret(out, {x: a, k: far}).astype("f"))


def test_results_do_not_depend_on_threads_or_layout() -> None:
    x = te.placeholder((40, 3000), dtype="float64", name="X")
    k = te.reduce_axis(3000, name="k")
    out = te.compute((40,), lambda i: te.sum(call("exp", x[i, k]), axis=k), name="O")
    f = build(out, [x])
    a = RNG.normal(size=(40, 3000))
    results = []
    for threads in (1, 2, 5):
        with override(num_threads=threads):
            results.append(f(a))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_equal_loops_are_compiled_once() -> None:
    def program(name: str) -> Kernel:
        x = vector_of(30, name)
        out = te.compute((30,), lambda i: x[i] * 2.0 + 1.0, name=f"{name}2")
        return lower_program([out], [x]).kernels[0]

    assert compiled_kernel(program("A"))[0] is compiled_kernel(program("B"))[0]


def test_the_text_does_not_depend_on_names_or_addresses() -> None:
    def text(name: str) -> str:
        x = te.placeholder((5, 70), dtype=FLOAT64, name=name)
        k = te.reduce_axis(70, name="k")
        out = te.compute((5,), lambda i: te.sum(x[i, k], axis=k), name=name)
        kernel = lower_program([out], [x]).kernels[0]
        return kernel_text(kernel, kernel_key(kernel)[1])[0]

    assert text("A") == text("B")


def test_groups_of_three_registers_cover_loops_of_any_length() -> None:
    n = ta.size("n")
    x = ta.placeholder((n,), name="X")
    k = ta.reduce_axis(n, name="k")
    total = ta.compute((), lambda: ta.sum(x[k], axis=k), name="S")
    f = ta.build(total, [x], schedule=ta.Schedule(vector="k", tile=(1, 3)))
    for count in (1, 31, 47, 48, 49, 64, 95, 97, 200):
        assert f(np.ones(count, np.float32)) == count
