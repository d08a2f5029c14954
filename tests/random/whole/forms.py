"""Statements with blocks: functions, branches, loops, derivatives."""

from __future__ import annotations

from collections.abc import Callable

from tests.random.whole.texts import Define, Statement
from tests.random.whole.writer import Names, Writer

Result = Callable[[Names], str]


def _number(w: Writer) -> Result:
    return w.bounded


def _with_param(own: Names, *params: str) -> Names:
    own.numbers += params * 2
    return own


def function(w: Writer, names: Names) -> Statement:
    """A closure; some are functions of their own, or checkpoints."""
    f, a = w.name("f"), w.name("a")
    decorators = w.rng.choice([(), (), ("@ta.function",), ("@ta.checkpoint",)])
    defined = w.define(f, [a], _with_param(names.inner(), a), w.bounded, decorators)
    w.note(names, f, defined)
    return Statement([defined], (f,))


def maker(w: Writer, names: Names) -> Statement:
    """A function that a function returns."""
    make, f, a = w.name("make"), w.name("f"), w.name("a")
    own = _with_param(names.inner(), a)

    def closure(own: Names) -> str:
        inner = own.inner()
        inner.numbers += ["y"] * 4
        return f"lambda y: {w.bounded(inner)}"

    defined = w.define(make, [a], own, closure, w.rng.choice([(), ("@ta.function",)]), most=2)
    at = w.number(names)
    w.note(names, f, defined)
    return Statement([defined, f"{f} = {make}({at})"], (f,))


def _arms(w: Writer, names: Names, result: Result | None, count: int) -> list[Define]:
    return [w.define(w.name("arm"), [], names.inner(), result) for _ in range(count)]


def name_of(arm: Define) -> str:
    """The name of a function."""
    return arm.head[-1].split("def ")[1].split("(")[0]


def branch(w: Writer, names: Names) -> Statement:
    """cond or switch, of numbers, of pairs, or for what is written alone."""
    kind = w.rng.choice(["s", "sv", "", ""] if names.places else ["s", "sv"])
    pair: Result = lambda own: f"({w.bounded(own)}, {w.row(own)})"  # noqa: E731
    result = {"s": w.bounded, "sv": pair, "": None}[kind]
    is_cond = w.chance(0.7)
    arms = _arms(w, names, result, 2 if is_cond else w.rng.randint(2, 3))
    ways = ", ".join(map(name_of, arms))
    k = f"{w.rng.choice(names.counts)} % {len(arms)}"
    text = f"ta.cond({w.test(names)}, {ways})" if is_cond else f"ta.switch({k}, [{ways}])"
    return _named(w, names, [*arms], text, kind)


def _named(
    w: Writer, names: Names, parts: list[str | Define], text: str, kind: str
) -> Statement:  # fmt: skip
    """A statement whose value is a number and a vector, one of them, or nothing."""
    made = tuple([w.name(letter) for letter in kind])
    for m in made:
        (names.numbers if m.startswith("s") else names.vectors).append(m)
    return Statement([*parts, f"{', '.join(made)} = {text}" if made else text], made)


def for_loop(w: Writer, names: Names) -> Statement:
    i, a, b, body = w.name("i"), w.name("a"), w.name("b"), w.name("body")
    start, times = w.number(names), w.times(names)
    own = _with_param(names.inner(), a)
    own.counts.append(i)
    if w.chance(0.5):
        defined = w.define(body, [i, a], own, w.bounded)
        text = f"ta.for_loop(0, {times}, {body}, {start}{stored(w, times)})"
        return _named(w, names, [defined], text, "s")
    own.vectors.append(b)
    pair: Result = lambda own: f"({w.bounded(own)}, {w.row(own)})"  # noqa: E731
    defined = w.define(body, [i, f"{a}{b}"], own, pair)
    defined.block.statements.insert(0, Statement([f"{a}, {b} = {a}{b}"], (a, b)))
    first = f"({start}, {w.vector(names)})"
    text = f"ta.for_loop(0, {times}, {body}, {first}{stored(w, times)})"
    return _named(w, names, [defined], text, "sv")


