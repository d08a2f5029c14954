"""An imported model: its tensors by name, and functions that compute it, with gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorad import te
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.compiled import CompiledFunction
from tensorad.errors import BindError, GradError
from tensorad.interop.onnx.values import Array, Parameter
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.topi.arguments import shown


class Imported:
    """An ONNX model as tensors.

    Attributes:
        inputs: placeholders by their names in the model.
        parameters: the model's arrays of floats, by name: what calls use unless given others.
        placeholders: those of inputs and parameters, by name.
        outputs: tensors by name.
    """

    def __init__(
        self,
        inputs: Mapping[str, Tensor],
        parameters: Sequence[Parameter],
        outputs: Mapping[str, Tensor],
    ) -> None:
        self.inputs = dict(inputs)
        self.parameters: dict[str, Array] = {p.name: p.array for p in parameters}
        self.placeholders = {**self.inputs, **{p.name: p.tensor for p in parameters}}
        self.outputs = dict(outputs)

    def __repr__(self) -> str:
        own = ", ".join(
            [f"{n} : {t.dtype} {format_shape(t.shape)}" for n, t in self.inputs.items()]
        )
        return (
            f"<Imported ({own}), {len(self.parameters)} parameters, to {', '.join(self.outputs)}>"
        )

    def build(
        self, gradients: Sequence[str] = (), *, of: str | Sequence[str] | None = None
    ) -> ImportedFunction:
        """Compile the model, and gradients with it.

        Args:
            gradients: names of inputs and parameters to differentiate by.
            of: names of the outputs that are differentiated; None: all of floats. A single one
                of one element has the cotangent 1; for others calls take `cotangents`, and a
                gradient is the sum over outputs of cotangents times derivatives.
        Raises:
            GradError: there is no input, parameter or output of a name, or it has no floats.
        """
        wanted = [gradients] if isinstance(gradients, str) else list(gradients)
        for name in wanted:
            _differentiable(name, self.placeholders, "input or parameter")
        if wanted and of is None:
            of = [n for n, t in self.outputs.items() if t.dtype.is_float]
        chosen = [of] if isinstance(of, str) else list(of or ())
        for name in chosen:
            _differentiable(name, self.outputs, "output")
        if wanted and not chosen:
            raise GradError("the model has no output of floats.", hint="nothing depends on it.")
        return ImportedFunction(self, wanted, chosen if wanted else [])


def _differentiable(name: str, among: Mapping[str, Tensor], kind: str) -> None:
    found = among.get(name)
    if found is None or not found.dtype.is_float:
        what = f"{kind} {shown(name)} is {found.dtype}" if found else f"no {kind} is {shown(name)}"
        raise GradError(
            f"{what}, so there is no gradient.",
            where=f"{kind}s: {', '.join(list(among)[:20])}",
            hint="name those of floats.",
        )


class ImportedFunction:
    """What `Imported.build` returns: the model as a function of arrays by name.

    Attributes:
        compiled: the function of arrays by position that it calls.
        arguments: the names of those positions; cotangents come last.
    """

    def __init__(self, model: Imported, gradients: Sequence[str], of: Sequence[str]) -> None:
        self.model = model
        self.gradients = tuple(gradients)
        heads: dict[str, Tensor] = {}
        results: list[Tensor] = []
        if gradients:
            results, heads = _gradients(model, gradients, of)
        self.cotangents = tuple(heads)
        self.arguments = (*model.placeholders, *heads)
        outputs = [*model.outputs.values(), *results]
        self.compiled: CompiledFunction = build(
            outputs, [*model.placeholders.values(), *heads.values()], name="imported"
        )

    def __repr__(self) -> str:
        by = f", gradients by {', '.join(self.gradients)}" if self.gradients else ""
        return f"<ImportedFunction of {self.model!r}{by}>"

    def __call__(
        self,
        values: Mapping[str, object] | None = None,
        *,
        cotangents: Mapping[str, object] | None = None,
        **named: object,
    ) -> Any:
        """Run the model.

        Args:
            values: {name: array} for every input, and for parameters that are not to have their
                values in the model.
            named: such arrays, too, where a name is an identifier.
            cotangents: {output: array} for every output that is differentiated.
        Returns:
            {output: array}; with gradients a pair of that and {name: gradient}.
        Raises:
            BindError: an input or cotangent is missing, or given twice, or a name is none of
                them; arrays are given without names.
            ShapeError, DTypeError, BoundsError: as in calls of compiled functions.
        """
        given, heads = _by_name("values", values), _by_name("cotangents", cotangents)
        twice = [n for n in named if n in given]
        if twice:
            raise BindError(
                f"{twice[0]!r} is given twice.",
                where="values, and a keyword",
                hint="give each array once.",
            )
        given.update(named)
        _check_names("values", given, self.model.placeholders, self.model.inputs)
        _check_names("cotangents", heads, self.cotangents, self.cotangents)
        arrays = [
            given[n] if n in given else self.model.parameters[n] for n in self.model.placeholders
        ]
        found = self.compiled(*arrays, *[heads[n] for n in self.cotangents])
        listed = [found] if isinstance(found, np.ndarray) else list(found)
        outputs = dict(zip(self.model.outputs, listed, strict=False))
        if not self.gradients:
            return outputs
        return outputs, dict(zip(self.gradients, listed[len(outputs) :], strict=True))


def _gradients(
    model: Imported, gradients: Sequence[str], of: Sequence[str]
) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Gradients by name, and the cotangents that they are computed from."""
    ys = [model.outputs[n] for n in of]
    wrt = [model.placeholders[n] for n in gradients]
    if len(ys) == 1 and all(isinstance(n, int) and n == 1 for n in ys[0].shape):
        return vjp(ys, wrt, [np.ones(ys[0].shape, str(ys[0].dtype))]), {}
    taken = {t.name for t in model.placeholders.values()}
    heads: dict[str, Tensor] = {}
    for k, (name, y) in enumerate(zip(of, ys, strict=True)):
        called = f"cotangent_{k}"
        while called in taken:
            called += "_"
        heads[name] = te.placeholder(y.shape, str(y.dtype), name=called)
    return vjp(ys, wrt, list(heads.values())), heads


def _by_name(what: str, given: object) -> dict[str, object]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise BindError(
            f"{what} must be a dict of arrays by name, got {type(given).__name__}.",
            hint="write f({name: array}); names are those of the model.",
        )
    return dict(given)


def _check_names(what: str, given: Mapping[str, object], known: object, needed: object) -> None:
    names, must = list(known), list(needed)  # type: ignore[call-overload]  # mappings or tuples
    wrong = [n for n in given if n not in names]
    missing = [n for n in must if n not in given]
    if wrong or missing:
        text = f"has {shown(wrong[0])}, which is none" if wrong else f"lacks {shown(missing[0])}"
        raise BindError(
            f"{what} {text}.", where=f"names: {', '.join(names[:20])}", hint="give arrays by name."
        )
