"""Derivatives of tensor formulas: forward and reverse mode from one set of linear terms."""

from tensorad.autodiff.derivatives import hessian, hvp, jacobian
from tensorad.autodiff.derivatives import jacobian as Jacobian
from tensorad.autodiff.forward import jvp
from tensorad.autodiff.jacobian import generalized_matmul
from tensorad.autodiff.jacobian import inline_tensors as InlineNonReductions
from tensorad.autodiff.jacobian import jacobian_recursive as JacobianRecursive
from tensorad.autodiff.jacobian import optimize_and_lift as OptimizeAndLiftNonzeronessConditions
from tensorad.autodiff.local.overrides import DerivativeRule
from tensorad.autodiff.reverse import vjp
from tensorad.autodiff.shared_sweeps import deriv
from tensorad.ir.text.printer import format_tensor_recursively as PrintTensorRecursively
from tensorad.simplify.index.algebra import simplify as Simplify

__all__ = [
    "DerivativeRule",
    "InlineNonReductions",
    "Jacobian",
    "JacobianRecursive",
    "OptimizeAndLiftNonzeronessConditions",
    "PrintTensorRecursively",
    "Simplify",
    "deriv",
    "generalized_matmul",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "vjp",
]
