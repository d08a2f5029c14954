"""What solvers are told: where they begin, how near they come, when they give up."""

from __future__ import annotations

from tensorad.errors import DefinitionError, DTypeError
from tensorad.implicit.krylov import Limits
from tensorad.ir.dtypes import DType
from tensorad.program.calling.arguments import leaf_dtypes
from tensorad.program.calls import operand
from tensorad.program.sides import leaf_text
from tensorad.program.trees import Flat, flatten
from tensorad.program.values import as_tensor, is_number


def float_tree(tree: object, name: str, title: str, numbers: DType | None = None) -> Flat:
    """A tree of floats as tensors.

    Args:
        numbers: the dtype of Python numbers; otherwise that of the widest float beside them.
    Raises:
        DTypeError: a leaf is no float. DefinitionError: there are no leaves.
    """
    flat = flatten(operand(tree, name), name)
    leaves = []
    dtypes = leaf_dtypes(flat.leaves, flat.paths)
    for value, path, dtype in zip(flat.leaves, flat.paths, dtypes, strict=True):
        t = as_tensor(value, path, numbers or dtype if is_number(value) else dtype)
        if not t.dtype.is_float:
            raise DTypeError(
                f"{path} of {title} is no float.",
                where=f"{path} : {leaf_text(value)}",
                hint="what is solved for are floats: begin with 1.0, or convert with "
                ".astype('float64').",
            )
        leaves.append(t)
    if not leaves:
        raise DefinitionError(
            f"{name} of {title} has no arrays.", hint="pass what is solved for: arrays or numbers."
        )
    return flat._replace(leaves=leaves)


def checked_limits(
    title: str, tol: object, most: object, x: Flat, tolerances: tuple[float, float], usual: int
) -> Limits:
    """When a solver stops, as told or as usual.

    Args:
        tolerances: where none is told, for float64 and float32 alone.
        usual: how many iterations there are at the most.
    Raises:
        DefinitionError: a tolerance that is not above 0, or no number of iterations.
    """
    if tol is None:
        tol = tolerances[0] if all(t.dtype.bits == 64 for t in x.leaves) else tolerances[1]
    most = usual if most is None else most
    is_number = isinstance(tol, (int, float)) and not isinstance(tol, bool)
    if not is_number or not 0 < tol < float("inf"):  # type: ignore[operator]  # a number
        raise DefinitionError(
            f"tol of {title} must be a number above 0, got {tol!r}.", hint="write tol=1e-8."
        )
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise DefinitionError(
            f"max_iterations of {title} must be a positive integer, got {most!r}.",
            hint="write max_iterations=100.",
        )
    return Limits(float(tol), most)  # type: ignore[arg-type]  # a number
