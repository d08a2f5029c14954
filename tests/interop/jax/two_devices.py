"""What operators of JAX are on a mesh of two devices: a line for each case, run as a process.

XLA_FLAGS=--xla_force_host_platform_device_count=2 has to be set before JAX begins.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.interop.jax.inside_jax import jax, made, of_floats, total
from tests.interop.operators import CASES

import jax.numpy as jnp  # isort: skip
from jax.sharding import AxisType, NamedSharding  # isort: skip
from jax.sharding import PartitionSpec as P  # isort: skip


def main() -> None:
    """Print the name of each case and what it came to."""
    jax.config.update("jax_enable_x64", True)
    assert len(jax.devices()) == 2
    cases: dict[str, Callable[[], None]] = {n: partial(_shared, n) for n in CASES}
    cases |= {"sharded arguments": _sharded, "explicit axes": _explicit}
    for name, case in cases.items():
        try:
            case()
        except AssertionError as error:
            print(f"{name}: {' '.join(str(error).split())[:200]}")
        else:
            print(f"{name}: same")
    print(f"out of range: {_out_of_range()}")


def _mesh(kind: Any) -> Any:
    return jax.make_mesh((2,), ("rows",), axis_types=(kind,))


def _shared(name: str) -> None:
    """Each device has one row of the first argument, and the other arguments whole."""
    f, case = made(name)
    own, (x, *rest) = of_floats(f, case)
    other, _ = of_floats(partial(case.reference, jnp), case)
    rows = jnp.stack([x, x * 1.1])

    def share(rows: Any, *rest: Any) -> Any:
        return jax.lax.psum(total(own, *rest)(rows[0]), "rows")

    specs = (P("rows"), *[P()] * len(rest))
    shared = jax.shard_map(share, mesh=_mesh(AxisType.Auto), in_specs=specs, out_specs=P())

    def whole(rows: Any, *rest: Any) -> Any:
        return total(other, *rest)(rows[0]) + total(other, *rest)(rows[1])

    _compare(shared, whole, rows, *rest)


def _compare(f: Callable[..., Any], g: Callable[..., Any], *given: Any) -> None:
    """Values and gradients by all arguments, compiled."""
    places = tuple(range(len(given)))
    found, expected = [jax.jit(jax.value_and_grad(h, places))(*given) for h in (f, g)]
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-11), found, expected)


def _dense_of_split(mesh: Any) -> None:
    """The rows of the first argument lie on both devices."""
    f, case = made("dense")
    w = jnp.asarray(case.arrays[1])
    x = jnp.asarray(np.random.default_rng(0).uniform(size=(6, 4)))
    split = jax.device_put(x, NamedSharding(mesh, P("rows")))

    def on_split(x: Any, w: Any) -> Any:
        return jnp.sin(f(x, w)).sum()

    found = jax.jit(jax.value_and_grad(on_split, (0, 1)))(split, w)
    reference = partial(case.reference, jnp)
    expected = jax.value_and_grad(lambda x, w: jnp.sin(reference(x, w)).sum(), (0, 1))(x, w)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9), found, expected)


def _sharded() -> None:
    _dense_of_split(_mesh(AxisType.Auto))


def _explicit() -> None:
    mesh = _mesh(AxisType.Explicit)
    with jax.set_mesh(mesh):
        _dense_of_split(mesh)


def _out_of_range() -> str:
    """What is said of an index that is wrong on one of the devices."""
    f, _ = made("gathered")
    rows = jax.shard_map(
        f, mesh=_mesh(AxisType.Auto), in_specs=(P(), P("rows")), out_specs=P("rows")
    )
    try:
        jax.block_until_ready(jax.jit(rows)(jnp.asarray([0, 2, 7, 1]), jnp.ones((6, 2))))
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        return " ".join(str(error).split())
    return "nothing was said"


if __name__ == "__main__":
    main()
