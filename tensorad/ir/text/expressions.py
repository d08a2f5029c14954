"""Formulas in the text of programs, read into expressions: nothing is folded or converted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tensorad.errors import counted
from tensorad.ir.combiner import BY_NAME, Combiner
from tensorad.ir.dtypes import BOOL, DTYPES, FLOAT32, INT64, WEAK_FLOAT, WEAK_INT, DType
from tensorad.ir.expr import (
    COMPARISONS,
    FALSE,
    FUNCTIONS,
    LOGICAL,
    ROUNDING,
    TESTS,
    TRUE,
    Apply,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Reduce,
    Select,
    axis,
    const,
)
from tensorad.ir.functions import STOPS, Function, stop_function
from tensorad.ir.tensor import Tensor
from tensorad.ir.text.cursor import Cursor
from tensorad.ir.text.formulas import ARG, built_in
from tensorad.ir.text.numbers import DoesNotFit, common_dtype, given_dtype
from tensorad.ir.text.tokens import Token
from tensorad.ir.text.trampoline import Steps

_BINARY: Final = {
    "or": ("or", 1), "and": ("and", 2), "<": ("lt", 4), "<=": ("le", 4), ">": ("gt", 4),
    ">=": ("ge", 4), "==": ("eq", 4), "!=": ("ne", 4), "+": ("add", 5), "-": ("sub", 5),
    "*": ("mul", 6), "/": ("div", 6), "//": ("floordiv", 6), "%": ("mod", 6), "**": ("pow", 8),
}  # fmt: skip
_DTYPES: Final[Mapping[str, DType]] = {str(d): d for d in DTYPES}
_SPECIAL: Final = {"min": "minimum", "max": "maximum", "abs": "abs", "sign": "sign"}
_FOLDS: Final = ("sum", "prod", "max", "min", "any", "all", *ARG)
_WORDS: Final = {
    "True": TRUE,
    "False": FALSE,
    "inf": const(float("inf"), WEAK_FLOAT),
    "nan": const(float("nan"), WEAK_FLOAT),
}


class Fold:
    """All components of one fold: what a tuple of tensors is defined by."""

    def __init__(self, parts: Sequence[Reduce]) -> None:
        self.parts = tuple(parts)


class Expressions(Cursor, ABC):
    """Reads formulas.

    Attributes:
        local: axes, operands and parts of this statement, by name.
        combiners, functions: those that the text defines.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.local: dict[str, Expr] = {}
        self.combiners: dict[str, Combiner] = {}
        self.functions: dict[str, Function] = {}

    @abstractmethod
    def meaning(self, token: Token) -> Expr | Tensor:
        """What a name outside of the statement means.

        Abstract: blocks know their names.
        """

    def expression(self, least: int = 0) -> Steps[Any]:
        """A formula whose operators bind at least so strongly; a `Fold` only by itself."""
        token = self.next
        left: Any
        if self.accept("not"):
            operand = yield self.expression(3)
            left = self.combined("not", token, [operand])
        elif self.sees("-"):
            left = yield self.negative()
        else:
            left = yield self.primary()
        while (row := self.operator(least)) is not None:
            op, strength = row
            token = self.take()
            right = yield self.expression(strength + 1)
            left = self.combined(op, token, [left, right])
        return left

    def operator(self, least: int) -> tuple[str, int] | None:
        """The operator here, if it binds so strongly."""
        token = self.next
        row = _BINARY.get(token.text) if token.kind in ("sign", "word") else None
        return row if row is not None and row[1] >= least else None

    def negative(self) -> Steps[Expr]:
        """-1.0 is a number; in front of anything else, and of powers, the sign is an operation."""
        token = self.take()
        follows = self.next
        is_word = follows.kind == "word" and follows.text in ("inf", "nan")
        if (is_word or follows.kind == "number") and self.ahead(1).text != "**":
            number = self.literal()
            return const(-number.value, number.dtype)
        operand = yield self.expression(7)
        return self.combined("neg", token, [operand])

    def primary(self) -> Steps[Any]:
        """A number, a name, an element, a call, a fold, or something in parentheses."""
        token = self.next
        if token.kind == "number" or (token.kind == "word" and token.text in _WORDS):
            return self.literal()
        if self.accept("("):
            inner = yield self.expression()
            if self.accept("as"):
                inner = self.fitted(inner, self.dtype(), token)
            self.expect(")")
            return inner
        if token.kind != "name":
            self.expected("a formula")
        if self.begins_fold():
            found = yield self.fold()
            return found
        if self.ahead(1).text == "(":
            found = yield self.call()
            return found
        if token.text in self.local:
            self.take()
            return self.local[token.text]
        meant = self.meaning(token)
        if isinstance(meant, Tensor):
            found = yield self.element(meant, token)
            return found
        return meant

    def literal(self) -> Const:
        """A number without a sign."""
        token = self.next
        if token.kind == "word" and token.text in _WORDS:
            return _WORDS[self.take().text]
        text = self.expect_kind("number", "a number").text
        return Const(WEAK_INT, int(text)) if text.isdigit() else const(float(text), WEAK_FLOAT)

    def begins_fold(self) -> bool:
        """Whether `name over` or `name[1] over` is here."""
        n = 4 if self.ahead(1).text == "[" and self.ahead(3).text == "]" else 1
        return self.is_word(self.ahead(n), "over")

    def element(self, t: Tensor, token: Token) -> Steps[Expr]:
        """x[i, j]; a tensor without axes is its only element."""
        indices: list[Expr] = []
        if t.ndim and self.sees("["):
            self.take()
            indices = yield self.listed("]", INT64)
        if len(indices) != t.ndim:
            axes = "1 axis" if t.ndim == 1 else f"{t.ndim} axes"
            self.refuse(
                f"{token.text} has {axes}, but is read at {len(indices)} indices.", token,
                hint=f"write {token.text}[{', '.join('ijklmnpq'[: t.ndim])}].",
            )  # fmt: skip
        return Read(t.dtype, t, tuple(indices))

    def listed(self, end: str, dtype: DType | None = None) -> Steps[list[Any]]:
        """Formulas with commas between them, and the sign behind them."""
        found: list[Any] = []
        while not self.accept(end):
            if found:
                self.expect(",")
            token = self.next
            e = yield self.expression()
            found.append(self.plain(e, token) if dtype is None else self.fitted(e, dtype, token))
        return found

    def call(self) -> Steps[Expr]:
        """exp(x), select(c, a, b), float32(x), f(x) of a function of the text."""
        token = self.take()
        self.take()
        name = token.text
        args = yield self.listed(")")
        if name in self.functions:
            return self.applied(self.functions[name], args, token)
        if name == "select":
            self.counted(args, 3, token)
            cond = self.fitted(args[0], BOOL, token)
            then, orelse = self.alike(args[1:], token)
            return Select(then.dtype, cond, then, orelse)
        if name in _DTYPES:
            self.counted(args, 1, token)
            return self.converted(args[0], _DTYPES[name], token)
        if name in STOPS:
            self.counted(args, 1, token)
            kind = FLOAT32 if args[0].dtype.is_weak else args[0].dtype
            return Apply(args[0].dtype, stop_function(kind, name), (args[0],))
        op = _SPECIAL.get(name, name)
        if self.is_scalar_function(name):
            arity = FUNCTIONS[op].arity if op in FUNCTIONS else 1 + (op in ("minimum", "maximum"))
            self.counted(args, arity, token)
            return self.combined(op, token, args)
        self.refuse(
            f"undefined function {name}.", token,
            hint="define it above, function f(x : float32) -> float32 = ... partials y: ...",
        )  # fmt: skip

    def is_scalar_function(self, name: str) -> bool:
        """Whether formulas have a function of this name."""
        kinds = (self.functions, STOPS, _DTYPES, _SPECIAL, FUNCTIONS, ROUNDING, TESTS)
        return name == "select" or any(name in some for some in kinds)

    def applied(self, f: Function, args: Sequence[Expr], token: Token) -> Expr:
        """A function of the text."""
        self.counted(args, len(f.params), token)
        pairs = zip(args, f.params, strict=True)
        return Apply(f.result.dtype, f, tuple([self.fitted(a, p.dtype, token) for a, p in pairs]))

    def converted(self, e: Expr, dtype: DType, token: Token) -> Expr:
        """float32(x); of a number, the number in this dtype."""
        if e.dtype.is_weak:
            return self.fitted(e, dtype, token)
        return e if e.dtype is dtype else Cast(dtype, e)

    def counted(self, args: Sequence[object], n: int, token: Token) -> None:
        """Refuse another number of operands."""
        if len(args) != n:
            self.refuse(f"{token.text} takes {counted(n, 'operand')}, got {len(args)}.", token)

    def combined(self, op: str, token: Token, given: Sequence[Any]) -> Expr:
        """An operation on operands of one dtype."""
        args = [self.plain(e, token) for e in given]
        if op in LOGICAL:
            return Call(BOOL, op, tuple([self.fitted(e, BOOL, token) for e in args]))
        args = self.alike(args, token)
        dtype = args[0].dtype
        if op in COMPARISONS or op in TESTS:
            if dtype.is_weak:
                self.refuse(
                    f"the dtype of the operands of {token.text} is not known.", token,
                    hint="write it, (1.0 as float32).",
                )  # fmt: skip
            return Call(BOOL, op, tuple(args))
        needs_float = op == "div" or op in FUNCTIONS or op in ROUNDING
        if needs_float and not dtype.is_float and not dtype.is_weak:
            self.refuse(f"{token.text} works on floats, not on {dtype}.", token)
        if op in ("floordiv", "mod") and dtype.is_float:
            self.refuse(f"{token.text} works on integers, not on {dtype}.", token)
        if needs_float and dtype is WEAK_INT:
            dtype = WEAK_FLOAT
        return Call(dtype, op, tuple(args))

    def plain(self, e: Any, token: Token) -> Expr:
        """A formula, not all components of a fold."""
        if not isinstance(e, Fold):
            found: Expr = e
            return found
        name = e.parts[0].combiner.name
        self.refuse(
            f"{name} has {len(e.parts)} components.", token,
            hint=f"take one, {name}[0] over (...) of (...), or define a tensor for each.",
        )  # fmt: skip

    def alike(self, args: Sequence[Expr], token: Token) -> list[Expr]:
        """Operands in their common dtype."""
        dtype = common_dtype(args)
        return [self.fitted(e, dtype, token) for e in args]

    def fitted(self, given: Any, dtype: DType, token: Token) -> Expr:
        """A formula of this dtype."""
        e = self.plain(given, token)
        if dtype.is_weak:
            return e
        try:
            e = given_dtype(e, dtype)
        except DoesNotFit as number:
            self.refuse(str(number), token)
        if e.dtype is not dtype:
            self.refuse(
                f"types disagree at {token.text!r}: {dtype} is wanted, this is {e.dtype}.", token,
                hint=f"convert it, {dtype}(...).",
            )  # fmt: skip
        return e

    def dtype(self) -> DType:
        """The name of a dtype."""
        token = self.expect_kind("name", "a dtype")
        if token.text not in _DTYPES:
            self.refuse(
                f"{token.text} is no dtype.", token, hint=f"use one of {', '.join(_DTYPES)}."
            )
        return _DTYPES[token.text]

    def fold(self) -> Steps[Any]:
        """sum over (k in [0, n), where c) of x[k]."""
        token = self.take()
        index = None
        if self.accept("["):
            index = int(self.expect_kind("number", "a component").text)
            self.expect("]")
        self.expect("over")
        outer = dict(self.local)
        axes, condition = yield self.axes()
        self.expect("of")
        first = self.next
        arity = self.arity(token)
        if arity > 1:
            self.expect("(")
            sources = yield self.listed(")")
        else:
            source = yield self.expression()
            sources = [self.plain(source, first)]
        self.local = outer
        if len(sources) != arity or (index or 0) >= arity:
            self.refuse(f"{token.text} folds {arity} values, got {len(sources)}.", first)
        parts = self.reductions(token, first, sources, axes, condition)
        if arity > 1 and index is None:
            return Fold(parts)
        return parts[index or 0]

    def arity(self, token: Token) -> int:
        """How many values a combiner folds."""
        if token.text in self.combiners:
            return self.combiners[token.text].arity
        if token.text in _FOLDS:
            return 2 if token.text in ARG else 1
        self.refuse(
            f"undefined combiner {token.text}.", token,
            hint="define it above, combiner f(x : float32; y : float32) from 0.0 = ...",
        )  # fmt: skip

    def combiner(self, token: Token, dtype: DType) -> Combiner:
        """The combiner of a name, for a dtype if it is known for several."""
        self.arity(token)
        found = self.combiners.get(token.text) or built_in(token.text, dtype)
        if found is None:
            self.refuse(f"undefined combiner {token.text}.", token)
        return found

    def reductions(
        self, token: Token, first: Token, sources: Sequence[Expr], axes: Sequence[Axis],
        condition: Expr,
    ) -> list[Reduce]:  # fmt: skip
        """The components of a fold."""
        dtype = sources[0].dtype
        known = self.combiner(token, FLOAT32 if dtype.is_weak else dtype)
        if dtype.is_weak and token.text in BY_NAME and token.text not in self.combiners:
            return [Reduce(dtype, known, tuple(sources), tuple(axes), condition, 0)]
        start = known.identity
        pairs = zip(sources, start, strict=True)
        fitted = tuple([self.fitted(e, c.dtype, first) for e, c in pairs])
        return [
            Reduce(c.dtype, known, fitted, tuple(axes), condition, n) for n, c in enumerate(start)
        ]

    def axes(self) -> Steps[tuple[list[Axis], Expr]]:
        """(i in [0, n) step 2, j in [i, n), where c), from here on known by name."""
        self.expect("(")
        found: list[Axis] = []
        condition: Expr = TRUE
        while not self.accept(")"):
            if found:
                self.expect(",")
            token = self.next
            if self.ahead(1).text != "in" and self.accept("where"):
                e = yield self.expression()
                condition = self.fitted(e, BOOL, token)
                self.expect(")")
                break
            known = self.local.get(token.text)
            if self.ahead(1).text == "in" or not isinstance(known, Axis):
                known = yield self.range()
            else:
                self.take()
            found.append(known)
        return found, condition

    def range(self) -> Steps[Axis]:
        """i in [0, n) step 2: a new axis."""
        name = self.name("an axis")
        self.expect("in")
        self.expect("[")
        bounds: list[Expr] = []
        for end in (",", ")"):
            token = self.next
            e = yield self.expression()
            bounds.append(self.fitted(e, INT64, token))
            self.expect(end)
        token = self.next
        if self.accept("step"):
            e = yield self.expression()
            bounds.append(self.fitted(e, INT64, token))
            if isinstance(e, Const) and e.value < 1:
                self.refuse(f"the step of {name} must be positive, it is {e.value}.", token)
        made = axis(name, *bounds)
        self.local[name] = made
        return made

    def parts(self) -> Steps[None]:
        """{k in [0, n); t0 = x[k]*2.0}: axes and values that the statement uses several times."""
        more = self.accept("{")
        while more:
            if self.ahead(1).text == "in":
                yield self.range()
            else:
                name = self.name()
                self.expect("=")
                token = self.next
                e = yield self.expression()
                self.local[name] = self.plain(e, token)
            more = self.accept(";")
            if not more:
                self.expect("}")
