"""Statements without blocks: numbers, vectors, counts, references, values of data types."""

from __future__ import annotations

from tests.random.whole.texts import Statement
from tests.random.whole.writer import Names, Writer


def number(w: Writer, names: Names) -> Statement:
    a, b = w.number(names), w.number(names)
    text = w.rng.choice([w.bounded(names), w.bounded(names), f"{a} * 0.5 - {b} * 0.25"])
    return given(w, names, text)


def given(w: Writer, names: Names, text: str) -> Statement:
    """A number that is an expression."""
    s = w.name("s")
    names.numbers.append(s)
    return Statement([f"{s} = {text}"], (s,))


def vector(w: Writer, names: Names) -> Statement:
    v = w.name("v")
    text = w.row(names)
    names.vectors.append(v)
    return Statement([f"{v} = {text}"], (v,))


def counted(w: Writer, names: Names) -> Statement:
    k = w.name("k")
    text = f"({w.rng.choice(names.counts)} + {w.rng.randint(1, 2)}) % 3"
    names.counts.append(k)
    return Statement([f"{k} = {text}"], (k,))


def reference(w: Writer, names: Names) -> Statement:
    kind = w.rng.choice("ssvvtmff")
    r = w.name("c" if kind == "f" else "r")
    held = {
        "s": w.number(names), "v": w.vector(names), "f": w.rng.choice(_quiet(names)),
        "t": f'{{"a": {w.number(names)}, "b": {w.vector(names)}}}',
        "m": w.rng.choice([*names.options, "Maybe.Missing()"]),
    }[kind]  # fmt: skip
    name = "local" if names.local else "held"
    names.places.append((kind, r))
    return Statement([f'{r} = ta.ref({held}, "{name}")'], (r,))


def _quiet(names: Names) -> list[str]:
    """Functions that call nothing that a reference holds: put into one they do not call
    themselves."""
    return [f for f in names.functions if f not in names.looking]


def alias(w: Writer, names: Names) -> Statement | None:
    """Another name, itself or held by another reference."""
    if not names.places:
        return None
    kind, of = w.rng.choice(names.places)
    r = w.name(of[0])
    names.places.append((kind, r))
    if w.chance(0.3):
        name = "local" if names.local else "held"
        return Statement([f'{r} = ta.ref({of}, "{name}").get()'], (r,))
    return Statement([f"{r} = {of}"], (r,))


def _view(w: Writer, names: Names) -> tuple[str, str] | None:
    """(a reference or a part of what one holds, "s" or "v" as that is)."""
    found = [(k, r) for k, r in names.places if k not in "fm"]
    if not found:
        return None
    kind, r = w.rng.choice(found)
    if kind == "s":
        return r, "s"
    if kind == "t":
        field = w.rng.choice("ab")
        r, kind = f'{r}.at["{field}"]', "s" if field == "a" else "v"
        if kind == "s":
            return r, kind
    if ".at" not in r and w.chance(0.3):
        return r, "v"
    at = r if ".at" in r else f"{r}.at"
    k = w.rng.choice([*names.counts, "1"])
    part = w.rng.choice([f"[{k} % 3]", "[2]", "[1:]", "[::-1]", "[::2]", "[::-1][1:]", "[1:][0]"])
    is_element = part.endswith(("% 3]", "[2]", "[0]"))
    return at + part, "s" if is_element else "r"


def write(w: Writer, names: Names) -> Statement | None:
    found = _view(w, names)
    if found is None:
        return None
    view, kind = found
    value = w.bounded(names)
    if kind == "v" and w.chance(0.8):
        value = w.row(names)
    elif kind == "v":
        return _counted(names, f"{view}.mul({value})")
    method = w.rng.choice(["add", "mul"] if kind == "r" else ["set", "set", "add", "mul"])
    return _counted(names, f"{view}.{method}({value})")


def _counted(names: Names, line: str) -> Statement:
    return Statement([line] if names.local else [line, "writes.add(1)"])


def write_function(w: Writer, names: Names) -> Statement | None:
    """Another function, or a closure of the one that is held."""
    found = names.places_of("f")
    if not found:
        return None
    c = w.rng.choice(found)
    if w.chance(0.4):
        g, own = w.name("g"), names.inner()
        own.numbers += ["y"] * 6
        line = f"{c}.set(lambda y: {g}({w.bounded(own)}) * 0.9)"
        return Statement([f"{g} = {c}.get()", *_counted(names, line).parts], (g,))
    return _counted(names, f"{c}.set({w.rng.choice(_quiet(names))})")


