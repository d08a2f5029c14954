"""`vmap`: a function of one example as the function of many, by operations with one axis more."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any, NamedTuple

from tensorad.batching.tensors import for_rows
from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.arrays.elementwise import compute_axes, formula, same_dim
from tensorad.ir.arrays.tracing import tracing
from tensorad.ir.expr import read
from tensorad.ir.tensor import Dim, Shape, Tensor, format_shape
from tensorad.program.derivatives import Anything, derived_once, target_of
from tensorad.program.functions import Function, fresh
from tensorad.program.points import Target
from tensorad.program.references.frames import check_kept, frame
from tensorad.program.trees import (
    Branching,
    Leaf,
    Static,
    Structure,
    children_like,
    flatten,
    n_leaves,
    unflatten,
)
from tensorad.program.values import as_tensor, parameter

Axes = Any
"""An axis for all leaves, None, or a tree of these."""


def vmap(f: Anything, in_axes: Axes = 0, out_axes: Axes = 0) -> Function:
    """The function of many examples that a function of one example is.

    Every operation gets one axis more; nothing is repeated, and what the examples share is computed
    once. Where the arm of a branch, or the number of iterations of a loop, differs, each example
    has its own: arms and iterations run for the examples that have them. So do functions that call
    themselves, each as deep as its example needs. Derivatives may be taken inside and outside.

    Args:
        f: a function of trees, such as `ta.grad(g)`. It may call itself, and take and return values
            of data types: many of them are an array, `np.array(values, object)`.
        in_axes: which axis of the arguments goes over the examples: a number for all of them, or
            a tuple with one for each positional argument; None for what the examples share; a
            tree of numbers and None for the parts of an argument, where a number stands for
            all that is below it. Negative ones count from the end. Arguments by name go along
            axis 0.
        out_axes: where the results have that axis, a number or such a tree; None is for results
            that are the same for all examples.
    Returns:
        a function of the same arguments, with that axis.
    Raises:
        DefinitionError: `in_axes` or `out_axes` is no tree like the arguments or results, nothing
            is mapped, or a result differs that should not.
        ShapeError: an argument has no such axis, or another number of examples.
    """
    target = target_of(f, "vmap")
    is_inline = isinstance(f, Function) and f.is_inline

    def mapped(*args: Any, **options: Any) -> Any:
        call = _Call(target, args, options, in_axes)
        own = fresh.set((*call.params, *fresh.get()) if is_inline else ())
        try:
            with tracing(), frame(call.owner, refuses=True):
                made = target.function(*call.args, **call.options)
        finally:
            fresh.reset(own)
        return _result(target, made, call, out_axes)

    made = wraps(target.function)(mapped)
    key = ("vmap", _written(in_axes), _written(out_axes))
    name = f"vmap_{target.name}"
    return derived_once(f, key, lambda: Function(made, target.static, name, is_inline=True))  # type: ignore[no-any-return]


def _written(axes: Axes) -> object:
    """What tells axes apart."""
    flat = flatten(axes, "axes")
    return flat.structure, tuple(map(repr, flat.leaves))


class _Part(NamedTuple):
    """A leaf of the arguments that goes over the examples."""

    path: str
    value: Tensor
    axis: int

    @property
    def extent(self) -> Dim:
        return self.value.shape[self.axis]

    @property
    def shape(self) -> Shape:
        """Of one example."""
        return (*self.value.shape[: self.axis], *self.value.shape[self.axis + 1 :])

    @property
    def shown(self) -> str:
        return f"{self.path} : {self.value.dtype} {format_shape(self.value.shape)}"


class _Call:
    """A call's arguments, with those of one example in their place.

    Attributes:
        args, options: with parameters of one example.
        params: these, each with all examples in `rows`.
    """

    def __init__(
        self, target: Target, args: tuple[Any, ...], options: dict[str, Any], in_axes: Axes
    ) -> None:
        self.owner = f"vmap of {target.name}"
        self.params: list[Tensor] = []
        self.parts: list[_Part] = []
        given = _by_argument(in_axes, len(args), self.owner)
        pairs = zip(args, given, strict=True)
        static = target.static
        self.args = [
            a if target.path(n) in static else self.of(a, target.path(n), axes, f"in_axes[{n}]")
            for n, (a, axes) in enumerate(pairs)
        ]
        self.options = {
            k: v if k in static else self.of(v, k, 0, "in_axes") for k, v in options.items()
        }
        if not self.parts:
            raise DefinitionError(
                f"{self.owner} maps nothing: no argument goes over examples.",
                where=f"in_axes={in_axes!r}",
                hint="give an axis to one argument at least, or call the function itself.",
            )

    def of(self, value: object, path: str, axes: Axes, title: str) -> Any:
        """An argument of one example."""
        flat = flatten(value, path)
        chosen = leaf_axes(axes, flat.structure, path, title, self.owner)
        leaves = []
        for leaf, own, at in zip(flat.leaves, flat.paths, chosen, strict=True):
            leaves.append(leaf if at is None else self.one(as_tensor(leaf, own), own, at))
        return unflatten(flat.structure, leaves)

    def one(self, t: Tensor, path: str, at: int) -> Tensor:
        """A parameter for one example of a tensor that has them along an axis."""
        if not -t.ndim <= at < t.ndim:
            raise ShapeError(
                f"axis {at} of {path} is out of range: it has shape {format_shape(t.shape)}.",
                where=self.owner,
                hint="None in in_axes is for what all examples share.",
            )
        part = _Part(path, t, at % t.ndim)
        first = self.parts[0] if self.parts else part
        if not same_dim(part.extent, first.extent):
            raise ShapeError(
                f"{self.owner} has {first.extent} examples in {first.path} along axis "
                f"{first.axis}, but {part.extent} in {part.path} along axis {part.axis}.",
                where=f"{first.shown}, {part.shown}",
                hint="all mapped arguments have as many examples; None in in_axes is for what "
                "they share.",
            )
        self.parts.append(part)
        self.params.append(parameter(path, part.shape, t.dtype, self.owner))
        return self.params[-1]

    @property
    def rows(self) -> dict[Tensor, Tensor]:
        """The parameters with all examples, first axis."""
        found = [_moved(p.value, p.axis, 0) for p in self.parts]
        return dict(zip(self.params, found, strict=True))


def _by_argument(in_axes: Axes, count: int, owner: str) -> Sequence[Axes]:
    """The axes of each positional argument."""
    if _is_axis(in_axes):
        return [in_axes] * count
    if not isinstance(in_axes, (tuple, list)):
        raise DefinitionError(
            f"in_axes of {owner} must be a number, None or a tuple, got {in_axes!r}.",
            hint="a tuple has an entry for each positional argument: in_axes=(0, None).",
        )
    if len(in_axes) != count:
        raise DefinitionError(
            f"in_axes of {owner} is a tuple of {len(in_axes)}, but the call has {count} positional "
            "arguments.",
            where=f"in_axes={in_axes!r}",
            hint="a tuple has an entry for each positional argument: in_axes=(0, None).",
        )
    return in_axes


def _is_axis(axes: Axes) -> bool:
    return axes is None or (isinstance(axes, int) and not isinstance(axes, bool))


def leaf_axes(
    axes: Axes, structure: Structure, path: str, title: str, owner: str
) -> list[int | None]:
    """An axis, or None, for each leaf of a tree.

    Args:
        path: what the tree is called; `title`: what the axes are.
    Raises:
        DefinitionError: the axes are no tree like it.
    """
    found: list[int | None] = []
    stack: list[tuple[Axes, Structure, str, str]] = [(axes, structure, path, title)]
    while stack:
        at, own, path, title = stack.pop()
        if isinstance(own, Static):
            continue
        if _is_axis(at):
            found += [at] * n_leaves(own)
            continue
        children = None if isinstance(own, Leaf) else children_like(at, own)
        if children is None or not isinstance(own, Branching):
            kind = "one array" if isinstance(own, Leaf) else f"a {_kind(own)}"
            raise DefinitionError(
                f"{title} of {owner} is {at!r}, but {path} is {kind}.",
                hint="axes are numbers and None in a tree like that of what they belong to; a "
                "number stands for all that is below it.",
            )
        parts = zip(children, own.children, own.keys, strict=True)
        stack += [(c, s, path + k, title + k) for c, s, k in parts][::-1]
    return found


def _kind(structure: Branching) -> str:
    keys = ", ".join(structure.keys)
    return f"{structure.kind.__name__} with {keys}" if keys else structure.kind.__name__


def _result(target: Target, made: object, call: _Call, out_axes: Axes) -> Any:
    """The results of all examples."""
    flat = flatten(made, target.name)
    check_kept([(flat.structure, target.name)], "result", call.owner)
    leaves = [as_tensor(v, p) for v, p in zip(flat.leaves, flat.paths, strict=True)]
    axes = leaf_axes(out_axes, flat.structure, target.name, "out_axes", call.owner)
    found = for_rows(leaves, call.rows)
    rows = call.parts[0].extent
    every = zip(found, axes, flat.paths, strict=True)
    results = [_placed(*one, rows, call.owner) for one in every]
    return unflatten(flat.structure, results)


def _placed(found: tuple[Tensor, bool], at: int | None, path: str, rows: Dim, owner: str) -> Tensor:
    """A result with its examples along an axis."""
    t, differs = found
    if at is None:
        if not differs:
            return t
        raise DefinitionError(
            f"out_axes of {owner} is None for {path}, which differs from example to example.",
            where=f"{path} : {t.dtype} {format_shape(t.shape)}",
            hint="give the number of the axis that the examples are along.",
        )
    whole = t.shape if differs else (rows, *t.shape)
    ndim = len(whole)
    if not -ndim <= at < ndim:
        raise ShapeError(
            f"axis {at} of out_axes of {owner} is out of range for {path}, which has shape "
            f"{format_shape(whole)} with all examples.",
            hint=f"use an axis from {-ndim} to {ndim - 1}.",
        )
    if differs:
        return _moved(t, 0, at % ndim)
    place = at % ndim
    axes = compute_axes((*t.shape[:place], rows, *t.shape[place:]))
    return formula(t.name, axes, read(t, (*axes[:place], *axes[place + 1 :])))


def _moved(t: Tensor, source: int, target: int) -> Tensor:
    """The tensor with one axis at another place."""
    order = [d for d in range(t.ndim) if d != source]
    order.insert(target, source)
    axes = compute_axes(tuple([t.shape[d] for d in order]))
    return formula(t.name, axes, read(t, tuple([axes[order.index(d)] for d in range(t.ndim)])))
