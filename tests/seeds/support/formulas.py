"""What the formulas of a program's bindings are."""

from __future__ import annotations

from tensorad.ir.expr import Call, Const, Expr
from tensorad.ir.tensor import Compute, Tensor
from tensorad.ir.text.program import Define, ProgramFunction
from tensorad.ir.visit import op_expressions, postorder


def defined(f: ProgramFunction) -> dict[str, Tensor]:
    """What formulas define, by name."""
    some = [b for b in f.scope.bindings if isinstance(b, Define)]
    return {n: t for b in some for n, t in zip(b.names, b.tensors, strict=True)}


def is_zero(t: Tensor) -> bool:
    """Whether a tensor is zeros by its formula."""
    body = t.op.bodies[t.index] if isinstance(t.op, Compute) else None
    return isinstance(body, Const) and body.value == 0


def additions(t: Tensor) -> list[tuple[Expr, ...]]:
    """The operands of each addition in a tensor's formula."""
    some = postorder(*op_expressions(t.op))
    return [e.args for e in some if isinstance(e, Call) and e.op == "add"]