def write_option(w: Writer, names: Names) -> Statement | None:
    found = names.places_of("m")
    if not found:
        return None
    r = w.rng.choice(found)
    return _counted(names, f"{r}.set(Maybe.Both({w.number(names)}, {r}.get()))")


def read_option(w: Writer, names: Names) -> Statement | None:
    found = names.places_of("m")
    if not found:
        return None
    m = w.name("m")
    names.options.append(m)
    return Statement([f"{m} = {w.rng.choice(found)}.get()"], (m,))


def read(w: Writer, names: Names) -> Statement | None:
    found = _view(w, names)
    if found is None:
        return None
    view, kind = found
    if kind == "s":
        return given(w, names, f"{view}.get()")
    if kind == "r":
        return given(w, names, f"{view}.get().sum()")
    v = w.name("v")
    names.vectors.append(v)
    return Statement([f"{v} = {view}.get()"], (v,))


def read_function(w: Writer, names: Names) -> Statement | None:
    found = names.places_of("f")
    return given(w, names, f"{w.rng.choice(found)}.get()({w.number(names)})") if found else None


def apply(w: Writer, names: Names) -> Statement | None:
    if not names.functions:
        return None
    return given(w, names, f"{w.rng.choice(names.functions)}({w.number(names)})")


def mapped(w: Writer, names: Names) -> Statement | None:
    """vmap of a function."""
    found = [f for f in names.functions if f not in names.touching]
    if not found:
        return None
    v, text = w.name("v"), f"ta.vmap({w.rng.choice(found)})({w.vector(names)})"
    names.vectors.append(v)
    return Statement([f"{v} = {text}"], (v,))


def rule(w: Writer, names: Names) -> Statement:
    """A function with a derivative of its own, which is the right one."""
    g, s = w.name("g"), w.name("s")
    rule = w.rng.choice(
        [
            "vjp=lambda out, h, a, b: [h * ta.cos(a * b) * b, h * ta.cos(a * b) * a]",
            "jvp=lambda x, d: ta.cos(x[0] * x[1]) * (d[0] * x[1] + x[0] * d[1])",
        ]
    )
    text = f"{g}({w.number(names)}, {w.number(names)})"
    names.numbers.append(s)
    lines = [f"@ta.custom_rule({rule})", f"def {g}(a, b):", "    return ta.sin(a * b)"]
    return Statement([*lines, f"{s} = {text}"], (g, s))


def foreign(w: Writer, names: Names) -> Statement:
    rule = "ta.custom_rule(vjp=lambda out, h, a: [h * ta.cos(a)])"
    text = f"ta.foreign(np.sin, lambda a: a, {rule})({w.number(names)})"
    return given(w, names, text)


def option(w: Writer, names: Names) -> Statement:
    m = w.name("m")
    of = w.rng.choice(names.options or ["Maybe.Missing()"])
    choices = [
        f"Maybe.Some({w.number(names)})",
        f"Maybe.Both({w.number(names)}, {of})",
        "Maybe.Missing()",
    ]
    text = w.rng.choice(choices)
    if w.chance(0.6):
        text = f"ta.cond({w.test(names)}, lambda: {text}, lambda: {w.rng.choice([of, *choices])})"
    names.options.append(m)
    return Statement([f"{m} = {text}"], (m,))


def listed(w: Writer, names: Names) -> Statement:
    xs = w.name("l")
    start = w.rng.choice([*names.lists, "List.Nil()"])
    text = f"List.Cons({w.number(names)}, {start})"
    if w.chance(0.6):
        head = f"ta.tanh({w.number(names)} + i * 0.3)"
        text = f"ta.for_loop(0, {w.times(names)}, lambda i, t: List.Cons({head}, t), {text})"
    names.lists.append(xs)
    return Statement([f"{xs} = {text}"], (xs,))


def tree(w: Writer, names: Names) -> Statement:
    t = w.name("t")
    leaf = f"Tree.Leaf({w.vector(names)})"
    text = leaf
    if w.chance(0.8):
        one, two = (w.rng.choice([*names.trees, leaf]) for _ in range(2))
        text = f"Tree.Node({one}, {w.number(names)}, {two})"
    if w.chance(0.3) and names.trees:
        other = w.rng.choice(names.trees)
        text = f"ta.cond({w.test(names)}, lambda: {text}, lambda: {other})"
    names.trees.append(t)
    return Statement([f"{t} = {text}"], (t,))
