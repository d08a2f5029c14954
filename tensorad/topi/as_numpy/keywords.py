"""Keywords of NumPy's functions that tensors have no use for, and what to write in their place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorad.errors import DefinitionError, DTypeError
from tensorad.ir.dtypes import to_dtype
from tensorad.ir.tensor import Tensor

_LAYOUT: Final = "leave it out: elements of a formula have no layout and no device."
_KEYWORDS: Final[Mapping[str, str]] = {
    "where": "choose the elements before: np.{name}(np.where(c, X, {neutral})).",
    "initial": "put it in afterwards: {joined}.",
    "correction": "scale it: topi.variance(X, axis) * (n / (n - correction)).",
    "mean": "leave it out: np.{name}(X, axis) computes the mean.",
    "out": "use what is returned: y = np.{name}(...).",
    "dtype": "convert before: np.{name}(X.astype(dtype), ...).",
    "casting": "convert before: np.{name}(X.astype(dtype), ...).",
    "sparse": "expand axes: np.expand_dims(x, 0), np.expand_dims(y, 1).",
    "stat_length": 'make the border and join it: np.concatenate([b, X, b]); topi.pad has modes '
    '"constant", "edge", "reflect" and "wrap".',
    "end_values": 'make the border and join it: np.concatenate([b, X, b]); topi.pad has modes '
    '"constant", "edge", "reflect" and "wrap".',
    "reflect_type": "subtract it: 2 * edge - np.pad(X, n, mode=\"reflect\").",
    "order": _LAYOUT, "subok": _LAYOUT, "device": _LAYOUT, "like": _LAYOUT, "signature": _LAYOUT,
}  # fmt: skip
_NEUTRAL: Final = {
    "sum": "0.0", "prod": "1.0", "max": "-np.inf", "amax": "-np.inf", "min": "np.inf",
    "amin": "np.inf", "any": "False", "all": "True",
}  # fmt: skip
_JOINED: Final = {
    "sum": "np.sum(X) + initial", "prod": "np.prod(X) * initial",
    "max": "np.maximum(np.max(X), initial)", "amax": "np.maximum(np.max(X), initial)",
    "min": "np.minimum(np.min(X), initial)", "amin": "np.minimum(np.min(X), initial)",
}  # fmt: skip
_CHOSEN: Final = {
    "mean": "np.sum(np.where(c, X, 0.0)) / np.sum(c)",
    "var": "write it by sums of np.where(c, X, 0.0), divided by np.sum(c)",
    "std": "write it by sums of np.where(c, X, 0.0), divided by np.sum(c)",
    "clip": "np.where(c, np.clip(X, low, high), Y)",
}
"""What to write for `where` that no neutral element replaces."""


def check_keywords(
    name: str,
    function: Callable[..., Any],
    made: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    where: str,
) -> None:
    """The arguments are some that a function of tensors has.

    Args:
        function: NumPy's; `made`: ours.
        where: the formulas, for the error.
    Raises:
        DefinitionError: one is not, which the error names.
    """
    own = inspect.signature(made).parameters
    if any(p.kind is p.VAR_POSITIONAL for p in own.values()):
        beyond: Sequence[str] = ()
    else:
        beyond = _parameters(function)[sum([p.kind is not p.KEYWORD_ONLY for p in own.values()]) :]
        beyond = beyond[: max(0, len(args) - len(own))]
    for k in (*beyond, *keywords):
        if k not in own:
            raise DefinitionError(
                f"np.{name} of a formula takes no {k}.", where=where, hint=_instead(name, k)
            )


def _parameters(function: Callable[..., Any]) -> Sequence[str]:
    try:
        return list(inspect.signature(function).parameters)
    except ValueError:  # it is NumPy's own code, which tells nothing
        return ()


def _instead(name: str, keyword: str) -> str:
    if keyword == "where" and name in _CHOSEN:
        return f"{_CHOSEN[name]}."
    text = _KEYWORDS.get(keyword, "leave it out.")
    neutral, joined = _NEUTRAL.get(name, "0.0"), _JOINED.get(name, "combine them")
    return text.format(name=name, neutral=neutral, joined=joined)


def check_layout(name: str, *, order: object = "K", device: object = None) -> None:
    """An order and a device that a formula has, because it has none.

    Raises:
        DefinitionError: another one is asked for.
    """
    for keyword, value, known in (
        ("order", order, ("C", "K", "A")),
        ("device", device, (None, "cpu")),
    ):
        if value not in known:
            raise DefinitionError(
                f"np.{name} of a formula has no {keyword} {value!r}.", hint=_LAYOUT
            )


def cast_joined(name: str, x: Tensor, parts: Sequence[Tensor], dtype: Any, casting: str) -> Tensor:
    """What was joined, in another dtype, if its parts may be converted to it.

    Raises:
        DTypeError: they may not, as NumPy says.
    """
    if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
        raise DefinitionError(
            f"np.{name} of a formula has no casting {casting!r}.",
            hint='write "safe", "same_kind" or "unsafe".',
        )
    wanted = x.dtype if dtype is None else to_dtype(dtype)
    for t in parts:
        if not np.can_cast(np.dtype(str(t.dtype)), np.dtype(str(wanted)), casting):  # type: ignore[arg-type]
            raise DTypeError(
                f"np.{name} does not convert {t.dtype} to {wanted} by the rule {casting!r}.",
                where=t.name,
                hint=f'pass casting="unsafe", or convert before: {t.name}.astype("{wanted}").',
            )
    return x if wanted is x.dtype else x.astype(wanted)
