"""Operators inside of PyTorch: autograd, forward mode, `torch.func`, `torch.compile`, export.

PyTorch is imported with this module; it is no dependency of tensorad.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from tensorad.errors import BindError, DefinitionError, DTypeError
from tensorad.interop.operators import Derived, Operator
from tensorad.interop.packages import imported
from tensorad.interop.shapes import Extents
from tensorad.ir.dtypes import DTYPES
from tensorad.ir.tensor import Tensor
from tensorad.process import Guard

torch: Any
fw: Any
torch, fw = imported("torch", "autograd.forward_ad")
NAMESPACE: Final = "tensorad"
"""Of the operators that are registered: `torch.ops.tensorad.<name>`."""
_DTYPES: Final = {d: getattr(torch, str(d)) for d in DTYPES}
_library: Final[Any] = torch.library.Library(NAMESPACE, "FRAGMENT")
_AUTOCAST: Final[Any] = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
_guard = Guard()
_registered: Final[dict[str, TorchOperator]] = {}
"""By name; names in PyTorch are for ever."""


def op(
    outputs: Tensor | Sequence[Tensor], inputs: Sequence[Tensor], name: str
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
        name: an identifier, used once in a process.
    Returns:
        a function of CPU tensors of the inputs' dtypes (as many as inputs); it returns a tensor, or
        a tuple of several.
    Raises:
        DefinitionError: the name is taken by another operator, or is no identifier; an input is
            missing, given twice, or no placeholder.
        BindError, DTypeError, ShapeError: in a call: a tensor does not fit.
        BoundsError: in a call: an index from data lies outside of its tensor.
    """
    operator = Operator([outputs] if isinstance(outputs, Tensor) else outputs, inputs, name)
    with _guard.lock:
        if name in _registered:
            raise DefinitionError(
                f"an operator named {name} is registered already.",
                where=f"torch.ops.{NAMESPACE}.{name}: {_registered[name].operator!r}",
                hint="keep what op returned, or choose another name.",
            )
        return TorchOperator(operator)


