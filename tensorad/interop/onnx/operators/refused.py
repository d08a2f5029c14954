"""Operators that are refused, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_QUANTISED: Final = "quantised kernels are not imported."
_STRINGS: Final = "there are no strings here."
_SEQUENCES: Final = "there are no sequences and optional values here."
_LOOPS: Final = "loops that a graph runs in calls are not imported."
_SHAPES: Final = "the shape of its output depends on data."
_RANDOM: Final = "its output is random."

REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv",
         "QLinearMatMul", "ConvInteger", "MatMulInteger"), _QUANTISED,
    ),
    **dict.fromkeys(
        ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer",
         "ImageDecoder"), _STRINGS,
    ),
    **dict.fromkeys(
        ("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
         "SequenceLength", "SequenceMap", "SplitToSequence", "ConcatFromSequence", "Optional",
         "OptionalGetElement", "OptionalHasElement"), _SEQUENCES,
    ),
    **dict.fromkeys(("Loop", "Scan"), _LOOPS),
    **dict.fromkeys(("Compress", "Unique", "NonMaxSuppression"), _SHAPES),
    **dict.fromkeys(
        ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial",
         "Bernoulli"), _RANDOM,
    ),
}  # fmt: skip
"""By the operator's name in ONNX's own domain."""
