"""Certificates: a plan's loops reach every contribution of a domain exactly once.

The set of the plan is rebuilt from what the plan says (loops, steps, expressions of the old
axes, guards, remaining conditions), without regard to how it was found, and compared with the
set of contributions. The same points summed once each are the same sum, whatever the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensorad import config
from tensorad.errors import InternalError
from tensorad.ir.analysis.alike import Key, Numbering
from tensorad.ir.analysis.decisions import note
from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.expr import ONE, TRUE, Apply, Axis, Expr, Param, Read, Reduce, Size
from tensorad.ir.visit import conjuncts, postorder, substitute
from tensorad.process import memo
from tensorad.simplify.certify.outcomes import Refuted, Undecided
from tensorad.simplify.certify.proofs import WAYS
from tensorad.simplify.domain.elimination import Elimination
from tensorad.simplify.domain.solution import Piece, Solution

_MEMO_LIMIT: Final = 4096
_memo: dict[object, Verdict] = memo({})


@dataclass(frozen=True)
class Verdict:
    """What checking a certificate gave.

    Attributes:
        holds: every contribution is reached exactly once and nothing else is.
        proof: "structure", "isl", "enumeration" and "digits" are proofs (see `proofs.py`);
            "samples" means listed for a few values of the symbolic sizes; "none" means that
            nothing could be said.
        remark: what is wrong or missing, or which sizes were tried, in words.
    """

    holds: bool
    proof: str
    remark: str = ""

    @property
    def is_proof(self) -> bool:
        """Whether the plan is right for all sizes."""
        return self.holds and self.proof != "samples"


@dataclass(frozen=True, eq=False)
class Certificate:
    """A contribution set, the plan that replaces it, and whether they agree.

    Attributes:
        outer: the axes around; the claim is made for each of their values.
        inner: the axes of the contributions.
        condition: which points contribute.
        solution: the plan.
        verdict: the result of the check.
    """

    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    condition: Expr
    solution: Solution
    verdict: Verdict

    def __str__(self) -> str:
        lines = [f"contributions  {set_text(self.inner, self.condition)}"]
        if self.outer:
            lines.append(f"for each       {set_text(self.outer, TRUE)}")
        for piece in self.solution.pieces:
            lines.append(f"plan           {piece_text(piece)}")
        if not self.solution.pieces:
            lines.append("plan           nothing")
        lines.append(f"certificate    {self.verdict_text()}")
        return "\n".join(lines)

    def verdict_text(self) -> str:
        """The verdict in words."""
        v = self.verdict
        if v.holds and v.is_proof:
            return f"each contribution exactly once, by {v.proof}"
        if v.holds:
            return f"each contribution exactly once for {v.remark}"
        return f"refuted: {v.remark}" if v.proof != "none" else f"not proved: {v.remark}"


def set_text(axes: Sequence[Axis], condition: Expr) -> str:
    """{ [i, k] : bounds and condition }."""
    names = ", ".join(a.name for a in axes)
    parts = [_range_text(a) for a in axes]
    parts += [str(p) for p in conjuncts(condition)]
    return f"{{ [{names}] : {' and '.join(parts)} }}" if parts else f"{{ [{names}] }}"


def _range_text(a: Axis) -> str:
    step = "" if a.step is ONE else f" step {a.step}"
    return f"{a.lower} <= {a.name} < {a.upper}{step}"


def piece_text(piece: Piece) -> str:
    """One piece: guard, loops, the expressions of the axes that need no loop, conditions."""
    new = dict.fromkeys(piece.axes)
    parts = [f"where {piece.guard}"] if piece.guard is not TRUE else []
    parts += [f"for {_range_text(a)}" for a in piece.axes]
    parts += [f"{old} := {e}" for old, e in piece.values.items() if e not in new]
    if piece.residual is not TRUE:
        parts.append(f"if {piece.residual}")
    return "; ".join(parts) or "the point itself"


def certify(e: Elimination) -> Certificate:
    """The certificate of an elimination, checked now."""
    return Certificate(e.outer, e.inner, e.condition, e.solution, check(e))


def check(e: Elimination) -> Verdict:
    """Whether the plan reaches exactly the contributions, each once.

    An equal problem with an equal plan, over other axes, has the same verdict.
    """
    key = _key(e)
    known = None if key is None else _memo.get(key)
    if known is not None:
        return known
    verdict = _check(e)
    single: dict[Expr, Expr] = {a: a.lower for a in (*e.outer, *e.inner) if a.extent == 1}
    if not verdict.holds and single:  # a condition may fold once such an axis has its value
        again = _check(replace(e, condition=substitute(e.condition, single)))
        verdict = again if again.holds else verdict
    if key is not None and verdict.holds:
        if len(_memo) >= _MEMO_LIMIT:
            _memo.clear()
        _memo[key] = verdict
    return verdict


def _key(e: Elimination) -> Key | None:
    """What decides the verdict, up to the identity of axes; None if data is read."""
    loops = [a for p in e.solution.pieces for a in p.axes]
    roots = [b for a in (*e.outer, *e.inner, *loops) for b in (a.lower, a.upper, a.step)]
    counts: list[object] = [len(e.outer), len(e.inner), config.current().isl_operations]
    for p in e.solution.pieces:
        counts.append(len(p.axes))
        roots += [p.guard, p.residual, *[p.values[a] for a in e.inner]]
    order = postorder(e.condition, *roots)
    sizes = dict.fromkeys(x for x in order if isinstance(x, Size))
    roots += facts_about(sizes)
    axes = dict.fromkeys((*e.outer, *e.inner, *loops))
    if any(isinstance(x, (Read, Reduce, Param, Apply)) for x in order):
        return None
    if any(isinstance(x, Axis) and x not in axes for x in order):
        return None
    numbering = Numbering(named=False)
    numbering.axes(tuple(axes))
    places = tuple([numbering.names[a] for a in (*e.outer, *e.inner, *loops)])
    return numbering.key(*counts, places, numbering.expressions((e.condition, *roots)))


def _check(e: Elimination) -> Verdict:
    reasons: list[str] = []
    for proof, way in WAYS:
        try:
            return Verdict(True, proof, way(e))
        except Undecided as reason:
            reasons.append(str(reason))
        except Refuted as reason:
            return Verdict(False, proof, str(reason))
    return Verdict(False, "none", "; ".join(r for r in reasons if r))


def checked(
    outer: Sequence[Axis], inner: Sequence[Axis], condition: Expr, solution: Solution
) -> Solution:
    """Note an elimination; with TENSORAD_DEBUG=certify it must have a true certificate.

    Raises:
        InternalError: certificates are demanded, and this plan has none.
    """
    e = Elimination(tuple(outer), tuple(inner), condition, solution)
    note(e)
    if is_demanded():
        demand(e)
    return solution


def is_demanded() -> bool:
    """Whether TENSORAD_DEBUG=certify is set."""
    return "certify" in config.current().debug


def is_read_back() -> bool:
    """Whether TENSORAD_DEBUG=readback is set."""
    return "readback" in config.current().debug


def demand(e: Elimination) -> Certificate:
    """The certificate of an elimination.

    Raises:
        InternalError: it is not true.
    """
    certificate = certify(e)
    if not certificate.verdict.holds:
        raise InternalError(f"an elimination has no true certificate:\n{certificate}")
    return certificate
