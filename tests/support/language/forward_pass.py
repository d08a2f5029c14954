"""A user's pass: forward mode by pairs, on the terms of programs.

A tensor x becomes the pair (x, dx); functions, branches, references and loops stay what they are.
"""

from __future__ import annotations

from dataclasses import replace

from tensorad.language import parse
from tensorad.language.terms import (
    Apply,
    Atom,
    Binding,
    Block,
    Field,
    Function,
    If,
    Literal,
    Loop,
    Match,
    Name,
    Operator,
    Program,
    Term,
    Tuple,
    atoms,
)

RULES = {  # y and dy of u, v, du, dv
    "+": ("u + v", "du + dv"),
    "-": ("u - v", "du - dv"),
    "*": ("u * v", "du * v + u * dv"),
    "sin": ("sin(u)", "cos(u) * du"),
    "tanh": ("tanh(u)", "(1.0 - tanh(u) * tanh(u)) * du"),
    "sum": ("sum(u)", "sum(du)"),
    ">": ("u > v", "0.0"),
}


def forward(p: Program) -> Program:
    """before: f(x, ...); after: f((x, dx), ...), which results in (y, dy)."""
    text = [f"def d_{n}(a, b) {{\n u = a[0]\n v = b[0]\n du = a[1]\n dv = b[1]\n ({y}, {dy})\n}}"
            for n, (y, dy) in enumerate(RULES.values())]  # fmt: skip
    rules = parse("\n".join(text)).functions
    own = {n: replace(f, block=block(f.block)) for n, f in p.functions.items()}
    return Program({**rules, **own}, p.sums)


def block(b: Block) -> Block:
    """The bindings of pairs; numbers get pairs of their own."""
    found: list[Binding] = []

    def pair(a: Atom) -> Atom:
        if isinstance(a, Name) or a.value == ():
            return a
        found.append(Binding((f"pair_{len(found)}",), Tuple((a, Literal(0.0)))))
        return Name(found[-1].names[0])

    for one in b.bindings:
        made = term(one.term, {a: pair(a) for a in atoms(one.term)}, found)
        found.append(replace(one, term=made))
    result = pair(b.result)
    return Block(tuple(found), result)


def term(t: Term, pairs: dict[Atom, Atom], found: list[Binding]) -> Term:
    """The term on pairs."""
    match t:
        case Operator():
            both = [pairs[a] for a in t.args]
            return Apply(Name(f"d_{list(RULES).index(t.name)}"), (both[0], both[-1]))
        case Function():
            return replace(t, block=block(t.block))
        case If():
            found.append(Binding((f"test_{len(found)}",), Field(pairs[t.condition], 0)))
            chosen = Name(found[-1].names[0])
            return replace(t, condition=chosen, then=block(t.then), orelse=block(t.orelse))
        case Match():
            return replace(t, cases=tuple([replace(c, block=block(c.block)) for c in t.cases]))
        case Loop():
            carries = tuple([(n, pairs[a]) for n, a in t.carries])
            return replace(t, carries=carries, body=block(t.body))
    changed = {n: _on_pairs(v, pairs) for n, v in vars(t).items()}
    return replace(t, **changed)


def _on_pairs(v: object, pairs: dict[Atom, Atom]) -> object:
    if isinstance(v, tuple):
        return tuple([_on_pairs(part, pairs) for part in v])
    return pairs.get(v, v) if isinstance(v, (Name, Literal)) else v
