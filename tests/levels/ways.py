"""Derivatives along a direction, each by another way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import tensorad as ta
from tensorad import topi

ONE: Final = np.float64(1)


def pushed(f: Callable[..., Any], x: Any, v: Any) -> Any:
    """The derivative of f at x along v by a level; zeros where there is none."""
    with ta.dual_level():
        value, tangent = ta.unpack_dual(f(ta.make_dual(x, v)))
    return topi.full_like(value, 0.0) if tangent is None else tangent


Derive = Callable[[Callable[[Any], Any], Any], Any]
WAYS: Final[dict[str, Derive]] = {
    "level": lambda f, x: pushed(f, x, ONE),
    "jvp": lambda f, x: ta.jvp(f, (x,), (ONE,))[1],
    "grad": lambda f, x: ta.grad(f)(x),
}
"""Derivatives of functions of one number."""
