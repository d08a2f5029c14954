"""One name for tensors and functions: the first argument tells which is meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard, overload

from tensorad import autodiff, te
from tensorad.autodiff.forward import Direction
from tensorad.autodiff.heads import Heads
from tensorad.autodiff.local.overrides import Override
from tensorad.errors import ShapeError
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.program import derivatives as functions
from tensorad.program import loops
from tensorad.program.calls import bound_call, signature_of
from tensorad.program.data import function_types
from tensorad.program.functions import Function
from tensorad.program.points import Argnums

Anything = Callable[..., Any]


def is_function(given: object) -> TypeGuard[Anything]:
    """Whether something is called for its results; tensors are called for their elements."""
    if isinstance(given, Tensor):
        return function_types.is_function(given)
    return callable(given) and not isinstance(given, Expr)


def _called(
    title: str, form: Anything, given: object, args: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """`form(given, *args, **options)`.

    Raises:
        BindError: it takes other arguments.
    """
    try:
        return form(given, *args, **options)
    except TypeError:
        bound_call(title, signature_of(form), (given, *args), options)
        raise


@overload
def grad(y: Tensor, wrt: Tensor, *, override: Override | None = None) -> Tensor: ...
@overload
def grad(y: Tensor, wrt: Sequence[Tensor], *, override: Override | None = None) -> list[Tensor]: ...
@overload
def grad(y: Anything, argnums: Argnums = 0, has_aux: bool = False) -> Function: ...
def grad(y: Any, *args: Any, **options: Any) -> Any:
    """The gradient of a 0-d tensor, or of a function with such a result.

    Args:
        y: grad(y, wrt): a 0-d float tensor, by a tensor or several; options as of `vjp`.
            grad(f, argnums=0, has_aux=False): a function of trees; `argnums` are the positions of
            the arguments to differentiate by; with `has_aux` f returns (result, anything).
    Returns:
        a tensor like `wrt`, or a list; of a function the function from its arguments to a tree
        like the argument (a tuple for several `argnums`), with `has_aux` (gradient, aux).
    Raises:
        ShapeError: the tensor, or the function's result, has axes or is several.
        DTypeError, GradError: integers; the arguments `vjp` refuses.
    """
    if is_function(y):
        return _called("grad", functions.grad_of, y, args, options)
    return _called("grad", _gradient, y, args, options)


@overload
def value_and_grad(
    y: Tensor, wrt: Tensor, *, override: Override | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def value_and_grad(
    y: Tensor, wrt: Sequence[Tensor], *, override: Override | None = None
) -> tuple[Tensor, list[Tensor]]: ...
@overload
def value_and_grad(y: Anything, argnums: Argnums = 0, has_aux: bool = False) -> Function: ...
def value_and_grad(y: Any, *args: Any, **options: Any) -> Any:
    """(value, gradient): see `grad`; with `has_aux` ((value, aux), gradient)."""
    if is_function(y):
        return _called("value_and_grad", functions.value_and_grad_of, y, args, options)
    return y, _called("value_and_grad", _gradient, y, args, options)


def _gradient(y: Any, wrt: Any, *, override: Override | None = None) -> Any:
    if isinstance(y, Tensor) and y.shape:
        raise ShapeError(
            f"a gradient needs a 0-d tensor, but {y.name} has shape {format_shape(y.shape)}.",
            where=f"{y.name} : {y.dtype} {format_shape(y.shape)}",
            hint="sum it first, or use vjp with a head.",
        )
    found = autodiff.vjp(y, wrt, override=override)
    return found[0] if isinstance(wrt, Tensor) else found


@overload
def vjp(
    y: Tensor | Sequence[Tensor],
    wrt: Sequence[Tensor] | Tensor,
    head: Heads = None,
    *,
    strict: bool = False,
    override: Override | None = None,
) -> list[Tensor]: ...
@overload
def vjp(y: Anything, *primals: Any, has_aux: bool = False) -> Any: ...
def vjp(y: Any, *args: Any, **options: Any) -> Any:
    """Products of vectors and Jacobians, from the results back to what they depend on.

    Args:
        y: vjp(y, wrt, head=None, *, strict=False, override=None): tensors, see
            `tensorad.autodiff.vjp`.
            vjp(f, *primals, has_aux=False): a function of trees at these arguments, arrays (it
            runs at once) or tensors; with `has_aux` f returns (result, anything).
    Returns:
        the list of adjoints; of a function (result, pullback), with `has_aux` (result, pullback,
        aux): pullback(cotangent) is a tuple with an adjoint for each primal, None at integers.
    Raises:
        DefinitionError: the cotangent is no tree like the result.
        ShapeError, DTypeError, GradError: it does not fit; see `tensorad.autodiff.vjp`.
    """
    if is_function(y):
        return _called("vjp", functions.vjp_of, y, args, options)
    return _called("vjp", autodiff.vjp, y, args, options)


@overload
def jvp(
    y: Tensor,
    tangents: Mapping[Tensor, Direction],
    *,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> Tensor: ...
@overload
def jvp(
    y: Sequence[Tensor],
    tangents: Mapping[Tensor, Direction],
    *,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> list[Tensor]: ...
@overload
def jvp(
    y: Anything, primals: Sequence[Any], tangents: Sequence[Any], *, fw_mode: bool | None = None
) -> Any: ...
def jvp(y: Any, *args: Any, **options: Any) -> Any:
    """Derivatives along tangents, forward.

    Args:
        y: jvp(y, {X: dX}, *, fw_mode=None, override=None): tensors, see `tensorad.autodiff.jvp`.
            jvp(f, primals, tangents, *, fw_mode=None): a function of trees, a tuple of arguments
            and a tuple of trees like them. fw_mode=False: by reverse mode twice.
    Returns:
        the tangents of y; of a function (result, its tangent), None at integers.
    Raises:
        DefinitionError: a tangent is no tree like its argument.
        ShapeError, DTypeError, GradError: it does not fit; see `tensorad.autodiff.jvp`.
    """
    if is_function(y):
        return _called("jvp", functions.jvp_of, y, args, options)
    return _called("jvp", autodiff.jvp, y, args, options)


@overload
def jacobian(
    y: Tensor,
    x: Tensor,
    optimize: bool = True,
    *,
    mode: str | None = None,
    override: Override | None = None,
) -> Tensor: ...
@overload
def jacobian(y: Anything, argnums: Argnums = 0, *, mode: str | None = None) -> Function: ...
def jacobian(y: Any, *args: Any, **options: Any) -> Any:
    """Derivatives of every element by every element.

    Args:
        y: jacobian(y, x, optimize=True, *, mode=None, override=None): tensors, see
            `tensorad.autodiff.jacobian`.
            jacobian(f, argnums=0, *, mode=None): a function of trees.
    Returns:
        a tensor of shape y.shape + x.shape; of a function the function to a tree like its result
        of trees like the argument, of such arrays. By a value of a data type it is a value like it
        with such fields; where data choose its alternatives in reverse mode only.
    """
    if is_function(y):
        return _called("jacobian", functions.jacobian_of, y, args, options)
    return _called("jacobian", autodiff.jacobian, y, args, options)


def _argnums(f: Anything, argnums: Argnums = 0) -> Argnums:
    return argnums


@overload
def jacfwd(y: Tensor, x: Tensor, *, override: Override | None = None) -> Tensor: ...
@overload
def jacfwd(y: Anything, argnums: Argnums = 0) -> Function: ...
def jacfwd(y: Any, *args: Any, **options: Any) -> Any:
    """`jacobian` in forward mode."""
    if is_function(y):
        argnums = _called("jacfwd", _argnums, y, args, options)
        return functions.jacobian_of(y, argnums, "forward", "jacfwd")
    return _called("jacfwd", autodiff.jacobian, y, args, {**options, "mode": "forward"})


@overload
def jacrev(y: Tensor, x: Tensor, *, override: Override | None = None) -> Tensor: ...
@overload
def jacrev(y: Anything, argnums: Argnums = 0) -> Function: ...
def jacrev(y: Any, *args: Any, **options: Any) -> Any:
    """`jacobian` in reverse mode."""
    if is_function(y):
        argnums = _called("jacrev", _argnums, y, args, options)
        return functions.jacobian_of(y, argnums, "reverse", "jacrev")
    return _called("jacrev", autodiff.jacobian, y, args, {**options, "mode": "reverse"})


@overload
def hessian(
    y: Tensor,
    x: Tensor,
    *,
    mode: str | None = None,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> Tensor: ...
@overload
def hessian(
    y: Tensor,
    x: Sequence[Tensor],
    *,
    mode: str | None = None,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> list[list[Tensor]]: ...
@overload
def hessian(y: Anything, argnums: Argnums = 0, *, fw_mode: bool | None = None) -> Function: ...
def hessian(y: Any, *args: Any, **options: Any) -> Any:
    """Second derivatives of a 0-d tensor, or of a function with such a result.

    Args:
        y: hessian(y, x, *, mode=None, fw_mode=None, override=None): see
            `tensorad.autodiff.hessian`.
            hessian(f, argnums=0, *, fw_mode=None): a function of trees. The gradient is
            differentiated by forward mode (True), reverse mode (False) or the cheaper one.
    Returns:
        a tensor of shape x.shape + x.shape, or blocks; of a function the function to a tree like
        the argument of trees like it.
    """
    if is_function(y):
        return _called("hessian", functions.hessian_of, y, args, options)
    return _called("hessian", autodiff.hessian, y, args, options)


@overload
def hvp(
    y: Tensor,
    x: Tensor,
    v: Direction,
    *,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> Tensor: ...
@overload
def hvp(
    y: Tensor,
    x: Sequence[Tensor],
    v: Sequence[Direction],
    *,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> list[Tensor]: ...
@overload
def hvp(
    y: Anything, primals: Sequence[Any], vectors: Sequence[Any], *, fw_mode: bool | None = None
) -> Any: ...
def hvp(y: Any, *args: Any, **options: Any) -> Any:
    """The Hessian times vectors.

    Args:
        y: hvp(y, x, v, *, fw_mode=None, override=None): see `tensorad.autodiff.hvp`.
            hvp(f, primals, vectors, *, fw_mode=None): a function of trees, a tuple of arguments and
            a tuple of trees like them. fw_mode=False: the gradient is differentiated by reverse
            mode.
    Returns:
        tensors like x; of a function a tuple of trees like the primals.
    """
    if is_function(y):
        return _called("hvp", functions.hvp_of, y, args, options)
    return _called("hvp", autodiff.hvp, y, args, options)


def linearize(f: Anything, *primals: Any) -> Any:
    """(result, linear): linear(*tangents) is the derivative of a function's result along them.

    Args:
        f: a function of trees.
        primals: its arguments, arrays (it runs at once) or tensors.
    Raises:
        DefinitionError: f is no function, or a tangent no tree like its argument.
    """
    return functions.linearize_of(f, *primals)


@overload
def scan(
    source: Anything,
    init: object,
    xs: object = None,
    length: object = None,
    reverse: bool = False,
    *,
    checkpoint: str | int | None = None,
    memory: int | None = None,
) -> tuple[Any, Any]: ...
@overload
def scan(
    source: Tensor | Sequence[Tensor],
    axis: int,
    combiner: object = "sum",
    exclusive: bool = False,
    reverse: bool = False,
    name: str = "scan",
) -> Any: ...
def scan(source: Any, *args: Any, **options: Any) -> Any:
    """Folds that keep every step: of a tensor along an axis, or of a function over iterations.

    Args:
        source: scan(tensor, axis, combiner="sum", exclusive=False, reverse=False, name="scan"):
            a tensor, or a tuple of tensors, see `tensorad.te.scan`.
            scan(f, init, xs=None, length=None, reverse=False, checkpoint=None,
            memory=None): f is
            (carry, x) -> (carry, y).
    Returns:
        the tensor of folds; of a function (the last carry, all y), see `tensorad.program.loops`.
    """
    if is_function(source):
        return _called("scan", loops.scan, source, args, options)
    return _called("scan", te.scan, source, args, options)
