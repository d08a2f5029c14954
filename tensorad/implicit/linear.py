"""Systems of linear equations, of matrices and of functions, with both derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensorad import topi
from tensorad.autodiff import jvp
from tensorad.autodiff.control.pieces import zeros_like
from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tensorad.implicit.calls import Packing, Tensors, copies, pulled_back, ruled_call
from tensorad.implicit.dense import lu, solve
from tensorad.implicit.krylov import Limits, conjugate_gradients, gmres
from tensorad.implicit.maps import LinearMap, like_x, matrix_of, written
from tensorad.implicit.options import checked_limits, float_tree
from tensorad.ir.arrays.elementwise import elementwise, same_dim
from tensorad.ir.dtypes import result_type
from tensorad.ir.source import source_line
from tensorad.ir.tensor import (
    CallRule,
    FunctionCall,
    MaybeTensors,
    SoFar,
    Tensor,
    format_shape,
    outputs,
)
from tensorad.program.calls import check_callable
from tensorad.program.sides import leaf_text
from tensorad.program.trees import is_leaf, unflatten
from tensorad.program.values import as_tensor

METHODS: Final = ("lu", "gmres", "cg")


def linear_solve(
    a: Any,
    b: Any,
    *,
    method: str | None = None,
    tol: float | None = None,
    max_iterations: int | None = None,
) -> Any:
    """x with a x = b; differentiated as the solution is, not as the steps to it.

    Args:
        a: a matrix of shape (n, n), or a linear function of trees like b, which may read other
            tensors.
        b: shape (n,) or (n, k) for a matrix; for a function any tree of floats.
        method: "lu": factors with partial pivoting (of a function: of its matrix, n products);
            "gmres": generalised minimal residuals, restarted after 20 products, for any regular
            function; "cg": conjugate gradients, for symmetric positive definite ones, which are
            not transposed either. Matrices have "lu" alone; functions "gmres" unless told.
        tol: of "gmres" and "cg": the norm of a x - b relative to that of b; 1e-10 for float64,
            1e-5 for float32.
        max_iterations: of "cg": steps, 1000; of "gmres": bases of 20 products, 100.
    Returns:
        a tree like b. NaN everywhere where `tol` is not reached; infinities or NaN where a matrix
        is singular.
    Raises:
        DefinitionError: a is neither, its result is no tree like b, or an option is unknown.
        GradError: the function is not linear.
        ShapeError, DTypeError: the matrix is not square, b does not fit, or there is no float.
    Source: the adjoint w solves a^T w = h for the head h of x; Giles (2008), section 2.3.
    """
    title = f"linear_solve at {source_line()}"
    if is_leaf(a):
        if method not in (None, "lu") or tol is not None or max_iterations is not None:
            raise DefinitionError(
                f"{title} solves the system of a matrix by its factors.",
                hint="leave out the options; or pass a function, lambda x: a @ x.",
            )
        return _of_matrix(a, b, title)
    check_callable(a, f"the first argument of {title}")
    own = checked_method(method or "gmres", title)
    usual = 1000 if own == "cg" else 100
    x = float_tree(b, "x", title)
    limits = checked_limits(title, tol, max_iterations, x, (1e-10, 1e-5), usual)
    program = like_x(written(a, x, title, "a"), x, title)
    linear = LinearMap.of(program, title, symmetric=own == "cg")
    found = solved(linear, linear.rest, x.leaves, System(own, limits))
    return unflatten(x.structure, found)


def checked_method(method: object, title: str) -> str:
    """A method's name.

    Raises:
        DefinitionError: there is no such method.
    """
    if method not in METHODS:
        raise DefinitionError(
            f"{title} has no method {method!r}.", hint=f"choose one of {', '.join(METHODS)}."
        )
    return str(method)


def _of_matrix(a: Any, b: Any, title: str) -> Tensor:
    if not is_leaf(b):
        raise DefinitionError(
            f"the right-hand side of {title} is a {type(b).__name__}.",
            hint="with a matrix b is an array; a function of trees takes trees.",
        )
    a, b = as_tensor(a, "a"), as_tensor(b, "b")
    shown = f"a : {leaf_text(a)}, b : {leaf_text(b)}"
    if a.ndim != 2 or not same_dim(*a.shape):
        raise ShapeError(
            f"the matrix of {title} has shape {format_shape(a.shape)}.",
            where=shown,
            hint="a system has as many equations as unknowns: shape (n, n).",
        )
    if b.ndim not in (1, 2) or not same_dim(b.shape[0], a.shape[0]):
        raise ShapeError(
            f"the right-hand side of {title} has shape {format_shape(b.shape)}, but the matrix "
            f"has shape {format_shape(a.shape)}.",
            where=shown,
            hint="pass shape (n,), or (n, k) for k systems of one matrix.",
        )
    dtype = result_type(a.dtype, b.dtype)
    if not dtype.is_float:
        raise DTypeError(
            f"{title} is given no float.", where=shown, hint="convert with .astype('float64')."
        )
    a, b = as_tensor(a, "a", dtype), as_tensor(b, "b", dtype)
    columns = b if b.ndim == 2 else topi.expand_dims(b, 1)
    x = solve(a, lu(a), columns)
    return x if b.ndim == 2 else topi.squeeze(x, 1)


@dataclass(frozen=True)
class System:
    """How systems of a map are solved."""

    method: str
    limits: Limits


def solved(linear: LinearMap, rest: Tensors, b: Tensors, how: System) -> Sequence[Tensor]:
    """x with linear(x, rest) = b, by how it is told.

    Args:
        b: tensors like the operands of the map; by "lu" with leading axes, all the same ones.
    """
    packing = Packing.of(linear.forward.parameters)
    if how.method == "lu":
        batch = b[0].shape[: b[0].ndim - len(packing.shapes[0])]
        matrix = matrix_of(linear, rest, packing)
        columns = topi.expand_dims(packing.pack(b, batch), len(batch) + 1)
        x = solve(matrix, lu(matrix), columns)
        return packing.unpack(topi.squeeze(x, len(batch) + 1), batch)
    rule = _Implicit(linear, how)
    names = [f"b{n}" for n in range(len(b))] + [t.name for t in linear.rest]

    def body(params: Sequence[Tensor]) -> Any:
        right, rest = params[: len(b)], params[len(b) :]

        def product(v: Tensor) -> Tensor:
            return packing.pack(linear(packing.unpack(v), rest))

        solver: Callable[..., Tensor] = conjugate_gradients if how.method == "cg" else gmres
        return tuple(packing.unpack(solver(product, packing.pack(right), how.limits)))

    return ruled_call(
        "linear_solve", names, body, (*b, *rest), CallRule(rule.adjoints, rule.tangents)
    )


@dataclass(frozen=True, eq=False)
class _Implicit:
    """x of A(x, rest) = b: A x' = b' - A'(x), and A^T w = h for the head h of x."""

    linear: LinearMap
    how: System

    def adjoints(self, op: FunctionCall, heads: MaybeTensors, so_far: SoFar) -> MaybeTensors:
        count = len(self.linear.forward.parameters)
        rest = op.operands[count:]
        whole = [
            h if h is not None else zeros_like(t, ())
            for h, t in zip(heads, outputs(op), strict=True)
        ]
        w = solved(self.linear.transpose, rest, whole, self.how)
        own = copies(rest)
        image = self.linear(outputs(op), own)
        return [*w, *pulled_back(image, own, [-t for t in w])]

    def tangents(self, op: FunctionCall, tangents: MaybeTensors) -> MaybeTensors:
        count = len(self.linear.forward.parameters)
        rest, right = op.operands[count:], list(tangents[:count])
        own = copies(rest)
        along = {t: d for t, d in zip(own, tangents[count:], strict=True) if d is not None}
        if along:
            moved = jvp(list(self.linear(outputs(op), own)), along)
            pairs = zip(right, moved, strict=True)
            right = [-m if d is None else elementwise("sub", d, m) for d, m in pairs]
        whole = [
            d if d is not None else zeros_like(t, ())
            for d, t in zip(right, outputs(op), strict=True)
        ]
        return solved(self.linear, rest, whole, self.how)
