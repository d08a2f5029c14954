"""What programs mean, in plain Python: a stand-in for `ta` that shares nothing with it.

Branches and loops are Python's, references are objects, derivatives are nested dual numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from tests.random.whole import nested_duals as duals
from tests.random.whole.nested_duals import Dual


class Counts(NamedTuple):
    """How often references that are counted were made, read and written."""

    references: int
    reads: int
    writes: int


class Alternative:
    """A value of a data type."""

    fields: tuple[str, ...] = ()

    def __init__(self, *values: Any) -> None:
        self.values = values


class View:
    """A part of what a reference holds."""

    def __init__(self, of: Ref, keys: tuple[Any, ...]) -> None:
        self._of, self._keys = of, keys

    def __getitem__(self, key: Any) -> View:
        return View(self._of, (*self._keys, key))

    def get(self) -> Any:
        return self._of.taken(self._keys)

    def set(self, value: Any) -> None:
        self._of.put(self._keys, lambda old: value)

    def add(self, value: Any) -> None:
        self._of.put(self._keys, lambda old: old + value)

    def mul(self, value: Any) -> None:
        self._of.put(self._keys, lambda old: old * value)


class Ref:
    """A place that holds a number, a vector, a dict of them or a function."""

    def __init__(self, run: Plain, value: Any, name: str) -> None:
        self._run, self._name, self.value = run, name, value

    @property
    def at(self) -> View:
        return View(self, ())

    def get(self) -> Any:
        return self.taken(())

    def set(self, value: Any) -> None:
        self.at.set(value)

    def add(self, value: Any) -> None:
        self.at.add(value)

    def mul(self, value: Any) -> None:
        self.at.mul(value)

    def taken(self, keys: tuple[Any, ...]) -> Any:
        self._run.happened("read", self._name)
        held = self.value
        for key in keys:
            held = held[key]
        return held

    def put(self, keys: tuple[Any, ...], change: Callable[[Any], Any]) -> None:
        self._run.happened("write", self._name)
        self.value = _put(self.value, keys, change)


def _put(held: Any, keys: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not keys:
        made = change(held)
        is_number = not callable(made) and not isinstance(made, (dict, tuple, Alternative, Ref))
        return made + 0.0 if is_number else made
    if isinstance(held, dict):
        return {**held, keys[0]: _put(held[keys[0]], keys[1:], change)}
    places = np.arange(duals.shape_of(held)[0])
    for key in keys:
        places = places[key]
    return duals.placed(held, places, change(held[places]))


class Plain:
    """The names that programs use.

    Attributes:
        decisions: which ways were taken, in order; between two points with the same ones the
            program is smooth.
    """

    def __init__(self) -> None:
        self.decisions: list[Any] = []
        self._refs: list[Ref] = []
        self._happened = dict.fromkeys(("reference", "read", "write"), 0)
        self._tags = count()
        self._levels: list[int] = []

    sin, cos, exp, tanh = map(staticmethod, (duals.sin, duals.cos, duals.exp, duals.tanh))

    # references

    def ref(self, value: Any, name: str = "ref") -> Ref:
        self._refs.append(Ref(self, value, name))
        self.happened("reference", name)
        return self._refs[-1]

    def happened(self, what: str, name: str) -> None:
        if name not in ("local", "writes"):
            self._happened[what] += 1

    @property
    def counts(self) -> Counts:
        return Counts(*self._happened.values())

    # functions, branches, loops

    def function(self, f: Any = None, **options: Any) -> Any:
        return (lambda g: g) if f is None else f

    checkpoint = function
    custom_rule = function

    def fn(self, f: Any) -> Any:
        return f

    def cond(self, c: Any, then: Callable[..., Any], orelse: Callable[..., Any], *args: Any) -> Any:
        self.decisions.append(bool(c))
        return (then if c else orelse)(*args)

    def switch(self, n: Any, ways: Sequence[Callable[..., Any]], *args: Any) -> Any:
        return ways[min(max(int(n), 0), len(ways) - 1)](*args)

    def for_loop(
        self, low: Any, high: Any, body: Callable[..., Any], carry: Any, **options: Any
    ) -> Any:
        for i in range(int(low), int(high)):
            carry = body(i, carry)
        return carry

    def while_loop(self, test: Callable[..., Any], body: Callable[..., Any], carry: Any) -> Any:
        while self._decided(test(carry)):
            carry = body(carry)
        return carry

    def _decided(self, c: Any) -> bool:
        self.decisions.append(bool(c))
        return bool(c)

    def scan(
        self, step: Callable[..., Any], carry: Any, xs: Any, reverse: bool = False, **options: Any
    ) -> tuple[Any, Any]:
        n = duals.shape_of(xs)[0]
        rows: dict[int, Any] = {}
        for t in range(n)[::-1] if reverse else range(n):
            carry, rows[t] = step(carry, xs[t])
        return carry, duals.stack([rows[t] for t in range(n)])

    def vmap(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda v: duals.stack([f(v[i]) for i in range(duals.shape_of(v)[0])])

    def compute(self, shape: Any, f: Callable[..., Any], **options: Any) -> Any:
        return duals.stack([f(i) for i in range(shape[0])])

    def foreign(self, f: Callable[..., Any], shapes: Any, rule: Any) -> Callable[..., Any]:
        return self.sin

    # data

    Fn = None

    def variant(self, name: str, **alternatives: Any) -> Any:
        own = {
            tag: type(tag, (Alternative,), {"fields": tuple(fields)})
            for tag, fields in alternatives.items()
        }
        return type(name, (), own)

    def match(self, value: Alternative, arms: dict[Any, Callable[..., Any]]) -> Any:
        self.decisions.append(type(value).__name__)
        return arms[type(value)](*value.values)

    # derivatives

    def jvp(self, f: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
        tag = next(self._tags)
        pairs = zip(primals, tangents, strict=True)
        y = f(*[Dual(tag, p, t + np.zeros(duals.shape_of(p))) for p, t in pairs])
        self._forget(tag)
        return duals.without(y, tag), duals.tangent_of(y, tag)

    def value_and_grad(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: self._gradient(f, x)

    def grad(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: self._gradient(f, x)[1]

    def vjp(self, f: Callable[..., Any], x: Any) -> tuple[Any, Callable[..., Any]]:
        y, slope = self._gradient(f, x)
        return y, lambda h: (h * slope,)

    def hvp(self, f: Callable[..., Any], x: Any, d: Any) -> Any:
        return self.jvp(self.grad(f), (x,), (d,))[1]

    def _gradient(self, f: Callable[..., Any], x: Any) -> tuple[Any, Any]:
        """One run for each element; what the last one leaves stays, and it alone is counted."""
        shape = duals.shape_of(x)
        ways = np.eye(shape[0]) if shape else [np.float64(1.0)]
        before = [(r, r.value) for r in self._refs], dict(self._happened), len(self.decisions)
        slopes = []
        for way in ways:
            for r, value in before[0]:
                r.value = value
            self._happened = dict(before[1])
            del self.decisions[before[2] :]
            y, slope = self.jvp(f, (x,), (way,))
            slopes.append(slope)
        return y, duals.stack(slopes) if shape else slopes[0]

    def _forget(self, tag: int) -> None:
        for r in self._refs:
            if isinstance(r.value, dict):
                r.value = {k: duals.without(a, tag) for k, a in r.value.items()}
            else:
                r.value = duals.without(r.value, tag)

    @contextmanager
    def dual_level(self) -> Iterator[int]:
        self._levels.append(next(self._tags))
        yield self._levels[-1]
        self._forget(self._levels.pop())

    def make_dual(self, x: Any, dx: Any) -> Dual:
        return Dual(self._levels[-1], x, dx + np.zeros(duals.shape_of(x)))

    def unpack_dual(self, y: Any) -> tuple[Any, Any]:
        tag = self._levels[-1]
        return duals.without(y, tag), duals.tangent_of(y, tag)
