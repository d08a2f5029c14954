"""What is done to the operations of a program before their loops are made: a list of passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tensorad.codegen.in_place_scatters import Lowering, Unit, join
from tensorad.codegen.index_checks.insert import with_checks
from tensorad.codegen.loops.forms import loops_differ
from tensorad.codegen.loops.ir import LoopProgram
from tensorad.codegen.loops.printer import format_loops
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.plain_loops import plain_kernels
from tensorad.codegen.scan.chains import with_chains
from tensorad.codegen.scan.inline_sources import with_sources
from tensorad.passes import Form, Pass

Units = tuple[Unit, ...]
UnitPass = Pass[Lowering, Units]


def _unless_same(change: Callable[[Lowering, Units], Units]) -> Callable[[Lowering, Units], Units]:
    def run(lowering: Lowering, units: Units) -> Units:
        made = change(lowering, units)
        same = len(made) == len(units) and all(a is b for a, b in zip(made, units, strict=True))
        return units if same else made

    return run


JOIN_SCATTERS: Final[UnitPass] = Pass(
    "join_scatters",
    _unless_same(lambda lowering, units: join(units, lowering.wanted)),
    "first: a scatter is checked together with what it goes on from",
)
CHECK_INDICES: Final[UnitPass] = Pass(
    "check_indices",
    _unless_same(lambda lowering, units: with_checks(units, lowering.checks_sizes)),
    "before units lose their own loops: those with checks keep them",
    required=True,
)
PLAIN_PASSES: Final[tuple[UnitPass, ...]] = (JOIN_SCATTERS, CHECK_INDICES)
"""Those of loops as they are written."""
UNIT_PASSES: Final[tuple[UnitPass, ...]] = (
    *PLAIN_PASSES,
    Pass(
        "inline_sources",
        _unless_same(lambda low, units: with_sources(units, low.wanted, low.schedules)),
        "before chains: what stands between two scans may go into the second",
    ),
    Pass(
        "chain_scans",
        _unless_same(lambda low, units: with_chains(units, low.wanted, low.schedules)),
        "last: it makes loops",
    ),
)


def _program(lowering: Lowering, units: Sequence[Unit]) -> LoopProgram:
    return LoopProgram(lowering.inputs, lowering.wanted, tuple(plain_kernels(units)))


UNITS: Final[Form[Lowering, Units]] = Form(
    show=lambda lowering, units: format_loops(_program(lowering, units)),
    verify=lambda lowering, units: verify_loops(_program(lowering, units)),
    compare=lambda lowering, before, after: loops_differ(
        _program(lowering, before), _program(lowering, after)
    ),
)
"""Units as the plain loops that they mean."""
