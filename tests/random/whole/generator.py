"""The program of a seed."""

from __future__ import annotations

import random

from tests.random.whole import forms, higher, straight, values
from tests.random.whole.texts import Block, Program, Statement
from tests.random.whole.writer import Names, Writer

KINDS = (
    (1.5, False, straight.number),
    (1.0, False, straight.vector),
    (0.5, False, straight.counted),
    (1.5, False, straight.reference),
    (0.7, False, straight.alias),
    (3.0, False, straight.write),
    (1.5, False, straight.write_function),
    (1.0, False, straight.write_option),
    (1.5, False, straight.read_option),
    (2.0, False, straight.read),
    (1.5, False, straight.read_function),
    (1.5, False, straight.apply),
    (0.3, False, straight.mapped),
    (0.3, False, straight.rule),
    (0.1, False, straight.foreign),
    (0.7, False, straight.option),
    (0.5, False, straight.listed),
    (0.5, False, straight.tree),
    (1.5, True, forms.function),
    (0.5, True, forms.maker),
    (2.0, True, forms.branch),
    (1.0, True, forms.for_loop),
    (0.7, True, forms.while_loop),
    (0.4, True, forms.repeated),
    (1.0, True, forms.passed),
    (0.7, True, forms.scan),
    (1.5, True, forms.derivative),
    (0.7, True, forms.gradient),
    (1.0, True, higher.chosen),
    (0.5, False, higher.composed),
    (0.8, True, higher.recursion),
    (1.0, False, higher.selected),
    (0.6, True, higher.born),
    (0.8, True, higher.carried),
    (0.4, False, higher.iterated),
    (0.7, True, higher.matched),
    (0.7, True, higher.folded),
    (0.3, False, higher.taken),
    (0.3, False, higher.in_turn),
    (0.7, True, values.acted),
)
"""How often, whether blocks are inside, and what writes it."""


def order_of(seed: int) -> int:
    """To which order a program is differentiated: every fourth to the second."""
    return 2 if seed % 4 == 0 else 1


def whole_program(seed: int, size: int | None = None, rng: random.Random | None = None) -> Program:
    """A program; all its values are bounded.

    Args:
        rng: where all choices come from; default: the seed.
        size: how many statements it has outside of blocks; by the seed if left out, fewer where it
            is differentiated twice.
    """
    w = Writer(rng or random.Random(seed), KINDS)
    is_small = order_of(seed) > 1
    depth = w.rng.choice((1, 1, 2) if is_small else (1, 2, 2, 3))
    size = size or w.rng.choice((3, 4) if is_small else (3, 4, 5, 7))
    names = Names(["x"], ["v"], ["n"], ["ta.sin"], depth=depth)
    first = Statement(['writes = ta.ref(0, "writes")'], ("writes",))
    held = [straight.reference(w, names) for _ in range(w.rng.randint(1, 2))]
    block = Block([first, *held, *w.fill(names, size)])
    total = " + ".join([*names.numbers[-4:], *[f"{v}.sum()" for v in names.vectors[-2:]]])
    looks = {"s": "{}.get()", "v": "{}.get().sum()", "t": '{}.get()["b"].sum()', "f": "{}.get()(x)",
            "m": "ta.match({}.get(), {{Maybe.Missing: lambda: x, Maybe.Some: ta.sin, "
            "Maybe.Both: lambda a, b: a * x}})"}  # fmt: skip
    held_now = "".join([f" + {looks[k].format(r)}" for k, r in names.places[-3:]])
    block.result = f'{{"y": {total}{held_now}, "v": {names.vectors[-1]}, "writes": writes.get()}}'
    return Program(seed, block, frozenset(w.features))
