"""Operators inside of JAX: `jit`, `grad`, `jvp`, `vmap`, `scan`, `checkpoint`, `shard_map`.

JAX is imported with this module; it is no dependency of tensorad.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from tensorad.codegen.runtime.c_entry import CEntry
from tensorad.errors import BindError, DefinitionError, DTypeError, ShapeError
from tensorad.interop import xla
from tensorad.interop.operators import Derived, Operator, in_order
from tensorad.interop.packages import imported
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.process import Guard

jax: Any
ad: Any
batching: Any
mlir: Any
core: Any
jnp: Any
ffi: Any
jax, ad, batching, mlir, core, jnp, ffi = imported(
    "jax",
    "interpreters.ad",
    "interpreters.batching",
    "interpreters.mlir",
    "extend.core",
    "numpy",
    "ffi",
)
TARGET: Final = "tensorad"
"""The name of the handler in XLA."""
_guard = Guard()
"""Held while the handler is registered, and names are taken."""
_named: Final[WeakValueDictionary[str, Operator]] = WeakValueDictionary()
"""Operators by name; JAX's caches keep some that no user has any more."""
_held: Final[WeakValueDictionary[str, JaxOperator]] = WeakValueDictionary()
"""What users have, by name."""
_WIDE: Final = ("float64", "int64", "uint64")


def op(
    outputs: Tensor | Sequence[Tensor], inputs: Sequence[Tensor], name: str
) -> Callable[..., Any]:
    """An operator of JAX that computes tensors of other tensors.

    It is a primitive: it has rules for tangents, for adjoints of linear inputs and for rows, each
    of which is an operator of the same kind, compiled when it is first needed. So `jit`, `grad`,
    `jvp`, `linearize`, `hessian`, `vmap`, `lax.scan`, `checkpoint` and `shard_map` work, in any mix
    and order. Of symbolic sizes each trace tells the numbers. Compiled code calls native code, not
    Python.

    Args:
        outputs: what is computed.
        inputs: the placeholders that it is computed from, in the order of the arguments.
        name: an identifier, of one program as long as somebody has what is returned here, also
            inside of functions; given again with the same program, it stands for the same operator.
    Returns:
        a function of arrays of the inputs' dtypes (as many as inputs, by place or by name); it
        returns an array, or a tuple of several. It can be pickled and copied.
    Raises:
        DefinitionError: the name is no identifier, or taken by another program; an input is
            missing, given twice, or no placeholder.
        BindError, DTypeError, ShapeError: in a call: an array does not fit, the platform is not
            the CPU, or code is exported. An index from data that lies outside of its tensor is an
            error of JAX with the text of a BoundsError.
    """
    operator = Operator([outputs] if isinstance(outputs, Tensor) else outputs, inputs, name)
    with _guard.lock:
        known, held = _named.get(name), _held.get(name)
        if held is None:
            if known is None or not known.computes(operator):
                known = _named[name] = operator
            held = _held[name] = JaxOperator(known)
        elif not held.operator.computes(operator):
            raise DefinitionError(
                f"an operator named {name} is there already, of another program.",
                where=repr(held.operator),
                hint="keep what op returned, or choose another name.",
            )
        return held


