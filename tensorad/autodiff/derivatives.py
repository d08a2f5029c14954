"""Jacobians in the cheaper mode, Hessians, and Hessians times vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, overload

from tensorad.autodiff.adjoints.adjoint import Adjoint, zeros
from tensorad.autodiff.adjoints.told import returned
from tensorad.autodiff.checks import check_fw_mode, check_output, check_wrt
from tensorad.autodiff.control.missing import check_complete
from tensorad.autodiff.counting.cost import cost
from tensorad.autodiff.counting.dense import note_jacobian
from tensorad.autodiff.forward import Direction, Push, jvp
from tensorad.autodiff.jacobian import direct_jacobian
from tensorad.autodiff.local.flows import derivation_inputs, stopped_in_one_mode
from tensorad.autodiff.local.flows import derivation_order as order_of
from tensorad.autodiff.local.overrides import Override, check_override
from tensorad.autodiff.provenance import remember
from tensorad.autodiff.reverse import vjp
from tensorad.autodiff.row_by_row import goes_one_by_one, jacobian_by_rows
from tensorad.errors import GradError, ShapeError
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import const, logical_and, select
from tensorad.ir.tensor import Compute, Tensor, format_shape, outputs
from tensorad.ir.visit import copy_bodies

_MODES: Final = ("reverse", "forward")


def jacobian(
    y: Tensor,
    x: Tensor,
    optimize: bool = True,
    *,
    mode: str | None = None,
    override: Override | None = None,
) -> Tensor:
    """d y[i...] / d x[j...] as a tensor of shape y.shape + x.shape.

    Args:
        y: float tensor.
        x: an input or intermediate, float.
        optimize: off (and x read directly by y): the definition as it stands, deltas and all,
            see `direct_jacobian`; it takes neither `mode` nor `override`.
        mode: "reverse" (adjoints of every y[i]), "forward" (tangents along every x[j]), or None:
            the one whose loops do fewer iterations, multiplications and stores, counted; reverse
            on a tie, and uncounted where at most one operation lies between x and y, or where
            `stop_gradient` stops one mode only. Symbolic sizes count as 16. Through records and
            functions that call themselves: the one with fewer directions, one after the other.
        override: see `vjp`.
    Raises:
        GradError: y does not read x directly, or a mode or rules are given, with `optimize` off;
            an unknown mode; the arguments `vjp` refuses.
    """
    check_output(y)
    (x,) = check_wrt([x])
    if mode is not None and mode not in _MODES:
        raise GradError(f"{mode!r} is no mode.", hint='use mode="reverse", "forward" or None.')
    if not optimize:
        if check_override(override) or mode is not None:
            raise GradError(
                f"optimize=False takes no {'override' if mode is None else 'mode'}: it writes down "
                f"the reads of {x.name} in the formula of {y.name}.",
                hint="leave out optimize=False, or what is given beside it.",
            )
        return direct_jacobian(y, x, optimize=False)
    if goes_one_by_one(y, x, override):
        each = partial(jacobian_by_rows, y, x, mode, override)
        return remember([each()], [y], [x], lambda: [each()])[0]
    if mode is None and (not _has_stages(y, x, override) or stopped_in_one_mode([y])):
        mode = "reverse"
    made: dict[str, Tensor] = {}
    if mode in (None, "reverse"):
        made["reverse"] = vjp(y, [x], override=override)[0]
    if mode in (None, "forward"):
        made["forward"] = _forward_jacobian(y, x, override)
    counts = {m: cost([t]) for m, t in made.items()} if mode is None else {}
    best = min(counts, key=lambda m: counts[m]) if mode is None else mode
    if counts:
        steps = [f"{n:,} in {m} mode" for m, n in counts.items()]
        why = f"iterations, multiplications and stores: {', '.join(steps)}"
        note(Decision((x,), f"{best} mode", why, result=made[best]))
    result = made[best]
    if not counts and best == "reverse":
        return result
    again = partial(jacobian, y, x, mode=mode, override=override)
    return remember([result], [y], [x], lambda: [again()])[0]


def _has_stages(y: Tensor, x: Tensor, override: Override | None) -> bool:
    """Whether derivatives pass through more than one operation between x and y."""
    rules = check_override(override)
    active: dict[Tensor, None] = {x: None}
    count = 0
    for op in order_of([y], rules):
        if any(t in active for t in derivation_inputs(op, rules)):
            active.update(dict.fromkeys(outputs(op)))
            count += 1
    return count > 1


def _forward_jacobian(y: Tensor, x: Tensor, override: Override | None) -> Tensor:
    """The tangents of y along every element of x, x's axes last."""
    batch, own = compute_axes(x.shape), compute_axes(x.shape)
    same = logical_and(*[b == o for b, o in zip(batch, own, strict=True)])
    unit = Adjoint((*batch, *own), select(same, const(1, x.dtype), const(0, x.dtype)))
    push = Push({x: unit}, x.shape, check_override(override))
    check_complete([y], [x], push.rules)
    push.run_order([y])
    name = f"d{x.name}"
    tangent = push.tangents.get(y)
    if tangent is None:
        result = zeros(name, (*y.shape, *x.shape), x)
    else:
        found = [_own_axes_first(name, tangent, x.ndim)]
        (result,) = returned(found, push.tidied(found), push.order)
    note_jacobian([result], [(y, None)])
    return result


