"""`gradcheck`: reverse mode, forward mode and central differences must agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, overload

import numpy as np

from tensorad.autodiff.checks import check_outputs, check_wrt
from tensorad.autodiff.local.flows import stopped_in_one_mode
from tensorad.autodiff.local.overrides import Override, check_override
from tensorad.checking.blame import guilty
from tensorad.checking.checker import MODES, Checker, Settings
from tensorad.checking.engine import Engine, has_much_to_do
from tensorad.checking.inputs import Bindings, choose_inputs
from tensorad.checking.report import Disagreement, GradReport
from tensorad.errors import DefinitionError, GradError
from tensorad.ir.arrays.arguments import check_settled
from tensorad.ir.tensor import Tensor, outputs
from tensorad.ir.text.printer import format_tensor

_ATTEMPTS: Final = 4
"""Random inputs that meet a kink are drawn again so often."""
_Outputs = Tensor | Sequence[Tensor]


@overload
def gradcheck(
    y: _Outputs,
    wrt: Sequence[Tensor] | Tensor,
    order: int = 1,
    eps: float = 1e-6,
    tol: float = 1e-6,
    seed: int = 0,
    *,
    arrays: Mapping[Tensor, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    directions: int = 1,
    batch: int = 0,
    modes: Sequence[str] = MODES,
    fast: bool = False,
    override: Override | None = None,
    compiled: bool | None = None,
    report: Literal[False] = False,
) -> bool: ...
@overload
def gradcheck(
    y: _Outputs,
    wrt: Sequence[Tensor] | Tensor,
    order: int = 1,
    eps: float = 1e-6,
    tol: float = 1e-6,
    seed: int = 0,
    *,
    arrays: Mapping[Tensor, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    directions: int = 1,
    batch: int = 0,
    modes: Sequence[str] = MODES,
    fast: bool = False,
    override: Override | None = None,
    compiled: bool | None = None,
    report: Literal[True],
) -> GradReport: ...
def gradcheck(
    y: _Outputs,
    wrt: Sequence[Tensor] | Tensor,
    order: int = 1,
    eps: float = 1e-6,
    tol: float = 1e-6,
    seed: int = 0,
    *,
    arrays: Mapping[Tensor, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    directions: int = 1,
    batch: int = 0,
    modes: Sequence[str] = MODES,
    fast: bool = False,
    override: Override | None = None,
    compiled: bool | None = None,
    report: bool = False,
) -> bool | GradReport:
    """Check the derivatives of `y`, evaluated in float64.

    Forward mode is compared with central differences along random directions, reverse mode with
    both: element by element for small inputs, by <gradient, direction> for large ones. At a kink or
    jump (one-sided differences tell) any slope between the one-sided ones passes and is counted;
    random inputs are drawn again. Values under `stop_gradient` are held while an input moves.

    Args:
        y: float tensor, or several (integers are left out), also checked together.
        wrt: inputs or intermediates.
        order: 2 checks the derivatives of each gradient as well, and one mode over the other.
        eps, seed: step of the central differences; what random values start from.
        tol: allowed difference, relative to the largest value compared (at least 1).
        arrays: values of inputs; others are random, integers among the valid indices.
        sizes: values of symbolic sizes.
        directions: how many random directions to try.
        batch: also compare heads and tangents with this leading extent with single ones.
        modes: which are checked, "forward", "reverse" or both.
        fast: compare along random directions only; a wrong element is still searched for.
        override: rules, as in `vjp`; a wrong one (or a wrong `scalar_function`) is named.
        compiled: evaluate by compiled code, not by the interpreter, which is slow and obvious;
            None: where one evaluation takes more than 5,000 iterations.
        report: return a `GradReport` whether or not all agree, instead of raising.
    Returns:
        True, or the report.
    Raises:
        GradError: two ways to differentiate disagree (the text names the first wrong element);
            no output is a float, or `wrt` is empty; both modes, of which `stop_gradient` stops one.
        DefinitionError: a number is out of its range, or a mode is neither.
        ShapeError: an output has a row for each iteration of a loop that data end.
    """
    _check_numbers(eps, tol, (order, directions, batch, seed))
    ys = _checked(y)
    inputs = check_wrt(wrt)
    check_override(override)
    by_llvm = has_much_to_do(ys, sizes or {}) if compiled is None else compiled
    engine, wanted = Engine(sizes or {}, by_llvm), _checked_modes(modes, ys)
    settings = Settings(eps, tol, directions, batch, engine, override, wanted, fast)
    result, is_wrong = _attempts(ys, inputs, settings, order, seed, dict(arrays or {}))
    if is_wrong and not report:
        raise _error(result, ys)
    return result if report else True


def _checked(y: object) -> list[Tensor]:
    """The float tensors to check, of shapes that are known."""
    found = check_outputs(y)
    ys = [found] if isinstance(found, Tensor) else [t for t in found if t.dtype.is_float]
    check_settled(ys, "gradcheck")
    return ys


def _checked_modes(modes: object, ys: Sequence[Tensor]) -> frozenset[str]:
    """The modes to check, which have one derivative if they are both.

    Raises:
        DefinitionError: there are no such modes.
        GradError: `stop_gradient` stops one of two.
    """
    given = (modes,) if isinstance(modes, str) else modes
    if not isinstance(given, (tuple, list)) or not given or any(m not in MODES for m in given):
        raise DefinitionError(
            f"gradcheck checks forward and reverse mode, got modes={modes!r}.",
            hint='use modes=("forward", "reverse"), or one of them.',
        )
    found = frozenset(given)
    op = stopped_in_one_mode(ys) if len(found) > 1 else None
    if op is not None:
        raise GradError(
            f"gradcheck compares both modes, but {op.name} stops derivatives in one.",
            where=outputs(op)[0].described,
            hint='check one mode after the other: modes=("forward",), modes=("reverse",).',
        )
    return found


def _check_numbers(eps: object, tol: object, counts: tuple[object, ...]) -> None:
    for name, number in (("eps", eps), ("tol", tol)):
        if not isinstance(number, (int, float)) or not 0 < number < math.inf:
            raise DefinitionError(
                f"{name} must be a positive number, got {number!r}.", hint=f"use {name}=1e-6."
            )
    least = (("order", 1), ("directions", 1), ("batch", 0), ("seed", 0))
    for (name, low), count in zip(least, counts, strict=True):
        if isinstance(count, bool) or not isinstance(count, int):
            raise DefinitionError(
                f"{name} must be an integer, got {count!r}.", hint=f"use {name}={low}."
            )
        if count < low:
            raise DefinitionError(
                f"{name} must be at least {low}, got {count}.", hint=f"use {name}={low}."
            )


def _attempts(
    ys: list[Tensor],
    wrt: list[Tensor],
    settings: Settings,
    order: int,
    seed: int,
    given: Bindings,
) -> tuple[GradReport, bool]:
    """The first check away from kinks, or the last one."""
    for attempt in range(_ATTEMPTS):
        rng = np.random.default_rng([seed, attempt] if attempt else seed)
        bindings = choose_inputs(ys, wrt, given, settings.engine, rng)
        checker = Checker(wrt, settings, rng)
        wrong: Disagreement | None = None
        try:
            checker.run(ys, order, bindings)
        except Disagreement as caught:
            wrong = caught
            checker.rows.append(caught.row)
        if all(r.kinks == 0 for r in checker.rows):
            break
    result = GradReport(_names(ys, wrt), _settings_text(settings, order, seed), checker.rows)
    if wrong is not None:
        blamed = guilty(ys, settings, bindings)
        result.wrong = wrong.text if blamed is None else f"{wrong.text}\n{blamed}"
    return result, wrong is not None


def _names(ys: Sequence[Tensor], wrt: Sequence[Tensor]) -> str:
    return f"{', '.join([y.name for y in ys])} by {', '.join([x.name for x in wrt])}"


def _settings_text(s: Settings, order: int, seed: int) -> str:
    how = "compiled" if s.engine.compiled else "interpreted"
    text = f"order {order}, seed {seed}, float64 {how}"
    if len(s.modes) == 1:
        text += f", {min(s.modes)} mode only"
    if s.fast:
        text += ", along random directions only"
    return f"{text}, central differences of step {s.eps:g}, tolerance {s.tol:g}"


def _error(result: GradReport, ys: Sequence[Tensor]) -> GradError:
    texts = [format_tensor(y).replace("\n", "\n    ") for y in ys]
    return GradError(
        result.wrong or "",
        where="\n    ".join(texts),
        hint="at a kink or a pole this is no error: try another seed or other arrays.",
    )
