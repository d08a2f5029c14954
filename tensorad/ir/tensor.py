"""Tensors and the operations that define them. All are nominal: compared by identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Concatenate, Final

import numpy as np

from tensorad.errors import ShapeError
from tensorad.ir.array_methods import ArrayMethods, elements, looked_at, read_at
from tensorad.ir.cached import cached_property
from tensorad.ir.dtypes import DType
from tensorad.ir.hooks import Hook
from tensorad.ir.leaves import TRUE, int_const
from tensorad.ir.node import both_sides
from tensorad.ir.nodes import Axis, Const, Expr, LocalSize
from tensorad.ir.nominal import Combiner
from tensorad.ir.source import source_line

Dim = int | Expr
"""An extent: an integer >= 0 or an expression of symbolic sizes."""
Shape = tuple[Dim, ...]
_births: Final = count()


@dataclass(frozen=True, eq=False)
class Placeholder:
    """An input."""

    name: str
    shape: Shape
    dtype: DType
    owner: str = ""
    """What has it as a parameter of a block, for errors: "the body of scan at model.py:12"."""
    number: int = field(default_factory=_births.__next__, init=False, repr=False)
    """Later inputs, and operations (`born`), have larger numbers."""


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor known when the program is written; the array is never changed."""

    name: str
    array: np.ndarray
    dtype: DType

    @property
    def shape(self) -> Shape:
        return self.array.shape


@dataclass(frozen=True, eq=False)
class Compute:
    """out[axes] = body, one tensor per body. All bodies of a tuple share the axes.

    Several bodies are all `Reduce` nodes of one fold, or all free of such sharing.
    """

    name: str
    axes: tuple[Axis, ...]
    bodies: tuple[Expr, ...]
    source: str = field(default_factory=source_line)
    """"file:line" of the user's definition."""
    born: int = field(default_factory=_births.__next__, init=False, repr=False)

    @cached_property
    def shape(self) -> Shape:
        return tuple([dim_of(a.upper) for a in self.axes])


@dataclass(frozen=True, eq=False)
class Update:
    """One accumulation of a scatter: out[indices] += value where `condition` holds."""

    indices: tuple[Expr, ...]
    value: Expr
    condition: Expr = TRUE


@dataclass(frozen=True, eq=False)
class Scatter:
    """out = init; for each point of `axes` in order: out[indices] = out[indices] (+) value.

    `init` is such a tensor; None: the combiner's identity. `distinct`: each updates one of its own.
    """

    name: str
    shape: Shape
    dtype: DType
    axes: tuple[Axis, ...]
    updates: tuple[Update, ...]
    combiner: Combiner
    init: Tensor | None = None
    source: str = field(default_factory=source_line)
    distinct: bool = False
    born: int = field(default_factory=_births.__next__, init=False, repr=False)


@dataclass(frozen=True, eq=False)
class Scan:
    """At each point of `axes`: state = start; then at each point of `along`, in lexicographic
    order (backwards if `reverse`), where the condition holds, state = combiner(state, sources).

    The state has a component per left operand of the combiner, a step reads one element per
    right operand; the two need not match. `indices` (over axes and along) say where in `shape`
    a step keeps the state it finds and the one it leaves; elements that no step keeps are
    unspecified. Outputs, per component: the state after a step (before it if `exclusive`),
    the other one of these two, and the last state, over `axes` alone.

    With a `cell` there is one loop over `along`: a step computes in the state at that point of
    `axes`, and sources, condition and indices are over `along` alone, as is the cell. Errors call
    the cells `target`, without those axes of them that come first and it does not have.
    """

    name: str
    axes: tuple[Axis, ...]
    along: tuple[Axis, ...]
    sources: tuple[Expr, ...]
    combiner: Combiner
    start: tuple[Expr, ...]
    shape: Shape
    indices: tuple[Expr, ...]
    condition: Expr = TRUE
    exclusive: bool = False
    reverse: bool = False
    source: str = field(default_factory=source_line)
    cell: tuple[Expr, ...] | None = None
    target: Tensor | None = None
    born: int = field(default_factory=_births.__next__, init=False, repr=False)

    @property
    def scope(self) -> tuple[Axis, ...]:
        """The axes that a step's expressions may use."""
        return self.along if self.cell is not None else (*self.axes, *self.along)

    @property
    def rows(self) -> Shape:
        """The shape of the last states."""
        return tuple([dim_of(a.upper) for a in self.axes])

    @property
    def written_name(self) -> str:
        """How errors call the operation: as the user does whose scatter it derives."""
        return self.name if self.target is None else self.target.name

    def output_name(self, index: int) -> str:
        """How texts call one output."""
        kind, n = divmod(index, self.combiner.arity)
        other = "after" if self.exclusive else "before"
        name = self.name + ("", f".{other}", ".last")[kind]
        return name if self.combiner.arity == 1 else f"{name}.{n}"


