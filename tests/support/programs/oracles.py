"""What derivatives of programs are compared with: differences, and both modes with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import tensorad as ta
from tensorad.ir.tensor import Tensor

Arrays = Mapping[Tensor, np.ndarray]


def slope(y: Tensor, at: Arrays, along: Arrays, step: float = 1e-6) -> np.ndarray:
    """The derivative of y along a direction, by central differences."""
    ends = [{**at, **{x: at[x] + s * d for x, d in along.items()}} for s in (step, -step)]
    up, down = [np.asarray(ta.interpret(y, end)) for end in ends]
    return (up - down) / (2 * step)


def check_both_modes(y: Tensor, wrt: Sequence[Tensor], at: Arrays, rtol: float = 1e-7) -> None:
    """Reverse mode = forward mode = differences, along random directions and heads."""
    rng = np.random.default_rng(0)
    along = {x: rng.standard_normal(np.shape(at[x])) for x in wrt}
    shape = np.shape(ta.interpret(y, at))
    head = ta.placeholder(y.shape, "float64", name="head")
    heads = rng.standard_normal(shape)
    directions = {x: ta.placeholder(x.shape, "float64", name=f"v{x.name}") for x in wrt}
    moved = ta.jvp(y, directions)
    bound = {**at, head: heads, **{directions[x]: along[x] for x in wrt}}
    tangent = ta.interpret(moved, bound)
    adjoints = ta.interpret(ta.vjp(y, list(wrt), head), bound)
    differences = slope(y, at, along)
    assert np.allclose(tangent, differences, rtol=1e-6, atol=1e-7)
    transposed = sum(np.sum(a * along[x]) for a, x in zip(adjoints, wrt, strict=True))
    assert np.allclose(transposed, np.sum(heads * tangent), rtol=rtol, atol=1e-12)
