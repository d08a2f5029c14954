"""The reference semantics: every element by its formula, in plain Python and float64."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

from tensorad.errors import BindError, DTypeError, InternalError, ShapeError
from tensorad.ir.analysis.blocks import ops_between, saves_of
from tensorad.ir.analysis.sizes import negative_extent
from tensorad.ir.arrays.arguments import check_arrays, check_sizes, check_tensors
from tensorad.ir.dtypes import BOOL, DType
from tensorad.ir.expr import (
    Axis,
    Expr,
    Size,
    size_var,
)
from tensorad.ir.records import is_record
from tensorad.ir.reference.control import Interpreter, run_control
from tensorad.ir.reference.formulas import Array, Formulas, Scope, check_index
from tensorad.ir.reference.records import bound_record
from tensorad.ir.tensor import (
    Compute,
    Constant,
    Control,
    Op,
    Placeholder,
    Saved,
    Scan,
    Scatter,
    Tensor,
    Update,
    format_shape,
    outputs,
)
from tensorad.process import deep_calls


@overload
def interpret(
    tensors: Tensor,
    bindings: Mapping[Tensor, Any],
    sizes: Mapping[str, int] | None = None,
    formulas: Formulas | None = None,
) -> Array: ...


@overload
def interpret(
    tensors: Sequence[Tensor],
    bindings: Mapping[Tensor, Any],
    sizes: Mapping[str, int] | None = None,
    formulas: Formulas | None = None,
) -> list[Array]: ...


def interpret(
    tensors: Tensor | Sequence[Tensor],
    bindings: Mapping[Tensor, Any],
    sizes: Mapping[str, int] | None = None,
    formulas: Formulas | None = None,
) -> Array | list[Array]:
    """The elements of `tensors`, as float64, int64 or bool arrays (a list for a list).

    Args:
        tensors: one tensor or several.
        bindings: arrays for the placeholders, or for any tensors of the DAG.
        sizes: values of symbolic sizes that no array's shape gives.
        formulas: what the same formulas were evaluated with before.

    Raises:
        BindError: a placeholder or a size has no value.
        ShapeError: an array does not have its tensor's shape.
        DTypeError: an array's elements do not fit its tensor's dtype.
        BoundsError: a tensor is read or written outside its shape.
        DefinitionError: something is no tensor, no dict or no size.
    """
    roots = check_tensors(tensors, "interpret")
    check_arrays(bindings, "interpret")
    run = _Run(
        bind_sizes({t: np.shape(a) for t, a in bindings.items()}, check_sizes(sizes)), formulas
    )
    for t, a in bindings.items():
        run.arrays[t] = _bound_array(t, a, run)
    with deep_calls.changed():
        results = [a.copy() for a in run.run(roots)]
    return results[0] if isinstance(tensors, Tensor) else results


def bind_sizes(
    shapes: Mapping[Tensor, Sequence[int]], sizes: Mapping[str, int] | None = None
) -> Scope:
    """The values of symbolic sizes: given by name, or bare extents of the arrays' shapes.

    Raises:
        ShapeError: an array's rank differs from its tensor's.
    """
    known: Scope = {size_var(name): int(n) for name, n in (sizes or {}).items()}
    for t, shape in shapes.items():
        if len(shape) != t.ndim:
            raise _wrong_shape(t, shape)
        for extent, n in zip(t.shape, shape, strict=True):
            if isinstance(extent, Size):
                known.setdefault(extent, n)
    return known


def shape_of(
    t: Tensor, shapes: Mapping[Tensor, Sequence[int]], sizes: Mapping[str, int] | None = None
) -> tuple[int, ...]:
    """The shape of `t` when arrays of the given shapes are bound.

    Raises:
        BindError: a size has no value.
    """
    return _Run(bind_sizes(shapes, sizes)).shape(t)


def _wrong_shape(t: Tensor, shape: Sequence[int]) -> ShapeError:
    return ShapeError(
        f"{t.name} was given an array of shape {tuple(shape)}.",
        where=f"{t.name} : {t.dtype} {format_shape(t.shape)}",
        hint="pass an array of the tensor's shape.",
    )


def _bound_array(t: Tensor, value: Any, run: _Run) -> Array:
    array = bound_record(t, value) if is_record(t.dtype) else np.asarray(value)
    if tuple(array.shape) != tuple(run.shape(t)):
        raise _wrong_shape(t, array.shape)
    if is_record(t.dtype):
        return array
    if t.dtype.is_float and array.dtype.kind in "biuf":
        return array.astype(np.float64)
    converted = array.astype(str(t.dtype)) if array.dtype.kind in "biu" else None
    if converted is None or not np.array_equal(converted, array):
        raise DTypeError(
            f"{t.name} of dtype {t.dtype} was given {array.dtype} elements that do not fit.",
            hint=f"convert the array first: a.astype('{t.dtype}').",
        )
    return converted.astype(storage_dtype(t.dtype))


def storage_dtype(dtype: DType) -> type:
    """The element type of the reference's arrays."""
    if is_record(dtype):
        return object
    if dtype is BOOL:
        return bool
    return float if dtype.is_float else int


