"""What NumPy asks for where a tensor or an expression is among the arguments of its functions.

Elementwise functions, which it asks for elsewhere, are in `tensorad/ir/arrays/ufuncs.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorad.errors import DefinitionError
from tensorad.ir import node
from tensorad.ir.array_methods import checked_elements
from tensorad.ir.expr import Expr
from tensorad.ir.node import Node
from tensorad.ir.tensor import Tensor
from tensorad.topi.as_numpy.elements import ELEMENTS, OF_EXPRESSIONS
from tensorad.topi.as_numpy.folds import FOLDS
from tensorad.topi.as_numpy.keywords import check_keywords
from tensorad.topi.as_numpy.moves import MOVES

OF_TENSORS: Final[dict[str, Callable[..., Any]]] = {**FOLDS, **ELEMENTS, **MOVES}
_FOLDED: Final = ("sum", "prod", "max", "min", "argmax", "argmin")
"""Functions that formulas have, over a reduce axis."""
_NO_DATA: Final = "topi.where(c, a, b): shapes do not depend on data"
_INSTEAD: Final = {
    "diag": 'topi.einsum("ii->i", X)', "diagonal": 'topi.einsum("ii->i", X)',
    "trace": 'topi.einsum("ii->", X)', "linalg.norm": "topi.sqrt(topi.sum(X * X))",
    "linalg.solve": "ta.linear_solve(A, b)", "linalg.inv": "ta.linear_solve(A, b) where it is used",
    "tril": "ta.compute(X.shape, lambda i, j: ta.select(i >= j, X[i, j], 0.0))",
    "triu": "ta.compute(X.shape, lambda i, j: ta.select(i <= j, X[i, j], 0.0))",
    "diff": "ta.compute((n - 1,), lambda i: X[i + 1] - X[i])",
    "average": "topi.sum(X * w, axis) / topi.sum(w, axis)",
    "isclose": "abs(X - Y) <= tolerance", "allclose": "(abs(X - Y) <= tolerance).all()",
    "array_equal": "topi.equal(X, Y).all()", "array_split": "topi.split(X, [2, 5])",
    "count_nonzero": "topi.not_equal(X, 0).sum()", "ptp": "topi.max(X) - topi.min(X)",
    "nan_to_num": "topi.where(topi.isnan(X), 0.0, X)", "empty_like": "topi.full_like(X, 0)",
    "nansum": "topi.where(topi.isnan(X), 0.0, X).sum()", "append": "topi.concatenate([X, Y])",
    "nonzero": _NO_DATA, "argwhere": _NO_DATA, "unique": _NO_DATA, "flatnonzero": _NO_DATA,
    "put": "X.at[i].set(v)", "copyto": "topi.where(c, Y, X)",
}  # fmt: skip
"""What to write for functions that have no counterpart of their name."""


def array_function(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]
) -> Any:
    """What a function of NumPy gives of tensors, or of expressions in a formula.

    Raises:
        DefinitionError: there is none like it, or not with these arguments; the error names what
            to use.
    """
    name = _name(function)
    own = list(_nodes([*args, *keywords.values()]))
    elements = any(isinstance(o, Expr) for o in own)
    elements = elements and not any(isinstance(o, Tensor) and o.ndim for o in own)
    made = (OF_EXPRESSIONS if elements else OF_TENSORS).get(name)
    if made is None:
        known = None if elements else _on_elements(function, args, keywords)
        if known is not None:
            return known[0]
        raise _unknown(name, own, elements)
    given = {k: v for k, v in keywords.items() if v is not np._NoValue}
    check_keywords(name, function, made, args, given, _shown(own))
    try:
        bound = inspect.signature(made).bind(*args, **given)
    except TypeError as error:
        raise DefinitionError(
            f"np.{name} of a formula: {error}.",
            where=_shown(own),
            hint=f"it takes {', '.join(inspect.signature(made).parameters)} here.",
        ) from None
    if bound.arguments.get("out") is not None:
        raise DefinitionError(
            f"np.{name} of a formula has no out: a formula is written into no array.",
            where=_shown(own),
            hint=f"use what is returned: y = np.{name}(...).",
        )
    return made(*bound.args, **bound.kwargs)


def _name(function: Callable[..., Any]) -> str:
    """ "sum", "linalg.norm"."""
    module = getattr(function, "__module__", None) or "numpy"
    inner = [p for p in module.split(".")[1:] if not p.startswith("_") and p != "lib"]
    return ".".join([*inner, getattr(function, "__name__", "function")])


def _nodes(values: Sequence[Any]) -> Iterator[Node]:
    for value in values:
        if isinstance(value, Node):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _nodes(value)


def _on_elements(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Any] | None:
    """The result on arrays, if the elements of all tensors follow from arrays alone."""
    found: dict[Tensor, Any] = {}
    for t in _nodes([*args, *keywords.values()]):
        array = checked_elements.call(t, "NumPy") if isinstance(t, Tensor) else None
        if array is None or not isinstance(t, Tensor):
            return None
        found[t] = array

    def put(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)([put(v) for v in value])
        return found[value] if isinstance(value, Tensor) else value

    return (function(*[put(a) for a in args], **{k: put(v) for k, v in keywords.items()}),)


def _unknown(name: str, own: Sequence[Node], elements: bool) -> DefinitionError:
    if elements:
        hint = f"fold it over a reduce axis: ta.{name}(x, axis=k)."
        if name not in _FOLDED:
            hint = "write it with the functions of tensorad, e.g. ta.exp, ta.select."
        return DefinitionError(
            f"np.{name} works on arrays, but this is an element of a formula.",
            where=_shown(own),
            hint=hint,
        )
    instead = _INSTEAD.get(name)
    hint = f"write {instead}."
    if instead is None:
        hint = (
            f"write it with topi or as a formula (ta.compute), or let a program call NumPy: "
            f"ta.foreign(np.{name}, shapes)."
        )
    return DefinitionError(f"np.{name} is no function of tensors.", where=_shown(own), hint=hint)


def _shown(own: Sequence[Node]) -> str:
    return ", ".join([t.name if isinstance(t, Tensor) else str(t) for t in own])


node.apply_array_function.fill(array_function)
