"""Branches nested deep in one another stand beside each other before they are differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from tensorad.ir.analysis.blocks import (
    block_ops,
    is_everywhere,
    ops_between,
    saves_of,
    sizes_told,
)
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Expr, add, call, cast, const, int_const, read
from tensorad.ir.records import is_record
from tensorad.ir.tensor import (
    Block,
    Branch,
    Compute,
    Control,
    Op,
    Tensor,
    outputs,
    saved,
)
from tensorad.ir.visit import op_inputs
from tensorad.process import memo
from tensorad.simplify.control.levels import (
    Around,
    Given,
    Saves,
    at_one_level,
    over_blocks,
    values_of,
    without_values,
)
from tensorad.simplify.formula.dataflow import over_inputs

MOST_WITHIN: Final = 16
"""How deep branches may stand in one another, and still have derivatives that do."""


def without_deep_branches(results: Sequence[Tensor], given: Given) -> list[Tensor]:
    """The results, branches that nest more than `MOST_WITHIN` deep standing beside one another.

    The reverse of an arm reads what is saved in all arms inside of it, so derivatives of n branches
    in one another have n^2 operations. Here an arm is cut where a deep branch stands in it. What is
    before is an arm of a first branch, which tells the inner one which of its arms runs, or that
    none does; the inner one follows, then what comes after it. Each reads what it needs of what the
    others saved, and hands nothing on. Loops, calls and branches that are not deep stay whole.
    """

    def beside(op: Control, saves: Saves, around: Around) -> Sequence[Tensor]:
        if not isinstance(op, Branch) or not _is_deep(op):
            return values_of(op, saves)
        return _beside(op, op.operands, saves)

    def inside(wanted: Sequence[Tensor], params: Sequence[Tensor]) -> Sequence[Tensor]:
        return without_deep_branches(wanted, params)

    def entered(op: Control, saves: Saves, around: Around) -> Sequence[Tensor]:
        if _depth(op).inside <= MOST_WITHIN:
            return values_of(op, saves)
        return values_of(*over_blocks(op, saves, inside))

    known = tuple(given)
    return at_one_level(at_one_level(results, known, beside), known, entered)


class _Depth(NamedTuple):
    """How many branches stand directly in one another: from an operation on; anywhere in it."""

    own: int
    inside: int


_depths: WeakKeyDictionary[Control, _Depth] = memo(WeakKeyDictionary())


def _depth(op: Control) -> _Depth:
    inside: dict[Control, list[Control]] = {}
    stack = [op]
    while stack:
        at = stack[-1]
        if at in _depths:
            stack.pop()
        elif at not in inside:
            every = [o for b in at.blocks for o in block_ops(b)]
            inside[at] = [o for o in every if isinstance(o, Control)]
            stack += inside[at]
        else:
            found = [_depths[o] for o in inside[at]]
            own = 1 + max([d.own for d in found], default=0) if isinstance(at, Branch) else 0
            _depths[at] = _Depth(own, max([own, *[d.inside for d in found]]))
            stack.pop()
    return _depths[op]


def _is_deep(op: Branch) -> bool:
    return _depth(op).own > MOST_WITHIN


class _Place(NamedTuple):
    """A tensor of an arm of a branch."""

    control: Control
    inner: Tensor
    arm: int


class _Arm:
    """An arm of a deep branch, as parts that run one after the other.

    Attributes:
        image: tensors of the arm -> tensors of the level around.
        places: tensors of the arm that a part has computed.
        inner: the branches that leave the arm, producers first.
    """

    def __init__(self, block: Block, operands: Sequence[Tensor], extra: Sequence[Tensor]) -> None:
        self.image = dict(zip(block.params, operands, strict=True))
        self.places: dict[Tensor, _Place] = {}
        self.wanted = (*block.results, *extra)
        ops = block_ops(block, extra)
        self.saves = saves_of(ops)
        deep = [op for op in ops if isinstance(op, Branch) and _is_deep(op)]
        self.inner = deep if _may_be_cut(ops) else []
        self.new: dict[Op, Op] = {}
        self.made: dict[Tensor, Tensor] = {}

    def part(self, wanted: Sequence[Tensor]) -> list[Tensor]:
        """Tensors of the arm, made of tensors around it, and of what parts before have saved."""
        ops = ops_between(wanted, {**self.places, **self.image})
        for t in (*wanted, *[t for op in ops for t in op_inputs(op)]):
            if t in self.places and t not in self.image:
                self.image[t] = saved(*self.places[t])
        self.made = dict(self.image)
        self.new = {}
        for op in ops:
            self.new[op] = over_inputs(op, self.made)
            self.made.update(zip(outputs(op), outputs(self.new[op]), strict=True))
        return [self.made.get(t, t) for t in wanted]

    def keep(self, branch: Branch, n: int) -> None:
        """The last part is arm n of a branch: what it made is found there from now on."""
        for op, new in self.new.items():
            if not is_everywhere(op):
                own = zip(outputs(op), outputs(new), strict=True)
                self.places.update({t: _Place(branch, u, n) for t, u in own})
            if isinstance(op, Control) and isinstance(new, Control):
                for s in self.saves.get(op, ()):
                    inner = saved(new, s.inner, s.block)
                    self.places[outputs(s)[0]] = _Place(branch, inner, n)

    def seen(self, t: Tensor) -> Tensor:
        """A tensor of the arm from the level around."""
        if t not in self.image and t in self.places:
            self.image[t] = saved(*self.places[t])
        return self.image.get(t, self.made.get(t, t))

    def left(self, op: Branch, values: Sequence[Tensor]) -> None:
        """A branch stands outside; its outputs, and what is saved of it, are these tensors."""
        own = [*outputs(op), *[outputs(s)[0] for s in self.saves.get(op, ())]]
        self.image.update(zip(own, values, strict=True))


def _may_be_cut(ops: Sequence[Op]) -> bool:
    """Whether what the operations of an arm make may be read from outside of it."""
    if any(sizes_told(ops).values()):
        return False  # how often a loop ran is known inside only
    return not any(is_record(t.dtype) for op in ops for t in outputs(op))


def _beside(
    op: Branch, operands: Sequence[Tensor], saves: Saves, *, may_rest: bool = False
) -> list[Tensor]:
    """The outputs of a deep branch, and what is saved of it, by branches of one level.

    Args:
        operands: which arm runs, then what the arms are given.
        may_rest: whether the first of the arms by this number is none of the branch's.
    """
    case, *given = operands
    extra = [[t for b, t in saves if b == n] for n in range(len(op.blocks))]
    arms = [_Arm(b, given, extra[n]) for n, b in enumerate(op.blocks)]
    if not may_rest and not any(a.inner for a in arms):
        return values_of(op, saves)
    for k in range(max(len(a.inner) for a in arms)):
        cut = {n: a.inner[k] for n, a in enumerate(arms) if k < len(a.inner)}
        names = [f"{d.name}_case" for d in cut.values()]
        none = [_number(name, ()) for name in names]
        results = [list(none) for _ in arms]
        for n, arm in enumerate(arms):
            made = arm.part(cut[n].operands if n in cut else ())
            if n in cut:
                place = [*cut].index(n)
                results[n][place] = _number(names[place], made[:1], len(cut[n].blocks))
        told = _branch(op, names, case, arms, results, none if may_rest else None)
        for n in cut:
            arms[n].keep(told, n + may_rest)
        for switch, (n, d) in zip(outputs(told), cut.items(), strict=True):
            own = [(s.block, s.inner) for s in arms[n].saves.get(d, ())]
            around = [switch, *[arms[n].seen(t) for t in d.operands[1:]]]
            arms[n].left(d, _beside(d, around, own, may_rest=True))
    return _last_parts(op, case, arms, saves, may_rest=may_rest)


def _last_parts(
    op: Branch, case: Tensor, arms: Sequence[_Arm], saves: Saves, *, may_rest: bool
) -> list[Tensor]:
    count = len(op.names)
    results = [a.part(a.wanted)[:count] for a in arms]
    none = [without_values(t) for t in outputs(op)] if may_rest else None
    last = _branch(op, op.names, case, arms, results, none)
    for n, arm in enumerate(arms):
        arm.keep(last, n + may_rest)
    return [*outputs(last), *[arms[n].seen(t) for n, t in saves]]


def _branch(
    op: Branch,
    names: Sequence[str],
    case: Tensor,
    arms: Sequence[_Arm],
    results: Sequence[Sequence[Tensor]],
    none: Sequence[Tensor] | None,
) -> Branch:
    """A branch of the last parts of arms, before them one that does nothing."""
    around: dict[Tensor, None] = {}
    for arm, made in zip(arms, results, strict=True):
        ends = dict.fromkeys(arm.image.values())
        ops = ops_between([*made, *[t for o in arm.new.values() for t in outputs(o)]], ends)
        reads = [*made, *[t for o in ops for t in op_inputs(o)]]
        around.update({t: None for t in reads if t in ends})
    params = tuple(around)
    every = [*([none] if none is not None else []), *results]
    blocks = tuple([Block(params, tuple(made)) for made in every])
    return Branch(tuple(names), (case, *params), blocks, source=op.source)


def _number(name: str, case: Sequence[Tensor], arms: int = 0) -> Tensor:
    """Which arm of an inner branch runs, counted from 1; 0: none, without a case."""
    number: Expr = const(0, INT64)
    for t in case:
        n = cast(read(t, ()), INT64)
        inside = call("minimum", call("maximum", n, int_const(0)), int_const(arms - 1))
        number = add(inside, const(1, INT64))
    return outputs(Compute(name, compute_axes(()), (number,), ""))[0]
