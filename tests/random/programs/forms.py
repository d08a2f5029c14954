"""Steps with blocks: branches, loops and calls, with trees in and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensorad as ta
from tests.random.programs.trees import packed, random_form, unpacked
from tests.random.programs.writer import Writer, as_integer
from tests.random.programs.written import Block, Dim, Env, Mode, Step, Value

DEEPEST = 3
Fill = Callable[[Writer, int], None]
"""Writes so many steps."""


def _scalar(w: Writer, dtype: str) -> Value:
    """A 0-d bool or integer."""
    x = w.choose(lambda v: v.dtype.startswith(dtype) and (v.shape == () or w.rng.random() < 0.3))
    if x is None:
        x = w.choose(lambda v: v.dtype.startswith("int"))
        assert x is not None, "a program has an integer"
        if dtype == "bool":
            c = w.rng.randint(0, 2)
            x = w.add("bool", f"{{0}} > {c}", [x], "bool", x.shape, 1, lambda m, a: a > c)
    if not x.shape:
        return x
    if dtype == "bool":
        return w.add("any", "{0}.any()", [x], "bool", (), 1, lambda m, a: a.any())
    return w.shaped(x, ())


def _wanted(w: Writer, most: int) -> list[Value]:
    """Kinds of results: like floats and integers that are seen."""
    made = [w.a_float() for _ in range(w.rng.randint(1, most))]
    if w.rng.random() < 0.3:
        made.append(w.an_integer())
    return [v for v in made if v is not None]


def _results(
    w: Writer, wanted: Sequence[Value], high: float = 2.0, carries: Sequence[Value] = ()
) -> list[Value]:
    """Values of the same kinds as late as possible, or carries as they are; integers below 7."""
    made = []
    for like in wanted:
        passed = [c for c in carries if c.kind == like.kind]
        if passed and w.rng.random() < 0.25:
            made.append(w.rng.choice(passed))
            continue
        x = w.choose(lambda v, like=like: v.kind == like.kind)
        if x is None or w.rng.random() < 0.2:
            found = w.a_float() if like.is_float else w.an_integer()
            assert found is not None
            x = w.shaped(w.converted(found, like.dtype), like.shape)
        if like.is_float:
            x = w.small(x, high)
        elif x.high > 6:
            x = w.add("remainder", "{0} % 7", [x], x.dtype, x.shape, 6, lambda m, a: a % 7)
        made.append(x)
    return made


def _outs(w: Writer, wanted: Sequence[Value], leading: Sequence[Dim] = ()) -> tuple[Value, ...]:
    return tuple([w.fresh(v.dtype, (*leading, *v.shape), 2.0 if v.is_float else 6) for v in wanted])


def branch(w: Writer, fill: Fill) -> None:
    """cond and switch."""
    count = w.rng.choice((2, 2, 3))
    is_cond = count == 2 and w.rng.random() < 0.7
    index = _scalar(w, "bool" if is_cond else "int")
    wanted = _wanted(w, 2)
    form = random_form(w.rng, len(wanted))
    operand = w.a_float()
    assert operand is not None
    blocks: list[Block] = []
    given: list[Value] = []
    for _ in range(count):
        own = w.inner()
        given.append(own.parameter(*operand.kind, operand.high))
        fill(own, w.rng.randint(1, 4))
        blocks.append(own.done(_results(own, wanted)))

    def run(mode: Mode, env: Env) -> list[Any]:
        def way(n: int) -> Callable[[Any], Any]:
            return lambda x: packed(form, blocks[n].run(mode, {**env, given[n].number: x}))

        ways = [way(n) for n in range(count)]
        at, x = env[index.number], env[operand.number]
        if not mode.is_traced:
            n = (0 if at else 1) if is_cond else min(max(int(at), 0), count - 1)
            return unpacked(form, ways[n](x))
        made = ta.cond(at, *ways, x) if is_cond else ta.switch(at, ways, x)
        return unpacked(form, made)

    name = "cond" if is_cond else "switch"
    titles = [f"{n}({g})" for n, g in enumerate(given)]
    step = Step(
        _outs(w, wanted), f"{name}({index}, ..., {operand}) as {form}", run,
        tuple(zip(titles, blocks, strict=True)),
    )  # fmt: skip
    w.record(step, f"{name} {w.depth + 1} deep")


def _carries(w: Writer) -> list[Value]:
    """First values of carries, floats within the bound of all iterations."""
    made = _wanted(w, 2)
    return [w.small(v) if v.is_float else v for v in made]


def _body(w: Writer, fill: Fill, first: Sequence[Value], own: Writer) -> tuple[Block, list[Value]]:
    """A block from carries to carries, written after its counter and other parameters."""
    carries = [own.parameter(*v.kind, 2.0 if v.is_float else max(v.high, 6)) for v in first]
    fill(own, w.rng.randint(1, 4))
    return own.done(_results(own, first, carries=carries)), carries


def _bind(values: Sequence[Value], found: Sequence[Any]) -> Env:
    return {v.number: x for v, x in zip(values, found, strict=True)}


def for_loop(w: Writer, fill: Fill) -> None:
    """Bounds that are numbers, a size, or integers that only a call knows."""
    kind = w.rng.choice(
        ("number", "size", "tensor", "tensors") if w.sizes else ("number", "tensor", "tensors")
    )
    first = _carries(w)
    form = random_form(w.rng, len(first))
    own = w.inner()
    low: Any = 0
    bound: Any = None
    if kind == "size":
        bound = w.rng.choice(w.sizes)
        counter = own.counter(bound)
    elif kind == "number":
        bound = w.rng.choice((0, 1, 2, 3, 4))
        low = w.rng.choice((0, 0, 1))
        counter = own.counter(bound)
    else:
        bound = _scalar(w, "int")
        counter = own.counter("?")
        if kind == "tensors":
            low = _scalar(w, "int")
    block, carries = _body(w, fill, first, own)

    def value(mode: Mode, env: Env, b: Any) -> Any:
        return env[b.number] if isinstance(b, Value) else mode.dim(b)

    def run(mode: Mode, env: Env) -> list[Any]:
        start = packed(form, [env[v.number] for v in first])

        def step(i: Any, carry: Any) -> Any:
            inside = _bind(carries, unpacked(form, carry)) | {counter.number: i}
            return packed(form, block.run(mode, {**env, **inside}))

        lower, upper = value(mode, env, low), value(mode, env, bound)
        if mode.is_traced:
            return unpacked(form, ta.for_loop(lower, upper, step, start))
        carry = start
        for i in range(int(lower), int(upper)):
            carry = step(i, carry)
        return unpacked(form, carry)

    title = f"{counter} in [{low}, {bound}), {', '.join(map(str, carries))}"
    text = f"for_loop({', '.join(map(str, first))}) as {form}"
    w.record(
        Step(_outs(w, first), text, run, ((title, block),)), f"for by {kind} {w.depth + 1} deep"
    )


def while_loop(w: Writer, fill: Fill) -> None:
    """As long as fuel lasts that each iteration takes of, or until a float has become small."""
    first = _carries(w)
    form = random_form(w.rng, len(first) + 1)
    halves = w.choose(lambda v: v in w.exact and v.shape == ()) if w.rng.random() < 0.4 else None
    start = halves or _scalar(w, "int")
    own = w.inner()
    fuel = own.parameter(start.dtype, (), 2.0 if halves else 10)
    block, carries = _body(w, fill, first, own)
    extra = next((v for v in block.results if v.dtype == start.dtype and not v.shape), None)

    def rest(mode: Mode, x: Any, results: Sequence[Any]) -> Any:
        if halves:
            return abs(x) * 0.5
        if extra is None:
            return x - 1
        return x - 1 - results[block.results.index(extra)] % 2

    def run(mode: Mode, env: Env) -> list[Any]:
        def body(carry: Any) -> Any:
            x, *others = unpacked(form, carry)
            found = block.run(mode, {**env, fuel.number: x, **_bind(carries, others)})
            return packed(form, [rest(mode, x, found), *found])

        def test(carry: Any) -> Any:
            x = unpacked(form, carry)[0]
            return abs(x) > 0.3125 if halves else x > 0

        carry = packed(form, [env[start.number], *[env[v.number] for v in first]])
        if mode.is_traced:
            return unpacked(form, ta.while_loop(test, body, carry))
        while test(carry):
            carry = body(carry)
        return unpacked(form, carry)

    made = (w.fresh(start.dtype, (), 2.0 if halves else 10), *_outs(w, first))
    kind = "until small" if halves else "while fuel lasts"
    text = f"while_loop({start}, {', '.join(map(str, first))}) as {form}, {kind}"
    if not halves:
        text += f" less 1 and {extra} % 2" if extra else " less 1"
    title = f"{fuel}, {', '.join(map(str, carries))}"
    w.record(Step(made, text, run, ((title, block),)), f"{kind} {w.depth + 1} deep")
    if not halves:
        w.seen.remove(made[0])  # below 0
        w.add("remainder", "{0} % 5", [made[0]], start.dtype, (), 4, lambda m, a: a % 5)


@dataclass
class _Scan:
    """A scan of steps that are written down.

    Attributes:
        forms: of the carries, of what is gone through, of ys.
        first, given: values of the carries and of what is gone through.
        length: how often, without `given`.
        carries, parts: what they are in the block.
        collected: of each iteration; summed if only a call knows how often.
    """

    forms: tuple[Any, Any, Any]
    first: Sequence[Value]
    given: Sequence[Value]
    length: Any
    block: Block
    carries: Sequence[Value]
    parts: Sequence[Value]
    collected: Sequence[Value]
    reverse: bool

    def run(self, mode: Mode, env: Env) -> list[Any]:
        form, xs_form, ys_form = self.forms
        start = packed(form, [env[v.number] for v in self.first])
        xs = [env[v.number] for v in self.given]
        is_known = not isinstance(self.length, Value)
        times = mode.dim(self.length) if is_known else env[self.length.number]
        if mode.is_traced:
            carry, ys = ta.scan(
                lambda c, x: self.step(mode, env, c, x), start,
                packed(xs_form, xs) if xs else None, length=times, reverse=self.reverse,
            )  # fmt: skip
            found = unpacked(ys_form, ys)
        else:
            carry, found = self.plain(mode, env, start, xs, len(xs[0]) if xs else int(times))
        if not is_known:
            sums = [y.sum(axis=0) for y in found]
            found = [
                y if v.is_float else as_integer(mode, y, v.dtype) % 5
                for y, v in zip(sums, self.collected, strict=True)
            ]
        return [*unpacked(form, carry), *found]

    def step(self, mode: Mode, env: Env, carry: Any, x: Any) -> tuple[Any, Any]:
        form, xs_form, ys_form = self.forms
        parts = unpacked(xs_form, x) if self.parts else []
        inside = _bind(self.carries, unpacked(form, carry)) | _bind(self.parts, parts)
        found = self.block.run(mode, {**env, **inside})
        n = len(self.first)
        return packed(form, found[:n]), packed(ys_form, found[n:])

    def plain(
        self, mode: Mode, env: Env, carry: Any, xs: Sequence[Any], count: int
    ) -> tuple[Any, list[Any]]:
        rows: dict[int, list[Any]] = {}
        order = range(count)
        for t in reversed(order) if self.reverse else order:
            x = packed(self.forms[1], [x[t] for x in xs])
            carry, y = self.step(mode, env, carry, x)
            rows[t] = unpacked(self.forms[2], y)
        found = []
        for n, v in enumerate(self.collected):
            dtype = float if v.is_float else int
            empty = np.zeros((0, *mode.shape(v.shape)), dtype) if not rows else None
            found.append(np.array([rows[t][n] for t in order], dtype) if rows else empty)
        return carry, found


def scan(w: Writer, fill: Fill) -> None:
    """Over a tree of leading axes or so many times, in both directions, with ys."""
    x = w.choose(lambda v: bool(v.shape) and v.dtype in (w.dtype, "int64", "int32"))
    first = _carries(w) if w.rng.random() < 0.9 else []
    own = w.inner()
    given: list[Value] = []
    length: Any = None
    if x is not None and w.rng.random() < 0.8:
        y = w.a_float(lambda v: v.shape[:1] == x.shape[:1])
        given = [x] if y is None or w.rng.random() < 0.5 else [x, y]
    else:
        length = w.rng.choice((0, 1, 3, *w.sizes)) if w.rng.random() < 0.6 else _scalar(w, "int")
    parts = [own.parameter(v.dtype, v.shape[1:], v.high) for v in given]
    reverse = w.rng.random() < 0.4
    block, carries = _body(w, fill, first, own)
    collected = [v for v in _wanted(own, 2) if len(v.shape) < 3]
    block.results = (*block.results, *collected)
    forms = [random_form(w.rng, len(part)) for part in (first, given, collected)]
    made = _Scan(
        (forms[0], forms[1], forms[2]), first, given, length, block, carries, parts, collected,
        reverse,
    )  # fmt: skip
    ys = _collected(w, collected, length if x is None or not given else x.shape[0])
    text = f"scan({_shown(first)}; {_shown(given)}; {length}) as {forms}"
    blocks = ((f"{_shown(carries)}; {_shown(parts)}", block),)
    direction = " in reverse" if reverse else ""
    kind = f"scan of {'xs' if given else 'length'}{direction} {w.depth + 1} deep"
    w.record(Step((*_outs(w, first), *ys), text + direction, made.run, blocks), kind)
    for v in ys:
        if v.is_float:
            w.small(v)


def _collected(w: Writer, values: Sequence[Value], trips: Any) -> tuple[Value, ...]:
    """What is made of the values of all iterations."""
    leading = () if isinstance(trips, Value) else (trips,)
    scale = 1 if leading else 10
    highs = [v.high * scale if v.is_float else max(v.high, 4) for v in values]
    shaped = zip(values, highs, strict=True)
    return tuple([w.fresh(v.dtype, (*leading, *v.shape), high) for v, high in shaped])


def _shown(values: Sequence[Value]) -> str:
    return ", ".join(map(str, values))


def call(w: Writer, fill: Fill) -> None:
    """A function of its arguments and what is around, called twice, now and then compiled alone."""
    x = w.a_float()
    assert x is not None
    others = [v for v in (w.a_float(lambda v: v.kind == x.kind),) if v is not None]
    second = others[0]
    own = w.inner()
    param = own.parameter(*x.kind, max(x.high, second.high))
    fill(own, w.rng.randint(1, 4))
    wanted = _wanted(w, 2)
    block = own.done(_results(own, wanted))
    form = random_form(w.rng, len(wanted))
    inlined = w.rng.random() < 0.2

    def run(mode: Mode, env: Env) -> list[Any]:
        def f(tree: Any) -> Any:
            return packed(form, block.run(mode, {**env, param.number: tree["x"]}))

        g = ta.function(f) if mode.is_traced and not inlined else f
        found = [unpacked(form, g({"x": env[v.number]})) for v in (x, second)]
        return [v for made in found for v in made]

    made = (*_outs(w, wanted), *_outs(w, wanted))
    text = f"calls of f({x}) and f({second}) as {form}"
    w.record(Step(made, text, run, ((f"f({param})", block),)), f"call {w.depth + 1} deep")


FORMS: tuple[Callable[[Writer, Fill], None], ...] = (
    branch, branch, for_loop, for_loop, while_loop, scan, scan, call,
)  # fmt: skip
