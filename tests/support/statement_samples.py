"""Statements of every kind, with something in every field."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

from tensorad.codegen.loops.ir import Assign, LoopKind, Stmt, Visit
from tensorad.codegen.loops.scratch import buffer
from tensorad.ir.combiner import Combiner, sum_combiner
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Axis, Expr, Param, Read, add, axis, mul, param, read
from tensorad.ir.tensor import Tensor

P, X = param("p", INT64), param("x", INT64)
T = buffer("T", (8, 8), INT64)
BLOCK = (Assign((P,), (X,)), Visit())
SAMPLES: dict[Any, Any] = {
    Expr: X,
    Expr | None: X,
    tuple[Expr, ...]: (X, mul(X, X)),
    Read: read(T, (X, X)),
    Axis: axis("i", X, add(X, X)),
    Axis | None: axis("w", X, add(X, X)),
    tuple[Stmt, ...]: BLOCK,
    tuple[Param, ...]: (P,),
    Tensor: T,
    tuple[Tensor, ...]: (T,),
    Combiner: sum_combiner(INT64),
    LoopKind: "serial",
    str: "s",
    int: 1,
    bool: True,
}
"""What a field of each type holds: `X` wherever an expression is evaluated."""


def sample(kind: type) -> Any:
    """A statement with something in every field; a field of a new type needs a sample, too."""
    hints = get_type_hints(kind)
    return kind(**{f.name: SAMPLES[hints[f.name]] for f in fields(kind)})
