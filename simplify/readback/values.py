"""Values by number: what formulas are at single points, where all indices are numbers.

Equal numbers are equal values wherever all is finite. Sums and products have no order and no
brackets, known conditions are decided, numbers are folded; all else is what it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from math import inf, isfinite
from typing import Any, Final

from tensorad.simplify.certify.outcomes import Undecided

Powers = tuple[tuple[int, int], ...]
_FOLDED: Final[dict[str, Callable[..., float]]] = {
    "minimum": min,
    "maximum": max,
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "eq": lambda x, y: x == y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "not": lambda x: not x,
    "and": min,
    "or": max,
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
}
_TURNED: Final = {"gt": "lt", "ge": "le"}
_IDEMPOTENT: Final = {"and": (1.0, 0.0), "or": (0.0, 1.0), "minimum": (), "maximum": ()}
"""What changes nothing, and what decides."""
_EXACT: Final = 1 << 53
"""Up to here integers are floats."""
_TRUTHS: Final = frozenset(("eq", "lt", "le", "not", "and", "or"))


class Values:
    """Numbers of values, each given once.

    Attributes:
        undefined: the values that divide by 0.
    """

    def __init__(self) -> None:
        self.known: dict[Hashable, int] = {}
        self.keys: list[Any] = []
        self.given: dict[float, int] = {}
        self.constants: dict[int, float] = {}
        self.undefined: set[int] = set()
        self.truths: set[int] = set()
        self.false, self.true = self.constant(0.0), self.constant(1.0)

    def number(self, what: Hashable, args: Sequence[int] = (), truth: bool = False) -> int:
        """The number of what is made of these."""
        key = (what, *args)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = len(self.keys)
            self.keys.append(key)
            if truth:
                self.truths.add(found)
            if what == "select":
                broken = args[0] in self.undefined or self.undefined.issuperset(args[1:])
            else:
                broken = not self.undefined.isdisjoint(args)
            if broken:
                self.undefined.add(found)
        return found

    def constant(self, value: float) -> int:
        """A number: those that are equal but for rounding are one, integers of any size not."""
        given = self.given.get(value)
        if given is None:
            given = self.given[value] = self._constant(value)
        return given

    def _constant(self, value: float) -> int:
        if isinstance(value, int) and abs(value) > _EXACT:
            return self.number(("constant", repr(value)))
        if isfinite(value) and value != int(value):
            value = float(f"{value:.9g}")
        value = float(value) + 0.0  # no sign of 0
        found = self.number(("constant", repr(value)))
        if isfinite(value):
            self.constants[found] = value
        return found

    def of(self, op: str, args: Sequence[int]) -> int:
        """An operation on values."""
        match op:
            case "add":
                return self.total(args)
            case "sub":
                return self.total((args[0], self.times(args[1], -1.0)))
            case "neg":
                return self.times(args[0], -1.0)
            case "mul":
                return self.product([(a, 1) for a in args])
            case "div":
                return self.product(((args[0], 1), (args[1], -1)))
            case "ne":
                return self.of("not", (self.of("eq", args),))
            case "gt" | "ge":
                return self.of(_TURNED[op], args[::-1])
        return self._other(op, args)

    def _other(self, op: str, args: Sequence[int]) -> int:
        numbers = [self.constants[a] for a in args if a in self.constants]
        divides_by_0 = op in ("floordiv", "mod") and numbers[-1:] == [0.0]
        if op in _FOLDED and len(numbers) == len(args) and not divides_by_0:
            return self.constant(float(_FOLDED[op](*numbers)))
        if op in _IDEMPOTENT:
            return self._idempotent(op, args)
        if op == "not" and self.keys[args[0]][0] == "not":
            return int(self.keys[args[0]][1])
        if op == "eq":
            args = sorted(args)
        return self.number(op, args, op in _TRUTHS)

    def _idempotent(self, op: str, args: Sequence[int]) -> int:
        """Operands without order and brackets, each once."""
        parts: set[int] = set()
        for a in args:
            key = self.keys[a]
            parts.update(key[1:] if key[0] == op else (a,))
        for nothing, all_ in [_IDEMPOTENT[op]] if _IDEMPOTENT[op] else []:
            if any(self.constants.get(a) == all_ for a in parts):
                return self.constant(all_)
            parts = {a for a in parts if self.constants.get(a) != nothing}
        if len(parts) == 1:
            return parts.pop()
        return self.number(op, sorted(parts), op in _TRUTHS)

    def select(self, c: int, a: int, b: int) -> int:
        """One of two values by a condition that is not known."""
        if a == b:
            return a
        if self.keys[c][0] == "not":
            c, a, b = self.keys[c][1], b, a
        return self.number("select", (c, a, b))

    def times(self, a: int, factor: float) -> int:
        return self.product(((a, 1), (self.constant(factor), 1)))

    def total(self, args: Iterable[int]) -> int:
        """A sum, by what is summed and how often."""
        found: dict[int, float] = {}
        number = 0.0
        for a in args:
            if a in self.constants:
                number += self.constants[a]
                continue
            key = self.keys[a]
            for p in key[1:] if key[0] == "add" else (a,):
                if p in self.constants:
                    number += self.constants[p]
                    continue
                factor, rest = self.parts(p)
                found[rest] = found.get(rest, 0.0) + factor
        terms = [self.times(p, n) for p, n in found.items() if n]
        if number or not terms:
            terms.append(self.constant(number))
        return terms[0] if len(terms) == 1 else self.number("add", sorted(terms))

    def product(self, factors: Iterable[tuple[int, int]]) -> int:
        """A product of powers."""
        number = 1.0
        powers: dict[int, int] = {}
        broken = False
        for a, n in factors:
            coefficient, own = self._factors(a)
            if n < 0 and not coefficient:
                broken = True
                continue
            number *= _power(coefficient, n)
            for p, m in own:
                once = p in self.truths and n * m > 0
                powers[p] = 1 if once else powers.get(p, 0) + n * m
        broken = broken or not self.undefined.isdisjoint(powers)
        own = tuple(sorted([(p, n) for p, n in powers.items() if n]))
        if broken:
            found = self.number(("undefined", number, own))
            self.undefined.add(found)
            return found
        if not isfinite(number):
            raise Undecided("numbers too large to be multiplied")
        if not number or self._exclude(powers):
            return self.false
        if not own:
            return self.constant(number)
        if own == ((own[0][0], 1),) and number == 1.0:
            return own[0][0]
        key = ("mul", self.constant(number), own)
        return self.number(key)

    def _factors(self, a: int) -> tuple[float, Powers]:
        if a in self.constants:
            return self.constants[a], ()
        key = self.keys[a][0]
        if isinstance(key, tuple) and key[0] == "mul":
            return self.constants[key[1]], key[2]
        return 1.0, ((a, 1),)

    def _exclude(self, parts: Iterable[int]) -> bool:
        """Whether a condition and its contrary are among them, or two values of one thing."""
        values: dict[int, int] = {}
        every = set(parts)
        for p in every & self.truths:
            key = self.keys[p]
            if key[0] == "not" and key[1] in every:
                return True
            if key[0] == "eq":
                for what, value in (key[1:], key[:0:-1]):
                    if value in self.constants and values.setdefault(what, value) != value:
                        return True
        return False

    def parts(self, a: int) -> tuple[float, int]:
        """A number, and the value that it multiplies."""
        factor, own = self._factors(a)
        if a in self.constants or factor == 1.0:
            return (factor, self.true) if a in self.constants else (1.0, a)
        return factor, self.product(own)


def _power(a: float, n: int) -> float:
    """A power of a number; infinite where no float is as large."""
    try:
        return float(a**n)
    except OverflowError:
        return inf
