"""Programs as text, one binding a line."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.errors import InternalError
from tensorad.language import terms
from tensorad.language.operators import SIGNS
from tensorad.language.terms import (
    Alias,
    Apply,
    Atom,
    Binding,
    Block,
    Case,
    Derive,
    Field,
    Formula,
    Function,
    If,
    Inject,
    Loop,
    Match,
    Name,
    NewRef,
    Operator,
    Program,
    Read,
    Term,
    Tuple,
    Write,
)
from tensorad.language.types import TypeText, tuple_text, type_text
from tensorad.process import deep_calls


def program_text(p: Program) -> str:
    """The text that `parse` reads."""
    lines: list[str] = []
    for name, alternatives in p.sums.items():
        texts = [
            a.tag + (f"({', '.join(map(type_text, a.fields))})" if a.fields else "")
            for a in alternatives
        ]
        lines.append(f"data {name} = {' | '.join(texts)}\n")
    with deep_calls.changed():
        lines += [
            f"def {name}{params_text(f)} {block_text(f.block, '')}\n"
            for name, f in p.functions.items()
        ]
    return "\n".join(lines)


def params_text(f: Function) -> str:
    """(x : float32[n], f) -> float32[n]."""
    params = [n if t is None else f"{n} : {type_text(t)}" for n, t in f.params]
    return f"({', '.join(params)}){_result(f.result)}"


def _result(t: TypeText | None) -> str:
    return "" if t is None else f" -> {type_text(t)}"


def block_text(b: Block, indent: str) -> str:
    """{ x }, or its lines between braces."""
    bindings, last = b.bindings, atom_text(b.result)
    if bindings and not bindings[-1].is_named and bindings[-1].names == (last,):
        last = term_text(bindings[-1].term, f"{indent}  ")
        bindings = bindings[:-1]
    if not bindings and "\n" not in last:
        return "{ " + last + " }"
    lines = [f"{indent}  {binding_text(one, f'{indent}  ')}" for one in bindings]
    is_effect = bool(bindings) and not bindings[-1].names and last == "()"
    lines += [] if is_effect and isinstance(bindings[-1].term, Write) else [f"{indent}  {last}"]
    return "\n".join(["{", *lines, indent + "}"])


def binding_text(b: Binding, indent: str) -> str:
    """y = term, on the first line without the indent."""
    text = term_text(b.term, indent)
    if isinstance(b.term, (Formula, Write)) or not b.names:
        return text
    return f"{', '.join(b.names)} = {text}"


def atom_text(a: Atom) -> str:
    """A name or a number."""
    return a.name if isinstance(a, Name) else "()" if a.value == () else str(a.value)


def _listed(some: Sequence[Atom]) -> str:
    return ", ".join(map(atom_text, some))


def term_text(term: Term, indent: str) -> str:
    """The text of a term; that of its blocks has further lines."""
    match term:
        case Formula():
            return term.text
        case Operator():
            return operator_text(term)
        case Alias():
            return atom_text(term.of)
        case Tuple():
            return tuple_text([atom_text(a) for a in term.parts])
        case Field():
            return f"{atom_text(term.of)}[{term.index}]"
        case Apply():
            return f"{atom_text(term.function)}({_listed(term.args)})"
        case NewRef():
            return f"ref({atom_text(term.content)})"
        case Read():
            return f"read({atom_text(term.ref)})"
        case Write():
            return f"{atom_text(term.ref)} := {atom_text(term.content)}"
        case Inject():
            return f"inject {term.tag}" + (f"({_listed(term.args)})" if term.args else "")
        case Derive():
            return f"{term.kind}({atom_text(term.function)})"
    return with_blocks_text(term, indent)


def with_blocks_text(term: Term, indent: str) -> str:
    """The text of a term that has blocks."""
    match term:
        case Function():
            return f"fn {params_text(term)} {block_text(term.block, indent)}"
        case If():
            return (
                f"if {atom_text(term.condition)} {block_text(term.then, indent)}"
                f" else {block_text(term.orelse, indent)}"
            )
        case Match():
            return match_text(term, indent)
        case Loop():
            return loop_text(term, indent)
    raise InternalError(f"{type(term).__name__} has no text")


def operator_text(term: Operator) -> str:
    """x * y, -x, or sum(x, axis=0)."""
    args = [atom_text(a) for a in term.args]
    if term.name in SIGNS:
        signed = [f"({a})" if n == 0 and a.startswith("-") else a for n, a in enumerate(args)]
        return f" {term.name} ".join(signed) if len(args) == 2 else f"-{args[0]}"
    options = [f"{n}={option_text(v)}" for n, v in term.options]
    return f"{term.name}({', '.join([*args, *options])})"


def option_text(value: object) -> str:
    """0, True, "same" or (0, 1)."""
    if isinstance(value, tuple):
        return tuple_text([option_text(v) for v in value])
    return f'"{value}"' if isinstance(value, str) else str(value)


def match_text(term: Match, indent: str) -> str:
    """match xs { case nil { ... } }, a case a line."""
    inner = f"{indent}  "
    lines = [f"{inner}case {c.tag}{_fields(c)} {block_text(c.block, inner)}" for c in term.cases]
    return "\n".join([f"match {atom_text(term.of)} {{", *lines, indent + "}"])


def loop_text(term: Loop, indent: str) -> str:
    """loop i in [0, n) carry (s = a) { ... }."""
    carries = ", ".join([f"{n} = {atom_text(a)}" for n, a in term.carries])
    body = block_text(term.body, indent)
    if term.test is not None:
        return f"loop carry ({carries}) while {block_text(term.test, indent)} do {body}"
    trips = atom_text(term.trips) if term.trips is not None else ""
    return f"loop {term.counter} in [0, {trips}) carry ({carries}) {body}"


def _fields(c: Case) -> str:
    return f"({', '.join(c.fields)})" if c.fields else ""


terms.program_text.fill(program_text)
