"""Demands of nGraph's autodiff (S001): operators as classes, deltas, how adjoints are collected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.autodiff.collecting import ACCUMULATE, PASS_ON
from tensorad.autodiff.counting.operations import Operations
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.lifetimes import find_buffers
from tensorad.errors import ProgramTextError
from tensorad.ir.tensor import Compute, Tensor
from tests.seeds.support.differences import check_gradient

RNG = np.random.default_rng(0)
N = 4
X, Y, P, Q = [RNG.uniform(0.5, 1.5, N) for _ in range(4)]


class Multiply(ta.Operator):
    """f(x, y) = x y, with a list of what it was asked."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.asked: list[tuple[str, Any, Any]] = []

    def compute(self, x: Any, y: Any) -> Any:
        return x * y

    def generate_adjoints(self, adjoints: Any, delta: Any, x: Any, y: Any) -> None:
        self.asked.append((self.name, delta, adjoints[x]))
        x.generate_add_delta(adjoints, y * delta)
        y.generate_add_delta(adjoints, x * delta)


POLYNOMIAL = """\
def f(a : float64[], b : float64[], c : float64[], x : float64[]) -> float64[]:
  t10 : float64[] = x*x
  t11 : float64[] = b*x
  t20 : float64[] = a*t10
  t21 : float64[] = t11 + c
  t30 : float64[] = t20 + t21
  return t30
"""
NAMES = ("t10", "t11", "t20", "t21", "t30")


def test_s001_01_the_gradient_is_a_program_like_others() -> None:
    m = ta.gradient(ta.module(POLYNOMIAL), "f")
    assert str(ta.module(str(m))) == str(m)
    second = ta.gradient(m, "f_adjoint", require_grads=["x"], cotangent=(0.0, (0.0, 0.0, 0.0, 1.0)))
    at = [np.float64(v) for v in (2.0, 3.0, 5.0, 7.0)]
    _, (found,) = second["f_adjoint_adjoint"](*at)
    assert found == 2 * 2.0, "the second derivative by x is 2 a"
    f = ta.build(list(m["f_adjoint"].results), list(m["f_adjoint"].parameters))
    assert [float(v) for v in f(*at)][1:] == [49.0, 7.0, 1.0, 31.0]


def test_s001_02_operators_as_classes_work_inside_of_any_program() -> None:
    multiply = Multiply()

    def f(x: Any, y: Any) -> Any:
        inner = ta.function(lambda c: multiply(c, y))
        c = ta.for_loop(0, 3, lambda t, c: inner(c) + multiply(c, c) * 0.1, x)
        c = ta.cond(c.sum() > 0, lambda: multiply(c, x), lambda: c)
        c = ta.while_loop(lambda c: c.sum() > 1.0, lambda c: multiply(c, c) * 0.2, c)
        return (multiply(c, y) * x).sum()

    check_gradient(f, X, Y)
    assert len(multiply.asked) >= 6


def diamond(ops: list[Multiply]) -> Callable[[Any, Any], Any]:
    """Four operators: the first is read by two, which the last one reads."""

    def f(x: Any, y: Any) -> Any:
        a = ops[0](x, y)
        b, c = ops[1](a, x), ops[2](y, a)
        return ops[3](b, c).sum()

    return f


def test_s001_03_each_operator_is_asked_once_consumers_first() -> None:
    ops = [Multiply(name) for name in "abcd"]
    order: list[Any] = []
    for op in ops:
        op.asked = order
    np.testing.assert_allclose(ta.grad(diamond(ops))(X, Y), 3 * X**2 * Y**3)
    names = [name for name, _, _ in order]
    assert sorted(names) == ["a", "b", "c", "d"] and names[0] == "d" and names[-1] == "a"


def test_s001_04_delta_is_complete_and_what_is_collected_may_be_read() -> None:
    ops = [Multiply(name) for name in "abcd"]
    x, y = (ta.placeholder((N,), "float64", name=n) for n in "xy")
    ta.grad(diamond(ops)(x, y), [x, y])
    ((_, delta, before),) = ops[0].asked
    a = X * Y
    found = ta.evaluate([delta, before], {x: X, y: Y})
    np.testing.assert_allclose(found[0], Y * a * X + a * X * Y, err_msg="from both readers")
    np.testing.assert_allclose(found[1], (Y * a) * a, err_msg="x has what b gave it")
    assert ops[3].asked[0][2] is None, "nothing came to b's value before"


