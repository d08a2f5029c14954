"""The one rewriter of loop programs: `rewrite` takes inner statements first, and expressions by one
image; `rewrite_blocks` takes whole blocks, outer ones first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import TypeVar
from typing import cast as static_cast

from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import Assign, Check, Fold, For, If, Prefetch, Stmt, Store, Visit
from tensorad.errors import InternalError
from tensorad.ir.expr import Axis, Expr, axis
from tensorad.ir.tensor import Tensor

Block = tuple[Stmt, ...]
Rule = Callable[[Stmt], Stmt | Sequence[Stmt] | None]
"""What stands in the place of a statement: one, several, or none; None leaves it as it is."""
Image = Callable[[Expr], Expr]
"""What takes the place of a whole expression."""
_S = TypeVar("_S", bound=Stmt)


@dataclass(frozen=True, eq=False)
class Around:
    """Where a block stands.

    Attributes:
        outer: the loops and branches around it, as they were, outermost first.
        rule: what the blocks inside of it are rewritten by.
    """

    outer: tuple[For | If, ...]
    rule: BlockRule

    def inside(self, s: _S) -> _S:
        """A statement of the block with the blocks in it rewritten."""
        if not isinstance(s, (For, If)):
            return s
        deeper = Around((*self.outer, s), self.rule)
        return _over(s, lambda block: _same_or(block, self.rule(block, deeper)))


BlockRule = Callable[[Block, Around], Sequence[Stmt]]
"""What stands in the place of a block; by `Around.inside` it is looked into."""


def rewrite(
    body: Sequence[Stmt], statement: Rule | None = None, expression: Image | None = None
) -> Block:
    """The statements with all they evaluate replaced, and then each by what the rule makes of it.

    A rule sees a statement with the blocks in it and its expressions changed already; what it
    makes is not visited again. Scalars that are set and tensors that are stored stay, and so do
    axes but those of loops whose bounds change: these are renewed. What does not change is
    returned as it is.
    """
    made: list[Stmt] = []
    for s in body:
        s = _inside(s, statement, expression)
        found = None if statement is None else statement(s)
        if isinstance(found, Sequence):
            made.extend(found)
        else:
            made.append(s if found is None else found)
    return _same_or(body, made)


def rewrite_blocks(body: Sequence[Stmt], rule: BlockRule) -> Block:
    """The statements as a rule makes them of each block, outer blocks first.

    A rule sees neighbours together and the loops around them, and says which statements are
    looked into. What does not change is returned as it is.
    """
    return _same_or(body, rule(tuple(body), Around((), rule)))


def _same_or(body: Sequence[Stmt], made: Sequence[Stmt]) -> Block:
    """What is made of a block; the block itself where nothing changed."""
    same = isinstance(body, tuple) and len(made) == len(body) and all(map(is_, made, body))
    return body if same else tuple(made)  # type: ignore[return-value]  # a tuple if the same


def each_once(body: Sequence[Stmt]) -> Block:
    """The statements, copies for those that stand in several places: each tells its place."""
    seen: dict[Stmt, None] = {}

    def own(s: Stmt) -> Stmt | None:
        if s in seen:
            return replace(s)
        seen[s] = None
        return None

    return rewrite(body, own)


def serial(axes: Sequence[Axis], body: Block) -> Block:
    """The body in loops over the axes, the first outermost."""
    for a in reversed(axes):
        body = (For(a, body),)
    return body


def mapped(s: _S, image: Image) -> _S:
    """One statement with all it evaluates replaced: of the same kind."""
    return static_cast(_S, _inside(s, None, image))


def storing(s: Store, kept: Callable[[Tensor], bool]) -> list[Store]:
    """The store to the tensors that are kept; none where there are none."""
    pairs = [(t, v) for t, v in zip(s.tensors, s.values, strict=True) if kept(t)]
    if not pairs:
        return []
    tensors, values = zip(*pairs, strict=True)
    return [s if len(pairs) == len(s.tensors) else replace(s, tensors=tensors, values=values)]


def _inside(s: Stmt, rule: Rule | None, image: Image | None) -> Stmt:
    """The statement over changed blocks and expressions."""
    if image is None:
        return _over(s, lambda block: rewrite(block, rule))
    match s:  # the most frequent first
        case Fold() | Assign():
            return _with(s, values=_images(s.values, image))
        case Store():
            return _with(s, indices=_images(s.indices, image), values=_images(s.values, image))
        case For():
            return _loop(s, rule, image)
        case If():
            s = _over(s, lambda block: rewrite(block, rule, image))
            return _with(s, cond=image(s.cond))
        case Check():
            looked_at = None if s.looked_at is None else image(s.looked_at)
            return _with(s, read=image(s.read), extent=image(s.extent), looked_at=looked_at)
        case Prefetch():
            return _with(s, indices=_images(s.indices, image))
        case Visit():
            return s
    raise InternalError(f"unknown statement {type(s).__name__}")


def _over(s: _S, change: Callable[[Block], Block]) -> _S:
    """The statement over changed blocks."""
    if isinstance(s, For):
        return _with(s, body=change(s.body))
    return _with(s, then=change(s.then), orelse=change(s.orelse)) if isinstance(s, If) else s


def _loop(s: For, rule: Rule | None, image: Image) -> For:
    own = renewed(s.axis, image)
    within = None if s.within is None else renewed(s.within, image)
    work = None if s.work is None else image(s.work)
    body = rewrite(s.body, rule, image if own is s.axis else _then(image, {s.axis: own}))
    return _with(s, axis=own, body=body, within=within, work=work)


def renewed(a: Axis, image: Image) -> Axis:
    """The axis over changed bounds."""
    bounds = (a.lower, a.upper, a.step)
    found = _images(bounds, image)
    return a if found is bounds else axis(a.name, *found)


def _then(first: Image, mapping: dict[Expr, Expr]) -> Image:
    second = substitutor(mapping)
    return lambda e: second(first(e))


def _images(many: tuple[Expr, ...], image: Image) -> tuple[Expr, ...]:
    found = tuple([image(e) for e in many])
    return many if all(map(is_, found, many)) else found


def _with(s: _S, **fields: object) -> _S:
    """The statement with other fields; the same one where they are its own."""
    same = all(getattr(s, name) is value for name, value in fields.items())
    return s if same else replace(s, **fields)  # type: ignore[arg-type]  # fields of this kind
