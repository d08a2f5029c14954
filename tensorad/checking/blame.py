"""Which of the user's own derivatives is wrong: each is checked by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensorad.autodiff.local.overrides import check_override
from tensorad.checking.checker import Checker, Settings
from tensorad.checking.inputs import Bindings
from tensorad.checking.report import Disagreement
from tensorad.ir.analysis.blocks import inner_ops
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import Apply, Expr, Reduce, read
from tensorad.ir.functions import Function, apply, is_stop
from tensorad.ir.tensor import Compute, Placeholder, Tensor, outputs
from tensorad.ir.visit import op_expressions, postorder, topological_ops

_SAMPLES = 7
"""At how many points a scalar function's partials are checked."""


def guilty(ys: Sequence[Tensor], settings: Settings, bindings: Bindings) -> str | None:
    """What is wrong with a rule or a scalar function of the user; None if nothing is found."""
    for t, given in (settings.override or {}).items():
        found = _check_rule(t, given, settings, bindings)
        if found is not None:
            return f"the rule given for {t.name} is wrong: {found}"
    for f in functions_of(ys):
        found = _check_function(f, settings)
        if found is not None:
            return f"the partials given for {f.name} are wrong: {found}"
    return None


def _check_rule(t: Tensor, given: Any, settings: Settings, bindings: Bindings) -> str | None:
    rule = check_override({t: given})[t]
    checker = Checker(rule.deps, replace(settings, override={t: given}), _random())
    return _attempt(checker, t, bindings)


def functions_of(ys: Sequence[Tensor]) -> list[Function]:
    """The scalar functions with partials of their own, also those inside others and in blocks."""
    found: dict[Function, None] = {}
    ops = topological_ops(ys)
    roots: list[Expr] = [e for op in (*ops, *inner_ops(ops)) for e in op_expressions(op)]
    while roots:
        more: list[Expr] = []
        for e in postorder(*roots):
            if isinstance(e, Reduce):
                more += e.combiner.results
            if isinstance(e, Apply) and e.function not in found and not is_stop(e.function):
                found[e.function] = None
                more.append(e.function.result)
        roots = [e for e in more if any(isinstance(n, Apply) for n in postorder(e))]
    return list(found)


def _check_function(f: Function, settings: Settings) -> str | None:
    """The function of random numbers, elementwise."""
    rng = _random()
    axes = compute_axes((_SAMPLES,))
    inputs = {p: outputs(Placeholder(p.name, (_SAMPLES,), p.dtype))[0] for p in f.params}
    reads: list[Expr] = [read(t, axes) for t in inputs.values()]
    y = outputs(Compute(f.name, axes, (apply(f, tuple(reads)),)))[0]
    values: Bindings = {}
    for p, t in inputs.items():
        size = rng.uniform(0.3, 1.7, _SAMPLES)
        values[t] = size if p.dtype.is_float else np.ones(_SAMPLES, dtype=str(p.dtype))
    wrt = [t for t in inputs.values() if t.dtype.is_float]
    return _attempt(Checker(wrt, replace(settings, override=None), rng), y, values)


def _attempt(checker: Checker, y: Tensor, bindings: Bindings) -> str | None:
    try:
        checker.run([y], 1, bindings)
    except Disagreement as wrong:
        return wrong.text
    return None


def _random() -> np.random.Generator:
    return np.random.default_rng(0)
