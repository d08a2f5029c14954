"""Operators of ONNX: for each a function of a node with its values, in families."""

from collections.abc import Mapping
from typing import Final

from tensorad.interop.onnx.operators import (
    activations,
    arithmetic,
    attention,
    bits,
    convolution,
    indexing,
    making,
    normalization,
    padding,
    products,
    recurrent,
    reductions,
    resize,
    sampling,
    shapes,
    signals,
    unfolding,
)
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.operators.refused import REFUSED as REFUSED

HANDLERS: Final[Mapping[str, Handler]] = {
    **arithmetic.HANDLERS,
    **activations.HANDLERS,
    **shapes.HANDLERS,
    **making.HANDLERS,
    **products.HANDLERS,
    **convolution.HANDLERS,
    **reductions.HANDLERS,
    **normalization.HANDLERS,
    **indexing.HANDLERS,
    **padding.HANDLERS,
    **resize.HANDLERS,
    **attention.HANDLERS,
    **bits.HANDLERS,
    **signals.HANDLERS,
    **sampling.HANDLERS,
    **recurrent.HANDLERS,
    **unfolding.HANDLERS,
}
"""By the operator's name in ONNX's own domain."""
