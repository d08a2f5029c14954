"""Running named passes over a body: printing, verifying, checking and bisecting them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod

import numpy as np

from tensorad import config
from tensorad.errors import InternalError
from tensorad.ir.expr import Axis, Expr
from tensorad.ir.tensor import Compute, Tensor, outputs
from tensorad.ir.visit import copy_bodies, op_inputs

BodyPass = Callable[[Sequence[Axis], Expr], Expr]
"""A pure function (outer axes, body) -> body; it returns the same object if nothing changes."""

_CHECKED_ELEMENTS = 5_000
"""TENSORAD_DEBUG=check evaluates a body before and after a pass up to this many elements."""
_done = count()


@dataclass(frozen=True)
class Pass:
    """One step of a pipeline."""

    name: str
    run: BodyPass


def run_passes(passes: Sequence[Pass], axes: Sequence[Axis], body: Expr) -> Expr:
    """The body after all passes, in order.

    TENSORAD_DEBUG: `ir` prints the body after each pass that changed it (`ir:name`: only that
    pass), `verify` checks well-formedness, `check` compares values before and after.
    TENSORAD_BISECT=n stops after n passes of the process.
    """
    settings = config.current()
    if not settings.debug and settings.bisect is None:
        for p in passes:
            body = p.run(axes, body)
        return body
    for p in passes:
        if settings.bisect is not None and next(_done) >= settings.bisect:
            return body
        after = p.run(axes, body)
        if after is not body:
            _inspect(p, settings.debug, axes, body, after)
        body = after
    return body


def _inspect(
    p: Pass, debug: Sequence[str], axes: Sequence[Axis], before: Expr, after: Expr
) -> None:
    if "ir" in debug or f"ir:{p.name}" in debug:
        print(f"after {p.name}:\n{_tensor(axes, after)}\n", file=sys.stderr)
    if "verify" in debug:
        from tensorad.ir.verify import verify

        verify([_tensor(axes, after)])
    if "check" in debug:
        _check(p, axes, before, after)


def _tensor(axes: Sequence[Axis], body: Expr) -> Tensor:
    own, bodies = copy_bodies(axes, (body,))
    return outputs(Compute("body", own, bodies))[0]


def _check(p: Pass, axes: Sequence[Axis], before: Expr, after: Expr) -> None:
    from tensorad.ir.reference.interpret import interpret

    one, two = _tensor(axes, before), _tensor(axes, after)
    inputs = op_inputs(one.op)
    extents = [n for t in (one, *inputs) for n in t.shape]
    if not all(isinstance(n, int) for n in extents):
        return
    if prod(n for n in one.shape if isinstance(n, int)) > _CHECKED_ELEMENTS:
        return
    if not all(t.dtype.is_float for t in inputs):
        return  # data used as an index has no meaningful random values
    rng = np.random.default_rng(0)
    values = {t: rng.standard_normal([n for n in t.shape if isinstance(n, int)]) for t in inputs}
    if not np.allclose(interpret(one, values), interpret(two, values), equal_nan=True):
        raise InternalError(f"pass {p.name} changed the values of\n{one}\ninto those of\n{two}")
