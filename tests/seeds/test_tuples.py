"""Demands of Relax's Gradient (S000) on tuples: their adjoints are tuples, updated part by part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import GradError
from tensorad.ir.text.program import Bind, Define, Field, ProgramFunction
from tests.seeds.support.differences import check_adjoints
from tests.seeds.support.formulas import additions, defined, is_zero
from tests.seeds.support.goldens import AGAIN, ALIAS, BOTH, FIELD, NESTED, TUPLE, check_golden
from tests.seeds.support.normal_form import check_normal_form

RNG = np.random.default_rng(0)
A, B, C = RNG.standard_normal((3, 3))
THREE, TWO, ZERO = np.zeros(3), np.zeros(2), np.zeros(())


def adjoint(text: str | ta.Module, name: str = "main", **options: Any) -> ProgramFunction:
    """The bindings of `<name>_adjoint`."""
    return ta.gradient(ta.module(text), name, **options)[f"{name}_adjoint"].record


def total_additions(f: ProgramFunction) -> int:
    """In the formulas of all bindings."""
    return sum(len(additions(t)) for t in defined(f).values())


def test_s000_28_a_tuples_adjoint_goes_to_its_parts_each_to_its_own() -> None:
    check_golden("tuple")
    f = ta.gradient(ta.module(TUPLE.before), "main", **TUPLE.options)["main_adjoint"]
    _, (da, db) = f(A, 0.5, (B, -2.0))
    np.testing.assert_array_equal(da, B)
    assert db == -2.0, "c_adjoint[1], where the paper has c_adjoint[0]"


def test_s000_29_a_fields_adjoint_goes_into_its_place() -> None:
    check_golden("field")
    _, (da,) = check_adjoints(FIELD.before, (A, 0.5))
    assert da[0].tolist() == [2.5] * 3 and da[1] == 0.0


def test_s000_31_tuples_in_tuples_are_defined_and_read() -> None:
    check_golden("nested")
    _, (da, db, de) = check_adjoints(NESTED.before, A, B, 0.5)
    assert not da.any() and (db == 0.5).all()
    np.testing.assert_allclose(de, B.sum())


@pytest.mark.parametrize("typed", ["", " : float64[]"])
def test_s000_31_fields_of_fields_are_bound_one_by_one(typed: str) -> None:
    text = NESTED.before.replace("  c_1 = c[1]\n  h = c_1[0]\n", f"  h{typed} = c[1][0]\n")
    assert text != NESTED.before
    assert str(ta.module(text)) == NESTED.before
    whole = NESTED.before.replace("  d = c[0]\n", "  d : (float64[3], float64[3]) = c[0]\n")
    assert str(ta.module(whole)) == NESTED.before
    fields = [b for b in ta.module(text).program["main"].scope.bindings if isinstance(b, Field)]
    assert [(b.name, b.of, b.index) for b in fields] == [
        ("d", "c", 0), ("g", "d", 1), ("c_1", "c", 1), ("h", "c_1", 0),
    ]  # fmt: skip


def test_s000_31_fields_of_fields_in_python() -> None:
    def main(a: Any = THREE, b: Any = (THREE, (0.0, THREE))) -> Any:
        c = ((a, b), (b[1],), ())
        return (c[0][1][0] * c[1][0][1] * c[0][0]).sum() * c[1][0][0]

    m = ta.module(main)
    check_normal_form(m.program)
    check_adjoints(m, A, (B, (np.float64(0.5), C)))


def test_s000_33_a_tuple_parameters_adjoint_is_a_tuple_under_an_alias() -> None:
    check_golden("alias")
    x, y = RNG.standard_normal((2, 5, 5))
    _, (dx,) = check_adjoints(ALIAS.before, (x, y))
    assert isinstance(dx, tuple) and (dx[0] == 1).all() and (dx[1] == -1).all()


USED_TWICE = """\
def main(x : (float64[3], (float64[], float64[3]))) -> float64[]:
  a = x
  b = x
  c = a[1]
  d = b[1]
  e = c[1]
  f = d[1]
  g = a[0]
  h = b[0]
  k = c[0]
  l = d[0]
  r : float64[] = (sum over (i in [0, 3)) of e[i]*f[i]*g[i]*h[i])*k*l
  return r
