"""Derivatives that do not exist: each refused with one whole text."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DTypeError, GradError, ShapeError
from tensorad.ir.expr import Axis, Expr
from tests.support.refusals import Case, Refusals, check

X = ta.placeholder((3, 4), name="X")
N = ta.placeholder((3,), "int32", name="N")
Z = ta.placeholder((5,), name="Z")
Y = ta.compute((3, 4), lambda i, j: X[i, j] * 2.0, name="Y")
COUNT = ta.compute((3,), lambda i: N[i] + 1, name="Count")
S = ta.compute((), lambda: X[0, 0] * X[1, 1], name="S")

CASES = Refusals()


@CASES.refused(
    DTypeError,
    "cannot differentiate by N of dtype int32: integers and booleans have no derivative.",
    "  hint: leave it out of wrt.",
)
def an_integer_wrt() -> None:
    ta.JacobianRecursive(Y, [N])


@CASES.refused(
    DTypeError,
    "Count has dtype int32: integers and booleans have no derivative.",
    "  hint: convert with .astype('float32') before differentiating.",
)
def an_integer_output() -> None:
    ta.vjp(COUNT, [X])


@CASES.refused(GradError, "Y stands twice in the outputs.", "  hint: name each once.")
def a_repeated_output() -> None:
    ta.vjp((Y, Y), [X])


@CASES.refused(
    GradError,
    "only tensors can be differentiated, got float.",
    "  hint: pass the tensors that compute returned.",
)
def a_number_among_outputs() -> None:
    ta.vjp((Y, 1.0), [X])  # type: ignore[arg-type]


@CASES.refused(
    GradError,
    "only a tensor can be differentiated, got str.",
    "  hint: pass the tensor that compute returned, or a list of tensors.",
)
def a_text_as_output() -> None:
    ta.vjp("Y", [X])  # type: ignore[arg-type]


@CASES.refused(
    GradError,
    "there is no float tensor among the outputs.",
    "  hint: integers and booleans have no derivative.",
)
def integer_outputs() -> None:
    ta.vjp([COUNT], [X], [1.0])


@CASES.refused(
    GradError,
    "2 outputs need 2 heads, got 1.",
    "  in: outputs Y, S",
    "  hint: pass a list with one head per output; None stands for 1 at a 0-d output.",
)
def too_few_heads() -> None:
    ta.vjp([Y, S], [X], [1.0])


@CASES.refused(
    GradError,
    "Y of shape (3, 4) has no head.",
    "  in: outputs Y, S",
    "  hint: give every output a head; for full Jacobians take one output at a time.",
)
def an_output_without_head() -> None:
    ta.vjp([Y, S], [X])


@CASES.refused(
    ShapeError,
    "the heads of Y and S have different leading axes (2,) and ().",
    "  hint: all heads of one call share their extra leading axes.",
)
def heads_of_different_batches() -> None:
    ta.vjp([Y, S], [X], [ta.placeholder((2, 3, 4)), ta.placeholder(())])


@CASES.refused(
    DTypeError,
    "Count has dtype int32: integers and booleans have no derivative.",
    "  hint: leave its head None, or convert it with .astype('float32').",
)
def a_head_for_an_integer() -> None:
    ta.vjp([Y, COUNT], [X], [1.0, 1.0])


@CASES.refused(
    GradError,
    "cannot differentiate by a NoneType; wrt holds tensors.",
    "  hint: pass the placeholders or intermediate tensors themselves.",
)
def no_wrt() -> None:
    ta.vjp(Y, None)  # type: ignore[arg-type]


@CASES.refused(
    GradError,
    "cannot differentiate by a Read; wrt holds tensors.",
    "  hint: pass the placeholders or intermediate tensors themselves.",
)
def an_element_as_wrt() -> None:
    ta.vjp(Y, [X[0, 0]])  # type: ignore[list-item]


@CASES.refused(
    GradError,
    "wrt is empty.",
    "  hint: name at least one tensor to differentiate by.",
)
def an_empty_wrt() -> None:
    ta.vjp(Y, [])


@CASES.refused(GradError, "X stands twice in wrt.", "  hint: name each tensor once.")
def a_repeated_wrt() -> None:
    ta.vjp(Y, [X, X])


@CASES.refused(
    GradError,
    "Y does not depend on Z.",
    "  hint: remove it from wrt, or leave out strict=True to get zeros.",
)
def an_unreachable_wrt() -> None:
    ta.JacobianRecursive(Y, [Z], strict=True)


@CASES.refused(
    ShapeError,
    "the head has shape (4, 3), but Y has shape (3, 4).",
    "  hint: a head has the output's shape, after any extra leading axes.",
)
def a_head_of_another_shape() -> None:
    ta.vjp(Y, [X], ta.placeholder((4, 3), name="H"))


@CASES.refused(
    ShapeError,
    "the head has shape (4,), but Y has shape (3, 4).",
    "  hint: a head has the output's shape, after any extra leading axes.",
)
def a_head_of_lower_rank() -> None:
    ta.vjp(Y, [X], np.ones(4, "float32"))


@CASES.refused(
    DTypeError,
    "the head has dtype int32; it must be a float.",
    "  hint: use placeholder(shape, dtype='float32').",
)
def an_integer_head() -> None:
    ta.vjp(Y, [X], ta.placeholder((3, 4), "int32", name="H"))


@CASES.refused(
    GradError,
    "the head must be a tensor, an array or a number, got str.",
    "  hint: use placeholder((3, 4), name='H').",
)
def a_text_as_head() -> None:
    ta.vjp(Y, [X], "ones")  # type: ignore[arg-type]


@CASES.refused(
    ShapeError,
    "the tangent of X has shape (5,), but X has shape (3, 4).",
    "  hint: a tangent has the shape of its tensor, after any extra leading axes.",
)
def a_tangent_of_another_shape() -> None:
    ta.jvp(Y, {X: Z})


@CASES.refused(
    GradError,
    "the tangents must be a dict from tensors, got list.",
    "  hint: write jvp(Y, {X: dX}).",
)
def tangents_in_a_list() -> None:
    ta.jvp(Y, [X])  # type: ignore[call-overload]


@CASES.refused(
    GradError,
    "the tangent of X must be a tensor, an array or a number, got str.",
    "  hint: use placeholder((3, 4), name='dX').",
)
def a_text_as_tangent() -> None:
    ta.jvp(Y, {X: "ones"})  # type: ignore[dict-item]


@CASES.refused(
    DTypeError,
    "the tangent of X has dtype int32; it must be a float.",
    "  hint: use placeholder(shape, dtype='float32').",
)
def an_integer_tangent() -> None:
    ta.jvp(Y, {X: ta.placeholder((3, 4), "int32")})


@CASES.refused(
    ShapeError,
    "the tangents of X and Z have different leading axes (2,) and ().",
    "  hint: all tangents of one call share their extra leading axes.",
)
def tangents_of_different_batches() -> None:
    ta.jvp(Y, {X: ta.placeholder((2, 3, 4)), Z: Z})


@CASES.refused(
    ShapeError,
    "hessian needs a 0-d tensor, but Y has shape (3, 4).",
    "  hint: sum it first, e.g. compute((), lambda: ta.sum(Y[k], axis=k)).",
)
def a_hessian_of_a_matrix() -> None:
    ta.hessian(Y, X)


@CASES.refused(
    ShapeError,
    "the tangent of X has shape (5,), but X has shape (3, 4).",
    "  hint: a tangent has the shape of its tensor, after any extra leading axes.",
)
def a_hessian_along_another_shape() -> None:
    ta.hvp(S, X, Z)


@CASES.refused(
    GradError,
    "Y does not read Z directly.",
    "  in: Y reads X",
    "  hint: use JacobianRecursive or jacobian, which go through intermediate tensors.",
)
def a_plain_jacobian_by_a_stranger() -> None:
    ta.Jacobian(Y, Z, False)


@CASES.refused(
    ShapeError,
    "cannot contract the last 1 axes of X (3, 4) with the first 1 of Y (3, 4).",
    "  hint: the contracted axes must have equal extents.",
)
def a_product_of_other_axes() -> None:
    ta.generalized_matmul(X, Y, 1)


RAGGED = (
    "the derivative of Y stores what each step over k finds, but data alone bound k.",
    "  in: k in [P[i], P[i + 1])",
    "  hint: bound it in the formula, too: reduce_axis((maximum(p[i], 0), minimum(p[i + 1], n))).",
)


P = ta.placeholder((4,), "int64", name="P")
ROWS = ta.size("n")


def row(i: Axis) -> Axis:
    return ta.reduce_axis((P[i], P[i + 1]), name="k")


def product(i: Axis) -> Expr:
    k = row(i)
    return ta.prod(Z[k], axis=k)


def sum_of_sums(i: Axis) -> Expr:
    k, j = row(i), ta.reduce_axis(4, name="j")
    return ta.sum(ta.tanh(ta.sum(X[k, j], axis=j)), axis=k)


def mixed_product(i: Axis) -> Expr:
    k = ta.reduce_axis((0, i * (i - ROWS)), name="k")
    return ta.prod(Z[k % 5], axis=k)


@CASES.refused(
    GradError,
    "the derivative of Y stores what each step over k finds, but no sizes are known to bound k.",
    "  in: k in [0, i*(i - n))",
    "  hint: bound it in the formula, too: reduce_axis((0, minimum(i*(i - n), n))).",
)
def a_product_over_what_no_known_size_bounds() -> None:
    ta.vjp(ta.compute((ROWS,), mixed_product, name="Y"), [Z], ta.placeholder((ROWS,)))


@CASES.refused(GradError, *RAGGED)
def a_product_over_what_data_alone_bound() -> None:
    ta.vjp(ta.compute((3,), product, name="Y"), [Z], np.ones(3))


@CASES.refused(GradError, *RAGGED)
def its_derivative_along_a_direction() -> None:
    ta.jvp(ta.compute((3,), product, name="Y"), {Z: np.ones(5)})


@CASES.refused(GradError, *RAGGED)
def a_reduction_inside_of_what_data_alone_bound() -> None:
    ta.vjp(ta.compute((3,), sum_of_sums, name="Y"), [X], np.ones(3))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.attempt.__name__)
def test_refusals(case: Case) -> None:
    check(case)
