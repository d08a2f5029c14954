"""What must hold for every program: all ways to run it agree, and so do its derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import tensorad as ta
from tensorad.ir.reference.forms import TENSORS
from tensorad.ir.reference.verify import verify
from tensorad.language import partial_eval
from tensorad.language.partial import without_dead_code
from tensorad.passes import run_passes
from tensorad.process import deep_calls
from tensorad.program.traces import Program as Trace
from tensorad.simplify.control.passes import CONTROL_PASSES, simplified
from tests.random.whole.generator import order_of, whole_program
from tests.random.whole.nested_duals import primal
from tests.random.whole.plain import Counts, Plain
from tests.random.whole.texts import Program

STEPS = (1e-5, 1e-6)
Function = Callable[..., Any]


class Mismatch(AssertionError):
    """Two ways disagree; its first word tells which, for shrinking."""


class Point(NamedTuple):
    """Arguments of a program, and directions to move x and v along."""

    x: Any
    v: Any
    n: Any
    dx: Any
    dv: Any


def points(seed: int) -> list[Point]:
    """Two points: where n is 0, and where it is 1 to 3."""
    rng = np.random.default_rng(seed)
    return [
        Point(np.float64(rng.uniform(-1, 1)), rng.uniform(-1, 1, 3), np.int64(n),
              np.float64(rng.uniform(-1, 1)), rng.uniform(-1, 1, 3))
        for n in (0, rng.integers(1, 4))
    ]  # fmt: skip


def run_text(program: Program, names: Any) -> Function:
    """The function that the text defines, over `ta` or what stands for it."""
    space = {"ta": names, "np": np}
    exec(compile(program.code, f"<seed {program.seed}>", "exec"), space)
    return space["program"]


def near(what: str, found: Any, wanted: Any, tolerance: float = 1e-9) -> None:
    for name in wanted:
        a, b = np.asarray(found[name]), np.asarray(wanted[name])
        if a.shape != b.shape:
            raise Mismatch(f"{what}: {name} has the shape {a.shape}, not {b.shape}")
        allowed = tolerance * (1 + np.abs(b).max(initial=0.0))
        if not (np.abs(a - b) <= allowed).all():
            raise Mismatch(f"{what}: {name} is {a}, not {b}")


class Wanted(NamedTuple):
    """What plain Python says of a program at a point."""

    value: dict[str, Any]
    gradient: dict[str, Any]
    second: dict[str, Any]
    counts: Counts


def wanted(program: Program, at: Point) -> Wanted:
    """Values, gradient, and the gradient's derivative along the direction, by nested duals."""
    plain = Plain()
    found = run_text(program, plain)(at.x, at.v, at.n)
    value = {name: primal(a) for name, a in found.items()}  # of a derivative that is over
    if plain.counts.writes != value["writes"]:
        raise Mismatch(f"counts: {plain.counts} and {value['writes']} writes")

    return Wanted(value, *_slopes(program, at), plain.counts)


def _slopes(program: Program, at: Point) -> tuple[dict[str, Any], dict[str, Any]]:
    """(gradient, its derivative along the direction)"""
    first, second = [], []
    for row in np.eye(4):
        plain = Plain()
        f = run_text(program, plain)

        def along(x: Any, v: Any, row: Any = row, f: Any = f, plain: Any = plain) -> Any:
            return plain.jvp(lambda a, b: f(a, b, at.n)["y"], (x, v), (row[0], row[1:]))[1]

        slope, change = plain.jvp(along, (at.x, at.v), (at.dx, at.dv))
        first.append(primal(slope))
        second.append(primal(change))
    return _parts(np.array(first)), _parts(np.array(second))


def _parts(row: Any) -> dict[str, Any]:
    return {"x": row[0], "v": row[1:]}


def inner(a: Any, b: Any) -> float:
    return float(np.sum(a["x"] * b.dx) + np.sum(a["v"] * b.dv))


def check_differences(program: Program, at: Point, slope: float, scale: float) -> str:
    """Central differences, unless other ways are taken nearby."""

    def run(h: float) -> tuple[float, list[Any]]:
        plain = Plain()
        y = run_text(program, plain)(at.x + h * at.dx, at.v + h * at.dv, at.n)["y"]
        return float(primal(y)), plain.decisions

    decided = run(0.0)[1]
    found = []
    for h in STEPS:
        (up, one), (down, two) = run(h), run(-h)
        if one != decided or two != decided:
            continue
        found.append((up - down) / (2 * h))
        if abs(found[-1] - slope) <= 1e-5 * (1 + scale):
            return "smooth"
    if found:
        raise Mismatch(f"differences: {found}, not {slope}")
    return "kink"


