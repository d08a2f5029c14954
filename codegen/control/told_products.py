"""Extents that no word of a call has, told before memory is asked for by them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorad.codegen.loops.ir import (
    ButLast,
    Choose,
    Node,
    Repeat,
    Settle,
    inner_nodes,
)
from tensorad.codegen.loops.run_sizes import asked, local_sizes
from tensorad.ir.expr import Expr, LocalSize, local_size

Known = dict[LocalSize, None]
Told = dict[Expr, None]
Tell = Callable[[Mapping[Expr, LocalSize]], Sequence[Node]]
"""Nodes that give sizes the values of formulas of sizes."""


def told_products(
    nodes: Sequence[Node], sizes: Collection[LocalSize], tell: Tell
) -> tuple[tuple[Node, ...], Mapping[Expr, LocalSize]]:
    """The nodes, and between them those that tell what memory has a number of elements by; and the
    sizes that have these numbers.

    Each product is told where the last of its sizes has its value: outside of loops that it does
    not depend on.

    Args:
        sizes: have their values before the nodes.
    """
    telling = _Telling(dict.fromkeys(sizes), tell)
    found = telling.sequence(nodes, telling.sizes, {})
    return found, telling.words


@dataclass
class _Telling:
    """What is asked for and changed inside of nodes, by node, and the sizes given to products."""

    sizes: Known
    tell: Tell
    words: dict[Expr, LocalSize] = field(default_factory=dict)
    known_products: dict[Node, Told] = field(default_factory=dict)
    changing: dict[Node, Known] = field(default_factory=dict)

    def sequence(self, nodes: Sequence[Node], known: Known, told: Told) -> tuple[Node, ...]:
        """Nodes that run one after the other.

        Args:
            known: sizes that have their values before them.
            told: products that do.
        """
        if not self.products(nodes):
            return tuple(nodes)
        known, told = dict(known), dict(told)
        found: list[Node] = []
        for n in nodes:
            changed = self.changed(n)
            fixed = {s: None for s in known if s not in changed}
            found += self.told_now(self.products([n]), fixed, told)
            found.append(self.inside(n, known, told))
            told = _without(told, changed)
            if isinstance(n, Repeat):
                known[n.trips] = None
        return tuple(found)

    def inside(self, n: Node, known: Known, told: Told) -> Node:
        """A node with what is told inside of it."""
        if not self.products(inner_nodes(n)):
            return n
        match n:
            case Choose():
                arms = tuple([self.sequence(arm, known, told) for arm in n.arms])
                return n if arms == n.arms else replace(n, arms=arms)
            case Settle() | ButLast():
                nodes = self.sequence(n.nodes, known, told)
                return n if nodes == n.nodes else replace(n, nodes=nodes)
            case Repeat():
                return self.repeat(n, known, _without(told, self.changed(n)))
        return n

    def repeat(self, n: Repeat, known: Known, told: Told) -> Repeat:
        """Before the first iteration, what iterations do not change; in each one, the rest."""
        known = {s: None for s in known if s is not n.counter and s is not n.trips}
        if n.count is not None:
            known[n.trips] = None
        told, inner = dict(told), self.changed(*inner_nodes(n))
        fixed = {s: None for s in known if s not in inner}
        first = self.told_now(self.products(inner_nodes(n)), fixed, told)
        within = {**known, n.counter: None, n.trips: None}
        start = (*first, *self.sequence(n.start, known, told))
        test = self.sequence(n.test, within, told)
        body = self.sequence(n.body, within, told)
        if (start, test, body) == (n.start, n.test, n.body):
            return n
        return replace(n, start=start, test=test, body=body)

    def told_now(self, asked: Told, known: Known, told: Told) -> Sequence[Node]:
        """Nodes that tell of products what has not been told, but can be."""
        missing = [e for e in asked if e not in told and all(s in known for s in local_sizes(e))]
        told.update(dict.fromkeys(missing))
        for e in missing:
            self.words.setdefault(e, local_size("size"))
        return self.tell({e: self.words[e] for e in missing}) if missing else ()

    def changed(self, *nodes: Node) -> Known:
        """The sizes that nodes, and those inside of them, give a value."""
        found: Known = {}
        for n in nodes:
            if n not in self.changing:
                own = (n.counter, n.trips) if isinstance(n, Repeat) else ()
                self.changing[n] = {**dict.fromkeys(own), **self.changed(*inner_nodes(n))}
            found.update(self.changing[n])
        return found

    def products(self, nodes: Iterable[Node]) -> Told:
        """The products by which nodes, and those inside of them, ask for memory."""
        found: Told = {}
        for n in nodes:
            if n not in self.known_products:
                own = dict.fromkeys(asked(n, self.sizes))
                inner = inner_nodes(n)
                self.known_products[n] = {**own, **self.products(inner)} if inner else own
            found.update(self.known_products[n])
        return found


def _without(told: Told, changed: Known) -> Told:
    """The products that have their values still when some sizes have others."""
    return {e: None for e in told if not any(s in changed for s in local_sizes(e))}
