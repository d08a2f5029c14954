"""First and second derivatives by hand, in expressions that stay finite where these are.

Points are arrays of `np.longdouble`. No expression takes an exponential of a positive number other
than where the derivative itself is one, so each holds where `np.longdouble` is `np.float64`, too.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erfc
from typing import Any, Final

import numpy as np

Points = np.ndarray[Any, np.dtype[np.longdouble]]
Slope = Callable[[Points], Any]
Both = tuple[Slope, Slope]
"""The first and the second derivative."""

PI: Final = 4 * np.arctan(np.longdouble(1))
LN2: Final = np.log(np.longdouble(2))
LN10: Final = np.log(np.longdouble(10))
HALF: Final = np.longdouble(1) / 2
SELU: Final = np.longdouble("1.0507009873554804934193349852946")
SELU_ALPHA: Final = np.longdouble("1.6732632423543772848170429916717")
BERNOULLI: Final = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
)  # fmt: skip
"""Of even numbers, from 2."""


def scaled(both: Both, by: Any, inside: Any = 1) -> Both:
    """by * f(inside * x)."""
    first, second = both
    return (
        lambda x: by * inside * first(inside * x),
        lambda x: by * inside * inside * second(inside * x),
    )


def constant(value: float) -> Both:
    return lambda x: np.full_like(x, value), np.zeros_like


def split(right: Both, left: Both) -> Both:
    """One function where x > 0, another one elsewhere."""
    return (
        lambda x: np.where(x > 0, right[0](np.abs(x)), left[0](-np.abs(x))),
        lambda x: np.where(x > 0, right[1](np.abs(x)), left[1](-np.abs(x))),
    )


def between(low: float, high: float, inside: Both, right: Both) -> Both:
    """Zero below, one function between two numbers, another one above."""

    def slope(order: int) -> Slope:
        return lambda x: np.where(x > high, right[order](x), np.where(x < low, 0, inside[order](x)))

    return slope(0), slope(1)


def power(n: float) -> Both:
    def slope(k: float, by: float) -> Slope:
        return (lambda x: by * x**k) if by else np.zeros_like

    return slope(n - 1, n), slope(n - 2, n * (n - 1))


def powers_in_turn() -> Both:
    """x**0 twice, x twice, x**2 twice, x**3 twice, and again."""

    def slope(order: int) -> Slope:
        def at(x: Points) -> Any:
            k = np.arange(len(x)) // 2 % 4
            factor = k if order == 1 else k * (k - 1)
            return factor * x ** np.maximum(k - order, 0)

        return at

    return slope(1), slope(2)


# exponentials


def sigmoid(x: Points) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x > 0, 1, small) / (1 + small)


def sigmoid_1(x: Points) -> Any:
    return sigmoid(x) * sigmoid(-x)


def sigmoid_2(x: Points) -> Any:
    return sigmoid_1(x) * (sigmoid(-x) - sigmoid(x))


def silu_1(x: Points) -> Any:
    return sigmoid(x) + x * sigmoid_1(x)


def silu_2(x: Points) -> Any:
    return 2 * sigmoid_1(x) + x * sigmoid_2(x)


SOFTPLUS: Final = (sigmoid, sigmoid_1)
TANH: Final = (lambda x: 4 * sigmoid_1(2 * x), lambda x: 8 * sigmoid_2(2 * x))


def density(x: Points) -> Any:
    return np.exp(-x * x / 2) / np.sqrt(2 * PI)


def gelu_1(x: Points) -> Any:
    below = np.array([erfc(-v) / 2 for v in x * np.sqrt(HALF)])
    return below + x * density(x)


def gelu_2(x: Points) -> Any:
    return density(x) * (2 - x * x)


def gelu_by_tanh() -> Both:
    """x * sigmoid(u): u is twice the polynomial that tanh gets."""
    a, b = 2 * np.sqrt(2 / PI), np.longdouble("0.044715")

    def u(x: Points) -> tuple[Points, Points, Points]:
        return a * (x + b * x**3), a * (1 + 3 * b * x**2), a * 6 * b * x

    def first(x: Points) -> Any:
        v, v1, _ = u(x)
        return sigmoid(v) + x * sigmoid_1(v) * v1

    def second(x: Points) -> Any:
        v, v1, v2 = u(x)
        return (2 * v1 + x * v2) * sigmoid_1(v) + x * v1**2 * sigmoid_2(v)

    return first, second


def mish() -> Both:
    """x * t, t the tanh of softplus, and c its cosine there squared, inverse."""

    def parts(x: Points) -> tuple[Any, Any]:
        w = np.exp(-np.abs(x))
        right = (1 + 2 * w) / (1 + 2 * w + 2 * w * w)
        left = (w * w + 2 * w) / (w * w + 2 * w + 2)
        c_right = (2 * w * (1 + w) / (1 + 2 * w + 2 * w * w)) ** 2
        c_left = (2 * (1 + w) / (w * w + 2 * w + 2)) ** 2
        return np.where(x > 0, right, left), np.where(x > 0, c_right, c_left)

    def first(x: Points) -> Any:
        t, c = parts(x)
        return t + x * c * sigmoid(x)

    def second(x: Points) -> Any:
        t, c = parts(x)
        return 2 * c * sigmoid(x) + x * c * (sigmoid_1(x) - 2 * t * sigmoid(x) ** 2)

    return first, second


def gamma(order: int) -> Both:
    """Derivatives of the `order`-th one of lgamma, by the series at large x."""

    def derivative(n: int) -> Slope:
        return lambda x: np.array([_polygamma(n, v) for v in x])

    return derivative(order), derivative(order + 1)


def _polygamma(n: int, x: Any) -> Any:
    """The n-th derivative of digamma, for x of some tens at least."""
    sign, factor = (-1) ** (n + 1), np.longdouble(1)
    for k in range(1, n):
        factor *= k  # (n - 1)!
    total = sign * factor / x**n * (1 + n / (2 * x)) if n else np.log(x) - 1 / (2 * x)
    for k, b in enumerate(BERNOULLI, 1):
        rising = np.longdouble(1)
        for j in range(1, n):
            rising *= 2 * k + j
        rising = rising if n else np.longdouble(1) / (2 * k)
        total += sign * b * rising / x ** (2 * k + n)
    return total


EXP: Final[Both] = (np.exp, np.exp)
LOG: Final[Both] = (lambda x: 1 / x, lambda x: -1 / x**2)
ERF: Final[Both] = (
    lambda x: 2 / np.sqrt(PI) * np.exp(-x * x),
    lambda x: -4 / np.sqrt(PI) * x * np.exp(-x * x),
)
FLAT: Final = constant(0)
LINE: Final = constant(1)
KINK: Final = split(LINE, FLAT)
ROOT_OF_SUM: Final[Both] = (
    lambda x: 1 / np.sqrt(1 + x * x),
    lambda x: -x / (1 + x * x) ** (3 * HALF),
)

FORMS: Final[dict[str, Both]] = {
    "exp": EXP,
    "exp2": scaled(EXP, 1, LN2),
    "expm1": EXP,
    "tanh": TANH,
    "sigmoid": (sigmoid_1, sigmoid_2),
    "erf": ERF,
    "erfc": scaled(ERF, -1),
    "sin": (np.cos, lambda x: -np.sin(x)),
    "cos": (lambda x: -np.sin(x), lambda x: -np.cos(x)),
    "tan": (lambda x: 1 / np.cos(x) ** 2, lambda x: 2 * np.tan(x) / np.cos(x) ** 2),
    "atan": (lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2),
    "sinh": (np.cosh, np.sinh),
    "cosh": (np.sinh, np.cosh),
    "asinh": ROOT_OF_SUM,
    "negative": constant(-1),
    "square": power(2),
    "silu": (silu_1, silu_2),
    "gelu": (gelu_1, gelu_2),
    "softplus": SOFTPLUS,
    "log_sigmoid": scaled(SOFTPLUS, -1, -1),
    "mish": mish(),
    "log": LOG,
    "log2": scaled(LOG, 1 / LN2),
    "log10": scaled(LOG, 1 / LN10),
    "sqrt": power(0.5),
    "rsqrt": power(-0.5),
    "log1p": (lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2),
    "asin": LINE,
    "acos": constant(-1),
    "atanh": LINE,
    "erfinv": (lambda x: np.full_like(x, np.sqrt(PI) / 2), np.zeros_like),
    "cbrt": (
        lambda x: 1 / (3 * np.cbrt(np.abs(x)) ** 2),
        lambda x: -2 / (9 * np.cbrt(x) ** 5),
    ),
    "lgamma": gamma(0),
    "digamma": gamma(1),
    "trigamma": gamma(2),
    "acosh": (
        lambda x: 1 / np.sqrt(x * x - 1),
        lambda x: -x / (x * x - 1) ** (3 * HALF),
    ),
    "abs": split(LINE, constant(-1)),
    **dict.fromkeys(("sign", "floor", "ceil", "trunc", "round"), FLAT),
    "relu": KINK,
    "relu6": FLAT,
    "leaky_relu": split(LINE, constant(0.01)),
    "elu": split(LINE, EXP),
    "elu, alpha 0.5": split(LINE, scaled(EXP, HALF)),
    "celu": split(LINE, EXP),
    "celu, alpha 0.5": split(LINE, scaled(EXP, HALF, 2)),
    "selu": scaled(split(LINE, scaled(EXP, SELU_ALPHA)), SELU),
    "gelu by tanh": gelu_by_tanh(),
    "softplus, beta 2": scaled(SOFTPLUS, HALF, 2),
    "hard_sigmoid": between(-3, 3, scaled(LINE, 1 / np.longdouble(6)), FLAT),
    "hard_sigmoid of ONNX": between(-2, 2, constant(0.25), FLAT),
    "hard_swish": between(
        -3, 3, (lambda x: (2 * x + 3) / 6, lambda x: np.full_like(x, 1) / 3), LINE
    ),
    "clip": between(-1, 2, LINE, FLAT),
    "clip to a point": FLAT,
    "clip to nothing": FLAT,
    "power 0": FLAT,
    "power 0.0": FLAT,
    "power 1": LINE,
    "power 2": power(2),
    "power 2.0": power(2),
    "power 3": power(3),
    "power -1": power(-1),
    "power -2.0": power(-2),
    "power 2.5": power(2.5),
    **dict.fromkeys(("power int64", "power float64"), powers_in_turn()),
    "power of 2": scaled(EXP, 1, LN2),
    "sum of powers": (lambda x: 1 + 2 * x + 3 * x * x, lambda x: 2 + 6 * x),
    "maximum with itself": LINE,
    "x times abs": (lambda x: 2 * np.abs(x), lambda x: 2 * np.sign(x)),
    "scalar_function": LINE,
}
