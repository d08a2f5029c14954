"""Who fixes the order of a sum cannot reach the machine, not even by way of another function."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import get_type_hints

import pytest

from tensorad.codegen.contraction import choose
from tensorad.codegen.model import MODEL, Model
from tensorad.codegen.schedule import plan
from tensorad.codegen.splitting import blocked_sums
from tensorad.codegen.target.machine import Machine
from tests.support.import_graph import source_files
from tests.support.reach import Place, mentions, way

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = source_files(ROOT, ("tensorad", "codegen", "simplify"))

DECIDE: tuple[Place, ...] = (
    # how formulas are summed
    ("simplify/formula/product_order.py", "ordered_compute"),
    ("codegen/splitting/term_parts.py", "split_terms"),
    # long sums in blocks, folds in lanes
    ("codegen/splitting/blocked_sums.py", "block_sums"),
    ("codegen/splitting/index_sets.py", "split_conditions"),
    ("codegen/schedule/plan.py", "_plan_folds"),
    ("codegen/schedule/plan.py", "preferred_axis"),
    ("codegen/schedule/plan.py", "lanes_of_nest"),
    ("codegen/schedule/fuse_pieces.py", "planned_together"),
    ("codegen/schedule/emit.py", "fold_lanes"),
    ("codegen/schedule/sums_in_memory.py", "emit_sums_in_memory"),
    ("codegen/loops/vector_loops.py", "lanes_for"),
    ("codegen/loops/vector_loops.py", "registers_for"),
    ("codegen/loops/vector_loops.py", "LaneUse"),
    # what is summed as a product: each element in the order of its reduce axes
    ("codegen/contraction/recognise.py", "recognise"),
    ("codegen/contraction/choose.py", "_pays"),
    ("codegen/contraction/plan_pieces.py", "_ways"),
    # folds in order
    ("codegen/scan/vector_rows.py", "can_vectorise_rows"),
    ("codegen/scan/vector_blocks.py", "takes_blocks"),
    ("codegen/fusion/items.py", "in_blocks"),
    ("codegen/splitting/nest_passes.py", "pieces_of"),
    ("codegen/nest/argreduce.py", "start_selections"),
    ("codegen/nest/ir.py", "simplify_nest"),
    ("codegen/nest/folds.py", "lower_values"),
    ("codegen/cost/operation_costs.py", "operations"),
)
"""What fixes the order in which terms are added."""

TAKE_A_MODEL: tuple[Callable[..., object], ...] = (
    blocked_sums.block_sums,
    blocked_sums._choice,
    plan._plan_folds,
    plan._estimates,
    plan.preferred_axis,
    plan.lanes_of_nest,
    choose._pays,
)


@cache
def edges() -> dict[Place, list[Place]]:
    """What each name of the product mentions."""
    return mentions(ROOT, PRODUCT)


def is_of_machine(p: Place) -> bool:
    return p[0].startswith("codegen/target/")


@pytest.mark.parametrize("decision", DECIDE, ids=[name for _, name in DECIDE])
def test_orders_of_sums_are_out_of_reach_of_the_machine(decision: Place) -> None:
    assert decision in edges(), "it is called otherwise now"
    chain = way(edges(), decision, is_of_machine)
    assert not chain, " -> ".join([f"{file} {name}" for file, name in chain])


def test_the_machine_is_found_where_it_may_be_asked() -> None:
    for p in (("codegen/contraction/choose.py", "plan_contraction"),
              ("codegen/schedule/plan.py", "_plan_elementwise"),
              ("codegen/llvm/streaming.py", "head_length")):  # fmt: skip
        assert way(edges(), p, is_of_machine)


def test_decisions_take_a_model_and_a_machine_is_none() -> None:
    for f in TAKE_A_MODEL:
        assert get_type_hints(f)["model"] is Model
    assert not issubclass(Machine, Model)
    assert isinstance(MODEL, Model)
    with pytest.raises(AttributeError):
        MODEL.line = 128  # type: ignore[misc]  # frozen


def test_a_planted_question_is_found(tmp_path: Path) -> None:
    """Also behind a helper of another file, or in a method of what a type names."""
    files = {
        "codegen/target/machine.py": "class Machine:\n    pass\ndef current(): ...\n",
        "codegen/low.py": "from tensorad.codegen.target import machine\n"
        "def room():\n    return machine.current().l2\n"
        "class Blocking:\n    def fits(self):\n        return room() > 1\n"
        "def plain():\n    return 1\n",
        "codegen/decide.py": "from tensorad.codegen.low import Blocking, plain, room as most\n"
        "from tensorad.codegen.target.machine import Machine\n"
        "def direct(m: Machine): ...\ndef behind():\n    return _helper()\n"
        "def _helper():\n    return most()\ndef typed(b: Blocking):\n    return b.fits()\n"
        "def free():\n    return plain()\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    mentioned = mentions(tmp_path, files)
    found = {n: way(mentioned, ("codegen/decide.py", n), is_of_machine)
             for n in ("direct", "behind", "typed", "free")}  # fmt: skip
    assert found["direct"] == [("codegen/decide.py", "direct"),
                               ("codegen/target/machine.py", "Machine")]  # fmt: skip
    assert [name for _, name in found["behind"]] == ["behind", "_helper", "room", "current"]
    assert [name for _, name in found["typed"]] == ["typed", "Blocking", "room", "current"]
    assert found["free"] == []
