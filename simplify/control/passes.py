"""The passes over programs with calls, branches and loops, in order (`simplified`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from tensorad.ir.reference.forms import TENSORS
from tensorad.ir.tensor import Tensor
from tensorad.passes import Pass, run_passes
from tensorad.process import deep_calls
from tensorad.simplify.control.equal_operations import share_operations
from tensorad.simplify.control.fixed_carries import fix_carries
from tensorad.simplify.control.invariants import hoist_invariants
from tensorad.simplify.control.known_blocks import choose_known, write_constants
from tensorad.simplify.control.levels import Level, Rule, inner_first, outer_first
from tensorad.simplify.control.renew import without_calls
from tensorad.simplify.control.saving_calls import share_saving_calls
from tensorad.simplify.control.unused import drop_unused

Results = Sequence[Tensor]
ControlPass = Pass[Results, Results]


def _unless_same(found: Results, results: Results) -> Results:
    same = all(a is b for a, b in zip(found, results, strict=True))
    return results if same else found


def _levels(level: Level, given: Results, results: Results) -> Results:
    return _unless_same(outer_first(results, given, level), results)


def _rules(rule: Rule, given: Results, results: Results) -> Results:
    return _unless_same(inner_first(results, given, rule), results)


def _used(given: Results, results: Results) -> Results:
    """Operands that a block does not need any more may have been the use of other outputs."""
    while (found := _levels(drop_unused, given, results)) is not results:
        results = found
    return results


def _opened(results: Results, given: Results) -> Results:
    return without_calls(results, dict.fromkeys(given))


CONTROL_PASSES: Final[tuple[ControlPass, ...]] = (
    Pass("open_calls", partial(_levels, _opened), "first: the others see what calls do"),
    Pass("fix_carries", partial(_rules, fix_carries), "before what it makes known or invariant"),
    Pass("write_constants", partial(_levels, write_constants), "before formulas are compared"),
    Pass("choose_known", partial(_rules, choose_known), "before what other arms would use"),
    Pass("hoist_invariants", partial(_rules, hoist_invariants), "once carries that stay are fixed"),
    Pass(
        "share_saving_calls",
        partial(_levels, share_saving_calls),
        "before others are compared that read what the calls give",
    ),
    Pass("share_operations", partial(_levels, share_operations), "once blocks stand"),
    Pass("drop_unused", _used, "last: nothing is left unused after it"),
)


def simplified(results: Results, given: Results) -> list[Tensor]:
    """Tensors with the values of the results, computed by fewer operations and smaller blocks.

    A result may be a given tensor, or another one, afterwards.
    """
    with deep_calls.changed():
        found = run_passes(CONTROL_PASSES, given, results, TENSORS)
    return list(found)
