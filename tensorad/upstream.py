"""Names of the functions that TVM's automatic differentiation fork had, for those who know them.

Each is thin: it maps to a function of this library, named in its docstring.

Source: sgrechanik-h/tvm, branch autodiff-dev (2019): tvm.autodiff, tvm.ir_pass, tvm.testing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorad.autodiff.checks import check_output, check_wrt
from tensorad.autodiff.heads import Heads
from tensorad.autodiff.local.linear import differentiate as partials_of_leaves
from tensorad.autodiff.local.linear import merge_guards
from tensorad.autodiff.local.overrides import DerivativeRule, Override, check_override
from tensorad.autodiff.reverse import vjp
from tensorad.checking.report import place_text
from tensorad.checking.tally import distance
from tensorad.counting import work
from tensorad.errors import DefinitionError, GradError, ShapeError
from tensorad.ir.analysis.symbolic_points import Count
from tensorad.ir.arrays.arguments import check_tensor, check_tensors
from tensorad.ir.cached import cached_property
from tensorad.ir.expr import Expr, Param, Read, const
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.tensor import Compute, Placeholder, Tensor, format_shape, outputs
from tensorad.ir.visit import copy_bodies, op_inputs, reads, topological_ops
from tensorad.simplify.formula.inline import inline_reads
from tensorad.simplify.formula.unused_axes import drop_unused_axes
from tensorad.simplify.zeros.lift import guarded

FDiff = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(output, one of its immediate inputs, head) -> the input's share of the adjoint."""


@dataclass(frozen=True)
class DifferentiationResult:
    """Adjoints of one output; also a sequence of those of the given inputs.

    Attributes:
        result: the adjoints of the inputs, in order; empty if none were given.
    """

    output: Tensor
    inputs: tuple[Tensor, ...]
    head: Heads
    override: Override
    fdiff: FDiff | None
    result: list[Tensor] = field(default_factory=list)

    @cached_property
    def adjoints(self) -> dict[Tensor, Tensor]:
        """The adjoint of every float tensor that the output depends on (itself included)."""
        tensors = list(self._consumers())
        found = _gradients(self.output, tensors, self.head, self.override, self.fdiff)
        return dict(zip(tensors, found, strict=True))

    @cached_property
    def adjoint_summands(self) -> dict[Tensor, dict[Tensor, Tensor]]:
        """For each of these tensors: what each of the tensors that read it contributes."""
        block = self.fdiff or DiffBuildingBlock
        return {
            t: {u: block(u, t, self.adjoints[u]) for u in users}
            for t, users in self._consumers().items()
        }

    def _consumers(self) -> dict[Tensor, list[Tensor]]:
        """Float tensors behind the output, consumers first, each with those that read it."""
        found: dict[Tensor, list[Tensor]] = {}
        for op in reversed(topological_ops([self.output])):
            for t in outputs(op):
                if t is self.output:
                    found[t] = []
                if t in found:
                    for d in _float_inputs(t):
                        found.setdefault(d, []).append(t)
        return found

    def _given(self) -> list[Tensor]:
        if not self.result:
            raise ValueError(
                "differentiate was called without inputs, so there is no list of results; "
                "use .adjoints[tensor]."
            )
        return self.result

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._given())

    def __len__(self) -> int:
        return len(self._given())

    def __getitem__(self, n: int) -> Tensor:
        return self._given()[n]


def _float_inputs(t: Tensor) -> list[Tensor]:
    return [d for d in op_inputs(t.op) if d.dtype.is_float]


def differentiate(
    output: Tensor,
    inputs: Sequence[Tensor] | None = None,
    head: Heads = None,
    override: Override | None = None,
    fdiff: FDiff | None = None,
) -> DifferentiationResult:
    """The adjoints of `output` by `inputs` and by every tensor between: `vjp`.

    Args:
        output: float tensor.
        inputs: what to differentiate by; omitted: only `.adjoints` is filled.
        head: as in `vjp`.
        override: as in `vjp`: {tensor: (deps, f)} with f(tensor, deps, head) -> adjoints.
        fdiff: fdiff(output, input, head) used for every pair of a computed tensor and a tensor
            it reads, in place of the derivative of its formula.
    Raises:
        GradError, DTypeError, ShapeError: see `vjp`.
        DefinitionError: fdiff is no function.
    """
    check_output(output)
    none = inputs is None or (isinstance(inputs, (list, tuple)) and not inputs)
    tensors = [] if none else check_wrt(inputs)
    if fdiff is not None and not callable(fdiff):
        raise DefinitionError(
            f"fdiff must be a function, got {fdiff!r}.",
            hint="fdiff(output, input, head) returns a tensor, as DiffBuildingBlock does.",
        )
    check_override(override)
    rules = dict(override or {})
    result = _gradients(output, tensors, head, rules, fdiff) if tensors else []
    return DifferentiationResult(output, tuple(tensors), head, rules, fdiff, result)


