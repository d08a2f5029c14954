"""Values to check derivatives at: random, where the program is finite and in bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorad.building import index_limits
from tensorad.checking.engine import Engine
from tensorad.checking.report import Array
from tensorad.errors import BoundsError
from tensorad.ir.dtypes import BOOL
from tensorad.ir.reference.interpret import shape_of
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import placeholders

Bindings = dict[Tensor, Array]


def choose_inputs(
    ys: Sequence[Tensor],
    wrt: Sequence[Tensor],
    given: Mapping[Tensor, Any],
    engine: Engine,
    rng: np.random.Generator,
) -> Bindings:
    """A value for every placeholder behind `ys` and `wrt`; those of `given` are kept.

    Floats have either sign where the outputs are finite, otherwise lie between 0.3 and 1.7;
    integers are indices within the extents they index, or 0 where that is out of bounds.
    """
    leaves = [t for t in placeholders([*ys, *wrt]) if t not in given]
    known: Bindings = {t: np.asarray(a) for t, a in given.items()}
    limits = index_limits(ys)
    for t in leaves:
        shape = shape_of(t, {b: np.shape(a) for b, a in known.items()}, engine.sizes)
        known[t] = _random(t, shape, limits.get(t, 5), rng)
    if not _in_bounds(ys, known, engine):
        known |= {t: np.zeros_like(known[t]) for t in leaves if t.dtype.is_integer}
    signed = known | {
        t: np.asarray(known[t] * rng.choice([-1.0, 1.0], known[t].shape))
        for t in leaves
        if t.dtype.is_float
    }
    with np.errstate(all="ignore"):
        finite = all(np.isfinite(a).all() for a in engine.values(ys, signed))
    return signed if finite else known


def _random(t: Tensor, shape: tuple[int, ...], limit: int, rng: np.random.Generator) -> Array:
    if t.dtype.is_float:
        return rng.uniform(0.3, 1.7, shape)
    if t.dtype is BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0, max(1, limit), shape).astype(str(t.dtype))


def _in_bounds(ys: Sequence[Tensor], bindings: Bindings, engine: Engine) -> bool:
    try:
        with np.errstate(all="ignore"):
            engine.values(ys, bindings)
    except BoundsError:
        return False
    return True
