"""Plainer derivations: what they visit, that they are right, and when they are chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import jvp, vjp
from tensorad.autodiff.adjoints.plain import PlainTarget
from tensorad.autodiff.counting.choice import Ways, derive_by_count
from tensorad.autodiff.counting.products import products
from tensorad.autodiff.counting.visits import Visits
from tensorad.autodiff.heads import pair_heads, seeds
from tensorad.autodiff.sweep import Sweep
from tensorad.bound import bound
from tensorad.counting import work
from tensorad.errors import CountError
from tensorad.ir.analysis.decisions import Decision, Record, listening
from tensorad.ir.analysis.points import evaluate
from tensorad.ir.expr import Expr, Reduce, size_var
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Dim, Scan, Scatter, Tensor, dim_expr
from tests.random.test_random_programs import choose, differentiate
from tests.support.program_checks import LARGE, SIZES, check_work, like

FIXED: tuple[dict[str, int], ...] = ({},)


def matrix(name: str, *shape: Dim) -> Tensor:
    return te.placeholder(shape, name=name, dtype="float64")


def plain(y: Tensor, wrt: list[Tensor], head: Tensor) -> list[Tensor]:
    starts, batch = seeds(pair_heads([y], [head]))
    sweep = Sweep([y], wrt, batch, {}, PlainTarget)
    return sweep.joined(sweep.run(starts, strict=False), [head])


def check(y: Tensor, wrt: list[Tensor], sizes: tuple[Mapping[str, int], ...] = FIXED) -> None:
    """The plain gradients keep to the yardstick, and their values are those of the others."""
    head = like(y, "H")
    found, expected = plain(y, wrt, head), vjp(y, wrt, head)
    for n in sizes:
        most = bound(y, wrt, n)
        assert int(str(work(found, n).iterations)) <= most
        assert int(str(work(expected, n).iterations)) <= most
        rng = np.random.default_rng(0)
        given: Mapping[Expr, int] = {size_var(name): value for name, value in n.items()}
        shapes = {t: evaluate([dim_expr(s) for s in t.shape], {}, given) for t in (*wrt, head)}
        values = {t: rng.standard_normal([int(s) for s in shape]) for t, shape in shapes.items()}
        for a, b in zip(interpret(found, values, n), interpret(expected, values, n), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_a_winner_is_looked_for_not_scattered_to() -> None:
    x = matrix("X", 3)
    k = te.reduce_axis(4, "k")
    y = te.compute((3,), lambda i: te.minimum(te.min(x[i] + 0 * k, axis=k), 3.0), name="Y")
    check(y, [x])
    (dx,) = plain(y, [x], like(y, "H"))
    assert not isinstance(dx.op, Scatter)


def test_one_element_read_by_two_components_is_one_contribution() -> None:
    x, w = matrix("X"), matrix("W", 4)
    k = te.reduce_axis(4, "k")
    a = te.select(k < 2, w[k], x[()])
    y = te.compute(
        (2,), lambda i: te.sum(te.tanh(a) * te.sin(x[()]) + te.cos(x[()]), axis=k), name="Y"
    )
    check(y, [x, w])


def test_a_read_under_two_conditions_is_visited_where_one_of_them_holds() -> None:
    x = matrix("X", 5)
    y = te.compute(
        (9,),
        lambda i: (
            te.select(i < 6, te.sin(x[i // 2]), 0.0) + te.select(i > 3, te.exp(x[i // 2]), 1.0)
        ),
        name="Y",
    )
    check(y, [x])
    (dx,) = plain(y, [x], like(y, "H"))
    assert isinstance(dx.op, Compute)
    assert work(dx).iterations == 9


def test_indices_beyond_loops_are_listed_even_beside_choices_by_tables() -> None:
    x = matrix("X", 3)
    y = te.compute(
        (7,),
        lambda i: te.maximum(x[(8 - i) % 5 % 3], te.select(i % 5 % 2 < 1, x[i % 3], 1.0)),
        name="Y",
    )
    check(y, [x])
    (dx,) = plain(y, [x], like(y, "H"))
    assert isinstance(dx.op, Compute)


def test_a_scatter_by_data_visits_the_points_that_symbolic_sizes_leave() -> None:
    n = te.size("n")
    x, p = matrix("X", 3), te.placeholder((3,), dtype="int32", name="P")
    y = te.compute((3,), lambda i: te.select(i < n, te.sin(x[p[i]]), 0.0), name="Y")
    z = te.compute((n,), lambda i: y[te.minimum(i, 2)], name="Z")
    (dx,) = plain(z, [x], like(z, "H"))
    assert isinstance(dx.op, Scatter)
    for value in (0, 1, 2, 5):
        visited = int(str(work(dx, {"n": value}).iterations))
        assert visited <= bound(z, [x], {"n": value})


def test_switches_and_numbers_need_no_adjoint_of_their_own() -> None:
    x = matrix("X", 7, 2)
    k = te.reduce_axis(2, "k")
    y = te.compute(
        (7,), lambda i: te.select(i != 1, 2.0 * te.sum(x[i, k], axis=k), -1.25), name="Y"
    )
    check(y, [x])


def test_a_symbolic_index_under_alternatives_is_gathered_piece_by_piece() -> None:
    n = te.size("n")
    x = matrix("X", n, 9)
    y = te.compute(
        (n, 9, n),
        lambda i, j, k: te.select(
            (j % 2 == 0) | ((k != i) & ((j + k < 5) | (i + j < 4))), te.sin(x[i // 3, j]), 0.0
        ),
        name="Y",
    )
    check(y, [x], ({"n": 5}, {"n": 1}, {"n": 0}))


def test_what_a_prefix_sum_leaves_is_added_to_in_the_sweep() -> None:
    x = matrix("X", 3, 4)
    s = topi.cumsum(x, axis=1)
    y = te.compute((4,), lambda i: te.tanh(s[1, i]) * te.exp(x[2, i]), name="Y")
    check(y, [x])
    (dx,) = plain(y, [x], like(y, "H"))
    assert isinstance(dx.op, Scan)


def test_a_stage_over_an_axis_without_values_has_no_points() -> None:
    x = matrix("X", 6, 5)
    none, k = te.reduce_axis((2, 2), "none"), te.reduce_axis(5, "k")
    inner = te.sum(te.exp(x[none, k]), axis=k)
    y = te.compute((), lambda: te.max(inner, axis=none) + te.sin(x[0, 0]), name="Y")
    check(y, [x])


def test_small_and_mixed_sizes_keep_to_the_yardstick() -> None:
    n, m = te.size("n"), te.size("m")
    x = matrix("X", n, m)
    k = te.reduce_axis(n, "k")
    y = te.compute(
        (m, n + 1),
        lambda i, j: te.erf(te.sum(x[n - 1 - k, te.maximum(i - 2, 0)], axis=k) * 0.5),
        name="Y",
    )
    check(y, [x], SIZES)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(10))
def test_visits_are_those_of_the_loops(seed: int) -> None:
    program, rng = choose(seed)
    of = differentiate(program, rng)
    symbolic = any(not isinstance(n, int) for t in program.inputs for n in t.shape)
    for sizes in (*SIZES, LARGE) if symbolic else ({},):
        values: Mapping[Expr, int] = {size_var(name): n for name, n in sizes.items()}
        found = Visits(of.outputs).count(values)
        assert found == int(str(work(of.outputs, sizes).iterations))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", (2, 8, 12, 28, 35))
def test_products_are_those_of_the_loops(seed: int) -> None:
    program, rng = choose(seed)
    of = differentiate(program, rng)
    symbolic = any(not isinstance(n, int) for t in program.inputs for n in t.shape)
    for sizes in (*SIZES, LARGE) if symbolic else ({},):
        values: Mapping[Expr, int] = {size_var(name): n for name, n in sizes.items()}
        assert products(of.outputs, values) == int(str(work(of.outputs, sizes).multiplications))


def test_what_is_no_sum_may_be_left_unstored() -> None:
    x, p = matrix("X", 5), te.placeholder((2,), dtype="int64", name="P")
    m = matrix("M", 9)
    k, q = te.reduce_axis(9, "k"), te.reduce_axis(4, "q")
    inner = te.sum(te.maximum(te.select(k < 2, x[p[te.minimum(k, 1)]], 1.0) + 0 * q, -1.25), axis=q)
    y = te.compute((), lambda: te.tanh(te.sum(inner, axis=k, where=m[k] > 0.0)), name="Y")
    head = like(y, "H")
    (dx,) = vjp(y, [x], head)
    assert work(dx).iterations <= bound(y, [x])


def test_storing_nothing_visits_the_fewest_points_of_some_program() -> None:
    program, _ = choose(901)
    y, wrt = program.outputs[-1], list(program.float_inputs)
    with listening(Record) as heard:
        found = vjp(y, wrt, like(y, "H"))
    assert work(found).iterations <= bound(y, wrt)
    assert "nothing stored" in [r.what for r in heard if isinstance(r, Decision)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", (195, 746, 1111, 1263, 1328, 1478, 1843))
def test_random_programs_keep_to_the_yardstick(seed: int) -> None:
    program, rng = choose(seed)
    of = differentiate(program, rng)
    symbolic = any(not isinstance(n, int) for t in program.inputs for n in t.shape)
    for sizes in (LARGE, *SIZES[:2]) if symbolic else ({},):
        check_work(of, sizes)


def test_a_formula_and_its_reductions_count_once() -> None:
    x, k = matrix("X", 6, 5), te.reduce_axis(5, "k")
    z = te.compute((6,), lambda i: te.tanh(te.sum(x[i, k], axis=k)) * 30.0, name="Z")
    y = te.compute((6,), lambda i: te.sin(z[i]), name="Y")
    head = like(y, "H")
    starts, batch = seeds(pair_heads([y], [head]))
    sweep = Sweep([y], [x], batch, {})
    found = sweep.run(starts, strict=False)
    assert sweep.points_per_contribution(found, [head], {}, 1000) == bound(y, [x]) == 30 + 30 + 6


def test_loops_that_data_bound_are_not_compared() -> None:
    x, d = matrix("X", 6, 6), matrix("d", 6, 6)
    k, q = te.reduce_axis(6, "k"), te.reduce_axis(6, "q")
    y = te.compute(
        (), lambda: te.min(te.sum(x[q, k] ** 2, axis=q, where=2 * q > k), axis=k), name="Y"
    )
    t = jvp(y, {x: d})
    with pytest.raises(CountError) as caught:
        work(t)
    assert str(caught.value) == (
        "data decide how often a loop runs.\n"
        "  in: Y.winner[]\n"
        "  hint: count the tensors it is computed from."
    )
    (hd,) = vjp(t, [x])
    values = np.random.default_rng(0).standard_normal((2, 6, 6))
    least = np.argmin([(values[0][k // 2 + 1 :, k] ** 2).sum() for k in range(6)])
    expected = np.zeros((6, 6))
    expected[least // 2 + 1 :, least] = 2 * values[1][least // 2 + 1 :, least]
    np.testing.assert_allclose(interpret(hd, {x: values[0], d: values[1]}), expected)


def sums(m: int) -> tuple[Tensor, Tensor, Tensor]:
    """Y = row sums of X; its gradient, and the same with a loop of `m` points per element."""
    x, h = matrix("X", 4, 5), matrix("H", 4)
    k, r = te.reduce_axis(5, "k"), te.reduce_axis(m, "r")
    y = te.compute((4,), lambda i: te.sum(x[i, k], axis=k), name="Y")
    loop = te.compute(
        (4, 5), lambda i, _: te.sum(h[i] / m + 0 * r, axis=r), name="dX", optimize=False
    )
    assert isinstance(loop.op, Compute)
    assert isinstance(loop.op.bodies[0], Reduce)
    return x, y, loop


def ways(
    swept: Tensor, tidied: Tensor, plain: Callable[[], list[Tensor]], points: int | None
) -> Ways:
    """A sweep, its tidied result, another way, and the points of the contributions."""
    return Ways(
        sweep=lambda: [swept],
        tidy=lambda _: [tidied],
        join=lambda found: found,
        apart=lambda *_: points,
        others={"plain": plain},
        known=[],
    )


def never() -> list[Tensor]:
    raise AssertionError


def test_a_tidied_gradient_with_the_points_of_its_contributions_is_taken() -> None:
    x, y, dear = sums(3)
    _, _, cheap = sums(1)
    assert derive_by_count(ways(dear, cheap, never, 20), y, [x], []) == [cheap]
    assert derive_by_count(ways(cheap, dear, never, 60), y, [x], []) == [dear]


def test_the_way_that_visits_the_fewest_points_is_taken_beyond_them() -> None:
    x, y, dear = sums(3)
    _, _, cheap = sums(1)
    _, _, dearer = sums(4)
    assert derive_by_count(ways(cheap, dear, lambda: [dear], 59), y, [x], []) == [cheap]
    with listening(Record) as heard:
        assert derive_by_count(ways(dear, dear, lambda: [cheap], 59), y, [x], []) == [cheap]
    assert [(r.what, r.why) for r in heard if isinstance(r, Decision)] == [
        ("plain", "it visits or multiplies less")
    ]
    assert derive_by_count(ways(dearer, dear, lambda: [dearer], 20), y, [x], []) == [dear]


def test_the_yardstick_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise AssertionError

    monkeypatch.setattr("tensorad.bound.bound", refused)
    monkeypatch.setattr("tensorad.bound._Yardstick.total", refused)
    x, w = matrix("X", 7), matrix("W", 4)
    k = te.reduce_axis(4, "k")
    y = te.compute((4,), lambda i: te.tanh(te.sum(w[k] * x[i + k], axis=k)), name="Y")
    dx, dw = vjp(y, [x, w], like(y, "H"))
    assert work([dx, dw]).iterations == 16 + 16 + 16, "the sum with its adjoint, dX, dW"


def test_loops_too_long_to_count_are_not_compared() -> None:
    x = matrix("X", 1 << 20)
    y = te.compute((1 << 19,), lambda i: x[i // 3 + i % 7], name="Y")
    found = matrix("dX", 1 << 20)
    assert derive_by_count(ways(found, found, never, 1), y, [x], []) == [found]
    assert derive_by_count(ways(found, found, never, None), y, [x], []) == [found]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
def test_plain_gradients_of_random_programs_are_right(seed: int) -> None:
    program, rng = choose(seed)
    of = differentiate(program, rng)
    symbolic = any(not isinstance(n, int) for t in program.inputs for n in t.shape)
    sizes = SIZES[0] if symbolic else {}
    values = of.values(sizes)
    found = interpret(plain(of.y, of.wrt, of.h), values, sizes)
    for a, b in zip(found, interpret(of.gradients, values, sizes), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_many_more_multiplications_are_no_price_for_a_few_points() -> None:
    x, h = matrix("X", 6), matrix("H", 6)
    y = te.compute((6,), lambda i: te.exp(x[i]), name="Y")
    light = te.compute((6,), lambda i: h[i] * te.exp(x[i]), name="dX")

    def heavy(i: Expr) -> Expr:
        value = h[i]
        for n in range(40):
            value = value * te.exp(x[i] / (n + 1.0))
        return value

    dear = te.compute((6,), heavy, name="dX")
    assert derive_by_count(ways(light, dear, lambda: [dear], 6), y, [x], [h]) == [light]


def test_what_the_head_is_made_of_does_not_count() -> None:
    z, h0, k = matrix("Z", 8, 8), matrix("H0", 8, 8), te.reduce_axis(8, "k")
    h = te.compute((8, 8), lambda i, j: te.sum(h0[i, k] * te.exp(h0[k, j]), axis=k), name="H")
    y = te.compute((8, 8), lambda i, j: z[i, j] * z[i, j], name="Y")
    (dz,) = vjp(y, [z], h)
    assert products([dz], {}, [h]) == products([dz], {}) - 2 * 8**3 == 64
    assert derive_by_count(ways(dz, dz, never, 64), y, [z], [h]) == [dz]
