"""What two groups that may be joined have in common with others: equal pairs are judged once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorad.codegen.fusion.item_key import item_parts
from tensorad.codegen.fusion.row_groups import Group, Row
from tensorad.codegen.fusion.steps import Step
from tensorad.codegen.fusion.tile import Tile
from tensorad.ir.analysis.alike import Key, Numbering
from tensorad.ir.analysis.decisions import is_listening
from tensorad.ir.tensor import Tensor

MOST_READS: Final = 64
"""Tensors that the steps of two groups may read, if others are to be compared with them."""
Tiled = tuple[Group, Tile | None]
"""A group and its loops, if it has some."""


def pair_key(
    steps: Sequence[Step], pair: tuple[Tiled, Tiled], outside: Mapping[Tensor, None]
) -> Key | None:
    """A key that pairs have in common if whether they are joined may not differ.

    None where tensors differ in more than their place, as in `Plans`, and where many are read:
    no other pair reads them alike.

    Args:
        steps: those of both groups, in order.
        outside: what they must leave in memory.
    """
    items = [s.item for s in steps if s.item is not None]
    if len(items) < len(steps) or is_listening() or any(i.choices.made() for i in items):
        return None
    if sum([len(s.reads) for s in steps]) > MOST_READS:
        return None
    numbering = Numbering()
    parts = tuple([item_parts(item, numbering) for item in items])
    place = {s: n for n, s in enumerate(steps)}
    groups = tuple([_group(g, tile, place, numbering) for g, tile in pair])
    stored = tuple([t in outside for s in steps for t in s.writes])
    return numbering.key(parts, groups, stored)


def _group(
    group: Group, tile: Tile | None, place: Mapping[Step, int], numbering: Numbering
) -> object:
    members = tuple([place[s] for s in group.steps])
    shared = None if group.shared is None else _rows(group.shared, place, numbering)
    return members, shared, None if tile is None else _tile(tile, place, numbering)


def _tile(tile: Tile, place: Mapping[Step, int], numbering: Numbering) -> object:
    inner = [
        (tuple([place[s] for s in i.steps]), _tile(i.tile, place, numbering)) for i in tile.inner
    ]
    return _rows(tile.rows, place, numbering), tile.block, tile.parallel, tuple(inner)


def _rows(rows: Sequence[Row], place: Mapping[Step, int], numbering: Numbering) -> object:
    return tuple([tuple([(place[s], numbering.names[a]) for s, a in r.items()]) for r in rows])
