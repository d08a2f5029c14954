"""Random programs over several dtypes at a time, long enough for lanes and threads."""

from __future__ import annotations

import random

import numpy as np

from tensorad import te
from tensorad.autodiff import vjp
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tests.random.generators import Array

DTYPES = ("float32", "float32", "float64", "float64", "int32", "int64", "uint8", "bool")


class Mixed:
    """A random program over matrices, rows, columns and numbers of several dtypes at a time."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.n, self.m = self.rng.choice((3, 17, 64)), self.rng.choice((37, 150, 1037))
        self.inputs = [self.matrix(n) for n in range(2)]
        self.known = list(self.inputs)
        self.made: list[Tensor] = []
        for number in range(self.rng.randint(3, 6)):
            make = self.rng.choice((self.fold, self.fold, self.formula))
            t = make(f"T{number}")
            self.known.append(t)
            self.made.append(t)

    def matrix(self, number: int) -> Tensor:
        dtype = self.rng.choice(DTYPES[:4] if number == 0 else DTYPES)
        return te.placeholder((self.n, self.m), dtype=dtype, name=f"X{number}")

    def at(self, t: Tensor, i: Expr, j: Expr) -> Expr:
        """A known tensor at a point of a matrix."""
        if len(t.shape) == 2:
            return t[i, j]
        return t[()] if not t.shape else t[j if t.shape[0] == self.m else i]

    def term(self, i: Expr, j: Expr) -> Expr:
        """One or two of the tensors so far, in a dtype that one of them has, or in another."""
        floats = [t for t in self.known if t.dtype.is_float]
        value = self.at(self.rng.choice(floats), i, j)
        if self.rng.random() < 0.7:
            other = self.at(self.rng.choice(self.known), i, j)
            value = value * other.astype(self.rng.choice(("float32", "float64")))
        if self.rng.random() < 0.3:
            value = value.astype(self.rng.choice(("float32", "float64")))
        return te.tanh(value) if self.rng.random() < 0.2 else value

    def formula(self, name: str) -> Tensor:
        return te.compute((self.n, self.m), self.term, name=name)

    def fold(self, name: str) -> Tensor:
        i, j = te.reduce_axis(self.n, name="i"), te.reduce_axis(self.m, name="j")
        reduce = self.rng.choice((te.sum, te.sum, te.sum, te.max))
        kind = self.rng.randrange(4)
        if kind == 0:
            return te.compute((), lambda: reduce(self.term(i, j), axis=[i, j]), name=name)
        if kind == 1:
            return te.compute((self.m,), lambda v: reduce(self.term(i, v), axis=i), name=name)
        return te.compute((self.n,), lambda v: reduce(self.term(v, j), axis=j), name=name)

    def program(self) -> tuple[list[Tensor], dict[Tensor, Array]]:
        """All tensors and the gradient by the first input; values for the inputs.

        Floats lie over many powers of two: sums in another order differ in their bits.
        """
        y = self.made[-1]
        head = te.placeholder(y.shape, dtype=str(y.dtype), name="H")
        outputs = [*self.made, *vjp(y, [self.inputs[0]], head)]
        rng = np.random.default_rng(self.seed)
        arrays: dict[Tensor, Array] = {}
        for t in (*self.inputs, head):
            shape = [int(n) for n in t.shape if isinstance(n, int)]
            a = np.ldexp(rng.normal(size=shape), rng.integers(-8, 9, shape))
            kept = a if t.dtype.is_float else np.abs(a) % 7
            arrays[t] = np.asarray(kept, str(t.dtype))
        return outputs, arrays
