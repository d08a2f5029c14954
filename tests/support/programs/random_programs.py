"""Random programs of loops and branches in each other, over vectors of three elements."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import tensorad as ta
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, outputs, saved
from tests.support.programs.build import branch, loop

SIZE = 3
Counters = Sequence[Expr]


class Programs:
    """Formulas, loops and branches of what there is, chosen by a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0
        self.x = ta.placeholder((SIZE,), "float64", name="x")
        self.y = ta.placeholder((SIZE,), "float64", name="y")
        self.m = ta.placeholder((SIZE, SIZE), "float64", name="m")
        self.count = ta.placeholder((), "int64", name="count")

    def program(self) -> Tensor:
        """A vector that depends on the inputs through loops or branches."""
        made = self.control([self.x, self.y], (), 2)
        return self.formula([*made, *made, self.x], ())

    def vector(self, element: Callable[[Expr], Expr]) -> Tensor:
        self.names += 1
        return ta.compute((SIZE,), element, name=f"v{self.names}")

    def formula(self, pool: Sequence[Tensor], counters: Counters) -> Tensor:
        a, b, m = self.random.choice(pool), self.random.choice(pool), self.m
        k = ta.reduce_axis((0, SIZE), name="k")
        kinds: list[Callable[[Expr], Expr]] = [
            lambda i: a[i] * b[i],
            lambda i: ta.sin(a[i]) + b[i] * 0.5,
            lambda i: ta.tanh(a[i]),
            lambda i: ta.sum(m[i, k] * a[k], axis=k) * 0.3,
            lambda i: ta.select(a[i] > b[i], a[i] * 0.9, b[i] * b[i]),
            lambda i: ta.max(a[k] * b[i], axis=k) * 0.5 + a[i] * 0.1,
            lambda i: a[SIZE - 1 - i] + b[i] * 0.3,
            lambda i: a[i] * 0.7 - b[i] * 0.2 + 0.1,
        ]
        if counters:
            c = self.random.choice(counters)
            before = ta.minimum(ta.maximum(c - 1, 0), SIZE - 1)
            kinds += [
                lambda i: a[i] * m[c % SIZE, i] + 0.1,
                lambda i: ta.select(i == c, ta.sin(b[i]), a[i]),
                lambda i: ta.select(c > 0, a[before] * b[i], a[i]),
                lambda i: a[i] * 0.5 + ta.select(c < SIZE, m[i, before], 1.0),
            ]
        return self.vector(self.random.choice(kinds))

    def block(self, pool: Sequence[Tensor], counters: Counters, depth: int) -> list[Tensor]:
        """The pool and what is made of it."""
        made = list(pool)
        for _ in range(self.random.randrange(1, 4)):
            inside = depth > 0 and self.random.random() < 0.45
            new = self.control(made, counters, depth - 1) if inside else []
            made += new or [self.formula(made, counters)]
        return made

    def control(self, pool: Sequence[Tensor], counters: Counters, depth: int) -> list[Tensor]:
        if self.random.random() < 0.35:
            return self.way(pool, counters, depth)
        return self.loop(pool, counters, depth)

    def way(self, pool: Sequence[Tensor], counters: Counters, depth: int) -> list[Tensor]:
        known = list(dict.fromkeys(pool))
        ways = [[self.block(known, counters, depth)[-1]] for _ in range(2)]
        high = ta.compute((), lambda: known[0][0] > 0.2, name="high")
        index = self.random.choice([high, self.count])
        return list(outputs(branch(index, [*known, self.m, self.count], *ways)))

    def loop(self, pool: Sequence[Tensor], counters: Counters, depth: int) -> list[Tensor]:
        known = list(dict.fromkeys(pool))
        first = [self.random.choice(pool) for _ in range(self.random.randrange(1, 3))]
        trips = self.random.choice([0, 1, 2, 3, self.count])
        scanned = [self.m] if isinstance(trips, int) and self.random.random() < 0.4 else []
        made: list[Tensor] = []

        def body(t: Expr, *own: Tensor) -> list[Tensor]:
            found = self.block([*own, *known], [*counters, t], depth)
            made.extend(found[len(own) + len(known) :])
            return [self.random.choice(found[-3:]) for _ in first]

        fixed = [*known, self.m, self.count]
        op = loop(body, first, scanned, fixed, trips, reverse=self.random.random() < 0.3)
        if self.random.random() < 0.4:
            return list(outputs(op))
        rows = saved(op, self.random.choice(made))
        s = ta.reduce_axis((0, rows.shape[0]), name="s")
        total = self.vector(lambda i: ta.sum(rows[s, i] * 0.5, axis=s))
        return [*outputs(op), total]
