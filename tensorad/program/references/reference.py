"""References: what they hold is read and written while a program is written down."""

from __future__ import annotations

from typing import Any, NoReturn

from tensorad.errors import DefinitionError
from tensorad.ir.source import source_line
from tensorad.program.references.contents import first_held, fitted, shown
from tensorad.program.references.frames import Cell
from tensorad.program.references.views import View


class Ref(Cell):
    """A place that holds a tree; see `ref`."""

    def __repr__(self) -> str:
        return f"<Ref {self.name} made at {self.source}>"

    def __bool__(self) -> NoReturn:
        self._no_value("has no truth value")

    def __getitem__(self, key: object) -> NoReturn:
        self._no_value("is not indexed", f"{self.name}.at[i] is a view of a part, ")

    def __setitem__(self, key: object, value: object) -> NoReturn:
        self._no_value("is not indexed", f"{self.name}.at[i].set(value) writes a part, ")

    def __iter__(self) -> NoReturn:
        self._no_value("cannot be iterated over")

    def _no_value(self, what: str, hint: str = "") -> NoReturn:
        raise DefinitionError(
            f"{self.described} {what}: it is a place, not what it holds.",
            hint=f"{hint}{self.name}.get() is what it holds.",
        )

    @property
    def at(self) -> View:
        """What it holds as a view, of which parts are taken: `r.at["w"][1:3].T`."""
        return View.whole(self)

    def get(self) -> Any:
        """The tree that it holds now: tensors; outside of functions arrays as they were given.

        Raises:
            DefinitionError: what made the reference is done, so it holds nothing.
        """
        return shown(self.read())

    def set(self, tree: object) -> None:
        """Let it hold another tree.

        Args:
            tree: of the same structure, shapes and dtypes; a Python number takes the dtype of
                what it meets. Functions and references in it may be others, values of a data type
                any of its alternatives.
        Raises:
            DefinitionError: the structure is another one; or references are not written here.
            ShapeError, DTypeError: a leaf has another shape or dtype.
        """
        self.write(fitted(self, self.read(), tree, self.name))

    def add(self, tree: object) -> None:
        """Add a tree of the same structure, leaf by leaf."""
        self.at.add(tree)

    def mul(self, tree: object) -> None:
        """Multiply by a tree of the same structure, leaf by leaf."""
        self.at.mul(tree)


def ref(tree: object, name: str = "ref") -> Ref:
    """A reference: a place that holds a tree, which is read and written.

    Functions, branches and loops read and write references of outside: what an arm of `ta.cond`
    or `ta.switch` writes becomes a result of the branch, what the body of a loop writes is
    carried. A function that is differentiated leaves what its own run writes. A branch may return
    a reference that its arm made, and a loop may carry one that its body made. No function returns
    one that it made.

    Args:
        tree: what it holds first: tensors, arrays, numbers, and trees of them, with functions and
            other references in them.
        name: what errors and texts call it.
    Returns:
        a `Ref`: `get`, `set`, `add`, `mul`; `at` for parts.
    Raises:
        DefinitionError: something is no tree.
    """
    return Ref(name, source_line(), first_held(tree, name))
