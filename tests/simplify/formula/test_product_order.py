"""Sums of products in the order that costs least: counts beside a search of all orders, values."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from functools import cache
from itertools import combinations
from math import prod

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.bound import bound
from tensorad.counting import work
from tensorad.ir.tensor import Tensor
from tensorad.simplify.formula.contraction_order import best_order, iterations
from tensorad.simplify.formula.product_order import written_body
from tests.random.generators import campaign

Letters = frozenset[str]


def least(factors: list[str], output: str, extents: dict[str, int]) -> int:
    """The iterations of the best order, found by trying all of them."""
    wanted = frozenset(output)

    def points(letters: Letters) -> int:
        return prod(extents[c] for c in letters)

    @cache
    def rest_of(state: tuple[Letters, ...]) -> int:
        best = points(wanted.union(*state))
        for count in range(1, len(state) + 1):
            for chosen in combinations(range(len(state)), count):
                others = [f for n, f in enumerate(state) if n not in chosen]
                union = frozenset[str]().union(*[state[n] for n in chosen])
                kept = union & wanted.union(*others)
                if kept != union and (others or wanted - union):
                    after = tuple(sorted([*others, kept], key=sorted))
                    best = min(best, points(union) + rest_of(after))
        return best

    return rest_of(tuple(sorted(map(frozenset, factors), key=sorted)))


def random_case(rng: random.Random, count: int) -> tuple[list[str], str, dict[str, int]]:
    letters = "abcdefgh"[: rng.randint(3, 8)]
    extents = {c: rng.choice([1, 2, 3, 4, 5, 7]) for c in letters}
    terms = ["".join(rng.choices(letters, k=rng.randint(0, 3))) for _ in range(count)]
    used = sorted(set("".join(terms)))
    return terms, "".join(rng.sample(used, rng.randint(0, min(3, len(used))))), extents


def operands(terms: list[str], extents: dict[str, int]) -> list[Tensor]:
    return [
        te.placeholder([extents[c] for c in t], "float64", name=f"T{n}")
        for n, t in enumerate(terms)
    ]


def check_random(rng: random.Random, count: int) -> None:
    terms, output, extents = random_case(rng, count)
    text = f"{','.join(terms)}->{output}"
    tensors = operands(terms, extents)
    y = topi.einsum(text, *tensors)
    best = least(terms, output, extents)
    assert work(y).iterations == min(
        best, work(topi.einsum(text, *tensors, optimize=False)).iterations
    )
    arrays = [np.random.default_rng(n).normal(size=t.shape) for n, t in enumerate(tensors)]
    value = ta.evaluate(y, dict(zip(tensors, arrays, strict=True)))
    np.testing.assert_allclose(value, np.einsum(text, *arrays), atol=1e-10, err_msg=text)
    head = te.placeholder(y.shape, "float64", name="H")
    gradients = ta.vjp(y, tensors, head)
    together = work(gradients).iterations
    assert isinstance(together, int) and together <= bound(y, tensors), text
    for n, term in enumerate(terms):
        if len(set(term)) == len(term):  # the others are mostly zeros that are stored
            alone = work(ta.vjp(y, [tensors[n]], head)).iterations
            others = [t for m, t in enumerate(terms) if m != n]
            assert isinstance(alone, int)
            assert alone <= least([*others, output], term, extents), (text, n)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_no_order_of_a_random_einsum_costs_less(count: int) -> None:
    for seed in range(5):
        check_random(random.Random(100 * count + seed), count)


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 4, 5, 6])
def test_no_order_of_many_random_einsums_costs_less(count: int) -> None:
    for seed in campaign(range(60), 15):
        check_random(random.Random(1000 * count + seed), count)


def check_search(rng: random.Random, count: int) -> None:
    terms, output, extents = random_case(rng, count)
    letters = list(extents)
    masks = [sum(1 << letters.index(c) for c in set(t)) for t in [*terms, output]]
    sizes = [extents[c] for c in letters]
    found = iterations(best_order(masks[:-1], masks[-1], sizes), sizes)
    assert found == least(terms, output, extents), (terms, output, extents)


@pytest.mark.parametrize("count", [5, 6])
def test_the_search_finds_the_least_of_more_operands(count: int) -> None:
    for seed in range(20):
        check_search(random.Random(seed), count)


@pytest.mark.slow
@pytest.mark.parametrize("count", [7, 8])
def test_the_search_finds_the_least_of_eight_operands(count: int) -> None:
    for seed in range(12):
        check_search(random.Random(seed), count)


def test_of_many_operands_pairs_are_joined_first() -> None:
    shapes = [(8, 9, 10, 11)[n % 4] for n in range(14)]
    factors = [f"{chr(97 + n)}{chr(98 + n)}" for n in range(13)]
    tensors = [
        te.placeholder((shapes[n], shapes[n + 1]), "float64", name=f"M{n}") for n in range(13)
    ]
    y = topi.einsum(f"{','.join(factors)}->an", *tensors)
    count = work(y).iterations
    assert isinstance(count, int) and count <= 12 * 11**3


def matrices(n: int, *names: str) -> list[Tensor]:
    return [te.placeholder((n, n), "float64", name=name) for name in names]


def test_a_chain_of_matrices_is_multiplied_by_pairs() -> None:
    tensors = matrices(96, *"ABCD")
    y = topi.einsum("ij,jk,kl,lm->im", *tensors)
    assert work(y).iterations == 3 * 96**3
    gradients = ta.vjp(y, tensors, te.placeholder((96, 96), "float64", name="H"))
    assert work(gradients).iterations == 8 * 96**3
    plain = topi.einsum("ij,jk,kl,lm->im", *tensors, optimize=False)
    assert work(plain).iterations == 96**5


def test_letters_of_one_operand_are_summed_first() -> None:
    vectors = [te.placeholder((50,), "float64", name=n) for n in "uvw"]
    assert work(topi.einsum("i,j,k->", *vectors)).iterations == 150


def test_a_tucker_decomposition_is_put_together_factor_by_factor() -> None:
    core = te.placeholder((8, 9, 10), "float64", name="G")
    u, v, w = (te.placeholder(s, "float64", name="U") for s in ((30, 8), (31, 9), (32, 10)))
    y = topi.einsum("abc,ia,jb,kc->ijk", core, u, v, w)
    best = least(["abc", "ia", "jb", "kc"], "ijk",
                 {"a": 8, "b": 9, "c": 10, "i": 30, "j": 31, "k": 32})  # fmt: skip
    assert work(y).iterations == best == 332_544
    assert work(y).elements == 30 * 31 * 32 + 32 * 8 * 9 + 31 * 32 * 8


def test_a_formula_is_ordered_as_an_einsum_is() -> None:
    a, b, c = matrices(20, *"ABC")
    k, m = te.reduce_axis(20, name="k"), te.reduce_axis(20, name="l")

    def product(i: ta.Expr, j: ta.Expr) -> ta.Expr:
        return te.sum(a[i, k] * b[k, m] * c[m, j], axis=[k, m])

    assert work(te.compute((20, 20), product)).iterations == 2 * 20**3
    assert work(te.compute((20, 20), product, optimize=False)).iterations == 20**4
    inside = te.compute((20, 20), lambda i, j: 2.0 * product(i, j) + a[i, j])
    assert work(inside).iterations == 2 * 20**3
    x, y, z = (np.random.default_rng(n).normal(size=(20, 20)) for n in range(3))
    np.testing.assert_allclose(ta.evaluate(inside, {a: x, b: y, c: z}), 2 * x @ y @ z + x)


def test_a_sum_inside_a_product_joins_the_order() -> None:
    a, b, c = matrices(12, *"ABC")
    k, m = te.reduce_axis(12, name="k"), te.reduce_axis(12, name="l")
    y = te.compute((), lambda: te.sum(a[k, 0] * te.sum(b[k, m] * c[m, 1], axis=m), axis=k))
    assert work(y).iterations == 12**2  # 12 times as many as written
    twice = te.compute(
        (12,), lambda j: te.sum(te.sum(a[k, m], axis=m) * te.sum(a[k, m], axis=m) * b[k, j], axis=k)
    )
    x, z = np.random.default_rng(0).normal(size=(2, 12, 12))
    wanted = (x.sum(1) ** 2) @ z
    np.testing.assert_allclose(ta.evaluate(twice, {a: x, b: z}), wanted)


def test_an_axis_that_no_factor_has_repeats_the_sum() -> None:
    a = te.placeholder((6, 8), "float64", name="A")
    k = te.reduce_axis(8, name="k")
    y = te.compute((6, 5), lambda i, j: te.sum(a[i, k], axis=k))
    assert work(y).iterations == 6 * 8 + 6 * 5


def repeated(formula: Callable[[ta.Expr, ta.Expr], ta.Expr]) -> tuple[int, int]:
    """The work of a (12, 12) formula and of its gradient, whose head alone has axis j."""
    y = te.compute((12, 12), formula, name="Y")
    (da,) = ta.vjp(y, [SQUARE], te.placeholder((12, 12), "float64", name="H"))
    counts = work(y).iterations, work(da).iterations
    assert isinstance(counts[0], int) and isinstance(counts[1], int)
    return counts[0], counts[1]


SQUARE = te.placeholder((12, 12), "float64", name="A")
K = te.reduce_axis(12, name="k")
PAIR = te.comm_reducer(
    lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]), lambda *_: (1.0, 0.0), name="pair"
)


def short_rows(i: ta.Expr, j: ta.Expr) -> ta.Expr:
    q = te.reduce_axis((0, i + 1), name="q")
    return te.prod(SQUARE[i, q] + SQUARE[q, i], axis=q)


@pytest.mark.parametrize(
    ("formula", "counts"),
    [
        (lambda i, j: te.prod(SQUARE[i, K] + SQUARE[K, i], axis=K), (288, 576)),
        (lambda i, j: te.prod(SQUARE[i, K] + SQUARE[K, i], axis=K, where=K <= i), (288, 576)),
        (lambda i, j: te.prod(SQUARE[i, K], axis=K, where=SQUARE[i, K] > 0.0), (288, 576)),
        (lambda i, j: te.sum(te.exp(SQUARE[i, K]), axis=K, where=K <= i), (288, 288)),
        (lambda i, j: PAIR((SQUARE[i, K], SQUARE[K, i]), axis=K)[1], (288, 576)),
        (short_rows, (222, 444)),
    ],
)
def test_a_sum_over_an_axis_that_only_the_head_has_is_taken_first(
    formula: Callable[[ta.Expr, ta.Expr], ta.Expr], counts: tuple[int, int]
) -> None:
    assert repeated(formula) == counts


def test_values_of_a_fold_that_is_repeated() -> None:
    y = te.compute((12, 3), lambda i, j: PAIR((SQUARE[i, K], SQUARE[K, i]), axis=K)[1])
    (da,) = ta.vjp(y, [SQUARE], np.arange(36.0).reshape(12, 3))
    x = np.random.default_rng(0).uniform(0.5, 1.0, (12, 12))
    plain = te.compute(
        (12, 3), lambda i, j: PAIR((SQUARE[i, K], SQUARE[K, i]), axis=K)[1], optimize=False
    )
    (wanted,) = ta.vjp(plain, [SQUARE], np.arange(36.0).reshape(12, 3))
    np.testing.assert_array_equal(ta.evaluate(y, {SQUARE: x}), ta.evaluate(plain, {SQUARE: x}))
    np.testing.assert_allclose(ta.evaluate(da, {SQUARE: x}), ta.evaluate(wanted, {SQUARE: x}))


def test_short_folds_and_loops_that_data_bound_are_repeated_as_written() -> None:
    k = te.reduce_axis(1, name="k")
    x = te.placeholder((12, 1), "float64", name="X")
    y = te.compute((12, 5), lambda i, j: te.prod(x[i, k], axis=k))
    assert written_body(y.op) is None
    ends = te.placeholder((12,), "int64", name="N")

    def by_data(i: ta.Expr, j: ta.Expr) -> ta.Expr:
        q = te.reduce_axis((0, ends[i]), name="q")
        return te.sum(SQUARE[i, q], axis=q)

    assert written_body(te.compute((12, 5), by_data).op) is None
    assert written_body(te.compute((12, 5), short_rows).op) is not None


def test_a_written_order_that_is_the_best_stays() -> None:
    a, b = matrices(6, *"AB")
    k, m = te.reduce_axis(6, name="k"), te.reduce_axis(6, name="l")
    x = te.placeholder((6, 6, 6), "float64", name="X")
    y = te.compute((6, 6), lambda i, j: te.sum(x[i, k, m] * a[k, j] * b[m, j], axis=[k, m]))
    assert work(y).elements == 36
    one = te.compute((6,), lambda i: te.sum(2.0 * a[i, k], axis=k))
    assert work(one).elements == 6


@pytest.mark.parametrize("extents", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 0)])
def test_empty_axes(extents: tuple[int, ...]) -> None:
    i, j, k, m = extents
    tensors = [te.placeholder(s, "float64", name=f"T{s[0]}{n}")
               for n, s in enumerate(((i, j), (j, k), (k, m)))]  # fmt: skip
    y = topi.einsum("ij,jk,kl->il", *tensors)
    arrays = {t: np.ones(t.shape) for t in tensors}
    np.testing.assert_array_equal(
        ta.evaluate(y, arrays), np.einsum("ij,jk,kl->il", *arrays.values())
    )


def test_symbolic_sizes_count_as_sixteen() -> None:
    n = te.size("n")
    a, b, c = (te.placeholder((n, n), "float64", name=x) for x in "ABC")
    y = topi.einsum("ij,jk,kl->il", a, b, c)
    assert str(work(y).iterations) == "2*n**3"
    for extent in (0, 1, 3):
        x = np.random.default_rng(extent).normal(size=(3, extent, extent))
        np.testing.assert_allclose(
            ta.evaluate(y, dict(zip((a, b, c), x, strict=True))), x[0] @ x[1] @ x[2]
        )


def test_a_read_that_an_empty_axis_guards_keeps_the_written_order() -> None:
    n = te.size("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((4, 4), name="B")
    i, k = te.reduce_axis(n, name="i"), te.reduce_axis(4, name="k")
    m = te.reduce_axis(4, name="l")
    y = te.compute((), lambda: te.sum(a[0] * a[i] * b[k, m] * b[m, k], axis=[i, k, m]))
    array = np.ones((4, 4), "float32")
    assert ta.build(y, [a, b])(np.ones(0, "float32"), array) == 0


def test_a_maximum_of_nothing_selects_nothing() -> None:
    """Where an axis may be empty, a maximum keeps the written order: its identity is no operand."""
    n, full = te.size("n"), te.size("filled")
    ta.assume(full >= 1)
    for size, staged in ((n, False), (full, True)):
        a, b, c = (
            te.placeholder(s, "float64", name=x)
            for x, s in {"A": (3, 4), "B": (4, size), "C": (size, size)}.items()
        )
        y = topi.einsum(
            "ij,jk,kl->i", a, b, c, reduce=te.max, combine=lambda *f: f[0] + f[1] + f[2]
        )
        plain = topi.einsum("ij,jk,kl->i", a, b, c, reduce=te.max, optimize=False,
                            combine=lambda *f: f[0] + f[1] + f[2])  # fmt: skip
        counts = [work(t, sizes={str(size): 8}).iterations for t in (y, plain)]
        assert (counts[0] < counts[1]) == staged
        for extent in (3,) if staged else (0, 3):
            rng = np.random.default_rng(extent)
            shapes = (3, 4), (4, extent), (extent, extent)
            arrays = dict(zip((a, b, c), map(rng.random, shapes), strict=True))
            found = [ta.evaluate(ta.vjp(t, [a], 1.0)[0], arrays) for t in (y, plain)]
            np.testing.assert_array_equal(*found)
            assert found[0].any() == (extent > 0)


def test_operands_of_several_dtypes() -> None:
    a = te.placeholder((3, 4), "float32", name="A")
    b, c = te.placeholder((4, 5), "int64", name="B"), te.placeholder((5, 6), "float64", name="C")
    y = topi.einsum("ij,jk,kl->il", a, b, c)
    plain = topi.einsum("ij,jk,kl->il", a, b, c, optimize=False)
    rng = np.random.default_rng(0)
    values = {a: rng.normal(size=(3, 4)).astype("f4"), b: rng.integers(-9, 9, (4, 5)),
              c: rng.normal(size=(5, 6))}  # fmt: skip
    assert y.dtype is plain.dtype
    np.testing.assert_allclose(ta.evaluate(y, values), ta.evaluate(plain, values), rtol=1e-12)


@pytest.mark.parametrize("best", [te.max, te.min])
def test_maxima_of_sums_are_ordered_and_ties_go_to_the_first(best: te.Reducer) -> None:
    a, b, c = matrices(6, *"ABC")
    tensors = [a, b, c]

    def add(x: ta.Expr, y: ta.Expr, z: ta.Expr) -> ta.Expr:
        return x + y + z

    both = [
        topi.einsum("ij,jk,kl->il", *tensors, reduce=best, combine=add, optimize=o)
        for o in (True, False)
    ]
    assert [work(y).iterations for y in both] == [2 * 6**3, 6**4]
    rng = np.random.default_rng(3)
    values = {t: rng.integers(0, 2, (6, 6)).astype("f8") for t in tensors}  # ties everywhere
    head = np.arange(36.0).reshape(6, 6)
    results = [ta.evaluate([y, *ta.vjp(y, tensors, head)], values) for y in both]
    for ordered, written in zip(*results, strict=True):
        np.testing.assert_array_equal(ordered, written)


def test_an_order_that_would_change_the_first_of_equals_is_not_taken() -> None:
    a, b, c = (te.placeholder(s, "float64", name="A") for s in ((2, 9), (9, 9), (9, 2)))
    y = topi.einsum("ij,jk,kl->", a, b, c, reduce=te.max, combine=lambda x, y, z: x + y + z)
    found = work(y).iterations
    assert isinstance(found, int) and found < 2 * 9 * 9 * 2


def test_other_combinations_keep_one_pass() -> None:
    tensors = matrices(5, *"ABC")
    for reducer, combine in (
        (te.sum, lambda x, y, z: te.abs(x - y) + z),
        (te.prod, lambda x, y, z: x * y * z),
        (te.max, lambda x, y, z: x * y * z),
    ):
        y = topi.einsum("ij,jk,kl->il", *tensors, reduce=reducer, combine=combine)
        assert work(y).iterations == 5**4


def test_conditions_and_ragged_loops_keep_the_written_order() -> None:
    a, b, c = matrices(6, *"ABC")
    k, m = te.reduce_axis(6, name="k"), te.reduce_axis(6, name="l")
    masked = te.compute(
        (6, 6), lambda i, j: te.sum(a[i, k] * b[k, m] * c[m, j], axis=[k, m], where=k <= m)
    )
    assert work(masked).elements == 36

    def triangle(i: ta.Expr, j: ta.Expr) -> ta.Expr:
        short = te.reduce_axis((0, i + 1), name="s")
        return te.sum(a[i, short] * b[short, m] * c[m, j], axis=[short, m])

    assert work(te.compute((6, 6), triangle)).elements == 36


def test_a_sum_that_a_condition_switches_off_keeps_the_written_order() -> None:
    a, b, c = matrices(6, *"ABC")
    k, m = te.reduce_axis(6, name="k"), te.reduce_axis(6, name="l")

    def first_row(i: ta.Expr, j: ta.Expr) -> ta.Expr:
        product = te.sum(a[i, k] * b[k, m] * c[m, j], axis=[k, m])
        return te.select(i < 1, product, 0.0)

    assert work(te.compute((6, 6), first_row)).iterations == 6**3


def test_derivatives_of_any_order_follow_the_stages() -> None:
    a, b, c = matrices(4, *"ABC")
    y = topi.einsum("ij,jk,kl->", a, b, c)
    assert ta.gradcheck(y, [a, b, c], order=2)
    tangent = ta.jvp(y, {a: b})
    arrays = {t: np.random.default_rng(n).normal(size=(4, 4)) for n, t in enumerate((a, b, c))}
    x, z, w = arrays.values()
    np.testing.assert_allclose(ta.evaluate(tangent, arrays), (z @ z @ w).sum())
    assert x.shape == (4, 4)


def test_the_order_is_explained() -> None:
    tensors = matrices(96, *"ABCD")
    y = topi.einsum("ij,jk,kl,lm->im", *tensors)
    story = [
        "einsum is evaluated in the order that costs least",
        "  work     2,654,208 iterations; 8,153,726,976 in the written order",
        "  order    einsum.sum[i0, k] = sum(A[i0, j]*B[j, k], axes (j : [0, 95]))",
        "           einsum.sum_1[k, i1] = sum(C[k, l]*D[l, i1], axes (l : [0, 95]))",
        "           einsum[i0, i1] = "
        "sum(einsum.sum[i0, k]*einsum.sum_1[k, i1], axes (k : [0, 95]))",
    ]
    assert str(ta.explain(y)).splitlines() == story
    assert "8,153,726,976" in ta.explain(y)._repr_html_()
    (da,) = ta.vjp(y, [tensors[0]], te.placeholder((96, 96), "float64", name="H"))
    assert story[0] in str(ta.explain(da)).splitlines()


def test_what_was_written_is_not_kept_alive() -> None:
    y = topi.einsum("ij,jk,kl->il", *matrices(5, *"ABC"))
    alive = weakref.ref(y.op)
    del y
    gc.collect()
    assert alive() is None
