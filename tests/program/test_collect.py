"""What is said of how adjoints are collected: by `ta.gradient`, in `ta.explain_adjoints`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import GradError

TEXT = """\
def f(x : float64[3], n : int64[]) -> float64[]:
  y : float64[3] = [i] x[i]*2.0
  z : float64[3] = [i] y[i]*x[i]
  pair = (y, z)
  s : float64[] = sum over (k in [0, 3)) of z[k]
  m : float64[] = max over (k in [0, 3)) of y[k]
  r : float64[] = s + m
  return r
"""


def names(collect: Any) -> list[str]:
    f = ta.gradient(ta.module(TEXT), "f", collect=collect)["f_adjoint"]
    _, (dx, _) = f(np.array([1.0, 5.0, 2.0]), 1)
    np.testing.assert_allclose(dx, [4.0, 22.0, 8.0])
    return [n for n in f.record.tensors if n.endswith("_adjoint")]


def test_forced_values_have_no_binding() -> None:
    every = names(None)
    assert {"r_adjoint", "s_adjoint", "m_adjoint", "z_adjoint", "y_adjoint"} < set(every)
    assert set(every) - set(names({"z": "pass on"})) == {"z_adjoint"}
    assert set(every) - set(names({"z": "pass on", "s": "pass on"})) == {"z_adjoint", "s_adjoint"}
    assert names({"z": "accumulate"}) == every


def test_what_cannot_be_collected_so_is_refused() -> None:
    def error(collect: Any) -> str:
        with pytest.raises(GradError) as caught:
            names(collect)
        return str(caught.value)

    head = "  in: gradient of f, collect={}\n"
    ways = 'collect is a dict from names of tensors to "accumulate" or "pass on".'
    assert error("all") == (
        'collect is neither None nor "counted" nor a dict.\n'
        + head.format("'all'")
        + '  hint: write a dict from names of values to "accumulate" or "pass on".'
    )
    assert error({"q": "pass on"}) == (
        "f has no tensor called q.\n" + head.format("{'q': 'pass on'}") + f"  hint: {ways}"
    )
    assert error({"pair": "pass on"}).startswith("f has no tensor called pair.")
    assert error({"z": "store"}) == (
        "f cannot collect z by 'store'.\n" + head.format("{'z': 'store'}") + f"  hint: {ways}"
    )
    for name in ("m", "r", "x"):
        assert error({name: "pass on"}) == (
            f"what the adjoint of {name} receives cannot go straight on.\n"
            + head.format({name: "pass on"})
            + "  hint: only formulas and sums between parameters and target pass on; what is asked "
            "for is accumulated."
        )


def test_functions_are_explained_at_their_defaults_or_arguments() -> None:
    three = np.ones(3)

    def f(x: Any = three, y: Any = 2.0) -> Any:
        return (x * y).sum()

    for told in (ta.explain_adjoints(f), ta.explain_adjoints(f, np.ones(5), 2.0)):
        assert [v.name for v in told.values] == ["sum", "mul", "x", "y"]
        assert str(told["mul"]).startswith("mul: passed on\n  increment   go on to x, y: those of ")
        assert str(told["sum"]) == (
            "sum: accumulated\n"
            "  initialize  sum_adjoint : float64[], by the increment of its head\n"
            "  finalize    goes to mul"
        )
    forced = ta.explain_adjoints(f, collect={"mul": "accumulate"})["mul"]
    assert str(forced).startswith("mul: accumulated, as asked\n")
    assert ta.explain_adjoints(f, require_grads="x")["y"].collected is None