"""


def test_s000_34_adjoints_of_tuples_are_added_leaf_by_leaf() -> None:
    check_adjoints(USED_TWICE, (A, (np.float64(0.5), B)))
    f = adjoint(USED_TWICE)
    sums = [n for n, t in defined(f).items() if additions(t)]
    assert sums == ["x_adjoint_0", "x_adjoint_1_0", "x_adjoint_1_1"]
    assert total_additions(f) == 3, "one for each leaf"
    results = f.tensors["x_adjoint"]
    assert isinstance(results, tuple) and len(results) == 2 and len(results[1]) == 2


def test_s000_34_a_rule_gives_what_has_the_arguments_structure() -> None:
    def operator(rule: Any) -> Any:
        @ta.function
        def weighed(pair: Any, k: Any) -> Any:
            return pair[0] * pair[1][0] * k

        ta.register_gradient(weighed)(rule)

        @ta.function
        def main(pair: Any = (THREE, (THREE,)), k: Any = ZERO) -> Any:
            return weighed(pair, k).sum() + (pair[0] * pair[0]).sum()

        return ta.module(main)

    def right(call: Any, head: Any) -> Any:
        (a, (b,)), k = call.args
        return [(head * b * k, (head * a * k,)), (head * a * b).sum()]

    def wrong(call: Any, head: Any) -> Any:
        (a, (b,)), k = call.args
        return [(head * b * k, head * a * k), (head * a * b).sum()]

    check_adjoints(operator(right), (A, (B,)), np.float64(0.5))
    with pytest.raises(GradError) as caught:
        ta.gradient(operator(wrong), "main")
    assert str(caught.value) == (
        "the rule of weighed returns Tensor as adjoint of pair[1], which is another structure "
        "than that of pair[1].\n"
        "  in: weighed(pair, k)\n"
        "  hint: the adjoint of a tree is a tree like it; ta.no_grad may stand for any part."
    )


def fields(n: int) -> str:
    """Of a parameter of n fields one is used."""
    return (
        f"def main(x : ({', '.join(['float64[3]'] * n)})) -> float64[]:\n"
        "  y = x\n"
        "  v = y[7]\n"
        "  r : float64[] = sum over (i in [0, 3)) of v[i]*v[i]\n"
        "  return r\n"
    )


def parameters(n: int) -> str:
    """Of a tuple of n parameters one is used."""
    names = [f"x{k}" for k in range(n)]
    return (
        f"def main({', '.join([f'{x} : float64[3]' for x in names])}) -> float64[]:\n"
        f"  y = ({', '.join(names)})\n"
        "  v = y[7]\n"
        "  r : float64[] = sum over (i in [0, 3)) of v[i]*v[i]\n"
        "  return r\n"
    )


def test_s000_35_zeros_are_made_only_for_fields_whose_adjoints_are_returned() -> None:
    arrays = tuple(RNG.standard_normal((20, 3)))

    def zeros(f: ProgramFunction) -> list[str]:
        return [n for n, t in defined(f).items() if is_zero(t)]

    assert zeros(adjoint(fields(20), require_grads="v")) == []
    assert zeros(adjoint(parameters(20), require_grads=["x7", "v"])) == []
    others = [k for k in range(20) if k != 7]
    assert zeros(adjoint(fields(20))) == [f"x_adjoint_{k}" for k in others]
    assert zeros(adjoint(parameters(20))) == [f"x{k}_adjoint" for k in others]
    _, (dx,) = check_adjoints(fields(20), arrays)
    _, each = check_adjoints(parameters(20), *arrays)
    for found in (dx, each):
        np.testing.assert_allclose(found[7], 2 * arrays[7])
        assert not any(found[k].any() for k in others)


def test_s000_36_both_fields_of_a_tuple_are_used() -> None:
    check_golden("both")
    _, (da, db) = check_adjoints(BOTH.before, A, B)
    np.testing.assert_allclose(da, B)
    np.testing.assert_allclose(db, A)


@pytest.mark.parametrize("uses", [1, 2, 5])
def test_s000_36_each_further_use_of_a_field_takes_one_addition(uses: int) -> None:
    lines = [f"  d{k} = c[0]\n" for k in range(uses)]
    text = (
        "def main(a : float64[3], b : float64[3]) -> float64[]:\n"
        "  c = (a, b)\n"
        f"{''.join(lines)}"
        "  e = c[1]\n"
        "  r : float64[] = sum over (i in [0, 3)) of "
        f"{'*'.join([f'd{k}[i]' for k in range(uses)])}*e[i]\n"
        "  return r\n"
    )
    check_adjoints(text, A, B)
    assert total_additions(adjoint(text)) == uses - 1


PIECES = """\
def main(a : float64[3], b : float64[2]) -> float64[]:
  c : float64[5] = [i] select(i < 3, a[i], b[i - 3])
  u : float64[4], v : float64[4] = [i] c[i]*c[i + 1], exp(c[i])
  r : float64[] = sum over (i in [0, 4)) of u[i]
  return r
