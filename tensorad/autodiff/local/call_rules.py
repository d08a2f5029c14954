"""Derivatives that calls carry, in the direction that is asked for and along many directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorad.autodiff.local.linearity import freed
from tensorad.autodiff.local.overrides import Transpose, input_like, is_free
from tensorad.autodiff.local.record_gradients import as_derivative, has_gradient
from tensorad.autodiff.local.records import added, check_no_batch
from tensorad.errors import GradError
from tensorad.ir.analysis.blocks import captures, inner_ops, op_sizes, ops_between
from tensorad.ir.arrays.elementwise import elementwise
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import int_const, local_size
from tensorad.ir.records import is_record
from tensorad.ir.tensor import (
    Block,
    CallRule,
    Compute,
    FunctionCall,
    Loop,
    MaybeTensors,
    Op,
    Placeholder,
    Shape,
    SoFar,
    Tensor,
    dim_expr,
    outputs,
    saved,
)
from tensorad.ir.visit import op_inputs


@dataclass(frozen=True, eq=False)
class RuleOfCall:
    """The rule that a call carries, flowing to its operands.

    A rule of one direction is transposed for the other one, since both are linear.
    """

    call: FunctionCall
    rule: CallRule

    @property
    def made(self) -> tuple[Tensor, ...]:
        """The tensors whose derivative it is."""
        return outputs(self.call)

    @property
    def deps(self) -> tuple[Tensor, ...]:
        """The operands that derivatives flow to; one that stands at several places is there as
        often."""
        return tuple([t for t in self.call.operands if has_gradient(t.dtype)])

    def all_adjoints(
        self, heads: MaybeTensors, batch: Shape, vjp: Transpose, so_far: SoFar
    ) -> MaybeTensors:
        """The adjoints of the deps, for heads of what is made; with leading axes none of values of
        data types.

        A rule without directions (`Foreign`) is asked where what is given to it is stopped later.
        """
        if self.rule.adjoints is None and self.rule.tangents is None:
            return [None] * len(self.deps)
        check_no_batch(self.call, batch, self.made)
        if self.rule.adjoints is None:
            return self._transposed_tangents(heads, batch, vjp)
        if not batch or self.rule.takes_batches:
            return self._adjoints(heads, so_far)
        plain = self._like_made(heads)
        pairs = zip(self.deps, self._adjoints(plain, so_far), strict=True)
        found = [None if is_record(d.dtype) else t for d, t in pairs]
        made = at_each(found, plain, heads, batch, vjp)
        return self._freed(made, plain, "vjp")

    def all_tangents(self, tangents: MaybeTensors, batch: Shape, vjp: Transpose) -> MaybeTensors:
        """The tangents of what is made."""
        if self.rule.adjoints is None and self.rule.tangents is None:
            return [None] * len(self.made)
        pairs = zip(self.deps, tangents, strict=True)
        moving = [*self.made, *[d for d, t in pairs if t is not None]]
        check_no_batch(self.call, batch, moving)
        if self.rule.tangents is None:
            return self._transposed_adjoints(tangents, vjp)
        if not batch or self.rule.takes_batches:
            return self._tangents(tangents)
        plain = self._like_deps(tangents)
        found = self._tangents(plain)
        made = at_each(found, plain, tangents, batch, vjp)
        return self._freed(made, plain, "jvp")

    def _transposed_tangents(
        self, heads: MaybeTensors, batch: Shape, vjp: Transpose
    ) -> MaybeTensors:
        plain = self._like_deps(self.deps)
        directions = [d for d in plain if d is not None]
        total: list[Tensor | None] = [None] * len(plain)
        for tangent, head in zip(self._tangents(plain), heads, strict=True):
            if tangent is not None and head is not None:
                live = [
                    n
                    for n, d in enumerate(directions)
                    if not is_free([tangent], [d]) and not (batch and is_record(d.dtype))
                ]
                parts = vjp(tangent, [directions[n] for n in live], head) if live else ()
                for n, part in zip(live, parts, strict=True):
                    total[n] = _plus(total[n], part)
        return self._freed(total, plain, "jvp")

    def _transposed_adjoints(self, tangents: MaybeTensors, vjp: Transpose) -> MaybeTensors:
        heads = self._like_made(self.made)
        found: list[Tensor | None] = [None] * len(heads)
        for adjoint, tangent in zip(self._adjoints(heads, _nothing), tangents, strict=True):
            if adjoint is None or tangent is None:
                continue
            for k, head in enumerate(heads):
                if head is not None and not is_free([adjoint], [head]):
                    (part,) = vjp(adjoint, [head], tangent)
                    found[k] = _plus(found[k], part)
        return self._freed(found, heads, "vjp")

    def _adjoints(self, heads: MaybeTensors, so_far: SoFar) -> list[Tensor | None]:
        assert self.rule.adjoints is not None, "the caller has looked"
        found = self.rule.adjoints(self.call, heads, so_far)
        pairs = zip(self.call.operands, found, strict=True)
        return [part for t, part in pairs if has_gradient(t.dtype)]

    def _tangents(self, tangents: MaybeTensors) -> MaybeTensors:
        assert self.rule.tangents is not None, "the caller has looked"
        rest = iter(tangents)
        own = [next(rest) if has_gradient(t.dtype) else None for t in self.call.operands]
        return self.rule.tangents(self.call, own)

    def _like_made(self, heads: MaybeTensors) -> list[Tensor | None]:
        """An input for each head of what has a derivative."""
        pairs = zip(self.made, heads, strict=True)
        return [_input(t) if has_gradient(t.dtype) and h is not None else None for t, h in pairs]

    def _like_deps(self, tangents: MaybeTensors) -> list[Tensor | None]:
        """An input for each tangent."""
        pairs = zip(self.deps, tangents, strict=True)
        return [None if t is None else _input(d) for d, t in pairs]

    def _freed(self, made: MaybeTensors, inputs: MaybeTensors, given: str) -> MaybeTensors:
        """What is made, which does not depend on the inputs of a linear rule; those for values of
        data types are not told from these, whose alternatives it depends on.

        Raises:
            GradError: it does.
        """
        found = freed(made, [t for t in inputs if t is not None and not is_record(t.dtype)])
        if found is not None:
            return found
        what = "adjoint" if given == "vjp" else "tangents"
        it = "it" if given == "vjp" else "them"
        raise GradError(
            f"the rule given for {self.call.function} is not linear in its {what}.",
            hint=f"a rule multiplies the {what} by values that do not depend on {it}.",
        )


def _nothing(t: Tensor) -> None:
    """Forward mode collects no adjoints."""


def _input(t: Tensor) -> Tensor:
    """What a rule is asked with to be transposed: it has the alternatives of a value of a data
    type, since where nothing is in a direction nothing flows back."""
    return as_derivative(t) if is_record(t.dtype) else input_like(f"d{t.name}", t)


def _plus(total: Tensor | None, part: Tensor) -> Tensor:
    if total is None:
        return part
    return added(total, part) if is_record(part.dtype) else elementwise("add", total, part)


def at_each(
    made: MaybeTensors, inputs: MaybeTensors, given: MaybeTensors, batch: Shape, vjp: Transpose
) -> list[Tensor | None]:
    """What is made of inputs, linearly, for the given tensors at each index of leading axes.

    Formulas are transposed twice. Calls among them whose rule takes no leading axes would ask for
    the same again: these run in a loop over the leading axes.
    """
    pairs = [(x, g) for x, g in zip(inputs, given, strict=True) if x is not None and g is not None]
    live = [t for t in made if t is not None]
    if _has_plain_calls(live, [x for x, _ in pairs]):
        rows = iter(_looped(live, [x for x, _ in pairs], [g for _, g in pairs], batch))
        return [None if t is None else next(rows) for t in made]
    found: list[Tensor | None] = []
    for t in made:
        total: Tensor | None = None
        for x, g in pairs if t is not None else ():
            assert t is not None, "there is nothing to add otherwise"
            if not is_free([t], [x]):
                total = _plus(total, _applied(t, x, g, vjp))
        found.append(total)
    return found


def _applied(y: Tensor, x: Tensor, head: Tensor, vjp: Transpose) -> Tensor:
    """y, which is linear in the input x, at `head`, which has extra leading axes: transposed
    twice."""
    plain = input_like("h", y)
    (back,) = vjp(y, [x], plain)
    (found,) = vjp(back, [plain], head)
    return found


def _has_plain_calls(made: Sequence[Tensor], inputs: Sequence[Tensor]) -> bool:
    """Whether calls with rules that take no leading axes depend on the inputs."""
    moving: dict[Tensor, None] = dict.fromkeys(inputs)
    ops: list[Op] = []
    for op in ops_between(made, moving):
        if any(t in moving for t in op_inputs(op)):
            moving.update(dict.fromkeys(outputs(op)))
            ops.append(op)
    calls = [op for op in (*ops, *inner_ops(ops)) if isinstance(op, FunctionCall)]
    return any(c.rule is not None and not c.rule.takes_batches for c in calls)


def _looped(
    made: Sequence[Tensor], inputs: Sequence[Tensor], given: Sequence[Tensor], batch: Shape
) -> list[Tensor]:
    """The tensors made of inputs, in a loop over each leading axis of what is given for these."""
    if not batch:
        return list(made)
    rest = batch[1:]
    parts = [outputs(Placeholder(x.name, (*rest, *x.shape), x.dtype))[0] for x in inputs]
    parts = parts if rest else list(inputs)
    inside = _looped(made, inputs, parts, rest)
    trips = dim_expr(batch[0])
    counter = local_size("t", trips)
    nothing = outputs(Placeholder("nothing", (), INT64))[0]
    start = outputs(Compute("nothing", (), (int_const(0),)))[0]
    params = [nothing, *parts]
    fixed = captures(inside, params, lambda op: counter in op_sizes(op))
    block = Block((*params, *fixed), (nothing,))
    loop = Loop(
        ("nothing",), (start, *given, *fixed), (block,),
        counter=counter, trips=trips, carries=1, scanned=len(given),
    )  # fmt: skip
    return [saved(loop, t) for t in inside]
