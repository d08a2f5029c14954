"""Statements with functions that data choose, recursion, and data of several kinds."""

from __future__ import annotations

from tests.random.whole.forms import name_of, stored
from tests.random.whole.texts import Define, Statement
from tests.random.whole.writer import Names, Writer


def chosen(w: Writer, names: Names) -> Statement:
    """A function that a branch returns: one of those in reach, or a closure of an arm."""
    h, arms = w.name("f"), []
    for _ in range(2):
        own = names.inner()
        if w.chance(0.4):
            arms.append(w.define(w.name("arm"), [], own, lambda own: w.rng.choice(own.functions)))
            continue
        arms.append(w.define(w.name("arm"), [], own, lambda own: f"lambda y: {_of(w, own, 'y')}"))
    ways, test = ", ".join(map(name_of, arms)), w.test(names)
    w.note(names, h, *arms)
    return Statement([*arms, f"{h} = ta.cond({test}, {ways})"], (h,))


def _of(w: Writer, own: Names, y: str) -> str:
    """An expression of y and what is in reach."""
    inner = own.inner()
    inner.numbers += [y] * 6
    return w.bounded(inner)


def composed(w: Writer, names: Names) -> Statement:
    """A function that a loop composes."""
    h = w.name("f")
    found = [f for f in names.functions if f not in names.touching]
    start = w.rng.choice([*found, "lambda y: y"])
    y = _of(w, names, "g(y)")
    text = f"ta.for_loop(0, {w.times(names)}, lambda i, g: lambda y: {y}, {start})"
    names.functions.append(h)
    return Statement([f"{h} = {text}"], (h,))


def recursion(w: Writer, names: Names) -> Statement:
    """A function that calls itself, as often as a count says."""
    rec, a, k, deeper = w.name("rec"), w.name("a"), w.name("k"), w.name("deeper")
    own = names.inner(local=w.chance(0.5))
    own.numbers += [a, a]
    own.counts.append(k)
    calls = [f"{rec}({{}}, {k} - 1)", f"{rec}({{}}, {k} - 1) + {rec}({{}}, {k} - 2)",
             f"{rec}({rec}({{}}, {k} - 2), {k} - 1)"]  # fmt: skip
    call = w.rng.choice(calls)

    def result(own: Names) -> str:
        shown = call.format(*[w.bounded(own) for _ in range(2)])
        return f"ta.tanh(({shown}) * {w.number(own)})"

    inside = w.define(deeper, [], own.inner(), result)
    body = w.block(own, lambda own: f"ta.cond({k} > 0, {deeper}, lambda: {w.bounded(own)})", 1)
    body.statements.append(Statement([inside], (deeper,)))
    head = w.rng.choice(["@ta.function", f"@ta.function(returns=lambda {a}, {k}: {a})"])
    defined = Define((head, f"def {rec}({a}, {k}):"), body)
    s = w.name("s")
    text = f"{rec}({w.number(names)}, {w.rng.choice([*names.counts, '3'])})"
    names.numbers.append(s)
    return Statement([defined, f"{s} = {text}"], (s,))


def selected(w: Writer, names: Names) -> Statement | None:
    """A reference that data choose, returned by a branch or put into a reference by one."""
    if not names.places:
        return None
    kind, one = w.rng.choice(names.places)
    other = w.rng.choice(names.places_of(kind))
    r, test = w.name(one[0]), w.test(names)
    names.places += [(kind, r)] * 2
    if w.chance(0.6):
        return Statement([f"{r} = ta.cond({test}, lambda: {one}, lambda: {other})"], (r,))
    p, name = w.name("r"), "local" if names.local else "held"
    lines = [
        f'{p} = ta.ref({one}, "{name}")',
        f"ta.cond({test}, lambda: {p}.set({other}), lambda: {p}.set({one}))",
        f"{r} = {p}.get()",
    ]
    return Statement(lines if names.local else [*lines[:2], "writes.add(1)", lines[2]], (p, r))


def born(w: Writer, names: Names) -> Statement:
    """A reference that a branch returns, and that its arms made, or one of them."""
    kind = w.rng.choice("ssv")

    def result(own: Names) -> str:
        found = own.places_of(kind)
        if found and w.chance(0.4):
            return w.rng.choice(found)
        name = "local" if names.local else "held"
        return f'ta.ref({(w.bounded if kind == "s" else w.row)(own)}, "{name}")'

    arms = [w.define(w.name("arm"), [], names.inner(), result) for _ in range(2)]
    r, test = w.name("r"), w.test(names)
    names.places += [(kind, r)] * 2
    ways = ", ".join(map(name_of, arms))
    return Statement([*arms, f"{r} = ta.cond({test}, {ways})"], (r,))


