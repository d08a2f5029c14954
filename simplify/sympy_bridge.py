"""Formulas in sympy, for typesetting: the only importer of sympy.

sympy never decides anything here: its 1.14 builds wrong values for nested integer `Mod`, so
`//` and `%` cross over as opaque functions, and nothing is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import sympy

from tensorad.errors import InternalError
from tensorad.ir.elementary.table import FUNCTIONS, Elementary
from tensorad.ir.expr import TRUE, Axis, Call, Cast, Const, Expr, Param, Read, Reduce, Select, Size
from tensorad.ir.functions import inline_functions
from tensorad.ir.visit import postorder

_PLAIN: Final[dict[str, Callable[..., Any]]] = {
    "add": lambda a, b: sympy.Add(a, b, evaluate=False),
    "sub": lambda a, b: sympy.Add(a, sympy.Mul(-1, b, evaluate=False), evaluate=False),
    "mul": lambda a, b: sympy.Mul(a, b, evaluate=False),
    "div": lambda a, b: sympy.Mul(a, sympy.Pow(b, -1, evaluate=False), evaluate=False),
    "neg": lambda a: sympy.Mul(-1, a, evaluate=False),
    "pow": lambda a, b: sympy.Pow(a, b, evaluate=False),
    "lt": lambda a, b: sympy.StrictLessThan(a, b, evaluate=False),
    "le": lambda a, b: sympy.LessThan(a, b, evaluate=False),
    "gt": lambda a, b: sympy.StrictGreaterThan(a, b, evaluate=False),
    "ge": lambda a, b: sympy.GreaterThan(a, b, evaluate=False),
    "eq": lambda a, b: sympy.Eq(a, b, evaluate=False),
    "ne": lambda a, b: sympy.Ne(a, b, evaluate=False),
    "and": lambda a, b: sympy.And(a, b, evaluate=False),
    "or": lambda a, b: sympy.Or(a, b, evaluate=False),
    "not": lambda a: sympy.Not(a, evaluate=False),
}
_NAMED: Final = {
    "floordiv": "div", "mod": "mod", "minimum": "min", "maximum": "max", "round": "round",
    "trunc": "trunc", "isnan": "isnan", "isfinite": "isfinite",
}  # fmt: skip


def latex(e: Expr) -> str:
    r"""A formula in LaTeX, e.g. `\sum_{k=0}^{9} X_{i,k} W_{j,k}`."""
    text: str = sympy.latex(to_sympy(e), order="none")
    return text


def to_sympy(root: Expr) -> Any:
    """The formula as an unevaluated sympy expression."""
    made: dict[Expr, Any] = {}
    root = inline_functions(root)
    for e in postorder(root):
        made[e] = _convert(e, made)
    return made[root]


def _convert(e: Expr, made: dict[Expr, Any]) -> Any:
    match e:
        case Const():
            return sympy.sympify(e.value)
        case Axis() | Size():
            return sympy.Symbol(e.name, integer=True)
        case Param():
            return sympy.Symbol(e.name)
        case Read(tensor=t, indices=indices):
            base = sympy.IndexedBase(t.name)
            return base[tuple([made[i] for i in indices])] if indices else sympy.Symbol(t.name)
        case Call(op=op, args=args):
            return _operation(op, [made[a] for a in args])
        case Select(cond=c, then=a, orelse=b):
            return sympy.Piecewise((made[a], made[c]), (made[b], True), evaluate=False)
        case Cast(value=v):
            return sympy.Function(str(e.dtype))(made[v])
        case Reduce():
            return _fold(e, made)
    raise InternalError(f"no sympy form of {type(e).__name__}")


def _operation(op: str, args: list[Any]) -> Any:
    if op in _PLAIN:
        return _PLAIN[op](*args)
    if op in _NAMED:
        return sympy.Function(_NAMED[op])(*args)
    if op in FUNCTIONS:
        return _function(FUNCTIONS[op], args)
    known = {"abs": sympy.Abs, "ceil": sympy.ceiling, "floor": sympy.floor, "sign": sympy.sign}
    return known[op](*args, evaluate=False)


def _function(row: Elementary, args: list[Any]) -> Any:
    """name(args), or a power with # for the argument."""
    if "#" not in row.latex:
        return sympy.Function(row.latex or row.name)(*args)
    base, exponent = row.latex.split("^")
    known = {"#": args[0], "e": sympy.E}
    return sympy.Pow(
        *[known.get(part) or sympy.Rational(part) for part in (base, exponent)], evaluate=False
    )


def _fold(e: Reduce, made: dict[Expr, Any]) -> Any:
    source = made[e.sources[min(e.index, len(e.sources) - 1)]]
    if e.condition is not TRUE:
        source = sympy.Piecewise((source, made[e.condition]), evaluate=False)
    ranges = [(made[a], made[a.lower], made[a.upper] - 1) for a in reversed(e.axes)]
    kinds = {"sum": sympy.Sum, "prod": sympy.Product}
    if e.combiner.name in kinds:
        return kinds[e.combiner.name](source, *ranges)
    return sympy.Function(e.combiner.name)(source, *[made[a] for a in e.axes])
