"""The loop language: what the compiler turns tensors into before machine code.

Expressions are those of `tensorad.ir`. A tensor is its own buffer: `Read` loads from it and
`Store` writes to it. Scalars of a loop nest (accumulators) are `Param` nodes set by `Assign`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tensorad.ir.arrays.foreign import Run
from tensorad.ir.cached import cached_property
from tensorad.ir.combiner import Combiner
from tensorad.ir.expr import Axis, Expr, LocalSize, Param, Read
from tensorad.ir.records import Definition, RecordType, Variant
from tensorad.ir.tensor import Shape, Tensor

LoopKind = Literal["serial", "parallel", "vector"]
"""parallel: iterations are independent and may run on several threads (outermost only).
vector: iterations are independent, or only `Fold` into scalars set outside; the code generator
vectorises them. Promises of the schedule about a vector loop: no other vector loop inside or around
it; bounds of loops inside and `If` conditions do not depend on the lane; every read is in bounds in
every lane even under a `Select` (both sides may be evaluated); stores of different iterations never
overlap."""


@dataclass(frozen=True, eq=False)
class For:
    """The body for each value of `axis`; its bounds are evaluated once, at loop entry.

    `width` (vector loops only) is how many iterations the schedule would like side by side:
    a power of two, usually a multiple of the machine's lanes (several registers are then in
    flight; a loop that is shorter than a register may take a part of one); 0 leaves it to the
    code generator. Iterations beyond a multiple of it are a
    masked or narrower tail.

    `lanes` (vector loops only) is how many of them make one register; 0 leaves it to the code
    generator. A loop that folds in lanes states it: the order of a float sum depends on it, so
    it is read off the formula of the sum and off nothing that runs beside it.
    """

    axis: Axis
    body: tuple[Stmt, ...]
    kind: LoopKind = "serial"
    width: int = 0
    within: Axis | None = None
    """Vector loops: the axis of which this is one strip, its bounds the same for all strips;
    together they take all of it. The code generator may move borders between them by a line's
    elements."""
    covering: bool = False
    """Serial loops in steps: each step takes as many values, and the axis ends at the last start
    of a whole one, so that the bounds hold for starts. Steps may overlap, and start elsewhere,
    as long as all values are taken: an element is then stored again, equal."""
    prefetched: tuple[Tensor, ...] = ()
    """Vector loops: tensors whose elements are prefetched some time before they are read, or before
    the loops inside if they are stored after them."""
    lanes: int = 0
    work: Expr | None = None
    """Parallel loops: cycles of all iterations, about; what starts threads goes by it. None:
    threads are worth it."""


@dataclass(frozen=True, eq=False)
class If:
    """One of two blocks; `rare`: the first hardly ever runs, predictions leave it out."""

    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()
    rare: bool = False


@dataclass(frozen=True, eq=False)
class Assign:
    """targets = values; all values are computed before any target changes."""

    targets: tuple[Param, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Fold:
    """targets = combiner(targets, values): one step of a reduction.

    Inside a "vector" loop around which the targets live, lanes fold separately (only for
    combiners that allow it). The target then stays in lanes from its `Assign` (which gives
    the identity) through all vector loops that fold into it, also when they lie inside serial
    reduce loops; lanes are combined in a fixed tree where the target is next read otherwise.
    """

    targets: tuple[Param, ...]
    combiner: Combiner
    values: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Store:
    """tensors[n][indices] = values[n]; all values are computed before any is stored.

    `streaming` promises that nobody reads the elements while they could be in a cache: whole
    lines may go to memory without being fetched first. The values are the same either way.
    """

    tensors: tuple[Tensor, ...]
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    streaming: bool = False


@dataclass(frozen=True, eq=False)
class Visit:
    """One visited point of the op's written loops: counted by the interpreter, no code."""