class TorchOperator:
    """What `op` returns.

    Attributes:
        operator: what it computes.
        registered: `torch.ops.tensorad.<name>`, one overload.
    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.__name__ = operator.name
        self._kernel = Kernel(operator)
        self._derived: dict[int, TorchOperator] = {}
        self._function = _function_of(self)
        self.registered = _register(self)
        _registered[operator.name] = self

    def __repr__(self) -> str:
        return f"<torch operator {NAMESPACE}.{self.operator.name}>"

    def __call__(self, *tensors: Any) -> Any:
        if torch.compiler.is_compiling():
            return self.registered(*tensors)
        if _is_watched() or any(type(t) not in _PLAIN for t in tensors):
            self._kernel.check_tensors(tensors)
            return self.registered(*tensors)
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return self._function.apply(*tensors)
        return self._kernel(tensors) if all(map(_is_memory, tensors)) else self.compute(*tensors)

    def compute(self, *tensors: Any) -> Any:
        """The results, without derivatives: by what runs, or by what stands for it in a trace."""
        if all(map(_is_memory, tensors)) and not torch._C._len_torch_dispatch_stack():
            return self._kernel(tensors)
        self._kernel.check_kinds(tensors)
        with torch._C._AutoDispatchBelowAutograd():
            return self.registered(*tensors)

    def derived(self, found: Derived) -> TorchOperator:
        """The operator of a derivative, or for rows."""
        with _guard.lock:
            made = self._derived.get(id(found))
            if made is None:
                made = self._derived[id(found)] = TorchOperator(found.operator)
            return made


_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)


def _is_memory(t: Any) -> bool:
    """Whether a tensor is itself where its elements lie, not what stands for one in a trace."""
    return type(t) in _PLAIN and bool(torch._C._has_storage(t))


def _is_watched() -> bool:
    """Whether functions are transformed, forward mode or autocast is on, or modes see calls."""
    return bool(
        torch._C._functorch.peek_interpreter_stack() is not None
        or fw._current_level >= 0
        or torch.is_autocast_enabled("cpu")
        or torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
    )


# what runs


class Bound(NamedTuple):
    """The function of C for shapes.

    Attributes:
        run: it; `arguments`: what it is given, an array of addresses.
        shapes: of the outputs.
        error: what a code means.
    """

    run: Callable[[Any], int]
    arguments: Any
    shapes: Sequence[Extents]
    error: Callable[[int], BaseException]


class Kernel:
    """The compiled function on tensors of PyTorch, without derivatives."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._dtypes = [_DTYPES[t.dtype] for t in operator.inputs]
        self._made = [_DTYPES[t.dtype] for t in operator.outputs]
        self._bound: dict[tuple[Any, ...], Bound] = {}

    def __call__(self, tensors: Sequence[Any]) -> Any:
        if len(tensors) != len(self._dtypes):
            self.check_tensors(tensors)
        for t, dtype in zip(tensors, self._dtypes):
            if t.dtype is not dtype or not t.is_cpu or t.is_neg() or not _is_dense(t):
                self.check_kinds(tensors)
                tensors = [self._fitted(n, t) for n, t in enumerate(tensors)]
                break
        key = tuple([t.shape for t in tensors])
        bound = self._bound.get(key) or self._bind(key)
        made = [torch.empty(s, dtype=d) for s, d in zip(bound.shapes, self._made)]
        code = bound.run(bound.arguments(*[t.data_ptr() for t in (*tensors, *made)]))
        if code:
            raise bound.error(code)
        return made[0] if len(made) == 1 else tuple(made)

    def _bind(self, key: tuple[Any, ...]) -> Bound:
        entry = self._operator.entry([tuple(s) for s in key])
        count = len(entry.input_shapes) + len(entry.output_shapes)
        prototype = ctypes.CFUNCTYPE if entry.is_long else ctypes.PYFUNCTYPE
        run = prototype(ctypes.c_int64, ctypes.c_void_p)(entry.address)
        bound = Bound(run, ctypes.c_void_p * count, entry.output_shapes, entry.error)
        if len(self._bound) >= _KEPT_SHAPES:
            self._bound.clear()
        self._bound[key] = bound
        return bound

    def check_tensors(self, tensors: Sequence[Any]) -> None:
        """There are as many tensors as inputs.

        Raises:
            BindError: there are not, or something is no tensor.
        """
        name, inputs = self._operator.name, self._operator.inputs
        if len(tensors) != len(inputs):
            raise BindError(
                f"{name} takes {len(inputs)} tensors, got {len(tensors)}.",
                where=f"{name}({', '.join([t.name for t in inputs])})",
                hint="pass one tensor for each input, in this order.",
            )
        for own, t in zip(inputs, tensors, strict=True):
            if not isinstance(t, torch.Tensor):
                raise BindError(
                    f"argument {own.name} of {name} must be a torch.Tensor, got "
                    f"{type(t).__name__}.",
                    hint=f"pass torch.as_tensor({own.name}).",
                )

    def check_kinds(self, tensors: Sequence[Any]) -> None:
        """The tensors are arrays.

        Raises:
            BindError: one is sparse, quantised or nested.
        """
        for own, t in zip(self._operator.inputs, tensors, strict=True):
            if t.is_quantized or t.is_nested or t.layout is not torch.strided:
                kind = str(t.layout).removeprefix("torch.")
                kind = "quantised" if t.is_quantized else "nested" if t.is_nested else kind
                raise BindError(
                    f"argument {own.name} of {self._operator.name} is {kind}: its elements lie "
                    "otherwise than those of an array.",
                    hint=f"pass {own.name}.to_dense(), or {own.name}.dequantize().",
                )

    def _fitted(self, n: int, t: Any) -> Any:
        """The tensor as native code reads it.

        Raises:
            DTypeError: it has another dtype.
            BindError: it is on another device, or no array.
        """
        own = self._operator.inputs[n]
        where = f"argument {own.name} of {self._operator.name}"
        if not t.is_cpu:
            raise BindError(
                f"{where} is on the device {t.device}; operators run on the CPU.",
                hint=f"pass {own.name}.cpu().",
            )
        if t.dtype is not self._dtypes[n]:
            raise DTypeError(
                f"{where} has dtype {str(t.dtype).removeprefix('torch.')}, expected {own.dtype}.",
                hint=f"pass {own.name}.to(torch.{own.dtype}).",
            )
        return t.resolve_conj().resolve_neg().contiguous()


_KEPT_SHAPES: Final = 64


def _is_dense(t: Any) -> bool:
    return bool(t.layout is torch.strided and t.is_contiguous())


