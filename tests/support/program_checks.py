"""What must hold for the derivatives of any program, checked on one random program.

Five evaluations agree: the interpreter, machine code, reverse mode, forward mode and central
differences; second derivatives are symmetric, whichever modes make them. The loops of a
gradient do no more than the yardstick of `tensorad.bound` allows, and `work` counts them right.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tensorad import te
from tensorad.autodiff import jvp, vjp
from tensorad.bound import bound
from tensorad.building import build
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import If, LoopProgram
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.compiled import CompiledFunction
from tensorad.counting import work
from tensorad.ir.analysis.points import depends_on_data
from tensorad.ir.reference.interpret import interpret, shape_of
from tensorad.ir.tensor import Placeholder, Tensor
from tests.random.generators import Array, Program

STEP = 4e-5
Values = dict[Tensor, Array]
SIZES = ({"n": 4, "m": 3}, {"n": 1, "m": 2}, {"n": 0, "m": 3})
LARGE = {"n": 16, "m": 12}
"""Plans that depend on symbolic sizes are chosen for sizes like these."""
MODES = ("forward over reverse", "reverse over forward", "reverse over reverse")


def like(t: Tensor, name: str) -> Tensor:
    """A float64 placeholder of the shape of t."""
    return te.placeholder(t.shape, dtype="float64", name=name)


def total(pairs: Sequence[tuple[Array, Array]]) -> tuple[float, float]:
    """The inner product of tuples of arrays, and the sum of its terms' magnitudes."""
    products = [a * b for a, b in pairs]
    return (
        float(sum(p.sum() for p in products)),
        float(sum(np.abs(p).sum() for p in products)),
    )


