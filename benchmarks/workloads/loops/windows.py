"""Loops by hand for windows, pools and stencils; results go to arrays allocated once."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.workloads.loops.by_numba import loops, prange
from benchmarks.workloads.problem import Array, Arrays, Passes


@loops
def _convolve(x: Array, w: Array, y: Array) -> None:
    n, o, rows, columns = y.shape
    c, k = w.shape[1], w.shape[2]
    for image in prange(n * o):
        i, f = image // o, image % o
        for r in range(rows):
            total = np.zeros(columns, np.float32)
            for s in range(c):
                for p in range(k):
                    for q in range(k):
                        weight = w[f, s, p, q]
                        for t in range(columns):
                            total[t] += weight * x[i, s, r + p, t + q]
            y[i, f, r] = total


@loops
def _convolve_to_images(w: Array, h: Array, dx: Array) -> None:
    n, o, rows, columns = h.shape
    c, k = w.shape[1], w.shape[2]
    for image in prange(n * c):
        i, s = image // c, image % c
        plane = np.zeros(dx.shape[2:], np.float32)
        for f in range(o):
            for p in range(k):
                for q in range(k):
                    weight = w[f, s, p, q]
                    for r in range(rows):
                        for t in range(columns):
                            plane[r + p, t + q] += weight * h[i, f, r, t]
        dx[i, s] = plane


@loops
def _convolve_to_weights(x: Array, h: Array, dw: Array) -> None:
    n, o, rows, columns = h.shape
    c, k = dw.shape[1], dw.shape[2]
    for kernel in prange(o * c):
        f, s = kernel // c, kernel % c
        for p in range(k):
            for q in range(k):
                total = np.float32(0)
                for i in range(n):
                    for r in range(rows):
                        for t in range(columns):
                            total += h[i, f, r, t] * x[i, s, r + p, t + q]
                dw[f, s, p, q] = total


def convolution(a: Arrays, h: Array) -> Passes:
    """Direct, stride 1, no padding."""
    x, w = a["X"], a["W"]
    y, dx, dw = np.empty_like(h), np.empty_like(x), np.empty_like(w)

    def forward() -> list[Array]:
        _convolve(x, w, y)
        return [y]

    def gradients() -> list[Array]:
        _convolve_to_images(w, h, dx)
        _convolve_to_weights(x, h, dw)
        return [dx, dw]

    return Passes(forward, gradients)


@loops
def _averages(x: Array, y: Array) -> None:
    planes, rows, columns = y.shape
    for i in prange(planes):
        for r in range(rows):
            for c in range(columns):
                upper = x[i, 2 * r, 2 * c] + x[i, 2 * r, 2 * c + 1]
                lower = x[i, 2 * r + 1, 2 * c] + x[i, 2 * r + 1, 2 * c + 1]
                y[i, r, c] = (upper + lower) * np.float32(0.25)


@loops
def _average_gradients(x: Array, h: Array, dx: Array) -> None:
    planes, rows, columns = h.shape
    for i in prange(planes):
        for r in range(rows):
            for c in range(columns):
                part = h[i, r, c] * np.float32(0.25)
                dx[i, 2 * r, 2 * c] = part
                dx[i, 2 * r, 2 * c + 1] = part
                dx[i, 2 * r + 1, 2 * c] = part
                dx[i, 2 * r + 1, 2 * c + 1] = part


@loops
def _largest(x: Array, y: Array) -> None:
    planes, rows, columns = y.shape
    for i in prange(planes):
        for r in range(rows):
            for c in range(columns):
                upper = max(x[i, 2 * r, 2 * c], x[i, 2 * r, 2 * c + 1])
                lower = max(x[i, 2 * r + 1, 2 * c], x[i, 2 * r + 1, 2 * c + 1])
                y[i, r, c] = max(upper, lower)


@loops
def _largest_gradients(x: Array, h: Array, dx: Array) -> None:
    planes, rows, columns = h.shape
    none = np.float32(0)
    for i in prange(planes):
        for r in range(rows):
            for c in range(columns):
                one, two = x[i, 2 * r, 2 * c], x[i, 2 * r, 2 * c + 1]
                three, four = x[i, 2 * r + 1, 2 * c], x[i, 2 * r + 1, 2 * c + 1]
                top = max(max(one, two), max(three, four))
                head = h[i, r, c]
                dx[i, 2 * r, 2 * c] = head if one == top else none
                dx[i, 2 * r, 2 * c + 1] = head if two == top else none
                dx[i, 2 * r + 1, 2 * c] = head if three == top else none
                dx[i, 2 * r + 1, 2 * c + 1] = head if four == top else none


def pool(a: Arrays, h: Array, kind: str) -> Passes:
    """Blocks of 2 x 2."""
    x = a["X"]
    planes = x.shape[0] * x.shape[1]
    y, dx = np.empty_like(h), np.empty_like(x)
    flat_x, flat_dx = (t.reshape(planes, *x.shape[2:]) for t in (x, dx))
    flat_h, flat_y = (t.reshape(planes, *h.shape[2:]) for t in (h, y))
    run, back = (_averages, _average_gradients) if kind == "avg" else (_largest, _largest_gradients)

    def forward() -> list[Array]:
        run(flat_x, flat_y)
        return [y]

    def gradients() -> list[Array]:
        back(flat_x, flat_h, flat_dx)
        return [dx]

    return Passes(forward, gradients)


@loops
def _stencil_step(u: Array, v: Array, flow: np.float32, growth: np.float32) -> None:
    n = u.shape[0] - 2
    one, four = np.float32(1), np.float32(4)
    for y in prange(1, n + 1):
        for x in range(1, n + 1):
            here = u[y, x]
            around = u[y - 1, x] + u[y + 1, x] + u[y, x - 1] + u[y, x + 1]
            v[y, x] = here + flow * (around - four * here) + growth * here * (one - here * here)


@loops
def _stencil_back(u: Array, g: Array, out: Array, flow: np.float32, growth: np.float32) -> None:
    n = u.shape[0] - 2
    one, three, four = np.float32(1), np.float32(3), np.float32(4)
    for y in prange(1, n + 1):
        for x in range(1, n + 1):
            here, head = u[y, x], g[y, x]
            around = g[y - 1, x] + g[y + 1, x] + g[y, x - 1] + g[y, x + 1]
            grown = growth * head * (one - three * here * here)
            out[y, x] = head + flow * (around - four * head) + grown


def stencil2d(a: Arrays, h: Array, steps: int, flow: float, growth: float) -> Passes:
    """Every state kept with a border of zeros; the adjoint goes back between two arrays."""
    n = h.shape[0]
    states = np.zeros((steps + 1, n + 2, n + 2), np.float32)
    adjoints = np.zeros((2, n + 2, n + 2), np.float32)
    states[0, 1:-1, 1:-1] = a["U"]
    numbers = np.float32(flow), np.float32(growth)

    def run(count: int) -> None:
        for t in range(count):
            _stencil_step(states[t], states[t + 1], *numbers)

    def back() -> list[Array]:
        adjoints[0, 1:-1, 1:-1] = h
        now = 0
        for t in range(steps - 1, -1, -1):
            _stencil_back(states[t], adjoints[now], adjoints[1 - now], *numbers)
            now = 1 - now
        return [adjoints[now, 1:-1, 1:-1]]

    def forward() -> list[Array]:
        run(steps)
        return [states[steps, 1:-1, 1:-1]]

    def gradients() -> list[Array]:
        run(steps - 1)
        return back()

    return Passes(forward, gradients, lambda: [*forward(), *back()])


@loops
def _bilateral(u: Array, near: Array, likeness: np.float32, y: Array, weights: Array) -> None:
    n, width = u.shape[0], near.shape[0]
    radius = width // 2
    for r in prange(n):
        sums = np.zeros(n, np.float32)
        total = np.zeros(n, np.float32)
        for p in range(max(0, radius - r), min(width, n + radius - r)):
            row = u[r + p - radius]
            for q in range(width):
                close = near[p, q]
                for c in range(max(0, radius - q), min(n, n + radius - q)):
                    there = row[c + q - radius]
                    apart = there - u[r, c]
                    w = close * math.exp(-likeness * apart * apart)
                    sums[c] += w * there
                    total[c] += w
        for c in range(n):
            y[r, c] = sums[c] / total[c]
            weights[r, c] = total[c]


@loops
def _bilateral_back(
    u: Array, near: Array, likeness: np.float32, y: Array, share: Array, du: Array
) -> None:
    """Pixel by pixel: what each neighbour's mean takes from here, and its own mean."""
    n, width = u.shape[0], near.shape[0]
    radius = width // 2
    two = np.float32(2)
    for r in prange(n):
        total = np.zeros(n, np.float32)
        for p in range(max(0, radius - r), min(width, n + radius - r)):
            t = r + p - radius
            for q in range(width):
                close = near[p, q]
                for c in range(max(0, radius - q), min(n, n + radius - q)):
                    s = c + q - radius
                    here, there = u[r, c], u[t, s]
                    apart = there - here
                    w = close * math.exp(-likeness * apart * apart)
                    out = share[t, s] * (here - y[t, s])
                    own = share[r, c] * (there - y[r, c])
                    total[c] += w * (share[t, s] + two * likeness * apart * (out + own))
        du[r] = total


