"""Types: as they stand in texts, and as values have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import DTYPES, DType
from tensorad.ir.tensor import Dim, Shape, format_shape

DTYPE_NAMES: Final[Mapping[str, DType]] = {str(d): d for d in DTYPES}


@dataclass(frozen=True)
class TensorText:
    """`float32[5, n]`, `t[*s]`: names stand for a dtype, an extent, with a star for a shape."""

    dtype: str
    extents: tuple[int | str, ...]


@dataclass(frozen=True)
class TupleText:
    """`(a, b)`, `()`."""

    parts: tuple[TypeText, ...]


@dataclass(frozen=True)
class FunctionText:
    """`fn (a, b) -> c`."""

    params: tuple[TypeText, ...]
    result: TypeText


@dataclass(frozen=True)
class RefText:
    """`ref(a)`."""

    content: TypeText


@dataclass(frozen=True)
class NamedText:
    """A tagged sum; any other name stands for a type."""

    name: str


TypeText = TensorText | TupleText | FunctionText | RefText | NamedText


def type_text(t: TypeText) -> str:
    """The text of a type."""
    match t:
        case TensorText():
            return f"{t.dtype}[{', '.join(map(str, t.extents))}]"
        case TupleText():
            return tuple_text([type_text(p) for p in t.parts])
        case FunctionText():
            return f"fn ({', '.join([type_text(p) for p in t.params])}) -> {type_text(t.result)}"
        case RefText():
            return f"ref({type_text(t.content)})"
        case NamedText():
            return t.name


def tuple_text(parts: Sequence[str]) -> str:
    """(a,) or (a, b)."""
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


@dataclass(frozen=True)
class TensorType:
    """A dtype and a shape."""

    dtype: DType
    shape: Shape

    def __str__(self) -> str:
        return f"{self.dtype}[{format_shape(self.shape)[1:-1].rstrip(',')}]"


@dataclass(frozen=True)
class TupleType:
    """Types of the parts; that of () has none."""

    parts: tuple[Type, ...]

    def __str__(self) -> str:
        return tuple_text([str(p) for p in self.parts])


@dataclass(frozen=True)
class FunctionType:
    """Of a function that takes arguments of these types, whatever it captures."""

    params: tuple[Type, ...]
    result: Type

    def __str__(self) -> str:
        return f"fn ({', '.join(map(str, self.params))}) -> {self.result}"


@dataclass(frozen=True)
class RefType:
    """Of a reference."""

    content: Type

    def __str__(self) -> str:
        return f"ref({self.content})"


@dataclass(frozen=True)
class SumType:
    """A tagged sum by its name."""

    name: str

    def __str__(self) -> str:
        return self.name


class OpenType:
    """Of one function whose types follow from its arguments: files above say what it holds."""


Type = TensorType | TupleType | FunctionType | RefType | SumType | OpenType
Meaning = DType | Dim | Shape | Type
"""What a name in a type stands for."""


def same_type(a: Type, b: Type) -> bool:
    """Whether types agree; extents do as formulas."""
    match a, b:
        case TensorType(), TensorType():
            return a.dtype is b.dtype and same_shapes(a.shape, b.shape)
        case TupleType(), TupleType():
            return _all_same(a.parts, b.parts)
        case FunctionType(), FunctionType():
            return _all_same((*a.params, a.result), (*b.params, b.result))
        case RefType(), RefType():
            return same_type(a.content, b.content)
    return a == b


def _all_same(a: Sequence[Type], b: Sequence[Type]) -> bool:
    return len(a) == len(b) and all(map(same_type, a, b))


def same_shapes(a: Shape, b: Shape) -> bool:
    """Whether shapes agree; extents do as formulas."""
    return len(a) == len(b) and all(map(same_dim, a, b))


def dtype_named(name: str, names: Mapping[str, Meaning]) -> DType | None:
    """The dtype that a name stands for."""
    found = DTYPE_NAMES.get(name) or names.get(name)
    return found if isinstance(found, DType) else None


def match_tensor(t: TensorText, dtype: DType, shape: Shape, names: dict[str, Meaning]) -> bool:
    """Whether a tensor is of a type of the text; names that it decides are added."""
    if not _agrees(t.dtype, dtype, names):
        return False
    star = next((n for n, e in enumerate(t.extents) if str(e).startswith("*")), None)
    if star is None:
        return len(shape) == len(t.extents) and all(
            _fits(e, n, names) for e, n in zip(t.extents, shape, strict=True)
        )
    behind = len(t.extents) - star - 1
    if len(shape) < star + behind:
        return False
    middle = shape[star : len(shape) - behind]
    ends = zip((*t.extents[:star], *t.extents[star + 1 :]),
               (*shape[:star], *shape[len(shape) - behind :]), strict=True)  # fmt: skip
    label = str(t.extents[star])[1:]
    known = names.setdefault(label, middle)
    is_same = isinstance(known, tuple) and same_shapes(known, middle)
    return is_same and all(_fits(e, n, names) for e, n in ends)


def _agrees(text: str, dtype: DType, names: dict[str, Meaning]) -> bool:
    if text in DTYPE_NAMES:
        return DTYPE_NAMES[text] is dtype
    return names.setdefault(text, dtype) is dtype


def _fits(extent: int | str, n: Dim, names: dict[str, Meaning]) -> bool:
    wanted = extent if isinstance(extent, int) else names.setdefault(extent, n)
    if isinstance(wanted, (tuple, DType)) or not _is_dim(wanted):
        return False
    return same_dim(wanted, n)  # type: ignore[arg-type]  # a dim, as _is_dim says


def _is_dim(value: object) -> bool:
    return not isinstance(value, (TensorType, TupleType, FunctionType, RefType, SumType, OpenType))