"""


def test_s000_37_operators_have_tuples_as_arguments_and_results() -> None:
    best = ta.comm_reducer(
        lambda a, b: (ta.select(b[0] > a[0], b[0], a[0]), ta.select(b[0] > a[0], b[1], a[1])),
        lambda value, place: (-np.inf, 0),
        name="best",
    )

    def main(a: Any = THREE, b: Any = TWO) -> Any:
        p, q = ta.topi.split(ta.topi.concatenate((a, b, a)), [3])
        k = ta.reduce_axis(5, name="k")
        top, _ = ta.compute((), lambda: best((q[k] * q[k], k), axis=k), name="top")
        return (p * p).sum() * top

    check_adjoints(ta.module(main), A, B[:2])


def test_s000_37_an_unused_output_has_no_adjoint() -> None:
    check_adjoints(PIECES, A, B[:2])
    made = defined(adjoint(PIECES))
    assert "u_adjoint" in made and "v_adjoint" not in made
    assert not any(is_zero(t) for t in made.values())
    both = PIECES.replace("of u[i]", "of u[i]*v[i]")
    check_adjoints(both, A, B[:2])
    assert "v_adjoint" in defined(adjoint(both))


SHARED = """\
def main(a : float64[3], b : float64[3], d : float64[3]) -> float64[]:
  c = (a, (b, d))
  p = c[1]
  q = c[1]
  s = p[0]
  t = q[0]
  u = p[1]
  v = q[1]
  w = c[0]
  x : float64[3] = [i] exp(s[i] + t[i] + u[i] + w[i])*v[i]
  r : float64[] = sum over (i in [0, 3)) of x[i]
  return r
"""


def test_s000_38_a_contribution_to_several_leaves_is_bound_once() -> None:
    """c's adjoint has one addition for each field of c[1], which its parts and b and d read."""
    check_adjoints(SHARED, A / 4, B / 4, C / 4)
    f = adjoint(SHARED)
    own = [b for b in f.scope.bindings if not isinstance(b, Define)]
    names = [*defined(f), *[n for b in own if isinstance(b, (Bind, Field)) for n in [b.name]]]
    assert len(names) == len(set(names))
    sums = [n for n in names if n.endswith(("c_adjoint_1_0", "c_adjoint_1_1"))]
    assert sums == ["c_adjoint_1_0", "c_adjoint_1_1"]
    for n in sums:
        assert len(additions(defined(f)[n])) == 1
    for n in ("a_adjoint", "b_adjoint", "d_adjoint"):
        assert n not in defined(f) or not additions(defined(f)[n])


def test_s000_39_the_other_fields_stay_the_same_variables() -> None:
    check_golden("again")
    check_adjoints(AGAIN.before, A, B, C)
    tuples = [b for b in adjoint(AGAIN.before).scope.bindings if isinstance(b, Bind)]
    values = {b.name: b.value for b in tuples}
    assert values["c_adjoint"] == ("d_adjoint", "c_adjoint_1", "h_adjoint")
