"""Derivatives of functions: what `ta.grad`, `ta.vjp` and the others do when given a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from tensorad.autodiff import hessian as tensor_hessian
from tensorad.autodiff import hvp as tensor_hvp
from tensorad.autodiff import jacobian as tensor_jacobian
from tensorad.autodiff import jvp as tensor_jvp
from tensorad.autodiff import vjp as tensor_vjp
from tensorad.autodiff.checks import check_fw_mode
from tensorad.autodiff.local.record_gradients import has_gradient
from tensorad.errors import GradError
from tensorad.ir.arrays.tracing import is_tracing
from tensorad.ir.tensor import Tensor
from tensorad.program.calling.arguments import has_tensors
from tensorad.program.calling.directions import as_now, check_alternatives, like_value
from tensorad.program.calls import check_callable
from tensorad.program.data.instances import Instance, as_container, as_value
from tensorad.program.functions import Function
from tensorad.program.points import (
    Argnums,
    Point,
    Target,
    check_argnums,
    check_arrays,
    check_directions,
    check_positions,
    like,
    plain,
)
from tensorad.program.sides import leaf_text
from tensorad.program.traces import Program
from tensorad.program.trees import apart, flatten, is_container, together, unflatten

Anything = Callable[..., Any]


def target_of(f: Anything, title: str) -> Target:
    """The function to differentiate with its name and those of its parameters."""
    check_callable(f, f"the first argument of {title}")
    name = f.name if isinstance(f, Function) else getattr(f, "__name__", type(f).__name__)
    own = plain(f)
    try:
        every = inspect.signature(own).parameters.values()
    except (TypeError, ValueError):  # written in C
        return Target(own, name, ())
    names = [p.name for p in every if p.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
    return Target(own, name, names, f.static_argnames if isinstance(f, Function) else ())


def derived_once(f: Anything, key: object, make: Callable[[], Anything]) -> Any:
    """What is derived of a `Function` is made once."""
    if not isinstance(f, Function):
        return make()
    if key not in f.derived:
        f.derived[key] = make()
    return f.derived[key]


class _ByFields(Function):
    """A derivative that is an array for each field of a value, whose alternative is known.

    Attributes:
        positions: of the arguments that it is by.
    """

    positions: Sequence[int] = ()

    def __call__(self, *args: Any, **options: Any) -> Any:
        """The result; values are those of their alternatives."""
        return super().__call__(*self._opened(args), **options)

    def trace(self, *args: Any, **options: Any) -> Program:
        """The program that a call with these arguments runs."""
        return super().trace(*self._opened(args), **options)

    def _opened(self, args: Sequence[Any]) -> list[Any]:
        own = enumerate(args)
        return [_with_instances(a, as_container.call) if n in self.positions else a for n, a in own]


def _with_instances(tree: Any, image: Callable[[Instance], Instance]) -> Any:
    """The tree with others in the place of values of data types."""
    if isinstance(tree, Instance):
        return image(tree)
    if not is_container(tree):
        return tree
    children, meta = apart(tree)
    made = [_with_instances(v, image) for v in children]
    if all(new is old for new, old in zip(made, children, strict=True)):
        return tree
    return together(type(tree), meta, made)


def _of_values(function: Anything) -> Anything:
    """The function of containers that is another one's of the values that these stand for."""

    def image(v: Instance) -> Instance:
        return as_value.call(v) if v.is_container else v

    @wraps(function)
    def on_values(*args: Any, **options: Any) -> Any:
        return function(*[_with_instances(a, image) for a in args], **options)

    return on_values


def _by_argnums(
    f: Anything, title: str, argnums: Argnums, has_aux: bool, derive: Callable[[Point, bool], Any],
    *more: object, by_fields: bool = False,
) -> Function:  # fmt: skip
    """A function of the same arguments: `derive(point, whether argnums is one number)`, which may
    rest on `more`.

    Args:
        by_fields: whether values of data types are what their fields are.
    """
    positions = check_argnums(argnums, title)
    target = target_of(f, title)
    if by_fields:
        target = target._replace(function=_of_values(target.function))

    def derived(*args: Any, **options: Any) -> Any:
        check_positions(target, positions, len(args), title)
        point = Point(target, args, options, positions, title, has_aux=has_aux)
        return derive(point, isinstance(argnums, int))

    key = (title, positions, isinstance(argnums, int), has_aux, *more)
    name = f"{title}_{target.name}"
    made = wraps(target.function)(derived)

    def derivative() -> Function:
        kind = _ByFields if by_fields else Function
        found = kind(made, target.static, name, is_inline=True)
        if isinstance(found, _ByFields):
            found.positions = positions
        return found

    return derived_once(f, key, derivative)  # type: ignore[no-any-return]


def _one_or_all(trees: Sequence[Any], is_one: bool) -> Any:
    return trees[0] if is_one else tuple(trees)


