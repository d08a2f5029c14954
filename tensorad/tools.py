"""Tools that take tensors, or a function with example arguments: the first argument tells which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from tensorad import building, counting, explaining, sparse
from tensorad.building import Lowered, median_milliseconds
from tensorad.checking import gradients
from tensorad.counting import Work
from tensorad.display.explain_adjoints import AdjointsExplanation, adjoints_explanation
from tensorad.errors import DefinitionError, DTypeError, GradError, ShapeError
from tensorad.explaining import Explanation
from tensorad.ir.expr import Expr
from tensorad.ir.records import is_record
from tensorad.ir.reference import interpret as reference
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import placeholders as placeholders_of
from tensorad.program import Function, Module, module
from tensorad.program.calling.arguments import as_result
from tensorad.program.compiled_programs import Example
from tensorad.program.data.instances import Instance, opened
from tensorad.program.derivatives import target_of
from tensorad.program.forms import is_function
from tensorad.program.gradients import COUNTED, Wanted, how_collected
from tensorad.program.points import (
    Argnums,
    check_argnums,
    check_arrays,
    check_floats,
    check_positions,
)
from tensorad.program.sides import leaf_text
from tensorad.program.traces import Program
from tensorad.program.trees import flatten, unflatten
from tensorad.program.values import as_tensor
from tensorad.sparse import SparseJacobian

Anything = Callable[..., Any]


def _example(f: Anything, args: tuple[Any, ...]) -> Example:
    """A call of a function with these arguments, taken apart."""
    return (f if isinstance(f, Function) else Function(f)).example(*args)


def gradcheck(y: Any, *args: Any, **options: Any) -> Any:
    """Check derivatives: forward and reverse mode against central differences in float64.

    Args:
        y: gradcheck(y, wrt, order=1, ...): float tensors and those to differentiate by, see
            `tensorad.checking.gradcheck`, which has all options.
            gradcheck(f, *example, order=1, ...): a function of trees, at these arguments (the
            derivatives are checked there, by each float array and number among them, also in
            values of data types).
    Returns:
        True, or with `report=True` a `GradReport`.
    Raises:
        GradError: two ways to differentiate disagree.
        DefinitionError: an option is wrong, or the function has no float result.
        DTypeError: none of the function's arguments is a float.
    """
    if not is_function(y):
        return gradients.gradcheck(y, *args, **options)
    example = _example(*_with_open_values(y, args))
    program = example.program
    wrt = [p for p in program.parameters if p.dtype.is_float]
    if not wrt:
        raise DTypeError(
            f"gradcheck of {program.name} has nothing to differentiate by: no argument is a float.",
            where=", ".join([f"{p.name} : {p.dtype}" for p in program.parameters]),
            hint="pass floats, 1.0 for 1.",
        )
    if not any(t.dtype.is_float for t in program.results):
        raise GradError(
            f"gradcheck of {program.name} has nothing to check: no result is a float.",
            where=", ".join([f"{t.name} : {leaf_text(t)}" for t in program.results]) or None,
            hint="integers and booleans have no derivative: convert with .astype('float32').",
        )
    ys = [t for t in program.results if not is_record(t.dtype)]
    return gradients.gradcheck(ys, wrt, arrays=example.values, sizes=example.sizes, **options)


def _with_open_values(f: Anything, args: tuple[Any, ...]) -> tuple[Anything, tuple[Any, ...]]:
    """The function of the floats of values of data types, in the place of these."""
    flat = flatten(args, "args")
    values = {n: opened(v) for n, v in enumerate(flat.leaves) if isinstance(v, Instance)}
    if not values:
        return f, args

    def of_floats(*args: Any) -> Any:
        rest = iter(flatten(args).leaves)
        leaves: list[Any] = []
        for n, path in enumerate(flat.paths):
            if n not in values:
                leaves.append(next(rest))
                continue
            floats, made = values[n]
            leaves.append(as_tensor(made([next(rest) for _ in floats]), path))
        return f(*unflatten(flat.structure, leaves))

    own = [values[n][0] if n in values else v for n, v in enumerate(flat.leaves)]
    return Function(of_floats, (), target_of(f, "gradcheck").name), tuple(
        unflatten(flat.structure, own)
    )


def work(tensors: Any, *args: Any, **options: Any) -> Work:
    """Counts of iterations, multiplications and elements stored, without running anything.

    Args:
        tensors: work(tensors, sizes=None): see `tensorad.counting.work`.
            work(f, *example, sizes=None): what a call of the function does, at these shapes;
            `sizes`: counts of loops that only the run tells, by name, {"trips": 8}.
    Raises:
        UserError: a count depends on how often a loop runs that data end, and on more.
        CountError: the bounds of a loop depend on data.
    """
    if not is_function(tensors):
        return counting.work(tensors, *args, **options)
    example = _example(tensors, args)
    sizes = {**example.sizes, **(options.pop("sizes", None) or {})}
    return counting.work(example.program.results, sizes, **options)


def explain(gradients: Any, *args: Any, **options: Any) -> Explanation:
    """How gradients were made: reads, sets, loops, plans, work and certificates.

    Args:
        gradients: explain(gradients, sizes=None): see `tensorad.explaining.explain`.
            explain(f, *example, sizes=None): those results of a function, such as `ta.grad(g)`,
            that are gradients, or sums of products that are not evaluated as they were written.
    Raises:
        GradError: there are none.
    """
    if not is_function(gradients):
        return explaining.explain(gradients, *args, **options)
    example = _example(gradients, args)
    told = [t for t in example.program.results if explaining.can_explain(t)]
    if not told:
        raise GradError(
            f"explain tells how a gradient was made and how sums of products were ordered, but no "
            f"result of {example.program.name} is one or has any.",
            where=", ".join([f"{t.name} : {leaf_text(t)}" for t in example.program.results]),
            hint="pass ta.grad(f) or another derivative in place of f.",
        )
    sizes = {**example.sizes, **(options.pop("sizes", None) or {})}
    return explaining.explain(told, sizes, **options)


def explain_adjoints(given: Any, *args: Any, **options: Any) -> AdjointsExplanation:
    """How a gradient collects the adjoint of each value: initialized, incremented, finalized.

    An adjoint is accumulated in memory of its own and goes to what the value is computed from once,
    or each increment is passed straight on; whichever does fewer operations, unless `collect` says
    so.

    Args:
        given: explain_adjoints(module, name, ...): a function of a module;
            explain_adjoints(f, *example, ...): a function with arguments; without any it has
            defaults, as in `ta.module`. Options as of `ta.gradient`, with collect="counted" unless
            given; `ta.gradient` with the same options makes what is told.
    Returns:
        what `print` shows, with counts for both ways; `found["v"]` tells of one value.
    Raises:
        DefinitionError, GradError, ShapeError, DTypeError: as `ta.gradient`.
    """
    if isinstance(given, Module):
        m, (name,) = given, args
    else:
        f = given if isinstance(given, Function) else Function(given)
        m, name = module(f.trace(*args) if args else f), f.name
    chosen = {"require_grads": None, "target_index": None, "cotangent": None, "strict": False}
    wanted = Wanted(name, **{**chosen, "collect": COUNTED, **options})
    return adjoints_explanation(*how_collected(wanted, m))


def lower(outputs: Any, *args: Any, **options: Any) -> Lowered:
    """The loops that are compiled; `print` and Jupyter show them.

    Args:
        outputs: lower(outputs, inputs=None, *, schedule=None): see `tensorad.building.lower`.
            lower(f, *example, schedule=None): those that a call of the function runs.
    """
    if not is_function(outputs):
        return building.lower(outputs, *args, **options)
    program = _example(outputs, args).program
    return building.lower(list(program.results), list(program.parameters), **options)


def show_lowered(outputs: Any, *args: Any) -> None:
    """Print the loops that are compiled.

    Args:
        outputs: show_lowered(outputs, inputs): tensors; show_lowered(f, *example): a function.
    """
    print(lower(outputs, *args))  # the function's purpose


def placeholders(outputs: Any, *args: Any) -> list[Tensor]:
    """The inputs that outputs read, each once, whatever lies between: branches, loops, calls.

    Their order is that in which formulas meet them: output by output, each read from left to right
    with all that the tensor read there is made of; all operands of a branch, a loop or a call in
    the order in which it has them. They are what `build` has to be given.

    Args:
        outputs: placeholders(outputs): a tensor, or a tree of tensors and values of data types,
            such as what a function returns that is called with tensors; or what `f.trace` returns.
            placeholders(f, *example): what the results of a function read of its arguments.
    Raises:
        DefinitionError: something else is among the outputs.
    """
    if is_function(outputs):
        outputs = _example(outputs, args).program
    if isinstance(outputs, Program):
        return placeholders_of(outputs.results)
    flat = flatten(outputs, "outputs")
    for value, path in zip(flat.leaves, flat.paths, strict=True):
        if not isinstance(value, (Tensor, Expr, Instance)):
            raise DefinitionError(
                f"placeholders takes tensors, but {path} is of class {type(value).__name__}.",
                hint="pass what placeholder, compute or an operator returned.",
            )
    pairs = zip(flat.leaves, flat.paths, strict=True)
    return placeholders_of([as_tensor(v, path) for v, path in pairs])


def interpret(tensors: Any, *args: Any, **options: Any) -> Any:
    """Values by the formulas themselves, in plain Python: slow, and float64, int64 or bool.

    Args:
        tensors: interpret(tensors, bindings, sizes=None): see
            `tensorad.ir.reference.interpret.interpret`.
            interpret(f, *example): what a call of the function returns.
    Returns:
        an array, or a list of them; of a function a tree like its result.
    """
    if not is_function(tensors):
        return reference.interpret(tensors, *args, **options)
    example = _example(tensors, args)
    program = example.program
    found = reference.interpret(list(program.results), example.values, example.sizes, **options)
    return program.tree([as_result(v) for v in found])


def measure_performance(outputs: Any, *args: Any, **options: Any) -> float:
    """Milliseconds of one call: the median of calls over `min_seconds`.

    Args:
        outputs: measure_performance(outputs, inputs, min_seconds=1.0, **sizes): on random arrays,
            see `tensorad.building.measure_performance`.
            measure_performance(f, *example, min_seconds=1.0): on these arguments.
    """
    if not is_function(outputs):
        return building.measure_performance(outputs, *args, **options)
    return _measured(outputs, args, **options)


def _measured(f: Anything, args: tuple[Any, ...], *, min_seconds: float = 1.0) -> float:
    example = _example(f, args)
    if not example.program.results:
        return median_milliseconds(partial(_example, f, args), min_seconds)
    call = partial(example.compiled, *example.leaves)
    call()  # arrays for results are kept from the second call on
    return median_milliseconds(call, min_seconds)


class SparseDerivative:
    """A function from a function's arguments to a sparse matrix of its derivatives.

    Rows are the float elements of the result, leaf by leaf, columns those of the arguments that
    it is differentiated by; patterns are made once for each kind and shapes of arguments.
    """

    def __init__(self, f: Anything, argnums: Argnums, title: str) -> None:
        """`title`: "sparse_jacobian" or "sparse_hessian"."""
        self._target = target_of(f, title)
        self._function = f if isinstance(f, Function) else Function(f)
        self._argnums = check_argnums(argnums, title)
        self._title = title
        self._made: dict[Program, SparseJacobian] = {}

    def __repr__(self) -> str:
        return f"<{self._title} of {self._target.name}>"

    def __call__(self, *args: Any) -> Any:
        """The matrix as a `scipy.sparse.csr_array`.

        Raises:
            MissingPackageError: scipy is not installed.
        """
        matrix, example = self._at(args)
        return matrix(*[example.values[p] for p in matrix.inputs])

    def matrix(self, *args: Any) -> SparseJacobian:
        """The pattern for arguments like these, and the functions that fill in values."""
        return self._at(args)[0]

    def _at(self, args: tuple[Any, ...]) -> tuple[SparseJacobian, Example]:
        check_positions(self._target, self._argnums, len(args), self._title)
        for n in self._argnums:
            name = self._target.path(n)
            flat = flatten(args[n], name)
            check_arrays(self._title, self._target, [flat])
            check_floats(self._title, self._target, flat, name)
        example = self._function.example(*args)
        program = example.program
        if program not in self._made:
            ends = [0, *accumulate([len(flatten(a).leaves) for a in args])]
            places = [i for n in self._argnums for i in range(ends[n], ends[n + 1])]
            wrt = [program.parameters[i] for i in places]
            self._made[program] = self._derived(program, wrt)
        return self._made[program], example

    def _derived(self, program: Program, wrt: Sequence[Tensor]) -> SparseJacobian:
        if self._title == "sparse_hessian":
            if len(program.results) != 1:
                raise ShapeError(
                    f"sparse_hessian needs a function whose result is one float without axes, but "
                    f"{program.name} returns {len(program.results)} arrays.",
                    where=", ".join(program.paths),
                    hint="differentiate a function that returns one of them.",
                )
            return sparse.sparse_hessian(program.results[0], wrt)
        return sparse.sparse_jacobian([y for y in program.results if y.dtype.is_float], wrt)


def sparse_jacobian(y: Any, *args: Any, **options: Any) -> Any:
    """Derivatives of every element by every element, as a sparse matrix.

    Args:
        y: sparse_jacobian(y, x): tensors, see `tensorad.sparse.sparse_jacobian`.
            sparse_jacobian(f, argnums=0): a function of trees.
    Returns:
        a `SparseJacobian`; of a function a function from its arguments to a CSR matrix of SciPy,
        whose `matrix(*arguments)` is the `SparseJacobian`.
    Raises:
        GradError, DTypeError, ShapeError: as of the tensors' form.
    """
    if is_function(y):
        return SparseDerivative(y, _argnums(*args, **options), "sparse_jacobian")
    return sparse.sparse_jacobian(y, *args, **options)


def sparse_hessian(y: Any, *args: Any, **options: Any) -> Any:
    """Second derivatives of one number, as a sparse matrix.

    Args:
        y: sparse_hessian(y, x): tensors, see `tensorad.sparse.sparse_hessian`.
            sparse_hessian(f, argnums=0): a function of trees whose result is one float.
    Returns:
        a `SparseJacobian`; of a function a function to a CSR matrix, as `sparse_jacobian`.
    Raises:
        GradError, DTypeError, ShapeError: as of the tensors' form.
    """
    if is_function(y):
        return SparseDerivative(y, _argnums(*args, **options), "sparse_hessian")
    return sparse.sparse_hessian(y, *args, **options)


def _argnums(argnums: Argnums = 0) -> Argnums:
    return argnums