def _own_axes_first(name: str, tangent: Adjoint, n_batch: int) -> Tensor:
    axes, body = tangent.formula()
    fresh, bodies = copy_bodies((*axes[n_batch:], *axes[:n_batch]), (body,))
    return outputs(Compute(name, fresh, bodies))[0]


@overload
def hessian(
    y: Tensor,
    x: Tensor,
    *,
    mode: str | None = None,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> Tensor: ...
@overload
def hessian(
    y: Tensor,
    x: Sequence[Tensor],
    *,
    mode: str | None = None,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> list[list[Tensor]]: ...
def hessian(
    y: Tensor,
    x: Tensor | Sequence[Tensor],
    *,
    mode: str | None = None,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> Any:
    """d2 y / d x d x of a 0-d y: shape x.shape + x.shape.

    Args:
        y: a 0-d float tensor.
        x: a tensor, or several: then block [i][j] has shape x[i].shape + x[j].shape.
        mode: how the gradient is differentiated again: see `jacobian`.
        fw_mode: the same as a flag: True is mode="forward", False mode="reverse".
        override: see `vjp`; used for both derivatives.
    Raises:
        ShapeError: y has axes.
        GradError: the arguments `vjp` refuses; both `mode` and `fw_mode` are given.
    """
    if check_fw_mode(fw_mode) is not None:
        if mode is not None:
            raise GradError(
                f"hessian was given both mode={mode!r} and fw_mode={fw_mode!r}.",
                hint="both say how the gradient is differentiated again: leave one out.",
            )
        mode = "forward" if fw_mode else "reverse"
    tensors = check_wrt(x)
    gradients = _gradients(y, tensors, "hessian", override)
    blocks = [[jacobian(g, u, mode=mode, override=override) for u in tensors] for g in gradients]
    return blocks[0][0] if isinstance(x, Tensor) else blocks


@overload
def hvp(
    y: Tensor,
    x: Tensor,
    v: Direction,
    *,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> Tensor: ...
@overload
def hvp(
    y: Tensor,
    x: Sequence[Tensor],
    v: Sequence[Direction],
    *,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> list[Tensor]: ...
def hvp(
    y: Tensor,
    x: Any,
    v: Any,
    *,
    fw_mode: bool | None = None,
    override: Override | None = None,
) -> Any:
    """The Hessian of a 0-d y times v: the derivative of the gradient along v; shape of x.

    Args:
        y: a 0-d float tensor.
        x: a tensor, or several (the Hessian by all of them together).
        v: shape (*batch, *x.shape), an array or a number; for several x a list.
        fw_mode: how the gradient is differentiated along v: see `jvp`.
        override: see `vjp`; used for both derivatives.
    Returns:
        shape (*batch, *x.shape); for several x a list.
    Raises:
        ShapeError: y has axes, or v's shape does not end in x's.
        GradError: another number of vectors than tensors.
    """
    tensors = check_wrt(x)
    directions = [v] if isinstance(x, Tensor) else v
    if not isinstance(directions, (list, tuple)) or len(directions) != len(tensors):
        given = len(directions) if isinstance(directions, (list, tuple)) else type(v).__name__
        raise GradError(
            f"hvp by {len(tensors)} tensors needs {len(tensors)} vectors, got {given}.",
            hint="pass a list with one vector per tensor.",
        )
    gradients = _gradients(y, tensors, "hvp", override)
    along = dict(zip(tensors, directions, strict=True))
    made = jvp(gradients, along, fw_mode=fw_mode, override=override)
    return made[0] if isinstance(x, Tensor) else made


def _gradients(
    y: Tensor, tensors: list[Tensor], name: str, override: Override | None
) -> list[Tensor]:
    check_output(y)
    if y.shape:
        raise ShapeError(
            f"{name} needs a 0-d tensor, but {y.name} has shape {format_shape(y.shape)}.",
            hint="sum it first, e.g. compute((), lambda: ta.sum(Y[k], axis=k)).",
        )
    return vjp(y, tensors, override=override)
