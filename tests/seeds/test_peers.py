"""What programs do here that JAX, PyTorch and Relax refuse, or answer otherwise: each is run."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorad as ta

D = np.float64
EXAMPLE = ta.placeholder((3,), dtype="float64")
pytestmark = pytest.mark.slow


def _jax() -> ModuleType:
    jax: ModuleType = pytest.importorskip("jax", reason="jax is not installed")
    jax.config.update("jax_enable_x64", True)
    return jax


def _torch() -> ModuleType:
    torch: ModuleType = pytest.importorskip("torch", reason="torch is not installed")
    return torch


def _relax() -> ModuleType:
    pytest.importorskip("tvm", reason="tvm (Relax) is not installed")
    relax: ModuleType = pytest.importorskip("tvm.relax", reason="this tvm has no Relax")
    return relax


@ta.function
def power(x: Any, n: Any) -> Any:
    return ta.cond(n > 0, lambda: x * power(x, n - 1), lambda: x * 0.0 + 1.0)


def test_peers_recursion_on_data() -> None:
    assert float(power(D(1.5), 7)) == pytest.approx(1.5**7)
    assert float(ta.grad(power)(D(1.5), 7)) == pytest.approx(7 * 1.5**6)


def test_peers_recursion_on_data_in_jax() -> None:
    jax = _jax()

    def endless(x: Any, n: Any) -> Any:
        return jax.lax.cond(n > 0, lambda: x * endless(x, n - 1), lambda: x * 0.0 + 1.0)

    with pytest.raises(RecursionError):
        jax.jit(endless)(1.5, 7)


def _grown(x: Any) -> Any:
    return ta.while_loop(lambda c: c < 10.0, lambda c: c * x, x)


def test_peers_reverse_of_while() -> None:
    assert float(ta.grad(_grown)(D(1.5))) == pytest.approx(6 * 1.5**5)  # 1.5**6 > 10


def test_peers_reverse_of_while_in_jax() -> None:
    jax = _jax()

    def grown(x: Any) -> Any:
        return jax.lax.while_loop(lambda c: c < 10.0, lambda c: c * x, x)

    with pytest.raises(ValueError, match="Reverse-mode"):
        jax.grad(grown)(1.5)


def _chosen(x: Any, k: Any) -> Any:
    f = ta.cond(k > 0, lambda: lambda z: z * x, lambda: ta.sin)
    return f(x) + ta.grad(f)(x)


def test_peers_functions_chosen_by_data() -> None:
    assert float(ta.function(_chosen)(D(0.7), 1)) == pytest.approx(0.49 + 0.7)
    assert float(ta.function(_chosen)(D(0.7), -1)) == pytest.approx(math.sin(0.7) + math.cos(0.7))
    assert float(ta.grad(_chosen)(D(0.7), 1)) == pytest.approx(2.4)


def test_peers_functions_chosen_by_data_in_jax() -> None:
    jax = _jax()

    def chosen(x: Any, k: Any) -> Any:
        return jax.lax.cond(k > 0, lambda: lambda z: z * x, lambda: jax.numpy.sin)(x)

    with pytest.raises(TypeError, match="not a valid JAX type"):
        jax.jit(chosen)(0.7, 1)


RULED = ta.custom_rule(vjp=lambda y, dy, x: [dy * x * 2.0])


def test_peers_rule_of_one_direction() -> None:
    square = RULED(lambda x: x * x)
    _, tangent = ta.jvp(square, (D(3),), (D(1),))
    assert float(tangent) == 6.0
    assert float(ta.hessian(square)(D(3))) == 2.0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_peers_rule_of_one_direction_elsewhere() -> None:
    jax = _jax()
    square = jax.custom_vjp(lambda x: x * x)
    square.defvjp(lambda x: (x * x, x), lambda x, dy: (2 * x * dy,))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(square, (3.0,), (1.0,))
    torch = _torch()

    class Square(torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, dy: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * dy

    fw = torch.autograd.forward_ad
    with fw.dual_level(), pytest.raises(NotImplementedError, match="jvp"):
        Square.apply(fw.make_dual(torch.tensor(3.0), torch.tensor(1.0)))


def test_peers_modes_agree_at_a_guarded_root() -> None:
    def guarded(x: Any) -> Any:
        return ta.select(x > 0, ta.sqrt(x), 0.0 * x)

    _, forward = ta.jvp(guarded, (D(0),), (D(1),))
    assert float(forward) == float(ta.grad(guarded)(D(0))) == 0.0


def test_peers_modes_differ_at_a_guarded_root_in_jax() -> None:
    jax = _jax()

    def guarded(x: Any) -> Any:
        return jax.numpy.where(x > 0, jax.numpy.sqrt(x), 0.0 * x)

    _, forward = jax.jvp(guarded, (0.0,), (1.0,))
    assert float(forward) == 0.0 and math.isnan(float(jax.grad(guarded)(0.0)))


def _by_sign(x: Any) -> Any:
    return ta.cond(x > 0, lambda: ta.sin(x), lambda: x * x)


def test_peers_branch_for_each_example() -> None:
    x = np.array([0.7, -0.3])
    slopes = ta.vmap(ta.grad(_by_sign))(x)
    np.testing.assert_allclose(slopes, [math.cos(0.7), -0.6], rtol=1e-12)


def test_peers_branch_for_each_example_in_torch() -> None:
    torch = _torch()
    with pytest.raises(RuntimeError, match="data-dependent"):
        torch.vmap(lambda x: torch.sin(x) if x > 0 else x * x)(torch.ones(2))


def test_peers_what_references_hold_differentiates_through_views() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(x)
        r.at[::2].mul(x[0])
        r.at.reshape(2, 2).T[0].set(r.get()[:2] * 3.0)
        return (r.get() * r.get()).sum()

    x = np.array([0.5, -1.0, 2.0, 0.3])
    assert float(ta.function(f)(x)) == pytest.approx((0.25 * 3) ** 2 + 1 + 9 + 0.09)
    assert ta.gradcheck(f, x)


def test_peers_functions_that_call_functions() -> None:
    @ta.function
    def square(x: Any) -> Any:
        return x * x

    def main(x: Any = EXAMPLE) -> Any:
        return square(x).sum()

    adjoint = ta.gradient(ta.module(main), "main")["main_adjoint"]
    value, (slope,) = adjoint(np.array([1.0, 2.0, 3.0]))
    assert float(value) == 14.0
    np.testing.assert_array_equal(slope, [2.0, 4.0, 6.0])


CALLS = """
@I.ir_module
class Module:
    @R.function
    def square(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        with R.dataflow():
            y = R.multiply(x, x)
            R.output(y)
        return y

    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        cls = Module
        with R.dataflow():
            y: R.Tensor((3,), "float32") = cls.square(x)
            z = R.sum(y)
            R.output(z)
        return z
"""
BRANCHES = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((), "float32"):
        if c:
            y = R.multiply(x, x)
        else:
            y = x
        return y
"""


def test_peers_functions_that_call_functions_in_relax() -> None:
    relax = _relax()
    script = pytest.importorskip("tvm.script", reason="this tvm has no scripts")
    text = str(relax.transform.Gradient("main")(script.from_source(CALLS))["main_adjoint"])
    assert "zeros(" in text and "multiply" not in text, "nothing flows through the call: a silent 0"


def test_peers_branches_in_relax() -> None:
    relax = _relax()
    script = pytest.importorskip("tvm.script", reason="this tvm has no scripts")
    with pytest.raises(Exception, match="only support one dataflow block"):
        relax.transform.Gradient("main")(script.from_source(BRANCHES))
