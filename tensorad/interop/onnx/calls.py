"""One node with its values and attributes, as functions of operators take it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorad.errors import OnnxError
from tensorad.interop.onnx.arrays import array_of
from tensorad.interop.onnx.structure import Node
from tensorad.interop.onnx.values import Array, Known, Parameter, Value, as_tensor
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Shape, Tensor
from tensorad.topi.arguments import shown


class Call:
    """A node that is imported.

    Attributes:
        node: what the file says; `version`: the one that gave the operator its meaning.
        values: its inputs; None where one is left out.
    """

    def __init__(
        self, node: Node, version: int, values: Sequence[Value | None], folder: str | None = None
    ) -> None:
        self.node = node
        self.version = version
        self.values = tuple(values)
        self._folder = folder

    # inputs

    def has(self, n: int) -> bool:
        """Whether input n is there."""
        return n < len(self.values) and self.values[n] is not None

    def value(self, n: int) -> Value:
        """Input n, as it is.

        Raises:
            OnnxError: it is left out.
        """
        found = self.values[n] if n < len(self.values) else None
        if found is None:
            raise OnnxError(f"it needs its input {n}.")
        return found

    def tensor(self, n: int) -> Tensor:
        """Input n as a tensor."""
        return as_tensor(self.value(n))

    def optional(self, n: int) -> Tensor | None:
        """Input n as a tensor; None if it is left out."""
        return self.tensor(n) if self.has(n) else None

    def tensors(self) -> list[Tensor]:
        """All inputs as tensors."""
        return [self.tensor(n) for n in range(len(self.values))]

    def shape(self, n: int) -> Shape:
        """The extents of input n."""
        return self.value(n).shape

    def dtype(self, n: int) -> DType:
        """The dtype of input n."""
        return self.value(n).dtype

    def known(self, n: int) -> Known:
        """Input n, which has to be known while importing; an initialiser then is no parameter.

        Raises:
            OnnxError: it is computed in calls.
        """
        value = self.value(n)
        if isinstance(value, Parameter):
            value.is_fixed = True
            return Known(value.array)
        if isinstance(value, Known):
            return value
        raise OnnxError(
            f"its input {n}, {shown(self.node.inputs[n])}, decides about shapes, but is computed "
            "from data.",
            hint="give a model input a value while importing: load(path, constants={name: array}).",
        )

    def numbers(self, n: int) -> Array:
        """Input n, which has to be known, as an array without sizes.

        Raises:
            OnnxError: it is computed in calls, or depends on sizes.
        """
        value = self.known(n)
        if value.is_symbolic:
            raise OnnxError(
                f"its input {n}, {shown(self.node.inputs[n])}, depends on sizes.",
                hint="give numbers for them: load(path, sizes={...}).",
            )
        return value.array

    def extents(self, n: int) -> tuple[Dim, ...]:
        """Input n, which has to be known, as integers and expressions of sizes.

        Raises:
            OnnxError: it is computed in calls, or has several axes.
        """
        value = self.known(n)
        if value.array.ndim > 1 or not value.dtype.is_integer:
            raise OnnxError(f"its input {n} must be a list of integers.")
        return tuple(value.array.reshape(-1).tolist())

    def whole(self, n: int) -> tuple[int, ...]:
        """Input n, which has to be known, as integers.

        Raises:
            OnnxError: it is computed in calls, depends on sizes, or is no list of integers.
        """
        self.numbers(n)
        return tuple([int(k) for k in self.extents(n) if not isinstance(k, Expr)])

    def setting(self, n: int) -> float | None:
        """Input n as a number if it is a known one; an initialiser then is no parameter."""
        value = self.value(n)
        if isinstance(value, Tensor) or value.array.size != 1:
            return None
        known = self.known(n)
        return None if known.is_symbolic else known.array.item()

    # attributes

    def attribute(self, name: str) -> Any:
        """An attribute as the file has it; None if it is left out."""
        found = self.node.attributes.get(name)
        return None if found is None else found.value

    def integer(self, name: str, default: int) -> int:
        """An attribute that is an integer."""
        found = self.attribute(name)
        return default if found is None else int(found)

    def flag(self, name: str, default: bool) -> bool:
        """An attribute that is 0 or 1.

        Raises:
            OnnxError: it is another number.
        """
        found = self.integer(name, int(default))
        if found not in (0, 1):
            raise OnnxError(f"attribute {shown(name)} must be 0 or 1, not {found}.")
        return bool(found)

    def number(self, name: str, default: float) -> float:
        """An attribute that is a float."""
        found = self.attribute(name)
        return default if found is None else float(found)

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...] | None:
        """An attribute that is a list of integers."""
        found = self.attribute(name)
        if found is None:
            return None if default is None else tuple(default)
        return tuple([int(n) for n in found])

    def word(self, name: str, default: str, words: Sequence[str] = ()) -> str:
        """An attribute that is a word, one of `words`.

        Raises:
            OnnxError: it is another one.
        """
        found = self.attribute(name)
        word = default if found is None else str(found)
        if words and word not in words:
            raise OnnxError(
                f"attribute {shown(name)} is {shown(word)}, not one of {', '.join(words)}."
            )
        return word

    def array(self, name: str) -> Array:
        """An attribute that is a tensor."""
        return array_of(self.attribute(name), f"attribute {shown(name)}", self._folder)

    @property
    def outputs(self) -> int:
        """The number of outputs, up to the last one that is wanted."""
        return len(self.node.outputs)

    def wants(self, n: int) -> bool:
        """Whether output n has a name."""
        return n < len(self.node.outputs) and bool(self.node.outputs[n])


def axis_of(axis: int, ndim: int) -> int:
    """An axis number in [0, ndim); negative ones count from the end.

    Raises:
        OnnxError: it is out of range.
    """
    if not -ndim <= axis < ndim:
        raise OnnxError(f"axis {axis} is out of range for {ndim} axes.")
    return axis % ndim