def derivatives(f: Function, order: int) -> Function:
    """The value, both modes, and second derivatives in three nestings, as one function."""

    def of(x: Any, v: Any, n: Any, dx: Any, dv: Any) -> Any:
        def y(x: Any, v: Any) -> Any:
            return f(x, v, n)["y"]

        def grad(x: Any, v: Any) -> Any:
            return ta.grad(y, (0, 1))(x, v)

        def slope(x: Any, v: Any) -> Any:
            gx, gv = grad(x, v)
            return gx * dx + (gv * dv).sum()

        def forward(x: Any, v: Any) -> Any:
            return ta.jvp(y, (x, v), (dx, dv))[1]

        def counted(x: Any, v: Any) -> Any:
            found = f(x, v, n)
            return found["y"], found["writes"]

        (value, writes), gradient = ta.value_and_grad(counted, (0, 1), has_aux=True)(x, v)
        found = {"y": value, "writes": writes, "gradient": gradient, "forward": forward(x, v)}
        if order > 1:
            found["reverse over reverse"] = ta.grad(slope, (0, 1))(x, v)
            found["forward over reverse"] = ta.jvp(grad, (x, v), (dx, dv))[1]
            found["reverse over forward"] = ta.grad(forward, (0, 1))(x, v)
        return found

    return of


def interpreted(trace: Trace, results: Sequence[Any], given: Sequence[Any]) -> Any:
    arrays = dict(zip(trace.parameters, given, strict=True))
    return trace.tree(ta.interpret(list(results), arrays))


def stages(trace: Trace, every_pass: bool) -> dict[str, Sequence[Any]]:
    """What passes make of a trace, by name."""
    results: Sequence[Any] = trace.results
    found = {"as-written": results}
    if every_pass:
        verify(results)
    if not every_pass:
        found["simplified"] = simplified(results, trace.parameters)
        return found
    for p in CONTROL_PASSES:
        with deep_calls.changed():
            after = run_passes([p], trace.parameters, results, TENSORS)
        if after is not results:
            found[p.name] = results = after
            verify(results)
    return found


class Extent(NamedTuple):
    """How much is checked.

    Attributes:
        order: 2 for second derivatives.
        every_pass: whether what each pass makes is verified and run, or what all of them make.
        compiled: whether derivatives are compiled; values always are.
    """

    order: int = 2
    every_pass: bool = True
    compiled: bool = True


def extent_of(seed: int) -> Extent:
    """Every fourth to the second order, every fourth after each pass, half of them compiled."""
    return Extent(order_of(seed), seed % 4 == 1, seed // 4 % 2 == 0)


def check_seed(seed: int) -> str:
    """What `extent_of` says of a seed's program, its text being shown with a failure."""
    program = whole_program(seed)
    try:
        return check_program(program, extent_of(seed))
    except Exception as e:
        e.add_note(str(program))
        raise


def check_program(program: Program, extent: Extent) -> str:
    """What the points were like: "smooth", or "kink" if differences told nothing."""
    f = run_text(program, ta)
    whole, slopes = ta.function(f), ta.function(derivatives(f, extent.order))
    kinds = []
    for at in points(program.seed):
        want = wanted(program, at)
        check_values(whole, at, want.value, extent.every_pass)
        kinds.append(check_slopes(program, slopes, at, want, extent))
    return "smooth" if "smooth" in kinds else "kink"


def check_values(whole: Any, at: Point, value: dict[str, Any], every_pass: bool) -> None:
    """Python = interpreter before and after passes = evaluated = without dead code = compiled."""
    given = at[:3]
    trace = whole.trace(*given)
    made = stages(trace, every_pass)
    for name in made:
        near(f"interpreted-{name}", interpreted(trace, made[name], given), value)
    short = without_dead_code(trace)
    near("without-dead-code", interpreted(short, short.results, given), value)
    evaluated = partial_eval(whole, {"n": int(at.n)}).trace(*given[:2])
    near("evaluated", interpreted(evaluated, evaluated.results, given[:2]), value)
    near("compiled", whole(*given), value)


def check_slopes(program: Program, slopes: Any, at: Point, want: Wanted, extent: Extent) -> str:
    """Reverse = forward = plain Python's = differences; second orders agree."""
    trace = slopes.trace(*at)
    made = stages(trace, extent.every_pass)
    runs = {f"gradient-{name}": interpreted(trace, made[name], at) for name in made}
    if extent.compiled:
        runs["gradient-compiled"] = slopes(*at)
    wanted_slope = inner(want.gradient, at)
    parts = np.append(want.gradient["v"], want.gradient["x"])
    scale = abs(wanted_slope) + float(np.abs(parts).sum())
    for name, found in runs.items():
        check_order(name, found, want, extent.order)
        forward = abs(float(found["forward"]) - wanted_slope)
        if not forward <= 1e-9 * (1 + scale):
            raise Mismatch(f"{name}-forward: {found['forward']}, not {wanted_slope}")
    return check_differences(program, at, wanted_slope, scale)


def check_order(name: str, found: Any, want: Wanted, order: int) -> None:
    near(name, found, {k: want.value[k] for k in ("y", "writes")})
    x, v = found["gradient"]
    near(f"{name}-reverse", {"x": x, "v": v}, want.gradient)
    if order > 1:
        for way in ("reverse over reverse", "forward over reverse", "reverse over forward"):
            x, v = found[way]
            near(f"{name}-{way.replace(' ', '-')}", {"x": x, "v": v}, want.second, 1e-8)
