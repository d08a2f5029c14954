"""Error classes: `UserError` blames the tensor program, `InternalError` blames tensorad."""

from __future__ import annotations

from collections.abc import Iterable


class TensoradError(Exception):
    """Base class of everything tensorad raises on purpose."""


class UserError(TensoradError):
    """The tensor program or a call is wrong.

    Args:
        what: what is wrong, with the values.
        where: the printed expression, tensor or argument at fault.
        hint: what to do about it.
    """

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        lines = [what]
        if where is not None:
            lines.append(f"  in: {where}")
        if hint is not None:
            lines.append(f"  hint: {hint}")
        super().__init__("\n".join(lines))


class DefinitionError(UserError, ValueError):
    """A compute, axis or reduction is put together wrongly."""


class NoValueError(DefinitionError):
    """Python needs a value of what has none while a formula is written down."""


class ShapeError(UserError, ValueError):
    """Shapes, ranks or sizes do not fit."""


class DTypeError(UserError, TypeError):
    """A dtype is unsupported here or would lose information."""


class BoundsError(UserError, IndexError):
    """A tensor is read or written outside its shape."""


class CombinerError(UserError, ValueError):
    """A reducer's combiner or identity is put together wrongly."""


class GradError(UserError, ValueError):
    """A derivative was asked for that does not exist."""


class BindError(UserError, TypeError):
    """The arguments of a call do not fit the function's parameters."""


class BuildError(UserError, ValueError):
    """Outputs and inputs cannot be built into one function."""


class CountError(UserError, ValueError):
    """How often loops run cannot be told before they run."""


class ProgramTextError(UserError, ValueError):
    """The text of a program cannot be read."""


class LimitError(UserError, RuntimeError):
    """A named limit would be exceeded."""


class OnnxError(UserError, ValueError):
    """An ONNX model is malformed, or holds what is not imported."""


class MissingPackageError(UserError, ImportError):
    """An optional package that this feature needs is not installed."""


class InternalError(TensoradError):
    """tensorad is wrong; the text contains the IR and the pass."""


def functions_hint(names: Iterable[str]) -> str:
    """What a program or module has, where another name was asked for."""
    found = ", ".join(names)
    return f"its functions are {found}." if found else "it has no functions: its text is empty."


def counted(n: int, noun: str) -> str:
    """ "1 array", "2 arrays": a number and what it counts, for a message."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