def test_s001_05_contributions_add_up() -> None:
    class Cubes(ta.Operator):
        def compute(self, x: Any, y: Any, z: Any) -> Any:
            return x * y + z

        def generate_adjoints(self, adjoints: Any, delta: Any, x: Any, y: Any, z: Any) -> None:
            x.generate_add_delta(adjoints, delta)
            x.add_delta(adjoints, delta * 2.0)
            adjoints.add_delta(x, delta * 4.0)
            y.add_delta(adjoints, delta)

    dx, dy, dz = ta.grad(lambda *a: Cubes()(*a).sum(), argnums=(0, 1, 2))(X, Y, P)
    assert (dx == 7).all() and (dy == 1).all() and (dz == 0).all()
    x = ta.placeholder((N,), "float64", name="x")
    both = ta.grad(Cubes()(x, x, x).sum(), x)
    assert (ta.evaluate(both, {x: X}) == 8).all()


@pytest.mark.parametrize("count", [1, 3, 8])
def test_s001_06_the_recipe_for_n_arguments(count: int) -> None:
    class Sum(ta.Operator):
        """sum of n x_n^2: df = sum of 2 n x_n dx_n."""

        def compute(self, *xs: Any) -> Any:
            return sum([x * x * float(n) for n, x in enumerate(xs, 1)])

        def generate_adjoints(self, adjoints: Any, delta: Any, *xs: Any) -> None:
            for n, x in enumerate(xs, 1):
                x.generate_add_delta(adjoints, x * (2.0 * n) * delta)

    given, own = [X * n for n in range(1, count + 1)], Sum()
    every = tuple(range(count))
    found = ta.grad(lambda *xs: own(*xs).sum(), argnums=every)(*given)
    derived = ta.grad(lambda *xs: own.compute(*xs).sum(), argnums=every)(*given)
    for a, b in zip(found, derived, strict=True):
        np.testing.assert_allclose(a, b)


def test_s001_07_the_products_class() -> None:
    dx, dy = ta.grad(lambda x, y: Multiply()(x, y).sum(), argnums=(0, 1))(X, Y)
    np.testing.assert_allclose(dx, Y)
    np.testing.assert_allclose(dy, X)


def test_s001_08_steps_use_earlier_values_only() -> None:
    swapped = POLYNOMIAL.replace("t10 : float64[] = x*x", "t10 : float64[] = t11*x")
    with pytest.raises(ProgramTextError, match="t11"):
        ta.module(swapped)
    unused = POLYNOMIAL.replace("  t30", "  t22 : float64[] = t21*t20\n  t30", 1)
    f = ta.gradient(ta.module(unused), "f")["f_adjoint"]
    assert "t22" not in str(f), "what is not used is free"


def test_s001_10_adjoints_are_pushed_down_level_by_level() -> None:
    told = [v.name for v in ta.explain_adjoints(ta.module(POLYNOMIAL), "f").values]
    assert told == ["t30", "t21", "t20", "t11", "t10", "a", "b", "c", "x"]
    bound = list(ta.gradient(ta.module(POLYNOMIAL), "f")["f_adjoint"].record.tensors)
    assert [n for n in bound if n.endswith("_adjoint")] == [f"{n}_adjoint" for n in told]


def test_s001_11_the_polynomial_and_its_steps() -> None:
    f = ta.gradient(ta.module(POLYNOMIAL), "f")["f_adjoint"]
    assert str(f).splitlines()[1:-1] == [
        *POLYNOMIAL.splitlines()[1:-1],
        "  t30_adjoint : float64[] = 1.0",
        "  t21_adjoint : float64[] = t30_adjoint",
        "  t20_adjoint : float64[] = t30_adjoint",
        "  t11_adjoint : float64[] = t21_adjoint",
        "  t10_adjoint : float64[] = t20_adjoint*a",
        "  a_adjoint : float64[] = t20_adjoint*t10",
        "  b_adjoint : float64[] = t11_adjoint*x",
        "  c_adjoint : float64[] = t21_adjoint",
        "  x_adjoint : float64[] = t11_adjoint*b + t10_adjoint*(x + x)",
    ]


def test_s001_12_the_steps_differentials() -> None:
    f = ta.module(POLYNOMIAL)["f"]
    tensors = f.record.tensors
    a, b, c, x = f.parameters
    at = {a: 2.0, b: 3.0, c: 5.0, x: 7.0}
    wanted = {
        "t10": {x: 14.0},
        "t11": {x: 3.0, b: 7.0},
        "t20": {a: 49.0, x: 28.0},
        "t21": {b: 7.0, x: 3.0, c: 1.0},
        "t30": {a: 49.0, b: 7.0, c: 1.0, x: 31.0},
    }
    for name, partials in wanted.items():
        t = tensors[name]
        assert isinstance(t, Tensor)
        for p in f.parameters:
            moved = ta.evaluate(ta.jvp(t, {p: 1.0}), {k: np.float64(v) for k, v in at.items()})
            assert moved == partials.get(p, 0.0), (name, p.name)


