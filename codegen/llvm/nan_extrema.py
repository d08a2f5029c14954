"""Largest and smallest elements in lanes: whether one is NaN is kept beside them.

An extremum that lets NaN through takes a comparison and two choices for each register. The extremum
of the numbers is one instruction on many processors, and two registers are compared with each other
once to see NaN in either. Where one was seen the result is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorad.codegen.llvm.text import Value, Writer, mangled
from tensorad.ir.combiner import Combiner
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import Call

_WINS: Final = {"maximum": "ogt", "minimum": "olt"}
NAN: Final = float("nan")


def is_extremum(c: Combiner) -> bool:
    """Whether a combiner is the maximum or minimum of floats."""
    found = c.results[0]
    if len(c.results) > 1 or not isinstance(found, Call) or not found.dtype.is_float:
        return False
    return found.op in _WINS and found.args[0] is c.lhs[0] and found.args[1] is c.rhs[0]


def _predicate(c: Combiner) -> str:
    found = c.results[0]
    assert isinstance(found, Call)  # it is an extremum
    return _WINS[found.op]


def of_numbers(w: Writer, c: Combiner, x: str, y: str) -> str:
    """The extremum where neither is NaN; the first wins."""
    return w.select(w.compare(_predicate(c), y, x), y, x)


def step(w: Writer, c: Combiner, old: Sequence[Value], value: Value) -> list[Value]:
    """The extremum of each register with a new one, and NaN in the lanes where one was seen."""
    best, seen = old
    names = [of_numbers(w, c, x, y) for x, y in zip(best.names, value.names, strict=True)]
    noted = seen.names[0]
    for n in range(0, len(value.names), 2):
        both = value.names[n : n + 2]
        noted = w.select(w.compare("uno", both[0], both[-1]), w.const(NAN), noted)
    return [best._replace(names=tuple(names)), seen._replace(names=(noted,))]


def with_nan(w: Writer, result: str, seen: Value) -> str:
    """A scalar result, or NaN if one was seen in any lane."""
    wide = Writer(w.code, w.level, w.dtype, seen.lanes)
    flags = wide.of(BOOL)
    name = f"llvm.vector.reduce.or.{mangled(BOOL, seen.lanes)}"
    found = wide.compare("uno", seen.name, seen.name)
    return w.select(w.put(w.code.called(name, "i1", (flags.type, found))), w.const(NAN), result)
