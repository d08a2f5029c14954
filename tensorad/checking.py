"""`gradcheck`: reverse mode, forward mode and central differences must agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorad.autodiff.forward import jvp
from tensorad.autodiff.reverse import vjp
from tensorad.errors import DefinitionError, GradError
from tensorad.ir.interpret import interpret, shape_of
from tensorad.ir.printer import format_tensor
from tensorad.ir.tensor import Placeholder, Tensor, outputs
from tensorad.ir.visit import topological_ops

Array = np.ndarray[Any, np.dtype[Any]]
Bindings = dict[Tensor, Array]

_SMALL: Final = 12
"""Inputs of at most so many elements are checked element by element, not in one direction."""


def gradcheck(
    y: Tensor,
    wrt: Sequence[Tensor] | Tensor,
    order: int = 1,
    eps: float = 1e-6,
    tol: float = 1e-6,
    seed: int = 0,
    *,
    arrays: Mapping[Tensor, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> bool:
    """Check the derivatives of `y`; everything is evaluated by the interpreter in float64.

    Args:
        y: float tensor.
        wrt: inputs or intermediates.
        order: 2 checks the derivatives of each gradient as well, and so on.
        eps: step of the central differences.
        tol: allowed difference, relative to the largest value compared (at least 1).
        seed: of the random values.
        arrays: values of inputs; others are random (floats) or 0 (integers, booleans).
        sizes: values of symbolic sizes.
    Returns:
        True.
    Raises:
        GradError: two ways to differentiate disagree; the text names the first wrong element.
    """
    if order < 1:
        raise DefinitionError(f"order must be at least 1, got {order}.", hint="use order=1.")
    inputs = [wrt] if isinstance(wrt, Tensor) else list(wrt)
    check = _Check(inputs, eps, tol, np.random.default_rng(seed), dict(sizes or {}))
    bindings = check.bind_inputs(y, dict(arrays or {}))
    pending = [(y, order)]
    while pending:
        t, remaining = pending.pop()
        gradients, bindings = check.derivatives(t, bindings)
        if remaining > 1:
            pending.extend([(g, remaining - 1) for g in gradients])
    return True


class _Check:
    """One call's settings."""

    def __init__(
        self,
        wrt: list[Tensor],
        eps: float,
        tol: float,
        rng: np.random.Generator,
        sizes: dict[str, int],
    ) -> None:
        self.wrt = wrt
        self.eps = eps
        self.tol = tol
        self.rng = rng
        self.sizes = sizes

    def shape(self, t: Tensor, bindings: Bindings) -> tuple[int, ...]:
        return shape_of(t, {b: np.shape(a) for b, a in bindings.items()}, self.sizes)

    def bind_inputs(self, y: Tensor, given: Bindings) -> Bindings:
        """Values of either sign where `y` is finite, otherwise between 0.3 and 1.7."""
        leaves = [
            t
            for op in topological_ops([y, *self.wrt])
            if isinstance(op, Placeholder)
            for t in outputs(op)
            if t not in given
        ]
        known: Bindings = {t: np.asarray(a) for t, a in given.items()}
        known |= {t: self._random(t, known) for t in leaves}
        signed = known | {t: self._signed(known[t]) for t in leaves if t.dtype.is_float}
        with np.errstate(all="ignore"):
            finite = np.isfinite(interpret(y, signed, self.sizes)).all()
        return signed if finite else known

    def _random(self, t: Tensor, known: Bindings) -> Array:
        shape = self.shape(t, known)
        if t.dtype.is_float:
            return self.rng.uniform(0.3, 1.7, shape)
        return np.zeros(shape, dtype=str(t.dtype))

    def _signed(self, array: Array) -> Array:
        return np.asarray(array * self.rng.choice([-1.0, 1.0], array.shape))

    def derivatives(self, y: Tensor, bindings: Bindings) -> tuple[list[Tensor], Bindings]:
        """Check y's first derivatives; return its gradients with the bindings they need."""
        head = _placeholder(f"d{y.name}", y)
        bindings = bindings | {head: self.rng.standard_normal(self.shape(y, bindings))}
        gradients = vjp(y, self.wrt, head)
        values = interpret(gradients, bindings, self.sizes)
        for x, gradient in zip(self.wrt, values, strict=True):
            self.one_input(_Derivative(y, x, head, gradient, bindings))
        return gradients, bindings

    def one_input(self, d: _Derivative) -> None:
        """Compare the three along one random direction, and element by element if few."""
        tangent = _placeholder(f"d{d.x.name}", d.x)
        forward = jvp(d.y, {d.x: tangent})
        direction = np.asarray(self.rng.standard_normal(d.gradient.shape))
        along = interpret(forward, d.bindings | {tangent: direction}, self.sizes)
        numeric = self.difference(d, direction)
        wrong = self.first_wrong(along, numeric)
        if wrong is not None:
            raise self.disagreement(d, "forward mode", f"d{d.y.name}", wrong, along, numeric)
        adjoint = np.array([np.sum(d.gradient * direction)])
        dual = np.array([np.sum(d.bindings[d.head] * along)])
        if d.gradient.size <= _SMALL or self.first_wrong(adjoint, dual) is not None:
            self.each_element(d, adjoint, dual)

    def each_element(self, d: _Derivative, adjoint: Array, dual: Array) -> None:
        """Compare the gradient with differences in every element of the input."""
        expected = np.empty_like(d.gradient)
        for where in np.ndindex(*d.gradient.shape):
            unit = np.zeros_like(d.gradient)
            unit[where] = 1.0
            expected[where] = np.sum(d.bindings[d.head] * self.difference(d, unit))
        wrong = self.first_wrong(d.gradient, expected)
        if wrong is not None:
            name = f"gradient of {d.x.name}"
            raise self.disagreement(d, "reverse mode", name, wrong, d.gradient, expected)
        if self.first_wrong(adjoint, dual) is not None:
            raise self.disagreement(d, "reverse mode", "<dX, direction>", (0,), adjoint, dual)

    def difference(self, d: _Derivative, direction: Array) -> Array:
        """(y(x + eps*direction) - y(x - eps*direction)) / (2*eps)."""
        base = interpret(d.x, d.bindings, self.sizes)
        ahead, behind = (
            interpret(d.y, d.bindings | {d.x: base + step * direction}, self.sizes)
            for step in (self.eps, -self.eps)
        )
        return np.asarray((ahead - behind) / (2 * self.eps))

    def first_wrong(self, found: Array, expected: Array) -> tuple[int, ...] | None:
        """The first index, in row-major order, where the values disagree."""
        finite = np.abs(expected[np.isfinite(expected)])
        allowed = self.tol * max(1.0, float(finite.max(initial=0.0)))
        agree = np.isclose(found, expected, rtol=0.0, atol=allowed, equal_nan=True)
        if agree.all():
            return None
        return tuple([int(i) for i in np.argwhere(~agree)[0]])

    def disagreement(
        self,
        d: _Derivative,
        mode: str,
        name: str,
        where: tuple[int, ...],
        found: Array,
        expected: Array,
    ) -> GradError:
        """The report: what was found where, and what was expected."""
        index = ", ".join(map(str, where))
        return GradError(
            f"{mode} disagrees for {d.y.name} by {d.x.name}: {name}[{index}] is "
            f"{found[where]:.9g}, expected {expected[where]:.9g} (tolerance {self.tol:g}).",
            where=format_tensor(d.y).replace("\n", "\n    "),
            hint="at a kink or a pole this is no error: try another seed or other arrays.",
        )


class _Derivative:
    """y, one input, the head, and the gradient's values there."""

    def __init__(
        self, y: Tensor, x: Tensor, head: Tensor, gradient: Array, bindings: Bindings
    ) -> None:
        self.y = y
        self.x = x
        self.head = head
        self.gradient = gradient
        self.bindings = bindings


def _placeholder(name: str, like: Tensor) -> Tensor:
    return outputs(Placeholder(name, like.shape, like.dtype))[0]
