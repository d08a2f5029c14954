"""Well-formedness of the IR: what every pass must leave true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorad.errors import InternalError
from tensorad.ir.analysis.blocks import ops_between, own_sizes
from tensorad.ir.checkpoints import Checkpoint
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
from tensorad.ir.tensor import (
    Branch,
    Compute,
    Constant,
    Control,
    FunctionCall,
    Loop,
    Op,
    Placeholder,
    Saved,
    Scan,
    Scatter,
    Tensor,
    dim_expr,
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
            except _Broken as broken:
                raise InternalError(f"{broken}\n{_shown(op)}") from None


def verify_control(op: Control) -> None:
    """Check that what is given to blocks, and what they give, has the shapes and dtypes of both
    sides.

    Raises:
        InternalError: it has not.
    """
    try:
        _verify_control(op)
    except _Broken as broken:
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
    if not isinstance(op, Control):
        return []
    around = (*counters, op.counter) if isinstance(op, Loop) else counters
    return [_Place(b.results, b.params, around) for b in op.blocks]


def _verify_place(op: Op, place: _Place, inside: Mapping[Op, None]) -> None:
    """Blocks read params, constants, and sizes of the loops around them."""
    if isinstance(op, Placeholder):
        _require(place.params is None, f"{op.name} is read in a block that is not given it")
    if isinstance(op, Saved):
        _require(op.control in inside, f"{op.name} is read where {op.control.name} does not run")
    for size in own_sizes(op):
        if isinstance(size, LocalSize) and size.extent is not None:
            known = any(size is c for c in place.counters)
            _require(known, f"counter {size.label} is read outside of its loop")


def verify_expr(e: Expr, scope: Iterable[Expr] = ()) -> None:
    """Check one expression that may use the axes and parameters of `scope`.

    Raises:
        InternalError: some node breaks a rule.
    """
    try:
        _verify_roots((e,), scope)
    except _Broken as broken:
        raise InternalError(f"{broken}\n{format_expr(e)}") from None


class _Broken(Exception):
    """A rule is broken; `verify` adds the IR."""


def _require(holds: bool, rule: str, at: Expr | None = None) -> None:
    if not holds:
        raise _Broken(rule if at is None else f"{rule}\n  in: {format_expr(at)}")


def _verify_op(op: Op) -> None:
    for extent in op.shape:
        if isinstance(extent, Expr):
            _require(extent.dtype is INT64, "an extent is not an int64 expression", extent)
            _require(_is_size_arithmetic(extent), "an extent uses more than sizes", extent)
        else:
            _require(extent >= 0, f"an extent is negative: {extent}")
    match op:
        case Placeholder():
            return
        case Constant():
            _require(str(op.array.dtype) == op.dtype, f"the array's dtype is {op.array.dtype}")
        case Compute():
            _verify_compute(op)
        case Scatter():
            _verify_scatter(op)
        case Scan():
            _verify_scan(op)
        case Control():
            _verify_control(op)
        case Saved():
            own = isinstance(op.control, Loop) and op.block != 0
            _require(not own, "what is saved of a loop is no part of its first block")


def _verify_control(op: Control) -> None:
    match op:
        case FunctionCall():
            _require(len(op.blocks) == 1, "a call has one block")
            _verify_given(op.blocks[0].params, op.operands)
            if isinstance(op, Checkpoint):
                _require(0 <= op.keeps <= len(op.results), "a checkpoint keeps what it has not")
        case Branch():
            index, *operands = op.operands
            _require(not index.shape and not index.dtype.is_float, "a branch is chosen by an array")
            for block in op.blocks:
                _verify_given(block.params, operands)
                _verify_given(block.results, op.blocks[0].results)
        case Loop():
            _verify_loop(op)
        case _:
            raise _Broken(f"unknown operation {type(op).__name__}")
    _require(len(op.names) > 0, "an operation with blocks has no output")
    _require(len(op.names) == len(op.results), "names do not fit the results of the blocks")
    for block in op.blocks:
        distinct = len(dict.fromkeys(block.params)) == len(block.params)
        _require(distinct, "a block is given a tensor twice")


def _verify_loop(op: Loop) -> None:
    body, *tests = op.blocks
    last = op.carries + op.scanned
    _require(op.carries > 0, "a loop has no carry")
    _require(len(tests) < 2, "a loop has more than a body and a test")
    _verify_given(body.results, body.params[: op.carries])
    _require(len(body.params) == len(op.operands), "operands do not fit the params of a block")
    fixed = (*op.operands[: op.carries], *op.operands[last:])
    kept = (*body.params[: op.carries], *body.params[last:])
    _verify_given(kept, fixed)
    for part, t in zip(body.params[op.carries : last], op.operands[op.carries : last], strict=True):
        rows = t.ndim > 0 and dim_expr(t.shape[0]) is op.trips
        _require(rows, f"{t.name} has not a part for each iteration")
        _require(
            part.dtype is t.dtype and _same_shape(part, t.shape[1:]), f"{part.name} is no part"
        )
    for test in tests:
        _verify_given(test.params, fixed)
        (ends,) = test.results if len(test.results) == 1 else (None,)
        is_bool = ends is not None and ends.dtype is BOOL and not ends.shape
        _require(is_bool, "a test has not one bool as result")
        _require(
            op.count is None and not op.reverse, "a loop with a test has a count or a direction"
        )
    if op.count is not None:
        whole = not op.count.shape and op.count.dtype.is_integer
        _require(whole, "the number of iterations is no integer")
    own = isinstance(op.trips, LocalSize) and op.trips.extent is None
    counted = bool(tests) or op.count is not None
    _require(own or not counted, "trips that only the run tells are no size of the loop's own")
    _require(op.counter.extent is op.trips, "a counter is not below the number of iterations")


def _verify_given(params: Sequence[Tensor], operands: Sequence[Tensor]) -> None:
    _require(len(params) == len(operands), "operands do not fit the params of a block")
    for p, t in zip(params, operands, strict=True):
        fits = p.dtype is t.dtype and _same_shape(p, t.shape)
        _require(fits, f"{p.name} has another shape or dtype than {t.name}")


def _is_size_arithmetic(e: Expr) -> bool:
    return all(isinstance(n, (Size, Const, Call, Cast, Select)) for n in postorder(e))


def _verify_compute(op: Compute) -> None:
    _require(len(op.bodies) > 0, "a compute has no body")
    _distinct(op.axes)
    for a in op.axes:
        _require(a.lower is ZERO and a.step is ONE, f"compute axis {a.name} is not 0, 1, 2, ...")
        _require(_is_size_arithmetic(a.upper), f"the extent of {a.name} uses an axis", a.upper)
    _verify_roots(op.bodies, op.axes)


def _verify_scatter(op: Scatter) -> None:
    _verify_combiner(op.combiner)
    _require(op.combiner.arity == 1, "a scatter folds tuples")
    _require(op.combiner.identity[0].dtype is op.dtype, "the combiner folds another dtype")
    if op.init is not None:
        fits = op.init.dtype is op.dtype and _same_shape(op.init, op.shape)
        _require(fits, f"init {op.init.name} has another shape or dtype")
    _verify_nest(op.axes, ())
    _verify_roots(op_expressions(op), op.axes)
    for u in op.updates:
        _require(len(u.indices) == len(op.shape), "an update has another number of indices")
        _require(u.value.dtype is op.dtype, "an update has another dtype", u.value)
        _require(u.condition.dtype is BOOL, "a condition is not boolean", u.condition)
        for i in u.indices:
            _require(i.dtype is INT64, "an index is not int64", i)


def _same_shape(t: Tensor, shape: Sequence[object]) -> bool:
    if len(shape) != t.ndim:
        return False
    return all(
        a is b or (isinstance(a, int) and isinstance(b, int) and a == b)
        for a, b in zip(t.shape, shape, strict=True)
    )


def _verify_scan(op: Scan) -> None:
    c = op.combiner
    _verify_state(c)
    _require(_dtypes(op.sources) == _dtypes(c.rhs), "a scan's sources do not fit its combiner")
    _require(_dtypes(op.start) == _dtypes(c.lhs), "a scan's start does not fit its combiner")
    _require(op.condition.dtype is BOOL, "a condition is not boolean", op.condition)
    _require(len(op.indices) == len(op.shape), "a scan's indices do not fit its shape")
    _require(_all(op.indices, INT64), "an index is not int64")
    cell = op.axes if op.cell is None else op.cell
    _require(len(cell) == len(op.axes), "a scan's cell does not fit its axes")
    _verify_nest(op.axes, ())
    _verify_nest(op.along, () if op.cell is not None else op.axes)
    _verify_roots(op.start, op.axes)
    _verify_roots((op.condition, *op.sources, *op.indices, *cell), op.scope)
    for e in postorder(*op_expressions(op)):
        _require(not isinstance(e, Reduce), "a scan holds a reduction", e)


def _verify_roots(roots: Sequence[Expr], scope: Iterable[Expr]) -> None:
    """Every node, the scope of axes, and which reductions share axes."""
    owner: dict[Expr, Reduce | None] = dict.fromkeys(scope)
    combiners: dict[Combiner, None] = {}
    for leaf in free_leaves(*roots):
        _require(leaf in owner, f"{format_expr(leaf)} is used outside its scope")
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
        _require(
            other is not None and same_fold(e, other),
            f"axis {a.name} is bound by two reductions, or by a reduction and its tensor",
            e,
        )


def _distinct(axes: Sequence[Axis]) -> None:
    _require(len(dict.fromkeys(axes)) == len(axes), "an axis is listed twice")


def _verify_nest(axes: Sequence[Axis], outer: Iterable[Axis]) -> None:
    """Bounds use axes of `outer` and axes before their own."""
    _distinct(axes)
    inside = dict.fromkeys(axes)
    known = dict.fromkeys(outer)
    for a in axes:
        for bound in (a.lower, a.upper, a.step):
            _require(bound.dtype is INT64, f"a bound of {a.name} is not int64", bound)
            for leaf in free_leaves(bound):
                late = leaf in inside and leaf not in known
                _require(not late, f"a bound of {a.name} uses an axis not yet bound", bound)
        if isinstance(a.step, Const):
            _require(a.step.value > 0, f"the step of {a.name} is not positive", a.step)
        known[a] = None


def _verify_combiner(c: Combiner) -> None:
    same = len(c.lhs) == len(c.rhs)
    _require(same, f"combiner {c.name} has sides of unequal length")
    _require(_dtypes(c.lhs) == _dtypes(c.rhs), f"combiner {c.name} mixes dtypes")
    _verify_state(c)


def _dtypes(exprs: Sequence[Expr]) -> list[str]:
    return [str(e.dtype) for e in exprs]


def _verify_state(c: Combiner) -> None:
    """State, results and identity agree; right operands may be of any kind."""
    sides = (c.lhs, c.results, c.identity)
    _require(len({len(s) for s in sides}) == 1, f"combiner {c.name} has sides of unequal length")
    for left, result, start in zip(*sides, strict=True):
        dtypes = {str(e.dtype) for e in (left, result, start)}
        _require(len(dtypes) == 1, f"combiner {c.name} mixes dtypes", result)
    own = dict.fromkeys((*c.lhs, *c.rhs))
    for e in postorder(*c.results):
        _require(not isinstance(e, (Axis, Reduce, Read)), f"combiner {c.name} uses more", e)
        _require(not isinstance(e, Param) or e in own, f"combiner {c.name} uses {e}")
        _verify_node(e)


def _verify_tensor(t: Tensor) -> None:
    _require(0 <= t.index < n_outputs(t.op), f"{t.op.name} has no output {t.index}")
    _require(outputs(t.op)[t.index] is t, f"{t.name} has another shape or dtype than its operation")


def _verify_node(e: Expr) -> None:
    match e:
        case Const():
            kind = bool if e.dtype is BOOL else float if e.dtype.is_float else int
            _require(type(e.value) is kind, f"a constant of dtype {e.dtype} is {e.value!r}")
        case Axis() | Size():
            _require(e.dtype is INT64, f"{e.name} is not int64")
        case Param():
            return
        case Read():
            _verify_tensor(e.tensor)
            _require(e.dtype is e.tensor.dtype, "a read has another dtype than its tensor", e)
            _require(len(e.indices) == e.tensor.ndim, "a read has another rank than its tensor", e)
            _require(_all(e.indices, INT64), "an index is not int64", e)
        case Select():
            _require(e.cond.dtype is BOOL, "a condition is not boolean", e)
            _require(_all((e.then, e.orelse), e.dtype), "a select mixes dtypes", e)
        case Cast():
            _require(e.value.dtype is not e.dtype, "a cast changes nothing", e)
        case Call():
            _verify_call(e)
        case Apply():
            _verify_apply(e)
        case Reduce():
            _verify_reduce(e)
        case _:
            raise _Broken(f"unknown expression class {type(e).__name__}")


def _all(exprs: Sequence[Expr], dtype: DType) -> bool:
    return all(e.dtype is dtype for e in exprs)


def _verify_apply(e: Apply) -> None:
    _require(_dtypes(e.args) == _dtypes(e.function.params), "a function's operands do not fit", e)
    _require(e.dtype is e.function.result.dtype, "a use differs from its function's dtype", e)


def _verify_call(e: Call) -> None:
    row = FUNCTIONS.get(e.op)
    _require(row is not None or e.op in OPERATIONS, f"{e.op!r} is no operation", e)
    expected = (1 + (e.op in _TWO_OPERANDS)) if row is None else row.arity
    _require(len(e.args) == expected, f"{e.op} takes {expected} operands", e)
    if e.op in COMPARISONS or e.op in TESTS:
        _require(e.dtype is BOOL, f"{e.op} gives {e.dtype}", e)
        _require(_all(e.args, e.args[0].dtype), f"{e.op} mixes dtypes", e)
        return
    _require(_all(e.args, e.dtype), f"{e.op} mixes dtypes", e)
    if e.op in LOGICAL:
        _require(e.dtype is BOOL, f"{e.op} gives {e.dtype}", e)
    elif row is not None or e.op in (*ROUNDING, "div"):
        _require(e.dtype.is_float, f"{e.op} gives {e.dtype}", e)
    elif e.op in ("floordiv", "mod"):
        _require(e.dtype.is_integer, f"{e.op} gives {e.dtype}", e)


def _verify_reduce(e: Reduce) -> None:
    c = e.combiner
    _require(0 <= e.index < c.arity, f"a reduction has no component {e.index}", e)
    _require(len(e.sources) == c.arity, "sources do not fit their combiner", e)
    for source, start in zip(e.sources, c.identity, strict=True):
        _require(source.dtype is start.dtype, f"a source is {source.dtype}, not {start.dtype}", e)
    _require(e.dtype is c.identity[e.index].dtype, "a reduction has another dtype", e)
    _require(e.condition.dtype is BOOL, "a condition is not boolean", e)
    _verify_nest(e.axes, ())
