"""A user's code is tried by itself, in scalars and in lanes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensorad.codegen.llvm.math.own_functions import check_code, definition
from tensorad.codegen.llvm.text import Code, Writer
from tensorad.errors import DefinitionError
from tensorad.ir.dtypes import FLOAT32, FLOAT64
from tensorad.ir.elementary.table import FUNCTIONS

ATAN2 = FUNCTIONS["atan2"]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", list(FUNCTIONS))
@pytest.mark.parametrize("lanes", [0, 8])
def test_the_code_of_every_function_passes(name: str, lanes: int) -> None:
    for dtype in (FLOAT32, FLOAT64):
        check_code(FUNCTIONS[name], dtype, lanes)


def test_code_that_is_right_in_scalars_only_is_refused_in_lanes() -> None:
    row = replace(ATAN2, name="mine", code=lambda w, a, b: w.put(f"fadd double {a}, {b}"))
    check_code(row, FLOAT64, 0)
    with pytest.raises(DefinitionError) as caught:
        check_code(row, FLOAT64, 8)
    assert str(caught.value) == (
        "the code of the function mine gives no float64: '%x0' defined with type '<8 x double>' "
        "but expected 'double'.\n"
        "  in: mine(a, b) of 8 lanes\n"
        "  hint: give the register with the value, as the methods of w do; what w.of(...) made of "
        "another dtype has to be converted."
    )


def test_a_definition_returns_the_result() -> None:
    w = Writer(Code(), 0, FLOAT32, 0)
    assert definition(w, "float @f", ["%a", "%b"], w.add("%a", "%b")) == (
        "define float @f(float %a, float %b) nounwind {\n"
        "entry:\n%v1 = fadd float %a, %b\nret float %v1\n}"
    )
