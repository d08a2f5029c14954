"""Well-formedness of loop programs: what the code generator takes for granted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorad.codegen.loops.ir import (
    Activate,
    Assign,
    CallPython,
    Check,
    Fold,
    For,
    If,
    Inside,
    Kernel,
    LoopProgram,
    Make,
    Node,
    Place,
    Repeat,
    Stmt,
    Store,
    inner_nodes,
)
from tensorad.codegen.loops.printer import format_kernel
from tensorad.codegen.loops.visit import expressions, statements
from tensorad.errors import InternalError
from tensorad.ir.expr import Axis, Expr, Param, Read, Reduce
from tensorad.ir.tensor import Constant, Tensor
from tensorad.ir.visit import postorder


def verify_loops(program: LoopProgram) -> None:
    """Check a whole program.

    Raises:
        InternalError: a scalar or an axis is used where it has no value, a tensor is read before
            it is written or written twice, dtypes or arities disagree, or vector and parallel
            loops stand where they may not.
    """
    _verify_nodes(program.nodes, program.inputs, program.outputs)
    for r in program.routines:
        _verify_nodes(r.nodes, r.params, r.results, r.totals)


def _verify_nodes(
    nodes: Sequence[Node],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    totals: Sequence[Tensor] = (),
) -> None:
    """`totals`: outputs that kernels add to, any number of them."""
    ready: dict[Tensor, None] = dict.fromkeys((*inputs, *totals))
    written: dict[Tensor, None] = dict.fromkeys(inputs)
    stack: list[Node] = list(nodes[::-1])
    while stack:
        n = stack.pop()
        if isinstance(n, Kernel):
            _Verifier(n, ready).run()
            for t in n.writes:
                if t in written and not (t in totals and t in n.reads):
                    raise _problem(n, f"{t.name} is written by two kernels")
                written[t] = ready[t] = None
        elif isinstance(n, Place):
            ready[n.tensor] = ready[n.source] = None
        elif isinstance(n, Make):
            ready[n.handle] = None
        elif isinstance(n, Inside):
            ready[n.tensor] = None
        elif isinstance(n, Activate | CallPython):
            ready.update(dict.fromkeys(n.results if isinstance(n, Activate) else n.writes))
        elif isinstance(n, Repeat):
            ready.update(dict.fromkeys(n.stores))
        stack += inner_nodes(n)[::-1]
    for t in outputs:
        if t not in ready:
            raise InternalError(f"the output {t.name} is never written")


def _problem(kernel: Kernel, what: str) -> InternalError:
    return InternalError(f"{what}\n  in kernel {kernel.name}:\n{format_kernel(kernel)}")


class _Verifier:
    """One kernel: scalars and axes in scope, tensors ready."""

    def __init__(self, kernel: Kernel, ready: dict[Tensor, None]) -> None:
        self.kernel = kernel
        self.ready = ready
        self.written = dict.fromkeys((*kernel.writes, *kernel.scratch))
        self.declared = dict.fromkeys((*kernel.reads, *kernel.writes, *kernel.scratch))
        self.stored: dict[Tensor, None] = {}
        self.lanes: dict[Expr, int] = {}
        """Lanes of a register of every scalar that is folded in lanes."""

    def run(self) -> None:
        for t in self.kernel.scratch:
            if t in dict.fromkeys((*self.kernel.reads, *self.kernel.writes)):
                raise _problem(self.kernel, f"{t.name} is scratch and also kept")
        for t, other in self.kernel.beside:
            if t not in self.kernel.scratch or other in self.kernel.scratch:
                raise _problem(self.kernel, f"{t.name} cannot begin where {other.name} does")
        if (
            self.kernel.unaliased_with is not None
            and self.kernel.unaliased_with not in self.kernel.writes
        ):
            raise _problem(self.kernel, f"{self.kernel.unaliased_with.name} is not stored")
        self.block(self.kernel.body, {}, ())
        for t in self.kernel.writes:
            empty = any(isinstance(n, int) and n == 0 for n in t.shape)
            if t not in self.stored and not empty:
                raise _problem(self.kernel, f"{t.name} is never stored")

    def block(self, body: Sequence[Stmt], scope: dict[Expr, None], loops: tuple[For, ...]) -> None:
        inside = dict(scope)
        for s in body:
            self.statement(s, inside, loops)

    def statement(self, s: Stmt, scope: dict[Expr, None], loops: tuple[For, ...]) -> None:
        self.exprs(expressions(s), scope)
        match s:
            case For():
                self.loop(s, scope, loops)
            case If():
                self.block(s.then, scope, loops)
                self.block(s.orelse, scope, loops)
            case Assign():
                self.same_dtypes(s.targets, s.values)
                scope.update(dict.fromkeys(s.targets))
            case Fold():
                self.exprs(s.targets, scope)
                self.same_dtypes(s.combiner.rhs, s.values)  # in scans not of the state's kind
                self.same_dtypes(s.targets, s.combiner.results)
            case Store():
                self.store(s)

    def loop(self, s: For, scope: dict[Expr, None], loops: tuple[For, ...]) -> None:
        if s.axis in scope:
            raise _problem(self.kernel, f"the axis {s.axis.name} is bound twice")
        if not s.body:
            raise _problem(self.kernel, f"the loop over {s.axis.name} is empty")
        if s.kind == "parallel" and loops:
            raise _problem(self.kernel, f"the parallel loop over {s.axis.name} is not outermost")
        if s.lanes and (s.kind != "vector" or s.lanes & (s.lanes - 1)):
            raise _problem(self.kernel, f"the loop over {s.axis.name} cannot have {s.lanes} lanes")
        if s.kind == "vector" and any(f.kind == "vector" for f in loops):
            raise _problem(self.kernel, f"the vector loop over {s.axis.name} is inside another")
        if s.covering and (s.kind != "serial" or self.folds(s)):
            raise _problem(self.kernel, f"the loop over {s.axis.name} may not repeat values")
        if s.kind == "vector":
            self.vector_fold(s, scope)
        self.block(s.body, {**scope, s.axis: None}, (*loops, s))

    def vector_fold(self, s: For, outside: dict[Expr, None]) -> None:
        """What the order of a sum depends on is stated, alike in all loops that go on with it."""
        inner = [*statements(s.body)]
        own = dict.fromkeys([p for c in inner if isinstance(c, Assign) for p in c.targets])
        folded = [p for c in inner if isinstance(c, Fold) for p in c.targets]
        for p in [p for p in folded if p in outside and p not in own]:
            if not s.lanes or self.lanes.setdefault(p, s.lanes) != s.lanes:
                raise _problem(self.kernel, f"{p.name} is folded in lanes of unstated number")

    def folds(self, s: For) -> bool:
        return any(isinstance(c, (Fold, Assign, Check)) for c in statements(s.body))

    def exprs(self, roots: Iterable[Expr], scope: dict[Expr, None]) -> None:
        for e in postorder(*roots):
            if isinstance(e, (Axis, Param)) and e not in scope:
                raise _problem(self.kernel, f"{e.name} is used where it has no value")
            if isinstance(e, Reduce):
                raise _problem(self.kernel, "a reduction is left in the loops")
            if isinstance(e, Read):
                self.read(e)

    def read(self, e: Read) -> None:
        t = e.tensor
        known = t in self.ready or t in self.written or isinstance(t.op, Constant)
        if not known:
            raise _problem(self.kernel, f"{t.name} is read before it is written")
        if t not in self.declared:
            raise _problem(self.kernel, f"{t.name} is read but not among the kernel's reads")
        if len(e.indices) != len(t.shape):
            raise _problem(self.kernel, f"{t.name} is read with {len(e.indices)} indices")

    def store(self, s: Store) -> None:
        for t, value in zip(s.tensors, s.values, strict=True):
            if t not in self.written:
                raise _problem(self.kernel, f"{t.name} is stored but not among the writes")
            if len(s.indices) != len(t.shape) or value.dtype is not t.dtype:
                raise _problem(self.kernel, f"a store into {t.name} does not fit it")
            self.stored[t] = None

    def same_dtypes(self, targets: Sequence[Expr], values: Sequence[Expr]) -> None:
        pairs = zip(targets, values, strict=True)
        if any(t.dtype is not v.dtype for t, v in pairs):
            raise _problem(self.kernel, "a scalar is set to a value of another dtype")
