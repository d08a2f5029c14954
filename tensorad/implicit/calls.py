"""Calls that carry rules, and vectors of the leaves of trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorad import topi
from tensorad.autodiff import vjp
from tensorad.autodiff.local.record_gradients import has_gradient
from tensorad.ir.analysis.blocks import ops_between, tells_trips
from tensorad.ir.arrays.elementwise import compute_axes, elementwise
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import read
from tensorad.ir.records import is_record, same_record
from tensorad.ir.tensor import (
    Block,
    CallRule,
    Compute,
    Dim,
    FunctionCall,
    Shape,
    Tensor,
    dim_expr,
    dim_of,
    outputs,
)
from tensorad.program.traces import Program, traced
from tensorad.program.values import as_tensor, parameters
from tensorad.simplify.formula.dataflow import over_inputs
from tensorad.te import compute

Tensors = Sequence[Tensor]


def ruled_call(
    name: str,
    names: Sequence[str],
    body: Callable[[Sequence[Tensor]], Any],
    operands: Tensors,
    rule: CallRule,
) -> tuple[Tensor, ...]:
    """The results of a function of tensors, in a call that carries its derivative.

    Args:
        names: of the operands.
        body: parameters -> a tree of tensors, which depends on nothing else.
    """
    shapes, dtypes = [t.shape for t in operands], [t.dtype for t in operands]
    program = traced(name, body, parameters(names, shapes, dtypes, name))
    return _call(program, operands, rule)


def _call(program: Program, operands: Tensors, rule: CallRule | None) -> tuple[Tensor, ...]:
    block = Block((*program.parameters, *program.reads), program.results)
    names, bound = program.paths, (*operands, *program.reads)
    call = FunctionCall(names, tuple(bound), (block,), function=program.name, rule=rule)
    return outputs(call)


def applied(program: Program, operands: Tensors) -> tuple[Tensor, ...]:
    """What a program computes of operands: for its parameters, then for what it reads.

    Its formulas are written down anew, so that derivatives are by the operands; a program with a
    loop that tells how often it ran is called, for this size is one.
    """
    given = (*program.parameters, *program.reads)
    image = dict(zip(given, operands, strict=True))
    ops = ops_between(program.results, dict(image))
    if any(tells_trips(op) for op in ops):
        return _call(replace(program, parameters=given, reads=()), operands, None)
    for op in ops:
        made = over_inputs(op, image)
        if made is not op:
            image.update(zip(outputs(op), outputs(made), strict=True))
    return tuple([image.get(t, t) for t in program.results])


def copies(tensors: Tensors) -> list[Tensor]:
    """Tensors that nobody else reads: derivatives by these are by them alone."""
    made: list[Tensor] = []
    for t in tensors:
        if is_record(t.dtype):
            made.append(same_record(t, t.name))
            continue
        axes = compute_axes(t.shape)
        made += outputs(Compute(t.name, axes, (read(t, axes),)))
    return made


def pulled_back(ys: Tensors, wrt: Tensors, heads: Tensors) -> list[Tensor | None]:
    """The adjoints of tensors, None for those that have none; a y may be there twice."""
    joined: dict[Tensor, Tensor] = {}
    for y, h in zip(ys, heads, strict=True):
        joined[y] = elementwise("add", joined[y], h) if y in joined else h
    is_batch = any(h.ndim > y.ndim for y, h in joined.items())  # nobody asks by values then
    smooth = [t for t in wrt if has_gradient(t.dtype) and not (is_batch and is_record(t.dtype))]
    made = vjp(list(joined), smooth, list(joined.values())) if smooth else []
    found = dict(zip(smooth, made, strict=True))
    return [found.get(t) for t in wrt]


@dataclass(frozen=True)
class Packing:
    """Tensors of some shapes and dtypes, as one vector of the widest dtype.

    Attributes:
        names: of the tensors.
    """

    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    dtypes: tuple[DType, ...]

    @staticmethod
    def of(tensors: Tensors) -> Packing:
        """How tensors like these are packed."""
        parts = [(t.name, t.shape, t.dtype) for t in tensors]
        names, shapes, dtypes = zip(*parts, strict=True)
        return Packing(names, shapes, dtypes)

    @property
    def dtype(self) -> DType:
        return max(self.dtypes, key=lambda d: d.bits)

    @property
    def extents(self) -> list[Dim]:
        """How many elements each tensor has."""
        found = []
        for shape in self.shapes:
            total = dim_expr(1)
            for n in shape:
                total = total * dim_expr(n)
            found.append(dim_of(total))
        return found

    @property
    def size(self) -> Dim:
        """How many elements the vector has."""
        total = dim_expr(0)
        for n in self.extents:
            total = total + dim_expr(n)
        return dim_of(total)

    def pack(self, tensors: Tensors, batch: Shape = ()) -> Tensor:
        """Tensors (*batch, *shape) as one of shape (*batch, size)."""
        parts = []
        for t, shape, n in zip(tensors, self.shapes, self.extents, strict=True):
            flat = t if len(shape) == 1 else topi.reshape(t, (*batch, n))
            parts.append(as_tensor(flat, t.name, self.dtype))
        return parts[0] if len(parts) == 1 else topi.concatenate(parts, axis=len(batch))

    def unpack(self, vector: Tensor, batch: Shape = ()) -> list[Tensor]:
        """The tensors again."""
        made, start = [], dim_expr(0)
        zipped = zip(self.names, self.shapes, self.dtypes, self.extents, strict=True)
        for name, shape, dtype, n in zipped:
            part = vector
            if len(self.names) > 1:
                part = _part(vector, batch, start, n, name)
            part = part if len(shape) == 1 else topi.reshape(part, (*batch, *shape))
            made.append(as_tensor(part, name, dtype))
            start = start + dim_expr(n)
        return made


def _part(vector: Tensor, batch: Shape, start: Any, n: Dim, name: str) -> Tensor:
    made: Tensor = compute((*batch, n), lambda *i: vector[(*i[:-1], i[-1] + start)], name=name)
    return made