def bilateral(a: Arrays, h: Array, near: Array, likeness: float) -> Passes:
    """Two passes over the neighbours: means, then gradients gathered."""
    u = a["U"]
    y, weights, share, du = (np.empty_like(u) for _ in range(4))
    number = np.float32(likeness)

    def forward() -> list[Array]:
        _bilateral(u, near, number, y, weights)
        return [y]

    def both() -> list[Array]:
        _bilateral(u, near, number, y, weights)
        np.divide(h, weights, out=share)
        _bilateral_back(u, near, number, y, share, du)
        return [y, du]

    return Passes(forward, lambda: both()[1:], both)


@loops
def _gas(f: Array, share: Array, moves: Array, omega: np.float32, out: Array) -> None:
    n = f.shape[1]
    one, three = np.float32(1), np.float32(3)
    half9, half3 = np.float32(4.5), np.float32(1.5)
    for y in prange(n):
        for x in range(n):
            r = np.float32(0)
            v = np.float32(0)
            u = np.float32(0)
            for s in range(9):
                r += f[s, y, x]
                v += moves[s, 0] * f[s, y, x]
                u += moves[s, 1] * f[s, y, x]
            v /= r
            u /= r
            still = half3 * (v * v + u * u)
            for s in range(9):
                along = moves[s, 0] * v + moves[s, 1] * u
                even = share[s] * r * (one + three * along + half9 * along * along - still)
                ty = (y + int(moves[s, 0])) % n
                tx = (x + int(moves[s, 1])) % n
                out[s, ty, tx] = f[s, y, x] + omega * (even - f[s, y, x])


