"""Functions read from the text of LLVM IR, as far as drivers, pools and entries use it.

The text is the one that is compiled. Only functions that run are read; an instruction that is not
known here is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

Operand = int | float | str
"""A number, or the name of a register."""


class Instruction(NamedTuple):
    """One instruction.

    Attributes:
        kind: what it does; `out`: the register that it sets, or "".
        operands: what it reads; `words`: types, orders of memory, labels, a called function.
        text: for messages.
    """

    kind: str
    out: str
    operands: tuple[Operand, ...]
    words: tuple[str, ...]
    text: str

    @property
    def reads(self) -> list[str]:
        """Registers that it reads; those of a phi are read by the branch to it."""
        return [o for o in self.operands if isinstance(o, str)] if self.kind != "phi" else []


@dataclass(eq=False)
class Function:
    """A function as a list of instructions.

    Attributes:
        parameters: registers that a call sets.
        code: blocks in order, one after the other.
        starts: label -> the place of the block's first instruction.
        live: for each place the registers that are read from there on.
    """

    name: str
    parameters: tuple[str, ...]
    code: tuple[Instruction, ...]
    starts: Mapping[str, int]
    live: tuple[tuple[str, ...], ...]


class Text:
    """The functions of some modules."""

    def __init__(self, text: str, globals_: Mapping[str, int]) -> None:
        """`globals_`: addresses of what has a name; functions that are defined get their own."""
        found = re.findall(r"^define [^@]*@(\w+)\((.*?)\)[^{\n]*\{\n(.*?)^\}", text, re.S | re.M)
        self._texts = {name: (parameters, body) for name, parameters, body in found}
        self._read: dict[str, Function] = {}
        self.addresses = {name: (1 << 60) + 16 * n for n, name in enumerate(self._texts)}
        self.addresses.update(globals_)
        self.names = {n: name for name, n in self.addresses.items() if name in self._texts}

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def function(self, name: str) -> Function:
        """The function of this name."""
        if name not in self._read:
            self._read[name] = self._function(name, *self._texts[name])
        return self._read[name]

    def _function(self, name: str, parameters: str, body: str) -> Function:
        code: list[Instruction] = []
        starts: dict[str, int] = {}
        for line in _lines(body):
            if line.endswith(":"):
                starts[line[:-1]] = len(code)
            else:
                if not code and not starts:
                    starts[""] = 0
                code.append(self._instruction(line))
        names = tuple([p.split()[-1] for p in _parts(parameters)])
        live = _live(code, starts)
        return Function(name, names, tuple(code), starts, live)

    def _operand(self, token: str) -> Operand:
        token = token.split()[-1]
        if token.startswith("%"):
            return token
        if token.startswith("@"):
            return self.addresses[token[1:]]
        if token in _NAMED:
            return _NAMED[token]
        return float(token) if "." in token or "e" in token else int(token)

    def _instruction(self, line: str) -> Instruction:
        out, _, right = line.partition(" = ") if line.startswith("%") else ("", "", line)
        if right.startswith("call "):
            return self._call(out, right, line)
        if right.startswith("phi "):
            found = re.findall(r"\[(\S+), %(\w+)\]", right)
            values = tuple([self._operand(v) for v, _ in found])
            return Instruction("phi", out, values, tuple([label for _, label in found]), line)
        for pattern, kind in _FORMS:
            match = pattern.fullmatch(right)
            if match:
                named = match.groupdict()
                operands = [self._operand(v) for k, v in named.items() if k[0] == "v"]
                words = [v or "" for k, v in named.items() if k[0] == "w"]
                return Instruction(kind, out, tuple(operands), tuple(words), line)
        raise NotImplementedError(line)

    def _call(self, out: str, right: str, line: str) -> Instruction:
        match = re.fullmatch(r"call [^@%]*?([@%][\w.]+)\((.*)\)", right)
        assert match is not None, line
        callee, rest = match.groups()
        operands = [self._operand(p) for p in _parts(rest)]
        if callee.startswith("%"):
            return Instruction("call", out, (*operands, callee), ("",), line)
        return Instruction("call", out, tuple(operands), (callee[1:],), line)


_NAMED: Final = {"true": 1, "false": 0, "null": 0, "zeroinitializer": 0}
_V, _T = r"[^\s,]+", r"\w+"
_FORMS: Final = [
    (re.compile(pattern), kind)
    for pattern, kind in (
        (rf"getelementptr (?P<w0>{_T}), ptr (?P<v0>{_V}), i64 (?P<v1>{_V})", "getelementptr"),
        (rf"load atomic (?P<w0>{_T}), ptr (?P<v0>{_V}) (?P<w1>\w+), align \d+", "load atomic"),
        (rf"load (?P<w0>{_T}), ptr (?P<v0>{_V})(, align 1)?", "load"),
        (
            rf"store atomic (?P<w0>{_T}) (?P<v0>{_V}), ptr (?P<v1>{_V}) (?P<w1>\w+), align \d+",
            "store atomic",
        ),
        (rf"store (?P<w0>{_T}) (?P<v0>{_V}), ptr (?P<v1>{_V})", "store"),
        (
            rf"atomicrmw (?P<w2>\w+) ptr (?P<v0>{_V}), (?P<w0>{_T}) (?P<v1>{_V}) (?P<w1>\w+)",
            "atomicrmw",
        ),
        (
            rf"cmpxchg ptr (?P<v0>{_V}), (?P<w0>{_T}) (?P<v1>{_V}), \w+ (?P<v2>{_V})"
            r" (?P<w1>\w+) (?P<w2>\w+)",
            "cmpxchg",
        ),
        (rf"extractvalue \{{.*\}} (?P<v0>{_V}), (?P<w0>\d)", "extractvalue"),
        (rf"[if]cmp (?P<w1>\w+) (?P<w0>{_T}) (?P<v0>{_V}), (?P<v1>{_V})", "compare"),
        (rf"select i1 (?P<v0>{_V}), \w+ (?P<v1>{_V}), \w+ (?P<v2>{_V})", "select"),
        (rf"br label %(?P<w0>{_T})", "jump"),
        (rf"br i1 (?P<v0>{_V}), label %(?P<w0>{_T}), label %(?P<w1>{_T})", "branch"),
        (rf"ret \w+ (?P<v0>{_V})", "return"),
        (r"ret void", "return"),
        (r"alloca (?P<w0>.*?)(, align \d+)?", "alloca"),
        (
            rf"(?P<w1>zext|trunc|inttoptr|ptrtoint|uitofp|fptoui) (?P<w2>{_T}) (?P<v0>{_V})"
            rf" to (?P<w0>{_T})",
            "convert",
        ),
        (
            r"(?P<w1>add|sub|mul|udiv|urem|and|or|xor|shl|lshr|fmul|fdiv)"
            rf" (?P<w0>{_T}) (?P<v0>{_V}), (?P<v1>{_V})",
            "arithmetic",
        ),
    )
]


def _lines(body: str) -> list[str]:
    """Instructions and labels; a call may go over several lines."""
    found: list[str] = []
    for line in body.splitlines():
        text = line.split(";")[0].strip()
        if found and found[-1].count("(") > found[-1].count(")"):
            found[-1] += " " + text
        elif text:
            found.append(text)
    return found


def _parts(text: str) -> list[str]:
    return [p.strip() for p in text.split(",") if p.strip()]


def _live(code: list[Instruction], starts: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """Backwards over the places until nothing changes; a jump reads what phis take from it."""
    label_at = {n: label for label, n in starts.items()}
    blocks: list[str] = []
    for n in range(len(code)):
        blocks.append(label_at.get(n, blocks[-1] if blocks else ""))
    live: list[set[str]] = [set() for _ in range(len(code) + 1)]
    changed = True
    while changed:
        changed = False
        for n in reversed(range(len(code))):
            after: set[str] = set()
            if code[n].kind in ("jump", "branch"):
                for label in [w for w in code[n].words if w]:
                    after |= _entered(code, starts[label], blocks[n], live)
            elif code[n].kind != "return":
                after |= live[n + 1]
            before = (after - {code[n].out}) | set(code[n].reads)
            changed |= before != live[n]
            live[n] = before
    return tuple([tuple(sorted(names)) for names in live])


def _entered(code: list[Instruction], start: int, source: str, live: list[set[str]]) -> set[str]:
    """What a jump from the block `source` needs of registers."""
    taken: set[str] = set()
    at = start
    while code[at].kind == "phi":
        chosen = code[at].operands[code[at].words.index(source)]
        taken |= {chosen} if isinstance(chosen, str) else set()
        at += 1
    return taken | (live[at] - {i.out for i in code[start:at]})
