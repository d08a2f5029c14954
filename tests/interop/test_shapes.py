"""Shapes of outputs by those of inputs, without building."""

from __future__ import annotations

import pytest

import tensorad as ta
from tensorad.errors import BindError, DefinitionError, ShapeError

N, M = ta.size("n"), ta.size("m")
X = ta.placeholder((N, 2 * M + 1), name="X")
W = ta.placeholder((M + N, 3), name="W")
Y = ta.compute((N // 2, M * 3), lambda i, j: X[i, j % 2] + W[j % 2, 0], name="Y")


class Counted:
    """An integer of another library: it says what was done to it."""

    def __init__(self, value: int, text: str) -> None:
        self.value, self.text = value, text

    def _with(self, op: str, other: object, value: int) -> Counted:
        return Counted(value, f"({self.text} {op} {getattr(other, 'text', other)})")

    def __sub__(self, other: int) -> Counted:
        return self._with("-", other, self.value - other)

    def __add__(self, other: int | Counted) -> Counted:
        return self._with("+", other, self.value + getattr(other, "value", other))  # type: ignore[operator]

    __radd__ = __add__

    def __mul__(self, other: int) -> Counted:
        return self._with("*", other, self.value * other)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> Counted:
        return self._with("//", other, self.value // other)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == getattr(other, "value", other))

    def __hash__(self) -> int:
        return hash(self.value)


def test_on_numbers() -> None:
    assert ta.output_shapes([Y], {X: (5, 9), W: (9, 3)}) == [(2, 12)]
    assert ta.output_shapes([Y, W], {X: [4, 1], W: (4, 3)}) == [(2, 0), (4, 3)]
    both = ta.placeholder((N, 3 * N + M), name="both")
    assert ta.output_shapes([Y], {both: (4, 17)}) == [(2, 15)]


def test_on_integers_of_other_libraries() -> None:
    n, m = Counted(5, "n"), Counted(9, "k")
    (shape,) = ta.output_shapes([Y], {X: (n, m)})
    assert [e.value for e in shape] == [2, 12]
    assert [e.text for e in shape] == ["(n // 2)", "(((k - 1) // 2) * 3)"]


def test_what_does_not_fit() -> None:
    with pytest.raises(ShapeError) as refused:
        ta.output_shapes([Y], {X: (5, 9), W: (8, 3)})
    assert str(refused.value) == (
        "W has shape (8, 3), which is none of its shapes where m = 4, n = 5.\n"
        "  in: W : float32 (m + n, 3)\n  hint: inputs that share a symbolic size must agree on it."
    )
    with pytest.raises(ShapeError, match=r"X has shape \(5,\), which is none of its shapes"):
        ta.output_shapes([Y], {X: (5,)})
    with pytest.raises(ShapeError, match=r"X has shape \(5, 8\)"):
        ta.output_shapes([Y], {X: (5, 8)})
    with pytest.raises(BindError, match="size n is not determined by the shapes"):
        ta.output_shapes([Y], {})
    with pytest.raises(DefinitionError, match="needs a dict from tensors to shapes, got list"):
        ta.output_shapes([Y], [(5, 9)])  # type: ignore[arg-type]