@loops
def _gas_back(f: Array, share: Array, moves: Array, omega: np.float32, h: Array, df: Array) -> None:
    n = f.shape[1]
    one, three, nine = np.float32(1), np.float32(3), np.float32(9)
    half9, half3 = np.float32(4.5), np.float32(1.5)
    for y in prange(n):
        for x in range(n):
            r = np.float32(0)
            v = np.float32(0)
            u = np.float32(0)
            for s in range(9):
                r += f[s, y, x]
                v += moves[s, 0] * f[s, y, x]
                u += moves[s, 1] * f[s, y, x]
            v /= r
            u /= r
            still = half3 * (v * v + u * u)
            dr = np.float32(0)
            dv = np.float32(0)
            du = np.float32(0)
            for s in range(9):
                ty = (y + int(moves[s, 0])) % n
                tx = (x + int(moves[s, 1])) % n
                e = omega * share[s] * h[s, ty, tx]
                along = moves[s, 0] * v + moves[s, 1] * u
                dr += e * (one + three * along + half9 * along * along - still)
                slope = e * r * (three + nine * along)
                dv += slope * moves[s, 0] - three * e * r * v
                du += slope * moves[s, 1] - three * e * r * u
            dr -= (dv * v + du * u) / r
            dv /= r
            du /= r
            for s in range(9):
                ty = (y + int(moves[s, 0])) % n
                tx = (x + int(moves[s, 1])) % n
                into = dr + dv * moves[s, 0] + du * moves[s, 1]
                df[s, y, x] = (one - omega) * h[s, ty, tx] + into


def lattice_gas(a: Arrays, h: Array, share: Array, moves: Array, omega: float) -> Passes:
    """Cell by cell."""
    f = a["F"]
    y, df = np.empty_like(f), np.empty_like(f)
    c, number = moves.astype(np.float32), np.float32(omega)

    def forward() -> list[Array]:
        _gas(f, share, c, number, y)
        return [y]

    def gradients() -> list[Array]:
        _gas_back(f, share, c, number, h, df)
        return [df]

    return Passes(forward, gradients)


@loops
def _soft_pool(x: Array, y: Array) -> None:
    planes, rows, columns = y.shape
    for i in prange(planes):
        for r in range(rows):
            top = np.full(columns, np.float32(-np.inf), np.float32)
            total = np.zeros(columns, np.float32)
            for p in range(3):
                for q in range(3):
                    for c in range(columns):
                        top[c] = max(top[c], x[i, r + 2 * p, c + 2 * q])
            for p in range(3):
                for q in range(3):
                    for c in range(columns):
                        total[c] += math.exp(x[i, r + 2 * p, c + 2 * q] - top[c])
            for c in range(columns):
                y[i, r, c] = top[c] + math.log(total[c])


@loops
def _soft_pool_back(x: Array, y: Array, h: Array, dx: Array) -> None:
    planes, rows, columns = y.shape
    for i in prange(planes):
        dx[i] = 0
        for r in range(rows):
            for p in range(3):
                for q in range(3):
                    for c in range(columns):
                        part = math.exp(x[i, r + 2 * p, c + 2 * q] - y[i, r, c])
                        dx[i, r + 2 * p, c + 2 * q] += part * h[i, r, c]


def soft_pool(a: Arrays, h: Array) -> Passes:
    """Plane by plane, row by row."""
    x = a["X"]
    planes = x.shape[0] * x.shape[1]
    y, dx = np.empty_like(h), np.empty_like(x)
    flat_x, flat_dx = (t.reshape(planes, *x.shape[2:]) for t in (x, dx))
    flat_h, flat_y = (t.reshape(planes, *h.shape[2:]) for t in (h, y))

    def forward() -> list[Array]:
        _soft_pool(flat_x, flat_y)
        return [y]

    def both() -> list[Array]:
        _soft_pool(flat_x, flat_y)
        _soft_pool_back(flat_x, flat_y, flat_h, flat_dx)
        return [y, dx]

    return Passes(forward, lambda: both()[1:], both)
