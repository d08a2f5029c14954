"""What is told of a formula that was read back."""

from __future__ import annotations

from dataclasses import dataclass

from tensorad.ir.analysis.decisions import Record
from tensorad.simplify.certify.certificate import Verdict


@dataclass(frozen=True, eq=False)
class Reading(Record):
    """A final formula beside the naive one.

    Attributes:
        what: which steps lie between them.
    """

    what: str
    verdict: Verdict

    def __str__(self) -> str:
        v = self.verdict
        if v.holds and v.is_proof:
            return f"{self.what}: the naive sum, by {v.proof}"
        if v.holds:
            return f"{self.what}: the naive sum, by samples ({v.remark})"
        word = "not decided" if v.proof == "none" else "refuted"
        return f"{self.what}: {word}: {v.remark}"
