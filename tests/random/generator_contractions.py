"""Random contractions: axes of each kind, layouts, strides, flips, windows, and what is around."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

import tensorad as ta
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor

SIZES = (1, 2, 3, 4, 5, 7, 9, 13, 16, 17, 19, 31, 33)


@dataclass(frozen=True)
class Program:
    """An output and its inputs."""

    output: Tensor
    inputs: tuple[Tensor, ...]

    def arrays(self, seed: int) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        return [rng.normal(size=t.shape).astype(str(t.dtype)) for t in self.inputs]


class Drawn:
    """One program, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.dtype = self.rng.choice(["float32", "float32", "float64"])
        self.inputs: list[Tensor] = []

    def sizes(self, least: int, most: int) -> list[int]:
        return [self.rng.choice(SIZES) for _ in range(self.rng.randint(least, most))]

    def placeholder(self, shape: list[int]) -> Tensor:
        t = ta.placeholder(tuple(shape), name="ABCDE"[len(self.inputs)], dtype=self.dtype)
        self.inputs.append(t)
        return t

    def operand(self, axes: list[tuple[Expr, int]]) -> Expr:
        """A read at the axes in any order, some with a step, an offset or reversed."""
        order = self.rng.sample(axes, len(axes))
        shape, indices = [], []
        for a, n in order:
            kind = self.rng.choice(["plain", "plain", "plain", "step", "offset", "flip"])
            if kind == "step":
                shape.append(2 * n)
                indices.append(2 * a + self.rng.randint(0, 1))
            elif kind == "offset":
                shape.append(n + 3)
                indices.append(a + self.rng.randint(0, 3))
            else:
                shape.append(n)
                indices.append(n - 1 - a if kind == "flip" else a)
        return self.placeholder(shape)[tuple(indices)]

    def program(self) -> Program:
        batch, rows, lanes = self.sizes(0, 1), self.sizes(1, 2), self.sizes(1, 2)
        depths = self.sizes(1, 2)
        ks = [ta.reduce_axis(n, name=f"k{i}") for i, n in enumerate(depths)]
        inner = list(zip(ks, depths, strict=True))
        shape = [*batch, *rows, *lanes]
        order = self.rng.sample(range(len(shape)), len(shape))
        window = self.rng.random() < 0.4

        def body(*given: Expr) -> Expr:
            own = [given[order.index(n)] for n in range(len(shape))]
            axes = list(zip(own, shape, strict=True))
            b, r = len(batch), len(batch) + len(rows)
            left = self.operand([*axes[:r], *inner])
            if window:
                return self.windowed(left, axes[:b], axes[r:], inner, ks)
            right = self.operand([*axes[:b], *axes[r:], *inner])
            return self.reduced(left, right, axes[r:], inner, ks)

        out = ta.compute(tuple([shape[n] for n in order]), body, name="Y")
        return Program(out, tuple(self.inputs))

    def reduced(
        self,
        left: Expr,
        right: Expr,
        lanes: list[tuple[Expr, int]],
        inner: list[tuple[Expr, int]],
        ks: list[Expr],
    ) -> Expr:
        kind = self.rng.choice(["sum", "sum", "sum", "several", "min", "max", "distance"])
        if kind == "several":
            right = right * self.operand([lanes[0], inner[0]])
        if kind == "min":
            return ta.min(left + right, axis=ks)
        if kind == "max":
            return ta.max(left - right, axis=ks)
        if kind == "distance":
            return ta.sum(abs(left - right), axis=ks)
        return self.around(ta.sum(left * right, axis=ks), lanes)

    def around(self, value: Expr, lanes: list[tuple[Expr, int]]) -> Expr:
        """An epilogue: scaled, shifted along the lanes, or nothing."""
        kind = self.rng.choice(["none", "scale", "shift"])
        if kind == "scale":
            return value * 0.5
        return value + self.operand([lanes[-1]]) if kind == "shift" else value

    def windowed(
        self,
        left: Expr,
        batch: list[tuple[Expr, int]],
        lanes: list[tuple[Expr, int]],
        inner: list[tuple[Expr, int]],
        ks: list[Expr],
    ) -> Expr:
        """One lane axis moves over a tensor with a margin of zeros, in steps of one or two."""
        (a, n), (k, depth) = lanes[-1], inner[-1]
        step, pad = self.rng.randint(1, 2), self.rng.randint(0, 2)
        extent = max(1, step * (n - 1) + depth - 2 * pad)
        place = step * a + k - pad
        others = [*batch, *lanes[:-1], *inner[:-1]]
        right = self.placeholder([*[m for _, m in others], extent])
        value = right[(*[x for x, _ in others], place)]
        where = (place >= 0) & (place < extent)
        return self.around(ta.sum(left * value, axis=ks, where=where), lanes)


def contraction(seed: int) -> Program:
    """The program of a seed."""
    return Drawn(seed).program()