def grad_of(f: Anything, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """arguments -> gradient; with `has_aux` (gradient, aux)."""

    def derive(point: Point, is_one: bool) -> Any:
        found = tensor_vjp(point.scalar(), point.leaves)
        gradient = _one_or_all(point.like_wanted(found), is_one)
        return (gradient, point.aux) if has_aux else gradient

    return _by_argnums(f, "grad", argnums, has_aux, derive)


def value_and_grad_of(f: Anything, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """arguments -> (value, gradient); with `has_aux` ((value, aux), gradient)."""

    def derive(point: Point, is_one: bool) -> Any:
        y = point.scalar()
        gradient = _one_or_all(point.like_wanted(tensor_vjp(y, point.leaves)), is_one)
        return ((y, point.aux), gradient) if has_aux else (y, gradient)

    return _by_argnums(f, "value_and_grad", argnums, has_aux, derive)


def jacobian_of(
    f: Anything, argnums: Argnums = 0, mode: str | None = None, title: str = "jacobian"
) -> Function:
    """arguments -> for each leaf of the result a tree like the argument, of result + argument
    shapes; of values that data chose values like them, whose fields have such shapes."""

    def derive(point: Point, is_one: bool) -> Any:
        check_arrays(point.title, point.target, (point.result,))
        check_directions(point, mode)
        rows = []
        for y in point.result.leaves:
            blocks: list[object] = [None] * len(point.leaves)
            if y.dtype.is_float:
                blocks = [tensor_jacobian(y, x, mode=mode) for x in point.leaves]
            rows.append(_one_or_all(point.like_wanted(blocks), is_one))
        return unflatten(point.result.structure, rows)

    return _by_argnums(f, title, argnums, False, derive, mode, by_fields=True)


def hessian_of(f: Anything, argnums: Argnums = 0, *, fw_mode: bool | None = None) -> Function:
    """arguments -> a tree like the argument of trees like it, of shapes x.shape + x.shape."""
    check_fw_mode(fw_mode)

    def derive(point: Point, is_one: bool) -> Any:
        check_arrays(point.title, point.target, (point.result,))
        check_directions(point, "forward")
        rows = tensor_hessian(point.scalar(), point.leaves, fw_mode=fw_mode)
        trees = [_one_or_all(point.like_wanted(row), is_one) for row in rows]
        return _one_or_all(point.like_wanted(trees), is_one)

    return _by_argnums(f, "hessian", argnums, False, derive, fw_mode, by_fields=True)


def vjp_of(f: Anything, *primals: Any, has_aux: bool = False) -> Any:
    """(result, pullback), with `has_aux` (result, pullback, aux); pullback(cotangent) -> a tuple
    with an adjoint for each primal."""
    target = target_of(f, "vjp")
    marked = target.marked(primals)
    if is_tracing() or has_tensors(flatten(marked).leaves):
        point = _at(target, primals, "vjp", has_aux)
        value = unflatten(point.result.structure, point.result.leaves)

        def pull(cotangent: object) -> Any:
            return pulled(point, cotangent)

        return (value, pull, point.aux) if has_aux else (value, pull)

    def back(primals: tuple[Any, ...], cotangent: object) -> Any:
        return pulled(_at(target, primals, "vjp", has_aux), cotangent)

    made = _derived(f, target, "pullback", back, has_aux)
    found = _forward(f, target)(*primals)
    kept = as_now(marked)
    value = found[0] if has_aux else found

    def pullback(cotangent: object) -> Any:
        title = f"vjp of {target.name}"
        check_alternatives(value, cotangent, "cotangent", "cotangent", title)
        return made(kept, _floats(cotangent, "cotangent"))

    return (value, pullback, found[1]) if has_aux else (value, pullback)


def pulled(point: Point, cotangent: object, title: str = "vjp") -> tuple[Any, ...]:
    """The adjoints of all arguments, for a cotangent of the result."""
    heads = like(point.result, cotangent, title, "cotangent", point.target, "cotangent")
    pairs = [(y, h) for y, h in zip(point.result.leaves, heads, strict=True) if h is not None]
    if not pairs or not point.leaves:
        raise _nothing(title, point)
    ys, given = [y for y, _ in pairs], [h for _, h in pairs]
    joined = _distinct(ys, given)
    found = tensor_vjp(list(joined), point.leaves, list(joined.values()))
    return point.by_argument(found)


def _distinct(ys: Sequence[Tensor], heads: Sequence[Tensor]) -> dict[Tensor, Tensor]:
    """Heads by result; those of a result that is returned twice are added."""
    made: dict[Tensor, Tensor] = {}
    for y, h in zip(ys, heads, strict=True):
        made[y] = made[y] + h if y in made else h
    return made


def _nothing(title: str, point: Point) -> GradError:
    """No argument is a float, or no part of the result."""
    flats, what = (point.wanted, "argument") if not point.leaves else ([point.result], "result")
    pairs = [p for f in flats for p in zip(f.paths, f.leaves, strict=True)]
    return GradError(
        f"{title} of {point.target.name} has nothing to differentiate: no {what} is a float.",
        where=", ".join([f"{path} : {leaf_text(t)}" for path, t in pairs[:8]]) or None,
        hint="integers and booleans have no derivative: convert with .astype('float32').",
    )


def _at(
    target: Target, primals: Sequence[Any], title: str, has_aux: bool = False, strict: bool = False
) -> Point:
    """By all arguments that are not static."""
    moving = target.moving(len(primals))
    return Point(target, primals, {}, moving, title, has_aux=has_aux, strict=strict)


def _floats(tree: object, name: str) -> Any:
    """The cotangents or tangents with floats in the place of Python integers."""
    flat = flatten(tree, name)
    return unflatten(flat.structure, [float(v) if type(v) is int else v for v in flat.leaves])


def _forward(f: Anything, target: Target) -> Anything:
    return f if isinstance(f, Function) else Function(target.function, (), target.name)


def _derived(f: Anything, target: Target, title: str, made: Anything, *more: object) -> Anything:
    name = f"{target.name}_{title}"
    key = (title, *more)
    found: Anything = derived_once(f, key, lambda: Function(made, (), name, is_inline=True))
    return found


def jvp_of(
    f: Anything, primals: Sequence[Any], tangents: Sequence[Any], *, fw_mode: bool | None = None
) -> Any:
    """(result, its derivative along the tangents)."""
    check_fw_mode(fw_mode)
    target = target_of(f, "jvp")
    _check_several("jvp", "primals", primals)
    _check_several("jvp", "tangents", tangents)

    def both(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        point = _at(target, primals, "jvp")
        value = unflatten(point.result.structure, point.result.leaves)
        return value, _pushed(point, tangents, "jvp", fw_mode)

    marked = target.marked(primals)
    check_alternatives(marked, tuple(tangents), "tangent", "tangents", f"jvp of {target.name}")
    return _derived(f, target, "jvp", both, fw_mode)(marked, _floats(tuple(tangents), "tangents"))


def _pushed(point: Point, tangents: Sequence[Any], title: str, fw_mode: bool | None = None) -> Any:
    """The derivative of the result along the tangents; None at integers."""
    along: dict[Tensor, Any] = {}
    flat = point.arguments
    given = like(flat, tuple(tangents), title, "tangent", point.target, "tangents")
    for x, dx in zip(flat.leaves, given, strict=True):
        if dx is not None:
            along[x] = dx
    smooth = list(dict.fromkeys([y for y in point.result.leaves if has_gradient(y.dtype)]))
    if not along or not smooth:
        raise _nothing(title, point)
    made = tensor_jvp(smooth, along, fw_mode=fw_mode)
    found: Mapping[Tensor, Tensor] = dict(zip(smooth, made, strict=True))
    leaves = [like_value(y, found.get(y)) for y in point.result.leaves]
    return unflatten(point.result.structure, leaves)


def linearize_of(f: Anything, *primals: Any) -> Any:
    """(result, linear); linear(*tangents) is the derivative of the result along them."""
    target = target_of(f, "linearize")
    marked = target.marked(primals)
    if is_tracing() or has_tensors(flatten(marked).leaves):
        point = _at(target, primals, "linearize")
        value = unflatten(point.result.structure, point.result.leaves)

        def push(*tangents: Any) -> Any:
            return _pushed(point, tangents, "linearize")

        return value, push

    def pushed(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        return _pushed(_at(target, primals, "linearize"), tangents, "linearize")

    made = _derived(f, target, "linear", pushed)
    found = _forward(f, target)(*primals)
    kept = as_now(marked)

    def linear(*tangents: Any) -> Any:
        title = f"linearize of {target.name}"
        check_alternatives(kept, tangents, "tangent", "tangents", title)
        return made(kept, _floats(tangents, "tangents"))

    return found, linear


def hvp_of(
    f: Anything, primals: Sequence[Any], vectors: Sequence[Any], *, fw_mode: bool | None = None
) -> Any:
    """The Hessian by all primals times the vectors: a tuple of trees like the primals."""
    check_fw_mode(fw_mode)
    target = target_of(f, "hvp")
    _check_several("hvp", "primals", primals)
    _check_several("hvp", "vectors", vectors)

    def product(primals: tuple[Any, ...], vectors: tuple[Any, ...]) -> Any:
        point = _at(target, primals, "hvp", strict=True)
        y = point.scalar()
        given = like(point.arguments, vectors, "hvp", "vector", target, "vectors")
        along = [v for v in given if v is not None]
        found = tensor_hvp(y, point.leaves, along, fw_mode=fw_mode)
        return point.by_argument(found)

    marked = target.marked(primals)
    check_alternatives(marked, tuple(vectors), "vector", "vectors", f"hvp of {target.name}")
    return _derived(f, target, "hvp", product, fw_mode)(marked, _floats(tuple(vectors), "vectors"))


def _check_several(title: str, what: str, given: object) -> None:
    if not isinstance(given, (tuple, list)) or not given:
        raise GradError(
            f"the {what} of {title} must be a tuple with one for each argument, got "
            f"{type(given).__name__}.",
            where=title,
            hint=f"write {title}(f, (x,), (v,)).",
        )