def carried(w: Writer, names: Names) -> Statement | None:
    """A loop that carries references: those in reach, in turn or chosen, and ones that it makes."""
    if not names.places:
        return None
    kind, one = w.rng.choice(names.places)
    known = names.places_of(kind)
    i, pair, body = w.name("i"), w.name("pair"), w.name("body")
    first, second = w.name(one[0]), w.name(one[0])
    own = names.inner()
    own.places += [(kind, first), (kind, second)] * 3
    own.counts.append(i)

    def result(own: Names) -> str:
        ways = [w.rng.choice([first, second, first, second, *known]) for _ in range(2)]
        if kind in "sv" and w.chance(0.5):
            name = "local" if names.local else "held"
            ways[0] = f'ta.ref({(w.bounded if kind == "s" else w.row)(own)}, "{name}")'
        w.rng.shuffle(ways)
        return ", ".join(ways)

    defined = w.define(body, [i, pair], own, result)
    defined.block.statements.insert(
        0, Statement([f"{first} = {pair}[0]", f"{second} = {pair}[1]"], (first, second))
    )
    times, made = w.times(names), (w.name(one[0]), w.name(one[0]))
    names.places += [(kind, m) for m in made]
    less = "" if "ta.ref(" in defined.block.result else stored(w, times)
    text = f"ta.for_loop(0, {times}, {body}, ({one}, {w.rng.choice(known)}){less})"
    return Statement([defined, f"{', '.join(made)} = {text}"], made)


def iterated(w: Writer, names: Names) -> Statement | None:
    """A function that is given to a recursive one, which composes it."""
    found = [f for f in names.functions if f not in names.touching]
    if not found:
        return None
    rec, s = w.name("rec"), w.name("s")
    lines = [
        "@ta.function",
        f"def {rec}(g, y, k):",
        f"    deeper = lambda: {rec}(lambda z: ta.sin(g(z) * 1.1), g(y), k - 1)",
        "    return ta.cond(k > 0, deeper, lambda: y)",
    ]
    text = f"{rec}(ta.fn({w.rng.choice(found)}), {w.number(names)}, {w.rng.choice(names.counts)})"
    names.numbers.append(s)
    return Statement([*lines, f"{s} = {text}"], (s,))


def matched(w: Writer, names: Names) -> Statement:
    """A match with writes in its arms."""
    of = w.rng.choice([*names.options, "Maybe.Missing()"])
    arms = []
    for params in ([], ["a"], ["a", "b"]):
        own = names.inner()
        params = [w.name(p) for p in params]
        own.numbers += params[:1] * 2
        own.options += params[1:]
        arms.append(w.define(w.name("arm"), params, own, w.bounded))
    ways = list(map(name_of, arms))
    tags = ["Missing", "Some", "Both"]
    shown = ", ".join([f"Maybe.{t}: {way}" for t, way in zip(tags, ways, strict=True)])
    s = w.name("s")
    names.numbers.append(s)
    return Statement([*arms, f"{s} = ta.match({of}, {{{shown}}})"], (s,))


def folded(w: Writer, names: Names) -> Statement:
    """A recursive function of a list or of a tree."""
    rec, s, arm = w.name("rec"), w.name("s"), w.name("arm")
    local = w.chance(0.5)
    own = names.inner(local)
    a, b, c, xs = (w.name(letter) for letter in "abcx")
    if names.trees and w.chance(0.5):
        leaf = own.inner()
        leaf.vectors += ["value"] * 4
        own.numbers += [b]
        inside = w.define(
            arm, [a, b, c], own, lambda own: f"ta.tanh({rec}({a}) * {w.number(own)} - {rec}({c}))"
        )
        arms = f"Tree.Leaf: lambda value: {w.bounded(leaf)}"
        arms += f", Tree.Node: {arm}"
        of = w.rng.choice(names.trees)
    else:
        own.numbers += [a, a]
        of = w.rng.choice([*names.lists, "List.Nil()"])
        inside = w.define(
            arm, [a, b], own, lambda own: f"ta.tanh({rec}({b}) * {w.number(own)} + {w.number(own)})"
        )
        end = w.bounded(names.inner())
        arms = f"List.Nil: lambda: {end}, List.Cons: {arm}"
    head = ("@ta.function", f"def {rec}({xs}):")
    w_block = w.block(names.inner(local), lambda own: f"ta.match({xs}, {{{arms}}})", 0)
    w_block.statements.append(Statement([inside], (arm,)))
    names.numbers.append(s)
    return Statement([Define(head, w_block), f"{s} = {rec}({of})"], (s,))


def taken(w: Writer, names: Names) -> Statement:
    """A list of what a recursive function makes of the elements of another one."""
    rec, xs = w.name("rec"), w.name("l")
    of = w.rng.choice([*names.lists, "List.Nil()"])
    y = _of(w, names.inner(local=True), "head")
    lines = [
        "@ta.function",
        f"def {rec}(xs, k):",
        f"    arms = {{List.Nil: lambda: List.Nil(), List.Cons: lambda head, tail: "
        f"ta.cond(k > 0, lambda: List.Cons({y}, {rec}(tail, k - 1)), lambda: tail)}}",
        "    return ta.match(xs, arms)",
    ]
    names.lists.append(xs)
    return Statement([*lines, f"{xs} = {rec}({of}, {w.rng.choice([*names.counts, '9'])})"], (xs,))


def in_turn(w: Writer, names: Names) -> Statement:
    """Two functions that call each other."""
    one, two, s = w.name("rec"), w.name("rec"), w.name("s")
    own = names.inner(local=True)
    lines = []
    for f, g in ((one, two), (two, one)):
        y = _of(w, own, "y")
        lines += [
            "@ta.function",
            f"def {f}(y, k):",
            f"    return ta.cond(k > 0, lambda: {g}({y}, k - 1) * 0.9, lambda: {_of(w, own, 'y')})",
        ]
    text = f"{one}({w.number(names)}, {w.rng.choice(names.counts)})"
    names.numbers.append(s)
    return Statement([*lines, f"{s} = {text}"], (s,))
