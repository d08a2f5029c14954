"""Where the carries of a loop lie, and what is saved of it: a next carry is stored once, where the
iterations after it, the reverse of the loop or the caller read it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tensorad.codegen.loops.ir import Exchange, Node, Place, Reserve
from tensorad.codegen.loops.scratch import buffer
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import ZERO, Expr, LocalSize, add, int_const, read
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import Compute, Tensor, dim_expr, dim_of, outputs
from tensorad.simplify.control.renew import again


@dataclass(frozen=True)
class Chain:
    """A next carry and the carries that it goes through.

    Attributes:
        result: what an iteration computes; None: the carries exchange their values.
        carries: their numbers: the first is the result next time, each other one what the one
            before it is now.
        own: whether the result is computed into memory that it is given here; else it stays where
            it is.
    """

    result: Tensor | None
    carries: tuple[int, ...]
    own: bool


def chains(
    carried: Sequence[Tensor], results: Sequence[Tensor], made: Collection[Tensor]
) -> list[Chain]:
    """How values go from carry to carry.

    Args:
        made: those of the results that an iteration computes into memory of their own.

    Requires: no carry is the result of two.
    """
    number = {p: k for k, p in enumerate(carried)}
    after = {number[r]: k for k, r in enumerate(results) if r in number}
    found = []
    left = dict.fromkeys(range(len(results)))
    roots = [k for k in left if results[k] not in number]
    while left:
        first = roots.pop(0) if roots else next(iter(left))
        members = [first]
        while after.get(members[-1], first) != first:
            members.append(after[members[-1]])
        for k in members:
            del left[k]
        root = results[first] if results[first] not in number else None
        found.append(Chain(root, tuple(members), root in made if root is not None else False))
    return found


@dataclass(frozen=True)
class Around:
    """A loop without its formulas.

    Attributes:
        counter: of the loop. trips: the size that its number of iterations is while it runs.
        extent: that number, as shapes say it.
        known: whether it is known before the first iteration.
        reverse: whether the counter goes down.
        carried: the params that carries are. operands: their first values.
        late: those of the operands that are computed where they are used.
        wanted: outputs of the loop that have memory of their own, by the carry's number.
        used: carries whose last value is read.
        taken: carries that may be changed where their first values lie.
    """

    counter: LocalSize
    trips: LocalSize
    extent: Expr
    known: bool
    reverse: bool
    carried: Sequence[Tensor]
    operands: Sequence[Tensor]
    late: Collection[Tensor]
    wanted: Mapping[int, Tensor]
    used: Collection[int]
    taken: Collection[int] = ()


@dataclass
class Layout:
    """Nodes that say where carries lie.

    Attributes:
        first: what is computed before the first iteration, when `start` has been run.
        start: before the first iteration, after the memory of stores is there.
        carries: after that.
        each: before each iteration; of that, `read` before each test. moves: after an iteration.
        after: after the loop.
        stores: what has memory for all iterations.
        placed: outputs of the loop that are where they should be.
        rare: those that are, unless the loop has no iteration.
    """

    first: list[Tensor] = field(default_factory=list)
    start: list[Node] = field(default_factory=list)
    carries: list[Node] = field(default_factory=list)
    read: list[Node] = field(default_factory=list)
    each: list[Node] = field(default_factory=list)
    moves: list[Place | Exchange] = field(default_factory=list)
    after: list[Node] = field(default_factory=list)
    stores: list[Tensor] = field(default_factory=list)
    placed: dict[int, None] = field(default_factory=dict)
    rare: dict[int, None] = field(default_factory=dict)


class Layouts:
    """Chain by chain, the layout of a loop."""

    def __init__(self, around: Around) -> None:
        self.around = around
        self.found = Layout()

    def in_place(self, carry: int) -> None:
        """A carry that iterations change where it lies."""
        to, p = self.found, self.around.carried[carry]
        if carry in self.around.taken and carry not in self.around.wanted:
            to.carries.append(Place(p, self.around.operands[carry]))
            return
        first = self.own_first(carry)
        if carry in self.around.wanted:
            to.start.append(Place(first, self.around.wanted[carry]))
            to.placed[carry] = None
        to.carries.append(Place(p, first))

    def ring(self, c: Chain) -> None:
        """Memory for one more value than is read, in turns; first values stay where they are.

        The memory that the last value of the first carry is to have is one of them, unless another
        carry would stay there.
        """
        assert c.result is not None
        to, r, first = self.found, c.result, c.carries[0]
        self.read_firsts(c)
        others = [buffer(r.name, r.shape, r.dtype) for _ in c.carries]
        homes = [buffer(r.name, r.shape, r.dtype) for _ in (r, *others)]
        wanted = self.around.wanted
        is_home = first in wanted and all(
            k in wanted or k not in self.around.used for k in c.carries
        )
        if is_home:
            homes[0] = wanted[first]
        elif is_dynamic(homes[0]):
            to.carries.append(Reserve(homes[0]))
        to.carries += [Reserve(h) for h in homes[1:] if is_dynamic(h)]
        to.carries += [Place(t, h) for t, h in zip((r, *others), homes, strict=True)]
        if is_home and self.around.known and len(others) == 1:
            to.carries.append(Exchange(r, others[0], self.around.trips))
            to.rare[first] = None
        self.shift(c)
        to.moves += [Exchange(a, b) for a, b in pairwise((r, *others))]

    def follow(self, c: Chain) -> None:
        """The next carry stays where the iteration leaves it."""
        self.read_firsts(c)
        self.shift(c)

    def own_rows(self, c: Chain, saved: Tensor) -> None:
        """Values of a carry in the rows that are saved, the last one elsewhere."""
        assert c.result is not None
        around, to, r, (k,) = self.around, self.found, c.result, c.carries
        first, beside = self.own_first(k), -1 if around.reverse else 1
        home = around.wanted.get(k, buffer(r.name, r.shape, r.dtype))
        begin = Place(first, saved, *((around.trips, -1) if around.reverse else (ZERO, 0)))
        to.stores.append(saved)
        to.start += [Reserve(home)] if is_dynamic(home) else []
        to.start += [Place(first, home), replace(begin, below=around.trips)]
        to.carries.append(Place(around.carried[k], first))
        to.each += [
            Place(r, home),
            Place(r, saved, around.counter, beside, below=around.trips),
        ]
        to.moves.append(Place(around.carried[k], r))
        if k in around.wanted:
            to.placed[k] = None

    def rows(self, c: Chain, saves: Mapping[Tensor, Tensor]) -> None:
        """All values of carries in rows, after the first ones.

        Args:
            saves: the result and params of the chain -> what is saved of them.
        """
        assert c.result is not None
        around, to, r, n = self.around, self.found, c.result, len(c.carries)
        extent = dim_of(add(around.extent, int_const(n)))
        store = buffer(r.name, (extent, *r.shape), r.dtype)
        to.stores.append(store)
        below = {r: 0 if around.reverse else n}
        for i, k in enumerate(c.carries, 1):
            p, first = around.carried[k], self.own_first(k)
            below[p] = i if around.reverse else n - i
            begin = (around.trips, i - 1) if around.reverse else (ZERO, n - i)
            end = (ZERO, i - 1) if around.reverse else (around.trips, n - i)
            to.start.append(Place(first, store, *begin))
            to.after.append(Place(p, store, *end))
        placed = [Place(t, store, around.counter, offset) for t, offset in below.items()]
        to.each += placed
        to.read += placed[1:]
        to.after += [Place(saves[t], store, ZERO, below[t]) for t in saves]

    def own_first(self, carry: int) -> Tensor:
        """A first value in memory that changes."""
        x = self.around.operands[carry]
        first = again(x) if x in self.around.late else copy_of(x)
        self.found.first.append(first)
        return first

    def read_firsts(self, c: Chain) -> None:
        """Carries begin where their first values lie, which are not changed."""
        for k in c.carries:
            x = self.around.operands[k]
            late = x in self.around.late
            self.found.carries.append(
                Place(self.around.carried[k], self.own_first(k) if late else x)
            )

    def shift(self, c: Chain) -> None:
        """Each carry goes on."""
        params = [self.around.carried[k] for k in c.carries]
        pairs = [(b, a) for a, b in pairwise(params)][::-1]
        if c.result is None:
            self.found.moves += [Exchange(a, b) for a, b in pairs]
        else:
            self.found.moves += [Place(a, b) for a, b in (*pairs, (params[0], c.result))]


def copy_of(t: Tensor) -> Tensor:
    """A compute of the same elements."""
    axes = compute_axes(t.shape)
    return outputs(Compute(t.name, axes, (read(t, axes),), ""))[0]


def is_dynamic(t: Tensor) -> bool:
    """Whether only the run tells how large the tensor is."""
    return any(isinstance(s, LocalSize) for s in sizes_in(*map(dim_expr, t.shape)))
