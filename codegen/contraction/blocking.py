"""How a contraction is run: lanes, register tiles, panels, blocks."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import Final, Literal

from tensorad.codegen.contraction.gapped_lanes import stretched
from tensorad.codegen.contraction.operand_layout import in_place
from tensorad.codegen.contraction.recognise import Contraction, Operand, is_symbolic, size
from tensorad.codegen.contraction.register_tiles import Tile, covering_tile, lane_tiles
from tensorad.codegen.loops.index_ranges import among
from tensorad.ir.expr import Axis

LITTLE_WORK: Final = 1 << 23
MUCH_WORK: Final = 1 << 27
"""Points up to which equal tiles may be much smaller than the largest, and a little smaller."""

SPARE: Final = 1 / 64
"""The part of the time for which several kinds of tiles become one."""

Mode = Literal["place", "panel", "relayout", "gaps"]


@dataclass(frozen=True, eq=False)
class Blocking:
    """How a contraction is run.

    Attributes:
        rows, lanes: the operands that are broadcast and that lie in vectors.
        group: the own axes of `lanes` that are flattened into lanes, in order.
        width: elements of one register.
        panel: lanes that one iteration handles.
        registers: registers of lanes of a full tile.
        most: rows of a tile at most, by its registers.
        scale: the machine's registers in one of ours.
        units: multiply-adds of its registers that begin in a cycle.
        mode: vectors loaded from the operand itself, from a packed panel in the thread's
            scratch memory, or from a copy of the tensor with the lanes innermost; "gaps": from
            the operand or its window as it lies, and lanes between its rows are of no use.
        rows_mode: the same for the broadcast operand ("panel" is a copy of all its points).
        split, block: reduce axes before number `split` and blocks of that one are outer loops.
        by_rows: several threads share the row tiles, and all lanes where those are packed;
            otherwise panels and batches.
        rows_awake: threads that are awake share the row tiles of the only panel.
        together: panels of a product that take a block of the reduce axes before any takes the
            next.
        by_blocks: the copy of the lanes' operand is made for each block, in the thread's scratch.
        inside: it runs in loops around it: copies are scratch, and threads share nothing.
        pitch: elements between neighbours along each axis of `group`, if there are gaps.
        sliver: lanes that lie side by side in a packed panel; 0: all of them.
        strip: steps of the only reduce axis that `strip_rows` rows, whole tiles, take before the
            next steps; 0: each tile takes all steps at once.
    """

    contraction: Contraction
    rows: Operand
    lanes: Operand
    group: tuple[Axis, ...]
    width: int
    panel: int
    registers: int
    most: tuple[int, ...]
    scale: int
    units: int
    mode: Mode
    rows_mode: Mode
    split: int
    block: int
    by_rows: bool
    parallel: bool
    rows_awake: bool = False
    together: int = 1
    by_blocks: bool = False
    inside: bool = False
    pitch: tuple[int, ...] = ()
    sliver: int = 0
    strip: int = 0
    strip_rows: int = 0

    @property
    def outer(self) -> tuple[Axis, ...]:
        """Output axes around the panels: the batch, and those of the lanes not flattened."""
        return (*self.contraction.batch, *self.others)

    @property
    def others(self) -> tuple[Axis, ...]:
        """Axes of the lanes that are not flattened."""
        return tuple([a for a in self.lanes.axes if not among(a, self.group)])

    @property
    def beside(self) -> int:
        """Panels of each product of the batch."""
        return prod(size(a) for a in self.others) * ceil(self.flat / self.panel)

    @property
    def shared(self) -> int:
        """Groups of panels that take blocks together, of all products: what threads share."""
        return prod(size(a) for a in self.contraction.batch) * ceil(self.beside / self.together)

    @property
    def flat(self) -> int:
        """Lanes in all."""
        return prod(size(a) for a in self.group)

    @property
    def whole(self) -> bool:
        """Whether one block has all points of the reduce axes, whatever their sizes."""
        reduced = self.contraction.reduced
        if not is_symbolic(reduced):
            return self.blocks == 1
        return self.mode != "panel" and self.split == 0 and self.block >= size(reduced[0])

    @property
    def blocks(self) -> int:
        """How many blocks the reduce axes are cut into, about if they are symbolic."""
        reduced = self.contraction.reduced
        parts = ceil(size(reduced[self.split]) / self.block)
        return prod(size(a) for a in reduced[: self.split]) * parts

    @property
    def depth(self) -> int:
        """Points of the reduce axes in one block, at most."""
        reduced = self.contraction.reduced
        return self.block * prod(size(a) for a in reduced[self.split + 1 :])

    @property
    def for_all(self) -> bool:
        """Whether a panel is packed once, for all threads."""
        return self.by_rows or self.rows_awake

    @property
    def tile_rows(self) -> int:
        """Row tiles over all rows, at least."""
        return ceil(self.rows.extent / self.most[self.registers])

    @property
    def points(self) -> int:
        """Multiply-adds in all."""
        return self.contraction.depth * prod(size(a) for a in self.contraction.nest.axes)

    @property
    def issue_cycles(self) -> int:
        """Cycles in which the machine begins multiply-adds of one of our registers, at least."""
        return max(1, self.scale // self.units)

    @property
    def writes_out_steps(self) -> bool:
        """Whether reduce steps are written out: many, but not of long rows, as prefetchers follow
        these by the one load of a step."""
        return self.points >= LITTLE_WORK and (self.mode != "panel" or self.sliver > 0)

    @property
    def alike(self) -> float:
        """The part of a tile's rows that equal tiles have at least: less code, a little slower."""
        return 0.6 if self.points < LITTLE_WORK else 0.8 if self.points < MUCH_WORK else 1.0

    @property
    def spare(self) -> float:
        """The part of the time that may go into elements computed twice: then tiles are alike.

        0 where sums wait for the next block, which would add its terms twice. Sums that wait for
        the next strip are those of one tile: its rows may be in two tiles, its lanes may not.
        """
        return SPARE if self.whole else 0.0

    def gapped(self, lanes: int) -> int:
        """Lanes of a panel with those between rows: whole registers where a window has room."""
        found = stretched(self.group, self.pitch, lanes)
        if found == lanes or not self.lanes.padded:
            return found
        return ceil(found / self.width) * self.width

    def tiles(self, lanes: int) -> list[Tile]:
        """The register tiles of a panel of so many lanes."""
        found, rows = self.split_tiles(lanes), self.rows.extent
        beside = len(self.group) == 1 or store_stride(self) == 1  # wherever a group starts
        if self.sliver or self.strip or not self.whole or not beside:
            return found
        whole = covering_tile(found, self.width, rows, self._most_rows(), self.spare)
        return found if whole is None else [whole]

    def split_tiles(self, lanes: int) -> list[Tile]:
        """The same where no lane is in two of them."""
        lanes = self.gapped(lanes) if self.mode == "gaps" else lanes
        return lane_tiles(lanes, self.width, self.registers, self.rows.extent, self._most_rows())

    def _most_rows(self) -> tuple[int, ...]:
        """Rows of a tile, by its registers; with gaps one loop over the rows has all lanes."""
        if self.mode == "gaps":
            return (self.most[self.registers],) * len(self.most)
        return self.most

    @property
    def covering(self) -> bool:
        """Whether the last panel is moved back to where it fits."""
        beyond = ceil(self.flat / self.panel) * self.panel - self.flat
        alike = len(self.group) == 1 or in_place(self.lanes, self.group)
        return self.whole and alike and 0 < beyond <= self.flat * self.spare


def store_stride(b: Blocking) -> int | None:
    """Elements between neighbouring lanes of the result; None where that varies."""
    uses = b.contraction.stored.uses
    last = uses.get(b.group[-1], 0)
    stride = last
    for a in reversed(b.group):
        if stride is None or uses.get(a, 0) != stride:
            return None
        stride *= size(a)
    return last