def _gradients(
    y: Tensor, wrt: list[Tensor], head: Heads, override: Override, fdiff: FDiff | None
) -> list[Tensor]:
    rules = dict(override)
    if fdiff is not None:
        for op in topological_ops([y]):
            for t in outputs(op):
                if t.dtype.is_float and not isinstance(op, Placeholder) and _float_inputs(t):
                    rules.setdefault(t, _blockwise(fdiff))
    return vjp(y, wrt, head, override=rules)


def _blockwise(fdiff: FDiff) -> DerivativeRule:
    def rule(t: Tensor, deps: list[Tensor], head: Tensor) -> list[Tensor]:
        return [fdiff(t, d, head) for d in deps]

    return DerivativeRule(None, vjp=rule)


def DiffBuildingBlock(output: Tensor, input: Tensor, head: Heads = None) -> Tensor:
    """The share of the adjoint of `input` that flows through the reads in `output`'s formula.

    That is `vjp` with everything else that the formula reads held constant.

    Raises:
        GradError: the formula does not read `input`.
    """
    check_output(output)
    check_wrt([check_tensor(input, "DiffBuildingBlock")])
    direct = _float_inputs(output)
    if not any(t is input for t in direct):
        raise GradError(
            f"{output.name} does not read {input.name} directly.",
            where=f"{output.name} reads {', '.join([t.name for t in direct]) or 'nothing'}",
            hint="use vjp, which goes through intermediate tensors.",
        )
    held: Override = {
        t: DerivativeRule([], vjp=lambda t, deps, head: [])
        for t in direct
        if t is not input and not isinstance(t.op, Placeholder)
    }
    return vjp(output, [input], head, override=held)[0]


def Derivative(expr: Expr, var: Expr) -> Expr:
    """d expr / d var of a scalar expression; 0 if it does not depend on it.

    Args:
        expr: a float expression without reductions over `var`.
        var: a read, such as X[i], or an operand of a combiner.
    Raises:
        GradError: `var` is something else, or `expr` is no float.
    """
    if not isinstance(var, (Read, Param)) or not expr.dtype.is_float:
        raise GradError(
            f"Derivative takes a float expression and a leaf of it, got {expr} by {var}.",
            hint="e.g. Derivative(ta.exp(X[i]) * 2, X[i]).",
        )
    if occurs(REDUCE, expr):
        raise GradError(
            "Derivative works on expressions without reductions.",
            where=str(expr),
            hint="define a tensor with compute and use jacobian or vjp.",
        )
    found = partials_of_leaves(expr, lambda e: e is var)
    return guarded(*merge_guards(found[var])) if var in found else const(0, expr.dtype)


def RemoveUnusedDimsRecursively(tensors: Tensor | Sequence[Tensor]) -> Any:
    """The tensors over intermediates without axes that their formulas do not use.

    Maps to `simplify.formula.unused_axes.drop_unused_axes`; given tensors keep their shapes. A
    tensor for a tensor, a list for a list.
    """
    made = drop_unused_axes(check_tensors(tensors, "RemoveUnusedDimsRecursively"))
    return made[0] if isinstance(tensors, Tensor) else made


def InlineTensors(
    tensor: Tensor, inlineable: Sequence[Tensor] = (), inline_reductions: bool = False
) -> Tensor:
    """`tensor` with the computes behind it written into its formula, recursively.

    Args:
        inlineable: which ones; omitted: all.
        inline_reductions: also those whose formula is or contains a reduction.
    """
    chosen = dict.fromkeys(check_tensors(inlineable, "InlineTensors"))
    check_tensor(tensor, "InlineTensors")
    if not isinstance(tensor.op, Compute):
        return tensor
    axes, bodies = copy_bodies(tensor.op.axes, tensor.op.bodies)

    def wanted(t: Tensor) -> bool:
        if not isinstance(t.op, Compute) or (chosen and t not in chosen):
            return False
        return inline_reductions or not occurs(REDUCE, t.op.bodies[t.index])

    while True:
        found = [r.tensor for r in reads(*bodies) if wanted(r.tensor)]
        if not found:
            return outputs(Compute(tensor.op.name, axes, bodies, tensor.op.source))[tensor.index]
        bodies = tuple([inline_reads(b, found) for b in bodies])


