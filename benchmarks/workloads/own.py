"""Five operators of our own choice: formulas somebody needs and no library has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workloads import own_numpy
from benchmarks.workloads.problem import (
    Array,
    Arrays,
    Draw,
    Passes,
    Problem,
    Workload,
    pick,
    tensor,
)
from tensorad import te, topi
from tensorad.ir.tensor import Tensor

RADIUS = 2
RANGE = 4.0
OMEGA = 0.8
MOVES = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1), (1, -1), (-1, 1))
SHARES = (4 / 9, *[1 / 9] * 4, *[1 / 36] * 4)


def _attended(q: Tensor, k: Tensor, v: Tensor, band: int) -> Tensor:
    heads, n, d = q.shape
    e, w = te.reduce_axis(d, name="e"), te.reduce_axis(band, name="w")

    def score(g: Any, i: Any, s: Any) -> Any:
        product = te.sum(q[g, i, e] * k[g, i - s, e], axis=e) * d**-0.5
        return te.select(i - s >= 0, product, -1e30)

    p = topi.nn.softmax(te.compute((heads, n, band), score, name="scores"))
    return tensor(
        q.shape,
        lambda g, i, c: te.sum(p[g, i, w] * v[g, i - w, c], axis=w, where=i - w >= 0),
        name="Y",
    )


def banded_attention(heads: int, n: int, d: int, band: int) -> Problem:
    """Attention of each position to itself and the `band` - 1 positions before it."""
    draw = Draw()
    shape = (heads, n, d)
    inputs = {name: draw.normal(*shape) for name in "qkv"}
    scale = d**-0.5
    back = np.arange(n)[:, None] - np.arange(n)
    allowed = (back >= 0) & (back < band)
    reach = np.arange(n)[:, None] + np.arange(band)  # into keys with band - 1 zeros in front
    inside = reach >= band - 1

    def by_torch(t: Any, q: Any, k: Any, v: Any, banned: Any, **_: Any) -> Any:
        scores = (q @ k.transpose(-1, -2) * scale).masked_fill(banned, -1e30)
        return t.softmax(scores, -1) @ v

    def torch_windows(t: Any, q: Any, k: Any, v: Any, outside: Any, **_: Any) -> Any:
        pad = (0, 0, band - 1, 0)
        keys, values = (t.nn.functional.pad(x, pad).unfold(1, band, 1) for x in (k, v))
        scores = t.einsum("hid,hidw->hiw", q, keys) * scale
        scores = scores.masked_fill(outside, -1e30)
        return t.einsum("hiw,hidw->hid", t.softmax(scores, -1), values)

    def by_jax(jax: Any, q: Any, k: Any, v: Any) -> Any:
        scores = jax.numpy.where(allowed, q @ k.swapaxes(-1, -2) * scale, -1e30)
        return jax.nn.softmax(scores, -1) @ v

    def jax_windows(jax: Any, q: Any, k: Any, v: Any) -> Any:
        pad = ((0, 0), (band - 1, 0), (0, 0))
        keys, values = (jax.numpy.pad(x, pad)[:, reach] for x in (k, v))
        scores = jax.numpy.einsum("hid,hiwd->hiw", q, keys) * scale
        p = jax.nn.softmax(jax.numpy.where(inside, scores, -1e30), -1)
        return jax.numpy.einsum("hiw,hiwd->hid", p, values)

    def by_numba(a: Arrays, h: Array) -> Passes:
        from benchmarks.workloads.loops.folds import banded_attention

        return banded_attention(a, h, band)

    products = 4.0 * heads * n * band * d
    return Problem(
        inputs, ("q", "k", "v"), draw.normal(*shape), lambda q, k, v: _attended(q, k, v, band),
        lambda a, h: own_numpy.banded_attention(a, h, allowed),
        {
            "torch": by_torch, "torch_alt": torch_windows,
            "jax": by_jax, "jax_alt": jax_windows,
        },
        (products, 2 * products), numba=by_numba,
        constants={"banned": ~allowed, "outside": ~inside},
    )  # fmt: skip


def bilateral(n: int) -> Problem:
    """Means of 5 x 5 neighbours, weighted by distance and by likeness."""
    draw = Draw()
    inputs = {"U": draw.normal(n, n, scale=0.5)}
    width = 2 * RADIUS + 1
    near = own_numpy.nearness(RADIUS)

    def define(U: Tensor) -> Tensor:
        table = te.const(near)

        def total(value: Callable[[Any], Any], name: str) -> Tensor:
            p, q = te.reduce_axis(width, name="p"), te.reduce_axis(width, name="q")

            def formula(y: Any, x: Any) -> Any:
                r, c = y + p - RADIUS, x + q - RADIUS
                inside = (r >= 0) & (r < n) & (c >= 0) & (c < n)
                there = U[r, c]
                weight = table[p, q] * te.exp(-RANGE * (there - U[y, x]) ** 2)
                return te.sum(weight * value(there), axis=[p, q], where=inside)

            found: Tensor = te.compute((n, n), formula, name=name)
            return found

        return total(lambda v: v, "sums") / total(lambda v: 1.0, "weights")

    def shifted(exp: Any, padded: Any, mask: Any, u: Any) -> Any:
        sums, weights = 0.0, 0.0
        for p in range(width):
            for q in range(width):
                there = padded[p : p + n, q : q + n]
                weight = float(near[p, q]) * exp(-RANGE * (there - u) ** 2)
                weight = weight * mask[p : p + n, q : q + n]
                sums, weights = sums + weight * there, weights + weight
        return sums / weights

    def by_torch(t: Any, U: Any) -> Any:
        pad = (RADIUS,) * 4
        mask = t.nn.functional.pad(t.ones_like(U), pad)
        return shifted(t.exp, t.nn.functional.pad(U, pad), mask, U)

    def by_jax(jax: Any, U: Any) -> Any:
        jnp = jax.numpy
        return shifted(jnp.exp, jnp.pad(U, RADIUS), jnp.pad(jnp.ones_like(U), RADIUS), U)

    def by_numba(a: Arrays, h: Array) -> Passes:
        from benchmarks.workloads.loops.windows import bilateral

        return bilateral(a, h, near, RANGE)

    operations = 10.0 * n * n * width * width
    return Problem(
        inputs, ("U",), draw.normal(n, n), define,
        lambda a, h: own_numpy.bilateral(a, h, near, RANGE),
        {"torch": by_torch, "jax": by_jax}, (operations, 2 * operations), numba=by_numba,
    )  # fmt: skip


def _streamed(F: Tensor) -> Tensor:
    n, moves = F.shape[1], np.array(MOVES)
    share = te.const(np.array(SHARES, np.float32))
    down, right = te.const(moves[:, 0]), te.const(moves[:, 1])

    def total(factor: Callable[[Any], Any], name: str) -> Tensor:
        s = te.reduce_axis(9, name="s")
        found: Tensor = te.compute(
            (n, n), lambda y, x: te.sum(F[s, y, x] * factor(s), axis=s), name=name
        )
        return found

    density = total(lambda s: 1.0, "density")
    flow_y = total(lambda s: down[s].astype("float32"), "flow_y")
    flow_x = total(lambda s: right[s].astype("float32"), "flow_x")

    def collide(s: Any, y: Any, x: Any) -> Any:
        r = density[y, x]
        v, u = flow_y[y, x] / r, flow_x[y, x] / r
        along = down[s].astype("float32") * v + right[s].astype("float32") * u
        even = share[s] * r * (1 + 3 * along + 4.5 * along**2 - 1.5 * (v * v + u * u))
        return F[s, y, x] + OMEGA * (even - F[s, y, x])

    after = te.compute((9, n, n), collide, name="after")
    return tensor(
        (9, n, n), lambda s, y, x: after[s, (y - down[s]) % n, (x - right[s]) % n], name="Y"
    )


def _rolled(stack: Any, roll: Any, f: Any) -> Any:
    r = f.sum(0)
    v = sum(m * f[s] for s, (m, _) in enumerate(MOVES) if m) / r
    u = sum(m * f[s] for s, (_, m) in enumerate(MOVES) if m) / r
    still = 1.5 * (v * v + u * u)
    found = []
    for s, (down, right) in enumerate(MOVES):
        along = down * v + right * u
        even = SHARES[s] * r * (1 + 3 * along + 4.5 * along**2 - still)
        found.append(roll(f[s] + OMEGA * (even - f[s]), (down, right), (0, 1)))
    return stack(found)


def lattice_gas(n: int) -> Problem:
    """One collision and one move of nine populations on a periodic square."""
    draw = Draw()
    shares = np.array(SHARES, np.float32)
    noise = draw.normal(9, n, n, scale=0.1)
    inputs = {"F": shares[:, None, None] * (1 + noise)}
    moves = np.array(MOVES)

    def by_numba(a: Arrays, h: Array) -> Passes:
        from benchmarks.workloads.loops.windows import lattice_gas

        return lattice_gas(a, h, shares, moves, OMEGA)

    operations = 9 * 15.0 * n * n
    return Problem(
        inputs, ("F",), draw.normal(9, n, n), _streamed,
        lambda a, h: own_numpy.lattice_gas(a, h, shares, moves, OMEGA),
        {
            "torch": lambda t, F: _rolled(t.stack, t.roll, F),
            "jax": lambda jax, F: _rolled(jax.numpy.stack, jax.numpy.roll, F),
        },
        (operations, 2 * operations), numba=by_numba,
    )  # fmt: skip


def soft_path(n: int, m: int) -> Problem:
    """Soft shortest paths: r[j] = D[j] + softmin(r[j - 1], A[j]) along each row."""
    draw = Draw()
    inputs = {"A": draw.normal(n, m), "D": draw.uniform(0.0, 0.5, n, m)}

    def define(A: Tensor, D: Tensor) -> Tensor:
        def join(x: tuple[Any, Any], y: tuple[Any, Any]) -> tuple[Any, Any]:
            one, two = x[1] + y[0], y[1]
            least = te.minimum(one, two) - te.log1p(te.exp(-te.abs(one - two)))
            return x[0] + y[0], least

        paths = te.comm_reducer(join, lambda *dtypes: (0.0, float("inf")), name="softmin")
        found: tuple[Tensor, Tensor] = te.scan((D, A + D), 1, paths, name="Y")
        return found[1]

    def by_torch(t: Any, A: Any, D: Any) -> Any:
        cost = t.cumsum(D, 1)
        return cost - t.logcumsumexp(cost - D - A, 1)

    def torch_steps(t: Any, A: Any, D: Any) -> Any:
        r = A[:, 0] + D[:, 0]
        found = [r]
        for j in range(1, m):
            r = D[:, j] - t.logaddexp(-r, -A[:, j])
            found.append(r)
        return t.stack(found, 1)

    def by_jax(jax: Any, A: Any, D: Any) -> Any:
        cost = jax.numpy.cumsum(D, 1)
        return cost - jax.lax.cumlogsumexp(cost - D - A, axis=1)

    def jax_steps(jax: Any, A: Any, D: Any) -> Any:
        def step(r: Any, column: Any) -> Any:
            r = column[1] - jax.numpy.logaddexp(-r, -column[0])
            return r, r

        start = jax.numpy.full((n,), np.inf, A.dtype)
        return jax.lax.scan(step, start, (A.T, D.T))[1].T

    def by_numba(a: Arrays, h: Array) -> Passes:
        from benchmarks.workloads.loops.folds import soft_path

        return soft_path(a, h)

    elements = float(n * m)
    return Problem(
        inputs, ("A", "D"), draw.normal(n, m), define, own_numpy.soft_path,
        {"torch": by_torch, "torch_alt": torch_steps, "jax": by_jax, "jax_alt": jax_steps},
        (30 * elements, 45 * elements), numba=by_numba,
    )  # fmt: skip


def soft_pool(n: int, c: int, size: int) -> Problem:
    """log-sum-exp over 3 x 3 elements, two apart."""
    draw = Draw()
    inputs = {"X": draw.normal(n, c, size, size)}
    out = size - 4
    shifts = [(2 * p, 2 * q) for p in range(3) for q in range(3)]

    def define(X: Tensor) -> Tensor:
        p, q = te.reduce_axis(3, name="p"), te.reduce_axis(3, name="q")
        return tensor(
            (n, c, out, out),
            lambda i, k, y, x: te.logsumexp(X[i, k, y + 2 * p, x + 2 * q], axis=[p, q]),
            name="Y",
        )

    def windows(x: Any) -> list[Any]:
        return [x[:, :, p : p + out, q : q + out] for p, q in shifts]

    def torch_columns(t: Any, X: Any) -> Any:
        columns = t.nn.functional.unfold(X, 3, dilation=2).reshape(n, c, 9, -1)
        return t.logsumexp(columns, 2).reshape(n, c, out, out)

    def jax_sums(jax: Any, X: Any) -> Any:
        found = -jax.numpy.inf
        for window in windows(X):
            found = jax.numpy.logaddexp(found, window)
        return found

    def by_numba(a: Arrays, h: Array) -> Passes:
        from benchmarks.workloads.loops.windows import soft_pool

        return soft_pool(a, h)

    elements = 9.0 * n * c * out * out
    return Problem(
        inputs, ("X",), draw.normal(n, c, out, out), define, own_numpy.soft_pool,
        {
            "torch": lambda t, X: t.logsumexp(t.stack(windows(X)), 0),
            "torch_alt": torch_columns,
            "jax": lambda jax, X: jax.nn.logsumexp(jax.numpy.stack(windows(X)), 0),
            "jax_alt": jax_sums,
        },
        (10 * elements, 12 * elements), numba=by_numba,
    )  # fmt: skip


WORKLOADS = (
    Workload(
        "banded_attention", "unusual", {"heads": 8, "n": 1024, "d": 64, "band": 64},
        banded_attention,
        lambda rng: {
            "heads": pick(rng, 2, 8), "n": pick(rng, 300, 1200),
            "d": pick(rng, 24, 80), "band": pick(rng, 16, 100),
        },
        "torch, jax: all pairs with a mask; _alt: windows of the padded keys",
    ),
    Workload("bilateral", "unusual", {"n": 512}, bilateral, lambda r: {"n": pick(r, 150, 700)}),
    Workload("lattice_gas", "unusual", {"n": 512}, lattice_gas, lambda r: {"n": pick(r, 100, 700)}),
    Workload(
        "soft_path", "unusual", {"n": 2048, "m": 128}, soft_path,
        lambda rng: {"n": pick(rng, 500, 4000), "m": pick(rng, 50, 200)},
        "torch, jax: by logcumsumexp; _alt: step by step",
    ),
    Workload(
        "soft_pool", "unusual", {"n": 8, "c": 16, "size": 132}, soft_pool,
        lambda rng: {"n": pick(rng, 2, 8), "c": pick(rng, 4, 24), "size": pick(rng, 40, 160)},
    ),
)  # fmt: skip
