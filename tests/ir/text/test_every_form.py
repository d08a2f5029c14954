"""Every form of the intermediate representation has a text: printed, read, printed again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final, get_args

import numpy as np

import tensorad as ta
from tensorad.ir import tensor as tensors
from tensorad.ir.functions import Function
from tensorad.ir.node import Node
from tensorad.ir.nodes import Expr
from tensorad.ir.text.parser import parse_program
from tensorad.ir.text.program import forest_leaves

ONES: Final = np.ones(3)
TABLE: Final = np.arange(600.0).reshape(200, 3)


def ordered(x: Any) -> Any:
    return np.sort(x)


in_order = ta.foreign(ordered, lambda x: x)
softplus = ta.scalar_function(
    lambda x: ta.log1p(ta.exp(x)), partials=lambda y, x: ta.sigmoid(x), name="softplus"
)


List: Any = ta.variant("List", Nil={}, Cons={"head": "float64", "tail": "List"})


@ta.function
def total(xs: Any) -> Any:
    return ta.match(xs, lambda: 0.0, lambda head, tail: head + total(tail))


@ta.function
def scaled(x: Any) -> Any:
    return x * 0.5


def program(x: Any, z: Any, w: Any, n: Any) -> Any:
    """Something of each form."""
    kept = ta.checkpoint(lambda v: ta.sin(v) * v)(x)
    last, every = ta.scan(lambda c, r: (c * w + r, c), x, TABLE, memory=200)
    grown = ta.while_loop(lambda s: s < 9.0, lambda s: s * 1.5 + w, w, memory=200)
    listed = ta.for_loop(0, n, lambda i, xs: List.Cons(w * i, xs), List.Nil())
    chosen = ta.cond(w > 0, lambda: scaled(x), lambda: x)
    placed = chosen.at[ta.compute((2,), lambda i: i * 2)].add(1.0)
    prefix = ta.scan(placed, 0)
    smooth = ta.compute(x.shape, lambda i: ta.select(i > 0, softplus(prefix[i]), w()))
    return kept, last, every, grown, total(listed), in_order(smooth), z.sum()


def forms(classes: Any) -> Iterator[type]:
    """The classes that are made, those derived of them included."""
    for c in classes:
        inner = c.__subclasses__()
        yield from forms(inner)
        is_ours = c.__module__.startswith("tensorad.")  # tests have classes of their own
        if is_ours and (not inner or (is_dataclass(c) and c is not tensors.Control)):
            yield c


def met(roots: Any) -> set[type]:
    """The classes of all that is under some tensors."""
    found: dict[int, Any] = {}
    stack = list(roots)
    while stack:
        at = stack.pop()
        if id(at) in found:
            continue
        if isinstance(at, (tuple, list)):
            stack += at
        elif isinstance(at, Node):
            found[id(at)] = at
            stack += [getattr(at, f) for f in type(at).__match_args__]
        elif is_dataclass(at) and not isinstance(at, type):
            found[id(at)] = at
            stack += [getattr(at, f.name) for f in fields(at)]
        elif isinstance(at, Function):
            found[id(at)] = at
            stack += [at.result, *at.params]
        elif hasattr(at, "block") and hasattr(at, "types"):
            found[id(at)] = at
            stack.append(at.block)
    return {type(v) for v in found.values()}


def test_every_form_has_a_text() -> None:
    f = ta.function(program)
    w, n = np.float64(0.5), np.int64(3)
    f.trace(ONES, np.ones(4), w, n)
    trace = f.trace(ONES, np.ones(5), w, n)
    text = str(trace)
    read = parse_program(text, {"const": TABLE}, {"ordered": ordered})
    assert str(read) == text
    results = forest_leaves([read["program"].results])
    wanted = {*forms([tensors.Control, Expr]), *get_args(tensors.Op)} - {tensors.Control}
    missing = {c.__name__ for c in wanted} - {c.__name__ for c in met(results)}
    assert missing == set()
