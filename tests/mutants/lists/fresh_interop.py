"""Other libraries, drawn once the list was closed: PyTorch, JAX, NumPy and ONNX judge them."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

TORCH: Final = "tests/interop/torch/test_torch.py tests/interop/torch/test_torch_arguments.py tests/interop/torch/test_torch_kept.py"
JAX: Final = "tests/interop/jax/test_jax.py tests/interop/jax/test_jax_transforms.py"
BOTH: Final = "slow or not slow"
OPERATORS: Final = Part(
    "tests/interop/test_operators.py tests/interop/test_shapes.py tests/interop/test_kept.py",
    f"{TORCH} {JAX}",
    BOTH,
)
ONNX: Final = Part(
    "tests/interop/onnx/test_states.py tests/interop/onnx/test_windows.py tests/interop/onnx/test_edges.py",
    "tests/interop/onnx/test_nodes.py",
    BOTH,
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "tensorad/interop/operators.py",
        OPERATORS,
        [
            (
                "a pullback is that by cotangents of other outputs",
                'return self._once(("vjp", tuple(wanted), tuple(given)), made)',
                'return self._once(("vjp", tuple(wanted)), made)',
            ),
            (
                "of an output that is given twice one cotangent counts",
                "own[t] = own[t] + head if t in own else head",
                "own[t] = head",
            ),
            (
                "rows are called rows, whatever sizes there are",
                'rows = size_var(next(n for n in numbered("rows") if n not in known))',
                'rows = size_var("rows")',
            ),
            (
                "an input that only tells a size is left out",
                "if t in read or tells:",
                "if t in read:",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/kept.py",
        OPERATORS,
        [
            (
                "adjoints that do not depend on cotangents are nothing to keep",
                "    read += [t for t in adjoints if t.op in still]\n",
                "",
                "an adjoint is linear in the cotangents, so one without them is 0, which computing the results does not make: nothing of it can be kept",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/shapes.py",
        OPERATORS,
        [
            (
                "a size in an extent is told without its factor",
                "sizes[unknown[0]] = (n - form.constant) // factor",
                "sizes[unknown[0]] = n - form.constant",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/jax.py",
        Part(JAX, "tests/interop/jax/test_jax_programs.py tests/interop/jax/test_lax.py", BOTH),
        [
            (
                "rows are moved to the axis from the first one",
                "jnp.moveaxis(v, d, 0) for v, d in pairs",
                "jnp.moveaxis(v, 0, d) for v, d in pairs",
            ),
            (
                "tangents are those of the first outputs",
                "for n, value in zip(operator.differentiable_outputs, values, strict=True):",
                "for n, value in enumerate(values):",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/torch/functions.py",
        Part(TORCH, "tests/interop/torch/test_torch_programs.py", BOTH),
        [
            (
                "a backward is that by gradients of other outputs",
                "key = (needs, *[g is not None for g in grads]) if several else needs",
                "key = needs",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/torch/arguments.py",
        Part(TORCH, marks=BOTH),
        [
            (
                "a negated view is read as it lies in memory",
                "made = t.resolve_conj().resolve_neg().contiguous()",
                "made = t.contiguous()",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/torch/kernels.py",
        Part(TORCH, marks=BOTH),
        [
            (
                "an output is made like an input of another dtype",
                "own = (other.dtype, *[dim_expr(m) for m in other.shape])",
                "own = (t.dtype, *[dim_expr(m) for m in other.shape])",
            ),
        ],
    ),
    *in_file(
        "tensorad/ir/arrays/ufuncs.py",
        Part("tests/ir/test_ufuncs.py", "tests/topi/as_numpy tests/interop/test_arrays.py", BOTH),
        [
            (
                "the larger one of a number and NaN is NaN",
                'return select(call("isnan", a), b, select(call("isnan", b), a, both))',
                'return select(call("isnan", a), b, both)',
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/onnx/operators/recurrent.py",
        ONNX,
        [
            (
                "a first state has the batch behind the directions, whatever the layout",
                "        if self.batch_first and t.ndim == 3:\n            t = topi.transpose(t, (1, 0, 2))\n",
                "",
            ),
            (
                "where a reset comes after the product its bias is that of one gate",
                "te.select(k < 2 * n, both, bias[direction, k])",
                "te.select(k < n, both, bias[direction, k])",
            ),
        ],
    ),
    *in_file(
        "tensorad/interop/onnx/operators/convolution.py",
        ONNX,
        [
            (
                "same padding forgets a window that begins in the last stride",
                "total = max(0, (-(-n // s) - 1) * s",
                "total = max(0, (n // s - 1) * s",
            ),
        ],
    ),
]
