"""The operations of random programs: computes, scans and scatters."""

from __future__ import annotations

from tensorad import te
from tensorad.ir.expr import Axis, Expr, call, const
from tensorad.ir.tensor import Dim, Tensor
from tests.random.generator_combiners import (
    COMPLEX_PRODUCT,
    CUSTOM,
    DAMPED_SINE,
    HORNER,
    LOGSUMEXP,
    ONLINE_LOGSUMEXP,
    RECURRENCE,
    Fold,
    damp,
)
from tests.random.generator_indices import Index, axis_index
from tests.random.generator_writer import Writer

SCANNED: tuple[str | Fold, ...] = (
    "sum",
    "sum",
    "prod",
    "max",
    "min",
    DAMPED_SINE,
    HORNER,
    LOGSUMEXP,
    COMPLEX_PRODUCT,
    RECURRENCE,
    ONLINE_LOGSUMEXP,
)
LIMIT = 3.0
"""Elements of a scan's result are brought into [-LIMIT, LIMIT] where they may be infinite."""


def write_program(w: Writer, inputs: int, computes: int) -> None:
    """Inputs first, then operations."""
    for _ in range(inputs):
        w.add_input(w.shape(w.extents))
    if w.rng.random() < 0.3 and w.dtype.is_float:
        w.add_index_input()
    for _ in range(computes):
        write_operation(w)


def write_operation(w: Writer) -> None:
    """A compute, a scan or a scatter."""
    choice = w.rng.random()
    floats = w.dtype.is_float
    if floats and choice < 0.09 and write_scan(w):
        return
    if floats and choice < 0.16:
        write_scatter(w)
        return
    shape = w.shape((*w.extents, *w.derived))
    custom = w.rng.choice(CUSTOM) if floats and choice < 0.22 else None
    mags: list[float] = []
    w.reductions = 0

    def body(*axes: Axis) -> object:
        scope = [axis_index(a) for a in axes]
        if custom is not None:
            values = w.custom(custom, scope)
            mags.extend(m for _, m in values)
            parts = tuple([e for e, _ in values])
            return parts if len(parts) > 1 else parts[0]
        value, mag = damp(w.value(scope, w.rng.randint(1, 3)), 30.0)
        mags.append(mag)
        return value

    made = te.compute(shape, body, name=w.name("T"))
    tensors = made if isinstance(made, tuple) else (made,)
    for t, mag in zip(tensors, mags, strict=True):
        w.define(t, mag)


def write_scan(w: Writer) -> bool:
    """A prefix fold of an earlier tensor, if one has axes."""
    known = [t for t in [*w.inputs, *w.tensors] if t.ndim and t.dtype is w.dtype]
    if not known:
        return False
    t = w.rng.choice(known)
    w.used.add(t)
    fold = w.rng.choice(SCANNED)
    along = w.rng.randrange(t.ndim)
    flags = {"exclusive": w.rng.random() < 0.4, "reverse": w.rng.random() < 0.4}
    name = w.name("S")
    w.features.add("scan")
    if isinstance(fold, str):
        limit = 1.6 if fold == "prod" else 8.0
        source = _derived(w, t, lambda e: damp((e, w.mags[t]), limit)[0], w.mags[t] <= limit)
        made = te.scan(source, along, fold, name=name, **flags)
        _define_finite(w, made, fold in ("max", "min"))
        return True
    w.features.add(f"scan {fold.name}")
    state = [
        _derived(w, t, lambda e, n=n: fold.sources(damp((e, w.mags[t]), 1.5), e)[n], False)
        for n in range(len(fold.magnitudes(1.0, 1)))
    ]
    result = te.scan(state if len(state) > 1 else state[0], along, fold.reducer, name=name, **flags)
    for made in result if isinstance(result, tuple) else (result,):
        _define_finite(w, made, fold in (LOGSUMEXP, ONLINE_LOGSUMEXP))
    return True


def _derived(w: Writer, t: Tensor, f: object, same: bool) -> Tensor:
    """Elementwise f of t, or t itself."""
    if same:
        return t
    assert callable(f)
    return te.compute(t.shape, lambda *axes: f(t[axes]), name=w.name("D"))


def _define_finite(w: Writer, t: Tensor, infinite: bool) -> None:
    """Define t, limited where an empty prefix makes it infinite."""
    if not infinite:
        w.define(t, 80.0)
        return

    def limited(e: Expr) -> Expr:
        return call("maximum", call("minimum", e, const(LIMIT, e.dtype)), const(-LIMIT, e.dtype))

    made = te.compute(t.shape, lambda *axes: limited(t[axes]), name=w.name("L"))
    w.define(made, LIMIT)


def write_scatter(w: Writer) -> None:
    """Values at the points of a domain, combined at computed indices."""
    rng = w.rng
    shape: tuple[Dim, ...] = tuple([rng.choice((1, 2, 3, 5)) for _ in range(rng.randint(1, 2))])
    domain = [rng.choice((0, 1, 3, 4, (1, 4))) for _ in range(2)]
    combine = rng.choice(w.scatter_combines)
    w.features |= {"scatter", f"scatter {combine}"}
    w.reductions = 2  # a scatter's value holds no reduction
    mags: list[float] = []

    def point(u: Axis, v: Axis) -> tuple[tuple[Expr, ...], Expr]:
        scope = [axis_index(a) for a in (u, v)]
        value, mag = damp(w.value(scope, 1), 1.6 if combine == "prod" else 8.0)
        mags.append(mag)
        return tuple([_target(w, n, scope) for n in shape]), value

    init = _init(w, shape, combine)
    name = w.name("C")
    made = te.scatter(shape, domain, point, combine=combine, init=init, name=name)
    w.define(made, mags[0] * 16 if combine in ("sum", "prod") else max(8.0, mags[0]))


def _target(w: Writer, n: Dim, scope: list[Index]) -> Expr:
    """A computed position, from data now and then; several points may share it."""
    gathered = w.gathered(n, scope) if w.bounds else None
    return gathered if gathered is not None else w.indices.affine(scope).expr % n


def _init(w: Writer, shape: tuple[Dim, ...], combine: str) -> Tensor | float | None:
    """What a scatter starts from: a tensor, a number, or the identity where it is finite."""
    choice = w.rng.random()
    if choice < 0.4:
        scope_depth = 1

        def body(*axes: Axis) -> Expr:
            value = w.value([axis_index(a) for a in axes], scope_depth)
            return damp(value, 1.6)[0]

        made = te.compute(shape, body, name=w.name("I"))
        w.features.add("init")
        return made
    if choice < 0.6 or combine in ("max", "min"):
        return w.rng.choice((0.5, -1.0))
    return None
