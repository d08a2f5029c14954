"""Definitions that call themselves, written out in the nodes of the IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

import tensorad as ta
from tensorad.ir.dtypes import BOOL, FLOAT64, INT64, DType
from tensorad.ir.records import (
    Definition,
    Field,
    RecordType,
    Variant,
    fields_of,
    inject,
    recursion,
    stand_ins,
    tag_of,
)
from tensorad.ir.reference.records import Record, handle
from tensorad.ir.tensor import Block, Branch, Shape, Tensor, outputs
from tests.support.records import List

Tree: Final = RecordType("Tree")
"""Leaf(value), or Node(left, right)."""
Tree.complete(
    [
        Variant("Leaf", (Field("value", (), FLOAT64),)),
        Variant("Node", (Field("left", (), Tree), Field("right", (), Tree))),
    ]
)


def given(*fields: tuple[str, Shape, DType]) -> tuple[Tensor, ...]:
    """Placeholders."""
    return stand_ins([Field(*f) for f in fields])


def number(value: float, dtype: str = "float64") -> Tensor:
    """A 0-d tensor of a number."""
    return ta.compute((), lambda: ta.const(value, dtype), "number")


def branch(index: Tensor, arms: Sequence[Tensor], operands: tuple[Tensor, ...]) -> Tensor:
    """One of several tensors of the operands, only this one being computed."""
    blocks = tuple([Block(operands, (t,)) for t in arms])
    return outputs(Branch(("chosen",), (index, *operands), blocks))[0]


def power() -> Definition:
    """x ** n, by n calls."""
    x, n = given(("x", (), FLOAT64), ("n", (), INT64))
    made = Definition("power", (x, n), [Field("y", (), FLOAT64)])
    (before,) = recursion(made, (x, n - 1))
    return made.complete([branch(n > 0, [number(1.0), x * before], (x, n))])


def fibonacci() -> Definition:
    """The n-th Fibonacci number, as it is defined."""
    (n,) = given(("n", (), INT64))
    made = Definition("fib", (n,), [Field("y", (), INT64)])
    (a,), (b,) = recursion(made, (n - 1,)), recursion(made, (n - 2,))
    return made.complete([branch(n < 2, [a + b, n * 1], (n,))])


def even_and_odd() -> tuple[Definition, Definition]:
    """Whether a number is even, or odd, each by the other."""
    (n,), (m,) = given(("n", (), INT64)), given(("m", (), INT64))
    even = Definition("even", (n,), [Field("is", (), BOOL)])
    odd = Definition("odd", (m,), [Field("is", (), BOOL)])
    yes, no = (ta.compute((), lambda v=v: ta.const(v, "bool"), "c") for v in (True, False))
    even.complete([branch(n > 0, [yes, recursion(odd, (n - 1,))[0]], (n,))])
    odd.complete([branch(m > 0, [no, recursion(even, (m - 1,))[0]], (m,))])
    return even, odd


def total() -> Definition:
    """The sum of a list's elements, each times w."""
    xs, w = given(("xs", (), List), ("w", (), FLOAT64))
    made = Definition("total", (xs, w), [Field("sum", (), FLOAT64)])
    head, tail = fields_of(xs, 1)
    (rest,) = recursion(made, (tail, w))
    return made.complete([branch(tag_of(xs), [number(0.0), head * w + rest], (xs, w))])


def counted_down() -> Definition:
    """The list w*n, ..., w*2, w*1."""
    n, w = given(("n", (), INT64), ("w", (), FLOAT64))
    made = Definition("down", (n, w), [Field("list", (), List)])
    (rest,) = recursion(made, (n - 1, w))
    more = inject(List, 1, (n.astype("float64") * w, rest))
    return made.complete([branch(n > 0, [inject(List, 0, ()), more], (n, w))])


def doubled() -> Definition:
    """A tree with twice the values, and their sum."""
    (tree,) = given(("tree", (), Tree))
    made = Definition("doubled", (tree,), [Field("made", (), Tree), Field("sum", (), FLOAT64)])
    (value,) = fields_of(tree, 0)
    left, right = fields_of(tree, 1)
    a, x = recursion(made, (left,))
    b, y = recursion(made, (right,))
    leaf = Block((tree,), (inject(Tree, 0, (value * 2.0,)), value + 0.0))
    node = Block((tree,), (inject(Tree, 1, (a, b)), x + y))
    found = Branch(("made", "sum"), (tag_of(tree), tree), (leaf, node))
    return made.complete(outputs(found))


def balanced(depth: int) -> Record:
    """A tree of 2 ** depth leaves 0, 1, ..."""
    level = [Record(Tree, 0, (np.array(float(n)),)) for n in range(2**depth)]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=True)
        level = [Record(Tree, 1, (handle(a), handle(b))) for a, b in pairs]
    return level[0]
