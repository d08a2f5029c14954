"""Fourier transforms, by sums of products with tables, and weights of frequencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call, axis_of
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.values import MAX_FOLDED, Array, Known, Value, dtype_of
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.topi.definition import define


def _one(call: Call, n: int, what: str) -> int:
    """A known input that is one positive integer."""
    told = call.whole(n)
    if len(told) != 1 or not 0 < told[0] <= MAX_FOLDED:
        raise OnnxError(f"its {what} {told} is not one integer from 1 to {MAX_FOLDED:,}.")
    return told[0]


def dft(call: Call) -> Value:
    """The discrete Fourier transform along an axis; real and imaginary parts are the last one."""
    x = call.tensor(0)
    if call.version < 20:
        axis = axis_of(call.integer("axis", 1), x.ndim)
    else:
        told = call.whole(2) if call.has(2) else (-2,)
        axis = axis_of(told[0] if len(told) == 1 else x.ndim, x.ndim)
    inverse, onesided = call.flag("inverse", False), call.flag("onesided", False)
    extent = x.shape[axis]
    if axis == x.ndim - 1 or x.shape[-1] not in (1, 2) or not isinstance(extent, int):
        raise OnnxError(
            f"its input {format_shape(x.shape)} has no axis {axis} of a known extent in front of "
            "one or two parts."
        )
    if call.has(1):
        length = _one(call, 1, "length")
    else:
        length = 2 * (extent - 1) if inverse and onesided else extent
    if not 0 < length <= MAX_FOLDED:
        raise OnnxError(f"a transform has no length {length}.")
    return _Transform(x, axis, length).of(inverse, onesided)


class _Transform:
    """Sums over one axis, of which `length` elements count; there are 0 behind its end."""

    def __init__(self, x: Tensor, axis: int, length: int) -> None:
        self.x = x
        self.axis = axis
        self.length = length
        turn = 2 * np.pi / length
        self._cosines, self._sines = (
            define((length,), lambda j, f=f: f(j.astype(FLOAT64) * turn).astype(x.dtype), "table")
            for f in (te.cos, te.sin)
        )

    def of(self, inverse: bool, onesided: bool) -> Tensor:
        """Both parts, or the real one alone of what was one-sided."""
        half = self.length // 2 + 1
        complex_input = bool(self.x.shape[-1] == 2)
        if inverse and onesided:
            again = self._sum(self.length, half, (1, -1), (0, 1), complex_input, mirrored=True)
            return topi.expand_dims(again, -1)
        bins = half if onesided else self.length
        signs = (1, -1) if inverse else (1, 1)
        real = self._sum(bins, self.length, signs, (0, 1), complex_input, inverse)
        turned = (1, 1) if inverse else (-1, 1)
        imaginary = self._sum(bins, self.length, turned, (1, 0), complex_input, inverse)
        return topi.stack([real, imaginary], -1)

    def _sum(
        self,
        points: int,
        terms: int,
        signs: tuple[int, int],
        tables: tuple[int, int],
        complex_input: bool,
        scaled: bool = True,
        *,
        mirrored: bool = False,
    ) -> Tensor:
        """Sum over t of a sign times a table times the real part, and so of the imaginary one."""
        extent = self.x.shape[self.axis]
        count = min(terms, extent) if isinstance(extent, int) else terms
        matrices = [
            self._matrix(points, count, signs[n], tables[n], mirrored)
            for n in range(1 + complex_input)
        ]
        scale = 1.0 / self.length if scaled else 1.0

        def body(*i: Expr) -> Expr:
            t = te.reduce_axis(count, name="t")
            at = (*i[: self.axis], t, *i[self.axis + 1 :])
            total: Expr | None = None
            for part, m in enumerate(matrices):
                term = te.sum(self.x[(*at, part)] * m[i[self.axis], t], axis=t)
                total = term if total is None else total + term
                t = te.reduce_axis(count, name="t")
                at = (*i[: self.axis], t, *i[self.axis + 1 :])
            assert total is not None, "there is a real part"
            return total * scale

        shape = list(self.x.shape[:-1])
        shape[self.axis] = points
        return define(tuple(shape), body, "dft")

    def _matrix(self, points: int, count: int, sign: int, which: int, mirrored: bool) -> Tensor:
        """Cosines (0) or sines (1) of all angles; with mirrored terms, those twice."""
        table = self._sines if which else self._cosines
        n = self.length

        def body(k: Expr, t: Expr) -> Expr:
            value = table[k * t % n] * float(sign)
            if not mirrored:
                return value
            alone = te.any_of(t == 0, t * 2 == n)
            return te.select(alone, value, value * 2.0)  # type: ignore[no-any-return]  # an element

        return define((points, count), body, "angles")


def stft(call: Call) -> Value:
    """Transforms of parts of a signal, a step apart, each times a window."""
    signal = call.tensor(0)
    if signal.ndim == 2:
        signal = topi.expand_dims(signal, -1)
    extent = signal.shape[1] if signal.ndim == 3 else None
    if not isinstance(extent, int) or signal.shape[2] not in (1, 2):
        raise OnnxError(
            f"its input {format_shape(signal.shape)} is no batch of signals of a known length."
        )
    step = _one(call, 1, "step")
    window = call.optional(2)
    width = None
    if window is not None and window.ndim == 1 and isinstance(window.shape[0], int):
        width = window.shape[0]
    length = _one(call, 3, "length") if call.has(3) else width
    if length is None or width not in (None, length) or not 1 <= length <= extent:
        raise OnnxError(f"it needs a window or a length of 1 to {extent}, both the same.")
    frames = 1 + (extent - length) // step

    def frame(b: Expr, f: Expr, t: Expr, part: Expr) -> Expr:
        value = signal[b, f * step + t, part]
        return value if window is None else value * window[t]

    parts = define((signal.shape[0], frames, length, signal.shape[2]), frame, "frames")
    return _Transform(parts, 2, length).of(False, call.flag("onesided", True))


def mel_weights(call: Call) -> Value:
    """Weights of the frequencies of a transform in bands that are equally wide to the ear."""
    bands, length, rate = (
        _one(call, n, what) for n, what in enumerate(("bands", "length", "rate"))
    )
    edges = [call.setting(n) for n in (3, 4)]
    low, high = [float(e) if e is not None and np.isfinite(e) else -1.0 for e in edges]
    rows = length // 2 + 1
    if not 0 <= low < high or 2 * high > rate or rows * bands > MAX_FOLDED:
        raise OnnxError(
            f"{bands} bands of {rows} frequencies cannot lie between {edges[0]} and {edges[1]} "
            f"at a rate of {rate}.",
            hint="edges grow, up to half of the rate.",
        )
    dtype = dtype_of(call.integer("output_datatype", 1))
    return Known(_bands(bands, length, rate, (low, high)).astype(str(dtype)), dtype)


def _bands(bands: int, length: int, rate: int, edges: tuple[float, float]) -> Array:
    first, last = (2595 * np.log10(1 + e / 700) for e in edges)
    mels = first + (last - first) / (bands + 2) * np.arange(bands + 2)
    at = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(int)
    made = np.zeros((length // 2 + 1, bands))
    for n in range(bands):
        low, middle, high = at[n : n + 3]
        if low == middle:
            made[middle, n] = 1
        else:
            rising = np.arange(low, middle + 1)
            made[rising, n] = (rising - low) / (middle - low)
        falling = np.arange(middle, high)
        made[falling, n] = (high - falling) / max(high - middle, 1)
    return made


HANDLERS: Final[Mapping[str, Handler]] = {
    "DFT": dft,
    "STFT": stft,
    "MelWeightMatrix": mel_weights,
}
