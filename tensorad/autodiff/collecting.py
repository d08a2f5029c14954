"""How the adjoints of values are collected: kept in memory of their own, or passed straight on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tensorad.autodiff.adjoints.transposed import may_pass_on
from tensorad.autodiff.binding import bound_adjoints
from tensorad.autodiff.counting.operations import Operations, operations
from tensorad.autodiff.local.overrides import Rules
from tensorad.ir.tensor import Tensor

ACCUMULATE: Final = "accumulate"
PASS_ON: Final = "pass on"
_ROUNDS: Final = 4
"""So often the choices are gone through; each one lowers the count."""


@dataclass(frozen=True, eq=False)
class Collected:
    """How one value's adjoint is collected.

    Attributes:
        way: ACCUMULATE or PASS_ON.
        forced: whether it was asked for.
        counts: of the whole gradient, by way: the others stay as they are. Only ACCUMULATE where
            nothing can be passed on: of inputs, results, rules, loops, folds that are no sums.
    """

    value: Tensor
    way: str
    forced: bool
    counts: Mapping[str, Operations]


class Collecting:
    """The adjoints of `wrt`, collected one way or the other."""

    def __init__(
        self,
        heads: Mapping[Tensor, Tensor],
        wrt: Sequence[Tensor],
        values: Sequence[Tensor],
        rules: Rules,
    ) -> None:
        """Arguments as of `bound_adjoints`."""
        self.heads, self.wrt, self.values, self.rules = heads, wrt, values, rules
        self.given = [*heads, *heads.values(), *wrt, *values]
        self._counts: dict[frozenset[Tensor], Operations] = {}

    def adjoints(self, passed: Mapping[Tensor, None]) -> dict[Tensor, Tensor]:
        """By value, those that are passed on left out."""
        return bound_adjoints(self.heads, self.wrt, self.values, self.rules, passed)

    def may_pass_on(self, t: Tensor) -> bool:
        """Whether a value can do without an adjoint of its own."""
        asked = t in self.heads or t in self.wrt or t in self.rules
        return not asked and may_pass_on(t)

    def counted(self, passed: Mapping[Tensor, None]) -> Operations:
        """What the adjoints of `wrt` take beyond the values."""
        key = frozenset(passed)
        if key not in self._counts:
            found = self.adjoints(passed)
            self._counts[key] = operations([found[x] for x in self.wrt if x in found], self.given)
        return self._counts[key]

    def chosen(self, forced: Mapping[Tensor, str]) -> dict[Tensor, None]:
        """The values whose adjoints are passed on, so that the fewest operations are done.

        Where both ways do as many, nothing is stored.
        """
        passed = {t: None for t, way in forced.items() if way == PASS_ON}
        reached = self.adjoints({})
        open_ = [t for t in self.values if t in reached and t not in forced]
        free = [t for t in dict.fromkeys(open_[::-1]) if self.may_pass_on(t)]
        for _ in range(_ROUNDS):
            before = dict(passed)
            for t in free:
                without = {u: None for u in passed if u is not t}
                along = {**without, t: None}
                fewer = self.counted(along).total <= self.counted(without).total
                passed = along if fewer else without
            if passed.keys() == before.keys():
                break
        return passed

    def told(self, passed: Mapping[Tensor, None], forced: Mapping[Tensor, str]) -> list[Collected]:
        """Each value that something flows to, last to first, then `wrt`."""
        reached = self.adjoints({})
        inner = [t for t in self.values if t not in self.wrt and t in reached]
        found = []
        for t in dict.fromkeys((*inner[::-1], *[x for x in self.wrt if x in reached])):
            without = {u: None for u in passed if u is not t}
            counts = {ACCUMULATE: self.counted(without)}
            if self.may_pass_on(t):
                counts[PASS_ON] = self.counted({**without, t: None})
            way = PASS_ON if t in passed else ACCUMULATE
            found.append(Collected(t, way, t in forced, counts))
        return found
