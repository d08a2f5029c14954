"""The five operators of our own choice in NumPy, with their gradients derived by hand."""

from __future__ import annotations

import numpy as np

from benchmarks.workloads.problem import Array, Arrays, Passes


def banded_attention(a: Arrays, h: Array, allowed: Array) -> Passes:
    """All pairs, with a mask."""
    q, k, v = a["q"], a["k"], a["v"]
    scale = q.dtype.type(q.shape[-1] ** -0.5)

    def weights() -> Array:
        p: Array = q @ k.swapaxes(1, 2)
        p *= scale
        p[:, ~allowed] = -1e30
        p -= p.max(-1, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(-1, keepdims=True)
        return p

    def back(p: Array) -> list[Array]:
        dv = p.swapaxes(1, 2) @ h
        dp = h @ v.swapaxes(1, 2)
        dp -= np.einsum("hij,hij->hi", dp, p)[..., None]
        dp *= p
        dp *= scale
        return [dp @ k, dp.swapaxes(1, 2) @ q, dv]

    def both() -> list[Array]:
        p = weights()
        return [p @ v, *back(p)]

    return Passes(lambda: [weights() @ v], lambda: back(weights()), both)


def nearness(radius: int) -> Array:
    """exp(-squared distance / 4) around a centre."""
    along = np.arange(-radius, radius + 1) ** 2
    found: Array = np.exp(-(along[:, None] + along) / 4).astype(np.float32)
    return found


def bilateral(a: Arrays, h: Array, near: Array, likeness: float) -> Passes:
    """Shift by shift."""
    u = a["U"]
    n, width = len(u), len(near)
    radius = width // 2
    kind = u.dtype.type
    shifts = [(p, q) for p in range(width) for q in range(width)]
    padded, mask = np.pad(u, radius), np.pad(np.ones_like(u), radius)

    def weight(p: int, q: int) -> tuple[Array, Array, Array]:
        there = padded[p : p + n, q : q + n]
        apart = there - u
        w = kind(near[p, q]) * np.exp(kind(-likeness) * apart * apart) * mask[p : p + n, q : q + n]
        return there, apart, w

    def sums() -> tuple[Array, Array]:
        total, weights = np.zeros_like(u), np.zeros_like(u)
        for p, q in shifts:
            there, _, w = weight(p, q)
            total += w * there
            weights += w
        return total, weights

    def back(y: Array, weights: Array) -> list[Array]:
        """Y = S/W: dw = h (there - Y)/W, and w depends on both ends of a shift."""
        du = np.zeros_like(padded)
        here = du[radius : radius + n, radius : radius + n]
        share = h / weights
        for p, q in shifts:
            there, apart, w = weight(p, q)
            slope = share * (there - y) * w * kind(-2 * likeness) * apart
            du[p : p + n, q : q + n] += share * w + slope
            here -= slope
        return [here]

    def both() -> list[Array]:
        total, weights = sums()
        y = total / weights
        return [y, *back(y, weights)]

    return Passes(lambda: [np.divide(*sums())], lambda: both()[1:], both)


def lattice_gas(a: Arrays, h: Array, shares: Array, moves: Array, omega: float) -> Passes:
    """Collision, then np.roll."""
    f = a["F"]
    kind = f.dtype.type
    share = shares.astype(f.dtype)[:, None, None]
    c = moves.astype(f.dtype)
    keep, new = kind(1 - omega), kind(omega)

    def fields() -> tuple[Array, Array, Array]:
        """Density, velocity (2, n, n), and the velocity along each direction."""
        r = f.sum(0)
        velocity = np.tensordot(c.T, f, 1) / r
        return r, velocity, np.tensordot(c, velocity, 1)

    def shape_of(velocity: Array, along: Array) -> Array:
        still = kind(1.5) * (velocity * velocity).sum(0)
        found: Array = 1 + 3 * along + kind(4.5) * along * along - still
        return found

    def forward() -> list[Array]:
        r, velocity, along = fields()
        after = keep * f + new * share * r * shape_of(velocity, along)
        return [np.stack([np.roll(p, m, (0, 1)) for p, m in zip(after, moves, strict=True)])]

    def gradients() -> list[Array]:
        r, velocity, along = fields()
        g = np.stack([np.roll(p, -m, (0, 1)) for p, m in zip(h, moves, strict=True)])
        e = new * share * g
        dr = (e * shape_of(velocity, along)).sum(0)
        d_along = e * r * (3 + 9 * along)
        d_velocity = np.tensordot(c.T, d_along, 1) - 3 * velocity * (e * r).sum(0)
        dr -= (d_velocity * velocity).sum(0) / r
        return [keep * g + dr + np.tensordot(c, d_velocity / r, 1)]

    return Passes(forward, gradients)


def soft_path(a: Arrays, h: Array) -> Passes:
    """Column by column."""
    add, cost = a["A"], a["D"]
    m = add.shape[1]
    r, da, dd = np.empty_like(add), np.empty_like(add), np.empty_like(add)

    def forward() -> list[Array]:
        r[:, 0] = cost[:, 0] + add[:, 0]
        for j in range(1, m):
            r[:, j] = cost[:, j] - np.logaddexp(-r[:, j - 1], -add[:, j])
        return [r]

    def back() -> list[Array]:
        g = np.zeros_like(h[:, 0])
        for j in range(m - 1, -1, -1):
            g = g + h[:, j]
            dd[:, j] = g
            da[:, j] = g * np.exp(r[:, j] - cost[:, j] - add[:, j])
            g = g - da[:, j]
        return [da, dd]

    def both() -> list[Array]:
        return [*forward(), *back()]

    return Passes(forward, lambda: both()[1:], both)


def soft_pool(a: Arrays, h: Array) -> Passes:
    """Window by window: the largest, then the sum of exponentials."""
    x = a["X"]
    rows, columns = h.shape[2:]
    shifts = [(2 * p, 2 * q) for p in range(3) for q in range(3)]
    y, part, dx = np.empty_like(h), np.empty_like(h), np.empty_like(x)

    def window(source: Array, p: int, q: int) -> Array:
        return source[:, :, p : p + rows, q : q + columns]

    def forward() -> list[Array]:
        top = window(x, 0, 0).copy()
        for s in shifts[1:]:
            np.maximum(top, window(x, *s), out=top)
        y.fill(0)
        for s in shifts:
            np.subtract(window(x, *s), top, out=part)
            np.add(y, np.exp(part, out=part), out=y)
        np.log(y, out=y)
        np.add(y, top, out=y)
        return [y]

    def both() -> list[Array]:
        forward()
        dx.fill(0)
        for s in shifts:
            np.subtract(window(x, *s), y, out=part)
            np.multiply(np.exp(part, out=part), h, out=part)
            target = window(dx, *s)
            np.add(target, part, out=target)
        return [y, dx]

    return Passes(forward, lambda: both()[1:], both)
