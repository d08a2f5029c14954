"""Demands of Relax's Gradient (S000): what adjoint programs are made of, and how large they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.lifetimes import find_buffers
from tensorad.errors import ProgramTextError, ShapeError
from tensorad.ir.expr import Apply, Const
from tensorad.ir.tensor import Compute, Scan, Scatter, Tensor
from tensorad.ir.text.program import Define
from tensorad.ir.visit import op_expressions, op_inputs, postorder
from tests.seeds.support.differences import check_adjoints
from tests.seeds.support.formulas import additions, defined, is_zero
from tests.seeds.support.goldens import MEAN, UNUSED, check_golden
from tests.seeds.support.normal_form import check_normal_form

RNG = np.random.default_rng(0)
FOUR = np.zeros(4)
ROWS = ta.placeholder((ta.size("n"), 2), "float64")
COLUMN = ta.placeholder((ta.size("n"),), "float64")


def error(kind: type[Exception], call: Any) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


CALL = """\
def main(x : float64[3], y : float64[]) -> float64[]:
  z : float64[] = (sum over (i in [0, 3)) of x[i]*x[i])*y
  return z
"""
ASSIGNMENT = """\
def main(x : float64[]) -> float64[]:
  y = x
  return y
"""
TUPLE = """\
def main(x : float64[3], y : float64[]) -> (float64[3], float64[]):
  c = (x, y)
  return c
"""
FIELD = """\
def main(x : (float64[3], float64[])) -> float64[]:
  y = x[1]
  return y
"""
MIXED = """\
def main(x : (float64[3], float64[]), y : float64[3]) -> float64[]:
  a = x
  b = a[0]
  c = (b, (y, a))
  d = c[1]
  e = d[1]
  f = e[1]
  g : float64[3] = [i] b[i]*f + y[i]
  h = d[0]
  k = c[0]
  r : float64[] = sum over (i in [0, 3)) of g[i]*h[i]*k[i]
  s = r
  return s
"""


@pytest.mark.parametrize("text", [CALL, ASSIGNMENT, TUPLE, FIELD, MIXED])
def test_s000_09_every_form_of_binding_is_differentiated(text: str) -> None:
    x, y, s = RNG.standard_normal(3), RNG.standard_normal(3), np.float64(0.7)
    pair = (x, s)
    arguments = {CALL: (x, s), ASSIGNMENT: (s,), TUPLE: pair, FIELD: (pair,), MIXED: (pair, y)}
    check_adjoints(text, *arguments[text], **({"target_index": 1} if text == TUPLE else {}))
    check_normal_form(ta.module(text).program)


def test_s000_11_sizes_are_symbols_and_numbers() -> None:
    check_golden("mean")
    for n in (1, 2, 5):
        _, (dx, _) = check_adjoints(MEAN.before, RNG.standard_normal((n, 2)), RNG.random(n))
        assert dx.shape == (n, 2)

    def mean(x: Any = ROWS, y: Any = COLUMN) -> Any:
        return (x.sum(1) * y).sum() / x.shape[0]

    for n in (1, 4):
        check_adjoints(ta.module(mean), RNG.standard_normal((n, 2)), RNG.random(n), name="mean")


def test_s000_11_wrong_shapes_name_both() -> None:
    m = ta.gradient(ta.module(MEAN.before), "main")
    for name in m:
        assert error(ShapeError, lambda name=name: m[name](np.ones((3, 2)), np.ones(4))) == (
            "argument y has shape (4,), but n = 3 makes it (3,).\n"
            "  in: y : float64 (n,)\n"
            "  hint: arrays that share a symbolic size must agree on it."
        )
    call = (
        "def half(x : float64[n, 2]) -> float64[n]:\n"
        "  y : float64[n] = [i] x[i, 0]*0.5\n"
        "  return y\n\n"
        "def main(x : float64[n, 3]) -> float64[n]:\n"
        "  y : float64[n] = call half(x)\n"
        "  return y\n"
    )
    assert error(ProgramTextError, lambda: ta.module(call)) == (
        "parameter x of half is float64[n, 2], but gets float64[n, 3].\n"
        "  in: line 6, column 25: y : float64[n] = call half(x)\n"
        "  hint: shapes, dtypes and tuples have to agree; nothing is converted."
    )


def invented(x: Any = FOUR, y: Any = FOUR, unused: Any = FOUR) -> Any:
    """Operators that no library has: a scan and a fold of the user's own, a scatter, a formula."""
    soft = ta.comm_reducer(
        lambda a, b: ta.log(ta.exp(a) + ta.exp(b)), lambda dtype: ta.const(-1.0, dtype), name="soft"
    )
    k = ta.reduce_axis(4, name="k")
    trail = ta.scan(x, 0, soft)
    level = ta.compute((4,), lambda i: soft(trail[k] * y[(k + i) % 4], axis=k), name="level")
    spread = ta.scatter((3,), (4,), lambda i: ((i * i) % 3, level[i] * x[i]), name="spread")
    return (spread * spread).sum()