@dataclass(frozen=True, eq=False)
class Check:
    """Fail the call unless the index lies in [0, extent): a data-dependent read or write.

    Attributes:
        user: the operation whose read it is, or whose write.
        source: the user's line of that operation.
        looked_at: what is compared instead of the read's own index, which the error shows.
    """

    read: Read
    dimension: int
    extent: Expr
    user: str = ""
    writes: bool = False
    source: str = ""
    looked_at: Expr | None = None

    @property
    def index(self) -> Expr:
        return self.read.indices[self.dimension] if self.looked_at is None else self.looked_at


@dataclass(frozen=True, eq=False)
class Prefetch:
    """Prefetch elements that will be read soon: `count` neighbours from `indices` on, or, where
    lanes move, those of them that its registers reach.

    A hint: no value depends on it, and it may reach outside of the tensor, but not with `now`:
    then the first of them is loaded, and forgotten.
    """

    tensor: Tensor
    indices: tuple[Expr, ...]
    count: int
    now: bool = False


Stmt = For | If | Assign | Fold | Store | Visit | Check | Prefetch


@dataclass(frozen=True, eq=False)
class Kernel:
    """The loops of one operation (or one fused group), run after the kernels before it.

    Attributes:
        scratch: buffers that every thread has for itself, aligned to cache lines. What they
            hold is undefined at the start, at the start of each iteration of a parallel loop,
            and after it.
        beside: scratch that begins inside of a line where another tensor does, and elsewhere in its
            page: pairs of both. It is a page longer than what is stored, so that it may.
        unaliased_with: the tensor from which all scratch begins a part of a page away; None:
            anywhere.
        like: a kernel of which these are the loops, and the tensors here for each tensor there; a
            kernel that is changed is like none.
    """

    name: str
    body: tuple[Stmt, ...]
    writes: tuple[Tensor, ...]
    reads: tuple[Tensor, ...]
    scratch: tuple[Tensor, ...] = ()
    beside: tuple[tuple[Tensor, Tensor], ...] = ()
    unaliased_with: Tensor | None = None
    like: tuple[Kernel, Mapping[Tensor, Tensor]] | None = field(default=None, init=False)


@dataclass(frozen=True, eq=False)
class Place:
    """From here on `tensor` lies where `source` does; with a `row`, at that index of its axis 0, or
    from there on, if it has as many axes.

    Attributes:
        row: a size or a number; None: the tensor lies where the source begins.
        offset: what is added to it.
        below: the tensor stays where it is unless 0 <= row + offset < `below`.
    """

    tensor: Tensor
    source: Tensor
    row: Expr | None = None
    offset: int = 0
    below: LocalSize | None = None

    @property
    def row_shape(self) -> Shape:
        """That of one index of the source's axis 0."""
        t = self.tensor
        return t.shape if t.ndim < self.source.ndim else t.shape[1:]


@dataclass(frozen=True, eq=False)
class Exchange:
    """Two tensors exchange their memory; if `even` is given, only where its value is even."""

    a: Tensor
    b: Tensor
    even: LocalSize | None = None


@dataclass(frozen=True, eq=False)
class Settle:
    """The nodes, which copy `source` to `tensor`, unless the one lies where the other does.

    Attributes:
        rare: they run only where the loop before had no iteration.
    """

    tensor: Tensor
    source: Tensor
    nodes: tuple[Node, ...]
    rare: bool


@dataclass(frozen=True, eq=False)
class ButLast:
    """The nodes, except in the last iteration of the loop of this counter."""

    counter: LocalSize
    trips: LocalSize
    reverse: bool
    nodes: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Reserve:
    """Memory for a tensor of which only the run tells how large it is; what it held is kept."""

    tensor: Tensor


@dataclass(frozen=True, eq=False)
class Choose:
    """One of several lists of nodes, by the element of a 0-d int64 tensor."""

    index: Tensor
    arms: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, eq=False)
