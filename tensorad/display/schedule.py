"""What was decided about each kernel and what it will cost, as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from tensorad.codegen.cost.parallel_work import PARALLEL_COST, SHARED_COST
from tensorad.codegen.cost.predict import Prediction, predict
from tensorad.codegen.loops.ir import For, Kernel, LoopProgram
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.runtime.arguments import size_number
from tensorad.codegen.target import machine
from tensorad.codegen.target.peak_speeds import measured
from tensorad.display.style import page
from tensorad.errors import BindError
from tensorad.ir.analysis.decisions import Decision
from tensorad.ir.analysis.sizes import ASSUMED_EXTENT, bytes_of
from tensorad.ir.expr import Const, Expr, size_var
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import dim_expr, format_shape

_UNITS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_SHEET: Final = """\
.tensorad table.plan { border-collapse: collapse; margin: 2px 0 6px; }
.tensorad table.plan td { padding: 1px 1.2em 1px 0; vertical-align: top; text-align: left; }
.tensorad table.plan td + td { color: var(--ta-dim); }"""


@dataclass(frozen=True, eq=False)
class KernelReport:
    """One kernel: what was decided for it, and its prediction on this machine."""

    kernel: Kernel
    decisions: tuple[Decision, ...]
    prediction: Prediction
    seconds: float
    """At the limit on one thread."""
    limit: str
    """What bounds it: arithmetic, memory, or the caches."""

    @property
    def title(self) -> str:
        """What it stores."""
        stored = [f"{t.name} : {t.dtype} {format_shape(t.shape)}" for t in self.kernel.writes]
        return ", ".join(stored) or self.kernel.name

    @property
    def cost(self) -> str:
        """Its operations and bytes, and the time that they take at best."""
        p = self.prediction
        moved = f"{quantity(p.read)}B read, {quantity(p.written)}B written"
        return (
            f"{quantity(p.flops, spaced=False)} operations, {moved}: at least "
            f"{duration(self.seconds)} on one thread, bound by {self.limit}"
        )


class ScheduleReport:
    """The decisions about every kernel of a program; `str` and Jupyter show them."""

    def __init__(
        self, program: LoopProgram, decisions: Sequence[Decision], sizes: Mapping[str, int]
    ) -> None:
        self.machine = machine.current()
        self.sizes = _sizes(program, sizes)
        self.kernels = [self._kernel(k, decisions) for k in program.kernels]

    def _kernel(self, kernel: Kernel, decisions: Sequence[Decision]) -> KernelReport:
        made = dict.fromkeys((*kernel.writes, *kernel.scratch))
        inside = dict.fromkeys(t.name for t in kernel.scratch)
        own = [d for d in decisions if any(t in made or t.name in inside for t in d.about)]
        distinct = list({(d.what, d.why): d for d in own}.values())
        distinct.append(_threads(kernel))
        p = predict(kernel, self.sizes)
        flops, read = measured(self.machine)
        arithmetic, memory = p.flops / flops, (p.read + p.written) / read
        scratch = sum(bytes_of(t, self.sizes) for t in kernel.scratch)
        if scratch:
            named = ", ".join([t.name for t in kernel.scratch])
            what = f"{quantity(scratch)}B of scratch per thread"
            distinct.append(Decision(kernel.scratch, what, f"for {named}"))
        if p.read + p.written <= self.machine.l3:
            limit = "arithmetic" if arithmetic > memory / 4 else "the caches"
            return KernelReport(kernel, tuple(distinct), p, max(arithmetic, memory / 4), limit)
        limit = "arithmetic" if arithmetic > memory else "memory"
        return KernelReport(kernel, tuple(distinct), p, max(arithmetic, memory), limit)

    def _head(self) -> Iterator[str]:
        yield str(self.machine)
        flops, read = measured(self.machine)
        best = f"{quantity(flops, spaced=False)} operations/s, {quantity(read)}B/s from memory"
        yield f"one core at best: {best}"
        if self.sizes:
            yield ", ".join([f"{s} = {n}" for s, n in self.sizes.items()])

    def __str__(self) -> str:
        lines = [f"# {line}" for line in self._head()]
        for k in self.kernels:
            lines.append(k.title)
            lines.extend([f"  {d.what}{': ' * bool(d.why)}{d.why}" for d in k.decisions])
            lines.append(f"  {k.cost}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<ScheduleReport: {len(self.kernels)} kernels>"

    def comments(self) -> dict[Kernel, list[str]]:
        """Per kernel the lines that go before its loops."""
        return {
            k.kernel: [
                *[f"#   {d.what}{': ' * bool(d.why)}{d.why}" for d in k.decisions],
                f"#   {k.cost}",
            ]
            for k in self.kernels
        }

    def _repr_html_(self) -> str:
        head = "<br>".join([escape(line) for line in self._head()])
        cards = [f'<div class="op dim">{head}</div>', *[_card(k) for k in self.kernels]]
        return f"<style>{_SHEET}</style>{page(''.join(cards))}"


def _threads(kernel: Kernel) -> Decision:
    """What the loops say about threads."""
    loops = [s for s in statements(kernel.body) if isinstance(s, For)]
    shared = [s for s in loops if s.kind == "parallel"]
    why = _why_shared([s.work for s in shared])
    if not why:
        return Decision(kernel.writes, "one thread", "too little work, or no loop to share")
    named = ", ".join(dict.fromkeys(s.axis.name for s in shared))
    return Decision(kernel.writes, f"threads share {named}", why)


def _why_shared(works: Sequence[Expr | None]) -> str:
    """When threads share loops of so many cycles, as a call decides; "" if never."""
    known = [int(w.value) for w in works if isinstance(w, Const)]
    if any(w is None for w in works):
        return "as asked for, whatever there is to do"
    if len(known) < len(works):
        return "where the work at a call's sizes pays for it"
    most = max(known, default=0)
    if most < SHARED_COST:
        return ""
    return "the work pays for waking them" if most >= PARALLEL_COST else "while they are awake"


def _card(k: KernelReport) -> str:
    name, colon, rest = escape(k.title).partition(" : ")
    rows = "".join(
        [f"<tr><td>{escape(d.what)}</td><td>{escape(d.why)}</td></tr>" for d in k.decisions]
    )
    table = f'<table class="plan">{rows}</table>' if rows else ""
    return (
        f'<div class="op"><div class="head"><b>{name}</b>{colon}{rest}</div>{table}'
        f'<div class="dim">{escape(k.cost)}</div></div>'
    )


def _sizes(program: LoopProgram, given: Mapping[str, int]) -> dict[Expr, int]:
    """A number for every symbolic size: given, or assumed."""
    tensors = [t for k in program.kernels for t in (*k.reads, *k.writes, *k.scratch)]
    dims = [dim_expr(n) for t in (*program.inputs, *program.outputs, *tensors) for n in t.shape]
    used = sizes_in(*dims)
    found: dict[Expr, int] = dict.fromkeys(used, ASSUMED_EXTENT)
    for name, number in given.items():
        size = size_var(name)
        if size not in found:
            raise BindError(
                f"the program has no size {name!r}.",
                where=f"report({name}={number})",
                hint=f"its sizes are {', '.join(map(str, found))}." if found else "it has none.",
            )
        found[size] = size_number(name, number)
    return found


def quantity(x: float, *, spaced: bool = True) -> str:
    """A number with three digits and a prefix for the unit that follows."""
    for factor, unit in _UNITS:
        if x >= factor:
            return f"{x / factor:.3g} {unit}"
    return f"{x:.3g}{' ' * spaced}"


def duration(seconds: float) -> str:
    """A time with three digits."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