# derivatives


def _function_of(own: TorchOperator) -> Any:
    """The `autograd.Function`: both modes, and rows for `torch.func.vmap`."""
    operator = own.operator
    integers = set(range(len(operator.outputs))) - set(operator.differentiable_outputs)

    def setup_context(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        made = output if isinstance(output, tuple) else (output,)
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)
        ctx.mark_non_differentiable(*[made[n] for n in integers])
        ctx.set_materialize_grads(False)

    def backward(ctx: Any, *grads: Any) -> Any:
        needs = ctx.needs_input_grad
        wanted = [n for n in operator.differentiable_inputs if needs[n]]
        given = [n for n in operator.differentiable_outputs if grads[n] is not None]
        found: list[Any] = [None] * len(needs)
        if wanted and given:
            made = operator.pullback(wanted, given)
            values = (*ctx.saved_tensors, *[grads[n] for n in given])
            _put(found, wanted, own.derived(made)(*[values[k] for k in made.takes]))
        return tuple(found)

    def jvp(ctx: Any, *tangents: Any) -> Any:
        moving = [n for n in operator.differentiable_inputs if tangents[n] is not None]
        found: list[Any] = [None] * len(operator.outputs)
        if moving:
            made = operator.pushforward(moving)
            values = (*ctx.saved_tensors, *[tangents[n] for n in moving])
            results = own.derived(made)(*[values[k] for k in made.takes])
            _put(found, operator.differentiable_outputs, results)
        return found[0] if len(found) == 1 else tuple(found)

    def vmap(info: Any, in_dims: Sequence[int | None], *tensors: Any) -> Any:
        mapped = [n for n, d in enumerate(in_dims) if d is not None]
        moved = [t if d is None else t.movedim(d, 0) for t, d in zip(tensors, in_dims, strict=True)]
        made = operator.for_rows(mapped)
        results = own.derived(made)(*moved)
        dims = tuple([0 if m else None for m in made.moves])
        return results, dims[0] if len(dims) == 1 else dims

    static = {
        "forward": own.compute,
        "setup_context": setup_context,
        "backward": backward,
        "jvp": jvp,
        "vmap": vmap,
    }
    members = {name: staticmethod(f) for name, f in static.items()}
    return type(operator.name, (torch.autograd.Function,), members)


def _put(found: list[Any], places: Sequence[int], results: Any) -> None:
    several = results if isinstance(results, tuple) else (results,)
    for n, value in zip(places, several, strict=True):
        found[n] = value


# the registered operator


def _register(own: TorchOperator) -> Any:
    """`torch.ops.tensorad.<name>`: the kernel, shapes of traces, derivatives, autocast."""
    operator = own.operator
    name, qualified = operator.name, f"{NAMESPACE}::{operator.name}"
    arguments = ", ".join([f"Tensor x{n}" for n in range(len(operator.inputs))])
    kinds = ["Tensor"] * len(operator.outputs)
    results = kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"
    _library.define(f"{name}({arguments}) -> {results}")

    def fake(*tensors: Any) -> Any:
        shapes = operator.output_shapes([tuple(t.shape) for t in tensors])
        made = [
            tensors[0].new_empty(s, dtype=_DTYPES[t.dtype])
            for s, t in zip(shapes, operator.outputs, strict=True)
        ]
        return made[0] if len(made) == 1 else tuple(made)

    def differentiable(*tensors: Any) -> Any:
        moves = torch._C._is_fwd_grad_enabled() and fw._current_level >= 0
        if moves or (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
            return own._function.apply(*tensors)
        with torch._C._AutoDispatchBelowAutograd():
            return overload(*tensors)

    def cast(*tensors: Any) -> Any:
        pairs = zip(tensors, operator.inputs, strict=True)
        given = [t.to(_DTYPES[own.dtype]) if t.is_floating_point() else t for t, own in pairs]
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return overload(*given)

    _library.impl(name, lambda *tensors: own._kernel(tensors), "CPU")
    _library.impl(name, cast, "AutocastCPU")
    torch.library.register_fake(qualified, fake, lib=_library)
    _library.impl(name, differentiable, "Autograd")
    _library.impl(name, own._function.apply, "FuncTorchDynamicLayerFrontMode")
    overload = getattr(getattr(torch.ops, NAMESPACE), name).default
    return overload