class _Run:
    """Sizes and the arrays computed so far."""

    def __init__(self, sizes: Scope, formulas: Formulas | None = None) -> None:
        self.sizes = sizes
        self.formulas = formulas or Formulas()
        self.arrays: dict[Tensor, Array] = {}
        self.kept: dict[Control, list[Saved]] = {}

    def run(self, roots: Sequence[Tensor]) -> list[Array]:
        """The elements of tensors, by those that are known."""
        ops = ops_between(roots, self.arrays)
        self.kept = saves_of(ops)
        for op in ops:
            for t, array in zip(outputs(op), self.run_op(op), strict=True):
                self.arrays.setdefault(t, array)
        return [self.arrays[t] for t in roots]

    def shape(self, t: Tensor | Op) -> tuple[int, ...]:
        """The extents in numbers.

        Raises:
            ShapeError: one is negative.
        """
        shape = [n if isinstance(n, int) else int(self.value(n, self.sizes)) for n in t.shape]
        if min(shape, default=0) < 0:
            made = t if isinstance(t, Tensor) else outputs(t)[0]
            raise negative_extent(made, tuple(shape), self.sizes)
        return tuple(shape)

    def run_op(self, op: Op) -> list[Array]:
        match op:
            case Placeholder():
                what = f"{op.name} of {op.owner}" if op.owner else f"the placeholder {op.name}"
                raise BindError(
                    f"{what} has no value.",
                    where=f"{op.name} : {op.dtype} {format_shape(op.shape)}",
                    hint=f"add it to the bindings: {{{op.name}: array}}.",
                )
            case Constant():
                return [np.array(op.array, dtype=storage_dtype(op.dtype))]
            case Compute():
                return self.compute(op)
            case Scatter():
                return [self.scatter(op)]
            case Scan():
                return self.scan(op)
            case Saved():
                return [self.arrays[t] for t in outputs(op)]
            case Control():
                kept = self.kept.get(op, [])
                found = run_control(op, self.arrays, kept, self.sizes, self.interpreter())
                for t, array in found.items():
                    self.arrays.setdefault(t, array)
                return [found[t] for t in outputs(op)]
        raise InternalError(f"{type(op).__name__} has no meaning")

    def compute(self, op: Compute) -> list[Array]:
        results: list[Array] = [np.empty(self.shape(op), storage_dtype(b.dtype)) for b in op.bodies]
        scope = dict(self.sizes)
        bodies = self.formulas.of(op.bodies)
        for _ in self.points(op.axes, scope):
            where = tuple([scope[a] for a in op.axes])
            for array, value in zip(results, bodies(self.arrays, scope), strict=True):
                array[where] = value
        return results

    def scatter(self, op: Scatter) -> Array:
        combiner = op.combiner
        if op.init is not None:
            result = self.arrays[op.init].copy()
        else:
            start = combiner.identity[0].value
            result = np.full(self.shape(op), start, dtype=storage_dtype(op.dtype))
        scope = dict(self.sizes)
        for _ in self.points(op.axes, scope):
            for u in op.updates:
                if self.value(u.condition, scope):
                    self.update(op, u, result, scope)
        return result

    def update(self, op: Scatter, u: Update, result: Array, scope: Scope) -> None:
        *where, value = self.values((*u.indices, u.value), scope)
        check_index(op.name, where, result.shape, "written")
        old = result.item(*where)
        result[tuple(where)] = self.formulas.combine(op.combiner, [old], [value])[0]

    def scan(self, op: Scan) -> list[Array]:
        """Every output; an element that no step keeps is NaN (0 for integers)."""
        results = [self.unset(t) for t in outputs(op)]
        m = op.combiner.arity
        given, others, last = results[:m], results[m : 2 * m], results[2 * m :]
        before, after = (given, others) if op.exclusive else (others, given)
        scope = dict(self.sizes)

        def run(own: Scope) -> None:
            for _ in self.points(op.along, own, op.reverse):
                if self.value(op.condition, own):
                    where = self.values(op.indices, own)
                    cell = self.values(op.axes if op.cell is None else op.cell, own)
                    state = _at(last, cell, op.written_name)
                    _set(before, where, state)
                    state = self.formulas.combine(op.combiner, state, self.values(op.sources, own))
                    _set(after, where, state)
                    _set(last, cell, state)

        for _ in self.points(op.axes, scope):
            _set(last, [scope[a] for a in op.axes], self.values(op.start, scope))
            if op.cell is None:
                run(scope)
        if op.cell is not None:
            run(scope)
        return results

    def unset(self, t: Tensor) -> Array:
        """An array of t's shape without values."""
        return np.full(self.shape(t), math.nan if t.dtype.is_float else 0, storage_dtype(t.dtype))

    def points(self, axes: Sequence[Axis], scope: Scope, reverse: bool = False) -> Iterator[None]:
        return self.formulas.points(axes, self.arrays, scope, reverse)

    def value(self, e: Expr, scope: Scope) -> Any:
        return self.values((e,), scope)[0]

    def values(self, roots: Sequence[Expr], scope: Scope) -> list[Any]:
        return self.formulas.values(roots, self.arrays, scope)

    def interpreter(self) -> Interpreter:
        """What evaluates the blocks of an operation; formulas stay known from one to the next."""

        def evaluate(
            tensors: Sequence[Tensor], given: dict[Tensor, Array], sizes: Scope
        ) -> list[Array]:
            run = _Run(dict(sizes), self.formulas)
            run.arrays.update(given)
            return run.run(tensors)

        return Interpreter(
            evaluate,
            unset=lambda t, sizes: _Run(sizes, self.formulas).unset(t),
            value=lambda e, sizes: int(_Run(sizes, self.formulas).value(e, sizes)),
        )


def _at(arrays: Sequence[Array], where: Sequence[int], name: str) -> list[Any]:
    check_index(name, where, arrays[0].shape, "written")
    return [a.item(*where) for a in arrays]


def _set(arrays: Sequence[Array], where: Sequence[int], values: Sequence[Any]) -> None:
    for array, value in zip(arrays, values, strict=True):
        array[tuple(where)] = value
