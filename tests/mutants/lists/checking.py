"""Gradient checks: tolerances, kinks, what counts as wrong."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

CHECKING: Final = Part("tests/checking")

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "tensorad/checking/slopes.py",
        CHECKING,
        [
            (
                "slopes are half as large",
                "central = _change(ahead, behind) / (2 * eps)",
                "central = _change(ahead, behind) / eps",
            ),
            (
                "NaN agrees with any",
                "np.where(np.isnan(difference), np.inf, difference)",
                "np.where(np.isnan(difference), 0.0, difference)",
            ),
            (
                "the scale is that of all slopes, kinks too",
                "np.isfinite(self.central) & ~self.kinks]",
                "np.isfinite(self.central)]",
            ),
            (
                "the scale may be below 1",
                "return max(1.0, float(usable.max(initial=0.0)))",
                "return float(usable.max(initial=1e-3))",
            ),
            (
                "at kinks anything agrees",
                "difference = np.where(self.kinks, np.maximum(outside, 0.0), difference)",
                "difference = np.where(self.kinks, 0.0, difference)",
            ),
            (
                "below the lower slope is inside",
                "outside = np.maximum(self.low - found, found - self.high)",
                "outside = found - self.high",
            ),
            ("whatever bends is a kink", "kinks = np.asarray(kinks & ~shrinks)", "pass"),
            ("small jumps are no kinks", "_GAP: Final = 1e-5", "_GAP: Final = 1e-1"),
            (
                "an infinity that stays is NaN",
                "return np.asarray(np.where(a == b, 0.0, a - b))",
                "return np.asarray(a - b)",
            ),
        ],
    ),
    *in_file(
        "tensorad/checking/tally.py",
        CHECKING,
        [
            (
                "a thousand times the tolerance",
                "wrong = np.argwhere(errors > self.tol)",
                "wrong = np.argwhere(errors > 1000 * self.tol)",
            ),
            (
                "a thousand times the tolerance for one number",
                "if error > self.tol and self.bad is None:",
                "if error > 1000 * self.tol and self.bad is None:",
            ),
            (
                "the last wrong element is named",
                "where = _index(wrong[0])",
                "where = _index(wrong[-1])",
            ),
            (
                "numbers are not relative to the scale",
                "error = distance(found, expected) / scale",
                "error = distance(found, expected)",
            ),
            (
                "distances of NaN are nothing",
                'return float("inf") if np.isnan(difference) else difference',
                "return 0.0 if np.isnan(difference) else difference",
            ),
            (
                "the worst error is the first",
                "if error >= self.error:",
                "if error >= self.error and not self.place:",
            ),
        ],
    ),
    *in_file(
        "tensorad/checking/inputs.py",
        CHECKING,
        [
            ("values are never below 0", "return signed if finite else known", "return known"),
            ("values may be infinite", "return signed if finite else known", "return signed"),
            ("indices out of bounds stay", "if not _in_bounds(ys, known, engine):", "if False:"),
            (
                "indices go to the limit",
                "rng.integers(0, max(1, limit), shape)",
                "rng.integers(0, max(1, limit) + 1, shape)",
            ),
        ],
    ),
    *in_file(
        "tensorad/checking/gradients.py",
        CHECKING,
        [
            (
                "the default tolerance is a thousand times wider",
                "    eps: float = 1e-6,\n    tol: float = 1e-6,\n    seed: int = 0,\n    *,\n    arrays: Mapping[Tensor, Any] | None = None,\n    sizes: Mapping[str, int] | None = None,\n    directions: int = 1,\n    batch: int = 0,\n    modes: Sequence[str] = MODES,\n    fast: bool = False,\n    override: Override | None = None,\n    compiled: bool | None = None,\n    report: bool = False,",
                "    eps: float = 1e-6,\n    tol: float = 1e-3,\n    seed: int = 0,\n    *,\n    arrays: Mapping[Tensor, Any] | None = None,\n    sizes: Mapping[str, int] | None = None,\n    directions: int = 1,\n    batch: int = 0,\n    modes: Sequence[str] = MODES,\n    fast: bool = False,\n    override: Override | None = None,\n    compiled: bool | None = None,\n    report: bool = False,",
            ),
            (
                "inputs at kinks are not drawn again",
                "if all(r.kinks == 0 for r in checker.rows):",
                "if True:",
            ),
            ("wrong derivatives pass", "if is_wrong and not report:", "if is_wrong and report:"),
            (
                "a bool counts as a number of directions",
                "if isinstance(count, bool) or not isinstance(count, int):",
                "if not isinstance(count, int):",
            ),
            ("a tolerance of infinity", "or not 0 < number < math.inf:", "or not 0 < number:"),
        ],
    ),
]
