"""Branches run one of several functions."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, ShapeError, UserError
from tensorad.ir.tensor import Branch


def test_cond_takes_one_side() -> None:
    p = ta.placeholder((), name="p")
    x = ta.placeholder((3,), name="x")
    y = ta.cond(p > 0, lambda v: {"a": v * p}, lambda v: {"a": v + 1.0}, x)["a"]
    a = np.arange(3.0)
    assert np.array_equal(ta.interpret(y, {p: 2.0, x: a}), a * 2)
    assert np.array_equal(ta.interpret(y, {p: -2.0, x: a}), a + 1)
    assert y.name == "cond['a']"


def test_switch_takes_indices_into_range() -> None:
    n = ta.placeholder((), "int64", name="n")
    x = ta.placeholder((), name="x")
    y = ta.switch(n, [lambda v: v, lambda v: v * v, lambda v: -v], x)
    found = [float(ta.interpret(y, {n: k, x: 3.0})) for k in (-5, 0, 1, 2, 9)]
    assert found == [3, 3, 9, -3, -3]


def test_what_a_branch_computes_is_inside_of_it() -> None:
    x = ta.placeholder((3,), name="x")
    before = x * 2.0
    (y,) = ta.cond(True, lambda: [ta.topi.exp(before)], lambda: [before])
    op = y.op
    assert isinstance(op, Branch)
    assert op.operands[1:] == (before,)
    assert [b.params for b in op.blocks] == [(before,), (before,)]


def test_branches_build() -> None:
    f = ta.function(lambda x: ta.cond(x > 0, lambda: x * 2, lambda: 1))
    assert f(3.0) == 6.0 and f(-3.0) == 1.0


def test_numbers_take_the_dtype_of_the_other_side() -> None:
    x = ta.placeholder((), "float64", name="x")
    n = ta.placeholder((), "int32", name="n")
    assert ta.cond(True, lambda: x, lambda: 1).dtype == "float64"
    assert ta.cond(True, lambda: 0.5, lambda: 1).dtype == "float32"
    assert ta.cond(True, lambda: n, lambda: 1).dtype == "int32"
    assert ta.cond(True, lambda: 2, lambda: 1).dtype == "int64"


def test_branches_of_nothing_are_nothing() -> None:
    assert ta.cond(True, lambda: (None, "a"), lambda: (None, "a")) == (None, "a")


x = ta.placeholder((2, 3), name="x")
REFUSED = {
    "structures": (
        lambda: ta.cond(True, lambda: {"a": x, "b": (1, 2.0)}, lambda: {"a": x, "b": (1,)}),
        DefinitionError,
        "the branches of cond at test_branches.py:LINE return different structures: they differ at "
        "cond['b'][1].\n"
        "  in:               true_fn         false_fn\n"
        "      cond['a']     float32 (2, 3)  float32 (2, 3)\n"
        "      cond['b'][0]  number 1        number 1\n"
        "      cond['b'][1]  number 2.0      -\n"
        "  hint: return trees of one structure; where one branch has nothing to say, zeros.",
    ),
    "shapes": (
        lambda: ta.switch(0, [lambda: x, lambda: x, lambda: 1.0]),
        ShapeError,
        "the branches of switch at test_branches.py:LINE return different shapes at switch.\n"
        "  in: branches[0]: float32 (2, 3), branches[2]: number 1.0\n"
        "  hint: broadcast or reshape one of them.",
    ),
    "dtypes": (
        lambda: ta.cond(True, lambda: x, lambda: x.astype("float64")),
        DTypeError,
        "the branches of cond at test_branches.py:LINE return different dtypes at cond.\n"
        "  in: true_fn: float32 (2, 3), false_fn: float64 (2, 3)\n"
        "  hint: convert one with .astype(dtype).",
    ),
    "a number that does not fit": (
        lambda: ta.cond(True, lambda: ta.const(np.int64(1)), lambda: 0.5),
        DTypeError,
        "the branches of cond at test_branches.py:LINE return different dtypes at cond.\n"
        "  in: true_fn: int64 (), false_fn: number 0.5\n"
        "  hint: convert one with .astype(dtype).",
    ),
    "condition": (
        lambda: ta.cond(1, lambda: x, lambda: x),
        DTypeError,
        "the condition of cond at test_branches.py:LINE has dtype int64.\n"
        "  hint: a condition is a bool: compare, e.g. x > 0; ta.switch takes an integer.",
    ),
    "many conditions": (
        lambda: ta.cond(x > 0, lambda: x, lambda: x),
        ShapeError,
        "the condition of cond at test_branches.py:LINE has shape (2, 3).\n"
        "  in: gt : bool\n"
        "  hint: one value decides for all: pass a 0-d tensor; ta.select chooses by element.",
    ),
    "no condition": (
        lambda: ta.cond("yes", lambda: x, lambda: x),
        DefinitionError,
        "the condition of cond at test_branches.py:LINE is of class str.\n"
        "  hint: pass a 0-d tensor.",
    ),
    "index": (
        lambda: ta.switch(0.5, [lambda: x]),
        DTypeError,
        "the index of switch at test_branches.py:LINE has dtype float32.\n"
        "  hint: pass an integer; ta.cond takes a condition.",
    ),
    "no branches": (
        lambda: ta.switch(0, []),
        DefinitionError,
        "the branches of switch at test_branches.py:LINE must be a list of functions, got an empty "
        "one.\n"
        "  hint: pass one function for each value of the index, from 0 on.",
    ),
    "no function": (
        lambda: ta.cond(True, lambda: x, x),
        DefinitionError,
        "false_fn of cond at test_branches.py:LINE must be a function, got Tensor.\n"
        "  hint: pass a function, or a lambda.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_branches_that_are_refused(case: str) -> None:
    bad, kind, text = REFUSED[case]
    with pytest.raises(UserError) as caught:
        bad()
    line = bad.__code__.co_firstlineno
    assert type(caught.value) is kind
    assert str(caught.value) == text.replace("LINE", str(line))