def test_s000_13_adjoints_are_formulas_and_no_registered_operators() -> None:
    m = ta.module(invented)
    arguments = RNG.uniform(0.2, 1.0, (3, 4))
    check_adjoints(m, *arguments, name="invented")
    f = ta.gradient(m, "invented")["invented_adjoint"].record
    assert all(isinstance(b, Define) for b in f.scope.bindings)
    for t in defined(f).values():
        assert isinstance(t.op, (Compute, Scan, Scatter))
        assert not any(isinstance(e, Apply) for e in postorder(*op_expressions(t.op)))


def test_s000_13_zeros_are_made_only_where_they_are_returned() -> None:
    f = ta.gradient(ta.module(invented), "invented")["invented_adjoint"].record
    zeros = [n for n, t in defined(f).items() if is_zero(t)]
    assert zeros == ["unused_adjoint"]
    wanted = ta.gradient(ta.module(invented), "invented", require_grads=["x", "y"])
    assert not any(map(is_zero, defined(wanted["invented_adjoint"].record).values()))


@pytest.mark.parametrize("uses", [1, 2, 5])
@pytest.mark.parametrize("same", [False, True])
def test_s000_19_n_uses_take_n_minus_1_additions(uses: int, same: bool) -> None:
    names = [f"u{k}" for k in range(uses)]
    lines = [f"  {u} : float64[3] = [i] x[i]*{2 if same else k + 2}.0" for k, u in enumerate(names)]
    text = "\n".join([
        "def main(x : float64[3], y : float64[3]) -> float64[]:", *lines,
        f"  r : float64[] = sum over (i in [0, 3)) of {'*'.join([f'{u}[i]' for u in names])}",
        "  return r", "",
    ])  # fmt: skip
    check_adjoints(text, RNG.standard_normal(3), RNG.standard_normal(3))
    f = ta.gradient(ta.module(text), "main")["main_adjoint"].record
    made = defined(f)
    assert len(additions(made["x_adjoint"])) == uses - 1
    zeros = [t for t in made.values() if is_zero(t)]
    for t in made.values():
        for operands in additions(t):
            assert not any(isinstance(e, Const) and e.value == 0 for e in operands)
        assert not any(z in op_inputs(t.op) for z in zeros), "no zeros are read"


@pytest.mark.parametrize("uses", [1, 2, 5])
def test_s000_19_uses_in_one_formula_are_added_at_most_n_minus_1_times(uses: int) -> None:
    text = (
        "def main(x : float64[3]) -> float64[]:\n"
        f"  r : float64[] = sum over (i in [0, 3)) of {' + '.join(['x[i]'] * uses)}\n"
        "  return r\n"
    )
    _, (dx,) = check_adjoints(text, RNG.standard_normal(3))
    assert (dx == uses).all()
    f = ta.gradient(ta.module(text), "main")["main_adjoint"].record
    assert len(additions(defined(f)["x_adjoint"])) <= uses - 1


def chain(n: int) -> str:
    """x1 = x0*sin(x0), x2 = x1*sin(x1), ...: nested, its formulas would double in each step."""
    lines = []
    for k in range(n):
        lines += [f"  y{k} : float64[3] = [i] sin(x{k}[i])"]
        lines += [f"  x{k + 1} : float64[3] = [i] x{k}[i]*y{k}[i]"]
    last = f"  r : float64[] = sum over (i in [0, 3)) of x{n}[i]"
    head = "def main(x0 : float64[3]) -> float64[]:"
    return "\n".join([head, *lines, last, "  return r", ""])


def fan(n: int) -> str:
    """One value in n formulas, and these in one sum."""
    lines = ["  s : float64[3] = [i] exp(x0[i])"]
    lines += [f"  y{k} : float64[3] = [i] sin(s[i]*{k + 1}.0)" for k in range(n)]
    total = " + ".join([f"y{k}[i]" for k in range(n)])
    last = f"  r : float64[] = sum over (i in [0, 3)) of {total}"
    head = "def main(x0 : float64[3]) -> float64[]:"
    return "\n".join([head, *lines, last, "  return r", ""])


