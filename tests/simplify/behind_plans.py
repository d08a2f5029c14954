"""Mistakes planted behind plans: between the sum of all contributions and the final formulas.

`python -m tests.simplify.behind_plans [NAME...]` plants each in programs of the table of work and
tells which were refused and which changed values unnoticed. TENSORAD_DEBUG has to
have the flags certify and readback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from benchmarks.suites.work_table import CASES, head_of
from benchmarks.work_cases.case import Problem
from tensorad.autodiff.adjoints import adjoint, gathers
from tensorad.autodiff.reverse import vjp
from tensorad.autodiff.sweep import Sweep
from tensorad.errors import InternalError, TensoradError
from tensorad.ir.expr import ONE, TRUE, Axis, Call, Expr, Reduce, Select, add, axis, call, neg
from tensorad.ir.expr import reduce_expr as reduced
from tensorad.ir.reference.interpret import interpret, shape_of
from tensorad.ir.tensor import Compute, Placeholder, Tensor, outputs
from tensorad.ir.visit import copy_bodies, postorder, substitute, topological_ops
from tensorad.process import forget
from tensorad.simplify.formula import choose
from tensorad.simplify.formula.joined import _Joining
from tensorad.simplify.zeros import eliminate, passes, reduction_stages

Change = Callable[[Expr], Expr | None]
"""A node -> what stands there by mistake; None where it stays."""


def _sum(e: Expr) -> Reduce | None:
    return e if isinstance(e, Reduce) and e.combiner.is_sum else None


def _axis(n: int, change: Callable[[Axis], Axis]) -> Change:
    def changed(e: Expr) -> Expr | None:
        r = _sum(e)
        if r is None or not r.axes:
            return None
        old = r.axes[n]
        new = change(old)
        if any(old in dict.fromkeys(postorder(a.lower, a.upper)) for a in r.axes):
            return None
        axes = tuple([new if a is old else a for a in r.axes])
        at: dict[Expr, Expr] = {old: new}
        source, where = substitute(r.sources[0], at), substitute(r.condition, at)
        return reduced(r.combiner, (source,), axes, where)

    return changed


def _call(op: str, change: Callable[[Call], Expr]) -> Change:
    return lambda e: change(e) if isinstance(e, Call) and e.op == op else None


def _no_condition(e: Expr) -> Expr | None:
    r = _sum(e)
    held = r is not None and r.condition is not TRUE
    return reduced(r.combiner, r.sources, r.axes) if r is not None and held else None


def _other_source(change: Callable[[Expr], Expr]) -> Change:
    def changed(e: Expr) -> Expr | None:
        r = _sum(e)
        if r is None:
            return None
        return reduced(r.combiner, (change(r.sources[0]),), r.axes, r.condition)

    return changed


CHANGES: Final[dict[str, Change]] = {
    "guard dropped": lambda e: e.then if isinstance(e, Select) else None,
    "guard turned": lambda e: e.orelse if isinstance(e, Select) else None,
    "condition dropped": _no_condition,
    "loop begins late": _axis(0, lambda a: axis(a.name, a.lower + 1, a.upper, a.step)),
    "loop ends early": _axis(-1, lambda a: axis(a.name, a.lower, a.upper - 1, a.step)),
    "step lost": _axis(-1, lambda a: axis(a.name, a.lower, a.upper, ONE)),
    "division rounds up": _call("floordiv", lambda e: call("floordiv", e.args[0] + 1, e.args[1])),
    "remainder of another": _call("mod", lambda e: call("mod", e.args[0] + 1, e.args[1])),
    "sign turned": _other_source(neg),
    "counted twice": _other_source(lambda s: add(s, s)),
    "term lost": _call("add", lambda e: e.args[0] if e.dtype.is_float else e.args[0] + 0),
    "offset lost": _call("sub", lambda e: e.args[0] if not e.dtype.is_float else e),
    "maximum for minimum": _call("minimum", lambda e: call("maximum", *e.args)),
    "strict for equal": _call("ge", lambda e: call("gt", *e.args)),
    "factor lost": _call("mul", lambda e: e.args[1] if e.dtype.is_float else e),
}


def changed(root: Expr, change: Change) -> Expr:
    """The formula with the first place changed that can be."""
    for e in postorder(root):
        new = change(e)
        if new is not None and new is not e:
            return substitute(root, {e: new})
    return root


@dataclass(frozen=True)
class Fault:
    """A mistake in a function: its result is changed."""

    name: str
    owner: Any
    attribute: str
    wrong: Callable[[Any], Any]


def _in_pass(name: str, change: str) -> Fault:
    def wrong(listed: Any) -> Any:
        def planted(p: Any) -> Any:
            run = lambda axes, body: changed(p.run(axes, body), CHANGES[change])  # noqa: E731
            return replace(p, run=run)

        return tuple([planted(p) if p.name == name else p for p in listed])

    return Fault(f"{name}: {change}", passes, "NONZERO_PASSES", wrong)


def _in_result(owner: Any, attribute: str, change: str) -> Fault:
    def wrong(original: Any) -> Any:
        def planted(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            return changed(found, CHANGES[change]) if isinstance(found, Expr) else found

        return planted

    return Fault(f"{attribute}: {change}", owner, attribute, wrong)


def _in_tensors(owner: Any, attribute: str, change: str) -> Fault:
    def wrong(original: Any) -> Any:
        def planted(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            if isinstance(found, Compute):
                return _changed_op(found, CHANGES[change])
            return [_changed_tensor(t, CHANGES[change]) for t in found]

        return planted

    return Fault(f"{attribute}: {change}", owner, attribute, wrong)


def _changed_op(op: Compute, change: Change) -> Compute:
    axes, bodies = copy_bodies(op.axes, [changed(b, change) for b in op.bodies])
    return replace(op, axes=axes, bodies=bodies)


def _changed_tensor(t: Tensor, change: Change) -> Tensor:
    if not isinstance(t.op, Compute):
        return t
    op = _changed_op(t.op, change)
    same = all(a.dtype is b.dtype for a, b in zip(op.bodies, t.op.bodies, strict=True))
    return outputs(op)[t.index] if same else t


_LOOPS = ("condition dropped", "loop begins late", "loop ends early", "step lost", "sign turned")
_INDICES = ("division rounds up", "remainder of another", "offset lost", "maximum for minimum")
_OTHERS = ("guard dropped", "counted twice", "term lost", "factor lost")

FAULTS: Final[tuple[Fault, ...]] = (
    *[_in_result(eliminate, "sum_over", c) for c in (*_LOOPS, *_INDICES, *_OTHERS)],
    *[_in_pass("solve_domains", c) for c in ("strict for equal", "guard turned")],
    *[_in_pass("split_sums", c) for c in ("sign turned", "term lost", "condition dropped")],
    *[
        _in_pass("lift_nonzeroness", c)
        for c in ("condition dropped", "factor lost", "guard turned")
    ],
    *[_in_pass("drop_implied_guards", c) for c in ("guard dropped", "guard turned")],
    *[_in_pass("simplify_indices", c) for c in (*_INDICES, "loop ends early")],
    *[_in_result(adjoint, "best_gather", c) for c in (*_OTHERS, "loop begins late", "sign turned")],
    *[_in_result(gathers, "without_repeats", c) for c in ("factor lost", "guard dropped")],
    *[_in_tensors(reduction_stages, "_make_stage", c) for c in (*_LOOPS[:3], *_OTHERS[1:])],
    *[_in_tensors(choose, "_without_detours", c) for c in (*_OTHERS, *_LOOPS[1:3], "sign turned")],
    *[_in_tensors(_Joining, "run", c) for c in ("term lost", "factor lost", "sign turned")],
    *[
        _in_tensors(Sweep, step, c)
        for step in ("tidied", "joined")
        for c in ("term lost", "factor lost", "sign turned")
    ],
)


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """The mistake in place, nothing remembered from before."""
    original = getattr(fault.owner, fault.attribute)
    forget()
    setattr(fault.owner, fault.attribute, fault.wrong(original))
    try:
        yield
    finally:
        setattr(fault.owner, fault.attribute, original)
        forget()


def outcome(fault: Fault, make: Callable[[], Problem]) -> str:
    """ "refused", "error", "same", or "wrong" where values changed unnoticed."""
    p = make()
    head = head_of(p)
    with planted(fault):
        try:
            found = vjp(p.y, p.wrt, head)
        except InternalError:
            return "refused"
        except TensoradError:
            return "error"
    right = vjp(p.y, p.wrt, head)
    if [str(t.op) for t in found] == [str(t.op) for t in right]:
        return "same"
    return "same" if _equal(p, found, right) else "wrong"


def _equal(p: Problem, found: Sequence[Tensor], right: Sequence[Tensor]) -> bool:
    rng = np.random.default_rng(0)
    every = topological_ops([*found, *right])
    given = dict(p.arrays)
    for op in every:
        if isinstance(op, Placeholder):
            for t in outputs(op):
                given.setdefault(t, rng.uniform(0.5, 1.5, shape_of(t, {}, p.sizes)))
    try:
        values = [interpret([a, b], given, p.sizes) for a, b in zip(found, right, strict=True)]
    except (TensoradError, ZeroDivisionError, IndexError):
        return False
    return all(np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in values)


def main(names: Sequence[str]) -> int:
    """Plant all in the table's programs, or those of some names."""
    cases = [c for c in CASES if not names or c.name in names]
    wrong = 0
    for fault in FAULTS:
        found: dict[str, list[str]] = {}
        for c in cases:
            found.setdefault(outcome(fault, lambda c=c: c.make(0)), []).append(c.name)  # type: ignore[misc]
        counts = ", ".join(f"{len(n)} {what}" for what, n in sorted(found.items()))
        print(f"{fault.name:45} {counts} {found.get('wrong', '')}", flush=True)
        wrong += len(found.get("wrong", ()))
    print(f"{len(FAULTS)} mistakes, {len(cases)} programs, {wrong} wrong values unnoticed")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
