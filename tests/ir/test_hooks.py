"""Functions that files call and files above them define."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tensorad.errors import InternalError
from tensorad.ir import expr, node, nodes, tensor
from tensorad.ir.hooks import Hook

ROOT = Path(__file__).resolve().parents[2]
CALLERS = (expr, node, nodes, tensor)
HOOKS = {
    f"{module.__name__}.{name}": hook
    for module in CALLERS
    for name, hook in vars(module).items()
    if isinstance(hook, Hook)
}


@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)
def test_the_file_a_hook_names_fills_it(hook: Hook[..., object]) -> None:
    import_module(hook._module)
    assert hook.call.__module__ == hook._module


def test_a_file_that_fills_nothing_is_an_internal_error() -> None:
    hook: Hook[[], int] = Hook("tensorad.errors")
    with pytest.raises(InternalError, match=r"tensorad\.errors does not fill the hook"):
        hook.call()


def test_a_hook_is_filled_when_it_is_first_called() -> None:
    """Nothing above tensors is imported before somebody asks for it."""
    code = """
import sys
from tensorad.ir.dtypes import FLOAT32
from tensorad.ir.tensor import Placeholder, outputs
above = ("tensorad.ir.expr", "tensorad.ir.text.printer", "tensorad.display.html", "sympy")
loaded = lambda: [name for name in above if name in sys.modules]
(X,) = outputs(Placeholder("X", (3,), FLOAT32))
print(loaded())
print((X + 1) is not None, loaded())
print(str(X).splitlines()[0], loaded())
print("<b>X</b>" in X._repr_html_(), loaded())
print(X._repr_latex_(), loaded())
"""
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "[]",
        "True ['tensorad.ir.expr']",
        "tensor X : float32 [3] ['tensorad.ir.expr', 'tensorad.ir.text.printer']",
        "True ['tensorad.ir.expr', 'tensorad.ir.text.printer', 'tensorad.display.html']",
        r"$\mathrm{X}$ ['tensorad.ir.expr', 'tensorad.ir.text.printer', 'tensorad.display.html', "
        "'sympy']",
    ]
