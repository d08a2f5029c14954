"""Loops by hand for folds over rows and pairs; results go to arrays allocated once."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.workloads.loops.by_numba import loops, prange, thread_count
from benchmarks.workloads.problem import Array, Arrays, Passes

TILE = 4
BLOCK = 256


@loops
def _products(x: Array, y: Array) -> None:
    for i in prange(x.shape[0]):
        p = np.float32(1)
        for k in range(x.shape[1]):
            p *= x[i, k]
        y[i] = p


@loops
def _product_gradients(x: Array, h: Array, dx: Array) -> None:
    """Products of what is before, then of what is after: right with zeros too."""
    m = x.shape[1]
    for i in prange(x.shape[0]):
        p = h[i]
        for k in range(m):
            dx[i, k] = p
            p *= x[i, k]
        p = np.float32(1)
        for k in range(m - 1, -1, -1):
            dx[i, k] *= p
            p *= x[i, k]


def prod(a: Arrays, h: Array) -> Passes:
    """Products of rows."""
    x = a["X"]
    y, dx = np.empty_like(h), np.empty_like(x)

    def forward() -> list[Array]:
        _products(x, y)
        return [y]

    def gradients() -> list[Array]:
        _product_gradients(x, h, dx)
        return [dx]

    return Passes(forward, gradients)


@loops
def _least_sums(a: Array, b: Array, y: Array) -> None:
    n = a.shape[0]
    for block in prange((n + TILE - 1) // TILE):
        first = block * TILE
        count = min(TILE, n - first)
        least = np.full((TILE, n), np.float32(np.inf), np.float32)
        for k in range(n):
            for t in range(count):
                s = a[first + t, k]
                for j in range(n):
                    least[t, j] = min(least[t, j], s + b[k, j])
        y[first : first + count] = least[:count]


@loops
def _least_sum_gradients(a: Array, b: Array, h: Array, da: Array, parts: Array) -> None:
    """Each thread adds to its own copy of db."""
    n = a.shape[0]
    threads = parts.shape[0]
    for t in prange(threads):
        parts[t] = 0
        least = np.empty(n, np.float32)
        winner = np.empty(n, np.int32)
        for i in range(t * n // threads, (t + 1) * n // threads):
            least[:] = np.inf
            winner[:] = 0
            for k in range(n):
                s = a[i, k]
                for j in range(n):
                    v = s + b[k, j]
                    lower = v < least[j]
                    least[j] = v if lower else least[j]
                    winner[j] = k if lower else winner[j]
            da[i] = 0
            for j in range(n):
                da[i, winner[j]] += h[i, j]
                parts[t, winner[j], j] += h[i, j]


def minplus(a: Arrays, h: Array) -> Passes:
    """Rows in tiles; gradients by the place of the least."""
    left, right = a["A"], a["B"]
    y, dl, dr = np.empty_like(h), np.empty_like(left), np.empty_like(right)
    parts = np.zeros((thread_count(), *right.shape), np.float32)

    def forward() -> list[Array]:
        _least_sums(left, right, y)
        return [y]

    def gradients() -> list[Array]:
        _least_sum_gradients(left, right, h, dl, parts)
        np.sum(parts, axis=0, out=dr)
        return [dl, dr]

    return Passes(forward, gradients)


@loops
def _distances(x: Array, turned: Array, z: Array) -> None:
    n, d = x.shape
    for i in prange(n):
        for first in range(0, n, BLOCK):
            count = min(BLOCK, n - first)
            total = np.zeros(BLOCK, np.float32)
            for k in range(d):
                here = x[i, k]
                for j in range(count):
                    total[j] += abs(here - turned[k, first + j])
            for j in range(count):
                z[i, first + j] = total[j]


@loops
def _distance_gradients(x: Array, y: Array, h: Array, dx: Array) -> None:
    n, d = x.shape
    for i in prange(n):
        total = np.zeros(d, np.float32)
        for j in range(n):
            head = h[i, j]
            for k in range(d):
                apart = x[i, k] - y[j, k]
                total[k] += head if apart > 0 else (-head if apart < 0 else np.float32(0))
        dx[i] = total


def pairwise_l1(a: Arrays, h: Array) -> Passes:
    """Distances by blocks of columns; both gradients by the same loops."""
    x, y = a["X"], a["Y"]
    turned, turned_head = np.ascontiguousarray(y.T), np.empty_like(h)
    z, dx, dy = np.empty_like(h), np.empty_like(x), np.empty_like(y)

    def forward() -> list[Array]:
        np.copyto(turned, y.T)
        _distances(x, turned, z)
        return [z]

    def gradients() -> list[Array]:
        np.copyto(turned_head, h.T)
        _distance_gradients(x, y, h, dx)
        _distance_gradients(y, x, turned_head, dy)
        return [dx, dy]

    return Passes(forward, gradients)


@loops
def _paths(add: Array, cost: Array, r: Array) -> None:
    n, m = add.shape
    for i in prange(n):
        last = cost[i, 0] + add[i, 0]
        r[i, 0] = last
        for j in range(1, m):
            apart = abs(last - add[i, j])
            last = cost[i, j] + min(last, add[i, j]) - math.log1p(math.exp(-apart))
            r[i, j] = last


@loops
def _path_gradients(add: Array, cost: Array, r: Array, h: Array, da: Array, dd: Array) -> None:
    n, m = add.shape
    for i in prange(n):
        g = np.float32(0)
        for j in range(m - 1, -1, -1):
            g += h[i, j]
            dd[i, j] = g
            into = g * math.exp(r[i, j] - cost[i, j] - add[i, j])
            da[i, j] = into
            g -= into


def soft_path(a: Arrays, h: Array) -> Passes:
    """Rows on threads, step by step."""
    add, cost = a["A"], a["D"]
    r, da, dd = np.empty_like(add), np.empty_like(add), np.empty_like(add)

    def forward() -> list[Array]:
        _paths(add, cost, r)
        return [r]

    def both() -> list[Array]:
        _paths(add, cost, r)
        _path_gradients(add, cost, r, h, da, dd)
        return [r, da, dd]

    return Passes(forward, lambda: both()[1:], both)


@loops
def _banded(q: Array, k: Array, v: Array, p: Array, y: Array) -> None:
    heads, n, d = q.shape
    band = p.shape[2]
    scale = np.float32(d**-0.5)
    for row in prange(heads * n):
        g, i = row // n, row % n
        count = min(band, i + 1)
        top = np.float32(-np.inf)
        for w in range(count):
            s = np.float32(0)
            for c in range(d):
                s += q[g, i, c] * k[g, i - w, c]
            p[g, i, w] = s * scale
            top = max(top, s * scale)
        total = np.float32(0)
        for w in range(count):
            p[g, i, w] = math.exp(p[g, i, w] - top)
            total += p[g, i, w]
        for w in range(count, band):
            p[g, i, w] = 0
        out = np.zeros(d, np.float32)
        for w in range(count):
            p[g, i, w] /= total
            for c in range(d):
                out[c] += p[g, i, w] * v[g, i - w, c]
        y[g, i] = out


@loops
def _banded_scores(q: Array, k: Array, v: Array, p: Array, h: Array, ds: Array, dq: Array) -> None:
    heads, n, d = q.shape
    band = p.shape[2]
    scale = np.float32(d**-0.5)
    for row in prange(heads * n):
        g, i = row // n, row % n
        count = min(band, i + 1)
        mean = np.float32(0)
        for w in range(count):
            s = np.float32(0)
            for c in range(d):
                s += h[g, i, c] * v[g, i - w, c]
            ds[g, i, w] = s
            mean += s * p[g, i, w]
        out = np.zeros(d, np.float32)
        for w in range(count):
            s = (ds[g, i, w] - mean) * p[g, i, w] * scale
            ds[g, i, w] = s
            for c in range(d):
                out[c] += s * k[g, i - w, c]
        dq[g, i] = out


@loops
def _banded_columns(q: Array, p: Array, h: Array, ds: Array, dk: Array, dv: Array) -> None:
    heads, n, d = q.shape
    band = p.shape[2]
    for row in prange(heads * n):
        g, j = row // n, row % n
        into_k = np.zeros(d, np.float32)
        into_v = np.zeros(d, np.float32)
        for w in range(min(band, n - j)):
            s = ds[g, j + w, w]
            t = p[g, j + w, w]
            for c in range(d):
                into_k[c] += s * q[g, j + w, c]
                into_v[c] += t * h[g, j + w, c]
        dk[g, j] = into_k
        dv[g, j] = into_v


def banded_attention(a: Arrays, h: Array, band: int) -> Passes:
    """Only the band, row by row; gradients of keys and values by columns."""
    q, k, v = a["q"], a["k"], a["v"]
    p, ds = (np.zeros((*q.shape[:2], band), np.float32) for _ in range(2))
    y, dq, dk, dv = (np.empty_like(q) for _ in range(4))

    def forward() -> list[Array]:
        _banded(q, k, v, p, y)
        return [y]

    def both() -> list[Array]:
        _banded(q, k, v, p, y)
        _banded_scores(q, k, v, p, h, ds, dq)
        _banded_columns(q, p, h, ds, dk, dv)
        return [y, dq, dk, dv]

    return Passes(forward, lambda: both()[1:], both)
