"""Tensors as LaTeX equations."""

from __future__ import annotations

from tensorad.ir import array_methods
from tensorad.ir.tensor import Compute, Tensor
from tensorad.simplify.sympy_bridge import latex as formula_latex


def latex(t: Tensor) -> str:
    r"""A compute as `Y_{i,j} = ...`; every other tensor as its name.

    Source: sympy's LaTeX printer, factors and terms in the order written.
    """
    if not isinstance(t.op, Compute):
        return rf"\mathrm{{{t.name}}}"
    names = ",".join(a.name for a in t.op.axes)
    left = f"{{{t.name}}}_{{{names}}}" if names else t.name
    return f"{left} = {formula_latex(t.op.bodies[t.index])}"


array_methods.as_latex.fill(latex)
