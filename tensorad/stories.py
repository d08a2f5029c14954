"""What an explanation tells: how a gradient came about, and how sums of products are ordered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorad.counting import Work
from tensorad.ir.analysis.decisions import Decision, Incoming
from tensorad.ir.analysis.symbolic_points import Count
from tensorad.ir.tensor import Control, Saved, Tensor
from tensorad.simplify.certify.certificate import Certificate
from tensorad.simplify.readback.reading import Reading


@dataclass(frozen=True, eq=False)
class Flow:
    """What one read adds to an adjoint.

    Attributes:
        incoming: the read, and the forward points around it.
        certificates: the domains that were solved for it, each with its plan and its proof.
        decision: gathered or scattered, and why.
        pairs: (element of the adjoint, forward point): what the definition asks about; None if
            nothing was solved.
        live: forward points where the read counts: the nonzero contributions.
        visited: points of the loops that were written for it; None if it is scattered.
    """

    incoming: Incoming
    certificates: tuple[Certificate, ...]
    decision: Decision
    pairs: Count | None
    live: Count | None
    visited: Count | None


@dataclass(eq=False)
class Story:
    """The adjoint of one tensor: its flows, what they were joined into, other choices."""

    about: Tensor
    flows: list[Flow] = field(default_factory=list)
    choices: list[Decision] = field(default_factory=list)
    outcome: Decision | None = None


@dataclass(frozen=True, eq=False)
class Order:
    """A forward formula whose products are summed in another order than the written one.

    Attributes:
        tensor: what the formula computes.
        stages: what is summed before, each before the one that reads it.
        work: what the formula costs with its stages, everything behind it included.
        written: what it would cost as it was written.
    """

    tensor: Tensor
    stages: tuple[Tensor, ...]
    work: Work | None
    written: Work | None


@dataclass(frozen=True, eq=False)
class Blocks:
    """A call, branch or loop of a gradient's program, and what derivatives need of its inside.

    Attributes:
        saved: tensors of its blocks that are stored, by a loop at each iteration.
        again: names of what the reversed block computes again in place of reading it, with why.
    """

    control: Control
    saved: tuple[Saved, ...]
    again: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Gradient:
    """One gradient and how it came about.

    Attributes:
        tensor: the gradient, derived anew.
        outputs: what was differentiated.
        wrt: by which tensors: one, or for a jvp all those that have a direction.
        about: the tensor whose adjoint it is; for a jvp the output.
        stories: the adjoints on the way, the output's side first; of a jvp the choices.
        others: domains solved outside adjoints (all of them in forward mode).
        work: what the gradient costs, everything behind it included; None where no count is
            known without sizes.
        bound: the yardstick B for its iterations; None without values of symbolic sizes, for a
            Jacobian and for a jvp.
        along: whether it is a jvp.
        orders: of the forward formulas.
        blocks: calls, branches and loops, each before those inside of it.
        readings: formulas compared with the sums they came from, with TENSORAD_DEBUG=readback.
    """

    tensor: Tensor
    outputs: tuple[Tensor, ...]
    wrt: tuple[Tensor, ...]
    about: Tensor
    stories: tuple[Story, ...]
    others: tuple[Certificate, ...]
    work: Work | None
    bound: int | None
    along: bool = False
    orders: tuple[Order, ...] = ()
    blocks: tuple[Blocks, ...] = ()
    readings: tuple[Reading, ...] = ()

    @property
    def certificates(self) -> list[Certificate]:
        """Of all eliminations on the way."""
        own = [c for s in self.stories for f in s.flows for c in f.certificates]
        return [*own, *self.others]
