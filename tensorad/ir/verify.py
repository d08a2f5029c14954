"""Well-formedness of the IR: what every pass must leave true."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorad.errors import InternalError
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
    Param,
    Read,
    Reduce,
    Select,
    Size,
)
from tensorad.ir.tensor import (
    Compute,
    Constant,
    Op,
    Placeholder,
    Scan,
    Scatter,
    Tensor,
    n_outputs,
    outputs,
)
from tensorad.ir.text.printer import format_expr, format_tensor, same_fold
from tensorad.ir.visit import free_leaves, op_expressions, postorder, topological_ops

_TWO_OPERANDS = dict.fromkeys((*ARITHMETIC, *COMPARISONS, "and", "or"))


def verify(tensors: Iterable[Tensor]) -> None:
    """Check every operation the tensors depend on.

    Raises:
        InternalError: some node breaks a rule; the text has the rule and the printed IR.
    """
    for op in topological_ops(tensors):
        try:
            _verify_op(op)
        except _Broken as broken:
            raise InternalError(f"{broken}\n{format_tensor(outputs(op)[0])}") from None


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
