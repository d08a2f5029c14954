"""Contributions of reads: what is merged, what they cost, and gathers by value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tensorad import te
from tensorad.autodiff.adjoints.adjoint import Adjoint
from tensorad.autodiff.adjoints.contributions import (
    Contribution,
    explicit,
    gather_is_cheaper,
    merged,
    points_of,
    scattered_along,
    sum_of,
)
from tensorad.autodiff.adjoints.gathers import best_gather, gather, gather_all, in_place
from tensorad.autodiff.adjoints.transposed import (
    behind,
    contribution,
    is_formula,
    may_have_elements,
    pointwise,
    sizes_with_points,
    whole_contribution,
)
from tensorad.autodiff.local.linear import Term
from tensorad.autodiff.local.views import compute_terms
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    Read,
    axis,
    call,
    const,
    logical_and,
    read,
    size_var,
)
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Tensor, outputs
from tensorad.ir.visit import reads
from tests.support.loops.small_loops import op_of

X = te.placeholder((4,), "float64", name="X")
H = te.placeholder((4,), "float64", name="H")
P = te.placeholder((4,), "int64", name="P")
HEAD = np.array([1.0, 10.0, 100.0, 1000.0])
PLACES = np.array([2, 0, 2, 3])


def weighted(a: Axis, *indices: Expr, condition: Expr = TRUE, guard: Expr = TRUE) -> Contribution:
    """H[a] for each point of an axis."""
    return Contribution((a,), condition, indices, lambda _: read(H, (a,)), guard)


def value(body: Expr | None, *axes: Axis) -> np.ndarray:
    assert body is not None
    t = outputs(Compute("D", axes, (body,), ""))[0]
    used = dict.fromkeys([r.tensor for r in reads(body)])
    return interpret([t], {u: a for u, a in ((H, HEAD), (P, PLACES)) if u in used})[0]


def terms_of(t: Tensor) -> list[Term]:
    return compute_terms(op_of(t), 0, lambda e: isinstance(e, Read))


def test_contributions_of_one_domain_are_one_sum() -> None:
    a, b = axis("a", 0, 4), axis("b", 0, 4)
    x = axis("x", 0, 4)
    positive = read(H, (a,)) > 5.0
    parts = [weighted(a, a), weighted(a, a, guard=positive), weighted(b, b)]
    groups = merged(parts)
    assert groups == [parts[:2], parts[2:]]
    assert sum_of(groups[1]) is parts[2]
    both = gather(sum_of(groups[0]), (x,), 0)
    np.testing.assert_array_equal(value(both, x), [1.0, 20.0, 200.0, 2000.0])
    every = gather_all(parts, (x,), 0)
    np.testing.assert_array_equal(value(every, x), [2.0, 30.0, 300.0, 3000.0])


def test_conditions_on_data_say_what_indices_have_to_be() -> None:
    a = axis("a", 0, 4)
    plain = weighted(a, a, condition=a < 3)
    assert explicit(plain) is plain
    nested = weighted(a, a, guard=logical_and(a < 2, read(H, (a,)) > 5.0))
    np.testing.assert_array_equal(
        value(gather(explicit(nested), (a,), 0), a), value(gather(nested, (a,), 0), a)
    )


def test_points_are_counted_unless_data_decides() -> None:
    a, n = axis("a", 0, 6), size_var("n")
    assert points_of((a, axis("b", 0, 5))) == 30
    assert points_of((a, axis("b", 0, a))) == 15
    assert points_of((a, a < 2)) == 2
    assert points_of((axis("c", 0, n),), {n: 7}) == 7
    assert points_of((axis("d", 0, read(P, (const(0, P.dtype),))),)) is None
    assert points_of((axis("e", 0, 1 << 25),)) is None


def test_gathers_are_kept_where_they_visit_no_more() -> None:
    x, a = axis("x", 0, 64), axis("a", 0, 64)
    wide = te.placeholder((64,), "float64", name="W")
    body = te.sum(read(wide, (a,)), axis=a)
    diagonal = Contribution((axis("d", 0, 2),), TRUE, (a,), lambda _: const(1.0, wide.dtype))
    assert not gather_is_cheaper(body, (x,), [diagonal], 0)  # 64 * 64 points beside 64 + 2
    assert gather_is_cheaper(read(wide, (x,)), (x,), [diagonal], 0)


def test_what_is_scattered_takes_others_of_its_points_along() -> None:
    a, x = axis("a", 0, 4), axis("x", 0, 100)
    data, plain = weighted(a, read(P, (a,))), weighted(a, a)
    assert list(scattered_along([data, plain], (x,), 0)) == [(a,)]
    assert not scattered_along([plain], (x,), 0)
    assert not scattered_along([data, plain], (axis("y", 0, 3),), 0)


def test_index_maps_are_inverted_by_value() -> None:
    a, x = axis("a", 0, 4), axis("x", 0, 9)
    for index, expected in (
        (2 * a + 1, [0, 1, 0, 10, 0, 100, 0, 1000, 0]),
        (a // 2, [11, 1100, 0, 0, 0, 0, 0, 0, 0]),
        (3 - a, [1000, 100, 10, 1, 0, 0, 0, 0, 0]),
    ):
        np.testing.assert_array_equal(value(gather(weighted(a, index), (x,), 0), x), expected)
    assert gather(weighted(a, read(P, (a,))), (x,), 0) is None
    assert best_gather(weighted(a, read(P, (a,))), [], (x,), 0) is None
    assert gather_all([weighted(a, a), weighted(a, read(P, (a,)))], (x,), 0) is None


def test_a_selection_found_at_run_time_is_gathered_where_each_element_asks() -> None:
    a, x = axis("a", 0, 4), axis("x", 0, 4)
    k = axis("k", 0, 4)
    hit = call("eq", k, read(P, (a,)))
    whole = Contribution((a, k), TRUE, (a, k), lambda _: read(H, (a,)), hit)
    thin = weighted(a, a, read(P, (a,)))
    y = axis("y", 0, 4)
    made = best_gather(whole, [thin], (x, y), 0)
    expected = np.zeros((4, 4))
    expected[np.arange(4), PLACES] = HEAD
    np.testing.assert_array_equal(value(made, x, y), expected)


def test_contributions_in_place_are_those_over_all_their_indices() -> None:
    a = op_of(te.compute((4,), lambda i: X[i], name="Y")).axes[0]
    found = in_place(replace(weighted(a, a), kinds=0), (), (4,))
    np.testing.assert_array_equal(value(found, a), HEAD)
    assert in_place(weighted(a, a), (), (4,)) is None  # nobody says that it is no sum
    for other in (weighted(a, a, condition=a < 3), weighted(a, 3 - a)):
        assert in_place(replace(other, kinds=0), (), (4,)) is None
    assert in_place(replace(weighted(a, a), kinds=0), (), (5,)) is None


def test_reads_become_contributions() -> None:
    i, k = axis("i", 0, 4), te.reduce_axis(4, name="k")
    head = Adjoint((i,), read(H, (i,)), H)
    plain = te.compute((4,), lambda i: X[i] * P[i], name="S")
    terms = terms_of(plain)
    assert pointwise(op_of(plain), terms)
    (c,) = [contribution(op_of(plain), head, t) for t in terms]
    assert (c.axes, c.indices) == (op_of(plain).axes, op_of(plain).axes)
    np.testing.assert_array_equal(value(c.weight(()), *c.axes), HEAD * PLACES)
    summed = te.compute((4,), lambda i: te.sum(X[(i + k) % 4] * H[k], axis=k), name="T")
    (inner,) = [t for t in terms_of(summed) if t.read.tensor is X]
    assert not pointwise(op_of(summed), [inner])
    c = contribution(op_of(summed), head, inner)
    assert c.axes == (*op_of(summed).axes, *inner.axes)
    x = axis("x", 0, 4)
    expected = [sum(HEAD[n] * HEAD[(m - n) % 4] for n in range(4)) for m in range(4)]
    np.testing.assert_array_equal(value(gather(c, (x,), 0), x), expected)
    whole = whole_contribution(op_of(summed), inner, [head])
    assert whole.weight(()) is inner.coefficient
    assert whole.sparse is None


def test_what_is_asked_of_tensors_before_a_sweep() -> None:
    n, k = size_var("n"), te.reduce_axis(4, name="k")
    total = te.compute((), lambda: te.sum(X[k], axis=k), name="T")
    assert is_formula(te.compute((4,), lambda i: X[i] + 1.0, name="F"))
    assert not is_formula(total)
    assert not is_formula(X)
    assert may_have_elements(X)
    assert not may_have_elements(te.placeholder((3, 0), name="E"))
    assert sizes_with_points(op_of(total)) is TRUE
    z = te.placeholder((n,), "float64", name="Z")
    m = te.reduce_axis((0, n), name="m")
    open_sum = te.compute((), lambda: te.sum(z[m], axis=m), name="O")
    assert str(sizes_with_points(op_of(open_sum))) == "0 < n"


def test_heads_behind_leading_axes() -> None:
    b, i = axis("b", 0, 2), axis("i", 0, 4)
    both = te.placeholder((2, 4), "float64", name="B")
    at = behind((b,), Adjoint((b, i), read(both, (b, i)), both))
    assert at((i,)) is read(both, (b, i))