def InlineTailCall(tensor: Tensor) -> Tensor:
    """If the formula is nothing but a read of another compute, that compute's formula there."""
    op = check_tensor(tensor, "InlineTailCall").op
    while isinstance(op, Compute):
        body = op.bodies[tensor.index] if op is tensor.op else op.bodies[0]
        if not isinstance(body, Read) or not isinstance(body.tensor.op, Compute):
            break
        axes, (copy,) = copy_bodies(op.axes, (body,))
        op = Compute(tensor.op.name, axes, (inline_reads(copy, [body.tensor]),), op.source)
    return tensor if op is tensor.op else outputs(op)[0]


@dataclass(frozen=True)
class PerformanceEstimate:
    """Counts of one run, numbers or polynomials of the sizes.

    Attributes:
        iterations, multiplications: as in `Work`.
        memory: elements of all tensors stored on the way (`Work.elements`).
    """

    iterations: Count
    multiplications: Count
    memory: Count

    def as_tuple(self) -> tuple[Count, Count, Count]:
        """(iterations, multiplications, memory)."""
        return (self.iterations, self.multiplications, self.memory)


def estimate_performance(
    tensors: Tensor | Sequence[Tensor], param_values: Mapping[str, int] | None = None
) -> PerformanceEstimate:
    """What the loops behind the tensors do: `work`.

    Args:
        param_values: values of symbolic sizes, by name.
    """
    counted = work(tensors, param_values)
    return PerformanceEstimate(counted.iterations, counted.multiplications, counted.elements)


def check_numerical_grads(
    function: Callable[..., Any],
    input_values: Sequence[np.ndarray],
    grad_values: Sequence[np.ndarray],
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
) -> None:
    """Compare gradients of a NumPy function with central differences, element by element.

    For tensors use `gradcheck`; this checks any function, e.g. a built one.

    Args:
        function: arrays -> a number, or an array that is summed.
        input_values: one array per argument.
        grad_values: the gradient of the sum of the result by each.
        delta: step of the differences.
        atol, rtol: allowed |grad - difference| <= atol + rtol * |difference| (in all elements).
    Raises:
        GradError: the text names the first wrong element.
        DefinitionError: something else is passed, or another number of gradients than inputs.
        ShapeError: a gradient has another shape than its input.
    """
    if not callable(function) or not all(
        isinstance(given, (list, tuple)) for given in (input_values, grad_values)
    ):
        raise DefinitionError(
            "check_numerical_grads takes a function, a list of arrays and a list of gradients.",
            hint="check_numerical_grads(f, [x, w], [dx, dw]); for tensors use gradcheck.",
        )
    if len(input_values) != len(grad_values):
        raise DefinitionError(
            f"{len(input_values)} inputs have {len(grad_values)} gradients.",
            hint="pass one gradient per input.",
        )
    arrays = [np.array(a, dtype=np.asarray(a).dtype) for a in input_values]
    for n, (x, gradient) in enumerate(zip(arrays, grad_values, strict=True)):
        if np.shape(gradient) != x.shape:
            raise ShapeError(
                f"input {n} has shape {format_shape(x.shape)}, its gradient "
                f"{format_shape(np.shape(gradient))}.",
                hint="a gradient has the shape of its input.",
            )
        for where in np.ndindex(*x.shape):
            kept = x[where]
            x[where] = kept + delta
            ahead = float(np.sum(function(*arrays)))
            x[where] = kept - delta
            behind = float(np.sum(function(*arrays)))
            x[where] = kept
            slope, found = (ahead - behind) / (2 * delta), float(np.asarray(gradient)[where])
            if distance(found, slope) > atol + rtol * abs(slope):
                raise GradError(
                    f"{place_text(f'gradient {n}', where)} is {found:.9g}, but the difference "
                    f"quotient is {slope:.9g}.",
                    hint="use float64 and a smaller delta for a closer comparison.",
                )
