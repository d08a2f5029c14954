"""What a measuring process found so far, in a file that a cut run goes on from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Part:
    """The rows of one process.

    Attributes:
        run: what is measured, and by which code; rows of another run are not used.
        complete: the process came to its end.
    """

    path: Path
    run: list[str]
    rows: list[Any] = field(default_factory=list)
    complete: bool = False

    def add(self, rows: Iterable[Any]) -> None:
        """Keep these, too."""
        self.rows += rows
        self.write()

    def write(self) -> None:
        """At once or not at all."""
        found = asdict(self)
        del found["path"]
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(found, indent=1) + "\n")
        fresh.replace(self.path)


def opened(path: Path, run: Sequence[str] | None = None) -> Part:
    """The part in a file; an empty one where there is none, or one of another run."""
    if path.exists():
        found = Part(path, **json.loads(path.read_text()))
        if run is None or found.run == list(run):
            return found
    part = Part(path, list(run or ()))
    part.write()
    return part


def parts_of(path: Path) -> Path:
    """The folder of a run's parts until all of them are there."""
    return path.with_suffix(".parts")
