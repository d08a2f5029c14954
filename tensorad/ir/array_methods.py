"""What tensors have in common with NumPy's arrays: elements, methods, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Final, NoReturn, Self, overload
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from tensorad.errors import DefinitionError
from tensorad.ir.dtypes import DType
from tensorad.ir.hooks import Hook
from tensorad.ir.node import Node
from tensorad.ir.nodes import Expr

Axes = int | Sequence[int] | None
_OF_VALUES: Final = ("item", "tolist", "numpy", "detach", "cpu", "tobytes", "tofile")
"""What arrays of other libraries are asked for their elements by."""
_OF_ARRAYS: Final = ("item", "tolist", "tobytes", "tofile")
"""Those of them that NumPy's arrays have."""
_INSTEAD: Final = {
    "clip": "topi.clip({0}, low, high)", "copy": "{0}, which never changes",
    "cumprod": "topi.cumprod({0}, axis)", "cumsum": "topi.cumsum({0}, axis)", "dot": "{0} @ other",
    "fill": "topi.full_like({0}, value)", "flatten": "{0}.reshape(-1)", "ravel": "{0}.reshape(-1)",
    "repeat": "topi.repeat({0}, n, axis)", "round": "topi.round({0})",
    "squeeze": "topi.squeeze({0}, axis)", "std": "topi.sqrt(topi.variance({0}, axis))",
    "swapaxes": "{0}.transpose(order)", "take": "topi.take({0}, indices, axis)",
    "var": "topi.variance({0}, axis)",
}  # fmt: skip
"""What to write for methods of arrays that tensors do not have."""

is_tracing: Final[Hook[[], bool]] = Hook("tensorad.ir.arrays.tracing")
read_at: Final[Hook[[Any, tuple[object, ...]], Expr]] = Hook("tensorad.ir.arrays.indexing")
apply: Final[Hook[[Any, tuple[Any, ...]], Any]] = Hook("tensorad.program.kinds.applying")
"""The result of a function that data choose."""
item: Final[Hook[[Any, object], Any]] = Hook("tensorad.te.items")
"""Part of an array, by NumPy's rules."""
rows: Final[Hook[[Any], int]] = Hook("tensorad.te.items")
"""The extent of the leading axis, if it is known."""
places: Final[Hook[[Any], Any]] = Hook("tensorad.te.places")
"""What `x.at` is."""
matmul: Final[Hook[[Any, Any], Any]] = Hook("tensorad.ir.arrays.elementwise")
as_html: Final[Hook[[Any], str]] = Hook("tensorad.display.html")
as_latex: Final[Hook[[Any], str]] = Hook("tensorad.display.latex")
method: Final[Hook[Concatenate[str, ...], Any]] = Hook("tensorad.topi.methods")
elements: Final[Hook[[Any], np.ndarray | None]] = Hook("tensorad.levels.looking")
"""The elements, if they follow from arrays alone."""
checked_elements: Final[Hook[[Any, str], np.ndarray | None]] = Hook("tensorad.levels.looking")
"""The same for a purpose that knows nothing of tangents."""
looked_at: Final[WeakKeyDictionary[Any, WeakSet[Any]]] = WeakKeyDictionary()
"""Tensors whose `str` has elements, if they are known, in place of a formula; with each those that
are computed beside it."""


