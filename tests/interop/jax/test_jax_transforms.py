"""Transformations of JAX on each operator, beside the same on the operator written in JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.interop.jax.inside_jax import MARKS, jax, made, of_floats, total
from tests.interop.operators import CASES

import jax.numpy as jnp  # isort: skip
from jax.test_util import check_grads  # isort: skip

pytestmark = MARKS


@pytest.mark.parametrize("name", CASES)
def test_derivatives_by_check_grads(name: str) -> None:
    f, given = of_floats(*made(name))
    check_grads(f, given, order=2, modes=["fwd", "rev"])


def _rows_of(x: Any) -> Any:
    return jnp.stack([x, x * 1.1, x * 0.9])


def _plain(f: Callable[..., Any], x: Any, *rest: Any) -> Any:
    """What must come out of `_ways`, by few transformations of the function of JAX."""
    number, along = total(f, *rest), jnp.cos(x)
    values, grads = jax.vmap(lambda r: (f(r, *rest), jax.grad(number)(r)))(_rows_of(x))
    value, change = number(x), jnp.vdot(grads[0], along)
    return {
        "value": jax.tree.map(lambda y: y[0], values),
        "grad": grads[0],
        "vmap": values,
        "inner axis": jax.tree.map(lambda y: jnp.moveaxis(y, 0, -1), values),
        "vmap of grad": grads,
        "grad of vmap": grads,
        "scan": grads,
        "checkpoint": grads[0],
        "jvp": (value, change),
        "linearize": (value, change),
        "hessian": jax.hessian(number)(x),
    }


def _ways(f: Callable[..., Any], x: Any, *rest: Any) -> Any:
    """What transformations of JAX make of a function of arrays."""
    number, rows, along = total(f, *rest), _rows_of(x), jnp.cos(x)

    def over_rows(rows: Any) -> Any:
        return jax.lax.scan(lambda c, row: (c + number(row), None), 0.0, rows)[0]

    value, linear = jax.linearize(number, x)
    inner = jax.vmap(lambda r: f(r, *rest), in_axes=-1, out_axes=-1)
    return {
        "value": f(x, *rest),
        "grad": jax.grad(number)(x),
        "vmap": jax.vmap(lambda r: f(r, *rest))(rows),
        "inner axis": inner(jnp.moveaxis(rows, 0, -1)),
        "vmap of grad": jax.vmap(jax.grad(number))(rows),
        "grad of vmap": jax.grad(lambda r: jax.vmap(number)(r).sum())(rows),
        "scan": jax.grad(over_rows)(rows),
        "checkpoint": jax.grad(jax.checkpoint(number))(x),
        "jvp": jax.jvp(number, (x,), (along,)),
        "linearize": (value, linear(along)),
        "hessian": jax.hessian(number)(x),
    }


def _both(name: str, ways: Callable[..., Any], plain: Callable[..., Any]) -> list[Any]:
    """What is found of an operator, and of the one that is written in JAX, compiled."""
    f, case = made(name)
    own, given = of_floats(f, case)
    other, _ = of_floats(partial(case.reference, jnp), case)
    return [jax.jit(g)(*given) for g in (partial(ways, own), partial(plain, other))]


def _compare(found: Any, expected: Any) -> None:
    assert found.keys() == expected.keys()
    for way in expected:
        jax.tree.map(
            partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-10, err_msg=way),
            found[way], expected[way],
        )  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_equals_the_operator_of_jax(name: str) -> None:
    _compare(*_both(name, _ways, _plain))


def _by_reverse(f: Callable[..., Any], x: Any, *rest: Any) -> Any:
    """A third derivative along a tangent, by reverse mode three times."""
    along, number = jnp.cos(x), total(f, *rest)
    once = jax.grad(number)
    twice = jax.grad(lambda x: jnp.vdot(once(x), along))
    return jax.grad(lambda x: jnp.vdot(twice(x), along))(x)


def _third(f: Callable[..., Any], x: Any, *rest: Any) -> Any:
    """The same by forward over forward over reverse mode, too."""
    along, once = jnp.cos(x), jax.grad(total(f, *rest))

    def moved(g: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda x: jax.jvp(g, (x,), (along,))[1]

    return {"reverse": _by_reverse(f, x, *rest), "mixed": moved(moved(once))(x)}


def _plain_third(f: Callable[..., Any], x: Any, *rest: Any) -> Any:
    found = _by_reverse(f, x, *rest)
    return {"reverse": found, "mixed": found}


@pytest.mark.parametrize("name", CASES)
def test_third_derivatives(name: str) -> None:
    _compare(*_both(name, _third, _plain_third))


def test_all_third_derivatives() -> None:
    f, case = made("stencil")
    x = jnp.asarray(case.arrays[0])

    def third(g: Callable[..., Any]) -> Any:
        return jax.jit(jax.jacfwd(jax.jacrev(jax.grad(total(g)))))(x)

    np.testing.assert_allclose(third(f), third(partial(case.reference, jnp)), atol=1e-11)
