"""Leaves of references that come again: carried by loops, given to and by calls of recursions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tensorad.ir.tensor import Tensor
from tensorad.program.data.function_types import FunctionsType
from tensorad.program.leaf_types import LeafTypes
from tensorad.program.references.contents import with_leaves_at
from tensorad.program.references.frames import Cell, Frame, Held, read, write
from tensorad.program.references.joins import Slot, changed, holding
from tensorad.program.trees import LEAF, Flat
from tensorad.program.values import alone


class Slots(LeafTypes):
    """Leaves of references of outside that are written each time a part of a program runs.

    Attributes:
        slots: the leaves; `values` what they are at the end.
        n_opened: how often a tree got leaves, where it has other functions or references.
    """

    def __init__(self, name: str, has_own_types: bool = False) -> None:
        """
        Args:
            has_own_types: functions are of types that take others: of those made for these leaves,
                or of one that is open, that of a loop around.
        """
        super().__init__(Flat([], [], LEAF), name)
        self._has_own_types = has_own_types
        self._met_others = False  # numbers took other dtypes, where a call was written down
        self.slots: list[Slot] = []
        self.values: list[object] = []
        self.n_opened = 0

    def find(self, written: Frame, params: Sequence[Tensor]) -> bool:
        """Note what a part of a program leaves, in its frame, which is closed; whether it is of the
        types that it found.

        Args:
            params: what the leaves were at the start.
        Raises:
            DefinitionError: it leaves another structure than it finds.
        """
        slots, after, is_opened = changed(written, self.held(params))
        self.n_opened += is_opened
        if self._take(slots) or is_opened:
            return False
        places = [(after[c], after[c].at(path)) for c, path in self.slots]
        self.values = [held.leaves[n] for held, n in places]
        is_other = self.join(self.values) or self._met_others
        self._met_others = False
        return not (self.promote_to([held.dtypes[n] for held, n in places]) or is_other)

    def _take(self, slots: Sequence[Slot]) -> bool:
        """Let these leaves come again, too; whether one is new."""
        new = [s for s in slots if s not in self.slots]
        if not new:
            return False
        self.slots += new
        held = [(cell.held, cell.held.at(path)) for cell, path in new]
        flat = Flat([h.leaves[n] for h, n in held], [path for _, path in new], LEAF)
        self.add(flat, [h.dtypes[n] for h, n in held])
        for n in range(len(self.own) - len(new), len(self.own)) if self._has_own_types else ():
            own = self.own[n]
            if isinstance(own, FunctionsType) and not own.is_open:
                made = self._new(self.flat.paths[n], self.flat.leaves[n])
                self.own[n] = self.dtypes[n] = made
        return True

    @property
    def n_chosen(self) -> int:
        """How many functions are of the types of these leaves so far."""
        return sum([len(t.chosen) for t in self.dtypes if isinstance(t, FunctionsType)])

    def held(
        self, values: Sequence[Tensor], otherwise: Mapping[Cell, Held] = MappingProxyType({})
    ) -> dict[Cell, Held]:
        """What references hold if the leaves are these; `otherwise`: see `holding`."""
        pairs = zip(self.own, self.dtypes, strict=True)
        known = [o if o.is_weak and d is alone(o) else d for o, d in pairs]
        return holding(self.slots, values, known, otherwise)

    def now(self) -> list[Tensor]:
        """What the leaves are here, as tensors."""
        held = self._opened()
        places = [(held[c], held[c].at(path)) for c, path in self.slots]
        met = [h.dtypes[n] for h, n in places]
        others = [d if d is not own else None for d, own in zip(met, self.own, strict=True)]
        self._met_others |= self.promote_to(others)
        return self.tensors([h.leaves[n] for h, n in places])

    def store(self, results: Sequence[Tensor]) -> None:
        """Let the references hold these from here on."""
        for cell, after in self.held(results, self._opened()).items():
            write(cell, after)

    def _opened(self) -> dict[Cell, Held]:
        """What references hold here, functions in the places of leaves being leaves."""
        paths: dict[Cell, list[str]] = {}
        for cell, path in self.slots:
            paths.setdefault(cell, []).append(path)
        return {cell: with_leaves_at(read(cell), cell.name, own) for cell, own in paths.items()}

    def numbers(self, params: Sequence[Tensor]) -> list[Tensor]:
        """The parameters that stand for Python numbers, and have met nothing else so far."""
        return [p for n, p in enumerate(params) if self.is_number(n)]