PRODUCT = """\
def f(a : float64[4], b : float64[4], p : float64[4], q : float64[4]) -> (float64[4], float64[4]):
  t : float64[4] = [i] a[i]*b[i]
  y : float64[4] = [i] t[i] + p[i]
  z : float64[4] = [i] t[i] - q[i]
  return (y, z)
"""
SUM = """\
def f(a : float64[4], b : float64[4], p : float64[4], q : float64[4]) -> \
(float64[4], float64[4], float64[4], float64[4]):
  t : float64[4] = [i] a[i] + b[i]
  y : float64[4] = [i] t[i] + p[i]
  z : float64[4] = [i] t[i] + q[i]
  u : float64[4] = [i] a[i] + p[i]
  v : float64[4] = [i] b[i] + q[i]
  return (y, z, u, v)
"""
OPTIONS: dict[str, Any] = {"require_grads": ["a", "b"], "cotangent": "head"}


def both_ways(text: str, **options: Any) -> list[Any]:
    """The function's gradient where t is accumulated, and where it is passed on."""
    ways = [{"t": ACCUMULATE}, {"t": PASS_ON}]
    return [
        ta.gradient(ta.module(text), "f", collect=way, **{**OPTIONS, **options})["f_adjoint"]
        for way in ways
    ]


def check_equal(text: str) -> None:
    kept, passed = both_ways(text)
    heads = tuple([RNG.standard_normal(N) for _ in ta.module(text)["f"].results])
    for a, b in zip(kept(X, Y, P, Q, heads)[1], passed(X, Y, P, Q, heads)[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_s001_14_initialize_increment_and_finalize_by_value() -> None:
    told = ta.explain_adjoints(ta.module(PRODUCT), "f", **OPTIONS)
    assert str(told["t"]) == (
        "t: accumulated\n"
        "  initialize  t_adjoint : float64[4], by the increment of z\n"
        "  increment   by y\n"
        "  finalize    goes to a, b\n"
        "  accumulated 4 additions, 8 products, 12 stores\n"
        "  passed on   8 additions, 16 products, 8 stores"
    )
    assert str(told["p"]) == "p: not asked for, increments are ignored"
    assert str(told["a"]).splitlines() == [
        "a: accumulated",
        "  initialize  a_adjoint : float64[4], by the increment of t",
        "  finalize    returned",
    ]
    assert str(told).splitlines()[0] == "adjoints of f" and "z: accumulated" in str(told)


def test_s001_15_increments_are_passed_straight_on() -> None:
    for text in (PRODUCT, SUM):
        check_equal(text)
        kept, passed = both_ways(text)
        assert "t_adjoint" in kept.record.tensors and "t_adjoint" not in passed.record.tensors


def test_s001_16_accumulated_adjoints_have_memory_from_first_increment_to_the_end() -> None:
    kept, passed = both_ways(PRODUCT)

    def lives(f: Any) -> dict[str, Any]:
        given = [*f.results, *f.parameters]
        p = lower_program(f.results, f.parameters, choices=ta.Schedule(fuse=False))
        written = [t for k in p.kernels for t in k.writes]
        named = {t.name: n for n, t in f.record.tensors.items() if isinstance(t, Tensor)}
        order = [named[t.name] for t in written]
        lives = find_buffers(p.nodes, given).temporaries
        return {named[life.tensor.name]: (life.first, life.last, order) for life in lives}

    first, last, order = lives(kept)["t_adjoint"]
    assert order[first - 1] == "t_adjoint", "written by its first increment"
    assert {order[last - 1]} <= {"a_adjoint", "b_adjoint"} and last - first == 2
    assert "t_adjoint" not in lives(passed)


def test_s001_17_the_first_increment_initializes() -> None:
    for f in (*both_ways(PRODUCT), *both_ways(SUM)):
        assert "= [i] 0.0" not in str(f)
        for name, t in f.record.tensors.items():
            if name.endswith("_adjoint") and isinstance(t, Tensor):
                assert isinstance(t.op, Compute), "one formula, not a fill and additions to it"
    kept, _ = both_ways(PRODUCT)
    stored = ta.work(list(kept.results[2:])).elements
    assert stored == (2 + 3) * N, "the heads; t', a' and b', each once"


def test_s001_18_unwanted_inputs_cost_nothing() -> None:
    def work(names: list[str]) -> Any:
        f = ta.gradient(ta.module(PRODUCT), "f", require_grads=names, cotangent="head")["f_adjoint"]
        return ta.work(list(f.results[2:]))

    assert work(["a"]).multiplications == N and work(["a", "b"]).multiplications == 2 * N
    heads = 2 * N
    assert work(["a"]).elements - heads == 2 * N and work(["a", "b"]).elements - heads == 3 * N
    assert work(["p"]).elements == 2 * N, "one head and the adjoint"


def choice(text: str, **options: Any) -> tuple[str, Operations, Operations]:
    c = ta.explain_adjoints(ta.module(text), "f", **{**OPTIONS, **options})["t"].collected
    assert c is not None
    return c.way, c.counts[ACCUMULATE], c.counts[PASS_ON]


def test_s001_19_the_choice_follows_counted_work() -> None:
    """Random programs are in tests/autodiff/test_collecting.py."""
    used_once = PRODUCT.replace("z : float64[4] = [i] t[i]", "z : float64[4] = [i] p[i]")
    costly = used_once.replace("y : float64[4] = [i] t[i] + p[i]", "y : float64[4] = [i] exp(t[i])")
    ways = {}
    for name, text in {"once": used_once, "costly": costly, "product": PRODUCT, "sum": SUM}.items():
        way, kept, passed = ways[name] = choice(text)
        assert (way == PASS_ON) == (passed.total <= kept.total)
        check_equal(text)
    assert [way for way, _, _ in ways.values()] == [PASS_ON, PASS_ON, ACCUMULATE, PASS_ON]


def test_s001_20_a_product_used_twice_is_accumulated() -> None:
    way, kept, passed = choice(PRODUCT)
    assert way == ACCUMULATE
    assert (kept.additions, kept.products, kept.elements) == (1 * N, 2 * N, 3 * N)
    assert (passed.additions, passed.products, passed.elements) == (2 * N, 4 * N, 2 * N)


def test_s001_21_a_sum_used_twice_takes_storage_or_one_more_addition() -> None:
    way, kept, passed = choice(SUM)
    assert (kept.additions, kept.products, kept.elements) == ((1 + 2) * N, 0, 3 * N)
    assert (passed.additions, passed.products, passed.elements) == (4 * N, 0, 2 * N)
    assert kept.bytes - passed.bytes == 8 * N and way == PASS_ON, "as many operations, no storage"


def test_s001_22_the_derivative_applied_to_an_error() -> None:
    multiply = Multiply()
    x, y, e = (ta.placeholder((N,), "float64", name=n) for n in "xye")
    z, s = multiply(x, topi.exp(y)), (x * y).sum()
    dx, dy = ta.deriv(z, x, e), ta.deriv(z, y, e)
    assert len(multiply.asked) == 1, "one sweep"
    at = {x: X, y: Y, e: P}
    np.testing.assert_allclose(ta.evaluate(dx, at), P * np.exp(Y))
    np.testing.assert_allclose(ta.evaluate(dy, at), P * X * np.exp(Y))
    np.testing.assert_allclose(ta.evaluate(ta.deriv(s, x), at), Y)
    both = ta.deriv([z, s], x, [e, 2.0])
    np.testing.assert_allclose(ta.evaluate(both, at), P * np.exp(Y) + 2 * Y)
    with pytest.raises(ta.errors.ShapeError) as caught:
        ta.deriv(z, x)
    assert str(caught.value) == (
        "deriv of Multiply of shape (4,) needs an error of this shape, got none.\n"
        "  hint: it may be left out where the tensor has no axes."
    )
    with pytest.raises(ta.errors.GradError):
        ta.deriv([z, s], x, [e])
    with pytest.raises(ta.errors.GradError):
        ta.deriv(z, [x, y], e)  # type: ignore[arg-type]


def test_t_11_how_adjoints_are_collected_is_seen_and_chosen() -> None:
    def f(a: Any, b: Any, p: Any) -> Any:
        t = a * b
        return ((t + p) * (t - p)).sum()

    told = ta.explain_adjoints(f, X, Y, P, require_grads=["a", "b"])
    assert told["mul"].collected is not None and told["mul"].collected.way == ACCUMULATE
    m = ta.module(ta.function(f).trace(X, Y, P))
    found = {}
    for collect in (None, "counted", {"mul": PASS_ON}, {"mul": ACCUMULATE, "add": PASS_ON}):
        g = ta.gradient(m, "f", collect=collect)["f_adjoint"]
        found[str(collect)] = [n for n in g.record.tensors if n.endswith("_adjoint")]
        _, (da, db, dp) = g(X, Y, P)
        np.testing.assert_allclose(da, 2 * X * Y * Y)
        np.testing.assert_allclose(db, 2 * X * Y * X)
        np.testing.assert_allclose(dp, -2 * P)
    assert len(set(map(str, found.values()))) == 4
    assert "mul_adjoint" in found["None"] and "mul_adjoint" in found["counted"]
    assert "mul_adjoint" not in found[str({"mul": PASS_ON})]
    again = ta.explain_adjoints(f, X, Y, P, collect={"mul": PASS_ON})["mul"]
    assert str(again).startswith("mul: passed on, as asked\n  increment   go on to a, b: those of ")
