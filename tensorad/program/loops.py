"""Loops: `while_loop`, `for_loop`, and `scan` over leading axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    Const,
    Expr,
    LocalSize,
    call,
    int_const,
    local_size,
    select,
    sub,
)
from tensorad.ir.order import AXIS, READ, occurs, sizes_in
from tensorad.ir.reference.known import current, known
from tensorad.ir.source import source_line
from tensorad.ir.tensor import Tensor, dim_expr, dim_of, format_shape
from tensorad.program.calls import check_takes, operand, parameter_names, shape_of
from tensorad.program.carries import Body, Trips, check_collected
from tensorad.program.checkpointing.replays import within_memory
from tensorad.program.checkpointing.segments import Iterations, in_segments
from tensorad.program.trees import Flat, flatten, is_leaf, unflatten
from tensorad.program.values import as_tensor
from tensorad.simplify.index.extremes import extremes_in_loops
from tensorad.simplify.index.intervals import interval
from tensorad.te import compute

Count = Tensor | Expr
_MOST: Final = 1 << 62
"""The difference of two bounds below this is an int64."""


def while_loop(
    cond_fn: Callable[[Any], Any],
    body_fn: Callable[[Any], Any],
    init: object,
    *,
    checkpoint: str | int | None = None,
    memory: int | None = None,
) -> Any:
    """`x = init; while cond_fn(x): x = body_fn(x)`; the last x.

    Args:
        cond_fn: carry -> 0-d bool.
        body_fn: carry -> carry: a tree of the same structure, shapes and dtypes. Both functions
            are called once to write down what they do (again where a number of `init` takes the
            dtype of what it meets); they may use tensors from outside.
        init: a tree. References in it may be others after each iteration, also ones that the body
            makes.
        checkpoint, memory: what is stored for reverse mode, see `scan`.
    Raises:
        DefinitionError, ShapeError, DTypeError: the body changes the carry's structure, shape or
            dtype; the condition is no 0-d bool.
    """
    where = f"while_loop at {source_line()}"
    check_takes(cond_fn, f"cond_fn of {where}", ["carry"])
    check_takes(body_fn, f"body_fn of {where}", ["carry"])
    (name,) = parameter_names(body_fn, ("carry",))
    init, is_done = _written_out_while(cond_fn, body_fn, operand(init, name))
    if is_done:
        return init
    trips = local_size("trips")
    body = Body(where, name, lambda carry, _: (body_fn(carry), None), test=cond_fn)
    loop = Iterations(lambda _: body, Trips(local_size("t", trips), trips))
    return _run(loop, init, checkpoint, memory)[0]


def for_loop(
    lower: object,
    upper: object,
    body_fn: Callable[[Any, Any], Any],
    init: object,
    *,
    checkpoint: str | int | None = None,
    memory: int | None = None,
) -> Any:
    """`x = init; for i in range(lower, upper): x = body_fn(i, x)`; the last x.

    Args:
        lower, upper: integers, formulas of sizes, or 0-d integer tensors that only a call knows.
        body_fn: (i, carry) -> carry, see `while_loop`. i is a formula that reads of tensors are
            proved with, `X[i, j]`, or a 0-d int64 tensor where `lower` is a tensor.
        init: a tree.
        checkpoint, memory: what is stored for reverse mode, see `scan`.
    Raises:
        DefinitionError, ShapeError, DTypeError: see `while_loop`; a bound is none.
    """
    where = f"for_loop at {source_line()}"
    check_takes(body_fn, f"body_fn of {where}", ["i", "carry"])
    counter_name, name = parameter_names(body_fn, ("i", "carry"))
    first, last = _bound(lower, "lower", where), _bound(upper, "upper", where)
    if isinstance(first, Expr) and isinstance(last, Expr):
        trips = _difference(first, last)
        if isinstance(trips, Const) and is_written_out(trips.value):
            carry = operand(init, name)
            for n in range(int(trips.value)):
                carry = body_fn(first + n, carry)
            return carry
        times = Trips(local_size(counter_name, trips), trips)
    else:
        count: Tensor = compute(
            (), lambda: call("maximum", sub(_value(last), _value(first)), int_const(0)), "count"
        )
        trips = local_size("trips")
        times = Trips(local_size(counter_name, trips), trips, count=count)

    def body(counter: Expr) -> Body:
        return Body(where, name, lambda x, _: (body_fn(_counted(first, counter), x), None))

    return _run(Iterations(body, times), init, checkpoint, memory)[0]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: object,
    xs: object = None,
    length: object = None,
    reverse: bool = False,
    *,
    checkpoint: str | int | None = None,
    memory: int | None = None,
) -> tuple[Any, Any]:
    """`carry = init; for x in xs: carry, y = f(carry, x)`: (the last carry, all y).

    Args:
        f: (carry, x) -> (carry, y): see `while_loop`; y is any tree.
        init: a tree.
        xs: a tree of tensors or arrays with one leading extent; x is what is behind it.
        length: how many iterations: an integer, a formula of sizes or a 0-d integer tensor; needed
            without `xs`.
        reverse: from the last x to the first; y of x[t] stays at t.
        checkpoint: what is stored for reverse mode. None: what it needs of each iteration. k: the
            carry before each k-th iteration, and while a segment of k is gone back, what it needs
            of these k, which are computed again. "sqrt": about the root of the number of
            iterations for k. Values and derivatives have the same bits.
        memory: how many bytes may be stored in place of that: as many carries as fit, from where
            fewest iterations run again.
    Returns:
        (carry, ys): leaves of ys have a leading axis.
    Raises:
        DefinitionError, ShapeError, DTypeError: see `while_loop`; leading extents differ.
    """
    where = f"scan at {source_line()}"
    check_takes(f, f"the function of {where}", ["carry", "x"])
    carry_name, x_name = parameter_names(f, ("carry", "x"))
    flat = flatten(operand(xs, "xs"), "xs")
    scanned = [as_tensor(v, p) for v, p in zip(flat.leaves, flat.paths, strict=True)]
    times = _times(where, flat, scanned, length)
    times = replace(times, reverse=bool(reverse))

    def step(carry: object, parts: list[Tensor]) -> tuple[Any, Any]:
        made = f(carry, unflatten(flat.structure, parts))
        if not isinstance(made, tuple) or len(made) != 2:
            raise DefinitionError(
                f"the function of {where} must return a pair (carry, y), got {_described(made)}.",
                hint="return (carry, None) if there is nothing to collect.",
            )
        return made

    if isinstance(times.trips, Const) and times.trips.value and is_written_out(times.trips.value):
        start = operand(init, carry_name)
        return _written_out_scan(step, start, scanned, times, where)
    names = [x_name + p.removeprefix("xs") for p in flat.paths]
    body = Body(where, carry_name, step, part_names=names)
    return _run(Iterations(lambda _: body, times, scanned), init, checkpoint, memory)


def _run(loop: Iterations, init: object, checkpoint: object, memory: object) -> tuple[Any, Any]:
    """The last carry, and all that is collected."""
    if memory is None and checkpoint is None:
        return loop.run(init)
    if memory is not None and checkpoint is not None:
        raise DefinitionError(
            f"{loop.where} has checkpoint={checkpoint!r} and memory={memory!r}.",
            hint="pass one of them: memory tells how much is stored, checkpoint how often.",
        )
    if type(memory) is int:
        return within_memory(loop, init, memory)
    if memory is not None:
        raise DefinitionError(
            f"memory of {loop.where} is {memory!r}.", hint="pass a number of bytes, an integer."
        )
    if checkpoint == "sqrt" or (type(checkpoint) is int and checkpoint >= 1):
        return in_segments(loop, init, checkpoint)
    raise DefinitionError(
        f"checkpoint of {loop.where} is {checkpoint!r}.",
        hint='pass "sqrt", or how many iterations a segment has: 1 or more.',
    )


def _written_out_scan(
    step: Callable[[Any, list[Tensor]], tuple[Any, Any]], carry: Any, xs: list[Tensor],
    times: Trips, where: str,
) -> tuple[Any, Any]:  # fmt: skip
    """The iterations one after the other, and what they collect as tensors of rows."""
    assert isinstance(times.trips, Const), "their number is known"
    rows: list[Flat] = []
    order = range(int(times.trips.value))
    for n in reversed(order) if times.reverse else order:
        parts = [_row(x, n) for x in xs]
        carry, y = step(carry, parts)
        rows.append(flatten(y, "y"))
    if times.reverse:
        rows.reverse()
    check_collected([row.structure for row in rows], where)
    columns = zip(*[row.leaves for row in rows], strict=True)
    pairs = zip(columns, rows[0].paths, strict=True)
    ys = [_stacked([as_tensor(v, path) for v in column], path) for column, path in pairs]
    return carry, unflatten(rows[0].structure, ys)


def _row(x: Tensor, n: int) -> Tensor:
    made: Tensor = compute(x.shape[1:], lambda *axes: x(n, *axes), name=x.name)
    return made


def _stacked(rows: Sequence[Tensor], name: str) -> Tensor:
    def body(k: Expr, *axes: Expr) -> Expr:
        found: Expr = rows[-1](*axes)
        for n in reversed(range(len(rows) - 1)):
            found = select(call("le", k, int_const(n)), rows[n](*axes), found)
        return found

    made: Tensor = compute((len(rows), *rows[0].shape), body, name=name)
    return made


def is_written_out(trips: object) -> bool:
    """Whether a loop of so many iterations is written out, within a partial evaluation."""
    evaluation = current()
    return evaluation is not None and isinstance(trips, int) and trips <= evaluation.iterations


def _written_out_while(
    cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], carry: Any
) -> tuple[Any, bool]:
    """The carry behind the iterations whose conditions are known, and whether these are all."""
    n = 0
    while is_written_out(n + 1):
        value = known(cond_fn(carry))
        if value is None or not value:
            return carry, value is not None
        carry = body_fn(carry)
        n += 1
    return carry, False


def _described(value: object) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} values"
    return f"a {type(value).__name__}"


def _times(where: str, xs: Flat, scanned: list[Tensor], length: object) -> Trips:
    """How often a scan runs."""
    for t, path in zip(scanned, xs.paths, strict=True):
        if not t.ndim:
            raise ShapeError(
                f"{path} of {where} has no axis to go along: its shape is ().",
                hint="pass what stays the same from outside: the function may use any tensor.",
            )
        if not same_dim(t.shape[0], scanned[0].shape[0]):
            raise ShapeError(
                f"leading extents of {where} differ: {scanned[0].shape[0]} and {t.shape[0]}.",
                where=f"{xs.paths[0]}: {format_shape(scanned[0].shape)}, "
                f"{path}: {format_shape(t.shape)}",
                hint="all leaves of xs are gone through together.",
            )
    if length is None and not scanned:
        raise DefinitionError(
            f"{where} has neither xs nor a length.", hint="pass length=10, say how often f runs."
        )
    if length is None:
        trips = dim_expr(scanned[0].shape[0])
        return Trips(local_size("t", trips), trips)
    given = _bound(length, "length", where)
    if isinstance(given, Const) and given.value < 0:
        raise DefinitionError(
            f"the length of {where} is {given}.", hint="say how often f runs: 0 times or more."
        )
    if isinstance(given, Tensor):
        if scanned:
            raise DefinitionError(
                f"{where} has xs of {scanned[0].shape[0]} elements and a length that only a call "
                "knows.",
                hint="leave out the length, or use for_loop and read the elements.",
            )
        trips = local_size("trips")
        count: Tensor = compute((), lambda: call("maximum", given(), int_const(0)), "count")
        return Trips(local_size("t", trips), trips, count=count)
    if scanned and not same_dim(dim_of(given), scanned[0].shape[0]):
        raise ShapeError(
            f"{where} has length {given}, but xs have {scanned[0].shape[0]} elements.",
            where=f"{xs.paths[0]}: {format_shape(scanned[0].shape)}",
            hint="leave out the length.",
        )
    return Trips(local_size("t", given), given)


def _bound(value: object, title: str, where: str) -> Count:
    """A bound of a loop: a formula of sizes, or a tensor."""
    if is_leaf(value):
        if isinstance(value, Tensor) and value.dtype.is_integer and not value.shape:
            return as_tensor(value, title, INT64)
        if isinstance(value, Expr) and value.dtype.is_integer and not occurs(AXIS, value):
            return as_tensor(value, title, INT64) if occurs(READ, value) else value
        if not isinstance(value, (Tensor, Expr)) and not shape_of(value):
            number = value.item() if hasattr(value, "item") else value
            if isinstance(number, int) and not isinstance(number, bool):
                if abs(number) >= _MOST:
                    raise DTypeError(
                        f"{title} of {where} is {number}, which no loop can count to.",
                        hint="counters are 64-bit integers.",
                    )
                return int_const(number)
    shown = (
        f"{value.dtype} {format_shape(value.shape)}" if isinstance(value, Tensor) else repr(value)
    )
    raise DTypeError(
        f"{title} of {where} is no whole number: {shown}.",
        hint="pass an integer, a size, or a 0-d integer tensor.",
    )


def _difference(lower: Expr, upper: Expr) -> Expr:
    """How many integers are from lower to upper."""
    n = dim_of(sub(upper, lower))
    if isinstance(n, int):
        return int_const(max(n, 0))
    zero = int_const(0)
    return n if lower is zero and _is_natural(n) else call("maximum", n, zero)


def _is_natural(n: Expr) -> bool:
    """Whether an upper bound is not negative: of sizes alone, calls see to that."""
    sizes = dict.fromkeys(sizes_in(n))
    if not any(isinstance(s, LocalSize) for s in sizes):
        return True
    least = extremes_in_loops(n, sizes).lo
    found = None if least is None else interval(least).lo
    return found is not None and found >= 0


def _value(bound: Count) -> Expr:
    return bound() if isinstance(bound, Tensor) else bound


def _counted(lower: Count, counter: Expr) -> Count:
    """The lower bound plus the counter, a tensor if it is one."""
    if isinstance(lower, Expr):
        return lower + counter
    made: Tensor = compute((), lambda: lower() + counter, name="i")
    return made
