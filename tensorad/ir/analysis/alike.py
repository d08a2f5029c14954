"""What equal formulas have in common: axes and tensors are known by their place.

A numbering walks formulas and writes down a key; nodes, axes and tensors are named in the order in
which they are met. Equal keys say that two formulas differ in their axes and tensors alone, and
that one is the other with these exchanged, one for one: a tensor read twice is no two tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from tensorad.errors import InternalError
from tensorad.ir.expr import (
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
from tensorad.ir.tensor import Compute, Constant, Scan, Scatter, Tensor, dim_expr
from tensorad.ir.visit import op_expressions
from tensorad.process import Guard, memo

Key = tuple[object, ...]


def as_operand(t: Tensor) -> object:
    """What a key says of a tensor: its elements if they are known."""
    return (t.index, t.shape, t.dtype, t if isinstance(t.op, Constant) else None)


def as_itself(t: Tensor) -> object:
    """Only the same tensor is equal."""
    return t


def as_value(t: Tensor) -> object:
    """The same, and integers are themselves: what they may be decides about loops."""
    return as_operand(t) if t.dtype.is_float else t


_LEAVES: Final = frozenset((Const, Size, LocalSize, Param))


class Numbering:
    """A key under construction.

    Sizes, numbers, combiners and functions are themselves in it.

    Args:
        describe: what the key says of a tensor.
        named: whether names of axes are in it: they show in results.
    """

    def __init__(
        self, describe: Callable[[Tensor], object] = as_operand, *, named: bool = True
    ) -> None:
        self.describe = describe
        self.named = named
        self.names: dict[Expr, object] = {}
        """What stands for a node in the key: its number, or itself."""
        self.numbered: dict[Tensor, int] = {}
        self.parts: list[object] = []

    def tensors(self, tensors: Sequence[Tensor]) -> tuple[int, ...]:
        return tuple([self.tensor(t) for t in tensors])

    def tensor(self, t: Tensor) -> int:
        found = self.numbered.get(t)
        if found is None:
            found = self.numbered[t] = len(self.numbered)
            self.parts.append(self.describe(t))
        return found

    def axes(self, axes: Sequence[Axis]) -> None:
        """Name axes by their bounds and their place."""
        for a in axes:
            if a not in self.names:
                bounds = self.expressions((a.lower, a.upper, a.step))
                self.names[a] = -1 - len(self.names)
                self.parts.append((Axis, a.name if self.named else "", *bounds))

    def expressions(self, roots: Sequence[Expr]) -> tuple[object, ...]:
        """The names of expressions, after what they are made of."""
        names = self.names
        stack: list[Any] = list(roots[::-1])
        pop, push = stack.pop, stack.append
        while stack:
            e = pop()
            if e is None:  # the operands of the node below it are named
                self._name(pop())
            elif e in names:
                continue
            elif not e.below:
                self._name(e)
            else:
                push(e)
                push(None)
                for c in e.below[::-1]:
                    if c not in names:
                        push(c)
        return tuple([names[r] for r in roots])

    def _name(self, e: Expr) -> None:
        """Name a node whose operands have names."""
        if type(e) is Axis:
            self.axes((e,))
        elif type(e) in _LEAVES:
            self.names[e] = self.leaf(e)
        else:
            part = self._part(e)
            self.names[e] = len(self.parts)
            self.parts.append(part)

    def leaf(self, e: Expr) -> object:
        """What stands for a number, a size or a scalar in the key: itself."""
        return e

    def _part(self, e: Expr) -> tuple[object, ...]:
        """A node over the names of its operands."""
        names = self.names
        match e:
            case Call():
                return (e.op, e.dtype, *[names[a] for a in e.args])
            case Read():
                return (self.tensor(e.tensor), *[names[i] for i in e.indices])
            case Select():
                return (Select, names[e.cond], names[e.then], names[e.orelse])
            case Cast():
                return (Cast, e.dtype, names[e.value])
            case Apply():
                return (e.function, *[names[a] for a in e.args])
            case Reduce():
                sources = tuple([names[s] for s in e.sources])
                self.axes(e.axes)
                axes = tuple([names[a] for a in e.axes])
                return (e.combiner, sources, axes, names[e.condition], e.index)
        raise InternalError(f"a {type(e).__name__} has no place in a key")

    def key(self, *ends: object) -> Key:
        """The parts so far, and what else tells formulas apart."""
        return (*ends, *self.parts)


class Form:
    """What equal operations have in common: one object, as long as one of them is there."""

    __slots__ = ("__weakref__", "key")

    def __init__(self, key: Key) -> None:
        self.key = key


Formula = Compute | Scatter | Scan
Formed = tuple[Form, tuple[Tensor, ...]]
"""A form and the tensors that an operation of this form has in its places."""

_forms: WeakValueDictionary[Key, Form] = WeakValueDictionary()
_formed: WeakKeyDictionary[Formula, Formed] = memo(WeakKeyDictionary())
_guard = Guard()


def form_of(op: Formula) -> Formed:
    """The form of an operation and the tensors it reads, in order.

    Operations of one form compute the same of the tensors in their places: dtypes, shapes and
    places of all tensors are equal, and so are known elements, and integers are the same tensors.
    Facts about sizes are not in it.
    """
    known = _formed.get(op)
    if known is None:
        numbering = Numbering(as_value)
        key = numbering.key(*ends(op, numbering))
        with _guard.lock:
            form = _forms.get(key)
            if form is None:
                form = _forms[key] = Form(key)
        known = _formed.setdefault(op, (form, tuple(numbering.numbered)))
    return known


def ends(op: Formula, numbering: Numbering) -> Key:
    """What tells operations apart beside their formulas, which are numbered."""
    numbering.axes(op.axes)
    if isinstance(op, Compute):
        return (Compute, len(op.axes), numbering.expressions(op.bodies))
    shape = numbering.expressions([dim_expr(n) for n in op.shape])
    if isinstance(op, Scatter):
        start = () if op.init is None else numbering.tensors((op.init,))
        formulas = numbering.expressions(op_expressions(op))
        counts = tuple([len(u.indices) for u in op.updates])
        return (Scatter, len(op.axes), start, shape, formulas, counts, op.combiner, op.dtype)
    numbering.axes(op.along)
    formulas = numbering.expressions(op_expressions(op))
    counts = (len(op.axes), len(op.along), len(op.start), len(op.sources), len(op.indices))
    kind = (op.exclusive, op.reverse, op.cell is None, op.combiner)
    return (Scan, shape, formulas, counts, *kind)