@dataclass
class Derivatives:
    """One output with its derivatives by `wrt`: heads h, directions d, second derivatives."""

    program: Program
    y: Tensor
    wrt: list[Tensor]
    mode: str
    h: Tensor = field(init=False)
    d: dict[Tensor, Tensor] = field(init=False)
    gradients: list[Tensor] = field(init=False)
    tangent: Tensor = field(init=False)
    second: list[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.h = like(self.y, "H")
        self.d = {x: like(x, f"d{x.name}") for x in self.wrt}
        self.gradients = vjp(self.y, self.wrt, self.h)
        self.tangent = jvp(self.y, self.d)
        self.second = self._second()

    def _second(self) -> list[Tensor]:
        """The Hessian of <h, y> applied to d.

        Empty where one of `wrt` is computed from another: a gradient may read it in place of
        its formula, and its second derivatives have no one meaning.
        """
        if any(x not in self.program.inputs for x in self.wrt) and len(self.wrt) > 1:
            return []
        if self.mode == MODES[0]:
            return [jvp(g, self.d) for g in self.gradients]
        if self.mode == MODES[1]:
            return vjp(self.tangent, self.wrt, self.h)
        rows = [vjp(g, self.wrt, self.d[x]) for x, g in zip(self.wrt, self.gradients, strict=True)]
        return [_sum_of([row[n] for row in rows]) for n in range(len(self.wrt))]

    @property
    def outputs(self) -> list[Tensor]:
        return [self.y, *self.gradients, self.tangent, *self.second]

    def values(self, sizes: Mapping[str, int], *, ties: bool = False, seed: int = 0) -> Values:
        """Inputs, intermediates of `wrt`, a head and a direction."""
        given: Values = dict(self.program.arrays(dict(sizes), seed, ties=ties))
        for x in self.wrt:
            if x not in given:
                given[x] = interpret(x, {t: given[t] for t in self.program.inputs}, sizes)
        shapes = {t: a.shape for t, a in given.items()}
        rng = np.random.default_rng([self.program.seed, 7])
        given[self.h] = rng.standard_normal(shape_of(self.y, shapes, sizes))
        return given | self.directions(given, rng)

    def moved(self, given: Values, step: float, sizes: Mapping[str, int]) -> Values:
        """`wrt` a step along d; an intermediate also follows what it is computed from."""
        change = {x: step * given[self.d[x]] for x in self.wrt}
        inputs = {t: given[t] + change.get(t, 0) for t in self.program.inputs}
        moved = {t: a for t, a in inputs.items() if t in change}
        for x in self.program.tensors:
            if x in change:
                moved[x] = interpret(x, inputs | moved, sizes) + change[x]
        return moved

    def directions(self, given: Values, rng: np.random.Generator) -> Values:
        return {self.d[x]: np.asarray(rng.standard_normal(given[x].shape)) for x in self.wrt}


def _sum_of(tensors: Sequence[Tensor]) -> Tensor:
    first = tensors[0]
    for t in tensors[1:]:
        first = te.compute(t.shape, lambda *i, a=first, b=t: a[i] + b[i], name="S")
    return first


@dataclass
class Point:
    """All outputs of a compiled function at one point, in parts."""

    derivatives: Derivatives
    f: CompiledFunction
    sizes: Mapping[str, int]

    def __call__(self, given: Values) -> tuple[Array, list[Array], Array, list[Array]]:
        """y, its gradients, its tangent, and the Hessian times the direction."""
        y, *rest = self.f(*given.values())
        n = len(self.derivatives.wrt)
        return y, rest[:n], rest[n], rest[n + 1 :]


def check_point(f: Point, given: Values, *, smooth: bool) -> str:
    """Every equation at one point; "kink" where differences say there is no derivative."""
    of = f.derivatives
    y, gradients, tangent, second = f(given)
    expected = interpret(of.outputs, given, f.sizes)
    for t, a, b in zip(of.outputs, [y, *gradients, tangent, *second], expected, strict=True):
        _equal(a, b, 1e-9, f"{t.name}: compiled and interpreted")
    d = [given[of.d[x]] for x in of.wrt]
    forward, scale = total([(tangent, given[of.h])])
    reverse, other = total(list(zip(gradients, d, strict=True)))
    assert abs(forward - reverse) <= 1e-10 * (1 + scale + other), "reverse and forward mode"
    if second:
        _check_symmetry(f, given, second)
    if not smooth:
        return "ties"
    kinds = {_differences(f, given, lambda r: total([(r[0], given[of.h])]), forward, scale)}
    if second:
        along = total(list(zip(second, d, strict=True)))
        kinds.add(_differences(f, given, lambda r: total(list(zip(r[1], d, strict=True))), *along))
    return "kink" if "kink" in kinds else "smooth"


def _check_symmetry(f: Point, given: Values, second: Sequence[Array]) -> None:
    """u^T (H v) = v^T (H u) for another direction u."""
    of = f.derivatives
    d = [given[of.d[x]] for x in of.wrt]
    rng = np.random.default_rng([of.program.seed, 11])
    others = of.directions(given, rng)
    swapped = f(given | others)[3]
    u = [others[of.d[x]] for x in of.wrt]
    left, scale = total(list(zip(second, u, strict=True)))
    right, other = total(list(zip(swapped, d, strict=True)))
    assert abs(left - right) <= 1e-9 * (1 + scale + other), f"symmetry, {of.mode}"


def _differences(f: Point, given: Values, quantity: object, exact: float, scale: float) -> str:
    """Central differences along d of a quantity (value, magnitude) of f's results."""
    assert callable(quantity)
    of = f.derivatives

    def at(step: float) -> tuple[float, float]:
        value, size = quantity(f(given | of.moved(given, step, f.sizes)))
        return float(value), float(size)

    (middle, size) = at(0.0)
    scale = 1 + scale + size
    for step, tolerance in ((STEP, 1e-6), (1e-5, 1e-5), (2e-6, 1e-4), (4e-7, 1e-3)):
        wide, narrow = [(at(s)[0] - at(-s)[0]) / (2 * s) for s in (step, step / 2)]
        numeric = (4 * narrow - wide) / 3  # Richardson: the error is of fourth order
        if abs(exact - numeric) <= tolerance * scale:
            return "smooth"
    ahead, behind = (at(step)[0] - middle for step in (step, -step))
    if abs(ahead + behind) > 1e-3 * step * scale:  # one-sided derivatives differ
        return "kink"
    raise AssertionError(f"derivative {exact}, central difference {numeric}, scale {scale}")


def _equal(found: Array, expected: Array, tolerance: float, what: str) -> None:
    assert found.shape == expected.shape, f"{what}: {found.shape}, {expected.shape}"
    finite = np.abs(expected[np.isfinite(expected)])
    allowed = tolerance * (1 + float(finite.max(initial=0.0)))
    close = np.isclose(found, expected, rtol=tolerance, atol=allowed, equal_nan=True)
    assert close.all(), f"{what}: {found[~close][:3]}, {expected[~close][:3]}"


def check_counts(of: Derivatives, given: Values, sizes: Mapping[str, int]) -> None:
    """The loops of y and its gradients execute what `work` counts; data may decide for fewer,
    where some condition of the loops asks for it."""
    tensors = [of.y, *of.gradients]
    leaves = [t for t in given if isinstance(t.op, Placeholder)]
    program = lower_program(tensors, leaves, schedule=False)
    executed = interpret_loops(program, {t: given[t] for t in leaves}, dict(sizes))[1]
    counted = work(tensors, sizes).iterations
    assert executed <= counted, f"executed {executed}, counted {counted}"
    exact = executed == counted or asks_for_data(program)
    assert exact, f"executed {executed}, counted {counted}"


def asks_for_data(program: LoopProgram) -> bool:
    """Whether a condition of the loops does."""
    bodies = [s for k in program.kernels for s in statements(k.body)]
    return any(isinstance(s, If) and depends_on_data(s.cond) for s in bodies)


def check_work(of: Derivatives, sizes: Mapping[str, int]) -> None:
    """The gradients visit their nonzero contributions, and hide nothing in the bodies."""
    counted, most = work(of.gradients, sizes), bound(of.y, of.wrt, sizes)
    visited, multiplications = int(counted.iterations), int(counted.multiplications)
    assert visited <= most, f"{visited} iterations, bound {most}"
    forward = int(work(of.y, sizes).multiplications)
    assert multiplications <= 5 * (forward + most), (
        f"{multiplications} multiplications, forward {forward}, bound {most}"
    )


def check_derivatives(of: Derivatives, rng: random.Random) -> list[str]:
    """Everything, at one point or at several sizes; what the points were like."""
    symbolic = any(not isinstance(n, int) for t in of.program.inputs for n in t.shape)
    f, kinds = None, []
    for n, sizes in enumerate(SIZES if symbolic else ({},)):
        ties = rng.random() < 0.2
        given = of.values(sizes, ties=ties)
        f = f or build(of.outputs, list(given))
        kinds.append(check_point(Point(of, f, sizes), given, smooth=not ties and n == 0))
        check_counts(of, given, sizes)
    check_work(of, LARGE if symbolic else {})
    return kinds
