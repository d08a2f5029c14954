"""How the adjoints of a function's values are collected, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorad.autodiff.collecting import ACCUMULATE, PASS_ON, Collected
from tensorad.autodiff.local.flows import derivation_inputs
from tensorad.ir.tensor import Tensor
from tensorad.ir.text.blocks import value_text
from tensorad.ir.text.program import tree_leaves
from tensorad.program.modules import ModuleFunction


@dataclass(frozen=True)
class AdjointOfValue:
    """How one value's adjoint is collected.

    Attributes:
        name: the value's.
        type: the adjoint's.
        collected: by which way, and what either way does; None: nobody asked for it.
        increments: what reads the value, last first; "" is the head of a result.
        finalized: what the value is computed from, to whose adjoints it goes.
    """

    name: str
    type: str
    collected: Collected | None
    increments: tuple[str, ...]
    finalized: tuple[str, ...]

    def __str__(self) -> str:
        given = [n or "its head" for n in self.increments]
        to = ", ".join(self.finalized)
        if self.collected is None:
            return f"{self.name}: not asked for, increments are ignored"
        forced = ", as asked" if self.collected.forced else ""
        if self.collected.way == PASS_ON:
            lines = [f"{self.name}: passed on{forced}", f"  increment   go on to {to}: "]
            lines[-1] += f"those of {', '.join(given)}"
        else:
            lines = [
                f"{self.name}: accumulated{forced}",
                f"  initialize  {self.name}_adjoint : {self.type}, by the increment of {given[0]}",
                *[f"  increment   by {n}" for n in given[1:]],
                f"  finalize    {f'goes to {to}' if to else 'returned'}",
            ]
        counts = self.collected.counts
        if len(counts) > 1:
            lines.append(f"  accumulated {counts[ACCUMULATE]}")
            lines.append(f"  passed on   {counts[PASS_ON]}")
        return "\n".join(lines)


@dataclass(frozen=True)
class AdjointsExplanation:
    """How adjoints are collected: `values`, the last one of the function first."""

    function: str
    values: tuple[AdjointOfValue, ...]

    def __getitem__(self, name: str) -> AdjointOfValue:
        return next(v for v in self.values if v.name == name)

    def __str__(self) -> str:
        return "\n".join([f"adjoints of {self.function}", *map(str, self.values)])


def adjoints_explanation(f: ModuleFunction, found: Sequence[Collected]) -> AdjointsExplanation:
    """The words for what is collected, and for parameters that nobody asked for."""
    names = {t: n for n, tree in f.record.tensors.items() for t in tree_leaves(tree)}
    names.update({t: n for n, t in f.record.tensors.items() if isinstance(t, Tensor)})
    readers: dict[Tensor, dict[str, None]] = {t: {} for t in names}
    inputs: dict[Tensor, list[str]] = {}
    for t in list(names)[::-1]:
        read = [u for u in derivation_inputs(t.op, {}) if u in names]
        inputs[t] = list(dict.fromkeys([names[u] for u in read]))
        for u in read:
            readers[u][names[t]] = None
    told = {c.value: c for c in found}
    rest = [t for t in f.parameters if t not in told and t.dtype.is_float]
    results = dict.fromkeys(f.results)
    values = []
    for t in (*told, *rest):
        moved = [n for n in readers[t] if any(names[c] == n for c in told)]
        given = (*[""][: t in results], *moved)
        own = AdjointOfValue(names[t], value_text(t), told.get(t), given or ("",), tuple(inputs[t]))
        values.append(own)
    return AdjointsExplanation(f.name, tuple(values))
