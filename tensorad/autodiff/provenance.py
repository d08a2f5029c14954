"""Where a derivative came from: kept weakly, so that it can be derived again and explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tensorad.ir.tensor import Tensor


@dataclass(frozen=True, eq=False)
class Derivation:
    """How one derivative was asked for.

    Attributes:
        outputs: what was differentiated.
        wrt: by which tensors.
        position: which of the derivatives it is: by tensors in reverse mode, of outputs along
            directions.
        again: derives all of them once more (the same formulas over fresh axes).
        along: whether `wrt` move along given directions, all of them together.
    """

    outputs: tuple[Tensor, ...]
    wrt: tuple[Tensor, ...]
    position: int
    again: Callable[[], Sequence[Tensor]]
    along: bool = False

    @property
    def about(self) -> Tensor:
        """The tensor whose adjoint or tangent it is."""
        return self.outputs[0] if self.along else self.wrt[self.position]


_derivations: WeakKeyDictionary[Tensor, Derivation] = WeakKeyDictionary()


def remember(
    results: list[Tensor],
    outputs: Sequence[Tensor],
    wrt: Sequence[Tensor],
    again: Callable[[], Sequence[Tensor]],
) -> list[Tensor]:
    """Note where the results came from, one per tensor of `wrt`; returns them."""
    for n, t in enumerate(results):
        _derivations[t] = Derivation(tuple(outputs), tuple(wrt), n, again)
    return results


def remember_along(
    results: list[Tensor],
    outputs: Sequence[Tensor],
    wrt: Sequence[Tensor],
    again: Callable[[], Sequence[Tensor]],
) -> list[Tensor]:
    """Note that the results are the outputs' derivatives along directions; returns them."""
    for n, (t, y) in enumerate(zip(results, outputs, strict=True)):
        _derivations[t] = Derivation((y,), tuple(wrt), n, again, along=True)
    return results


def derivation(t: Tensor) -> Derivation | None:
    """How a derivative was asked for; None for a tensor that is none."""
    return _derivations.get(t)
