"""What items of equal formulas have in common: axes and tensors are known by their place."""

from __future__ import annotations

from tensorad.codegen.fusion.items import Item
from tensorad.ir.analysis.alike import Key, Numbering
from tensorad.ir.tensor import Tensor


def item_key(item: Item) -> tuple[Key, tuple[Tensor, ...]]:
    """A key that items have in common if their loops may differ in tensors only, and the tensors.

    Numbers, sizes, combiners and constant tensors are themselves in the key.
    """
    numbering = Numbering()
    key = numbering.key(*item_parts(item, numbering))
    return key, tuple(numbering.numbered)


def item_parts(item: Item, numbering: Numbering) -> Key:
    """What tells an item apart beside what is numbered, which may go on from other items."""
    numbering.axes(item.axes)
    made = numbering.tensors(item.live)
    bodies = numbering.expressions(item.bodies)
    after: list[object] = []
    for e in item.epilogues:
        numbering.axes(e.axes)
        after.append((numbering.expressions(e.bodies), numbering.tensors(e.tensors)))
    written = numbering.tensors(item.writes)
    own = tuple([numbering.names[a] for a in item.axes])
    return (own, made, bodies, tuple(after), written, item.blocks, item.partial)
