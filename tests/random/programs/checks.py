"""What must hold for a typed program: ways to run it agree, and its derivatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tensorad as ta
from tensorad.autodiff.binding import bound_adjoints
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.config import override
from tensorad.ir.tensor import Tensor, outputs
from tensorad.ir.visit import topological_ops
from tests.random.generators import SOAK
from tests.random.programs.generator import Array, TypedProgram

TOLERANCE = {"float32": 2e-3, "float64": 1e-8}
EXACT = {"float32": 1e-7, "float64": 1e-9}
"""Of values in float64: numbers in formulas are rounded to the dtype, and so are their products."""
THREADS = [(1, 2, 8)] if SOAK else [(1, 2), (1, 8)]
"""Numbers of threads that a program is built for: programs take turns."""
Arrays = dict[Tensor, Array]


def check_near(found: Any, wanted: Any, tolerance: float, what: str) -> None:
    """Equal shapes and, up to rounding, values."""
    a, b = np.asarray(found, float), np.asarray(wanted, float)
    assert a.shape == b.shape, f"{what}: {a.shape}, {b.shape}"
    allowed = tolerance * (1 + np.abs(b).max(initial=0.0))
    bad = ~(np.abs(a - b) <= allowed)
    assert not bad.any(), f"{what}: {a[bad][:4]}, not {b[bad][:4]}"


def check_runs(
    results: Sequence[Tensor],
    arrays: Arrays,
    sizes: Mapping[str, int],
    tolerance: float,
    seed: int,
) -> list[Array]:
    """The interpreter = loops as written = native code, of equal bits on any number of threads."""
    wanted = ta.interpret(list(results), arrays, sizes)
    loops = lower_program(list(results), list(arrays), schedule=False)
    verify_loops(loops)
    for t, a, b in zip(
        results, interpret_loops(loops, arrays, dict(sizes))[0], wanted, strict=True
    ):
        check_near(a, b, 1e-9, f"loops of {t.name}")
    bits: list[list[bytes]] = []
    for threads in THREADS[seed % len(THREADS)]:
        with override(num_threads=threads):
            made = ta.build(list(results), list(arrays))(*arrays.values())
        found = made if isinstance(made, list) else [made]
        bits.append([a.tobytes() for a in found])
        for t, a, b in zip(results, found, wanted, strict=True):
            assert str(a.dtype) == str(t.dtype), t.name
            check_near(a, b, tolerance, f"native {t.name}, {threads} threads")
    assert all(b == bits[0] for b in bits), "bits depend on threads"
    return wanted


class Derivatives:
    """Of the floats among the results by the float inputs, along random heads and directions."""

    def __init__(self, program: TypedProgram, sizes: Mapping[str, int]) -> None:
        self.program, self.sizes = program, sizes
        results, self.inputs = program.traced()
        self.given = program.arrays(sizes)
        pairs = zip(program.results, results, strict=True)
        self.ys = list(dict.fromkeys([t for v, t in pairs if v.is_float]))
        self.wrt = [t for v, t in zip(program.inputs, self.inputs, strict=True) if v.is_float]
        self.results = results
        rng = np.random.default_rng([program.seed, 3])
        values = ta.interpret(self.ys, self.arrays(self.given), sizes)
        self.heads = {t: self._like(t, f"h{n}") for n, t in enumerate(self.ys)}
        self.directions = {x: self._like(x, f"d{x.name}") for x in self.wrt}
        self.bound: Arrays = self.arrays(self.given)
        for y, a in zip(self.ys, values, strict=True):
            self.bound[self.heads[y]] = _random(rng, a.shape, y)
        for x in self.wrt:
            self.bound[self.directions[x]] = _random(rng, self.bound[x].shape, x)

    def _like(self, t: Tensor, name: str) -> Tensor:
        return ta.placeholder(t.shape, t.dtype, name=name)

    def arrays(self, given: Sequence[Array]) -> Arrays:
        return dict(zip(self.inputs, given, strict=True))

    def reverse(self) -> list[Tensor]:
        return ta.vjp(self.ys, self.wrt, [self.heads[y] for y in self.ys])

    def forward(self) -> list[Tensor]:
        return ta.jvp(self.ys, dict(self.directions))

    def quantity(self, step: float) -> float:
        """The results along the heads, the inputs a step along the directions."""
        given = []
        for x, a in zip(self.inputs, self.given, strict=True):
            moved = self.directions.get(x)
            a = np.asarray(a, float) if moved is not None else a
            given.append(a if moved is None else a + step * self.bound[moved])
        found = self.program.plain(given, self.sizes)
        by = dict(zip(self.results, found, strict=True))
        return float(sum(np.sum(by[y] * self.bound[self.heads[y]]) for y in self.ys))


def _random(rng: Any, shape: tuple[int, ...], t: Tensor) -> Array:
    return np.asarray(np.asarray(rng.standard_normal(shape)).astype(str(t.dtype)))


def inner(a: Sequence[Array], b: Sequence[Array]) -> tuple[float, float]:
    """(inner product, the magnitudes of its terms)."""
    terms = [np.asarray(p, float) * q for p, q in zip(a, b, strict=True)]
    return float(sum(np.sum(t) for t in terms)), float(sum(np.abs(t).sum() for t in terms))


def check_slope(of: Derivatives, exact: float, scale: float) -> str:
    """Differences agree, unless they say that there is a kink."""
    middle = of.quantity(0.0)
    for step, tolerance in ((1e-4, 1e-6), (1e-5, 1e-5), (1e-6, 1e-4)):
        wide, narrow = [(of.quantity(s) - of.quantity(-s)) / (2 * s) for s in (step, step / 2)]
        numeric = (4 * narrow - wide) / 3
        if abs(exact - numeric) <= tolerance * (1 + scale + abs(middle)):
            return "smooth"
    step = 1e-6
    ahead, behind = of.quantity(step) - middle, of.quantity(-step) - middle
    if abs(ahead + behind) > 1e-3 * step * (1 + scale):
        return "kink"
    raise AssertionError(f"derivative {exact}, difference {numeric}, scale {scale}")


def check_curvature(of: Derivatives, exact: float, scale: float) -> str:
    """The second derivative along the directions, by differences of fourth order."""

    def second(h: float) -> float:
        q = [of.quantity(n * h) for n in (-2, -1, 0, 1, 2)]
        return (-q[0] + 16 * q[1] - 30 * q[2] + 16 * q[3] - q[4]) / (12 * h * h)

    for h, tolerance in ((3e-3, 1e-5), (1e-3, 1e-4), (3e-4, 1e-3), (1e-4, 1e-2)):
        found = second(h)
        if abs(found - exact) <= tolerance * (1 + scale + abs(exact)):
            return "smooth"
    step = 1e-4
    ahead = (of.quantity(2 * step) - of.quantity(0)) / (2 * step)
    behind = (of.quantity(0) - of.quantity(-2 * step)) / (2 * step)
    if abs(ahead - behind) > 1e-2 * (1 + scale):
        return "kink"
    raise AssertionError(f"second derivative {exact}, difference {found}, scale {scale}")


def check_program(program: TypedProgram, sizes: Mapping[str, int], order: int = 1) -> str:
    """Everything; what the point was like."""
    results, inputs = program.traced()
    given, seed = program.arrays(sizes), program.seed
    dtypes = [v.dtype for v in program.inputs if v.is_float]
    tolerance = min([TOLERANCE[d] for d in dtypes], default=1e-8)
    exact = max([EXACT[d] for d in dtypes], default=1e-9)
    wanted = check_runs(results, dict(zip(inputs, given, strict=True)), sizes, tolerance, seed)
    for v, a, b in zip(program.results, wanted, program.plain(given, sizes), strict=True):
        check_near(a, b, 1e-9, f"interpreted {v}")
    if not any(v.is_float for v in program.results):
        return "integers"
    of = Derivatives(program, sizes)
    reverse, forward = of.reverse(), of.forward()
    check_bindings(of, reverse, sizes, exact)
    own = dict(of.bound.items())
    found = check_runs([*reverse, *forward], own, sizes, 10 * tolerance, seed)
    tangents, adjoints = found[len(reverse) :], found[: len(reverse)]
    backward, scale = inner(adjoints, [own[of.directions[x]] for x in of.wrt])
    ahead, other = inner(tangents, [own[of.heads[y]] for y in of.ys])
    assert abs(backward - ahead) <= exact * (1 + scale + other), (
        f"reverse {backward}, forward {ahead}"
    )
    kind = check_slope(of, ahead, scale + other)
    if order < 2 or kind == "kink":
        return kind
    for second in (ta.jvp(reverse, dict(of.directions)), second_reverse(of, forward)):
        values = check_runs(second, own, sizes, 100 * tolerance, seed)
        check_curvature(of, *inner(values, [own[of.directions[x]] for x in of.wrt]))
    return kind


def check_bindings(
    of: Derivatives, reverse: Sequence[Tensor], sizes: Mapping[str, int], exact: float
) -> None:
    """A tensor for the adjoint of each value gives what `vjp` gives."""
    made = [t for op in topological_ops(of.ys) for t in outputs(op)]
    values = [t for t in made if t.dtype.is_float and not t.is_constant]
    found = bound_adjoints({y: of.heads[y] for y in of.ys}, of.wrt, values, {})
    wanted = ta.interpret(list(reverse), of.bound, sizes)
    for x, a in zip(of.wrt, wanted, strict=True):
        if x in found:
            check_near(ta.interpret(found[x], of.bound, sizes), a, exact, f"bindings of {x.name}")
        else:
            assert not np.any(a), f"no binding of {x.name}"


def second_reverse(of: Derivatives, forward: Sequence[Tensor]) -> list[Tensor]:
    """Reverse over forward mode."""
    return ta.vjp(list(forward), of.wrt, [of.heads[y] for y in of.ys])
