"""Reading back: whether a final formula is the naive sum it came from, and how that is known."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from tensorad import config
from tensorad.errors import InternalError
from tensorad.ir.analysis.alike import Key, Numbering, as_value
from tensorad.ir.analysis.decisions import note
from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import Axis, Expr, read
from tensorad.ir.order import reads, sizes_in
from tensorad.ir.tensor import Compute, Constant, Op, Placeholder, Tensor, outputs
from tensorad.process import memo
from tensorad.simplify.certify.certificate import Verdict, is_read_back
from tensorad.simplify.certify.outcomes import Refuted, Undecided
from tensorad.simplify.readback.reading import Reading
from tensorad.simplify.readback.samples import compare_samples
from tensorad.simplify.readback.sums import Sums
from tensorad.simplify.readback.written_out import stops_at, written_out

_MEMO_LIMIT: Final = 8192
_memo: dict[object, Verdict] = memo({})


def read_back(outer: Sequence[Axis], naive: Expr, final: Expr, sums: Sums | None = None) -> Verdict:
    """Whether two formulas are equal at each point of the outer axes.

    Args:
        sums: what is known of formulas over these axes.

    The proof is "structure", "isl", "enumeration", or "samples"; "none" where nothing is known.
    """
    if naive is final:
        return Verdict(True, "structure")
    key = _key(outer, naive, final)
    found = _memo.get(key)
    if found is None:
        found = _compared(sums or Sums(outer), naive, final)
        if len(_memo) >= _MEMO_LIMIT:
            _memo.clear()
        _memo[key] = found
    return found


def _key(outer: Sequence[Axis], naive: Expr, final: Expr) -> Key:
    numbering = Numbering(as_value, named=False)
    numbering.axes(outer)
    roots = numbering.expressions((naive, final))
    bounds = [b for a in outer for b in (a.lower, a.upper, a.step)]
    facts = facts_about(sizes_in(*bounds, naive, final))
    return numbering.key(len(outer), roots, facts, config.current().isl_operations)


def _compared(sums: Sums, naive: Expr, final: Expr) -> Verdict:
    try:
        return Verdict(True, sums.compare(naive, final))
    except (Undecided, Refuted) as reason:
        first = str(reason)
    try:
        return Verdict(True, "samples", compare_samples(sums.outer, naive, final))
    except Undecided as reason:
        return Verdict(False, "none", f"{first}; {reason}")
    except Refuted as reason:
        return Verdict(False, "samples", f"{first}; {reason}")


def demand_equal(what: str, outer: Sequence[Axis], naive: Expr, final: Expr) -> Verdict:
    """The same, noted for reports.

    Raises:
        InternalError: the formulas are not equal.
    """
    return told(Reading(what, read_back(outer, naive, final)), naive, final)


def told(reading: Reading, naive: Expr, final: Expr) -> Verdict:
    """Note what reading a formula back came to.

    Raises:
        InternalError: the formulas are not equal.
    """
    note(reading)
    if reading.verdict.proof != "none" and not reading.verdict.holds:
        raise InternalError(
            f"a final formula is not what it came from: {reading}\n{naive}\n{final}"
        )
    return reading.verdict


def demand_equal_tensors(
    what: str, naive: Tensor, final: Tensor, known: Collection[Tensor] = ()
) -> None:
    """Two tensors, written out over known ones and those without formulas, are equal.

    Raises:
        InternalError: they are not.
    """
    if naive is final:
        return
    axes = compute_axes(naive.shape)
    one: Expr = read(naive, axes)
    two: Expr = read(final, axes)
    verdict = Verdict(False, "none")
    pairs: list[tuple[Expr, Expr]] = []
    sums = Sums(axes)
    try:
        for pair in _written_out(one, two, known):
            pairs.append(pair)
            if _are_alike(sums, *pair):
                verdict = Verdict(True, "structure")
                break
    except Undecided as reason:
        verdict = Verdict(False, "none", str(reason))
    for one, two in [] if verdict.holds else pairs:
        verdict = _opened(sums, one, two)
        if verdict.holds:
            break
    told(Reading(what, verdict), one, two)


def returned(naive: Sequence[Tensor], final: Sequence[Tensor], known: Sequence[Op]) -> list[Tensor]:
    """The final tensors; with TENSORAD_DEBUG=readback each is compared with the naive one.

    Raises:
        InternalError: they are not equal.
    """
    if is_read_back():
        stop = [t for op in known for t in outputs(op)]
        for one, other in zip(naive, final, strict=True):
            demand_equal_tensors("returned", one, other, stop)
    return list(final)


def _written_out(one: Expr, two: Expr, known: Collection[Tensor]) -> Iterator[tuple[Expr, Expr]]:
    """Both over known tensors; then over those that both read; then over those without formulas.

    Raises:
        Undecided: they are too long.
    """
    stop = dict.fromkeys(known)
    while True:
        found = [written_out(e, stops_at(stop)) for e in (one, two)]
        yield found[0], found[1]
        if not stop:
            return
        both = dict.fromkeys([r.tensor for r in reads(found[1])])
        shared = {r.tensor: None for r in reads(found[0]) if r.tensor in both and r.tensor in stop}
        stop = {} if len(shared) == len(stop) else shared


def _are_alike(sums: Sums, one: Expr, two: Expr) -> bool:
    try:
        return one is two or sums.are_alike(one, two)
    except Undecided:
        return False


def _opened(sums: Sums, one: Expr, two: Expr) -> Verdict:
    """The same; nothing is said of results of loops, branches and calls that came later."""
    verdict = read_back(sums.outer, one, two, sums)
    if not verdict.holds and reads_others(one, two):
        return Verdict(False, "none", "the final one reads results of other loops or calls")
    return verdict


def reads_others(naive: Expr, final: Expr) -> bool:
    """Whether the final formula reads results of loops, branches or calls that the naive does not.

    They may be what the naive formula sums. Without them the formulas have to be equal whatever
    values such results have.
    """
    known = dict.fromkeys([r.tensor for r in reads(naive)])
    return any(r.tensor not in known and not is_given(r.tensor) for r in reads(final))


def is_given(t: Tensor) -> bool:
    return isinstance(t.op, (Placeholder, Constant, Compute))


def demand_stages(axes: Sequence[Axis], naive: Expr, final: Expr) -> None:
    """A formula that reads stages is the one whose reductions they are.

    Raises:
        InternalError: it is not.
    """
    known = stops_at([r.tensor for r in reads(naive)])
    try:
        verdict = read_back(axes, naive, written_out(final, known))
    except Undecided as reason:
        verdict = Verdict(False, "none", str(reason))
    told(Reading("stages", verdict), naive, final)
