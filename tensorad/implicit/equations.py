"""Roots, fixed points and minima: found by loops, differentiated by the implicit function theorem.

Sources: Christianson, Reverse accumulation and attractive fixed points (1994); Blondel et al.,
Efficient and modular implicit differentiation (2022), sections 2.1 and 2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tensorad import topi
from tensorad.autodiff import jacobian, jvp, vjp
from tensorad.autodiff.control.pieces import zeros_like
from tensorad.errors import ShapeError
from tensorad.implicit.calls import (
    Packing,
    Tensors,
    applied,
    copies,
    pulled_back,
    ruled_call,
)
from tensorad.implicit.dense import lu, solve
from tensorad.implicit.krylov import Limits
from tensorad.implicit.linear import System, checked_method, solved
from tensorad.implicit.maps import LinearMap, like_x, written
from tensorad.implicit.options import checked_limits, float_tree
from tensorad.implicit.solvers import Vectors, damped_newton, newton, repeated
from tensorad.ir.arrays.elementwise import elementwise
from tensorad.ir.source import source_line
from tensorad.ir.tensor import CallRule, FunctionCall, MaybeTensors, SoFar, Tensor, outputs
from tensorad.program.calls import check_callable, operand
from tensorad.program.sides import leaf_text
from tensorad.program.traces import Program, traced
from tensorad.program.trees import Flat, unflatten
from tensorad.program.values import parameters

Anything = Callable[..., Any]
_SYSTEMS = Limits(1e-10, 1000)
"""Of the linear systems of derivatives where the unknowns are float64; float32 has 1e-5."""


def root(
    f: Anything,
    x0: Any,
    *args: Any,
    tol: float | None = None,
    max_iterations: int | None = None,
    linear: str = "lu",
) -> Any:
    """x with f(x, *args) = 0, near x0: by Newton's steps, halved until the residual decreases.

    Its derivative is that of the solution, dx = -(df/dx)^-1 df, in both modes and to any order;
    none flows to x0.

    Args:
        f: a function of a tree of floats that returns a tree like it. It may use tensors from
            outside.
        x0: where to begin, a tree.
        args: further arguments of f, trees.
        tol: of the last step, relative to 1 + the largest |x|; 1e-8 for float64, 1e-4 for float32.
            The error after it is about its square.
        max_iterations: 100 unless told.
        linear: how systems of derivatives are solved, see `linear_solve`; the steps use "lu".
    Returns:
        a tree like x0; NaN everywhere if the steps do not get there.
    Raises:
        DefinitionError, DTypeError: x0 is no tree of floats, f returns another tree, an option is
            unknown.
    """
    title = f"root at {source_line()}"
    return _found(f, x0, args, title, _ROOT, (tol, max_iterations, linear))


def fixed_point(
    f: Anything,
    x0: Any,
    *args: Any,
    tol: float | None = None,
    max_iterations: int | None = None,
    linear: str = "gmres",
) -> Any:
    """x with f(x, *args) = x: x0, f(x0), f(f(x0)), ...; differentiated as `root` of f(x) - x.

    Args:
        f, x0, args: see `root`; f comes nearer to x with each step.
        tol: of the last step, relative to 1 + the largest |x|; 1e-12 for float64, 1e-5 for
            float32. The error is this times q / (1 - q), if steps shrink by q.
        max_iterations: 10,000 unless told.
        linear: see `root`.
    Returns:
        a tree like x0; NaN everywhere if the steps do not get there.
    Raises:
        DefinitionError, DTypeError: see `root`.
    """
    title = f"fixed_point at {source_line()}"
    return _found(f, x0, args, title, _FIXED_POINT, (tol, max_iterations, linear))


def minimize(
    f: Anything,
    x0: Any,
    *args: Any,
    tol: float | None = None,
    max_iterations: int | None = None,
    linear: str = "lu",
) -> Any:
    """x where f(x, *args) is least, near x0: by Newton's steps, with Marquardt's damping where f
    does not decrease; differentiated as `root` of the gradient of f.

    Args:
        f: a function of a tree of floats with one 0-d float as result, twice differentiable.
        x0, args: see `root`.
        tol: of the last step without damping, relative to 1 + the largest |x|; 1e-8 for float64,
            1e-4 for float32. The error after it is about its square.
        max_iterations: 200 unless told, those among them after which f did not decrease.
        linear: see `root`; "cg" is enough at a minimum.
    Returns:
        a tree like x0, where the gradient is 0: begun at a saddle it stays there. NaN everywhere if
        the steps do not get there, or the Hessian is singular.
    Raises:
        DefinitionError, DTypeError: see `root`. ShapeError: f returns no 0-d float.
    """
    title = f"minimize at {source_line()}"
    return _found(f, x0, args, title, _MINIMUM, (tol, max_iterations, linear))


@dataclass(frozen=True)
class _Kind:
    """What is looked for.

    Attributes:
        residual: (program, x, rest) -> what is 0 there.
        solver: (function of vectors, x0, limits) -> x.
        tolerances: for float64 and float32; `usual`: the most iterations.
    """

    name: str
    residual: Callable[[Program, Tensors, Tensors], Tensors]
    solver: Callable[[Vectors, Tensor, Limits], Tensor]
    tolerances: tuple[float, float]
    usual: int
    is_scalar: bool = False


def _values(program: Program, x: Tensors, rest: Tensors) -> Tensors:
    return applied(program, (*x, *rest))


def _steps(program: Program, x: Tensors, rest: Tensors) -> Tensors:
    pairs = zip(applied(program, (*x, *rest)), x, strict=True)
    return [elementwise("sub", after, before) for after, before in pairs]


def _slopes(program: Program, x: Tensors, rest: Tensors) -> Tensors:
    own = copies(x)
    return vjp(list(applied(program, (*own, *rest))), own)


_ROOT = _Kind("root", _values, newton, (1e-8, 1e-4), 100)
_FIXED_POINT = _Kind("fixed_point", _steps, repeated, (1e-12, 1e-5), 10_000)
_MINIMUM = _Kind("minimize", _slopes, damped_newton, (1e-8, 1e-4), 200, is_scalar=True)


def _found(
    f: Anything,
    x0: Any,
    args: tuple[Any, ...],
    title: str,
    kind: _Kind,
    options: tuple[float | None, int | None, str],
) -> Any:
    check_callable(f, f"the first argument of {title}")
    tol, most, linear = options
    method = checked_method(linear, title)
    given = operand(args, "args")
    x, program = _written(lambda tree: f(tree, *given), x0, title, kind)
    limits = checked_limits(title, tol, most, x, kind.tolerances, kind.usual)
    tolerance = _SYSTEMS.tolerance if Packing.of(x.leaves).dtype.bits == 64 else 1e-5
    system = System(method, Limits(tolerance, 1000 if method == "cg" else 100))
    rule = _Implicit(kind, program, system)
    packing = Packing.of(x.leaves)

    def body(params: Sequence[Tensor]) -> Any:
        start, rest = params[: len(x.leaves)], params[len(x.leaves) :]

        def function(v: Tensor) -> Tensor:
            made = applied(program, (*packing.unpack(v), *rest))
            return made[0] if kind.is_scalar else packing.pack(made)

        return tuple(packing.unpack(kind.solver(function, packing.pack(start), limits)))

    record = CallRule(rule.adjoints, rule.tangents, takes_batches=method == "lu")
    names = [*x.paths, *[t.name for t in program.reads]]
    made = ruled_call(kind.name, names, body, (*x.leaves, *program.reads), record)
    return unflatten(x.structure, made)


def _written(
    function: Callable[[Any], Any], x0: object, title: str, kind: _Kind
) -> tuple[Flat, Program]:
    """The tree to begin with, and the function of it; numbers take the dtype of its results."""
    x = float_tree(x0, "x0", title)
    program = written(function, x, title, f"{kind.name}_function")
    widest = max(program.results, key=lambda t: t.dtype.bits * t.dtype.is_float, default=None)
    if widest is not None and widest.dtype.is_float:
        wider = float_tree(x0, "x0", title, widest.dtype)
        if any(a.dtype.bits < b.dtype.bits for a, b in zip(x.leaves, wider.leaves, strict=True)):
            x, program = wider, written(function, wider, title, f"{kind.name}_function")
    if not kind.is_scalar:
        return x, like_x(program, x, title)
    results = program.results
    if len(results) != 1 or results[0].shape or not results[0].dtype.is_float:
        raise ShapeError(
            f"the function of {title} must return one float without axes, got "
            f"{', '.join(map(leaf_text, results)) or 'nothing'}.",
            hint="sum what is to be least.",
        )
    return x, program


@dataclass(frozen=True, eq=False)
class _Implicit:
    """x with F(x, rest) = 0: (dF/dx) x' = -(dF/drest) rest'."""

    kind: _Kind
    program: Program
    system: System

    def adjoints(self, op: FunctionCall, heads: MaybeTensors, so_far: SoFar) -> MaybeTensors:
        made = outputs(op)
        live = next((h, t) for h, t in zip(heads, made, strict=True) if h is not None)
        batch = live[0].shape[: live[0].ndim - live[1].ndim]
        whole = [zeros_like(t, batch) if h is None else h for h, t in zip(heads, made, strict=True)]
        w = self._solved(op, whole, transposed=True)
        rest = copies(self._rest(op))
        values = self.kind.residual(self.program, copies(made), rest)
        found = [*[None] * len(made), *pulled_back(values, rest, [-t for t in w])]
        return [*found, *[None] * (len(op.operands) - len(found))]

    def tangents(self, op: FunctionCall, tangents: MaybeTensors) -> MaybeTensors:
        made = outputs(op)
        rest = copies(self._rest(op))
        given = zip(rest, tangents[len(made) : len(made) + len(rest)], strict=True)
        along = {t: d for t, d in given if d is not None}
        if not along:
            return [None] * len(made)
        values = self.kind.residual(self.program, copies(made), rest)
        return self._solved(op, [-t for t in jvp(list(values), along)], transposed=False)

    def _rest(self, op: FunctionCall) -> Tensors:
        """The operands that the function reads; others are constants that its formulas made."""
        count = len(outputs(op))
        return op.operands[count : count + len(self.program.reads)]

    def _solved(self, op: FunctionCall, b: Tensors, *, transposed: bool) -> Tensors:
        """The solution of a system of dF/dx at the solution."""
        made = outputs(op)
        rest = self._rest(op)
        if self.system.method == "lu":
            packing = Packing.of(made)
            (v,) = copies([packing.pack(made)])
            values = packing.pack(self.kind.residual(self.program, packing.unpack(v), rest))
            matrix = jacobian(values, v)
            batch = b[0].shape[: b[0].ndim - made[0].ndim]
            columns = topi.expand_dims(packing.pack(b, batch), len(batch) + 1)
            x = solve(matrix, lu(matrix), columns, transposed=transposed)
            return packing.unpack(topi.squeeze(x, len(batch) + 1), batch)

        def along(directions: Sequence[Tensor]) -> Any:
            own = copies(made)
            values = self.kind.residual(self.program, own, rest)
            return tuple(jvp(list(values), dict(zip(own, directions, strict=True))))

        names = [f"d{t.name}" for t in made]
        params = parameters(names, [t.shape for t in made], [t.dtype for t in made], "a derivative")
        program = traced(f"{self.kind.name}_slope", along, params)
        slope = LinearMap.of(program, self.kind.name, symmetric=self.system.method == "cg")
        slope = slope.transpose if transposed else slope
        return solved(slope, slope.rest, b, self.system)
