"""tensorad: tensor operators by index formula, differentiated and compiled."""

from __future__ import annotations

import sys
import sysconfig
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

if sys.version_info >= (3, 13) and sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError(
        "tensorad does not run on free-threaded builds of Python: its tables of expressions and "
        "the memory of its calls rely on the interpreter's lock\n"
        "hint: use the usual build of the same version (python3.13, not python3.13t)."
    )

_here = Path(__file__).resolve().parent
__path__ = [*__path__]
for _folder in ("codegen", "simplify"):  # a checkout that lost its links still finds the folders
    if not (_here / _folder / "__init__.py").exists():
        __path__.append(str(_here.parent))

if TYPE_CHECKING:
    from tensorad import config as config
    from tensorad import errors as errors
    from tensorad import language as language
    from tensorad import optim as optim
    from tensorad import topi as topi
    from tensorad.autodiff import DerivativeRule as DerivativeRule
    from tensorad.autodiff import InlineNonReductions as InlineNonReductions
    from tensorad.autodiff import Jacobian as Jacobian
    from tensorad.autodiff import JacobianRecursive as JacobianRecursive
    from tensorad.autodiff import (
        OptimizeAndLiftNonzeronessConditions as OptimizeAndLiftNonzeronessConditions,
    )
    from tensorad.autodiff import PrintTensorRecursively as PrintTensorRecursively
    from tensorad.autodiff import Simplify as Simplify
    from tensorad.autodiff import deriv as deriv
    from tensorad.autodiff import generalized_matmul as generalized_matmul
    from tensorad.batching import batched as batched
    from tensorad.batching.functions import vmap as vmap
    from tensorad.building import build as build
    from tensorad.building import evaluate as evaluate
    from tensorad.checking import GradReport as GradReport
    from tensorad.codegen.directives import Schedule as Schedule
    from tensorad.compiled import CompiledFunction as CompiledFunction
    from tensorad.config import get_num_threads as get_num_threads
    from tensorad.config import set_num_threads as set_num_threads
    from tensorad.counting import Work as Work
    from tensorad.implicit import fixed_point as fixed_point
    from tensorad.implicit import linear_solve as linear_solve
    from tensorad.implicit import minimize as minimize
    from tensorad.implicit import root as root
    from tensorad.interop import output_shapes as output_shapes
    from tensorad.ir.expr import Axis as Axis
    from tensorad.ir.expr import Expr as Expr
    from tensorad.ir.tensor import Tensor as Tensor
    from tensorad.language import partial_eval as partial_eval
    from tensorad.levels import dual_level as dual_level
    from tensorad.levels import make_dual as make_dual
    from tensorad.levels import unpack_dual as unpack_dual
    from tensorad.program import Fn as Fn
    from tensorad.program import Function as Function
    from tensorad.program import Module as Module
    from tensorad.program import Operator as Operator
    from tensorad.program import Ref as Ref
    from tensorad.program import checkpoint as checkpoint
    from tensorad.program import checkpoint_sequential as checkpoint_sequential
    from tensorad.program import cond as cond
    from tensorad.program import custom_rule as custom_rule
    from tensorad.program import fn as fn
    from tensorad.program import for_loop as for_loop
    from tensorad.program import foreign as foreign
    from tensorad.program import function as function
    from tensorad.program import grad as grad
    from tensorad.program import gradient as gradient
    from tensorad.program import hessian as hessian
    from tensorad.program import hvp as hvp
    from tensorad.program import jacfwd as jacfwd
    from tensorad.program import jacobian as jacobian
    from tensorad.program import jacrev as jacrev
    from tensorad.program import jit as jit
    from tensorad.program import jvp as jvp
    from tensorad.program import keep as keep
    from tensorad.program import linear_transpose as linear_transpose
    from tensorad.program import linearize as linearize
    from tensorad.program import match as match
    from tensorad.program import module as module
    from tensorad.program import no_grad as no_grad
    from tensorad.program import ref as ref
    from tensorad.program import register_gradient as register_gradient
    from tensorad.program import register_tree as register_tree
    from tensorad.program import scan as scan
    from tensorad.program import switch as switch
    from tensorad.program import tree_map as tree_map
    from tensorad.program import value_and_grad as value_and_grad
    from tensorad.program import variant as variant
    from tensorad.program import vjp as vjp
    from tensorad.program import while_loop as while_loop
    from tensorad.sparse import SparseJacobian as SparseJacobian
    from tensorad.te import abs as abs
    from tensorad.te import acos as acos
    from tensorad.te import acosh as acosh
    from tensorad.te import all_of as all_of
    from tensorad.te import any_of as any_of
    from tensorad.te import argmax as argmax
    from tensorad.te import argmin as argmin
    from tensorad.te import asin as asin
    from tensorad.te import asinh as asinh
    from tensorad.te import assume as assume
    from tensorad.te import atan as atan
    from tensorad.te import atan2 as atan2
    from tensorad.te import atanh as atanh
    from tensorad.te import cbrt as cbrt
    from tensorad.te import ceil as ceil
    from tensorad.te import comm_reducer as comm_reducer
    from tensorad.te import compute as compute
    from tensorad.te import const as const
    from tensorad.te import cos as cos
    from tensorad.te import cosh as cosh
    from tensorad.te import digamma as digamma
    from tensorad.te import erf as erf
    from tensorad.te import erfc as erfc
    from tensorad.te import erfinv as erfinv
    from tensorad.te import exp as exp
    from tensorad.te import exp2 as exp2
    from tensorad.te import expm1 as expm1
    from tensorad.te import floor as floor
    from tensorad.te import fmod as fmod
    from tensorad.te import isfinite as isfinite
    from tensorad.te import isnan as isnan
    from tensorad.te import lgamma as lgamma
    from tensorad.te import log as log
    from tensorad.te import log1p as log1p
    from tensorad.te import log2 as log2
    from tensorad.te import log10 as log10
    from tensorad.te import logsumexp as logsumexp
    from tensorad.te import max as max
    from tensorad.te import maximum as maximum
    from tensorad.te import min as min
    from tensorad.te import minimum as minimum
    from tensorad.te import placeholder as placeholder
    from tensorad.te import pow as pow
    from tensorad.te import prod as prod
    from tensorad.te import reduce_axis as reduce_axis
    from tensorad.te import round as round
    from tensorad.te import rsqrt as rsqrt
    from tensorad.te import scalar_function as scalar_function
    from tensorad.te import scatter as scatter
    from tensorad.te import select as select
    from tensorad.te import sigmoid as sigmoid
    from tensorad.te import sign as sign
    from tensorad.te import sin as sin
    from tensorad.te import sinh as sinh
    from tensorad.te import size as size
    from tensorad.te import sqrt as sqrt
    from tensorad.te import stop_gradient as stop_gradient
    from tensorad.te import sum as sum
    from tensorad.te import tan as tan
    from tensorad.te import tanh as tanh
    from tensorad.te import trigamma as trigamma
    from tensorad.te import trunc as trunc
    from tensorad.tools import explain as explain
    from tensorad.tools import explain_adjoints as explain_adjoints
    from tensorad.tools import gradcheck as gradcheck
    from tensorad.tools import interpret as interpret
    from tensorad.tools import lower as lower
    from tensorad.tools import measure_performance as measure_performance
    from tensorad.tools import placeholders as placeholders
    from tensorad.tools import show_lowered as show_lowered
    from tensorad.tools import sparse_hessian as sparse_hessian
    from tensorad.tools import sparse_jacobian as sparse_jacobian
    from tensorad.tools import work as work
    from tensorad.upstream import Derivative as Derivative
    from tensorad.upstream import DiffBuildingBlock as DiffBuildingBlock
    from tensorad.upstream import DifferentiationResult as DifferentiationResult
    from tensorad.upstream import InlineTailCall as InlineTailCall
    from tensorad.upstream import InlineTensors as InlineTensors
    from tensorad.upstream import PerformanceEstimate as PerformanceEstimate
    from tensorad.upstream import RemoveUnusedDimsRecursively as RemoveUnusedDimsRecursively
    from tensorad.upstream import check_numerical_grads as check_numerical_grads
    from tensorad.upstream import differentiate as differentiate
    from tensorad.upstream import estimate_performance as estimate_performance