@dataclass(frozen=True, eq=False)
class Block:
    """`results` as a function of `params`: any tensors, behind which nothing is looked at.

    Other than params the results depend on constants alone; sizes may be used freely.
    """

    params: tuple[Tensor, ...]
    results: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Control:
    """Blocks of other operations, run on operands; an output for each of `names`, one at least."""

    names: tuple[str, ...]
    operands: tuple[Tensor, ...]
    blocks: tuple[Block, ...]
    source: str = field(default_factory=source_line, kw_only=True)
    born: int = field(default_factory=_births.__next__, init=False, repr=False)
    """Later operations have larger numbers."""
    kept: dict[tuple[Tensor, int], Saved] = field(default_factory=dict, init=False, repr=False)
    """`saved`, by tensor and block."""

    @property
    def results(self) -> tuple[Tensor, ...]:
        """Tensors inside of the outputs' shapes and dtypes."""
        return self.blocks[0].results

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What must be there before the operation."""
        return self.operands

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def shape(self) -> Shape:
        """The extents of all outputs."""
        return tuple([n for t in self.results for n in t.shape])


@dataclass(frozen=True, eq=False)
class FunctionCall(Control):
    """The results of a function's block on the operands.

    Attributes:
        rule: its derivative, if that is not the block's.
    """

    function: str = field(kw_only=True)
    rule: CallRule | None = field(default=None, kw_only=True)


MaybeTensors = Sequence["Tensor | None"]


@dataclass(frozen=True, eq=False)
class CallRule:
    """The derivative of a call, in one direction or both; None among tensors is zero.

    Attributes:
        adjoints: (call, those of the outputs, collected so far) -> those of the operands.
        tangents: (call, tangents of the operands) -> tangents of the outputs.
        takes_batches: whether these may have leading axes, which then lead what is returned.
    """

    adjoints: Callable[[FunctionCall, MaybeTensors, SoFar], MaybeTensors] | None = None
    tangents: Callable[[FunctionCall, MaybeTensors], MaybeTensors] | None = None
    takes_batches: bool = False


SoFar = Callable[["Tensor"], "Tensor | None"]


@dataclass(frozen=True, eq=False)
class Branch(Control):
    """The results of block n, n being the first operand (0-d integer or bool, taken into range).

    The params of each block are the other operands."""


@dataclass(frozen=True, eq=False)
class Replay:
    """How a loop's reverse has its carries: the first are `states`; then come, for each, `rows` of
    its values and one to spare, and of which iterations, in order, the rows are; -1: of none.
    `advance`: (number of an iteration, how many, states, operands `fixed`) -> the states later.
    """

    states: int
    rows: int
    advance: Block
    fixed: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Loop(Control):
    """Carries go through the block once for each value of a counter; outputs: the last ones.

    Operands: first values of `carries` tensors, then `scanned` tensors with a leading axis (an
    iteration is given the part at the counter), then tensors that stay as they are. The block's
    params are these, its results the next carries. A second block, if there is one, has the same
    params, scanned ones apart, and one 0-d bool as result: where it is false the loop ends. Without
    it the counter takes the values below `trips`, an expression of sizes, from above if `reverse`.
    With a second block, or a `count` (0-d, integer: how many iterations), `trips` is a `LocalSize`
    of the loop's own, to which the number of iterations is given. With a `replay` its reverse
    computes carries again from the rows of some; values do not depend on it.
    """

    counter: LocalSize = field(kw_only=True)
    trips: Expr = field(kw_only=True)
    carries: int = field(kw_only=True)
    scanned: int = field(default=0, kw_only=True)
    count: Tensor | None = field(default=None, kw_only=True)
    reverse: bool = field(default=False, kw_only=True)
    replay: Replay | None = field(default=None, kw_only=True)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.operands if self.count is None else (*self.operands, self.count)


@dataclass(frozen=True, eq=False)
class Saved:
    """The value that `inner`, a tensor of one block of `control`, had when the block ran.

    Of a loop's first block: those at all values of the counter, along a leading axis. Unspecified
    where the block did not run.
    """

    control: Control
    inner: Tensor
    block: int

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def shape(self) -> Shape:
        own = self.inner.shape
        return (dim_of(self.control.trips), *own) if isinstance(self.control, Loop) else own


Op = Placeholder | Constant | Compute | Scatter | Scan | Control | Saved


def births() -> int:
    """A number between `born` of the operations there are and of those to come."""
    return next(_births)


def dim_of(e: Expr) -> Dim:
    """A constant extent as an integer."""
    return int(e.value) if isinstance(e, Const) else e


def dim_expr(n: Dim) -> Expr:
    """An extent as an expression."""
    return int_const(n) if isinstance(n, int) else n


elementwise: Final[Hook[Concatenate[str, ...], Tensor]] = Hook("tensorad.ir.arrays.elementwise")


class Tensor(ArrayMethods):
    """Output `index` of an operation; reading it at indices gives a scalar expression.

    Interned, so one output of one operation is one object. Operators broadcast as NumPy's.
    """

    has_place = True
    op: Op
    index: int
    shape: Shape
    dtype: DType

    @property
    def name(self) -> str:
        if isinstance(self.op, Scan):
            return self.op.output_name(self.index)
        if isinstance(self.op, Control):
            return self.op.names[self.index]
        if isinstance(self.op, Compute) and n_outputs(self.op) > 1:
            return f"{self.op.name}.{self.index}"
        return self.op.name

    @property
    def described(self) -> str:
        """ "x : float32 (3,)"; of what is computed with the user's line."""
        text = f"{self.name} : {self.dtype} {format_shape(self.shape)}"
        source = getattr(self.op.control if isinstance(self.op, Saved) else self.op, "source", "")
        return f"{text} at {source}" if source else text

    @property
    def is_constant(self) -> bool:
        """Whether its elements are known when the program is written."""
        return isinstance(self.op, Constant)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def as_scalar(self) -> Expr:
        """The only element of a 0-d tensor.

        Raises:
            ShapeError: the tensor has axes.
        """
        if self.shape:
            raise ShapeError(
                f"tensor {self.name} of shape {format_shape(self.shape)} is not a scalar.",
                hint=f"read one element: {self.name}[{', '.join('ijklmnpq'[: self.ndim])}].",
            )
        return read_at.call(self, ())

    __add__, __radd__ = both_sides(elementwise, "add")
    __sub__, __rsub__ = both_sides(elementwise, "sub")
    __mul__, __rmul__ = both_sides(elementwise, "mul")
    __truediv__, __rtruediv__ = both_sides(elementwise, "div")
    __floordiv__, __rfloordiv__ = both_sides(elementwise, "floordiv")
    __mod__, __rmod__ = both_sides(elementwise, "mod")
    __pow__, __rpow__ = both_sides(elementwise, "pow")
    __and__, __rand__ = both_sides(elementwise, "and")
    __or__, __ror__ = both_sides(elementwise, "or")
    __lt__ = both_sides(elementwise, "lt")[0]
    __le__ = both_sides(elementwise, "le")[0]
    __gt__ = both_sides(elementwise, "gt")[0]
    __ge__ = both_sides(elementwise, "ge")[0]

    def __neg__(self) -> Tensor:
        return elementwise.call("neg", self)

    def __abs__(self) -> Tensor:
        return elementwise.call("abs", self)

    def __invert__(self) -> Tensor:
        return elementwise.call("not", self)

    def astype(self, dtype: object) -> Tensor:
        """Every element converted to `dtype`."""
        return astype.call(self, dtype)

    def __str__(self) -> str:
        found = elements.call(self) if self in looked_at else None
        return format_tensor.call(self) if found is None else str(found)

    def __repr__(self) -> str:
        return f"Tensor({self.name}, shape={format_shape(self.shape)}, dtype={self.dtype})"


