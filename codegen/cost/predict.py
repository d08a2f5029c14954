"""What a kernel will do, counted from its loops: operations and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorad.codegen.cost.operation_costs import cost_of
from tensorad.codegen.loops.ir import Fold, For, If, Kernel, Stmt
from tensorad.codegen.loops.substitute import walked_range
from tensorad.codegen.loops.visit import expressions
from tensorad.ir.analysis.sizes import ASSUMED_STEPS, bytes_of, size_value
from tensorad.ir.expr import Axis, Call, Const, Expr, Param, Size, int_const
from tensorad.ir.order import AXIS, PARAM, READ, occurs
from tensorad.ir.visit import children, postorder, substitute


@dataclass(frozen=True)
class Prediction:
    """One call of a kernel."""

    flops: float
    """Operations on floats; a fused multiply-add is two."""
    read: int
    """Bytes of the tensors it reads, each once: caches keep what is read again."""
    written: int


def predict(kernel: Kernel, sizes: Mapping[Expr, int]) -> Prediction:
    """Count the operations and bytes of a kernel.

    Args:
        sizes: a number for every symbolic size.
    """
    counter = _Counter(sizes)
    counter.block(kernel.body)
    read = sum(bytes_of(t, sizes) for t in dict.fromkeys(kernel.reads))
    written = sum(bytes_of(t, sizes) for t in dict.fromkeys(kernel.writes))
    return Prediction(counter.flops, read, written)


class _Counter:
    """Walks a kernel's loops; an expression counts where the innermost loop it needs runs."""

    def __init__(self, sizes: Mapping[Expr, int]) -> None:
        self.sizes = sizes
        self.flops = 0.0
        self.loops: dict[Axis, float] = {}
        """How often the body of the loop over an axis runs."""
        self.middle: dict[Expr, Expr] = {}
        """Axes at the middle of their range: the mean of a triangle."""

    def block(self, body: Sequence[Stmt]) -> None:
        """The statements of a kernel; what a block has computed is known inside it."""
        here: dict[Expr, None] = {}
        stack: list[tuple[Stmt, float, dict[Expr, None]]] = [(s, 1.0, here) for s in reversed(body)]
        while stack:
            s, runs, found = stack.pop()
            self.statement(s, runs, found)
            if isinstance(s, For):
                trips = self.trips(s.axis)
                self.loops[s.axis] = runs * trips
                if s.kind == "parallel" and walked_range(s) is not None:
                    trips = 1.0  # every point is in one of the ranges
                inside = dict(found)
                stack.extend((c, runs * trips, inside) for c in reversed(s.body))
            elif isinstance(s, If):
                taken = s.orelse if s.rare else (*s.then, *s.orelse)
                stack.extend((c, runs, dict(found)) for c in taken)

    def trips(self, a: Axis) -> float:
        """Iterations of a loop, outer axes at the middle of their ranges."""
        low, step = self.number(a.lower), self.number(a.step)
        ends = a.upper.args if isinstance(a.upper, Call) and a.upper.op == "minimum" else (a.upper,)
        known = [n for n in map(self.number, ends) if n is not None]
        high = min(known, default=None)
        if low is None or high is None or not step:
            self.middle[a] = int_const(0 if low is None else low)
            return ASSUMED_STEPS
        self.middle[a] = int_const(max(low, (low + high - 1) // 2))
        return max(0.0, (high - low) / step)

    def number(self, e: Expr) -> int | None:
        """The value of a bound; None where it comes from data."""
        if isinstance(e, Const):
            return int(e.value)
        fixed = substitute(e, self.middle)
        if occurs(AXIS | PARAM | READ, fixed):
            return None
        return size_value(fixed, self.sizes)

    def statement(self, s: Stmt, runs: float, seen: dict[Expr, None]) -> None:
        if isinstance(s, Fold):
            operands = dict.fromkeys((*s.combiner.lhs, *s.combiner.rhs))
            steps = [e for e in postorder(*s.combiner.results) if e not in operands]
            self.flops += runs * sum(_operations(e) for e in steps)
        often: dict[Expr, float] = {}
        bound: dict[Expr, bool] = {}
        for e in postorder(*expressions(s)):
            parts = children(e)
            often[e] = max([often[c] for c in parts], default=1.0)
            bound[e] = isinstance(e, Param) or any(bound[c] for c in parts)
            if isinstance(e, Axis):
                often[e] = self.loops.get(e, runs)
            elif isinstance(e, (Param, Size)):
                often[e] = runs if isinstance(e, Param) else 1.0
            if e not in seen or bound[e]:
                self.flops += _operations(e) * min(often[e], runs)
                seen[e] = None


def _operations(e: Expr) -> int:
    """Operations on floats that one node is."""
    if not isinstance(e, Call) or not any(a.dtype.is_float for a in e.args):
        return 0
    return cost_of(e).flops
