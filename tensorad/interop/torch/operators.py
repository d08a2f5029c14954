"""Operators of PyTorch: what `op` returns, and which way a call of it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from tensorad.errors import DefinitionError
from tensorad.interop.operators import Derived, Keeping, Operator, in_order, numbered
from tensorad.interop.torch.arguments import check_kinds, check_tensors
from tensorad.interop.torch.functions import function_of, plain_function_of
from tensorad.interop.torch.kernels import Kernel
from tensorad.interop.torch.pytorch import (
    NAMESPACE,
    functionalized,
    is_functionalized,
    is_memory,
    is_transformed,
    stands_for_tensor,
    torch,
)
from tensorad.interop.torch.registered import is_free, register
from tensorad.interop.torch.written_out import MISSING, written_out
from tensorad.ir.tensor import Tensor
from tensorad.process import Guard

Save = Literal["auto", "nothing"]
_guard = Guard()
_registered: Final[dict[str, TorchOperator]] = {}
"""By name; names in PyTorch are for ever."""


def op(
    outputs: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor],
    name: str,
    *,
    save: Save = "auto",
) -> Callable[..., Any]:
    """An operator of PyTorch that computes tensors of other tensors.

    It is registered as `torch.ops.tensorad.<name>`, and called as the function that is returned,
    which takes the way that costs least: the compiled function where nobody differentiates, an
    `autograd.Function` for autograd, forward mode and `torch.func`, the registered operator
    under `torch.compile`, export and fake tensors. Its derivatives, of any order and in both modes,
    and those forms that `torch.func.vmap` asks for, are operators of the same kind, compiled when
    they are first needed. Of symbolic sizes each call tells the numbers.

    Args:
        outputs: what is computed.
        inputs: the placeholders that it is computed from, in the order of the arguments.
        name: an identifier, used once in a process; given again with the same program, it stands
            for the same operator.
        save: what is kept for a backward: "auto" keeps outputs and values between where that costs
            less than computing them again, beside the inputs that it reads; "nothing" keeps inputs
            alone.
    Returns:
        a function of CPU tensors of the inputs' dtypes (as many as inputs, by place or by name); it
        returns a tensor, or a tuple of several. It can be pickled and copied.
    Raises:
        DefinitionError: the name is taken by another operator, or is no identifier, or none that
            PyTorch takes; an input is missing, given twice, or no placeholder; save is none of the
            two.
        BindError, DTypeError, ShapeError: in a call: a tensor does not fit.
        BoundsError: in a call: an index from data lies outside of its tensor.
    """
    if save not in ("auto", "nothing"):
        raise DefinitionError(
            f'save must be "auto" or "nothing", got {save!r}.',
            where=f"operator {name}",
            hint='"nothing" computes all values again that a backward reads.',
        )
    operator = Operator([outputs] if isinstance(outputs, Tensor) else outputs, inputs, name)
    with _guard.lock:
        known = _registered.get(name)
        if known is None and not is_free(name):
            raise DefinitionError(
                f"an operator of PyTorch cannot be named {name!r}.",
                where=f"torch.ops.{NAMESPACE}",
                hint="choose another name, of ASCII letters, digits and underscores.",
            )
        if known is None:
            return _made(operator, save)
        if known.save != save or not known.operator.computes(operator):
            raise DefinitionError(
                f"an operator named {name} is registered already, of another program.",
                where=f"torch.ops.{NAMESPACE}.{name}: {known.operator!r}",
                hint="choose another name: those in PyTorch are for ever.",
            )
        return known


class TorchOperator:
    """What `op` returns.

    Attributes:
        operator: what it computes.
        save: see `op`.
        kernel: what runs; `compute_dense`: the same on contiguous tensors that fit.
        ways: what is called where autograd alone is asked for, by the inputs that require it.
        function: of autograd, for all else.
        registered: `torch.ops.tensorad.<name>`, one overload.
    """

    compute_dense: Callable[..., Any]
    registered: Any

    def __init__(self, operator: Operator, save: Save, used: tuple[int, ...] | None = None) -> None:
        """Args: used: results that a backward reads, where the operator was made for that."""
        self.operator = operator
        self.save: Save = save
        self._used = used
        self.__name__ = operator.name
        self.kernel = Kernel(operator)
        self._derived: dict[int, TorchOperator] = {}
        self.ways: dict[tuple[bool, ...], Callable[..., Any]] = {}
        self.function = function_of(self)

    def __repr__(self) -> str:
        return f"<torch operator {NAMESPACE}.{self.operator.name}>"

    def __reduce__(self) -> Any:
        own = self.operator
        return op_again, (list(own.outputs), list(own.inputs), own.name, self.save)

    def __call__(self, *tensors: Any, **named: Any) -> Any:
        """The results; each operator has a shorter text of its own for this."""
        return self.by_name(tensors, named) if named else self.in_general(tensors)

    def by_name(self, tensors: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The results for tensors of which some are given by the names of their inputs."""
        return self(*in_order(self.operator, [t for t in tensors if t is not MISSING], named))

    def in_general(self, tensors: Sequence[Any]) -> Any:
        """The results for any tensors, in any state of PyTorch."""
        given = [t for t in tensors if t is not MISSING]
        if torch.compiler.is_compiling():
            return self.registered(*given)
        if any(stands_for_tensor(t) for t in given):
            return torch.overrides.handle_torch_function(self.registered, given, *given)
        check_tensors(self.operator, given)
        check_kinds(self.operator, given)
        if is_transformed() or torch.is_autocast_enabled("cpu") or not all(map(is_memory, given)):
            return self.registered(*given)
        if torch.is_grad_enabled() and any(t.requires_grad for t in given):
            needs = tuple([t.requires_grad for t in given])
            return self.way(needs)(*self.kernel.fitted(given))
        return self.compute_dense(*self.kernel.fitted(given))

    def compute(self, *tensors: Any) -> Any:
        """The results, without derivatives: by what runs, or by what stands for it in a trace."""
        if all(map(is_memory, tensors)) and not torch._C._len_torch_dispatch_stack():
            return self.compute_dense(*self.kernel.fitted(tensors))
        check_kinds(self.operator, tensors)
        with torch._C._AutoDispatchBelowAutograd():
            return self.registered(*tensors)

    def differentiated(self, *tensors: Any) -> Any:
        """The results, with derivatives, in any state of PyTorch."""
        if is_functionalized():
            return functionalized(self.registered, tensors)
        if not _in_reverse(tensors):
            return self.function.apply(*tensors)
        own = self.keeping(self.operator.differentiable_inputs)
        return self._handed_out(own.function.apply(*tensors))

    def way(self, needs: tuple[bool, ...]) -> Callable[..., Any]:
        """The results of memory, for autograd alone, where these inputs require it."""
        found = self.ways.get(needs)
        if not self.operator.differentiable_outputs:
            return self.compute_dense
        if found is None:
            wanted = [n for n in self.operator.differentiable_inputs if needs[n]]
            own = self.keeping(wanted)
            # apply of the class itself binds names of arguments at each call
            above: Any = super(torch.autograd.Function, plain_function_of(own, wanted))
            apply = above.apply
            is_whole = len(own.operator.outputs) == len(self.operator.outputs)
            found = apply if is_whole else lambda *t: self._handed_out(apply(*t))
            self.ways[needs] = found
        return found

    def _handed_out(self, results: Any) -> Any:
        """The operator's own results, of those with kept values behind them."""
        count = len(self.operator.outputs)
        several = results if isinstance(results, tuple) else (results,)
        return several[0] if count == 1 else several[:count]

    def keeping(self, wanted: Sequence[int]) -> TorchOperator:
        """The operator whose results, and inputs, have what adjoints of these inputs read."""
        found = self._kept(wanted)
        if found is None or found.operator is self.operator:
            return self
        return self._made(found.operator, found.used)

    def used(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """The results that adjoints of these inputs may read."""
        if self._used is not None:
            return self._used
        found = self._kept(wanted)
        return found.used if found is not None and found.operator is self.operator else ()

    def _kept(self, wanted: Sequence[int]) -> Keeping | None:
        """What is kept; None: inputs alone."""
        is_moved = wanted and self.operator.differentiable_outputs
        is_kept = self.save == "auto" and self._used is None and is_moved
        return self.operator.keeping(wanted) if is_kept else None

    def saves(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """The values that have to be kept for adjoints of these inputs: inputs, then results.

        Several results may get gradients or not, which decides what is read: then all inputs are.
        """
        own, used = self.operator, self.used(wanted)
        inputs = len(own.inputs)
        if len(own.outputs) > 1:
            return (*range(inputs), *[inputs + n for n in used])
        takes = own.pullback_from(wanted, own.differentiable_outputs, used).takes
        return tuple([k for k in takes if k < inputs + 1])

    def derived(self, found: Derived) -> TorchOperator:
        """The operator of a derivative, or for rows."""
        return self._made(found.operator, None)

    def _made(self, operator: Operator, used: tuple[int, ...] | None) -> TorchOperator:
        with _guard.lock:
            made = self._derived.get(id(operator))
            if made is None:
                made = self._derived[id(operator)] = _made(operator, self.save, used)
            return made


def _made(operator: Operator, save: Save, used: tuple[int, ...] | None = None) -> TorchOperator:
    """An operator of a type of its own, whose calls are written out for it."""
    kind: Any = type("TorchOperator", (TorchOperator,), {"__doc__": TorchOperator.__doc__})
    own: TorchOperator = kind(operator, save, used)
    own.compute_dense, kind.__call__ = written_out(own.kernel, own.ways)
    name = next(n for n in numbered(operator.name) if is_free(n))
    own.registered = register(own, name)
    _registered[name] = own
    return own


def _in_reverse(tensors: Sequence[Any]) -> bool:
    return bool(torch.is_grad_enabled()) and any(t.requires_grad for t in tensors)


def op_again(outputs: Sequence[Tensor], inputs: Sequence[Tensor], name: str, save: Save) -> Any:
    """The operator that was pickled, registered here if it is not."""
    return op(outputs, inputs, name, save=save)