def repeated(w: Writer, names: Names) -> Statement | None:
    """A loop for what it writes alone."""
    if not names.places:
        return None
    i, body, own = w.name("i"), w.name("body"), names.inner()
    own.counts.append(i)
    defined = w.define(body, [i, "c"], own, lambda own: "c")
    return Statement([defined, f"ta.for_loop(0, {w.times(names)}, {body}, None)"])


def passed(w: Writer, names: Names) -> Statement | None:
    """A function of a reference and a number."""
    places = names.places_of("s")
    if not places:
        return None
    f, r, a, own = w.name("g"), w.name("r"), w.name("a"), names.inner()
    own.places += [("s", r)] * 3
    defined = w.define(
        f, [r, a], _with_param(own, a), w.bounded, w.rng.choice([(), ("@ta.function",)])
    )
    text = f"{f}({w.rng.choice(places)}, {w.number(names)})"
    return _named(w, names, [defined], text, "s")


def stored(w: Writer, times: str) -> str:
    """What a loop stores for its reverse; "sqrt" needs a number of times, from data at most."""
    found = w.rng.choice(["", "", "", ', checkpoint="sqrt"', ", checkpoint=2"])
    return ", checkpoint=2" if found and times.startswith("i_") else found


def while_loop(w: Writer, names: Names) -> Statement:
    a, k, c, body = w.name("a"), w.name("k"), w.name("c"), w.name("body")
    start, times = w.number(names), w.times(names)
    own = _with_param(names.inner(), a)
    own.counts.append(k)
    defined = w.define(body, [c], own, lambda own: f"({w.bounded(own)}, {k} + 1)")
    defined.block.statements.insert(0, Statement([f"{a}, {k} = {c}"], (a, k)))
    test = f"c[1] < {times}"
    if w.chance(0.4):
        test = f"(c[1] < 3) & (c[0] > {w.rng.choice(['-0.5', '0.2'])})"
    text = f"ta.while_loop(lambda c: {test}, {body}, ({start}, 0))[0]"
    return _named(w, names, [defined], text, "s")


def scan(w: Writer, names: Names) -> Statement:
    a, e, step = w.name("a"), w.name("e"), w.name("step")
    start, rows = w.number(names), w.vector(names)
    own = _with_param(names.inner(), a, e)
    defined = w.define(step, [a, e], own, lambda own: f"({w.bounded(own)}, {w.bounded(own)})")
    options = w.rng.choice(["", ", reverse=True"]) + stored(w, "3")
    return _named(w, names, [defined], f"ta.scan({step}, {start}, {rows}{options})", "sv")


DERIVATIVES = (
    "ta.grad({d})({x})", "ta.jvp({d}, ({x},), ({y},))[1]", "ta.vjp({d}, {x})[1]({y})[0]",
    "pushed({d}, {x}, {y})", "ta.value_and_grad({d})({x})[1]", "ta.grad(ta.grad({d}))({x})",
    "pushed(ta.grad({d}), {x}, 1.0)", "ta.grad(lambda a: pushed({d}, a, {y}))({x})",
)  # fmt: skip


def derivative(w: Writer, names: Names) -> Statement:
    """A derivative by a number, inside of the program."""
    d, a = w.name("d"), w.name("a")
    form = w.rng.choice(DERIVATIVES)
    own = _with_param(names.inner(), a)
    own.depth = min(own.depth, 1)  # of a higher order all that is inside is
    defined = w.define(d, [a], own, w.bounded)
    text = form.format(d=d, x=w.number(names), y=w.number(names))
    return _named(w, names, [defined], f"ta.tanh({text})", "s")


def gradient(w: Writer, names: Names) -> Statement:
    """A derivative by a vector."""
    d, a = w.name("d"), w.name("a")
    forms = [
        "ta.grad({d})({x})",
        "ta.jvp(ta.grad({d}), ({x},), ({y},))[1]",
        "ta.vjp({d}, {x})[1](0.5)[0]",
    ]
    own = names.inner()
    own.depth = min(own.depth, 1)
    own.vectors += [a, a, a]
    defined = w.define(d, [a], own, w.bounded, most=2)
    text = w.rng.choice(forms).format(d=d, x=w.vector(names), y=w.vector(names))
    return _named(w, names, [defined], f"ta.tanh({text})", "v")
