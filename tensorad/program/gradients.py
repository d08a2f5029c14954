"""The adjoint of a module's function, binding by binding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any, Final

from tensorad.autodiff.collecting import ACCUMULATE, PASS_ON, Collected, Collecting
from tensorad.autodiff.local.record_gradients import (
    as_derivative,
    as_gradient,
    gradient_type,
    has_gradient,
)
from tensorad.autodiff.local.records import added, nothing
from tensorad.errors import DefinitionError, DTypeError, GradError, ShapeError, counted
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import const, read, summed
from tensorad.ir.records import Field, RecordType, is_record, stand_ins
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Compute, Tensor, outputs
from tensorad.ir.text.blocks import placeholder_tree, type_of, value_text
from tensorad.ir.text.continuing import Step, continued, parts
from tensorad.ir.text.program import Tree, tree_leaves
from tensorad.passes import Form, Pass, run_passes
from tensorad.program.calling.arguments import has_tensors
from tensorad.program.modules import Module, ModuleFunction, of_record
from tensorad.program.points import Target, like
from tensorad.program.trees import Branching, Flat, Structure, flatten, unflatten

COUNTED: Final = "counted"
Collect = str | Mapping[str, str] | None


def gradient(
    module: Module,
    name: str,
    require_grads: str | Sequence[str] | None = None,
    target_index: int | None = None,
    cotangent: Any = None,
    strict: bool = False,
    collect: Collect = None,
) -> Module:
    """The module with one more function, the derivative of one of its functions, in reverse mode.

    The function `<name>_adjoint` has the same parameters and returns (value, (adjoints...)): the
    result of the function, and for each parameter a value of its structure, shapes and dtypes;
    there are empty tuples (None in calls) in the place of integers and booleans. Its text has a
    binding `v_adjoint` for each value v between parameters and target, last to first, the
    parameters' at the end.

    Args:
        module: see `ta.module`; it stays as it is, and its functions are those of the new one.
        name: of the function.
        require_grads: names of parameters, or of other values of the function, in the order that
            their adjoints are returned in; all parameters unless given.
        target_index: which field of a returned tuple is differentiated.
        cotangent: what the derivative is multiplied by: a tree of arrays and numbers like the
            result (like its field, with `target_index`), or a name: that of a further parameter,
            the last one, which in calls is a tree like the result's, with None in the place of
            integers. Omitted, the target is a float without axes, and this is 1.
        strict: raise where nothing flows to a value of `require_grads`, instead of zeros.
        collect: how adjoints of values are collected. None: each has a binding of its own, which
            is the sum of what its readers give it. "counted": where fewer operations are done, a
            value has none, what it receives goes straight on to what it is computed from. A dict
            from names to "accumulate" or "pass on": so for these, as by None for the others.
    Returns:
        a `Module`.
    Raises:
        DefinitionError: there is no such function, or there is one of the new name; the cotangent
            has another structure.
        GradError: `require_grads` names something that the function does not have, or twice;
            `collect` names what has to be accumulated, or nothing.
        ShapeError: the target is no float without axes, and there is no cotangent.
        DTypeError: `require_grads` names an integer.
    Source: "Reverse Mode Automatic Differentiation in Relax" (2023), sections 1 to 3; `collect`:
        nGraph, "Autodiff" (2018), "The Algorithm".
    """
    if not isinstance(module, Module):
        raise DefinitionError(
            f"gradient takes a module, got {type(module).__name__}.",
            hint="write ta.gradient(ta.module(f), 'f'); ta.grad(f) takes a function.",
        )
    wanted = Wanted(name, require_grads, target_index, cotangent, strict, collect)
    return run_passes(PASSES, wanted, module, MODULE)


@dataclass(frozen=True)
class Wanted:
    """What `gradient` is asked for."""

    name: str
    require_grads: str | Sequence[str] | None
    target_index: int | None
    cotangent: Any
    strict: bool
    collect: Collect


def _add_adjoint(wanted: Wanted, before: Module) -> Module:
    return _Gradient(before, before[wanted.name], wanted).run()


def how_collected(wanted: Wanted, m: Module) -> tuple[ModuleFunction, list[Collected]]:
    """The function, and how the adjoint of each of its values is collected, last to first."""
    made = _Gradient(m, m[wanted.name], wanted)
    return made.f, made.collecting.told(made.passed, made.forced)


def _verify(wanted: Wanted, m: Module) -> None:
    verify([t for f in m.functions.values() for t in f.results])


def _compare(wanted: Wanted, before: Module, after: Module) -> str:
    """The functions that were there are those that are there."""
    changed = [n for n, f in before.functions.items() if after.functions.get(n) is not f]
    return f"{', '.join(changed)} changed" if changed else ""


PASSES: Final = (Pass("gradient", _add_adjoint, "alone: it is what is asked for", required=True),)
MODULE: Final = Form(lambda wanted, m: str(m), _verify, _compare)


class _Gradient:
    """One function that is differentiated."""

    def __init__(self, module: Module, f: ModuleFunction, asked: Wanted) -> None:
        self.module, self.f, self.strict = module, f, asked.strict
        self.record = f.record
        self.name = f"{f.name}_adjoint"
        self.values = f.record.tensors
        if self.name in module:
            raise DefinitionError(
                f"the module has a function {self.name} already.",
                where=f"gradient of {f.name}",
                hint="take the gradient of a module without it; the derivative of "
                f"{self.name} is called {self.name}_adjoint.",
            )
        self.names = self.wanted(asked.require_grads)
        self.aim, self.structure = self.target(asked.target_index)
        self.params, parts = self.cotangents(self.aim, self.structure, asked.cotangent)
        self.heads = _heads(self.aim, parts)
        leaves = [
            t for n in self.names for t in tree_leaves(self.values[n]) if has_gradient(t.dtype)
        ]
        every = [t for tree in self.values.values() for t in tree_leaves(tree)]
        self.collecting = Collecting(self.heads, leaves, every, {})
        self.forced = self.ways(asked.collect)
        self.passed = {t: None for t, way in self.forced.items() if way == PASS_ON}
        if asked.collect == COUNTED:
            self.passed = self.collecting.chosen({})

    def ways(self, collect: Collect) -> dict[Tensor, str]:
        """How adjoints are collected that it was said of."""
        if collect is None or collect == COUNTED:
            return {}
        where = f"gradient of {self.f.name}, collect={collect!r}"
        ways = f'"{ACCUMULATE}" or "{PASS_ON}"'
        if not isinstance(collect, Mapping):
            raise GradError(
                f'collect is neither None nor "{COUNTED}" nor a dict.',
                where=where,
                hint=f"write a dict from names of values to {ways}.",
            )
        found: dict[Tensor, str] = {}
        for n, way in collect.items():
            t = self.values.get(n)
            known = way in (ACCUMULATE, PASS_ON)
            if not isinstance(t, Tensor) or not known:
                what = f"has no tensor called {n}" if known else f"cannot collect {n} by {way!r}"
                raise GradError(
                    f"{self.f.name} {what}.",
                    where=where,
                    hint=f"collect is a dict from names of tensors to {ways}.",
                )
            if way == PASS_ON and not self.collecting.may_pass_on(t):
                raise GradError(
                    f"what the adjoint of {n} receives cannot go straight on.",
                    where=where,
                    hint="only formulas and sums between parameters and target pass on; what is "
                    "asked for is accumulated.",
                )
            found[t] = way
        return found

    def run(self) -> Module:
        """The module with the adjoint."""
        wanted, target, structure, params = self.names, self.aim, self.structure, self.params
        adjoints = self.collecting.adjoints(self.passed)
        self.add_zeros(wanted, adjoints)
        for t in [t for n in wanted for t in tree_leaves(self.values[n]) if is_record(t.dtype)]:
            if t in adjoints:
                adjoints[t] = as_gradient(t, adjoints[t])
        steps = self.steps(list(self.heads), wanted, adjoints)
        bound = dict(steps)
        returned = tuple([_adjoint(n) if _adjoint(n) in bound else () for n in wanted])
        trees = tuple([bound.get(_adjoint(n), ()) for n in wanted])
        p = continued(self.module.program, self.record, self.name, steps, (returned, trees), params)
        record = p[self.name]
        head = flatten(_as_called(structure, target)).structure
        arguments = [*self.f.arguments, *[head for _ in params]]
        f = ModuleFunction(record, arguments, self.result(wanted))
        functions = {g.name: self.module.functions.get(g.name) or of_record(g) for g in p.functions}
        return Module(p, MappingProxyType({**functions, self.name: f}))

    def wanted(self, require_grads: str | Sequence[str] | None) -> list[str]:
        """Names of values to differentiate by."""
        own = [n for n, _ in self.record.params]
        if require_grads is None:
            return own
        where = f"gradient of {self.f.name}, require_grads={require_grads!r}"
        if not isinstance(require_grads, (str, list, tuple)):
            raise GradError(
                f"require_grads is of class {type(require_grads).__name__}.",
                where=where,
                hint="pass a name, or a list of names.",
            )
        names = [require_grads] if isinstance(require_grads, str) else list(require_grads)
        for k, n in enumerate(names):
            if not isinstance(n, str) or n not in self.values:
                raise GradError(
                    f"{self.f.name} has no parameter or other value called "
                    f"{n if isinstance(n, str) else repr(n)}.",
                    where=where,
                    hint=f"its parameters are {', '.join(own)}; values inside of branches and "
                    "loops have no adjoints of their own.",
                )
            if n in names[:k]:
                raise GradError(
                    f"{n} stands twice in require_grads.", where=where, hint="name each once."
                )
            if not any(has_gradient(t.dtype) for t in tree_leaves(self.values[n])):
                raise DTypeError(
                    f"cannot differentiate {self.f.name} by {n} of type "
                    f"{value_text(self.values[n])}: integers and booleans have no derivative.",
                    where=where,
                    hint="leave it out of require_grads.",
                )
        if not names:
            raise GradError("require_grads is empty.", where=where, hint="name at least one value.")
        return names

    def target(self, index: int | None) -> tuple[Tree, Structure]:
        """What is differentiated: its tensors, its structure in calls."""
        tree, structure = self.record.results, self.f.result
        if index is None:
            return tree, structure
        if not isinstance(tree, tuple) or not isinstance(structure, Branching):
            raise GradError(
                f"{self.f.name} returns one tensor, and has no field {index}.",
                where=f"gradient of {self.f.name}, target_index={index!r}",
                hint="leave out target_index.",
            )
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(tree):
            raise GradError(
                f"{self.f.name} returns {counted(len(tree), 'field')}, there is no field {index}.",
                where=f"gradient of {self.f.name}, target_index={index!r}",
                hint="fields are counted from 0.",
            )
        return tree[index], structure.children[index]

    def cotangents(
        self, target: Tree, structure: Structure, given: object
    ) -> tuple[list[tuple[str, Tree]], list[Tensor | None]]:
        """Further parameters, and what the derivative of each leaf is multiplied by."""
        leaves = tree_leaves(target)
        title = f"gradient of {self.f.name}"
        if not any(has_gradient(t.dtype) for t in leaves):
            raise DTypeError(
                f"{self.f.name} returns {value_text(target)}: integers and booleans have no "
                "derivative.",
                where=title,
                hint="convert the target to a float.",
            )
        if given is None:
            if isinstance(target, tuple) or target.shape:
                hint = "give a cotangent: a tree of arrays like it, or the name of a parameter "
                hint += "for it; or let the function return its sum."
                if isinstance(target, tuple):
                    hint = f"choose a field that is one with target_index, or {hint}"
                raise ShapeError(
                    f"{self.f.name} returns {value_text(target)}, which is no float without axes.",
                    where=title,
                    hint=hint,
                )
            return [], [outputs(Compute("one", (), (const(1, target.dtype),)))[0]]
        if isinstance(given, str):
            if given in self.values:
                raise DefinitionError(
                    f"{self.f.name} has a value called {given} already.",
                    where=f"{title}, cotangent={given!r}",
                    hint="give the parameter for the cotangent another name.",
                )
            tree = placeholder_tree(given, type_of(_gradients(_floats(target))))
            rest = iter([as_derivative(t) if is_record(t.dtype) else t for t in tree_leaves(tree)])
            return [(given, tree)], [next(rest) if has_gradient(t.dtype) else None for t in leaves]
        if has_tensors(flatten(given, "cotangent").leaves):
            raise GradError(
                "a cotangent has arrays and numbers, no tensors.",
                where=title,
                hint='name a parameter for it, cotangent="head".',
            )
        paths = flatten(unflatten(structure, leaves), "result").paths
        of = Target(self.f, self.f.name, [n for n, _ in self.record.params])
        flat = Flat(leaves, paths, structure)
        return [], like(flat, given, "gradient", "cotangent", of, "cotangent")

    def add_zeros(self, wanted: Sequence[str], adjoints: dict[Tensor, Tensor]) -> None:
        """Adjoints of what nothing flows to."""
        for n in wanted:
            for t in tree_leaves(self.values[n]):
                if t in adjoints or not has_gradient(t.dtype):
                    continue
                if self.strict:
                    raise GradError(
                        f"the target of the gradient of {self.f.name} does not depend on {n}.",
                        where=f"{n} : {value_text(self.values[n])}",
                        hint="leave it out of require_grads, or leave out strict=True to get "
                        "zeros.",
                    )
                adjoints[t] = nothing(t.name, t.shape, t.dtype)

    def steps(
        self, targets: Sequence[Tensor], wanted: Sequence[str], adjoints: Mapping[Tensor, Tensor]
    ) -> list[Step]:
        """A binding for each adjoint: the targets', then last to first, then the parameters'."""
        own = [n for n, _ in self.record.params]
        others = [n for n in self.values if n not in own][::-1]
        ends = [n for n in others if any(t in targets for t in tree_leaves(self.values[n]))]
        order = [*ends, *others, *[n for n in own if n in wanted]]
        found: list[Step] = []
        for n in dict.fromkeys(order):
            tree = _floats(self.values[n])
            leaves = tree_leaves(tree)
            if n in wanted or (leaves and all(t in adjoints for t in leaves)):
                found.append((_adjoint(n), _replaced(tree, adjoints)))
                continue
            named = [(f"{_adjoint(n)}_{'_'.join(map(str, at))}", t) for at, t in parts(tree)]
            found += [(k, adjoints[t]) for k, t in named if t in adjoints]
        return [(n, tree) for n, tree in found if tree != ()]

    def result(self, wanted: Sequence[str]) -> Structure:
        """The structure of what it returns."""
        own = dict(zip([n for n, _ in self.record.params], self.f.arguments, strict=True))
        trees = []
        for n in wanted:
            tree = self.values[n]
            trees.append(_as_called(own.get(n) or flatten(tree).structure, tree))
        value = unflatten(self.f.result, tree_leaves(self.record.results))
        return flatten((value, tuple(trees))).structure


def _adjoint(name: str) -> str:
    return f"{name}_adjoint"


def _heads(target: Tree, parts: Sequence[Tensor | None]) -> dict[Tensor, Tensor]:
    """A tensor for each target that is the sum of its cotangents."""
    own: dict[Tensor, list[Tensor]] = {}
    for t, part in zip(tree_leaves(target), parts, strict=True):
        if part is not None:
            own.setdefault(t, []).append(part)
    heads = {}
    for t, some in own.items():
        if is_record(t.dtype):
            heads[t] = reduce(added, some)
            continue
        if len(some) == 1 and isinstance(some[0].op, Compute):  # a number, made for it
            heads[t] = some[0]
            continue
        axes = compute_axes(t.shape)
        body = summed([read(p, axes) for p in some])
        assert body is not None, "there are parts"
        heads[t] = outputs(Compute(f"{t.name}_head", axes, (body,)))[0]
    return heads


def _as_called(structure: Structure, tree: Tree) -> Any:
    """A value as calls have it, with None in the place of integers and booleans."""
    leaves = [t if has_gradient(t.dtype) else None for t in tree_leaves(tree)]
    return unflatten(structure, leaves)


def _floats(tree: Tree) -> Tree:
    """The value with empty tuples in the place of integers and booleans."""
    if isinstance(tree, Tensor):
        return tree if has_gradient(tree.dtype) else ()
    return tuple([_floats(t) for t in tree])


def _gradients(tree: Tree) -> Tree:
    """Tensors of the types that gradients by these have."""
    if not isinstance(tree, Tensor):
        return tuple([_gradients(t) for t in tree])
    if not isinstance(tree.dtype, RecordType):
        return tree
    return stand_ins([Field(tree.name, (), gradient_type(tree.dtype))])[0]


def _replaced(tree: Tree, new: Mapping[Tensor, Tensor]) -> Tree:
    """Other tensors in the same places."""
    return new[tree] if isinstance(tree, Tensor) else tuple([_replaced(t, new) for t in tree])