class ArrayMethods(Node):
    """Base of tensors.

    In a program that is being traced, tensors are also indexed, iterated over and compared as
    arrays; in a formula, and elsewhere, an index reads one element.
    """

    if TYPE_CHECKING:

        @property
        def dtype(self) -> DType:
            """What its elements are."""

        @property
        def name(self) -> str:
            """How texts call it."""

        @property
        def described(self) -> str:
            """How errors show it."""

    @property
    def is_function(self) -> bool:
        """Whether it stands for a function that data choose."""
        return self.dtype.is_function

    @overload
    def __getitem__(self, indices: Expr | tuple[Expr | int | None, ...]) -> Expr: ...
    @overload
    def __getitem__(self, indices: object) -> Any: ...
    def __getitem__(self, indices: Any) -> Any:
        if is_tracing.call():
            return item.call(self, indices)
        return read_at.call(self, indices if isinstance(indices, tuple) else (indices,))

    def __call__(self, *indices: Any) -> Any:
        """An element; of a function that data choose, its result."""
        if self.is_function:
            return apply.call(self, indices)
        return read_at.call(self, indices)

    def __len__(self) -> int:
        if is_tracing.call():
            return rows.call(self)
        self._not_a_sequence()

    def __iter__(self) -> Iterator[Any]:
        if is_tracing.call():
            return iter([item.call(self, n) for n in range(rows.call(self))])
        self._not_a_sequence()

    def _not_a_sequence(self) -> NoReturn:
        raise DefinitionError(
            f"tensor {self.name} cannot be iterated over: it is a formula, not an array.",
            hint="read elements with indices, X[i, j], or sum over a reduce_axis.",
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = checked_elements.call(self, "NumPy")
        if found is not None:
            return found.astype(dtype or found.dtype, copy=copy is not False)
        raise DefinitionError(
            f"tensor {self.name} has no elements for NumPy: it is a formula, not an array.",
            where=self.described,
            hint="use tensorad's functions of tensors (topi.stack, ta.select); an array that meets "
            "one is a tensor, too: ta.const(array). For its elements, evaluate it.",
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What arrays have, if the elements are known; Python adds a name like it otherwise."""
            if name.startswith("_") or name in ("op", "index", "shape", "dtype"):
                raise AttributeError(name, name=name, obj=self)  # of a tensor that is being made
            hint = ""
            found = checked_elements.call(self, name) if name in _OF_ARRAYS else None
            if found is not None:
                return getattr(found, name)
            if name in _OF_VALUES:
                hint = ": it is a formula and has no value yet; return it, or ta.evaluate it"
            elif name in _INSTEAD:
                hint = f": write {_INSTEAD[name].format(self.name)}"
            raise AttributeError(
                f"tensor {self.name} has no attribute {name}{hint}", name=name, obj=self
            )

    def _number(self: Any, purpose: str) -> Any:
        """The only element; None if it is not known, or there are axes."""
        return None if self.shape else checked_elements.call(self, purpose)

    def __int__(self) -> int:
        found = self._number("int()")
        return super().__int__() if found is None else int(found)

    def __float__(self) -> float:
        found = self._number("float()")
        return super().__float__() if found is None else float(found)

    def _no_number(self, name: str) -> NoReturn:
        raise DefinitionError(
            f"{name} needs a number, but tensor {self.name} is a formula.",
            where=self.described,
            hint="use the functions of tensorad (ta.exp, topi.round, .astype), or compute it with "
            "evaluate.",
        )

    def _element(self: Any) -> Any:
        """The same for a choice of Python's, which has no derivative."""
        return None if self.shape else elements.call(self)

    def __bool__(self) -> bool:
        found = self._element()
        if found is not None:
            return bool(found)
        if is_tracing.call():
            raise DefinitionError(
                f"tensor {self.name} has no truth value while a program is traced: its elements "
                "are not known yet.",
                where=self.described,
                hint="branch with ta.cond and repeat with ta.while_loop (reduce by .all() or "
                ".any() first); choose elements with ta.select(c, a, b); an argument that Python "
                "decides by is static (static_argnames of ta.function).",
            )
        raise DefinitionError(
            f"tensor {self.name} has no truth value: it is a formula, not an array.",
            hint="compare tensors with `is`; build conditions with select, &, | and ~.",
        )

    def __index__(self) -> int:
        found = self._element()
        if found is not None and found.dtype.kind != "f":
            return int(found)
        raise DefinitionError(
            f"a Python index or range() needs a number, but tensor {self.name} is a formula.",
            where=self.described,
            hint=f"repeat with ta.for_loop(0, {self.name}, ...); a list that is read there is a "
            "tensor, A = ta.const(list).",
        )

    def __contains__(self, value: object) -> bool:
        if is_tracing.call():
            raise DefinitionError(
                f"`in` needs elements, but tensor {self.name} is a formula: they are not known "
                "yet.",
                where=self.described,
                hint=f"compare and reduce: topi.equal({self.name}, value).any().",
            )
        self._not_a_sequence()

    def __format__(self, spec: str) -> str:
        found = self._number("a format") if spec else None
        if found is not None:
            return format(found.item(), spec)
        if spec:
            raise DefinitionError(
                f"the format {spec!r} needs a number, but tensor {self.name} is a formula: it has "
                "no value yet.",
                where=self.described,
                hint="return it and print what the call gives; without a format its formula is "
                "written.",
            )
        return str(self)

    def __setitem__(self, indices: object, value: object) -> NoReturn:
        hint = "define a new tensor with compute, or use scatter."
        if is_tracing.call():
            hint = f"make a new tensor: {self.name} = {self.name}.at[...].set(value)."
        raise DefinitionError(
            f"tensor {self.name} cannot be assigned to: tensors are defined once.", hint=hint
        )

    __hash__ = Node.__hash__

    def __eq__(self, other: object) -> bool:
        if self is not other and is_tracing.call():
            self._no_comparison("==", "equal")
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        if is_tracing.call():
            self._no_comparison("!=", "not_equal")
        return NotImplemented

    def _no_comparison(self, operator: str, function: str) -> NoReturn:
        raise DefinitionError(
            f"{operator} of a tensor is about the object, not its elements.",
            where=self.name,
            hint=f"compare elements by topi.{function}(X, Y), or in a formula, "
            f"X[i, j] {operator} Y[i, j]; objects by `is`.",
        )

    @property
    def T(self) -> Self:
        """The axes in reverse order."""
        return self._made("transpose", None)

    @property
    def size(self) -> Any:
        """The number of elements: an integer, or an expression of sizes."""
        return method.call("size", self)

    @property
    def at(self) -> Any:
        """Copies with other elements at some places: `x.at[i].set(v)`; see `Places`."""
        return places.call(self)

    def reshape(self, *shape: Any, order: str = "C") -> Self:
        """The elements in row-major order in another shape; one extent may be -1."""
        return self._made("reshape", shape, order)

    def transpose(self, *axes: Any) -> Self:
        """The axes in another order; in reverse order without arguments."""
        return self._made("transpose", *axes)

    def sum(
        self, axis: Axes = None, dtype: object = None, out: None = None, keepdims: bool = False
    ) -> Self:
        """The sum along `axis` (all axes: None); `dtype` as in `topi.sum`."""
        return self._made("sum", axis, out, keepdims=keepdims, dtype=dtype)

    def prod(
        self, axis: Axes = None, dtype: object = None, out: None = None, keepdims: bool = False
    ) -> Self:
        """The product along `axis`; `dtype` as in `topi.prod`."""
        return self._made("prod", axis, out, keepdims=keepdims, dtype=dtype)

    def mean(
        self, axis: Axes = None, dtype: object = None, out: None = None, keepdims: bool = False
    ) -> Self:
        """The mean along `axis`, made in `dtype` if that is given."""
        return self._made("mean", axis, out, keepdims=keepdims, dtype=dtype)

    def max(self, axis: Axes = None, out: None = None, keepdims: bool = False) -> Self:
        """The maximum along `axis`; NaN propagates; the gradient goes to the first one."""
        return self._made("max", axis, out, keepdims=keepdims)

    def min(self, axis: Axes = None, out: None = None, keepdims: bool = False) -> Self:
        """The minimum along `axis`; NaN propagates; the gradient goes to the first one."""
        return self._made("min", axis, out, keepdims=keepdims)

    def argmax(self, axis: Axes = None, out: None = None, keepdims: bool = False) -> Self:
        """The int64 row-major position of the first maximum over the axes."""
        return self._made("argmax", axis, out, keepdims=keepdims)

    def argmin(self, axis: Axes = None, out: None = None, keepdims: bool = False) -> Self:
        """The int64 row-major position of the first minimum over the axes."""
        return self._made("argmin", axis, out, keepdims=keepdims)

    def any(self, axis: Axes = None, out: None = None, keepdims: bool = False) -> Self:
        """Whether an element along `axis` is not 0."""
        return self._made("any", axis, out, keepdims=keepdims)

    def all(self, axis: Axes = None, out: None = None, keepdims: bool = False) -> Self:
        """Whether no element along `axis` is 0."""
        return self._made("all", axis, out, keepdims=keepdims)

    def generate_add_delta(self, adjoints: Any, delta: Any) -> None:
        """In `generate_adjoints`: add to the adjoint of this argument; see `Operator`."""
        adjoints.add_delta(self, delta)

    add_delta = generate_add_delta

    def _made(self, name: str, *given: Any, **named: Any) -> Self:
        made: Self = method.call(name, self, *given, **named)
        return made

    def __matmul__(self, other: object) -> Self:
        made: Self = matmul.call(self, other)
        return made

    def __rmatmul__(self, other: object) -> Self:
        made: Self = matmul.call(other, self)
        return made

    def _repr_html_(self) -> str:
        return as_html.call(self)

    def _repr_latex_(self) -> str:
        return f"${as_latex.call(self)}$"
