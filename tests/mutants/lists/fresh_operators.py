"""Operators on whole tensors and derivatives as sparse matrices: drawn once the list was closed."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

TOPI: Final = "tests/topi"
MOVING: Final = Part(
    "tests/topi/test_topi_indexing.py tests/topi/test_topi_empty.py tests/topi/test_topi_transform.py",
    TOPI,
)
FOLDING: Final = Part(
    "tests/topi/test_topi_reduction.py tests/topi/test_topi_math.py tests/topi/test_topi_indexing.py",
    TOPI,
)
INDEXING: Final = Part(
    "tests/topi/test_topi_indexing.py tests/topi/test_topi_scatter.py", marks="slow or not slow"
)
LAYERS: Final = Part("tests/topi/test_topi_layers.py tests/topi/test_topi_nn.py", TOPI)
WINDOWS: Final = Part("tests/topi/test_topi_windows.py tests/topi/test_topi_nn.py", TOPI)
PRODUCTS: Final = Part("tests/topi/test_topi_linalg.py", TOPI)
RESAMPLING: Final = Part("tests/topi/test_topi_resampling.py", marks="slow or not slow")
SORTING: Final = Part("tests/topi/test_topi_sorting.py", TOPI)
NUMPY: Final = Part("tests/topi/as_numpy", TOPI)
SPARSE: Final = Part("tests/sparse")
IMPLICIT: Final = Part("tests/implicit")

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "tensorad/topi/arrange.py",
        MOVING,
        [
            (
                "repeats of fewer axes are those of the first ones",
                "times = [1] * (x.ndim - len(given)) + list(given)",
                "times = list(given) + [1] * (x.ndim - len(given))",
            ),
            (
                "the other triangle is a float32 zero",
                "    zero = te.const(0, x.dtype)\n\n    def body(*i: Expr) -> Expr:\n        row, column",
                '    zero = te.const(0, "float32")\n\n    def body(*i: Expr) -> Expr:\n        row, column',
            ),
            (
                "depth goes to space with the channel outermost",
                "return x[n, inner * dim_expr(c) + k, y // block, x_ // block]",
                "return x[n, k * (block * block) + inner, y // block, x_ // block]",
            ),
            (
                "an arange that does not end on a step loses its last number",
                "count = max(0, -((values.start - values.stop) // by))",
                "count = max(0, (values.stop - values.start) // by)",
            ),
            (
                "a grid of three tensors is in matrix order",
                'if indexing == "xy" and len(rows) > 1:',
                'if indexing == "xy" and len(rows) == 2:',
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/transform.py",
        MOVING,
        [
            (
                "a mirrored side may be as long as its axis",
                'reach = width + 1 if mode == "reflect" and width else',
                'reach = width if mode == "reflect" and width else',
            ),
            (
                "an unknown extent beside an empty one is a division by zero",
                "isinstance(total, int) and known > 0 and total % known == 0",
                "isinstance(total, int) and total % known == 0",
            ),
            (
                "a split refuses an empty part",
                "if any(a > b for a, b in pairwise(cuts)):",
                "if any(a >= b for a, b in pairwise(cuts)):",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/reduction.py",
        FOLDING,
        [
            (
                "the mean of integers is a float32",
                "dtype = str(float_type(x.dtype))",
                'dtype = str(x.dtype) if x.dtype.is_float else "float32"',
            ),
            (
                "the log of a sum with an infinite summand is NaN",
                "lambda *i: te.select(te.isfinite(top[i]), top[i], te.const(0, top.dtype)),",
                'lambda *i: te.select(top[i] > -float("inf"), top[i], te.const(0, top.dtype)),',
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/math.py",
        FOLDING,
        [
            (
                "the rest of a division that leaves none takes the sign's correction",
                "other_sign = te.all_of(rest != 0, (rest < 0) != (a < 0))",
                "other_sign = as_expr((rest < 0) != (a < 0))",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/indexing.py",
        INDEXING,
        [
            (
                "scattered indices below 0 do not count from the end",
                "at = position(indices[i], x.shape[along])\n",
                'at = indices[i].astype("int64")\n',
            ),
            (
                "indices behind batch axes count from the ends of the batch axes",
                "extents = self.x.shape[self.first : self.first + self.count]",
                "extents = self.x.shape[: self.count]",
            ),
            (
                "a mask along axis 0 takes the lengths by that axis",
                "batch = 1 if along == 0 else 0",
                "batch = 0 if x.ndim == 2 and along == 1 else min(along, 1)",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/sorting.py",
        SORTING,
        [
            (
                "NaN stands before NaN",
                "return te.any_of(a < b, te.all_of(te.isnan(b), ~te.isnan(a)))",
                "return te.any_of(a < b, te.isnan(b))",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/linalg.py",
        PRODUCTS,
        [
            (
                "axes without letters are matched at the front",
                "digits[len(digits) - n :]",
                "digits[:n]",
            ),
            (
                "the output's letters stand as they occur",
                "sorted(c for c in set(used) if used.count(c) == 1)",
                "c for c in used if used.count(c) == 1",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/resampling.py",
        RESAMPLING,
        [
            (
                "of two equally near elements the last is taken",
                "return -((unit - place * 2) // (2 * unit))",
                "return (place * 2 + unit) // (2 * unit)",
            ),
            (
                "stretched weights reach as far as whole elements",
                "reach = ceil(support / scale)",
                "reach = int(support / scale)",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/nn/normalization.py",
        LAYERS,
        [
            (
                "epsilon is added to the square of a length",
                "te.rsqrt(te.maximum(power[at_one(i, over)], epsilon))",
                "te.rsqrt(power[at_one(i, over)] + epsilon)",
            ),
            (
                "channels are dealt to groups in turn",
                "normal[(n, c // size, c % size, *rest)]",
                "normal[(n, c % groups, c // groups, *rest)]",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/nn/convolution.py",
        WINDOWS,
        [
            (
                "same padding of a transposed convolution does not know the dilation",
                "surplus = d * (k - 1) + 1 + e - s",
                "surplus = k + e - s",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/nn/windows.py",
        WINDOWS,
        [
            (
                "padding at the end alone is not tested",
                "            if after:\n                conditions",
                "            if before:\n                conditions",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/nn/pooling.py",
        WINDOWS,
        [
            (
                "a last window may begin right behind the elements",
                "if (windows - 1) * stride >= extent + low:",
                "if (windows - 1) * stride > extent + low:",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/nn/losses.py",
        LAYERS,
        [
            (
                "a wider target makes a loss wider",
                "broadcast_read(target, i).astype(x.dtype)),",
                "broadcast_read(target, i)),",
            ),
        ],
    ),
    *in_file(
        "tensorad/topi/as_numpy/moves.py",
        NUMPY,
        [
            (
                "moved axes are put in as they are named",
                "for place, d in sorted(zip(new, old, strict=True)):",
                "for place, d in zip(new, old, strict=True):",
            ),
        ],
    ),
    *in_file(
        "tensorad/sparse/plan.py",
        SPARSE,
        [
            (
                "a function of values is that of the same inputs in another order",
                "key = tuple(inputs)\n",
                "key = tuple(sorted(inputs, key=lambda t: t.name))\n",
            ),
        ],
    ),
    *in_file(
        "tensorad/sparse/compressed.py",
        SPARSE,
        [
            (
                "what a pattern was found for is the caller's array",
                "self._last = [a.copy() for a in arrays], found",
                "self._last = arrays, found",
            ),
            (
                "rows take the derivative along columns",
                "key = (tuple(inputs), reverse)",
                "key = (tuple(inputs), dtype)",
            ),
            (
                "a recipe is made once",
                "if self._recipe is None or self._recipe[0] is not pattern:",
                "if self._recipe is None:",
            ),
        ],
    ),
    *in_file(
        "tensorad/sparse/matrix.py",
        SPARSE,
        [
            (
                "values of the first sizes are those of all",
                "        if not self._binding.sizes:\n            self._fixed =",
                "        if not sizes:\n            self._fixed =",
            ),
        ],
    ),
    *in_file(
        "tensorad/sparse/steps.py",
        SPARSE,
        [
            (
                "the states before steps have seen their step",
                "inclusive = (kind == 0) is not op.exclusive",
                "inclusive = not op.exclusive",
            ),
        ],
    ),
    *in_file(
        "tensorad/implicit/linear.py",
        IMPLICIT,
        [
            (
                "what moves with the map alone has the other sign",
                'right = [-m if d is None else elementwise("sub", d, m) for d, m in pairs]',
                'right = [m if d is None else elementwise("sub", d, m) for d, m in pairs]',
            ),
        ],
    ),
    *in_file(
        "tensorad/implicit/krylov.py",
        IMPLICIT,
        [
            (
                "the square of a residual is held against the tolerance",
                "    size = min(n, LARGEST_BASIS) if isinstance(n, int) else LARGEST_BASIS\n    bound = dot(b, b) * limits.tolerance**2",
                "    size = min(n, LARGEST_BASIS) if isinstance(n, int) else LARGEST_BASIS\n    bound = dot(b, b) * limits.tolerance",
            ),
        ],
    ),
    *in_file(
        "tensorad/implicit/solvers.py",
        IMPLICIT,
        [
            (
                "a step that damping made small ends the search",
                "small = (damping <= 0.0) & _is_small(d, x, limits.tolerance)",
                "small = _is_small(d, x, limits.tolerance)",
            ),
        ],
    ),
    *in_file(
        "tensorad/implicit/calls.py",
        IMPLICIT,
        [
            (
                "of a result that is there twice one head counts",
                'joined[y] = elementwise("add", joined[y], h) if y in joined else h',
                "joined[y] = h",
                "a map or residual with one result twice has a singular matrix: the solution is NaN or infinite either way",
            ),
        ],
    ),
]
