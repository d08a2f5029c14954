"""What items of equal formulas have in common: axes and tensors are known by their place."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.codegen.schedule import Item
from tensorad.errors import InternalError
from tensorad.ir.expr import Axis, Call, Cast, Const, Expr, Param, Read, Reduce, Select, Size
from tensorad.ir.tensor import Constant, Tensor
from tensorad.ir.visit import postorder

ItemKey = tuple[object, ...]


def item_key(item: Item) -> tuple[ItemKey, tuple[Tensor, ...]]:
    """A key that items have in common if their loops may differ in tensors only, and the tensors.

    Numbers, sizes, combiners and constant tensors are themselves in the key.
    """
    numbering = _Numbering()
    numbering.axes(item.axes)
    made = numbering.tensors_of(item.live)
    bodies = numbering.expressions(item.bodies)
    after: list[object] = []
    for e in item.epilogues:
        numbering.axes(e.axes)
        after.append((numbering.expressions(e.bodies), numbering.tensors_of(e.tensors)))
    written = numbering.tensors_of(item.writes)
    key = (made, bodies, tuple(after), written, item.blocks, *numbering.parts)
    return key, tuple(numbering.tensors)


class _Numbering:
    def __init__(self) -> None:
        self.names: dict[Expr, object] = {}
        """What stands for a node in the key: its number, or itself."""
        self.tensors: dict[Tensor, int] = {}
        self.parts: list[object] = []

    def tensors_of(self, tensors: Sequence[Tensor]) -> tuple[int, ...]:
        return tuple([self.tensor(t) for t in tensors])

    def tensor(self, t: Tensor) -> int:
        found = self.tensors.get(t)
        if found is None:
            found = self.tensors[t] = len(self.tensors)
            own = t if isinstance(t.op, Constant) else None
            self.parts.append((t.index, t.shape, t.dtype, own))
        return found

    def axes(self, axes: Sequence[Axis]) -> None:
        """Name axes by their bounds and their place."""
        for a in axes:
            if a not in self.names:
                bounds = [self.names.get(b, b) for b in (a.lower, a.upper, a.step)]
                self.names[a] = -1 - len(self.names)
                self.parts.append((a.name, *bounds))

    def expressions(self, roots: Sequence[Expr]) -> tuple[object, ...]:
        names, parts = self.names, self.parts
        for e in postorder(*roots):
            if e in names:
                continue
            if type(e) is Axis:  # of a reduction around it, whose bounds came first
                self.axes((e,))
                continue
            part = self.part(e)
            names[e] = e if part is None else len(parts)
            if part is not None:
                parts.append(part)
        return tuple([names[r] for r in roots])

    def part(self, e: Expr) -> tuple[object, ...] | None:
        """A node over the names of its operands; None for one that stands for itself."""
        names = self.names
        match e:
            case Const() | Size() | Param():
                return None
            case Call():
                return (e.op, e.dtype, *[names[a] for a in e.args])
            case Read():
                return (self.tensor(e.tensor), *[names[i] for i in e.indices])
            case Select():
                return ("select", names[e.cond], names[e.then], names[e.orelse])
            case Cast():
                return ("cast", e.dtype, names[e.value])
            case Reduce():
                sources = tuple([names[s] for s in e.sources])
                self.axes(e.axes)
                axes = tuple([names[a] for a in e.axes])
                return ("reduce", e.combiner, sources, axes, names[e.condition], e.index)
        raise InternalError(f"a {type(e).__name__} cannot stand in an item")