_HOME: Final = {
    "tensorad.te": (
        "abs acos acosh all_of any_of argmax argmin asin asinh assume atan atan2 atanh cbrt ceil "
        "comm_reducer compute const cos cosh digamma erf erfc erfinv exp exp2 expm1 floor fmod "
        "isfinite isnan lgamma log log10 log1p log2 logsumexp max maximum min minimum "
        "placeholder pow prod reduce_axis round rsqrt scalar_function scatter select "
        "sigmoid sign sin sinh size sqrt stop_gradient sum tan tanh trigamma trunc"
    ),
    "tensorad.autodiff": (
        "DerivativeRule InlineNonReductions Jacobian JacobianRecursive "
        "OptimizeAndLiftNonzeronessConditions "
        "PrintTensorRecursively Simplify deriv generalized_matmul"
    ),
    "tensorad.batching": "batched",
    "tensorad.batching.functions": "vmap",
    "tensorad.building": "build evaluate",
    "tensorad.compiled": "CompiledFunction",
    "tensorad.checking": "GradReport",
    "tensorad.codegen.directives": "Schedule",
    "tensorad.config": "get_num_threads set_num_threads",
    "tensorad.counting": "Work",
    "tensorad.language": "partial_eval",
    "tensorad.implicit": "fixed_point linear_solve minimize root",
    "tensorad.interop": "output_shapes",
    "tensorad.ir.expr": "Axis Expr",
    "tensorad.ir.tensor": "Tensor",
    "tensorad.levels": "dual_level make_dual unpack_dual",
    "tensorad.program": (
        "Fn Function Module Operator Ref checkpoint checkpoint_sequential cond custom_rule fn "
        "for_loop foreign function grad gradient hessian hvp jacfwd jacobian jacrev jit jvp keep "
        "linear_transpose linearize match module no_grad ref register_gradient register_tree scan "
        "switch tree_map value_and_grad variant vjp while_loop"
    ),
    "tensorad.upstream": (
        "Derivative DiffBuildingBlock DifferentiationResult InlineTailCall InlineTensors "
        "PerformanceEstimate RemoveUnusedDimsRecursively check_numerical_grads differentiate "
        "estimate_performance"
    ),
    "tensorad.sparse": "SparseJacobian",
    "tensorad.tools": (
        "explain explain_adjoints gradcheck interpret lower measure_performance placeholders "
        "show_lowered sparse_hessian sparse_jacobian work"
    ),
}
"""Which module defines each public name; it is imported when the name is first used."""

_MODULE_OF: Final = {name: module for module, names in _HOME.items() for name in names.split()}
_SUBMODULES: Final = ("config", "errors", "language", "optim", "topi")

__all__ = sorted([*_MODULE_OF, *_SUBMODULES])


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return import_module(f"tensorad.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'tensorad' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return __all__
