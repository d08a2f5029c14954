"""Pooling: kernel x stride with padding, for sums, selections and products."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from benchmarks.work_cases.case import Case, Problem, by, inputs
from tensorad import te, topi

Make = Callable[[int], Problem]


def _pool(kind: str, k: int, s: int, p: int) -> Make:
    def make(g: int) -> Problem:
        (x,) = inputs((2, 2, 8 + g, 8 + g))
        return by(topi.nn.pool(x, k, s, p, kind), x)

    return make


def _prod_pool(k: int, s: int, p: int) -> Make:
    def make(g: int) -> Problem:
        n = 8 + g
        (x,) = inputs((2, n, n))
        m = (n + 2 * p - k) // s + 1
        a, b = te.reduce_axis(k), te.reduce_axis(k)

        def entry(c: Any, i: Any, j: Any) -> Any:
            y, z = i * s + a - p, j * s + b - p
            inside = te.all_of(y >= 0, y < n, z >= 0, z < n)
            return te.prod(x[c, y, z], axis=[a, b], where=inside)

        return by(te.compute((2, m, m), entry), x)

    return make


def _grid() -> list[Case]:
    cases = []
    for k, s in product((1, 2, 3), repeat=2):
        p = k // 2
        cases += [
            Case(f"sum pool k{k} s{s} p{p}", _pool("avg", k, s, p)),
            Case(f"max pool k{k} s{s} p{p}", _pool("max", k, s, p)),
            Case(f"prod pool k{k} s{s} p{p}", _prod_pool(k, s, p)),
        ]
    return cases


def _odd(g: int) -> Problem:
    (x,) = inputs((2, 2, 9 + g, 9 + g))
    return by(topi.nn.pool(x, 2, 2, 0, "avg"), x)


def _adaptive(kind: str) -> Make:
    def make(g: int) -> Problem:
        (x,) = inputs((2, 2, 9 + g, 10))
        return by(topi.nn.adaptive_pool(x, 4, kind), x)

    return make


def _global(kind: str) -> Make:
    def make(g: int) -> Problem:
        (x,) = inputs((2, 3, 5 + g, 5))
        return by(topi.nn.global_pool(x, kind), x)

    return make


def _one_dimensional(g: int) -> Problem:
    (x,) = inputs((2, 2, 9 + g))
    return by(topi.nn.pool1d(x, 3, 2, 1, "max"), x)


def _three_dimensional(g: int) -> Problem:
    (x,) = inputs((1, 2, 4 + g, 5, 6))
    return by(topi.nn.pool3d(x, 2, 2, 0, "avg"), x)


def _local_response(g: int) -> Problem:
    (x,) = inputs((2, 5, 3 + g, 3))
    return by(topi.nn.lrn(x, 3), x)


CASES = [
    *_grid(),
    Case("sum pool k5 s2 p2", _pool("avg", 5, 2, 2)),
    Case("sum pool k2 s2 p0", _pool("avg", 2, 2, 0), second=True),
    Case("max pool k2 s2 p0", _pool("max", 2, 2, 0), second=True),
    Case("max pool k3 s1 p1, second order", _pool("max", 3, 1, 1), second=True),
    Case("prod pool k2 s2 p0", _prod_pool(2, 2, 0), second=True),
    Case("sum pool k2 s3 p0", _pool("avg", 2, 3, 0)),
    Case("sum pool k2 s2, odd size", _odd),
    Case("adaptive avg pool", _adaptive("avg"), growth=(4, 8)),
    Case("adaptive max pool", _adaptive("max"), growth=(4, 8)),
    Case("global avg pool", _global("avg")),
    Case("global max pool", _global("max")),
    Case("max pool 1d k3 s2 p1", _one_dimensional),
    Case("avg pool 3d k2 s2", _three_dimensional),
    Case("local response normalisation", _local_response),
]
