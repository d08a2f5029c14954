"""NumPy's elementwise functions of tensors and expressions: those that formulas have, too.

NumPy asks here whenever an operand is one of ours, for its operators as well (`array * X`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorad.errors import DefinitionError
from tensorad.ir import node
from tensorad.ir.arrays.elementwise import elementwise, matmul
from tensorad.ir.expr import FUNCTIONS, OPERATIONS, Expr, as_expr, call, operator
from tensorad.ir.tensor import Tensor

OTHER_NAMES: Final = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "floor_divide": "floordiv",
    "remainder": "mod", "power": "pow", "negative": "neg", "absolute": "abs", "rint": "round",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq",
    "not_equal": "ne", "logical_and": "and", "logical_or": "or", "logical_not": "not",
    "bitwise_and": "and", "bitwise_or": "or", "invert": "not",
}  # fmt: skip
"""Of operations that NumPy calls otherwise."""


def own_name(name: str) -> str:
    """The operation or scalar function that NumPy or SciPy calls so; the name itself if none."""
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    return next((f.name for f in FUNCTIONS.values() if f.ufunc == name), name)


def apply_ufunc(
    ufunc: np.ufunc, method: str, operands: Sequence[object], keywords: Mapping[str, object]
) -> Any:
    """What a NumPy function gives: an expression, or a tensor if an operand is one.

    Raises:
        DefinitionError: formulas have no such function, or it is not called with operands alone.
    """
    name = ufunc.__name__
    if method != "__call__":
        raise DefinitionError(
            f"np.{name}.{method} works on arrays, but this is a formula.",
            where=_shown(operands),
            hint="reduce whole tensors by topi (topi.sum), elements over a reduce_axis (ta.sum).",
        )
    if keywords:
        raise DefinitionError(
            f"np.{name} of a formula takes its operands alone, not {', '.join(keywords)}.",
            where=_shown(operands),
            hint="formulas are not written into arrays: a = a + X, not a += X.",
        )
    if name == "matmul":
        return matmul(*operands)
    op = own_name(name)
    of_elements = any(isinstance(o, Expr) for o in operands)
    whole = not of_elements or any(isinstance(o, Tensor) and o.ndim for o in operands)
    if whole and op in ("eq", "ne"):
        raise DefinitionError(
            f"{'==' if op == 'eq' else '!='} of a tensor is about the object, not its elements.",
            where=_shown(operands),
            hint=f"compare elements by topi.{name}(X, Y), or in a formula, X[i, j] == Y[i, j].",
        )
    if op not in FUNCTIONS and op not in OPERATIONS:
        raise DefinitionError(
            f"np.{name} is no function of formulas.",
            where=_shown(operands),
            hint="write it with the functions of tensorad, e.g. ta.exp, ta.select.",
        )
    if whole:
        return elementwise(op, *operands)
    if len(operands) == 2:
        return operator(op, *operands)
    return call(op, *[as_expr(o) for o in operands])


def _shown(operands: Sequence[object]) -> str:
    """The operands that are ours."""
    own = [o.name if isinstance(o, Tensor) else str(o) for o in operands
           if isinstance(o, (Tensor, Expr))]  # fmt: skip
    return ", ".join(own)


node.apply_ufunc.fill(apply_ufunc)
