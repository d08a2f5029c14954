"""Loops that store: how many registers they take at a time, and that all elements are met."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.building import build
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.kernel_cache import kernel_text
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Tensor
from tests.support.machines import described

WIDE = "vector_bytes=64,registers=32,l2=1048576,l3=33554432"
N = 1024


def order(n: int, f: Callable[[Expr, Expr], Expr], machine: str = WIDE) -> str:
    """The loads and stores of a loop over two arrays: l and s, in the order of the text."""
    a, b = (te.placeholder((n,), name=name) for name in "AB")
    y = te.compute((n,), lambda i: f(a[i], b[i]), name="Y")
    with described(machine):
        (kernel,) = lower_program([y], [a, b]).kernels
        text, _ = kernel_text(kernel, kernel_key(kernel)[1])
    lines = [line for line in text.splitlines() if "<16 x float>" in line]
    found = [
        "l" if " = load " in line else "s" if line.startswith("store ") else "" for line in lines
    ]
    return "".join(found)


def test_several_registers_are_read_before_one_is_stored() -> None:
    assert order(N, lambda x, y: x * y) == "l" * 8 + "s" * 4
    assert order(N, lambda x, y: x * y, f"{WIDE},vector_bytes=16,registers=32") == "llllss"
    assert order(N, lambda x, y: x * y, f"{WIDE},vector_bytes=16,registers=16") == "lls"


def test_a_pass_that_asks_for_rows_reads_several_registers_first() -> None:
    """A fetch of each line beside the group of registers."""
    x, head = (te.placeholder((512, N), name=n) for n in ("X", "head"))
    k = te.reduce_axis(N, name="k")
    s = te.compute((512,), lambda i: te.sum(x[i, k] * head[i, k], axis=k), name="S")
    y = te.compute((512, N), lambda i, j: (x[i, j] - s[i]) * (head[i, j] + s[i]), name="Y")
    with described(f"{WIDE},l3=1048576"):
        (kernel,) = lower_program([y], [x, head]).kernels
        text, _ = kernel_text(kernel, kernel_key(kernel)[1])
    block = next(b for b in re.split(r"\n\w+:\n", text) if b.count("!nontemporal") == 4)
    assert len(re.findall("llvm.prefetch.p0.*i32 0, i32 2", block)) == 4
    lines = [line for line in block.splitlines() if "<16 x float>" in line]
    kinds = ["l" if " = load " in x else "s" if x.startswith("store ") else "" for x in lines]
    assert "".join(kinds) == "l" * 8 + "s" * 4


def test_a_pass_that_adds_to_sums_in_memory_reads_several_registers_first() -> None:
    """Only what streams waits: the stores of sums beside it take no part in the choice."""
    x, head, g = te.placeholder((512, N)), te.placeholder((512, N)), te.placeholder((N,))
    y = topi.nn.layer_norm(x, g, te.const(np.zeros(N, "f4")), axis=1)
    with described(f"{WIDE},l3=1048576"):
        program = lower_program(list(ta.vjp(y, [x, g], head)), [x, g, head])
        texts = [kernel_text(k, kernel_key(k)[1])[0] for k in program.kernels]
    blocks = [b for t in texts for b in re.split(r"\n\w+:\n", t)]
    (block,) = [b for b in blocks if b.count("!nontemporal") == 4]
    before, after = block.split("!nontemporal", 1)
    assert len(re.findall(r" = load <16 x float>", before)) == 12
    assert len(re.findall(r" = load <16 x float>", after)) == 4


def test_short_loops_and_functions_take_one_register() -> None:
    assert order(240, lambda x, y: x * y) == "lls"
    assert order(N, lambda x, y: te.exp(x) * y) == "lls"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [256, 257, 271, 273, 320, 383, 511])
def test_every_element_is_stored_once(n: int, dtype: str, streaming: bool) -> None:
    a, v = te.placeholder((3, n), dtype, name="A"), te.placeholder((n,), dtype, name="V")
    y = te.compute((3, n), lambda i, j: (a[i, j] - v[j]) * v[j], name="Y")
    with described(f"{WIDE},vector_bytes=64"):
        f = build(y, [a, v], schedule=ta.Schedule(streaming=streaming))
    rng = np.random.default_rng(n)
    x, w = rng.standard_normal((3, n)).astype(dtype), rng.standard_normal(n).astype(dtype)
    x[1, n // 2] = np.nan
    for offset in (0, 1, 3, 15):
        room = np.full(3 * n + 32, 7, dtype)
        f(x, w, out=room[offset : offset + 3 * n].reshape(3, n))
        np.testing.assert_array_equal(room[offset : offset + 3 * n].reshape(3, n), (x - w) * w)
        assert (room[:offset] == 7).all() and (room[offset + 3 * n :] == 7).all()


@pytest.mark.parametrize("apart", [False, True])
def test_rows_begin_with_registers_that_end_before_a_line(apart: bool) -> None:
    """Unless lanes are apart: masked lanes in front of a row are neither read nor stored."""
    n = 300
    a = te.placeholder((5, 3 * n if apart else n), name="A")
    y = te.compute((5, n), lambda i, j: a[i, 3 * j if apart else j] * 2.0, name="Y")
    choices = ta.Schedule(streaming=True)
    with described(WIDE):
        (kernel,) = lower_program([y], [a], choices=choices).kernels
        text, _ = kernel_text(kernel, kernel_key(kernel)[1])
        f = build(y, [a], schedule=choices)
    assert ("icmp sge <16 x i64>" in text) is not apart
    x = np.random.default_rng(n).standard_normal(a.shape).astype("f4")
    for start in range(16):
        room = np.full(5 * n + 64, 7, "f4")
        begin = start + -room.ctypes.data % 64 // 4
        given = np.empty(x.size + 1024, "f4")
        for shift in (0, start, 1020):
            mine = given[shift : shift + x.size].reshape(x.shape)
            mine[...] = x
            got = room[begin : begin + 5 * n].reshape(5, n)
            f(mine, out=got)
            np.testing.assert_array_equal(got, 2 * x[:, :: 3 if apart else 1][:, :n])
        assert (room[:begin] == 7).all() and (room[begin + 5 * n :] == 7).all()


def text_of(y: Tensor, inputs: list[Tensor]) -> str:
    choices = ta.Schedule(streaming=True, fuse=True)
    (kernel,) = lower_program([y], inputs, choices=choices).kernels[-1:]
    return kernel_text(kernel, kernel_key(kernel)[1])[0]


def test_lanes_that_compute_where_they_read_have_no_common_start() -> None:
    """The largest of three decides for each lane which row it reads."""
    n, m = 5, 608
    q, x = te.placeholder((n, 3, m), "int64", name="Q"), te.placeholder((n + 2, m), name="X")
    k = te.reduce_axis(3, name="k")
    which = te.compute((n, m), lambda i, j: te.argmax(q[i, k, j], axis=k), name="which")
    y = te.compute((n, m), lambda i, j: x[which[i, j] + i, j], name="Y")
    rng = np.random.default_rng(0)
    given = rng.integers(-9, 9, (n, 3, m)), rng.standard_normal((n + 2, m)).astype("f4")
    with described(WIDE):
        f = build([y, which], [q, x], schedule=ta.Schedule(streaming=True, fuse=True))
    got, chosen = f(*given)
    np.testing.assert_array_equal(chosen, given[0].argmax(1))
    np.testing.assert_array_equal(got, given[1][chosen + np.arange(n)[:, None], np.arange(m)])


def test_elements_that_say_where_rows_are_need_a_row() -> None:
    """Where there are no columns, there is no last element of P either."""

    def rows(n: Dim, m: Dim) -> str:
        x, p = te.placeholder((n, 7, m), name="X"), te.placeholder((m,), "int64", name="P")
        at = te.minimum(te.maximum(p[m - 1], 0), 6)
        return text_of(te.compute((n, m), lambda i, j: x[i, at, j] * 2.0, name="Y"), [x, p])

    with described(WIDE):
        assert "icmp sge <16 x i64>" in rows(5, 608)
        assert "icmp sge <16 x i64>" not in rows(te.size("n"), te.size("m"))


def crossings(y: Tensor, *inputs: Tensor) -> int:
    """Addresses that are looked at before a row begins with lanes of the page before."""
    with described(WIDE):
        kernels = lower_program([y], inputs, choices=ta.Schedule(streaming=True)).kernels
        text, _ = kernel_text(kernels[-1], kernel_key(kernels[-1])[1])
    return len(re.findall(f"icmp ule i64 %\\w+, {4096 - 64}$", text, re.M))


def test_only_what_many_rows_read_must_not_cross_into_the_page_before() -> None:
    """The page before a later row is the tensor's own; that before a vector may not be there."""
    a, g = te.placeholder((64, N), name="A"), te.placeholder((N,), name="g")
    y = te.compute((64, N), lambda i, j: a[i, j] * g[j], name="Y")
    assert crossings(y, a, g) == 1
    turned = te.compute((64, N), lambda i, j: a[63 - i, j] * 2.0, name="Y")
    assert crossings(turned, a) == 0


def test_rows_that_are_read_again_and_again_must_not_cross_into_the_page_before() -> None:
    """Many rows may read the first one: each of some products, or what data picks."""
    a, h = te.placeholder((8, 64, N), name="A"), te.placeholder((8, N), name="H")
    y = te.compute((8, 64, N), lambda b, i, j: a[b, i, j] * h[b, j], name="Y")
    assert crossings(y, a, h) == 1
    which = te.placeholder((64,), "int64", name="which")
    assert crossings(te.compute((64, N), lambda i, j: h[which[i], j] * 2.0), h, which) == 1
