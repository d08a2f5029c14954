"""Index expressions as texts of isl: a translation of its own, which shares nothing with plans.

A select, a division or a remainder is a new variable with the conditions that define it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import Axis, Call, Cast, Const, Expr, Select, Size
from tensorad.ir.order import FLOAT, PARAM, REDUCE, occurs
from tensorad.ir.visit import free_leaves
from tensorad.simplify.certify.outcomes import Undecided

_COMPARED: Final = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=", "ne": "!="}


class Texts:
    """Names of axes and sizes, and what is said with them.

    Integers that are not linear but depend on sizes and `outer` alone get names of their own.
    """

    def __init__(self, outer: Sequence[Axis]) -> None:
        self.outer = {a: f"x{n}" for n, a in enumerate(outer)}
        self.sizes: dict[Expr, str] = {}
        self.named: dict[Expr, str] = {}
        """Sizes without a lower bound: values that stand for what is not linear."""
        self.count = 0

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def scope(self, loops: Iterable[Axis]) -> Scope:
        return Scope(self, {a: self.fresh("l") for a in loops})


class Scope:
    """Texts over the outer axes and some loops."""

    def __init__(self, texts: Texts, loops: dict[Axis, str]) -> None:
        self.texts, self.loops = texts, loops
        self.defined: list[str] = []
        """Conditions on the variables of divisions and selects."""
        self.variables: list[str] = []
        self.known: dict[Expr, str] = {}

    def number(self, e: Expr) -> str:
        """A text of an integer.

        Raises:
            Undecided: it is not linear.
        """
        found = self.known.get(e)
        if found is None:
            found = self.known[e] = self._number(e)
        return found

    def _number(self, e: Expr) -> str:
        match e:
            case Const(value=v):
                return str(int(v))
            case Axis() if e in self.loops or e in self.texts.outer:
                return self.loops.get(e) or self.texts.outer[e]
            case Size():
                return self.texts.sizes.setdefault(e, f"n{len(self.texts.sizes)}")
            case Call(op="add" | "sub" as op, args=(a, b)):
                return f"({self.number(a)} {'+' if op == 'add' else '-'} {self.number(b)})"
            case Call(op="neg", args=(a,)):
                return f"(-{self.number(a)})"
            case Call(op="mul", args=(a, Const(value=c)) | (Const(value=c), a)):
                return f"{int(c)}*{self.number(a)}" if c >= 0 else f"({int(c)}*{self.number(a)})"
        return self._defined_number(e)

    def _defined_number(self, e: Expr) -> str:
        """A text of what conditions on a new variable say."""
        match e:
            case Call(op="floordiv" | "mod", args=(a, Const(value=c))) if c:
                return self._divided(e, a, int(c))
            case Call(op="minimum" | "maximum", args=(a, b)):
                sign = "<=" if e.op == "minimum" else ">="
                x, y, v = self.number(a), self.number(b), self._variable()
                self.defined.append(
                    f"(({v} = {x} and {x} {sign} {y}) or ({v} = {y} and {y} {sign} {x}))"
                )
                return v
            case Call(op="abs", args=(a,)):
                x, v = self.number(a), self._variable()
                self.defined.append(f"(({v} = {x} and {x} >= 0) or ({v} = -{x} and {x} < 0))")
                return v
            case Select(cond=c, then=a, orelse=b):
                return self._chosen(self.truth(c), self.number(a), self.number(b))
            case Cast(value=v) if v.dtype is BOOL:
                return self._chosen(self.truth(v), "1", "0")
            case Cast(value=v) if v.dtype.is_integer and e.dtype.is_integer:
                if v.dtype.bits <= e.dtype.bits:
                    return self.number(v)
        return self._name(e)

    def _name(self, e: Expr) -> str:
        """A name for what the outer axes alone decide."""
        inside = [a for a in free_leaves(e) if a not in self.texts.outer]
        if not e.dtype.is_integer or inside or occurs(REDUCE | PARAM | FLOAT, e):
            raise Undecided(f"{e} is not linear")
        return self.texts.named.setdefault(e, f"m{len(self.texts.named)}")

    def _variable(self) -> str:
        self.variables.append(self.texts.fresh("q"))
        return self.variables[-1]

    def _divided(self, e: Call, a: Expr, divisor: int) -> str:
        """a = divisor*q + r with r between 0 and the divisor, which it has the sign of."""
        x, q = self.number(a), self._variable()
        rest = f"({x} - {divisor}*{q})" if divisor > 0 else f"({x} + {-divisor}*{q})"
        inside = f"0 <= {rest} < {divisor}" if divisor > 0 else f"{divisor} < {rest} <= 0"
        self.defined.append(inside)
        return q if e.op == "floordiv" else rest

    def _chosen(self, c: str, a: str, b: str) -> str:
        v = self._variable()
        self.defined.append(f"(({c} and {v} = {a}) or (not {c} and {v} = {b}))")
        return v

    def truth(self, e: Expr) -> str:
        """A text of a condition.

        Raises:
            Undecided: it is not linear.
        """
        match e:
            case Const(value=v):
                return "(0 = 0)" if v else "(0 = 1)"
            case Call(op="and" | "or" as op, args=(a, b)):
                return f"({self.truth(a)} {op} {self.truth(b)})"
            case Call(op="not", args=(a,)):
                return f"(not {self.truth(a)})"
            case Call(op=op, args=(a, b)) if op in _COMPARED and a.dtype.is_integer:
                return f"({self.number(a)} {_COMPARED[op]} {self.number(b)})"
            case Select(cond=c, then=a, orelse=b):
                first, then, other = self.truth(c), self.truth(a), self.truth(b)
                return f"(({first} and {then}) or ((not {first}) and {other}))"
        raise Undecided(f"{e} is not linear")

    def within(self, a: Axis) -> str:
        """The bounds of an axis."""
        name = self.number(a)
        inside = f"{self.number(a.lower)} <= {name} < {self.number(a.upper)}"
        if isinstance(a.step, Const) and a.step.value == 1:
            return inside
        if not isinstance(a.step, Const) or a.step.value <= 0:
            raise Undecided(f"steps of {a.step}")
        q = self._variable()
        return f"{inside} and {name} = {self.number(a.lower)} + {int(a.step.value)}*{q}"
