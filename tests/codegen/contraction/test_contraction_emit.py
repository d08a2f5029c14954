"""The loops of single contractions and of their parts, by values and by what they note."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tensorad import te
from tensorad.codegen.contraction.blocking import Blocking
from tensorad.codegen.contraction.choose import plan_contraction
from tensorad.codegen.contraction.digits import digits, dim, merged, points, position
from tensorad.codegen.contraction.emit.emitter import Emitter
from tensorad.codegen.contraction.emit.pack import Emitted, fill
from tensorad.codegen.contraction.emit.prefetch import product_prefetch
from tensorad.codegen.contraction.emit.prefetch_gapped import panel_at
from tensorad.codegen.contraction.emit.reduce_strips import in_strip, strips_of_tiles
from tensorad.codegen.contraction.emit.shared_rows import shared_rows
from tensorad.codegen.contraction.emit.unroll import Prefetches, are_load_bound, reduce_loops
from tensorad.codegen.contraction.emit.write import emit_contraction
from tensorad.codegen.contraction.nonfinite_padding import added_up_again
from tensorad.codegen.contraction.operand_layout import are_same, can_relayout, in_place, tap_groups
from tensorad.codegen.contraction.reasons import explain_blocking
from tensorad.codegen.contraction.recognise import Contraction, recognise
from tensorad.codegen.contraction.reduce_blocks import blocks, in_block
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.ir import Assign, Fold, For, If, Prefetch, Stmt, Store
from tensorad.codegen.loops.visit import statements
from tensorad.ir.analysis.decisions import Decision, listening
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import ZERO, Const, Expr, axis, const, int_const, param, read, size_var
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import substitute
from tests.support.loops.small_loops import arrays_for, check_stores, computed, kernel_of, nest_for

M, N, K = 5, 13, 7
A = te.placeholder((M, K), "float64", name="A")
B = te.placeholder((K, N), "float64", name="B")
S = te.placeholder((2, M, K), "float64", name="S")
IMAGE = te.placeholder((2, 4, 5), "float64", name="X")
KERNEL = te.placeholder((2, 2, 3, 3), "float64", name="W")
FORCED = (
    Choices(contract=True),
    Choices(contract=True, tile=(1, 1), pack="panel", block=1),
    Choices(contract=True, tile=(3, 2), pack="relayout", block=5),
    Choices(contract=True, tile=(6, 4), pack="place", parallel=True),
    Choices(contract=True, tile=(5, 1), pack="panel", block=3, parallel=True),
)


def product() -> Tensor:
    k = te.reduce_axis(K, name="k")
    return te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="Y")


def batched() -> Tensor:
    k = te.reduce_axis(K, name="k")
    return te.compute((2, M, N), lambda n, i, j: te.sum(S[n, i, k] * B[k, j], axis=k), name="Y")


def padded() -> Tensor:
    c, u, v = (te.reduce_axis(n, name=a) for n, a in ((2, "c"), (3, "u"), (3, "v")))

    def formula(o: Expr, y: Expr, x: Expr) -> Expr:
        i, j = y + u - 1, x + v - 1
        inside = (i >= 0) & (i < 4) & (j >= 0) & (j < 5)
        term = te.select(inside, IMAGE[c, i, j], 0.0) * KERNEL[o, c, u, v]
        return te.sum(term, axis=[c, u, v])

    return te.compute((2, 4, 5), formula, name="Y")


MADE = {product: (A, B), batched: (S, B), padded: (IMAGE, KERNEL)}


def contraction(t: Tensor) -> Contraction:
    found = recognise(nest_for(t))
    assert found is not None
    return found


def planned(t: Tensor, choices: Choices) -> Blocking:
    b = plan_contraction(contraction(t), 4, choices)
    assert b is not None
    return b


def body_of(e: Emitted) -> tuple[tuple[Stmt, ...], list[Tensor]]:
    return (*e.before, *e.body), [*e.copies, *e.scratch]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("choices", FORCED, ids=str)
@pytest.mark.parametrize("make", MADE)
def test_no_way_to_run_changes_the_sums(make: Callable[[], Tensor], choices: Choices) -> None:
    y = make()
    b = planned(y, choices)
    with listening(Decision) as heard:
        explain_blocking(b, b.contraction.nest)
    assert heard[0].what == "contraction"
    assert any(d.what.startswith("register tile") for d in heard)
    body, scratch = body_of(emit_contraction(b, b.contraction.nest))
    check_stores(body, y, *MADE[make], scratch=scratch)


def test_row_tiles_are_shared_with_all_lanes_inside() -> None:
    y = product()
    b = planned(y, FORCED[3])
    b = replace(b, by_rows=True, parallel=True, panel=b.flat, split=0, block=K)
    e = Emitter(b, b.contraction.nest)
    body = (*e.copies(), *shared_rows(e))
    (shared,) = [s for s in statements(body) if isinstance(s, For) and s.kind == "parallel"]
    assert sum([isinstance(s, Store) for s in statements([shared])]) > 1
    check_stores(body, y, A, B, scratch=[*e.made, *e.scratch])


def test_blocks_of_reduce_axes_cover_them() -> None:
    b = planned(product(), FORCED[2])
    assert isinstance(blocks(b), Const)
    (k,) = b.contraction.reduced
    seen = []
    for number in range(int(blocks(b).value)):  # type: ignore[attr-defined]
        mapping, (local,) = in_block(b, int_const(number))
        for at in range(local.extent or 0):
            seen.append(substitute(mapping[k], {local: int_const(at)}))
    assert [int(e.value) for e in seen if isinstance(e, Const)] == [*range(K)]


def test_strips_of_tiles_visit_each_row_once_in_each_strip() -> None:
    b = replace(planned(product(), FORCED[3]), block=K, split=0, strip=4, strip_rows=4)
    t = te.placeholder((7, 2), "float64", name="T")
    (k,) = b.contraction.reduced
    mapping, (local,) = in_strip(b, int_const(1))
    assert (mapping[k], local.lower, local.upper) == (local, int_const(4), int_const(K))

    def tile(row: Expr, slot: Expr, strip: Expr) -> tuple[Stmt, ...]:
        r = axis("r", 0, 2)
        return (For(r, (Store((t,), (row + r, strip), (slot.astype("float64"),)),)),)

    body = strips_of_tiles(b, (ZERO, int_const(8), 2), int_const(7), tile)
    (got,) = computed(kernel_of(body, [t]), {})
    assert not np.isnan(got).any()  # what nobody stores is not a number


def test_digits_are_the_row_major_place() -> None:
    p, q, flat = axis("p", 0, 3), axis("q", 0, 4), axis("f", 0, 12)
    made = digits(flat, [p, q])
    for n in range(12):
        at = [substitute(made[a], {flat: int_const(n)}) for a in (p, q)]
        assert [e.value for e in at if isinstance(e, Const)] == [n // 4, n % 4]
    assert points([p, q]) is int_const(12)
    assert substitute(position([p, q]), {p: int_const(2), q: int_const(3)}) is int_const(11)
    n = size_var("n")
    empty = digits(flat, [p, axis("e", 0, 0), axis("n", 0, n)])
    assert [*empty.values()] == [flat // n, flat // n % 1, flat % n]
    assert dim(n) is n
    assert dim(int_const(3)) == 3
    start = panel_at({}, [p, q], int_const(7))
    assert start[p] is int_const(7)
    assert start[q] is ZERO


def test_neighbouring_reduce_axes_are_walked_as_one() -> None:
    c, u = axis("c", 0, 3), axis("u", 0, 4)
    x, y = te.placeholder((3, 4), name="X"), te.placeholder((4, 3), name="Y")
    assert merged([c, u], [c, u], [read(x, (c, u))]) == [[c, u]]
    assert merged([c, u], [c, u], [read(x, (c, u)), read(y, (u, c))]) == [[c], [u]]


def test_where_operands_lie() -> None:
    c = contraction(product())
    assert in_place(c.right, c.right.axes)
    assert not in_place(c.left, c.left.axes)
    assert can_relayout(c.left, c.left.axes[0], c)
    assert are_same(c.right.axes, [*c.right.axes])
    assert not are_same(c.right.axes, c.left.axes)
    assert tap_groups(c.right, c) == []
    image = contraction(padded())
    (lanes,) = [p for p in (image.left, image.right) if len(p.axes) == 2]
    assert not in_place(lanes, lanes.axes)  # zeros around it


def test_elementwise_nests_fill_buffers() -> None:
    y = te.compute((M, K + 1), lambda i, j: te.select(j < K, A[i, j], 0.0), name="P")
    check_stores(fill(nest_for(y), threads=False), y, A)


def test_several_steps_are_written_out() -> None:
    acc, k = param("a", FLOAT64), axis("k", 0, K)
    term = read(B, (k, ZERO))
    step = Fold((acc,), sum_combiner(FLOAT64), (term,))
    out = te.placeholder((), "float64", name="T")
    counts = []
    for unrolled in (False, True):
        loops = reduce_loops([k], [step], Prefetches(lambda n: ()), unrolled=unrolled)
        begin = Assign((acc,), (const(0.0, FLOAT64),))
        body = [begin, *loops, Store((out,), (), (acc,))]
        given = arrays_for(B)
        np.testing.assert_array_equal(
            computed(kernel_of(body, [out]), given)[0], given[B][:, 0].sum()
        )
        counts.append(sum([isinstance(s, Fold) for s in statements(loops)]))
    assert counts[0] == 1 < counts[1]
    assert are_load_bound([term])
    assert not are_load_bound([te.exp(term)])


def test_the_next_product_is_asked_for_where_it_is_far() -> None:
    b = planned(product(), FORCED[0])
    values = [b.rows.value, b.lanes.value]
    assert product_prefetch(b, values, [], ZERO) is None  # all of it is near


def test_a_nan_behind_padding_is_added_up_again() -> None:
    x, w = te.placeholder((12,), "float64", name="X"), te.placeholder((3, 3), "float64", name="W")
    u = te.reduce_axis(3, name="u")
    y = te.compute(
        (3, 12),
        lambda o, i: te.sum(x[i + u - 1] * w[o, u], axis=u, where=(i + u > 0) & (i + u < 13)),
        name="Y",
    )
    c = contraction(y)
    again, flags = added_up_again(c, c.nest)
    assert [s.rare for s in again if isinstance(s, If)] == [True]
    b = plan_contraction(c, 4, FORCED[0])
    assert b is not None
    body, scratch = body_of(emit_contraction(b, c.nest))
    arrays = arrays_for(x, w)
    arrays[w][1, 0] = np.inf
    kernel = kernel_of((*body, *again), [y], [*scratch, *flags])
    np.testing.assert_array_equal(computed(kernel, arrays)[0], interpret([y], arrays)[0])
    plain = contraction(product())
    assert added_up_again(plain, plain.nest) == ((), [])
    assert not any(isinstance(s, Prefetch) for s in statements(again))
