"""What a reversed loop is made of: what the sweep over the block found, formulas, params."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tensorad.autodiff.control.heads import BlockAdjoints, Head, Seed
from tensorad.autodiff.control.pieces import with_dtype
from tensorad.autodiff.control.rows import Row
from tensorad.ir.tensor import Tensor

Pairs = list[tuple[Tensor, Tensor]]


@dataclass
class Params:
    """Params of a reversed loop, with their operands, and the results of the carries among them."""

    carries: Pairs = field(default_factory=list)
    results: list[Tensor] = field(default_factory=list)
    scanned: Pairs = field(default_factory=list)
    fixed: Pairs = field(default_factory=list)


@dataclass(frozen=True)
class On:
    """A switch that a reversed loop carries."""

    param: Tensor
    first: Tensor
    result: Tensor


@dataclass(frozen=True)
class Swept:
    """What the sweep over a loop's block found.

    Attributes:
        heads: adjoints of next carries, by the param of the forward block.
        rows: (head of what is saved of an iteration, all its rows outside).
        wrt: params that derivatives flow to, each with an adjoint and a switch in `found`.
        starts: what some of the adjoints have been added to.
    """

    heads: Mapping[Tensor, Seed]
    rows: Sequence[tuple[Seed, Head]]
    wrt: Sequence[Tensor]
    found: BlockAdjoints
    starts: Mapping[Tensor, Tensor] = field(default_factory=dict)

    @cached_property
    def adjoints(self) -> dict[Tensor, Tensor]:
        """Those that there are."""
        pairs = zip(self.wrt, self.found.adjoints, strict=True)
        return {p: with_dtype(t, p.dtype) for p, t in pairs if t is not None}

    def switch(self, p: Tensor, *, by_indices: bool = False) -> Tensor | None:
        """Where the adjoint of a param is on; None: everywhere."""
        found = self.found.reached if by_indices else self.found.switches
        return found[self.number_of(p)]()

    def number(self, p: Tensor) -> Tensor | None:
        """How many contributions reach each element of the adjoint of a param."""
        return self.found.numbers[self.number_of(p)]()

    def number_of(self, p: Tensor) -> int:
        return next(n for n, q in enumerate(self.wrt) if q is p)

    @property
    def told(self) -> dict[Tensor, Tensor]:
        """Params that tell where heads of carries are on -> the carries."""
        return {s.on: p for p, s in self.heads.items() if s.on is not None}

    @property
    def told_rows(self) -> dict[Tensor, Head]:
        """Params that tell where heads of rows are on."""
        return {s.on: h for s, h in self.rows if s.on is not None}


@dataclass
class Backwards:
    """The formulas of a reversed block.

    Attributes:
        heads: adjoints that it carries, by the param of the forward block; each
            has an adjoint.
        rows: params for what has rows outside, with these.
        adjoints: of params, after this iteration.
        parts: of adjoints of fixed params, one row in this iteration.
        switches: that it carries.
    """

    heads: dict[Tensor, Tensor] = field(default_factory=dict)
    rows: Pairs = field(default_factory=list)
    adjoints: dict[Tensor, Tensor] = field(default_factory=dict)
    parts: list[tuple[Tensor, Row]] = field(default_factory=list)
    switches: list[On] = field(default_factory=list)

    @property
    def values(self) -> list[Tensor]:
        """All that an iteration makes."""
        parts = [r.value for _, r in self.parts]
        return [*self.adjoints.values(), *parts, *[s.result for s in self.switches]]

    def with_values(self, values: Sequence[Tensor]) -> Backwards:
        """The same with others in place of `values`."""
        left = iter(values)
        return replace(
            self,
            adjoints={p: next(left) for p in self.adjoints},
            parts=[(p, replace(r, value=next(left))) for p, r in self.parts],
            switches=[replace(s, result=next(left)) for s in self.switches],
        )

    @property
    def carries(self) -> list[Tensor]:
        """The params that it carries."""
        return [*self.heads.values(), *[s.param for s in self.switches]]

    @property
    def own(self) -> list[Tensor]:
        """Params that stand for no tensor of the forward block."""
        return [*self.carries, *[p for p, _ in self.rows]]
