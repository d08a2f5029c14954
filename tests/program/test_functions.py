"""Functions of trees: traced once, compiled, called; parts of programs when called with tensors."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BindError, BuildError, DefinitionError, DTypeError, UserError
from tensorad.ir.tensor import FunctionCall, Tensor
from tensorad.ir.text.parser import parse_program
from tensorad.program.calling.quick import told


def test_trees_go_in_and_come_out() -> None:
    @ta.function
    def layer(params: Any, x: Tensor) -> Any:
        return {"y": ta.topi.matmul(x, params["w"]) + params["b"], "n": 3, "s": "hi", "none": None}

    w, b, x = np.ones((4, 5), "float32"), np.arange(5, dtype="float32"), np.ones((3, 4), "float32")
    out = layer({"w": w, "b": b}, x)
    assert np.array_equal(out["y"], x @ w + b) and out["y"].dtype == np.float32
    assert out["n"] == 3 and out["s"] == "hi" and out["none"] is None
    assert layer.name == "layer" and repr(layer).startswith("<Function layer(")


def test_a_function_is_traced_once_per_kind_of_arguments() -> None:
    traces: list[object] = []

    @ta.jit
    def f(x: Any, k: Any = 2.0, mode: str = "a") -> Any:
        traces.append(x)
        return x * k

    a = np.ones(3, "float32")
    for k in (2.0, 3.0):
        assert f(a, k)[0] == k
    assert f(a, k=5.0)[0] == 5.0 and len(traces) == 1
    f(a)
    assert len(traces) == 2  # the default is a number of the function's own
    f(a.astype("float64"), 2.0)
    f(a[None], 2.0)
    f(a, 2.0, "b")
    assert len(traces) == 5


def test_calls_with_tensors_are_parts_of_programs() -> None:
    @ta.function
    def double(x: Any) -> Any:
        return {"y": x * 2}

    x, y = (ta.placeholder((3,), name=n) for n in "xy")
    one, other = double(x)["y"], double(y)["y"]
    assert isinstance(one.op, FunctionCall) and one.op.function == "double"
    assert one.op.blocks[0].results == other.op.blocks[0].results  # traced once
    assert ta.interpret(one + other, {x: [1, 2, 3], y: [0, 0, 1]}).tolist() == [2, 4, 8]
    twice = ta.function(lambda x: double(double(x)["y"])["y"])
    assert twice(np.ones(2)).tolist() == [4, 4]


def test_functions_read_tensors_from_outside() -> None:
    @ta.function
    def outer(x: Any) -> Any:
        scale = ta.function(lambda v: v * x)
        return scale(scale(2.0))

    assert outer(3.0) == 18.0


def test_functions_nested_in_functions() -> None:
    def wrapped(inner: Any) -> Any:
        return ta.function(lambda x: inner(x) * 1.01)

    f: Any = wrapped(lambda x: x)
    for _ in range(399):
        f = wrapped(f)
    limit = sys.getrecursionlimit()
    program = f.trace(np.ones(2))
    found = ta.interpret(program.results[0], {program.parameters[0]: np.ones(2)})
    assert np.allclose(found, 1.01**400, rtol=1e-12) and sys.getrecursionlimit() == limit


def test_methods_are_functions_of_their_objects() -> None:
    class Net:
        @ta.function
        def forward(self: Any, x: Any) -> Any:
            return x * 2

    ta.register_tree(Net, lambda n: ((), None), lambda meta, children: Net())
    assert Net().forward(2.0) == 4.0


def test_a_function_of_a_function_is_that_function() -> None:
    def squares(x: Any, n: int) -> Any:
        return (x * x).sum() * n

    f = ta.function(squares)
    assert ta.function(f) is f
    derived = ta.value_and_grad(squares)
    assert ta.function(derived) is derived
    fixed = ta.function(derived, static_argnames="n")
    assert fixed.static_argnames == ("n",) and fixed.name == "value_and_grad_squares"
    value, gradient = fixed(np.arange(3.0), 2)
    assert value == 10.0 and gradient.tolist() == [0.0, 4.0, 8.0]
    text = str(fixed.trace(np.arange(3.0), 2))
    assert "x_1" not in text and text.startswith("def value_and_grad_squares(x : float64[3])")


def test_results_may_be_arguments_or_nothing() -> None:
    assert ta.function(lambda x, y: (y, x, x))(1.0, 2)[0] == 2
    assert ta.function(lambda x: (None, "a"))(1.0) == (None, "a")


def test_numbers_beside_arrays_lose_no_digits() -> None:
    f = ta.function(lambda x, k: x * k)
    assert f(np.ones(2), 0.1)[0] == 0.1
    assert f(np.ones(2, "float32"), 0.1).dtype == np.float32
    assert f(np.ones(2, "int32"), 2).dtype == np.int64
    beside = ta.function(lambda x, y, k: (x * y, y * k))
    for narrow, wide in (("float32", "float64"), ("float64", "float32")):
        y, scaled = beside(np.ones(2, narrow), np.ones(2, wide), 0.1)
        assert y.dtype == scaled.dtype == np.float64 and scaled.tolist() == [0.1, 0.1]


kept: list[Any] = []


def leaks_a_carry(x: Any) -> Any:
    last = ta.for_loop(0, 3, lambda i, c: (kept.append(c * 2), c + 1)[1], x)
    return last + kept.pop()


def leaks_a_counter(x: Any) -> Any:
    last = ta.for_loop(0, 3, lambda i, c: (kept.append(i), c + 1)[1], x)
    return last * kept.pop()


def rows(v: Any, n: Any) -> Any:
    return {"ys": ta.scan(lambda c, _: (c, c), v, length=n)[1]}


def leaks_an_index(x: Any) -> Any:
    return ta.compute((2,), lambda i: (kept.append(i), x[i])[1]), kept.pop()


@ta.function
def endless(x: Any) -> Any:
    return endless(x)


CARRY = leaks_a_carry.__code__.co_firstlineno + 1
COUNTER = leaks_a_counter.__code__.co_firstlineno + 2
w = ta.placeholder((2,), name="w")
x = np.ones(2)
REFUSED = {
    "a carry that left its loop": (
        lambda: ta.function(leaks_a_carry)(1.0),
        DefinitionError,
        f"leaks_a_carry uses c outside of the body of for_loop at test_functions.py:{CARRY}, where "
        "it has no value.\n"
        "  in: c : float32 ()\n"
        "  hint: return what is needed from the function it belongs to.",
    ),
    "a counter that left its loop": (
        lambda: ta.function(leaks_a_counter)(x),
        DefinitionError,
        "leaks_a_counter uses i, the counter of a loop, outside of the loop.\n"
        f"  in: mul at test_functions.py:{COUNTER}\n"
        "  hint: return what is needed from the loop: as a carry, or as y of a scan.",
    ),
    "a placeholder": (
        lambda: ta.function(lambda v: v * w)(x),
        DefinitionError,
        "<lambda> uses the placeholder w, which has no value in a call.\n"
        "  in: w : float32 (2,)\n"
        "  hint: make it an argument of <lambda>, or use an array in its place.",
    ),
    "rows that only a run counts": (
        lambda: ta.function(rows)(x, 3),
        DefinitionError,
        "rows['ys'] has a row for each iteration of a loop, and only its run tells how many.\n"
        "  in: c : float64, of rows\n"
        "  hint: return what is computed of all rows, such as their sum; or let an extent, of xs "
        "or another argument, tell how many there are.",
    ),
    "recursion": (
        lambda: endless(1.0),
        DefinitionError,
        "endless calls itself before it is known what it returns.\n"
        "  in: endless(x)\n"
        "  hint: let a branch of ta.cond, ta.switch or ta.match return without calling it, or say "
        "what it returns: ta.function(returns=...) takes an example, or a function of the "
        "arguments.",
    ),
    "an unhashable static argument": (
        lambda: ta.function(lambda v, mode: v, static_argnames="mode")(x, mode=["a"]),
        DefinitionError,
        "the static argument mode of <lambda> cannot be hashed: it is a list.\n"
        "  in: mode = ['a']\n"
        "  hint: calls are told apart by the values of static arguments: pass a tuple, a string, "
        "a number or a frozen dataclass.",
    ),
    "an unknown static argument": (
        lambda: ta.function(lambda v: v, static_argnames=("mode",)),
        DefinitionError,
        "<lambda> has no parameter mode.\n"
        "  in: static_argnames=('mode',)\n"
        "  hint: its parameters are v.",
    ),
    "arguments": (
        lambda: endless(1.0, 2.0),
        BindError,
        "the arguments do not fit endless: too many positional arguments.\n"
        "  in: endless(x)\n"
        "  hint: call it as it is defined.",
    ),
    "a large number": (
        lambda: ta.function(lambda x: x)(1 << 70),
        DTypeError,
        "x = 1180591620717411303424 does not fit into int64.\n"
        "  hint: pass an array of a dtype that holds it.",
    ),
    "a dtype": (
        lambda: endless({"a": np.ones(2, complex)}),
        DTypeError,
        "x['a'] has dtype complex128, which tensors cannot have.\n"
        "  hint: convert it to bool, an integer, float32 or float64; a string or a function is "
        "passed as it is.",
    ),
    "no function": (
        lambda: ta.function(3),
        DefinitionError,
        "the argument of function must be a function, got int.\n"
        "  hint: pass a function, or a lambda.",
    ),
    "an index that ended": (
        lambda: ta.function(leaks_an_index)(x),
        DefinitionError,
        "leaks_an_index[1] is a formula of an index, which ends with the formula it belongs to.\n"
        "  in: i\n"
        "  hint: make a tensor of it with compute.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_functions_that_are_refused(case: str) -> None:
    bad, kind, text = REFUSED[case]
    with pytest.raises(UserError) as caught:
        bad()
    assert type(caught.value) is kind
    assert str(caught.value) == text


def test_a_tensor_that_left_its_trace_cannot_be_built() -> None:
    ta.for_loop(0, 3, lambda i, c: (kept.append(c), c + 1)[1], 1.0)
    (c,) = kept
    kept.clear()
    line = sys._getframe().f_lineno - 3
    owner = f"the body of for_loop at test_functions.py:{line}"
    with pytest.raises(BuildError) as caught:
        ta.build(c * 2, [])
    assert str(caught.value) == (
        f"the outputs need c of {owner}, which has no value outside of it.\n"
        "  in: c : float32\n"
        "  hint: return what is needed from the function it belongs to."
    )
    with pytest.raises(BindError) as unbound:
        ta.interpret(c * 2, {})
    assert str(unbound.value) == (
        f"c of {owner} has no value.\n"
        "  in: c : float32 ()\n"
        "  hint: add it to the bindings: {c: array}."
    )


def python_branch(x: Any) -> Any:
    return x if x > 0 else -x


def python_loop(n: Any) -> Any:
    return [n for _ in range(n)]


def python_branch_on_the_counter(x: Any) -> Any:
    return ta.for_loop(0, 3, lambda step, c: c if step > 0 else c + x, 0)


PYTHON = {
    "if": (
        python_branch,
        "tensor gt has no truth value while a program is traced: its elements are not known yet.\n"
        f"  in: gt : bool () at test_functions.py:{python_branch.__code__.co_firstlineno + 1}\n"
        "  hint: branch with ta.cond and repeat with ta.while_loop (reduce by .all() or .any() "
        "first); choose elements with ta.select(c, a, b); an argument that Python decides by is "
        "static (static_argnames of ta.function).",
    ),
    "for": (
        python_loop,
        "a Python index or range() needs a number, but tensor n is a formula.\n"
        "  in: n : int64 ()\n"
        "  hint: repeat with ta.for_loop(0, n, ...); a list that is read there is a tensor, "
        "A = ta.const(list).",
    ),
    "if of a counter": (
        python_branch_on_the_counter,
        "an expression has no truth value while the formula is being written.\n"
        "  in: step > 0\n"
        "  hint: use select(cond, a, b) instead of if, and &, |, ~ instead of and, or, not; write "
        "a chained comparison as (a < b) & (b < c); a program branches with ta.cond.",
    ),
}


@pytest.mark.parametrize("case", PYTHON)
def test_python_branches_on_what_is_not_known(case: str) -> None:
    f, text = PYTHON[case]
    with pytest.raises(DefinitionError) as caught:
        ta.function(f)(3)
    assert str(caught.value) == text


def test_known_calls_tell_arguments_apart() -> None:
    traces: list[object] = []

    @ta.function
    def f(x: Any, *rest: Any, k: Any = 0, name: str = "") -> Any:
        traces.append(name)
        return {"x": x["b"] - x["a"], "rest": [r + k for r in rest]}

    for a, b in ((1, 1), (1, 2), (5, 3)):
        for _ in range(2):
            out = f({"b": b, "a": a}, 1.0, b, k=a)
            assert out["x"] == b - a and out["rest"] == [1.0 + a, b + a]
    assert len(traces) == 1
    assert f({"a": 1, "b": 2}, name="n")["rest"] == []
    assert f({"a": 1.5, "b": 2})["x"] == 0.5
    assert f({"a": np.ones(2), "b": 2})["x"].tolist() == [1, 1]
    assert f({"a": np.ones(2, "int32"), "b": 2})["x"].dtype == np.int64
    for scaled in STATIC:
        for n in (2, 3, 2, 3):
            for x in (2.0, 4.0):
                assert scaled(x, n) == x * n, scaled
    power = ta.function(lambda x, n: x**n, static_argnames=["n"])
    for n in (2, 3, 2, 3):
        assert power(2.0, n) == 2**n and power(2.0, n=n) == 2**n


def test_scalars_of_numpy_are_known_as_arrays_without_axes() -> None:
    traces: list[object] = []

    @ta.function
    def f(p: Any, how: str) -> Any:
        traces.append(how)
        return p["x"] * 2 if how == "twice" else p["x"] * 3

    for x in (np.float64(0.5), np.array(2.5), np.float64(4.0)):
        for how in ("twice", "thrice"):
            assert f({"x": x}, how) == x * (2 if how == "twice" else 3)
    for _ in range(2):
        assert f({"x": np.int32(7)}, "twice").dtype == np.int32
        assert f({"x": np.uint8(7)}, "twice").dtype == np.uint8
    assert traces == ["twice", "thrice", "twice", "twice"]
    known = told(({"x": np.float64(0.5)}, "twice"), (False, False))
    assert known == told(({"x": np.array(0.5)}, "twice"), (False, False))
    assert known is not None and [type(leaf) for leaf in known[1]] == [np.ndarray]


def test_strings_of_numpy_are_strings() -> None:
    f = ta.function(lambda x, how: x * 2 if how == "twice" else x * 3)
    for how, factor in zip(np.array(["twice", "thrice"] * 2), (2, 3) * 2, strict=True):
        assert f(1.5, how) == 1.5 * factor


def _by_position(x: Any, /, n: int) -> Any:
    return x * range(n + 1)[-1]


def _further(x: Any, *n: int) -> Any:
    return x * range(n[0] + 1)[-1]


def _any_names(x: Any, n: int, **more: Any) -> Any:
    return x * range(n + 1)[-1]


STATIC = [ta.function(f, static_argnames="n") for f in (_by_position, _further, _any_names)]


def test_further_arguments_are_no_static_ones_of_a_name() -> None:
    @ta.function(static_argnames="n")
    def total(x: Any, *more: Any, n: int) -> Any:
        return sum(more, x) * range(n + 1)[-1]

    for y in (2.0, 3.0, 2.0):
        assert total(1.0, y, n=2) == 2 * (1 + y)


def test_traces_are_programs_in_words() -> None:
    def norms(x: Any) -> Any:
        return {"total": (x * x).sum(), "rows": ta.cond(x[0, 0] > 0, lambda: x, lambda: -x)}

    trace = ta.function(norms).trace(np.ones((2, 3), "float32"))
    head = "def norms(x : float32[2, 3]) -> (float32[2, 3], float32[]):"
    assert str(trace).partition("\n")[0] == head
    assert str(parse_program(str(trace))) == str(trace)
    assert "norms" in trace._repr_html_()


def _nested(depth: int) -> Any:
    def around(inner: Any) -> Any:
        return ta.function(lambda x: inner(x) + 1.0)

    f = ta.function(lambda x: x * 2.0)
    for _ in range(depth):
        f = around(f)
    return f


@pytest.mark.slow
def test_functions_are_nested_hundreds_of_times() -> None:
    assert _nested(400)(np.ones(2)).tolist() == [402, 402]


@pytest.mark.slow
def test_nested_functions_are_differentiated() -> None:
    x = ta.placeholder((2,), "float64", name="x")
    y = ta.topi.sum(_nested(200)(x))
    value, slope, along = ta.evaluate([y, *ta.vjp(y, [x]), ta.jvp(y, {x: np.ones(2)})], {x: [1, 2]})
    assert value == 406 and slope.tolist() == [2, 2] and along == 4
