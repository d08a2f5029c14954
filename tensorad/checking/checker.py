"""The comparisons of one gradient check: forward, reverse, batches, and modes of second order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensorad.autodiff.forward import jvp
from tensorad.autodiff.reverse import vjp
from tensorad.checking.engine import Engine
from tensorad.checking.frozen import hold_stopped
from tensorad.checking.inputs import Bindings
from tensorad.checking.report import Array, Row, place_text
from tensorad.checking.slopes import Slopes, exactly, slopes
from tensorad.checking.tally import Tally, distance, scale_of
from tensorad.ir.functions import Mode
from tensorad.ir.reference.interpret import shape_of
from tensorad.ir.tensor import Placeholder, Shape, Tensor, outputs

MODES: Final[tuple[Mode, ...]] = ("forward", "reverse")
_SMALL: Final = 12
"""Inputs of at most so many elements are checked element by element."""


@dataclass(frozen=True)
class Settings:
    """What a check compares, and how closely.

    Attributes:
        modes: those that are compared with differences.
        fast: along random directions only.
    """

    eps: float
    tol: float
    directions: int
    batch: int
    engine: Engine
    override: Any = None
    modes: frozenset[str] = frozenset(MODES)
    fast: bool = False

    @property
    def modes_checked(self) -> list[Mode]:
        """The modes in a fixed order."""
        return [m for m in MODES if m in self.modes]


@dataclass(eq=False)
class Point:
    """A tensor at given inputs: its value, a head, and the gradients with their values."""

    y: Tensor
    bindings: Bindings
    head: Tensor
    value: Array
    gradients: list[Tensor]
    values: list[Array]


class Checker:
    """Comparisons of the derivatives of some tensors by `wrt`; `rows` collects them."""

    def __init__(self, wrt: Sequence[Tensor], settings: Settings, rng: np.random.Generator) -> None:
        self.wrt = list(wrt)
        self.settings = settings
        self.rng = rng
        self.rows: list[Row] = []

    def run(self, ys: Sequence[Tensor], order: int, bindings: Bindings) -> None:
        """Check the outputs and, for order > 1, their derivatives again.

        Raises:
            Disagreement: two ways to differentiate disagree.
        """
        pending = [(y, order, bindings) for y in ys]
        while pending:
            y, remaining, bound = pending.pop(0)
            point = self.point(y, bound)
            for n, x in enumerate(self.wrt):
                self.one_input(point, n, x)
            if self.settings.batch:
                self.batched(point)
            if remaining > 1:
                if len(self.settings.modes) > 1:
                    self.mixed(point)
                pending += [(g, remaining - 1, point.bindings) for g in point.gradients]
        if len(ys) > 1 and "reverse" in self.settings.modes:
            self.together(ys, bindings)

    def point(self, y: Tensor, bindings: Bindings) -> Point:
        """The gradients of y for a random head, and their values."""
        head = placeholder(f"d{y.name}", y.shape, y)
        bound = bindings | {head: self.normal(self.shape(y, bindings))}
        gradients = self.vjp(y, self.wrt, head)
        value, *values = self.values([y, *gradients], bound)
        return Point(y, bound, head, value, gradients, values)

    def one_input(self, p: Point, n: int, x: Tensor) -> None:
        """Both modes against numeric slopes, by one input."""
        along = _Along(self, p, x)
        tallies = {m: self.tally(p.y, x, m) for m in MODES if m in self.settings.modes}
        for _ in range(self.settings.directions):
            direction = self.normal(p.values[n].shape)
            found, numeric = along.both(direction)
            if "forward" in tallies:
                tallies["forward"].add(f"d{p.y.name}", found, numeric)
                self.rows_of(tallies["forward"], last=False)
            if "reverse" in tallies:
                self.adjoint(p, n, direction, found, numeric, along, tallies["reverse"])
        for tally in tallies.values():
            self.rows_of(tally)

    def adjoint(
        self,
        p: Point,
        n: int,
        direction: Array,
        found: Array,
        numeric: Slopes,
        along: _Along,
        tally: Tally,
    ) -> None:
        """A gradient's product with a direction against the slope; its elements where they are few
        or the product is wrong."""
        adjoint, expected, scale = _products(p, n, direction, found, numeric)
        if direction.size <= _SMALL and not self.settings.fast:
            for where in np.ndindex(*direction.shape):
                self.element(p, n, where, along, tally)
        elif distance(adjoint, expected) > self.settings.tol * scale:
            self.element(p, n, self.first_wrong(p, n, direction, along), along, tally)
        tally.add_one(f"<d{along.x.name}, direction>", adjoint, expected, scale)
        self.rows_of(tally, last=False)

    def element(
        self, p: Point, n: int, where: tuple[int, ...], along: _Along, tally: Tally
    ) -> None:
        """Compare one element of a gradient with the slope along its unit vector."""
        unit = np.zeros_like(p.values[n])
        unit[where] = 1.0
        found, expected, scale = _products(p, n, unit, *along.both(unit))
        name = place_text(f"gradient of {along.x.name}", where)
        tally.add_one(name, found, expected, max(scale, scale_of(p.values[n])))

    def first_wrong(self, p: Point, n: int, direction: Array, along: _Along) -> tuple[int, ...]:
        """The first element, in row-major order, with whose share the products disagree."""
        low, high = 0, direction.size  # together, the first `low` agree; the first `high` do not
        while high - low > 1:
            middle = (low + high) // 2
            share = np.where(np.arange(direction.size) < middle, direction.reshape(-1), 0.0)
            share = share.reshape(direction.shape)
            found, expected, scale = _products(p, n, share, *along.both(share))
            agrees = distance(found, expected) <= self.settings.tol * scale
            low, high = (middle, high) if agrees else (low, middle)
        return tuple([int(i) for i in np.unravel_index(low, direction.shape)])

    def batched(self, p: Point) -> None:
        """Heads and tangents with an extra leading axis give what single ones give."""
        count = self.settings.batch
        if "reverse" in self.settings.modes:
            many = placeholder(f"d{p.y.name}", (count, *p.y.shape), p.y)
            heads = self.normal((count, *p.value.shape))
            made = self.values(self.vjp(p.y, self.wrt, many), p.bindings | {many: heads})
            singles = [self.values(p.gradients, p.bindings | {p.head: h}) for h in heads]
            for n, x in enumerate(self.wrt):
                one_by_one = np.stack([s[n] for s in singles])
                self.same(p.y, x, "reverse, batched", f"d{x.name}", made[n], one_by_one)
        if "forward" in self.settings.modes:
            for x, gradient in zip(self.wrt, p.values, strict=True):
                along = _Along(self, p, x)
                several = placeholder(f"d{x.name}", (count, *x.shape), x)
                directions = self.normal((count, *gradient.shape))
                bound = p.bindings | {several: directions}
                (batch,) = self.values([self.jvp(p.y, {x: several})], bound)
                one_by_one = np.stack([along.forward(d) for d in directions])
                self.same(p.y, x, "forward, batched", f"d{p.y.name}", batch, one_by_one)

    def mixed(self, p: Point) -> None:
        """Reverse over forward = forward over reverse: second derivatives are symmetric."""
        for x, gradient in zip(self.wrt, p.values, strict=True):
            tangent = placeholder(f"d{x.name}", x.shape, x)
            bound = p.bindings | {tangent: self.normal(gradient.shape)}
            over_forward = self.vjp(self.jvp(p.y, {x: tangent}), self.wrt, p.head)
            over_reverse = [self.jvp(g, {x: tangent}) for g in p.gradients]
            first = self.values(over_forward, bound)
            second = self.values(over_reverse, bound)
            for u, a, b in zip(self.wrt, first, second, strict=True):
                self.same(p.y, u, "reverse over forward", f"dd{u.name}", a, b)

    def together(self, ys: Sequence[Tensor], bindings: Bindings) -> None:
        """The gradients of several outputs at once are the sums of the single ones."""
        heads = [placeholder(f"d{y.name}", y.shape, y) for y in ys]
        bound = bindings | {h: self.normal(self.shape(h, bindings)) for h in heads}
        joint = self.values(self.vjp(list(ys), self.wrt, heads), bound)
        pairs = zip(ys, heads, strict=True)
        singles = [self.values(self.vjp(y, self.wrt, h), bound) for y, h in pairs]
        for n, x in enumerate(self.wrt):
            expected = np.asarray(sum([s[n] for s in singles]))
            self.same(ys[0], x, "reverse, all outputs", f"d{x.name}", joint[n], expected)

    # Comparing, and what the modes are asked

    def tally(self, y: Tensor, x: Tensor, mode: str) -> Tally:
        """A comparison to be filled."""
        return Tally(f"{y.name} by {x.name}", mode, self.settings.tol)

    def same(
        self, y: Tensor, x: Tensor, mode: str, name: str, found: Array, expected: Array
    ) -> None:
        """Two analytic values of one derivative."""
        tally = self.tally(y, x, mode)
        tally.add(name, np.asarray(found), exactly(np.asarray(expected)))
        self.rows_of(tally)

    def rows_of(self, tally: Tally, last: bool = True) -> None:
        """Raise if the comparison failed; keep its row if it is complete."""
        row = tally.settled()
        if last:
            self.rows.append(row)

    def vjp(self, y: Any, wrt: Sequence[Tensor], head: Any) -> list[Tensor]:
        """Reverse mode with the rules under test."""
        return vjp(y, wrt, head, override=self.settings.override)

    def jvp(self, y: Tensor, tangents: Mapping[Tensor, Tensor]) -> Tensor:
        """Forward mode with the rules under test."""
        return jvp(y, tangents, override=self.settings.override)

    def values(self, tensors: Sequence[Tensor], bindings: Bindings) -> list[Array]:
        """Values in float64."""
        return self.settings.engine.values(tensors, bindings)

    def shape(self, t: Tensor, bindings: Bindings) -> tuple[int, ...]:
        """The shape for the bound arrays."""
        shapes = {b: np.shape(a) for b, a in bindings.items()}
        return shape_of(t, shapes, self.settings.engine.sizes)

    def normal(self, shape: Sequence[int]) -> Array:
        """Random numbers of either sign."""
        return np.asarray(self.rng.standard_normal(tuple(shape)))


class _Along:
    """The derivative of a point's tensor along directions of one input, analytic and numeric."""

    def __init__(self, checker: Checker, p: Point, x: Tensor) -> None:
        self.checker = checker
        self.p = p
        self.x = x
        self.tangent = placeholder(f"d{x.name}", x.shape, x)
        self.derivative = checker.jvp(p.y, {x: self.tangent})
        (self.base,) = checker.values([x], p.bindings)
        self.moving, still = hold_stopped(p.y, x, checker.settings.modes_checked[0])
        self.bindings = p.bindings if still is None else p.bindings | {still: self.base}

    def forward(self, direction: Array) -> Array:
        """By forward mode."""
        bound = self.p.bindings | {self.tangent: direction}
        return self.checker.values([self.derivative], bound)[0]

    def both(self, direction: Array) -> tuple[Array, Slopes]:
        """By forward mode and by differences."""

        def value(step: float) -> Array:
            moved = self.bindings | {self.x: self.base + step * direction}
            return self.checker.values([self.moving], moved)[0]

        return self.forward(direction), slopes(value, self.p.value, self.checker.settings.eps)


def _products(
    p: Point, n: int, direction: Array, found: Array, numeric: Slopes
) -> tuple[float, float, float]:
    """<gradient, direction>, <head, slope along it>, and the scale of their terms."""
    weighted = p.bindings[p.head] * numeric.settle(found)
    adjoint = p.values[n] * direction
    return float(adjoint.sum()), float(weighted.sum()), scale_of(weighted, adjoint)


def placeholder(name: str, shape: Shape, like: Tensor) -> Tensor:
    """A new input of a shape."""
    return outputs(Placeholder(name, shape, like.dtype))[0]
