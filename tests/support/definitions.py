"""Definitions for tests, by small functions that build branches."""

from __future__ import annotations

from collections.abc import Sequence

import tensorad as ta
from tensorad import topi
from tensorad.ir.dtypes import FLOAT64, INT64
from tensorad.ir.records import (
    Definition,
    Field,
    RecordType,
    Variant,
    fields_of,
    recursion,
    stand_ins,
    tag_of,
)
from tensorad.ir.tensor import Block, Branch, Tensor, outputs
from tests.support.records import List

Tree = RecordType("Tree")
"""Leaf(x), or Node(left, right, w) with an array of two numbers."""
Tree.complete(
    [
        Variant("Leaf", (Field("x", (), FLOAT64),)),
        Variant(
            "Node", (Field("left", (), Tree), Field("right", (), Tree), Field("w", (2,), FLOAT64))
        ),
    ]
)


def branch(index: Tensor, arms: Sequence[Tensor], operands: Sequence[Tensor]) -> Tensor:
    """One of several tensors, only this one being computed."""
    blocks = tuple([Block(tuple(operands), (t,)) for t in arms])
    return outputs(Branch(("chosen",), (index, *operands), blocks))[0]


def scalar(name: str) -> Tensor:
    """A 0-d float64 input."""
    return stand_ins([Field(name, (), FLOAT64)])[0]


def power() -> Definition:
    """x ** n, by n calls."""
    x, n = stand_ins([Field("x", (), FLOAT64), Field("n", (), INT64)])
    made = Definition("power", (x, n), [Field("y", (), FLOAT64)])
    (before,) = recursion(made, (x, n - 1))
    one = topi.full((), 1.0, "float64")
    return made.complete([branch(n > 0, [one, x * before], (x, n))])


def product() -> Definition:
    """The product of sin(w * x) over a list."""
    xs, w = stand_ins([Field("xs", (), List), Field("w", (), FLOAT64)])
    made = Definition("product", (xs, w), [Field("y", (), FLOAT64)])
    head, tail = fields_of(xs, 1)
    (rest,) = recursion(made, (tail, w))
    one = topi.full((), 1.0, "float64")
    return made.complete([branch(tag_of(xs), [one, ta.sin(head * w) * rest], (xs, w))])


def net() -> Definition:
    """A tree's value: tanh(a * left + w[0] * right * left + w[1]), or a leaf's number times a."""
    t, a = stand_ins([Field("t", (), Tree), Field("a", (), FLOAT64)])
    made = Definition("net", (t, a), [Field("y", (), FLOAT64)])
    (x,) = fields_of(t, 0)
    left, right, w = fields_of(t, 1)
    (y,), (z,) = recursion(made, (left, a)), recursion(made, (right, a))
    node = ta.compute((), lambda: ta.tanh(a() * y() + w[0] * z() * y() + w[1]), "node")
    return made.complete([branch(tag_of(t), [x * a, node], (t, a))])
