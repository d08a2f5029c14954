"""Whatever takes tensors takes those that come out of calls, branches and loops.

Each public name is called with a tensor that blocks pass through unchanged; the result is what the
call gives for the tensor itself.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import GradError, ShapeError
from tensorad.ir.elementary.table import FUNCTIONS
from tensorad.ir.tensor import Tensor, saved
from tests.support.programs.kinds import KINDS, looped
from tests.support.programs.loops import cumulative, newton
from tests.support.topi_calls import CALLS as OPERATORS

N: Final = 3
X: Final = ta.placeholder((N,), "float64", name="x")
V: Final = ta.placeholder((N,), "float64", name="v")
S: Final = ta.placeholder((), "float64", name="s")
GIVEN: Final = {X: np.array([0.3, 0.45, 0.7]), V: np.array([1.0, -2.0, 0.5])}
Call = Callable[[Tensor], Any]
square = ta.scalar_function(lambda e: e * e, partials=lambda e: (e * 2.0,), name="square")


def _elements(f: Callable[[Any], Any]) -> Call:
    return lambda y: ta.compute((N,), lambda i: f(y[i]), name="z")


def _folded(f: Callable[..., Any]) -> Call:
    k = ta.reduce_axis(N, name="k")
    return lambda y: ta.compute((), lambda: f(y[k], axis=k), name="z")


def _cubes(y: Tensor) -> Tensor:
    k = ta.reduce_axis(N, name="k")
    return ta.compute((), lambda: ta.sum(y[k] * y[k] * y[k], axis=k), name="cubes")


def _of_one(name: str) -> Call:
    return lambda y: getattr(ta, name)(y)


def _of_two(name: str) -> Call:
    return lambda y: getattr(ta, name)(y, y * 2.0)


def _text(f: Callable[[Tensor], object]) -> Call:
    """A call whose result is no value: it is only made."""
    return lambda y: [len(str(f(y))) * 0]


def _matrix(y: Tensor) -> Tensor:
    return ta.compute((N, N), lambda i, j: ta.select(i == j, 2.0 + y[i], y[j]), name="m")


TWO: Final = ("pow", "atan2", "fmod", "maximum", "minimum")
ONE: Final = [n for n in ta.__all__ if n in FUNCTIONS and n not in TWO]
FOLDS: Final = ("sum", "prod", "max", "min", "logsumexp", "argmax", "argmin")


def _through_a_reference(y: Tensor) -> Tensor:
    r = ta.ref(y)
    r.at[1:].mul(2.0)
    found: Tensor = r.get()
    return found


def _at_levels(y: Tensor) -> list[Tensor]:
    with ta.dual_level(), ta.dual_level():
        d = ta.make_dual(ta.make_dual(y, V, level=0), V)
        value, tangent = ta.unpack_dual(d * d, level=1)
        return [tangent, *ta.unpack_dual(value, level=0), *ta.unpack_dual(tangent, level=0)]


CALLS: Final[dict[str, Call]] = {
    **{name: _of_one(name) for name in (*ONE, "abs", "sign", "floor", "ceil", "round", "trunc")},
    **{name: _of_one(name) for name in ("isnan", "isfinite", "stop_gradient")},
    **{name: _of_two(name) for name in TWO},
    **{name: _folded(getattr(ta, name)) for name in FOLDS},
    # the language
    "compute": _elements(lambda e: e * 2.0),
    "ref": _through_a_reference,
    "vmap": lambda y: ta.vmap(lambda a: ta.sin(a) * 2.0)(y),
    "batched": lambda y: ta.batched([S * S], {S: y}),
    "const": lambda y: y + ta.const(GIVEN[V]),
    "select": _elements(lambda e: ta.select(e > 0.4, e, -e)),
    "all_of": _elements(lambda e: ta.select(ta.all_of(e > 0.4, e < 0.5), e, -e)),
    "any_of": _elements(lambda e: ta.select(ta.any_of(e > 0.6, e < 0.4), e, -e)),
    "scalar_function": _elements(square),
    "comm_reducer": _folded(
        ta.comm_reducer(lambda a, b: a * b + a + b, lambda dtype: 0.0, name="join")
    ),
    "scan": lambda y: [ta.scan(y, 0, "sum"), *ta.scan(lambda c, e: (c + e, c), _cubes(y), y)],
    "scatter": lambda y: ta.scatter((2,), (N,), lambda i: ((i // 2,), y[i])),
    "generalized_matmul": lambda y: ta.generalized_matmul(y, y, 1),
    # derivatives
    **dict.fromkeys(("dual_level", "make_dual", "unpack_dual"), _at_levels),
    "vjp": lambda y: ta.vjp(y * y, [X], V),
    "jvp": lambda y: ta.jvp(y * y, {X: V}),
    "deriv": lambda y: [ta.deriv(y * y, X, V), ta.deriv([y, _cubes(y)], X, [V, None])],
    "grad": lambda y: ta.grad(_cubes(y), X),
    "value_and_grad": lambda y: ta.value_and_grad(_cubes(y), X),
    "jacobian": lambda y: ta.jacobian(y * y, X),
    "jacfwd": lambda y: ta.jacfwd(y * y, X),
    "jacrev": lambda y: ta.jacrev(y * y, X),
    "Jacobian": lambda y: ta.Jacobian(y, X),
    "JacobianRecursive": lambda y: ta.JacobianRecursive(y * y, [X]),
    "hessian": lambda y: ta.hessian(_cubes(y), X),
    "hvp": lambda y: ta.hvp(_cubes(y), X, V),
    "linearize": lambda y: ta.linearize(lambda a: a * a, y)[0],
    "differentiate": lambda y: list(ta.differentiate(y * y, [X], V)),
    "DiffBuildingBlock": lambda y: ta.DiffBuildingBlock(y * y, y, V),
    "Derivative": lambda y: ta.compute((N,), lambda i: ta.Derivative(ta.exp(y[i]), y[i])),
    "sparse_jacobian": lambda y: ta.sparse_jacobian(y * y, X),
    "sparse_hessian": lambda y: ta.sparse_hessian(_cubes(y), X),
    "gradcheck": lambda y: _text(lambda u: ta.gradcheck([_cubes(u), u * u], [X], order=2))(y),
    # rewriting
    "Simplify": lambda y: ta.compute((N,), lambda i: ta.Simplify(y[i] * 1.0)),
    "InlineNonReductions": lambda y: ta.InlineNonReductions(y * y, [y]),
    "InlineTensors": lambda y: ta.InlineTensors(ta.exp(y * 2.0)),
    "InlineTailCall": lambda y: ta.InlineTailCall(ta.compute((N,), lambda i: y[i])),
    "OptimizeAndLiftNonzeronessConditions": lambda y: [
        ta.OptimizeAndLiftNonzeronessConditions(t) for t in (y, ta.exp(y * 2.0))
    ],
    "RemoveUnusedDimsRecursively": lambda y: ta.RemoveUnusedDimsRecursively(
        [y, _elements(lambda e: e)(ta.compute((N, 2), lambda a, b: y[a]) @ np.ones(2))]
    ),
    # results
    "build": lambda y: [
        ta.build(y * y, [X])(GIVEN[X]), ta.build(y * y, [y])(GIVEN[X]),
        ta.build(y * y, [X], tune=0.05)(GIVEN[X]),
        pickle.loads(pickle.dumps(ta.build(y * y, [X])))(GIVEN[X]),
    ],
    "evaluate": lambda y: ta.evaluate(y * y, {X: GIVEN[X]}),
    "interpret": lambda y: [ta.interpret(y * y, {X: GIVEN[X]}), ta.interpret(y, {y: GIVEN[X]})],
    "lower": _text(lambda y: (ta.lower(y, [X]), ta.lower(y, schedule=True).report())),
    "show_lowered": _text(lambda y: ta.show_lowered(y, [X])),
    "measure_performance": _text(lambda y: ta.measure_performance(y, [X], min_seconds=0.0)),
    "Tensor": _text(lambda y: (str(y), repr(y), y._repr_html_(), y._repr_latex_())),
    "PrintTensorRecursively": _text(ta.PrintTensorRecursively),
    "work": _text(ta.work),
    "estimate_performance": _text(ta.estimate_performance),
    "explain": _text(lambda y: ta.explain(ta.vjp(y * y, [X], V))),
    # programs
    "checkpoint": lambda y: ta.checkpoint(lambda a: a * a)(y),
    "placeholders": lambda y: _text(lambda u: ta.placeholders([u, V]) == [X, V] or 1 / 0)(y),
    "checkpoint_sequential": lambda y: ta.checkpoint_sequential([ta.sin, ta.cos], 2)(y),
    "keep": lambda y: ta.keep(y, "kept"),
    "cond": lambda y: ta.cond(_cubes(y) > 0.0, lambda a: a * 2.0, lambda a: a, y),
    "switch": lambda y: ta.switch(1, [lambda a: a, lambda a: a * 2.0], y),
    "while_loop": lambda y: ta.while_loop(lambda c: _cubes(c) < 9.0, lambda c: c + y, y),
    "for_loop": lambda y: ta.for_loop(0, N, lambda i, c: c + y[i], y),
    "function": lambda y: ta.function(lambda a: a * a)(y),
    "jit": lambda y: ta.jit(lambda a: a * a)(y),
    "custom_rule": lambda y: ta.custom_rule(vjp=lambda out, h, a: [h * 2.0])(lambda a: a * a)(y),
    "foreign": lambda y: ta.foreign(np.sort, lambda a: a)(y),
    "linear_transpose": lambda y: ta.linear_transpose(lambda a: a * y, V)(V)[0],
    "linear_solve": lambda y: [ta.linear_solve(_matrix(y), V), ta.linear_solve(lambda a: a * y, V)],
    "root": lambda y: ta.root(lambda a: a * a * a + a - y, V),
    "fixed_point": lambda y: ta.fixed_point(lambda a: y / (1.0 + a * a), V),
    "minimize": lambda y: ta.minimize(lambda a: ((a - y) ** 2).sum(), V),
    "tree_map": lambda y: ta.tree_map(lambda a, b: a * b, [y], [y])[0],
}  # fmt: skip
NO_TENSORS: Final = {
    "assume", "check_numerical_grads", "explain_adjoints", "fn", "get_num_threads", "gradient",
    "match", "module", "no_grad", "output_shapes", "partial_eval", "placeholder",
    "reduce_axis", "register_gradient", "register_tree", "set_num_threads", "size", "variant",
}  # fmt: skip
"""Of sizes, names, numbers, modules and functions of arrays."""


def _values(found: Any) -> list[np.ndarray]:
    """The elements of tensors by the interpreter and compiled; arrays as they are."""
    if isinstance(found, Tensor):
        return [ta.interpret(found, GIVEN), ta.evaluate(found, GIVEN)]
    if isinstance(found, ta.SparseJacobian):
        return [found(GIVEN[X]).toarray()]
    if isinstance(found, (list, tuple)):
        return [a for e in found for a in _values(e)]
    return [np.asarray(found)]


def _agree(found: list[np.ndarray], wanted: list[np.ndarray], rtol: float = 1e-9) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def test_every_public_name_is_called() -> None:
    public = {n: getattr(ta, n) for n in ta.__all__}
    apart = [n for n, v in public.items() if isinstance(v, (type, ModuleType))]
    assert {*CALLS, *apart, *NO_TENSORS} == set(public)
    assert not NO_TENSORS & set(CALLS)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CALLS)
def test_a_tensor_that_came_out_of_a_loop(name: str) -> None:
    _agree(_values(CALLS[name](looped(X))), _values(CALLS[name](X * 1.0)))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "looped"])
def test_a_tensor_that_came_out_of_other_blocks(kind: str, name: str) -> None:
    _agree(_values(CALLS[name](KINDS[kind](X))), _values(CALLS[name](X * 1.0)))


def _tensors(given: Any) -> list[Tensor]:
    if isinstance(given, (list, tuple)):
        return [t for e in given for t in _tensors(e)]
    return [given] if isinstance(given, Tensor) else []


def _with(given: Any, images: dict[Tensor, Tensor]) -> Any:
    if isinstance(given, (list, tuple)):
        return type(given)(_with(e, images) for e in given)
    return images[given] if isinstance(given, Tensor) else given


@pytest.mark.sampled(28)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    operator = getattr(ta.topi, name, None) or getattr(ta.topi.nn, name)
    arguments = OPERATORS[name]
    tensors = list(dict.fromkeys(_tensors(list(arguments.values()))))

    def call(images: dict[Tensor, Tensor]) -> list[Tensor]:
        named = {key: _with(value, images) for key, value in arguments.items()}
        positional = [
            named.pop(key) for key in ("subscripts", "operands", "tensors") if key in named
        ]
        return _tensors(operator(*positional, **named))

    rng = np.random.default_rng(0)
    arrays = {t: rng.integers(0, 2, t.shape).astype(str(t.dtype)) for t in tensors}
    for t in tensors:
        if t.dtype.is_float:
            arrays[t] = rng.uniform(0.2, 0.8, t.shape).astype(str(t.dtype))
    found, wanted = call({t: looped(t) for t in tensors}), call({t: t for t in tensors})
    reference = ta.interpret(wanted, arrays)
    _agree(ta.interpret(found, arrays), reference, 1e-6)
    compiled = ta.evaluate(found, arrays)
    _agree(compiled if isinstance(compiled, list) else [compiled], reference, 1e-4)


def test_pickles() -> None:
    y, x = pickle.loads(pickle.dumps((looped(X) * 2.0, X)))
    _agree([ta.interpret(y, {x: GIVEN[X]})], [GIVEN[X] * 2.0])


def _refused(call: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


def test_a_tensor_that_is_no_gradient_is_not_explained() -> None:
    y = looped(X)
    _refused(
        lambda: ta.explain(y),
        GradError,
        "explain tells how a gradient was made and how sums of products were ordered, but this is "
        "no gradient made here, and is evaluated as it was written.\n"
        "  in: Tensor(x, shape=(3,), dtype=float64)\n"
        "  hint: pass a result of vjp, jvp, JacobianRecursive, jacobian, hessian or hvp.",
    )


@pytest.mark.parametrize("function", ["build", "gradcheck"])
def test_rows_of_an_unknown_number_are_no_results(function: str) -> None:
    a = ta.placeholder((), "float64", name="a")
    _, loop = newton(a)
    rows = saved(loop, loop.blocks[0].params[0])
    _refused(
        lambda: getattr(ta, function)(rows, [a]),
        ShapeError,
        f"{function} needs shapes that are known before a loop runs, but x has a row for each of "
        "its iterations.\n"
        "  in: x : float64 (n,)\n"
        "  hint: use what has a shape of its own: a sum over the rows, or the last carry.",
    )


def test_sparse_derivatives_through_loops_need_numbers() -> None:
    x = ta.placeholder((ta.size("n"), 3), name="x")
    total, _ = cumulative(x)
    _refused(
        lambda: ta.sparse_jacobian(total, x),
        ShapeError,
        "sparse derivatives through loops need shapes in numbers, but n is a size.\n"
        "  in: total : float32 (3,)\n"
        "  hint: give the placeholders numbers, or use jacobian, vjp or jvp.",
    )
