"""What passes between functions of programs and callers: no functions, no references."""

from __future__ import annotations

from tensorad.errors import BindError, DefinitionError
from tensorad.language.residual.chosen import is_chosen
from tensorad.language.values import OPAQUE, Cell, Closure, Derived, Value, described
from tensorad.program.kinds.references import Chosen


def check_no_function(value: object) -> None:
    """An argument is no function, and no part of one is.

    Raises:
        BindError: it is.
    """
    stack = [value]
    while stack:
        v = stack.pop()
        if isinstance(v, tuple):
            stack += v
        elif callable(v) or isinstance(v, OPAQUE):
            own = getattr(v, "__name__", None)
            shown = f"the function {own}" if own else described(v, lambda _: type(v).__name__)
            raise BindError(
                f"an argument of a program's function is {shown}.",
                hint="pass arrays, numbers, tuples and tagged values: write functions in the "
                "program, and choose them there by a number.",
            )


def check_first_order(name: str, value: Value) -> None:
    """A result has no function and no reference in it; tagged values may have functions.

    Raises:
        DefinitionError: it has.
    """
    stack: list[tuple[Value, str]] = [(value, name)]
    while stack:
        v, path = stack.pop()
        if isinstance(v, tuple):
            stack += [(part, f"{path}[{n}]") for n, part in enumerate(v)]
        elif isinstance(v, (Closure, Derived, Cell, Chosen)) or is_chosen(v):
            is_reference = isinstance(v, (Cell, Chosen))
            what = "a reference" if is_reference else "a function"
            raise DefinitionError(
                f"{name} results in {what}.",
                where=path,
                hint="result in what it holds." if is_reference else "call it.",
            )
