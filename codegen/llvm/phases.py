"""A kernel's phases as LLVM functions: parallel loops, which tell how many iterations they have."""

from __future__ import annotations

from tensorad.codegen.cost.parallel_work import PARALLEL_COST, SHARED_COST
from tensorad.codegen.llvm.call_block import LIGHT, WHOLE
from tensorad.codegen.llvm.loops import FunctionText, Loops
from tensorad.codegen.llvm.ops import is_constant
from tensorad.codegen.llvm.text import Value
from tensorad.codegen.loops.ir import Assign, For, Kernel, Stmt
from tensorad.codegen.loops.rewrite import each_once
from tensorad.codegen.loops.substitute import JoinedStrips, joined_strips
from tensorad.codegen.loops.visit import params_of, statements
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Param
from tensorad.ir.tensor import Tensor


def phases(body: tuple[Stmt, ...]) -> list[tuple[tuple[Stmt, ...], bool]]:
    """The block cut into parallel loops and what runs between them."""
    parts: list[tuple[list[Stmt], bool]] = []
    for s in body:
        parallel = isinstance(s, For) and s.kind == "parallel"
        if parallel or not parts or parts[-1][1]:
            parts.append(([s], parallel))
        else:
            parts[-1][0].append(s)
    cut = [(tuple(part), parallel) for part, parallel in parts]
    if len(cut) > 1 and any(not _is_closed(part) for part, _ in cut):
        return [(body, False)]
    return cut


def _is_closed(body: tuple[Stmt, ...]) -> bool:
    """Whether every scalar the block uses is set in it."""
    used: dict[Param, None] = {}
    assigned: dict[Param, None] = {}
    for s in statements(body):
        if isinstance(s, Assign):
            assigned.update(dict.fromkeys(s.targets))
        used.update(dict.fromkeys(params_of(s)))
    return all(p in assigned for p in used)


def function_text(
    name: str,
    body: tuple[Stmt, ...],
    parallel: bool,
    tensors: tuple[Tensor, ...],
    first_check: int,
    kernel: Kernel,
) -> FunctionText:
    """The LLVM function of one phase; tensors are passed by position."""
    body = each_once(body)
    loop = body[0] if parallel and isinstance(body[0], For) else None
    strips = None if loop is None else joined_strips(loop)
    loops = Loops(body if strips is None else strips.body, tensors, first_check, kernel)
    if loop is not None:
        _parallel_loop(loops, loop, strips)
    else:
        loops.block(body)
    return loops.finish(name, parallel)


def _parallel_loop(loops: Loops, s: For, strips: JoinedStrips | None) -> None:
    """Iterations [begin, end) of the loop; end < 0 asks how many there are.

    The answer is negative where threads are not worth while at these sizes, and marked as light
    where they are if they need not be woken. Strips that run as one are marked, too.
    """
    code, values = loops.code, loops.values
    lower, upper, step = (values.scalar(b).name for b in (s.axis.lower, s.axis.upper, s.axis.step))
    put = code.put
    known = all(map(is_constant, (lower, upper, step)))
    cycles = None if s.work is None else values.scalar(s.work).name
    fixed = known and (cycles is None or is_constant(cycles))
    safe = "" if fixed else _rounded_up(loops, lower, upper, step)
    marks = 0 if strips is None else WHOLE
    query, run = code.fresh("query"), code.fresh("run")
    asked = put("icmp slt i64 %end, 0")
    code.line(f"br i1 {asked}, label %{query}, label %{run}")
    code.start_block(query)
    if fixed:
        number = max(0, -((int(lower) - int(upper)) // int(step)))
        count = str(_marked(number, None if cycles is None else int(cycles), marks))
    else:
        count = put(f"sdiv i64 {safe}, {step}")
        count = _marked_then(loops, count, cycles, marks)
    code.line(f"ret i64 {count}")
    code.start_block(run)

    def place(number: str) -> str:
        scaled = number if step == "1" else put(f"mul i64 {number}, {step}")
        return scaled if lower == "0" else put(f"add i64 {lower}, {scaled}")

    start, wanted = place("%begin"), place("%end")
    below = put(f"icmp slt i64 {wanted}, {upper}")
    stop = put(f"select i1 {below}, i64 {wanted}, i64 {upper}")
    if strips is not None:
        ends = (strips.first, start), (strips.last, put(f"sub i64 {stop}, 1"))
        for a, name in ends:
            loops.axes[a] = None
            values.keep(a, Value((name,), INT64, 0, code.depth, 0))
        loops.block(strips.body)
        return
    loops.axes[s.axis] = None
    loops.settle(s)
    loops.counted(s, s.axis, (start, stop, step), True, lambda: loops.block(s.body))


def _rounded_up(loops: Loops, lower: str, upper: str, step: str) -> str:
    """What the steps from one bound to the other reach, and up to one step more."""
    put = loops.code.put
    extent = put(f"sub i64 {upper}, {lower}")
    rounded = put(f"add i64 {extent}, {step}")
    rounded = put(f"sub i64 {rounded}, 1")
    positive = put(f"icmp sgt i64 {extent}, 0")
    return put(f"select i1 {positive}, i64 {rounded}, i64 0")


def _marked(count: int, cycles: int | None, marks: int) -> int:
    """The answer for a number of iterations that take so many cycles together."""
    if cycles is None or cycles >= PARALLEL_COST:
        return count | marks
    return -count if cycles < SHARED_COST else count | marks | LIGHT


def _marked_then(loops: Loops, count: str, cycles: str | None, marks: int) -> str:
    """The same in the code, where sizes decide."""
    put = loops.code.put
    heavy = put(f"or i64 {count}, {marks}") if marks else count
    if cycles is None:
        return heavy
    marked = put(f"or i64 {heavy}, {LIGHT}")
    light = put(f"icmp slt i64 {cycles}, {PARALLEL_COST}")
    less = put(f"sub i64 0, {count}")
    few = put(f"icmp slt i64 {cycles}, {SHARED_COST}")
    more = put(f"select i1 {light}, i64 {marked}, i64 {heavy}")
    return put(f"select i1 {few}, i64 {less}, i64 {more}")
