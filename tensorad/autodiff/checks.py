"""What derivatives ask of their arguments, in the user's names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorad.errors import DTypeError, GradError, ShapeError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.tensor import Shape, Tensor, format_shape


def check_output(y: object) -> None:
    """y is a float tensor."""
    if not isinstance(y, Tensor):
        raise GradError(
            f"only a tensor can be differentiated, got {type(y).__name__}.",
            hint="pass the tensor that compute returned, or a list of tensors.",
        )
    if not y.dtype.is_float:
        raise DTypeError(
            f"{y.name} has dtype {y.dtype}: integers and booleans have no derivative.",
            hint="convert with .astype('float32') before differentiating.",
        )


def check_outputs(y: object) -> Tensor | list[Tensor]:
    """A float tensor, or several distinct tensors with a float one among them."""
    if not isinstance(y, (list, tuple)):
        check_output(y)
        return y  # type: ignore[return-value]  # checked
    for t in y:
        if not isinstance(t, Tensor):
            raise GradError(
                f"only tensors can be differentiated, got {type(t).__name__}.",
                hint="pass the tensors that compute returned.",
            )
    if not any(t.dtype.is_float for t in y):
        raise GradError(
            "there is no float tensor among the outputs.",
            hint="integers and booleans have no derivative.",
        )
    names: dict[Tensor, None] = {}
    for t in y:
        if t in names:
            raise GradError(f"{t.name} stands twice in the outputs.", hint="name each once.")
        names[t] = None
    return list(y)


def check_wrt(wrt: object) -> list[Tensor]:
    """Distinct float tensors, at least one."""
    if isinstance(wrt, Tensor) or not isinstance(wrt, Iterable):
        wrt = [wrt]
    tensors: dict[Tensor, None] = {}
    for x in wrt:
        if not isinstance(x, Tensor):
            raise GradError(
                f"cannot differentiate by a {type(x).__name__}; wrt holds tensors.",
                hint="pass the placeholders or intermediate tensors themselves.",
            )
        if not x.dtype.is_float:
            raise DTypeError(
                f"cannot differentiate by {x.name} of dtype {x.dtype}: "
                "integers and booleans have no derivative.",
                hint="leave it out of wrt.",
            )
        if x in tensors:
            raise GradError(f"{x.name} stands twice in wrt.", hint="name each tensor once.")
        tensors[x] = None
    if not tensors:
        raise GradError("wrt is empty.", hint="name at least one tensor to differentiate by.")
    return list(tensors)


def check_head_shape(y: Tensor, head: Tensor) -> None:
    """The head's last axes are those of y."""
    last = head.shape[head.ndim - y.ndim :] if head.ndim >= y.ndim else ()
    fits = head.ndim >= y.ndim and all(same_dim(a, b) for a, b in zip(last, y.shape, strict=True))
    if not fits:
        raise ShapeError(
            f"the head has shape {format_shape(head.shape)}, but {y.name} has shape "
            f"{format_shape(y.shape)}.",
            hint="a head has the output's shape, after any extra leading axes.",
        )
    if not head.dtype.is_float:
        raise DTypeError(
            f"the head has dtype {head.dtype}; it must be a float.",
            hint="use placeholder(shape, dtype='float32').",
        )


def leading_axes(kind: str, given: Sequence[tuple[Tensor, Tensor | float]]) -> Shape:
    """The extra leading axes that the heads (or tangents) of several tensors share.

    Args:
        kind: "head" or "tangent".
        given: each tensor with its head; numbers have no axes of their own.
    Raises:
        ShapeError: they differ.
    """
    lead = [(t, h) for t, h in given if isinstance(h, Tensor)]
    batch: Shape = ()
    for n, (t, h) in enumerate(lead):
        own = h.shape[: h.ndim - t.ndim]
        if n and not (len(own) == len(batch) and all(map(same_dim, own, batch))):
            raise ShapeError(
                f"the {kind}s of {lead[0][0].name} and {t.name} have different leading axes "
                f"{format_shape(batch)} and {format_shape(own)}.",
                hint=f"all {kind}s of one call share their extra leading axes.",
            )
        batch = own
    return batch
