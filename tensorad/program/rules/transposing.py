"""Transposes of linear functions of trees (`linear_transpose`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorad.autodiff.local.linearity import freed, vanish
from tensorad.errors import GradError
from tensorad.ir.dtypes import DType
from tensorad.program.calling.arguments import extents, leaf_dtypes
from tensorad.program.derivatives import pulled, target_of
from tensorad.program.functions import Function
from tensorad.program.points import Point, Target
from tensorad.program.references.frames import frame
from tensorad.program.sides import leaf_text
from tensorad.program.trees import Flat, flatten, unflatten
from tensorad.program.values import as_tensor, parameters

_TITLE = "linear_transpose"


def linear_transpose(f: Callable[..., Any], *example: Any) -> Function:
    """The transpose of a linear function: the `g` with <c, f(x)> = <g(c), x> for all x and c.

    Args:
        f: a function of trees, linear in the floats of all its arguments together; what it reads
            from outside, integers among the arguments and static arguments are fixed.
        example: arguments that f is called with, arrays or tensors, of which only the structure,
            shapes and dtypes of floats matter.
    Returns:
        a function of a cotangent, a tree like the result of f (None at integers): a tuple with an
        adjoint for each argument, None at integers.
    Raises:
        GradError: f has no float argument. When the transpose is called: f is not linear, as its
            formulas are written.
        DefinitionError, ShapeError, DTypeError: the cotangent is no tree like the result.
    """
    target = target_of(f, _TITLE)
    flat = flatten(target.marked(example), "example")
    dtypes = leaf_dtypes(flat.leaves, flat.paths)
    if not any(d.is_float for d in dtypes):
        raise GradError(
            f"{_TITLE} of {target.name} is given no example with a float.",
            where=", ".join(map(leaf_text, flat.leaves)) or None,
            hint=f"pass arguments of {target.name} after it: {_TITLE}(f, x).",
        )

    def transposed(cotangent: Any) -> Any:
        point = _at_any(target, flat, len(example))
        found = flatten(pulled(point, cotangent, _TITLE))
        return unflatten(found.structure, _linear(point, found.leaves))

    return Function(transposed, (), f"{target.name}_transpose", is_inline=True)


def _at_any(target: Target, flat: Flat, count: int) -> Point:
    """The function at floats that have no values."""
    paths = [target.path(n) for n in range(count)]
    shown = [_written(path, paths) for path in flat.paths]
    dtypes = leaf_dtypes(flat.leaves, flat.paths)
    params = parameters(shown, extents(flat.leaves), dtypes, target.name)
    typed = zip(flat.leaves, shown, dtypes, params, strict=True)
    leaves = [p if d.is_float else as_tensor(v, path, d) for v, path, d, p in typed]
    args = unflatten(flat.structure, leaves)
    with frame(f"{_TITLE} of {target.name}", refuses=True):
        return Point(target, args, {}, target.moving(count), _TITLE, strict=False, is_by=_is_float)


def _is_float(dtype: DType) -> bool:
    return dtype.is_float


def _written(path: str, names: list[str]) -> str:
    """ "example[1]['w']" as a part of the second parameter."""
    number, rest = path.removeprefix("example[").split("]", 1)
    return names[int(number)] + rest


def _linear(point: Point, adjoints: list[Any]) -> Sequence[Any]:
    """The adjoints of the arguments of a linear function, which do not depend on these."""
    found = freed(adjoints, point.leaves)
    floats = [y for y in point.result.leaves if y.dtype.is_float]
    if found is not None and vanish(floats, point.leaves):
        return found
    what = "it is not 0 where its arguments are"
    if found is None:
        every = [p for f in point.wanted for p in zip(f.paths, f.leaves, strict=True)]
        pairs = [p for p in every if p[1].dtype.is_float]
        each = zip(adjoints, pairs, strict=True)
        path = next(p for a, (p, _) in each if freed([a], point.leaves) is None)
        what = f"its derivative by {path} depends on its arguments"
    raise GradError(
        f"{point.target.name} is not linear: {what}.",
        where=f"{_TITLE} of {point.target.name}",
        hint="write sums of arguments times what does not depend on them; ta.vjp transposes the "
        "derivative of any function at a point.",
    )
