"""Well-formedness of the IR: what every pass must leave true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorad.errors import InternalError
from tensorad.ir.analysis.blocks import ops_between, own_sizes
from tensorad.ir.arrays.foreign import Foreign
from tensorad.ir.combiner import Combiner
from tensorad.ir.dtypes import BOOL, INT64, DType
from tensorad.ir.expr import (
    ARITHMETIC,
    COMPARISONS,
    FUNCTIONS,
    LOGICAL,
    ONE,
    OPERATIONS,
    ROUNDING,
    TESTS,
    ZERO,
    Apply,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    LocalSize,
    Param,
    Read,
    Reduce,
    Select,
    Size,
)
from tensorad.ir.records import Recursion
from tensorad.ir.reference.verify_blocks import Broken, require, same_shape, verify_blocks
from tensorad.ir.tensor import (
    Compute,
    Constant,
    Control,
    Loop,
    Op,
    Placeholder,
    Saved,
    Scan,
    Scatter,
    Tensor,
    n_outputs,
    outputs,
)
from tensorad.ir.text.printer import format_expr, format_tensor, same_fold
from tensorad.ir.visit import free_leaves, op_expressions, postorder

_TWO_OPERANDS = dict.fromkeys((*ARITHMETIC, *COMPARISONS, "and", "or"))


@dataclass(frozen=True)
class _Place:
    """Tensors behind which operations stand, in a block or outside of all.

    Attributes:
        params: what the block is given; None outside.
        counters: of the loops around.
    """

    results: tuple[Tensor, ...]
    params: tuple[Tensor, ...] | None
    counters: tuple[LocalSize, ...]


def verify(tensors: Iterable[Tensor]) -> None:
    """Check every operation the tensors depend on, also those inside of blocks.

    Raises:
        InternalError: some node breaks a rule; the text has the rule and the printed IR.
    """
    pending = [_Place(tuple(tensors), None, ())]
    seen: dict[tuple[Op, tuple[int, ...]], None] = {}
    while pending:
        place = pending.pop()
        around = tuple(map(id, place.counters))
        ops = ops_between(place.results, dict.fromkeys(place.params or ()))
        inside = dict.fromkeys(ops)
        for op in ops:
            try:
                _verify_place(op, place, inside)
                if (op, around) not in seen:
                    seen[op, around] = None
                    _verify_op(op)
                    pending.extend(_places_in(op, place.counters))
            except Broken as broken:
                raise InternalError(f"{broken}\n{_shown(op)}") from None


def verify_control(op: Control) -> None:
    """Check that what is given to blocks, and what they give, has the shapes and dtypes of both
    sides.

    Raises:
        InternalError: it has not.
    """
    try:
        verify_blocks(op)
    except Broken as broken:
        raise InternalError(f"{broken}\n{_shown(op)}") from None


def _shown(op: Op) -> str:
    """An operation, however wrong; one with blocks by what it gives."""
    if isinstance(op, (Control, Saved)):
        return "\n".join([repr(t) for t in outputs(op)]) or op.name
    return format_tensor(outputs(op)[0])


def _places_in(op: Op, counters: tuple[LocalSize, ...]) -> list[_Place]:
    """The blocks of an operation; where a `Saved` comes from."""
    if isinstance(op, Saved):
        around = (*counters, op.control.counter) if isinstance(op.control, Loop) else counters
        return [_Place((op.inner,), op.control.blocks[op.block].params, around)]
    if not isinstance(op, Control) or isinstance(op, Foreign):  # whose results tell types alone
        return []
    if isinstance(op, Recursion):
        block = op.definition.block
        return [_Place(block.results, block.params, op.definition.sizes)]
    around = (*counters, op.counter) if isinstance(op, Loop) else counters
    return [_Place(b.results, b.params, around) for b in op.blocks]


def _verify_place(op: Op, place: _Place, inside: Mapping[Op, None]) -> None:
    """Blocks read params, constants, and sizes of the loops around them."""
    if isinstance(op, Placeholder):
        require(place.params is None, f"{op.name} is read in a block that is not given it")
    if isinstance(op, Saved):
        require(op.control in inside, f"{op.name} is read where {op.control.name} does not run")
    for size in own_sizes(op):
        if isinstance(size, LocalSize) and size.extent is not None:
            known = any(size is c for c in place.counters)
            require(known, f"counter {size.label} is read outside of its loop")


def verify_expr(e: Expr, scope: Iterable[Expr] = ()) -> None:
    """Check one expression that may use the axes and parameters of `scope`.

    Raises:
        InternalError: some node breaks a rule.
    """
    try:
        _verify_roots((e,), scope)
    except Broken as broken:
        raise InternalError(f"{broken}\n{format_expr(e)}") from None


def _verify_op(op: Op) -> None:
    for extent in op.shape:
        if isinstance(extent, Expr):
            require(extent.dtype is INT64, "an extent is not an int64 expression", extent)
            require(_is_size_arithmetic(extent), "an extent uses more than sizes", extent)
        else:
            require(extent >= 0, f"an extent is negative: {extent}")
    match op:
        case Placeholder():
            return
        case Constant():
            require(str(op.array.dtype) == op.dtype, f"the array's dtype is {op.array.dtype}")
        case Compute():
            _verify_compute(op)
        case Scatter():
            _verify_scatter(op)
        case Scan():
            _verify_scan(op)
        case Control():
            verify_blocks(op)
        case Saved():
            own = isinstance(op.control, Loop) and op.block != 0
            require(not own, "what is saved of a loop is no part of its first block")


def _is_size_arithmetic(e: Expr) -> bool:
    return all(isinstance(n, (Size, Const, Call, Cast, Select)) for n in postorder(e))


def _verify_compute(op: Compute) -> None:
    require(len(op.bodies) > 0, "a compute has no body")
    _distinct(op.axes)
    for a in op.axes:
        require(a.lower is ZERO and a.step is ONE, f"compute axis {a.name} is not 0, 1, 2, ...")
        require(_is_size_arithmetic(a.upper), f"the extent of {a.name} uses an axis", a.upper)
    _verify_roots(op.bodies, op.axes)


def _verify_scatter(op: Scatter) -> None:
    _verify_combiner(op.combiner)
    require(op.combiner.arity == 1, "a scatter folds tuples")
    require(op.combiner.identity[0].dtype is op.dtype, "the combiner folds another dtype")
    if op.init is not None:
        fits = op.init.dtype is op.dtype and same_shape(op.init, op.shape)
        require(fits, f"init {op.init.name} has another shape or dtype")
    _verify_nest(op.axes, ())
    _verify_roots(op_expressions(op), op.axes)
    for u in op.updates:
        require(len(u.indices) == len(op.shape), "an update has another number of indices")
        require(u.value.dtype is op.dtype, "an update has another dtype", u.value)
        require(u.condition.dtype is BOOL, "a condition is not boolean", u.condition)
        for i in u.indices:
            require(i.dtype is INT64, "an index is not int64", i)


def _verify_scan(op: Scan) -> None:
    c = op.combiner
    _verify_state(c)
    require(_dtypes(op.sources) == _dtypes(c.rhs), "a scan's sources do not fit its combiner")
    require(_dtypes(op.start) == _dtypes(c.lhs), "a scan's start does not fit its combiner")
    require(op.condition.dtype is BOOL, "a condition is not boolean", op.condition)
    require(len(op.indices) == len(op.shape), "a scan's indices do not fit its shape")
    require(_all(op.indices, INT64), "an index is not int64")
    cell = op.axes if op.cell is None else op.cell
    require(len(cell) == len(op.axes), "a scan's cell does not fit its axes")
    _verify_nest(op.axes, ())
    _verify_nest(op.along, () if op.cell is not None else op.axes)
    _verify_roots(op.start, op.axes)
    _verify_roots((op.condition, *op.sources, *op.indices, *cell), op.scope)
    for e in postorder(*op_expressions(op)):
        require(not isinstance(e, Reduce), "a scan holds a reduction", e)


def _verify_roots(roots: Sequence[Expr], scope: Iterable[Expr]) -> None:
    """Every node, the scope of axes, and which reductions share axes."""
    owner: dict[Expr, Reduce | None] = dict.fromkeys(scope)
    combiners: dict[Combiner, None] = {}
    for leaf in free_leaves(*roots):
        require(leaf in owner, f"{format_expr(leaf)} is used outside its scope")
    for e in postorder(*roots):
        _verify_node(e)
        if isinstance(e, Reduce):
            _own_axes(e, owner)
            combiners[e.combiner] = None
    for c in combiners:
        _verify_combiner(c)


def _own_axes(e: Reduce, owner: dict[Expr, Reduce | None]) -> None:
    for a in e.axes:
        if a not in owner:
            owner[a] = e
            continue
        other = owner[a]
        require(
            other is not None and same_fold(e, other),
            f"axis {a.name} is bound by two reductions, or by a reduction and its tensor",
            e,
        )


def _distinct(axes: Sequence[Axis]) -> None:
    require(len(dict.fromkeys(axes)) == len(axes), "an axis is listed twice")


def _verify_nest(axes: Sequence[Axis], outer: Iterable[Axis]) -> None:
    """Bounds use axes of `outer` and axes before their own."""
    _distinct(axes)
    inside = dict.fromkeys(axes)
    known = dict.fromkeys(outer)
    for a in axes:
        for bound in (a.lower, a.upper, a.step):
            require(bound.dtype is INT64, f"a bound of {a.name} is not int64", bound)
            for leaf in free_leaves(bound):
                late = leaf in inside and leaf not in known
                require(not late, f"a bound of {a.name} uses an axis not yet bound", bound)
        if isinstance(a.step, Const):
            require(a.step.value > 0, f"the step of {a.name} is not positive", a.step)
        known[a] = None


def _verify_combiner(c: Combiner) -> None:
    same = len(c.lhs) == len(c.rhs)
    require(same, f"combiner {c.name} has sides of unequal length")
    require(_dtypes(c.lhs) == _dtypes(c.rhs), f"combiner {c.name} mixes dtypes")
    _verify_state(c)


def _dtypes(exprs: Sequence[Expr]) -> list[str]:
    return [str(e.dtype) for e in exprs]


def _verify_state(c: Combiner) -> None:
    """State, results and identity agree; right operands may be of any kind."""
    sides = (c.lhs, c.results, c.identity)
    require(len({len(s) for s in sides}) == 1, f"combiner {c.name} has sides of unequal length")
    for left, result, start in zip(*sides, strict=True):
        dtypes = {str(e.dtype) for e in (left, result, start)}
        require(len(dtypes) == 1, f"combiner {c.name} mixes dtypes", result)
    own = dict.fromkeys((*c.lhs, *c.rhs))
    for e in postorder(*c.results):
        require(not isinstance(e, (Axis, Reduce, Read)), f"combiner {c.name} uses more", e)
        require(not isinstance(e, Param) or e in own, f"combiner {c.name} uses {e}")
        _verify_node(e)


def _verify_tensor(t: Tensor) -> None:
    require(0 <= t.index < n_outputs(t.op), f"{t.op.name} has no output {t.index}")
    require(outputs(t.op)[t.index] is t, f"{t.name} has another shape or dtype than its operation")


def _verify_node(e: Expr) -> None:
    match e:
        case Const():
            kind = bool if e.dtype is BOOL else float if e.dtype.is_float else int
            require(type(e.value) is kind, f"a constant of dtype {e.dtype} is {e.value!r}")
        case Axis() | Size():
            require(e.dtype is INT64, f"{e.name} is not int64")
        case Param():
            return
        case Read():
            _verify_tensor(e.tensor)
            require(e.dtype is e.tensor.dtype, "a read has another dtype than its tensor", e)
            require(len(e.indices) == e.tensor.ndim, "a read has another rank than its tensor", e)
            require(_all(e.indices, INT64), "an index is not int64", e)
        case Select():
            require(e.cond.dtype is BOOL, "a condition is not boolean", e)
            require(_all((e.then, e.orelse), e.dtype), "a select mixes dtypes", e)
        case Cast():
            require(e.value.dtype is not e.dtype, "a cast changes nothing", e)
        case Call():
            _verify_call(e)
        case Apply():
            _verify_apply(e)
        case Reduce():
            _verify_reduce(e)
        case _:
            raise Broken(f"unknown expression class {type(e).__name__}")


def _all(exprs: Sequence[Expr], dtype: DType) -> bool:
    return all(e.dtype is dtype for e in exprs)


def _verify_apply(e: Apply) -> None:
    require(_dtypes(e.args) == _dtypes(e.function.params), "a function's operands do not fit", e)
    require(e.dtype is e.function.result.dtype, "a use differs from its function's dtype", e)


def _verify_call(e: Call) -> None:
    row = FUNCTIONS.get(e.op)
    require(row is not None or e.op in OPERATIONS, f"{e.op!r} is no operation", e)
    expected = (1 + (e.op in _TWO_OPERANDS)) if row is None else row.arity
    require(len(e.args) == expected, f"{e.op} takes {expected} operands", e)
    if e.op in COMPARISONS or e.op in TESTS:
        require(e.dtype is BOOL, f"{e.op} gives {e.dtype}", e)
        require(_all(e.args, e.args[0].dtype), f"{e.op} mixes dtypes", e)
        return
    require(_all(e.args, e.dtype), f"{e.op} mixes dtypes", e)
    if e.op in LOGICAL:
        require(e.dtype is BOOL, f"{e.op} gives {e.dtype}", e)
    elif row is not None or e.op in (*ROUNDING, "div"):
        require(e.dtype.is_float, f"{e.op} gives {e.dtype}", e)
    elif e.op in ("floordiv", "mod"):
        require(e.dtype.is_integer, f"{e.op} gives {e.dtype}", e)


def _verify_reduce(e: Reduce) -> None:
    c = e.combiner
    require(0 <= e.index < c.arity, f"a reduction has no component {e.index}", e)
    require(len(e.sources) == c.arity, "sources do not fit their combiner", e)
    for source, start in zip(e.sources, c.identity, strict=True):
        require(source.dtype is start.dtype, f"a source is {source.dtype}, not {start.dtype}", e)
    require(e.dtype is c.identity[e.index].dtype, "a reduction has another dtype", e)
    require(e.condition.dtype is BOOL, "a condition is not boolean", e)
    _verify_nest(e.axes, ())
