"""Numbers that are computed before they decide: of iterations, and of elements in calls.

How often loops run, what the sizes of a definition are in a call, and products of extents that are
made of these.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.codegen.loops.ir import Make, Node, Place, Repeat, Reserve, all_nodes
from tensorad.codegen.loops.run_sizes import product_of
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Const, Expr, LocalSize, Size, cast, local_size, read
from tensorad.ir.tensor import Compute, Loop, Shape, Tensor, outputs


def scalar(name: str, body: Expr) -> Tensor:
    """A 0-d tensor of a formula."""
    return outputs(Compute(name, (), (body,), ""))[0]


def count_of(op: Loop, own_trips: bool) -> tuple[Tensor | Expr | None, list[Tensor]]:
    """How often a loop runs, if that is known before; formulas that it needs."""
    if op.count is not None:
        if op.count.dtype is INT64:
            return op.count, []
        count = scalar(f"{op.name}_count", cast(read(op.count, ()), INT64))
    elif own_trips:
        return None, []
    elif isinstance(op.trips, (Const, Size)):
        return op.trips, []
    else:
        count = scalar(f"{op.name}_count", op.trips)
    return count, [count]


def telling(label: str, count: Tensor) -> Repeat:
    """A loop that does nothing, and gives a size of its own the value of a 0-d int64 tensor."""
    size = local_size(label)
    counter = local_size("t", size)
    return Repeat(counter, size, count, (), (), None, (), (), (), False, "")


def products_in(nodes: Sequence[Node], sizes: Sequence[LocalSize]) -> list[Expr]:
    """What memory that nodes ask for has a number of elements by: products of extents that are made
    of some sizes, these themselves apart."""
    shapes = [shape for n in all_nodes(nodes) for shape in _shapes(n)]
    own = dict.fromkeys(sizes)
    found = [product_of(shape, own)[0] for shape in shapes] if own else []
    return [e for e in dict.fromkeys(found) if e is not None and not isinstance(e, LocalSize)]


def _shapes(n: Node) -> list[Shape]:
    match n:
        case Place() if n.row is not None:
            return [n.source.shape[1:]]
        case Reserve():
            return [n.tensor.shape]
        case Make():
            return [t.shape for t in n.fields]
        case Repeat():
            return [t.shape for t in n.stores]
    return []
