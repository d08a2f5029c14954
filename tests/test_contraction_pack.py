"""What contractions copy before they run: whole rows, turned in registers."""

from __future__ import annotations

from collections.abc import Iterator

from tensorad import te, topi
from tensorad.codegen.choices import Choices
from tensorad.codegen.loopir import For, Stmt, Store
from tensorad.codegen.lower import lower_program


def loops(body: tuple[Stmt, ...]) -> Iterator[For]:
    for s in body:
        if isinstance(s, For):
            yield s
            yield from loops(s.body)


def test_a_relaid_kernel_of_small_windows_is_turned_in_registers() -> None:
    x, w = te.placeholder((1, 32, 7, 7), name="X"), te.placeholder((64, 32, 3, 3), name="W")
    y = topi.nn.conv2d(x, w)
    program = lower_program([y], [x, w], choices=Choices(contract=True, pack="relayout"))
    copies = [s for k in program.kernels for s in loops(k.body) if stores_to(s, "W.copy")]
    assert [(s.kind, len(s.body)) for s in copies] == [("vector", 16)]


def stores_to(s: For, name: str) -> bool:
    return any(isinstance(c, Store) and c.tensors[0].name == name for c in s.body)
