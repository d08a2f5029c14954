"""A program with numbers in the place of its symbolic sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from tensorad.errors import ShapeError
from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.analysis.sizes import size_value
from tensorad.ir.expr import Axis, Expr, LocalSize, Read, Size, axis, int_const, read
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import Op, Tensor, Update, dim_expr, dim_of, outputs
from tensorad.ir.visit import op_expressions, postorder, rewrite, topological_ops
from tensorad.simplify.bounds.reads import size_violation


def with_sizes(tensors: Iterable[Tensor], sizes: Mapping[Expr, int]) -> dict[Tensor, Tensor]:
    """Every tensor the given ones depend on -> its copy for these sizes.

    Raises:
        ShapeError: the sizes break an assumption.
        BoundsError: a read leaves its tensor at these sizes.
    """
    _check(sizes)
    image: dict[Tensor, Tensor] = {}
    for op in topological_ops(tensors):
        if sizes:
            error = size_violation(op, sizes)
            if error is not None:
                raise error
        made = _Copy(op, image, sizes).run() if sizes else op
        image.update(zip(outputs(op), outputs(made), strict=True))
    return image


def sizes_of(tensors: Iterable[Tensor]) -> list[Size]:
    """The symbolic sizes that callers of a program know, in order of first use."""
    found: dict[Size, None] = {}
    for op in topological_ops(tensors):
        roots = [*op_expressions(op), *map(dim_expr, op.shape)]
        for f in ("axes", "along"):
            roots += [b for a in getattr(op, f, ()) for b in (a.lower, a.upper, a.step)]
        found.update({e: None for e in postorder(*roots) if isinstance(e, Size)})
    return [s for s in found if not isinstance(s, LocalSize)]


def _check(sizes: Mapping[Expr, int]) -> None:
    for fact in facts_about([s for s in sizes if isinstance(s, Size)]):
        used = sizes_in(fact)
        if all(s in sizes for s in used) and not size_value(fact, sizes):
            values = ", ".join([f"{s.name} = {sizes[s]}" for s in used])
            raise ShapeError(
                f"the sizes {values} break an assumption of the program.",
                where=f"assume({fact})",
                hint="use sizes that satisfy it, or drop the assumption.",
            )


class _Copy:
    """One operation over numbers."""

    def __init__(self, op: Op, tensors: Mapping[Tensor, Tensor], sizes: Mapping[Expr, int]) -> None:
        self.op = op
        self.tensors = tensors
        self.sizes = sizes
        self.memo: dict[Expr, Expr] = {}

    def run(self) -> Op:
        new: dict[str, Any] = {}
        for f in [f for f in fields(self.op) if f.init]:
            value = getattr(self.op, f.name)
            new[f.name] = self.shape(value) if f.name == "shape" else self.image(value)
        return replace(self.op, **new)

    def shape(self, value: tuple[int | Expr, ...]) -> tuple[int | Expr, ...]:
        return tuple([n if isinstance(n, int) else dim_of(self.expr(n)) for n in value])

    def image(self, value: object) -> object:
        """The value of a field: axes stand before the expressions that use them."""
        match value:
            case tuple():
                return tuple([self.image(v) for v in value])
            case Axis():
                return self.axis(value)
            case Expr():
                return self.expr(value)
            case Tensor():
                return self.tensors[value]
            case Update():
                indices = tuple([self.expr(i) for i in value.indices])
                return Update(indices, self.expr(value.value), self.expr(value.condition))
        return value

    def axis(self, a: Axis) -> Axis:
        """The copy of an axis of the operation (made when it is first met)."""
        if a not in self.memo:
            bounds = [self.expr(b) for b in (a.lower, a.upper, a.step)]
            self.memo[a] = axis(a.name, *bounds)
        found = self.memo[a]
        assert isinstance(found, Axis)  # only axes were put there
        return found

    def expr(self, e: Expr) -> Expr:
        return rewrite(e, self.rule, self.memo)

    def rule(self, e: Expr) -> Expr | None:
        if isinstance(e, Size) and e in self.sizes:
            return int_const(self.sizes[e])
        if isinstance(e, Read) and e.tensor in self.tensors:  # not what a fold already copied
            return read(self.tensors[e.tensor], e.indices)
        return None