astype: Final[Hook[[Tensor, object], Tensor]] = Hook("tensorad.ir.arrays.elementwise")
format_tensor: Final[Hook[[Tensor], str]] = Hook("tensorad.ir.text.printer")


def format_shape(shape: Shape) -> str:
    """(3, n) as Python prints tuples, sizes by their names."""
    inner = ", ".join(str(n) for n in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def n_outputs(op: Op) -> int:
    """How many tensors the operation defines."""
    if isinstance(op, Compute):
        return len(op.bodies)
    if isinstance(op, Control):
        return len(op.names)
    return 3 * op.combiner.arity if isinstance(op, Scan) else 1


def outputs(op: Op) -> tuple[Tensor, ...]:
    """The tensors of an operation (always the same objects)."""
    if isinstance(op, Compute):
        return tuple([Tensor(op, n, op.shape, b.dtype) for n, b in enumerate(op.bodies)])
    if isinstance(op, Control):
        inside = op.results[: len(op.names)]
        return tuple([Tensor(op, n, t.shape, t.dtype) for n, t in enumerate(inside)])
    if isinstance(op, Saved):
        return (Tensor(op, 0, op.shape, op.inner.dtype),)
    if isinstance(op, Scan):
        shapes = (op.shape, op.shape, op.rows)
        pairs = [(shape, c.dtype) for shape in shapes for c in op.combiner.identity]
        return tuple([Tensor(op, n, shape, dtype) for n, (shape, dtype) in enumerate(pairs)])
    return (Tensor(op, 0, op.shape, op.dtype),)


def saved(control: Control, inner: Tensor, block: int = 0) -> Tensor:
    """A tensor of one of the operation's blocks, seen from outside (always the same object)."""
    key = (inner, block)
    if key not in control.kept:
        control.kept[key] = Saved(control, inner, block)
    return outputs(control.kept[key])[0]
