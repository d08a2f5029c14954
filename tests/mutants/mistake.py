"""What a mistake is, and which tests are its part's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Part:
    """The tests of a part of the project: paths, several in one text.

    Attributes:
        tests: run first; seconds.
        then: run if these notice nothing.
        marks: which of them, as pytest's `-m` has it; "": those that are not slow.
    """

    tests: str
    then: str = ""
    marks: str = ""

    def rings(self) -> Iterator[tuple[str, ...]]:
        """What pytest is given, in the order in which it runs: paths, and marks before them."""
        for paths in self.paths():
            yield (*(("-m", self.marks) if self.marks else ()), *paths)

    def paths(self) -> Iterator[tuple[str, ...]]:
        """The paths of each ring."""
        for paths in (self.tests, self.then):
            if paths:
                yield tuple(paths.split())


@dataclass(frozen=True)
class Mistake:
    """One edit of one file.

    Attributes:
        name: unique; says what is wrong.
        file: from the root.
        old: the text that is replaced, which the file has once.
        new: what stands there instead.
        part: the tests that must notice.
        equivalent: why no test can notice it; "" otherwise.
    """

    name: str
    file: str
    old: str
    new: str
    part: Part
    equivalent: str = ""

    def planted_in(self, source: str) -> str:
        """The source with the mistake.

        Raises:
            ValueError: it does not apply.
        """
        count = source.count(self.old)
        if count != 1 or self.old == self.new:
            raise ValueError(f"{self.name}: {self.file} has its text {count} times")
        return source.replace(self.old, self.new)


def in_file(file: str, part: Part, edits: Iterable[tuple[str, ...]]) -> list[Mistake]:
    """Mistakes of one file: (name, old text, new text), or these and why it is equivalent."""
    return [Mistake(name, file, old, new, part, *why) for name, old, new, *why in edits]
