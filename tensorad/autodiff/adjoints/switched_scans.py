"""Where data let the adjoints that a scan sends back be other than 0, by a scan that counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from tensorad.autodiff.adjoints.adjoint import Adjoint, Target, whole
from tensorad.autodiff.adjoints.contributions import Contribution
from tensorad.autodiff.adjoints.switched import switched_on
from tensorad.autodiff.local.scans import Heads, StepAdjoints, reverse_sweep
from tensorad.autodiff.local.steps import are_guarded, jacobian_entries
from tensorad.ir.analysis.points import depends_on_data
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import TRUE, Axis, Expr, const, read
from tensorad.ir.tensor import Placeholder, Scan, Shape, Tensor, outputs
from tensorad.simplify.zeros.lift import guarded


@dataclass(eq=False)
class ScanSwitch:
    """How many heads of a scan reach an element, or a start, and are not switched off on the way.

    Attributes:
        op: as differentiation sees it.
        adjoints: of outputs of the scan `of`, which `op` may have more of.
        lead: the axes that lead them.
    """

    of: Scan
    op: Scan
    adjoints: Mapping[Tensor, Adjoint]
    smooth: Sequence[int]
    lead: tuple[Axis, ...]
    batch: Shape

    @cached_property
    def counted(self) -> StepAdjoints | None:
        """The sweep that counts; None if no data decide."""
        on = [switched_on(a, a.axes) for a in self.adjoints.values()]
        combiner = self.op.combiner
        steps = (jacobian_entries(combiner, p) for p in (combiner.lhs, combiner.rhs))
        if not any(map(depends_on_data, on)) and not any(map(are_guarded, steps)):
            return None
        heads = {t: partial(self._number, a) for t, a in self.adjoints.items()}
        seed = Heads.of(self.of, heads, combiner.arity)
        name = f"d{self.of.name}.reached"
        return reverse_sweep(self.op, [seed], self.smooth, self.lead, name, counting=True)

    def _number(self, adjoint: Adjoint, indices: Sequence[Expr]) -> Expr:
        """1 where a head is on."""
        one = const(1, adjoint.body.dtype)
        return guarded(switched_on(adjoint, (*self.lead, *indices)), one)

    def element(self, d: int, t: Tensor) -> Adjoint:
        """The stored adjoint of element d of the steps."""
        return self._switched(t, lambda swept: swept.elements[0][d])

    def start(self, c: int, t: Tensor) -> Adjoint:
        """The stored adjoint of start c."""
        return self._switched(t, lambda swept: swept.starts[0][c])

    def _switched(self, t: Tensor, part: Callable[[StepAdjoints], Tensor]) -> Adjoint:
        own = compute_axes(t.shape[len(self.batch) :])

        def switch(batch: Sequence[Expr]) -> Expr:
            if self.counted is None:
                return TRUE
            return read(part(self.counted), (*batch, *own)) > 0

        def weight(batch: Sequence[Expr]) -> Expr:
            return read(t, (*batch, *own))

        c = Contribution(own, TRUE, own, weight, switch=switch)
        of = outputs(Placeholder(t.name, t.shape[len(self.batch) :], t.dtype))[0]
        return replace(whole(t), sum_of=Target(of, self.batch, [c]))