@pytest.mark.parametrize(("make", "lengths"), [(chain, (5, 15, 25)), (fan, (10, 30, 50))])
def test_s000_21_programs_grow_linearly(make: Any, lengths: tuple[int, ...]) -> None:
    """Up to 50 bindings. Each adjoint is bound once, and computed once: equal steps add equal
    lines and work."""
    sizes: list[tuple[int, ...]] = []
    for n in lengths:
        f = ta.gradient(ta.module(make(n)), "main")["main_adjoint"]
        names = [n for b in f.record.scope.bindings if isinstance(b, Define) for n in b.names]
        assert len(set(names)) == len(names)
        assert [n for n in names if n.endswith("_adjoint")] == [
            f"{n}_adjoint" for n in [*names[::-1], "x0"] if not n.endswith("_adjoint")
        ]
        nodes = sum(len(postorder(*op_expressions(t.op))) for t in defined(f.record).values())
        w = ta.work(f.results)
        sizes.append((len(names), nodes, int(w.iterations), int(w.multiplications)))
    steps = np.diff(np.array(sizes), axis=0)
    assert (steps == steps[0]).all(), sizes
    check_adjoints(make(3), RNG.standard_normal(3))


def layers(n: int, shared: bool = False) -> str:
    """n dense layers, with one matrix or n."""
    own = ["w" if shared else f"w{k}" for k in range(n)]
    given = ", ".join([f"{w} : float64[8, 8]" for w in dict.fromkeys(own)])
    lines = [f"def main(x0 : float64[8], {given}) -> float64[]:"]
    for k, w in enumerate(own):
        lines += [f"  u{k + 1} : float64[8] = [i] sum over (j in [0, 8)) of {w}[i, j]*x{k}[j]"]
        lines += [f"  x{k + 1} : float64[8] = [i] tanh(u{k + 1}[i])"]
    last = f"  r : float64[] = sum over (i in [0, 8)) of x{n}[i]*x{n}[i]"
    return "\n".join([*lines, last, "  return r", ""])


@pytest.mark.parametrize("shared", [False, True])
def test_s000_26_an_adjoint_lives_until_its_definitions_operands_have_theirs(shared: bool) -> None:
    f = ta.gradient(ta.module(layers(6, shared)), "main")["main_adjoint"]
    given = [*f.results, *f.parameters]
    p = lower_program(f.results, f.parameters, choices=ta.Schedule(fuse=False))
    written = {t: at for at, k in enumerate(p.kernels, 1) for t in k.writes}
    assert len(p.nodes) == len(p.kernels), "a straight line"
    lives = {life.tensor: life for life in find_buffers(p.nodes, given).temporaries}
    names = f.record.tensors
    checked = 0
    for name, t in names.items():
        adjoint = names.get(f"{name}_adjoint")
        if isinstance(t, Tensor) and isinstance(adjoint, Tensor) and adjoint in lives:
            operands = {n for n, v in names.items() if v in op_inputs(t.op)}
            last = max(written[names[f"{n}_adjoint"]] for n in operands)
            assert lives[adjoint].last <= last, name
            checked += 1
    assert checked == 13, "u1 to u6, x1 to x6 and r"


def test_s000_26_a_chains_memory_is_what_it_stores_and_a_few_buffers() -> None:
    """A row of 64 bytes for each layer: x1 to xn."""
    rows = []
    for n in (4, 8, 16):
        f = ta.gradient(ta.module(layers(n)), "main")["main_adjoint"]
        made = ta.build(list(f.results), list(f.parameters), schedule=ta.Schedule(fuse=False))
        rows.append(made.memory.temporaries // 64 - n)
    assert len(set(rows)) == 1 and rows[0] <= 3, rows


def test_s000_27_what_is_defined_and_not_used_is_ignored() -> None:
    check_golden("unused")
    text = UNUSED.before.replace("float32", "float64").replace(
        "  gv0",
        "  lv3 : float64[] = loop t in [0, 5) carry (s = lv2) fixed (x):\n"
        "    after : float64[] = s + x[t, t]\n"
        "    yield after\n"
        "  pair = (lv3, lv0)\n"
        "  part = pair[0]\n"
        "  gv0",
        1,
    )
    found = ta.gradient(ta.module(text), "main")["main_adjoint"]
    assert list(found.record.tensors) == [
        "x", "y", "lv0", "gv0", "gv0_adjoint", "lv0_adjoint", "x_adjoint", "y_adjoint",
    ]  # fmt: skip
    check_adjoints(text, *RNG.standard_normal((2, 5, 5)))


def test_s000_27_what_is_used_and_not_defined_is_refused() -> None:
    text = """\
def main(x : float64[3]) -> float64[]:
  y : float64[3] = [i] z[i]*0.5
  z : float64[3] = [i] x[i]*0.5
  r : float64[] = sum over (i in [0, 3)) of y[i]
  return r
"""
    assert error(ProgramTextError, lambda: ta.module(text)) == (
        "undefined name z.\n"
        "  in: line 2, column 24: y : float64[3] = [i] z[i]*0.5\n"
        "  hint: names here are x."
    )
    other = text.replace("z[i]*0.5", "x[i]*0.5").replace("return r", "return total")
    assert error(ProgramTextError, lambda: ta.module(other)) == (
        "undefined name total.\n"
        "  in: line 5, column 10: return total\n"
        "  hint: names here are x, y, z, r."
    )
