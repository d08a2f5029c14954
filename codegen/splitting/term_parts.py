"""Long sums of terms are added up in parts: what is compiled does not grow with their number.

The gradient by what all steps of a program read has a term for each step. As one formula it is
one kernel, of as many lines as there are steps; in parts that start from the part before, each of
the same number of terms, equal steps make equal kernels. Terms are added in the order written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorad.codegen.cost.operation_costs import cost_of
from tensorad.ir.expr import Call, Expr, read
from tensorad.ir.tensor import Compute, Tensor, outputs
from tensorad.ir.visit import copy_bodies, postorder, substitute

TERMS: Final = 16
"""Terms that a part adds: beside what they read, one sum that is stored and read is little."""
FEWEST: Final = 4
"""Terms of a part where each is long."""
OPERATIONS: Final = 96
"""Operations of a part, about, functions by their weight: it compiles in some ten milliseconds."""
MOST_TERMS: Final = 2 * TERMS
"""Terms that are added up at once, at most."""
MOST_AGAIN: Final = 8
"""Of so many operations one may be made again, for a part that needs it, too."""


def split_terms(op: Compute, body: Expr) -> tuple[list[Tensor], Expr]:
    """The sums of the first terms of a body, each read by the next, and the body that reads the
    last of them; none where there are few terms, or where terms share what they compute."""
    sums = _sums(body)
    if len(sums) <= MOST_TERMS:
        return [], body
    whole = _operations([body])
    terms = min(TERMS, max(FEWEST, OPERATIONS * len(sums) // whole))
    parts: list[Tensor] = []
    bodies: list[Expr] = []
    so_far: dict[Expr, Expr] = {}
    for e in (*sums[terms - 1 : -1 : terms], body):
        bodies.append(substitute(e, so_far))
        if e is not body:
            axes, copies = copy_bodies(op.axes, bodies[-1:])
            (part,) = outputs(Compute(f"{op.name}.terms", axes, copies, op.source))
            so_far = {e: read(part, op.axes)}
            parts.append(part)
    if MOST_AGAIN * _operations(bodies) > (MOST_AGAIN + 1) * whole:
        return [], body
    return parts, bodies[-1]


def _sums(e: Expr) -> list[Expr]:
    """a + b, a + b + c, ..., the whole: what terms are added to from left to right."""
    found: list[Expr] = []
    while isinstance(e, Call) and e.op in ("add", "sub"):
        found.append(e)
        e = e.args[0]
    return found[::-1]


def _operations(bodies: Sequence[Expr]) -> int:
    """The weight of operations, those that several bodies share for each of them."""
    return sum([cost_of(e).weight for b in bodies for e in postorder(b) if isinstance(e, Call)])
