"""Programs: functions of trees of arrays, branches and loops, and their derivatives."""

from tensorad.program.branches import cond, switch
from tensorad.program.call_rules import no_grad
from tensorad.program.checkpointing import checkpoint, checkpoint_sequential, keep
from tensorad.program.forms import (
    grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    scan,
    value_and_grad,
    vjp,
)
from tensorad.program.functions import Function, function, jit
from tensorad.program.gradients import gradient
from tensorad.program.kinds.annotations import Fn
from tensorad.program.kinds.applying import fn
from tensorad.program.kinds.matching import match
from tensorad.program.kinds.variants import variant
from tensorad.program.loops import for_loop, while_loop
from tensorad.program.mapping import tree_map
from tensorad.program.modules import Module, module
from tensorad.program.references.reference import Ref, ref
from tensorad.program.rules.custom import custom_rule
from tensorad.program.rules.foreign import foreign
from tensorad.program.rules.operators import Operator, register_gradient
from tensorad.program.rules.transposing import linear_transpose
from tensorad.program.trees import register_tree

__all__ = [
    "Fn",
    "Function",
    "Module",
    "Operator",
    "Ref",
    "checkpoint",
    "checkpoint_sequential",
    "cond",
    "custom_rule",
    "fn",
    "for_loop",
    "foreign",
    "function",
    "grad",
    "gradient",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "keep",
    "linear_transpose",
    "linearize",
    "match",
    "module",
    "no_grad",
    "ref",
    "register_gradient",
    "register_tree",
    "scan",
    "switch",
    "tree_map",
    "value_and_grad",
    "variant",
    "vjp",
    "while_loop",
]