class JaxOperator:
    """What `op` returns.

    Attributes:
        operator: what it computes.
    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.__name__ = operator.name

    def __repr__(self) -> str:
        return f"<jax operator {self.operator.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        own = self.operator
        return op, (own.outputs, own.inputs, own.name)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        if named:
            return self(*in_order(self.operator, arrays, named))
        _check(self.operator, arrays)
        results = _bind(self.operator, [jnp.asarray(a) for a in arrays])
        return results[0] if len(results) == 1 else tuple(results)


def _check(operator: Operator, arrays: Sequence[Any]) -> None:
    """The arrays fit, but perhaps for their shapes.

    Raises:
        BindError: there are not as many as inputs, or something is no array.
        DTypeError: one has another dtype, or JAX has no such dtype as it is configured.
    """
    name, inputs = operator.name, operator.inputs
    if len(arrays) != len(inputs):
        raise BindError(
            f"{name} takes {len(inputs)} arrays, got {len(arrays)}.",
            where=f"{name}({', '.join([t.name for t in inputs])})",
            hint="pass one array for each input, in this order.",
        )
    wide = [t for t in (*inputs, *operator.outputs) if str(t.dtype) in _WIDE]
    if wide and not jax.config.jax_enable_x64:
        raise DTypeError(
            f"{wide[0].name} of {name} has dtype {wide[0].dtype}, which JAX does not have now.",
            where=f"{wide[0].name} : {wide[0].dtype} {format_shape(wide[0].shape)}",
            hint='call jax.config.update("jax_enable_x64", True) first, or declare 32 bits.',
        )
    for own, a in zip(inputs, arrays, strict=True):
        where = f"argument {own.name} of {name}"
        if not isinstance(a, jax.Array | np.ndarray | np.generic):
            raise BindError(
                f"{where} must be an array, got {type(a).__name__}.",
                hint=f"pass jax.numpy.asarray({own.name}, dtype={str(own.dtype)!r}).",
            )
        if str(a.dtype) != str(own.dtype):
            raise DTypeError(
                f"{where} has dtype {a.dtype}, expected {own.dtype}.",
                hint=f"pass {own.name}.astype({str(own.dtype)!r}).",
            )


# the primitive: its one parameter is an `Operator`, which is equal to itself alone

_WHOLE: Final[Any] = jax.sharding.PartitionSpec()
_primitive: Final[Any] = core.Primitive(TARGET)
_primitive.multiple_results = True


def _bind(operator: Operator, values: Sequence[Any]) -> list[Any]:
    """The operator of values that lie alike on a mesh: it is computed where each value is whole.

    Inside of `shard_map` that is on each device; what varies less than other values is told to
    vary as they do, so that its adjoint is summed. On explicit axes values are gathered first.
    """
    if jax.sharding.get_abstract_mesh().explicit_axes:
        values = [jax.sharding.reshard(v, _WHOLE) for v in values]
    varying = [jax.typeof(v).manual_axis_type.varying for v in values]
    every = frozenset().union(*varying)
    if every:
        values = [
            jax.lax.pcast(v, tuple(every - own), to="varying") if every - own else v
            for v, own in zip(values, varying, strict=True)
        ]
    found: list[Any] = _primitive.bind(*values, operator=operator)
    return found


def _derived(found: Derived, values: Sequence[Any]) -> list[Any]:
    return _bind(found.operator, [values[n] for n in found.takes])


def _abstract(*avals: Any, operator: Operator) -> list[Any]:
    """Shapes and dtypes of the outputs."""
    mesh = jax.sharding.NamedSharding(
        jax.sharding.get_abstract_mesh(), jax.sharding.PartitionSpec()
    )
    varies = {"manual_axis_type": avals[0].manual_axis_type} if avals else {}
    shapes = operator.output_shapes([a.shape for a in avals])
    return [
        jax.core.ShapedArray(s, np.dtype(str(t.dtype)), sharding=mesh, **varies)
        for s, t in zip(shapes, operator.outputs, strict=True)
    ]


_run: Final[Any] = jax.jit(
    lambda *values, operator: _primitive.bind(*values, operator=operator),
    static_argnames="operator",
)


def _tangents(primals: Sequence[Any], tangents: Sequence[Any], *, operator: Operator) -> Any:
    """The outputs and their tangents: `ad.Zero` where nothing moves."""
    results = _bind(operator, primals)
    found = [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in results]
    moving = [n for n in operator.differentiable_inputs if type(tangents[n]) is not ad.Zero]
    if moving and operator.differentiable_outputs:
        made = operator.pushforward(moving)
        values = _derived(made, [*primals, *[tangents[n] for n in moving]])
        for n, value in zip(operator.differentiable_outputs, values, strict=True):
            found[n] = value
    return results, found


def _transposed(cotangents: Sequence[Any], *values: Any, operator: Operator) -> list[Any]:
    """Adjoints of the inputs that are not known, in which the outputs are linear.

    Where their values would only tell sizes there are zeros in place of them.
    """
    wanted = [n for n, v in enumerate(values) if ad.is_undefined_primal(v)]
    given = [n for n, c in enumerate(cotangents) if type(c) is not ad.Zero]
    found: list[Any] = [None] * len(values)
    for n in wanted:
        found[n] = ad.Zero(values[n].aval)
    if given:
        known = [
            jnp.zeros(v.aval.shape, v.aval.dtype) if ad.is_undefined_primal(v) else v
            for v in values
        ]
        made = operator.pullback(wanted, given)
        adjoints = _derived(made, [*known, *[cotangents[n] for n in given]])
        for n, value in zip(wanted, adjoints, strict=True):
            found[n] = value
    return found


def _rows(values: Sequence[Any], dims: Sequence[int | None], *, operator: Operator) -> Any:
    """The outputs for many rows, and which axes of them these are."""
    mapped = [n for n, d in enumerate(dims) if d is not None]
    pairs = zip(values, dims, strict=True)
    moved = [v if d is None else jnp.moveaxis(v, d, 0) for v, d in pairs]
    made = operator.for_rows(mapped)
    return _derived(made, moved), [0 if moves else None for moves in made.moves]


# lowering


def _lowered(context: Any, *values: Any, operator: Operator) -> Any:
    """The operator in compiled code of the CPU: a call of its function of C."""
    if context.module_context.lowering_parameters.for_export:
        raise BindError(
            f"{operator.name} cannot be exported: it is compiled for the process that it runs in.",
            hint="save what the function is made of, and compile it where it runs.",
        )
    shapes = [a.shape for a in context.avals_in]
    if not all(isinstance(n, int) for s in shapes for n in s):
        raise ShapeError(
            f"{operator.name} is compiled for shapes of numbers, got "
            f"{', '.join([str(tuple(s)) for s in shapes])}.",
            hint="lower a function for each shape, without symbolic dimensions.",
        )
    with _guard.lock:
        is_native = _is_registered()
    if not is_native:
        return _called_back(context, *values, operator=operator)
    entry = operator.entry(shapes)
    context.module_context.add_keepalive(_Kept(entry))
    number = {"entry": mlir.i64_attr(xla.targets().number(entry))}
    return ffi.ffi_lowering(TARGET, backend_config=number)(context, *values)


class _Kept:
    """A function of C, for executables that call it."""

    def __init__(self, entry: CEntry) -> None:
        self._entry = entry

    def __reduce__(self) -> str:
        raise BindError(
            f"compiled code that calls {self._entry.name} belongs to this process.",
            hint="save what the code is made of, and compile it where it runs.",
        )


def _refused(context: Any, *values: Any, operator: Operator) -> Any:
    """What other platforms than the CPU are told."""
    platforms = context.module_context.platforms
    raise BindError(
        f"{operator.name} is compiled for the platform{'s' * (len(platforms) > 1)} "
        f"{', '.join(platforms)}; operators run on the CPU.",
        hint='run it under jax.default_device(jax.devices("cpu")[0]).',
    )


@lru_cache(maxsize=1)
def _is_registered() -> bool:
    """Whether XLA can call native code: the first time, the handler is registered."""
    version = xla.version_of(ffi.include_dir())
    if version != xla.VERSION:
        found = "none" if version is None else ".".join(map(str, version))
        warnings.warn(
            f"tensorad knows version {'.'.join(map(str, xla.VERSION))} of XLA's interface to "
            f"foreign functions, and finds {found}: operators are called through Python "
            "(jax.pure_callback), which takes longer.",
            stacklevel=2,
        )
        return False
    capsule = ffi.pycapsule(ctypes.c_void_p(xla.targets().handler))
    ffi.register_ffi_target(TARGET, capsule, platform="cpu", api_version=1)
    return True


def _called_back(context: Any, *values: Any, operator: Operator) -> Any:
    """The operator where XLA's interface is not the known one: a call of Python."""
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in context.avals_out]

    def run(*arrays: Any) -> Any:
        results = operator.built(*[np.asarray(a) for a in arrays])
        return results if isinstance(results, list) else [results]

    def called(*arrays: Any) -> Any:
        return jax.pure_callback(run, shapes, *arrays)

    return mlir.lower_fun(called, multiple_results=True)(context, *values)


_primitive.def_impl(lambda *values, operator: _run(*values, operator=operator))
_primitive.def_abstract_eval(_abstract)
ad.primitive_jvps[_primitive] = _tangents
ad.primitive_transposes[_primitive] = _transposed
batching.primitive_batchers[_primitive] = _rows
mlir.register_lowering(_primitive, _refused)
mlir.register_lowering(_primitive, _lowered, platform="cpu")
