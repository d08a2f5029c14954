"""Runs a loop program in plain Python: floats in float64, integers wrapped, nothing clever."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorad.codegen.loops.ir import (
    Activate,
    Assign,
    ButLast,
    CallPython,
    Check,
    Choose,
    Exchange,
    Fold,
    For,
    If,
    Inside,
    Kernel,
    LoopProgram,
    Make,
    Node,
    Place,
    Prefetch,
    Repeat,
    Reserve,
    Routine,
    Settle,
    Stmt,
    Store,
    Visit,
)
from tensorad.codegen.loops.run_sizes import NO_PRODUCTS, Products, asked
from tensorad.errors import BoundsError, InternalError
from tensorad.ir.dtypes import BOOL, DType
from tensorad.ir.expr import (
    Expr,
    Number,
    Size,
    size_var,
)
from tensorad.ir.records import Definition, is_record
from tensorad.ir.reference.formulas import Formulas
from tensorad.ir.tensor import Constant, Tensor

Environment = dict[Expr, Any]
Array = np.ndarray[Any, np.dtype[Any]]


class TooLongError(Exception):
    """Loops take more iterations than they were given."""


def interpret_loops(
    program: LoopProgram,
    arrays: Mapping[Tensor, Array],
    sizes: Mapping[str, int] | Mapping[Expr, int] | None = None,
    most: float = math.inf,
) -> tuple[list[Array], int]:
    """The outputs (float64, int64 or bool arrays) and how many `Visit`s were executed.

    Inside a vector loop both sides of a `Select` are evaluated, as lanes do.

    Args:
        sizes: by name, or themselves: those that loops around the program give.
        most: iterations of all loops together.
    Raises:
        BoundsError: a read, a write or a `Check` lies outside its tensor.
        TooLongError: loops take more iterations.
    """
    run = _run(program, arrays, sizes or {}, most)
    return [run.buffer(t) for t in program.outputs], run.visits


def checks_made(program: LoopProgram, arrays: Mapping[Tensor, Array]) -> int:
    """How many indices a call looks at before it uses them."""
    return _run(program, arrays, {}).checks


def _run(
    program: LoopProgram,
    arrays: Mapping[Tensor, Array],
    sizes: Mapping[str, int] | Mapping[Expr, int],
    most: float = math.inf,
) -> _Run:
    run = _Run(dict(_bind_sizes(arrays)), most)
    run.scalars.update({size_var(n) if isinstance(n, str) else n: v for n, v in sizes.items()})
    for t, a in arrays.items():
        run.buffers[t] = np.array(a, dtype=storage_dtype(t.dtype))
    run.routines = {r.definition: r for r in program.routines}
    run.products = Products(told=program.products)
    run.nodes(program.nodes)
    return run


def _is_same(a: Array, b: Array) -> bool:
    """Whether arrays of one shape lie at one place."""
    return a.ctypes.data == b.ctypes.data


def storage_dtype(dtype: DType) -> type:
    """What the interpreter keeps elements in."""
    if is_record(dtype):
        return object
    if dtype is BOOL:
        return bool
    return float if dtype.is_float else int


def _bind_sizes(arrays: Mapping[Tensor, Array]) -> Environment:
    found: Environment = {}
    for t, a in arrays.items():
        for extent, n in zip(t.shape, a.shape, strict=True):
            if isinstance(extent, Size):
                found[extent] = n
    return found


class _Run:
    """Buffers, scalars in scope and the counts of visits and checks."""

    def __init__(self, scalars: Environment, most: float = math.inf) -> None:
        self.scalars = scalars
        self.iterations_left = most
        self.buffers: dict[Tensor, Array] = {}
        self.visits = 0
        self.checks = 0
        self.eager = False
        self.scratch: tuple[Tensor, ...] = ()
        self.routines: Mapping[Definition, Routine] = {}
        self.products = NO_PRODUCTS
        self.formulas = [Elements(self, eager) for eager in (False, True)]
        self.placed: dict[Tensor, None] = {}
        """Tensors whose memory is another one's."""

    def buffer(self, t: Tensor) -> Array:
        found = self.buffers.get(t)
        if found is None and isinstance(t.op, Constant):
            found = np.array(t.op.array, dtype=storage_dtype(t.dtype))
            self.buffers[t] = found
        if found is None:
            raise InternalError(f"{t.name} is read before it is written")
        return found

    def nodes(self, nodes: Sequence[Node]) -> None:
        for n in nodes:
            self.check_told(n)
            match n:
                case Kernel():
                    self.kernel(n)
                case CallPython():
                    self.call(n)
                case Place():
                    self.place(n)
                case Exchange():
                    self.exchange(n)
                case Settle():
                    self.settle(n)
                case ButLast():
                    last = 0 if n.reverse else self.scalars[n.trips] - 1
                    self.nodes(n.nodes if self.scalars[n.counter] != last else ())
                case Reserve():
                    self.clear([n.tensor])
                case Choose():
                    self.nodes(n.arms[int(self.buffer(n.index))])
                case Repeat():
                    self.repeat(n)
                case _:
                    self.record(n)

    def check_told(self, n: Node) -> None:
        """What memory is asked for by has been told."""
        for e in asked(n, self.products.sizes):
            told = self.scalars[self.products.told[e]]
            if told != max(self.value(e), 0):
                raise InternalError(f"{e} was told to be {told}, not {self.value(e)}")

    def record(self, n: Make | Inside | Activate) -> None:
        """A record is its variant's number and its fields; a definition runs in buffers of its
        own."""
        match n:
            case Make():
                self.clear([n.handle])
                fields = tuple([self.buffer(t).copy() for t in n.fields])
                self.buffers[n.handle][()] = (np.array(n.tag), *fields)
            case Inside():
                found = self.buffer(n.handle).item()
                self.placed[n.tensor] = None
                self.buffers[n.tensor] = found[0 if n.variant is None else 1 + n.number]
            case Activate():
                self.activate(n)

    def activate(self, n: Activate) -> None:
        self.clear([t for t in n.results if t not in n.totals])
        r = self.routines[n.definition]
        given = [self.buffer(t) for t in (*n.operands, *n.results)]
        values = [self.value(e) for e in n.sizes]
        before, placed, scalars = self.buffers, self.placed, self.scalars
        products = self.products
        self.buffers = dict(zip((*r.params, *r.results), given, strict=True))
        self.placed = dict.fromkeys(self.buffers)
        self.scalars = {**scalars, **dict(zip(n.definition.sizes, values, strict=True))}
        self.products = Products(dict.fromkeys(n.definition.sizes), r.products)
        self.nodes(r.nodes)
        self.buffers, self.placed, self.scalars = before, placed, scalars
        self.products = products

    def call(self, n: CallPython) -> None:
        given = [np.array(self.buffer(t), dtype=str(t.dtype)) for t in n.reads]
        self.clear(n.writes)
        made = [self.buffer(t) for t in n.writes]
        for whole, result in zip(made, n.run(given, [a.shape for a in made]), strict=True):
            whole[...] = result

    def place(self, n: Place) -> None:
        if n.source not in self.buffers and not isinstance(n.source.op, Constant):
            self.clear([n.source])
        whole = self.buffer(n.source)
        row = 0 if n.row is None else int(self.value(n.row)) + n.offset
        if n.below is not None and not 0 <= row < self.scalars[n.below]:
            return
        self.placed[n.tensor] = None
        if n.row is not None:
            whole = whole[row:] if n.tensor.ndim == whole.ndim else whole[row, ...]
        self.buffers[n.tensor] = whole

    def settle(self, n: Settle) -> None:
        there = self.buffers.get(n.tensor)
        if there is None or not _is_same(there, self.buffer(n.source)):
            self.nodes(n.nodes)

    def repeat(self, n: Repeat) -> None:
        """Stores have no rows yet where the number of iterations is not known: they grow."""
        known = n.count is not None
        count = 0
        if n.count is not None:
            value = self.buffer(n.count) if isinstance(n.count, Tensor) else self.value(n.count)
            count = max(int(value), 0)
        self.scalars[n.trips] = count
        if known:
            self.clear(n.stores)
        else:
            self.grow(n.stores)
        self.nodes(n.start)
        done = 0
        while not known or done < count:
            self.scalars[n.counter] = count - 1 - done if n.reverse else done
            self.nodes(n.test)
            if n.condition is not None and not self.buffer(n.condition):
                break
            if not known:
                self.scalars[n.trips] = done + 1
                self.grow(n.stores)
            self.nodes(n.body)
            self.nodes(n.moves)
            done += 1
        self.scalars[n.trips] = done

    def exchange(self, n: Exchange) -> None:
        if n.even is None or self.scalars[n.even] % 2 == 0:
            self.buffers[n.a], self.buffers[n.b] = self.buffers[n.b], self.buffers[n.a]

    def grow(self, stores: Sequence[Tensor]) -> None:
        """One more row each."""
        old = {t: self.buffers.get(t) for t in stores}
        self.clear(stores)
        for t, rows in old.items():
            if rows is not None and len(rows) < len(self.buffers[t]):
                self.buffers[t][: len(rows)] = rows

    def kernel(self, kernel: Kernel) -> None:
        self.scratch = kernel.scratch
        self.clear(kernel.writes)
        self.clear(kernel.scratch)
        self.block(kernel.body)

    def clear(self, tensors: Sequence[Tensor]) -> None:
        """New buffers that hold nothing of use."""
        for t in [t for t in tensors if t not in self.placed]:
            shape = [n if isinstance(n, int) else int(self.value(n)) for n in t.shape]
            empty = math.nan if t.dtype.is_float else 0
            self.buffers[t] = np.full(shape, empty, dtype=storage_dtype(t.dtype))

    def block(self, body: Sequence[Stmt]) -> None:
        for s in body:
            self.statement(s)

    def statement(self, s: Stmt) -> None:
        match s:
            case For():
                self.loop(s)
            case If():
                self.block(s.then if self.value(s.cond) else s.orelse)
            case Assign():
                self.assign(s.targets, self.values(s.values))
            case Fold():
                state = [self.scalars[t] for t in s.targets]
                added = self.values(s.values)
                self.assign(s.targets, self.formulas[0].combine(s.combiner, state, added))
            case Store():
                found = self.values((*s.indices, *s.values))
                where = tuple(found[: len(s.indices)])
                for t, v in zip(s.tensors, found[len(where) :], strict=True):
                    array = self.buffer(t)
                    check_index(t, where, array.shape, "written")
                    array[where] = v
            case Visit():
                self.visits += 1
            case Prefetch():
                pass
            case Check():
                self.checks += 1
                index = self.value(s.index)
                if not 0 <= index < self.value(s.extent):
                    raise BoundsError(f"{s.read.tensor.name} is read at {index}.")
            case _:
                raise InternalError(f"unknown statement {type(s).__name__}")

    def assign(self, targets: Sequence[Expr], values: Sequence[Number]) -> None:
        self.scalars.update(zip(targets, values, strict=True))

    def loop(self, s: For) -> None:
        lower, upper, step = (int(self.value(b)) for b in (s.axis.lower, s.axis.upper, s.axis.step))
        eager = self.eager
        self.eager = eager or s.kind == "vector"
        self.iterations_left -= max(0, upper - lower) // step
        if self.iterations_left < 0:
            raise TooLongError("the loops take too many turns")
        starts = [*range(lower, upper, step)]
        if s.covering and starts[-1:] != [upper - 1]:
            starts.append(upper - 1)
        for i in starts:
            self.scalars[s.axis] = i
            if s.kind == "parallel":
                self.clear(self.scratch)
            self.block(s.body)
        if s.kind == "parallel":
            self.clear(self.scratch)
        self.eager = eager
        self.scalars.pop(s.axis, None)

    def value(self, root: Expr) -> Any:
        return self.scalars[root] if root in self.scalars else self.values((root,))[0]

    def values(self, roots: Sequence[Expr]) -> list[Any]:
        """Only the chosen side of a select is evaluated where lanes do not take both."""
        return self.formulas[self.eager].values(roots, {}, self.scalars)


class Elements(Formulas):
    """Formulas whose reads are of the buffers of a run.

    Args:
        eager: evaluate both sides of a select, as lanes do.
    """

    def __init__(self, run: _Run, eager: bool) -> None:
        super().__init__(eager)
        self.run = run

    def reading(self, t: Tensor) -> Callable[..., Any]:
        """What gives an element of the buffer that `t` then has."""

        def read(_: object, *where: int) -> Any:
            array = self.run.buffer(t)
            check_index(t, where, array.shape, "read")
            return array.item(*where)

        return read


def check_index(t: Tensor, where: Sequence[int], shape: Sequence[int], what: str) -> None:
    """Raise unless the index lies inside the array."""
    if not all(0 <= i < n for i, n in zip(where, shape, strict=True)):
        raise BoundsError(f"{t.name} is {what} at {tuple(where)}, its shape is {tuple(shape)}.")
