"""Bad programs, part nine: systems and equations that cannot be solved."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, GradError, ShapeError
from tests.support.refusals import Refusals

CASES = Refusals()
V = np.arange(3.0)
A = np.eye(3)


@CASES.refused(
    ShapeError,
    "the matrix of linear_solve at HERE has shape (2, 3).",
    "  in: a : float64 (2, 3), b : float64 (3,)",
    "  hint: a system has as many equations as unknowns: shape (n, n).",
)
def a_matrix_that_is_not_square() -> None:
    ta.linear_solve(A[:2], V)


@CASES.refused(
    ShapeError,
    "the right-hand side of linear_solve at HERE has shape (2,), but the matrix has shape (3, 3).",
    "  in: a : float64 (3, 3), b : float64 (2,)",
    "  hint: pass shape (n,), or (n, k) for k systems of one matrix.",
)
def a_right_hand_side_of_another_length() -> None:
    ta.linear_solve(A, V[:2])


@CASES.refused(
    DTypeError,
    "linear_solve at HERE is given no float.",
    "  in: a : int64 (3, 3), b : int64 (3,)",
    "  hint: convert with .astype('float64').",
)
def a_system_of_integers() -> None:
    ta.linear_solve(np.eye(3, dtype="int64"), np.arange(3))


@CASES.refused(
    DefinitionError,
    "linear_solve at HERE solves the system of a matrix by its factors.",
    "  hint: leave out the options; or pass a function, lambda x: a @ x.",
)
def a_matrix_with_options_of_functions() -> None:
    ta.linear_solve(A, V, method="cg")


@CASES.refused(
    DefinitionError,
    "linear_solve at HERE has no method 'qr'.",
    "  hint: choose one of lu, gmres, cg.",
)
def a_method_that_is_not_known() -> None:
    ta.linear_solve(lambda x: x, V, method="qr")


@CASES.refused(
    GradError,
    "the function of linear_solve at HERE is not linear in x.",
    "  hint: write sums of elements of x times what does not depend on x; ta.root solves other "
    "equations.",
)
def a_system_that_is_not_linear() -> None:
    ta.linear_solve(lambda x: x * x, V)


@CASES.refused(
    DefinitionError,
    "the function of root at HERE must return a tree like x.",
    "  in:         x             result",
    "      x['u']  float64 (3,)  float64 (3,)",
    "      x['v']  float64 ()    -",
    "  hint: return a tree of the structure, the shapes and the dtypes of x.",
)
def a_root_of_another_structure() -> None:
    ta.root(lambda x: {"u": x["u"]}, {"u": V, "v": 1.0})


@CASES.refused(
    DTypeError,
    "x0['n'] of root at HERE is no float.",
    "  in: x0['n'] : number 3",
    "  hint: what is solved for are floats: begin with 1.0, or convert with .astype('float64').",
)
def a_root_begun_at_integers() -> None:
    ta.root(lambda x: x, {"n": 3})


@CASES.refused(
    ShapeError,
    "the function of minimize at HERE must return one float without axes, got float64 (3,).",
    "  hint: sum what is to be least.",
)
def a_minimum_of_an_array() -> None:
    ta.minimize(lambda x: x, V)


@CASES.refused(
    DefinitionError,
    "tol of fixed_point at HERE must be a number above 0, got 0.0.",
    "  hint: write tol=1e-8.",
)
def a_tolerance_of_zero() -> None:
    ta.fixed_point(lambda x: x, V, tol=0.0)


@CASES.refused(
    DefinitionError,
    "max_iterations of fixed_point at HERE must be a positive integer, got 0.",
    "  hint: write max_iterations=100.",
)
def no_iterations() -> None:
    ta.fixed_point(lambda x: x, V, max_iterations=0)


@CASES.refused(
    DefinitionError,
    "x0 of root at HERE has no arrays.",
    "  hint: pass what is solved for: arrays or numbers.",
)
def nothing_to_solve_for() -> None:
    ta.root(lambda x: x, ())


@CASES.refused(
    DefinitionError,
    "the function of root at HERE writes the reference last made at HERE.",
    "  hint: it is called for its result alone: write references before or after.",
)
def an_equation_that_writes() -> None:
    def f(a: Any) -> Any:
        last = ta.ref(a, "last")
        x = ta.root(lambda x: (last.set(x), x * x - a)[1], 1.0)
        return x + last.get()

    ta.function(f)(2.0)


@CASES.refused(
    DefinitionError,
    "linear_transpose of <lambda> writes the reference last made at HERE.",
    "  hint: it is called for its result alone: write references before or after.",
)
def a_transposed_function_that_writes() -> None:
    def f(x: Any) -> Any:
        last = ta.ref(x, "last")
        return ta.linear_transpose(lambda y: (last.set(y), y)[1], x)(x)[0] + last.get()

    ta.function(f)(V)
