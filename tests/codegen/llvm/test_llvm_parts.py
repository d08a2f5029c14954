"""Parts of the code generator by themselves, and hand-made kernels through all of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.codegen.llvm.addresses import Offset, side_by_side
from tensorad.codegen.llvm.guarded_reads import guarded_reads
from tensorad.codegen.llvm.loops import largest_block
from tensorad.codegen.llvm.nan_extrema import is_extremum
from tensorad.codegen.llvm.ops import conversion, iota, is_constant, operation, power
from tensorad.codegen.llvm.phases import function_text, phases
from tensorad.codegen.llvm.text import Code, Writer
from tensorad.codegen.llvm.windows import direct, of_axes
from tensorad.codegen.loops.ir import Assign, Fold, For, If, LoopProgram, Stmt, Store
from tensorad.codegen.runtime.executable import Executable
from tensorad.ir.combiner import max_combiner, min_combiner, sum_combiner
from tensorad.ir.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64
from tensorad.ir.expr import (
    Axis,
    Call,
    axis,
    call,
    const,
    int_const,
    param,
    read,
    select,
    size_var,
)
from tensorad.ir.tensor import Tensor
from tests.support.loops.small_loops import computed, inputs_of, kernel_of
from tests.support.oracles import evaluate

N = 37
X, Y = (te.placeholder((N,), name=n) for n in "XY")
R = axis("i", 0, N)


def copy(a: Axis, kind: str = "serial") -> For:
    return For(a, (Store((Y,), (a,), (read(X, (a,)),)),), kind)  # type: ignore[arg-type]


def doubled() -> list[Stmt]:
    return [For(R, (Store((Y,), (R,), (read(X, (R,)) * 2.0,)),), "vector")]


def summed() -> list[Stmt]:
    acc, out = param("a", FLOAT32), te.placeholder((1,), name="T")
    begin = Assign((acc,), (const(0.0, FLOAT32),))
    fold = For(R, (Fold((acc,), sum_combiner(FLOAT32), (read(X, (R,)),)),), "vector", 16, lanes=16)
    return [begin, fold, Store((out,), (int_const(0),), (acc,))]


def largest() -> list[Stmt]:
    acc, out = param("a", FLOAT32), te.placeholder((1,), name="M")
    begin = Assign((acc,), (const(-np.inf, FLOAT32),))
    fold = For(R, (Fold((acc,), max_combiner(FLOAT32), (read(X, (R,)),)),), "vector", 16, lanes=16)
    return [begin, fold, Store((out,), (int_const(0),), (acc,))]


def branched() -> list[Stmt]:
    then = Store((Y,), (R,), (read(X, (R,)),))
    other = Store((Y,), (R,), (const(1.0, FLOAT32),))
    return [For(R, (If(R % 3 < 1, (then,), (other,)),))]


def mirrored() -> list[Stmt]:
    return [For(R, (Store((Y,), (R,), (read(X, (N - 1 - R,)),)),), "vector")]


def shifted() -> list[Stmt]:
    value = select(R > 0, read(X, (R - 1,)), const(0.0, FLOAT32))
    return [For(R, (Store((Y,), (R,), (value,)),))]


def shared() -> list[Stmt]:
    return [copy(R, "parallel"), *branched()]


def stored_twice() -> list[Stmt]:
    """An element is read, stored twice in a row, and read again."""
    old, new = param("o", FLOAT32), param("n", FLOAT32)
    body = (
        Assign((old,), (read(Y, (R,)),)),
        *[Store((Y,), (R,), (read(X, (R,)) + more,)) for more in (1.0, 2.0)],
        Assign((new,), (read(Y, (R,)),)),
        Store((Y,), (R,), (new * 3.0 - old,)),
    )
    return [copy(R), For(R, body, "vector")]


MADE: list[Callable[[], list[Stmt]]] = [
    doubled, summed, largest, branched, mirrored, shifted, shared, stored_twice,
]  # fmt: skip


def native(body: list[Stmt], out: Tensor, x: np.ndarray) -> np.ndarray:
    program = LoopProgram((X,), (out,), (kernel_of(body, [out]),))
    executable = Executable(program)
    y = np.empty(out.shape, "f4")  # type: ignore[arg-type]
    executable.run(executable.layout({}, ()), [x.ctypes.data, y.ctypes.data])
    return y


@pytest.mark.parametrize("make", MADE)
def test_machine_code_computes_what_the_statements_say(make: Callable[[], list[Stmt]]) -> None:
    body = make()
    last = body[-1]
    inner = last.body[-1] if isinstance(last, For) else last
    inner = inner.then[0] if isinstance(inner, If) else inner
    assert isinstance(inner, Store)
    (out,) = inner.tensors
    x = np.random.default_rng(0).integers(-9, 9, N).astype("f4")
    (want,) = computed(kernel_of(body, [out]), {X: x})
    np.testing.assert_array_equal(native(body, out, x), want)


def test_parallel_loops_are_phases_of_their_own() -> None:
    j, k = axis("j", 0, N), axis("k", 0, N)
    serial, parallel, after = copy(R), copy(j, "parallel"), copy(k)
    assert phases((serial, parallel, after)) == [
        ((serial,), False), ((parallel,), True), ((after,), False),
    ]  # fmt: skip
    assert phases((serial, after)) == [((serial, after), False)]
    acc = param("a", FLOAT32)
    use = For(k, (Store((Y,), (k,), (acc,)),))
    whole = (Assign((acc,), (const(0.0, FLOAT32),)), parallel, use)
    assert phases(whole) == [(whole, False)]  # a scalar crosses the border


def test_the_text_of_a_phase() -> None:
    body = tuple(doubled())
    tensors = (*inputs_of(body), Y)
    made = function_text("kernel0", body, False, tensors, 1, kernel_of(body, [Y]))
    assert made.text.startswith("define ")
    assert "@kernel0(" in made.text
    assert "fmul" in made.text
    assert made.largest_block > 0
    assert "@other(" in made.renamed("other").text
    assert largest_block(["  a", "x:", "  b", "  c", "y:"]) == 2


def test_extrema_of_floats_are_special() -> None:
    assert is_extremum(max_combiner(FLOAT64))
    assert is_extremum(min_combiner(FLOAT32))
    assert not is_extremum(max_combiner(INT64))
    assert not is_extremum(sum_combiner(FLOAT64))


@pytest.mark.parametrize(
    ("op", "lanes", "text"),
    [("add", 0, "fadd float %x, %y"), ("mul", 8, "fmul <8 x float> %x, %y")],
)
def test_operations_are_instructions(op: str, lanes: int, text: str) -> None:
    code = Code()
    w = Writer(code, 0, FLOAT32, lanes)
    e = call(op, read(X, (R,)), read(Y, (R,)))
    assert isinstance(e, Call)
    assert not is_constant(operation(w, e, ("%x", "%y")))
    assert text in "\n".join(code.region.lines)


def test_conversions_and_powers() -> None:
    code = Code()
    w = Writer(code, 0, FLOAT32, 0)
    conversion(w, "%x", FLOAT64)
    conversion(w, "%x", BOOL)
    conversion(w, "%x", INT32)
    power(w, "%x", 5)
    text = "\n".join(code.region.lines)
    assert "fpext float %x to double" in text
    assert "fcmp une float %x" in text
    assert text.count("fmul") == 3  # x^2, x^4, x^5
    assert power(w, "%x", 1) == "%x"
    assert iota(3, 2, 4) == "<i64 2, i64 6, i64 10>"
    assert is_constant("1.0")


def test_reads_under_a_branch_get_their_test() -> None:
    inside = select(R > 0, read(X, (R - 1,)), const(0.0, FLOAT32))
    ((e, test),) = guarded_reads((inside,), [R]).items()
    assert e is read(X, (R - 1,))
    assert "0 <=" in str(test) or ">= 0" in str(test)
    assert guarded_reads((read(X, (R,)) * 2.0,), [R]) == {}
    safe = select(R > 0, read(X, (R,)), const(0.0, FLOAT32))
    assert guarded_reads((safe,), [R]) == {}


def test_stores_that_fill_a_range_together() -> None:
    j = axis("j", 0, 9)
    plans = [Offset({j: 8}, constant, 2) for constant in (1, 0, 5)]
    assert side_by_side(plans) == [[1, 0], [2]]
    assert side_by_side([plans[0], Offset({R: 8}, 1, 2)]) == []
    assert not plans[0].has_row_per_lane
    assert Offset({j: 1}, 0, 1000).has_row_per_lane


def test_statements_outside_of_inner_loops() -> None:
    store = copy(R).body[0]
    assert direct([store, copy(R), If(R > 3, (store,))]) == [store]
    assert of_axes(R + 3)
    assert not of_axes(read(te.placeholder((N,), "int64"), (R,)))


def test_reads_under_a_branch_are_held_against_symbolic_extents() -> None:
    n = size_var("n")
    t = te.placeholder((n,), "float32", name="T")
    ((e, test),) = guarded_reads((select(R < n, read(t, (R,)), const(0.0, FLOAT32)),), [R]).items()
    assert e is read(t, (R,))
    assert [evaluate(test, {R: 3, n: m}) for m in (3, 4)] == [False, True]
