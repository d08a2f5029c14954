"""Operators inside of PyTorch and of JAX, beside what users would write there: what is timed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.measure.timing import Call
from benchmarks.workloads.problem import Array, Draw
from tensorad import te, topi
from tensorad.building import build
from tensorad.ir.tensor import Tensor

FEW, MANY = 16, 1 << 22
"""Elements."""
SOFTMAX: Final = (4096, 1024)
SIDE: Final = 256


class Pair(NamedTuple):
    """Two calls with the same results."""

    ours: Call
    theirs: Call


class Formula(NamedTuple):
    """An operator of inputs, their arrays and that of a cotangent."""

    output: Tensor
    inputs: list[Tensor]
    arrays: list[Array]
    head: Array


def elements(n: int) -> Formula:
    """tanh(A)*B + A."""
    a, b = (te.placeholder((n,), name=name) for name in "AB")
    d = Draw()
    y = te.compute((n,), lambda i: te.tanh(a[i]) * b[i] + a[i], name="Y")
    return Formula(y, [a, b], [d.normal(n), d.normal(n)], d.normal(n))


def softmax(n: int, m: int) -> Formula:
    """Of rows."""
    x, d = te.placeholder((n, m), name="X"), Draw()
    return Formula(topi.nn.softmax(x), [x], [d.normal(n, m)], d.normal(n, m))


def min_plus(n: int) -> Formula:
    """Y[i, j] = the least A[i, k] + B[k, j]."""
    a, b = (te.placeholder((n, n), name=name) for name in "AB")
    k, d = te.reduce_axis(n, name="k"), Draw()
    y = te.compute((n, n), lambda i, j: te.min(a[i, k] + b[k, j], axis=k), name="Y")
    return Formula(y, [a, b], [d.normal(n, n), d.normal(n, n)], d.normal(n, n))


def by_numpy(p: Formula) -> Pair:
    """A call of the compiled function, its result allocated."""
    f = build(p.output, p.inputs)
    return Pair(lambda: f(*p.arrays), lambda: np.tanh(p.arrays[0]) * p.arrays[1] + p.arrays[0])


Eager = Callable[..., Any]
"""The formula in terms of a package: its module, then the inputs."""


def in_torch(name: str, p: Formula, eager: Eager) -> Pair:
    """Without derivatives."""
    import torch

    f, given = _torch_op(name, p), [torch.from_numpy(a) for a in p.arrays]
    return Pair(lambda: f(*given), lambda: eager(torch, *given))


def in_torch_with_gradients(name: str, p: Formula, eager: Eager) -> Pair:
    """The output and the gradients of all inputs."""
    import torch

    f, head = _torch_op(name, p), torch.from_numpy(p.head)
    given = [torch.from_numpy(a.copy()).requires_grad_() for a in p.arrays]

    def both(run: Callable[..., Any]) -> Any:
        y = run(*given)
        return (y.detach(), *torch.autograd.grad(y, given, head))

    return Pair(lambda: both(f), lambda: both(partial(eager, torch)))


def in_torch_beside_the_function(name: str, p: Formula) -> Pair:
    """Beside the compiled function with its result into a new tensor: a call needs that memory."""
    import torch

    f, given = _torch_op(name, p), [torch.from_numpy(a) for a in p.arrays]
    compiled = build(p.output, p.inputs)

    def into_new() -> Any:
        made = torch.empty(p.head.shape)
        compiled(*p.arrays, out=made.numpy())
        return made

    return Pair(lambda: f(*given), into_new)


def _torch_op(name: str, p: Formula) -> Callable[..., Any]:
    from tensorad.interop.torch import op

    return op(p.output, p.inputs, name)


def in_jax(name: str, p: Formula, eager: Eager) -> Pair:
    """Inside of compiled code."""
    import jax

    given = [jax.numpy.asarray(a) for a in p.arrays]
    ours, theirs = jax.jit(_jax_op(name, p)), jax.jit(partial(eager, jax.numpy))
    return Pair(
        lambda: ours(*given).block_until_ready(), lambda: theirs(*given).block_until_ready()
    )


def in_jax_with_gradients(name: str, p: Formula, eager: Eager) -> Pair:
    """The output and the gradients of all inputs, compiled."""
    import jax

    given, head = [jax.numpy.asarray(a) for a in p.arrays], jax.numpy.asarray(p.head)

    def both(run: Callable[..., Any]) -> Call:
        def pulled(head: Any, *given: Any) -> Any:
            y, pull = jax.vjp(run, *given)
            return (y, *pull(head))

        compiled = jax.jit(pulled)
        return lambda: jax.block_until_ready(compiled(head, *given))

    return Pair(both(_jax_op(name, p)), both(partial(eager, jax.numpy)))


def _jax_op(name: str, p: Formula) -> Callable[..., Any]:
    from tensorad.interop.jax import op

    return op(p.output, p.inputs, name)


def elements_there(xp: Any, a: Any, b: Any) -> Any:
    """tanh(a)*b + a."""
    return xp.tanh(a) * b + a


def softmax_in_torch(torch: Any, x: Any) -> Any:
    """PyTorch's own operator."""
    return torch.softmax(x, -1)


def softmax_in_jax(jnp: Any, x: Any) -> Any:
    """JAX's own function."""
    import jax

    return jax.nn.softmax(x, -1)


def min_plus_there(xp: Any, a: Any, b: Any) -> Any:
    """As a user writes it in either package."""
    return xp.amin(a[:, :, None] + b[None], 1)