class Repeat:
    """The body once for each value of the counter below `trips`, from above if `reverse`.

    Attributes:
        trips: is given its value here: the element of `count`, a 0-d int64 tensor (0 if that is
            negative), the size or number that `count` is, or how often the body ran until the
            bool in `condition`, which `test` computes each time before, was false.
        start: runs before the first iteration, when there is memory for the stores.
        moves: what lies elsewhere after each iteration.
        stores: tensors that iterations fill, a row each.
        source: the user's line.
        releases: whether nothing that an iteration leaves is a record, so that those it makes are
            gone at its end.
    """

    counter: LocalSize
    trips: LocalSize
    count: Tensor | Expr | None
    start: tuple[Node, ...]
    test: tuple[Node, ...]
    condition: Tensor | None
    body: tuple[Node, ...]
    moves: tuple[Place | Exchange, ...]
    stores: tuple[Tensor, ...]
    reverse: bool
    source: str
    releases: bool = False


@dataclass(frozen=True, eq=False)
class CallPython:
    """A function of Python on copies of some tensors, its results stored in others."""

    name: str
    run: Run
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Make:
    """A new record: its address becomes the element of `handle`, its fields are copies."""

    handle: Tensor
    dtype: RecordType
    tag: int
    fields: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Inside:
    """From here on `tensor` lies in the record in `handle`: where field `number` of a record of
    `variant` does, or, without a variant, the number of its variant.

    Requires: nothing is written to the tensor.
    """

    tensor: Tensor
    handle: Tensor
    variant: Variant | None = None
    number: int = 0


@dataclass(frozen=True, eq=False)
class Activate:
    """The nodes of a definition, run on operands; its results are stored in these tensors.

    Attributes:
        sizes: the values of the definition's sizes: sizes or numbers.
        totals: those of the results that it is added to in place.
    """

    definition: Definition
    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    sizes: tuple[Expr, ...] = ()
    totals: tuple[Tensor, ...] = ()


@dataclass(frozen=True, eq=False)
class Routine:
    """What calls of a definition run: each run has tensors of its own, constants apart.

    Attributes:
        params: lie where the operands of a call do.
        results: lie where the results of a call do; each is stored once.
        products: the sizes that nodes give the values of products of extents, by which later ones
            ask for memory.
        totals: those of the results that have values before, to which is added.
    """

    definition: Definition
    params: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    products: Mapping[Expr, LocalSize] = field(default_factory=dict)
    totals: tuple[Tensor, ...] = ()


Node = (
    Kernel | Place | Exchange | Settle | ButLast | Reserve | Choose | Repeat
    | Make | Inside | Activate | CallPython
)  # fmt: skip


def inner_nodes(n: Node) -> tuple[Node, ...]:
    """The nodes that a node runs, in order."""
    match n:
        case Choose():
            return tuple([inner for arm in n.arms for inner in arm])
        case Repeat():
            return (*n.start, *n.test, *n.body, *n.moves)
        case Settle() | ButLast():
            return n.nodes
    return ()


def all_nodes(nodes: Sequence[Node]) -> list[Node]:
    """Nodes with those inside of them, in the order of the text."""
    found: list[Node] = []
    stack = list(nodes[::-1])
    while stack:
        n = stack.pop()
        found.append(n)
        stack += inner_nodes(n)[::-1]
    return found


@dataclass(frozen=True, eq=False)
class LoopProgram:
    """Nodes in execution order. Tensors that are neither inputs nor outputs nor constants
    are temporaries.

    Attributes:
        routines: one for each definition that is called.
        products: as those of a routine.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    routines: tuple[Routine, ...] = ()
    products: Mapping[Expr, LocalSize] = field(default_factory=dict)

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """All kernels, in the order of the text, those of definitions behind the others."""
        return tuple([n for n in self.all_nodes if isinstance(n, Kernel)])

    @property
    def repeats(self) -> tuple[Repeat, ...]:
        """All loops around kernels, in the order of the text."""
        return tuple([n for n in self.all_nodes if isinstance(n, Repeat)])

    @property
    def all_nodes(self) -> list[Node]:
        """All nodes, with those inside of others, and those of definitions."""
        return all_nodes((*self.nodes, *[n for r in self.routines for n in r.nodes]))

    @property
    def is_straight(self) -> bool:
        """Whether there are kernels alone."""
        return all(isinstance(n, Kernel) for n in self.nodes)
