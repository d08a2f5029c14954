"""The two native entries of compiled functions, with a driver that notes who uses which frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tensorad.codegen.entry import checks_ir, entry_ir, frames_ir
from tensorad.codegen.entry import plan_words as plan
from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.threads.signals_ir import RELEASED
from tests.support.interleavings.ir_text import Text
from tests.support.interleavings.machine import AGAIN, Address, Call, Machine, State, Waits, Wrong
from tests.support.interleavings.pool import edited
from tests.support.interleavings.search import Found, explore

PLAN, IDLE, _TEMPLATE, _NOTHING = 1 << 20, 2 << 20, 3 << 20, 4 << 20
_SETTINGS, _SELF, _LISTS, _MOVED = 5 << 20, 6 << 20, 7 << 20, 8 << 20
_OWNER: Final = 9 << 20
RECORDS: Final = 10 << 20
"""Where records of failures are, but for those that calls take memory for."""
_HEAP, _BLOCK = 1 << 30, 1 << 12
_GIL: Final = ("gil", 0)
_VERSION: Final = 5
_System = Mapping[str, tuple[Callable[[Machine, list[int]], object], bool]]
_SLOW, _ANSWER = 2, 3
"""What a call answers: by way of Python, or its outputs."""
_CALL: Final = plan.CALL_AT // 8
_SCRATCH: Final = plan.CALL_AT + 8 * block.SCRATCH


def _plan(kept: int) -> dict[Address, int]:
    """A plan, whose frames have a call block, slots and the word of what may be taken."""
    words = {
        plan.FRAME_BYTES: 1024, plan.TEMPLATE: _TEMPLATE, plan.MOVED: _MOVED,
        plan.TEMPLATE_WORDS: _CALL + block.HEAP + 1, plan.MOVED_WORDS: 2,
        plan.SCRATCH_BYTES: 64, plan.IDLE: IDLE, plan.KEPT: kept,
        plan.FAILURE_WORDS: plan.FAILURE_HEAD, plan.WORD_COUNTS: _NOTHING, plan.PLACES: _NOTHING,
    }  # fmt: skip
    memory: dict[Address, int] = {PLAN + 8 * n: w for n, w in words.items()}
    for n, (word, offset) in enumerate(((block.SLOTS, 512), (block.HEAP, 640))):
        memory[_TEMPLATE + 8 * (_CALL + word)] = offset
        memory[_MOVED + 8 * n] = _CALL + word
    return memory


def _is_tidy(memory: Mapping[Address, int], kept: int) -> None:
    """All memory belongs to a frame that is idle, or to the records of failures."""
    idle = [memory.get(IDLE + 8 * n, 0) for n in range(kept)]
    owned = {a for frame in idle if frame for a in (frame, memory[frame + _SCRATCH])}
    records = memory.get(PLAN + 8 * plan.FAILURES, 0)
    owned |= {records} if records >= _HEAP else set()
    if {a[1] for a in memory if isinstance(a, tuple) and a[0] == "alive"} != owned:
        raise Wrong("memory is lost")


def _use(m: Machine, call: int, status: int) -> object:
    """Run the driver on a frame, in two steps: others may come in between."""
    user = m.read(("used", call))
    if user not in (0, m.thread + 1):
        raise Wrong(f"threads {user - 1} and {m.thread} have the same frame")
    m.write(("used", call), 0 if user else m.thread + 1)
    return status if user else AGAIN


@dataclass(frozen=True)
class Plain:
    """Threads of C that call the plain entry.

    Attributes:
        calls: of each thread, whether it fails.
        kept: frames that stay when no call uses them.
        edits: what stands in the text instead.
        leaves: whether the last thread ends the entry, when it has called.
        asks: how often one more thread looks at the record of a failure, as Python does; all
            failures have the same record then, whose words are written one by one.
        orders: (address, operation, order) of atomic accesses that were made.
    """

    calls: Sequence[Sequence[bool]]
    kept: int = 1
    edits: Sequence[tuple[str, str]] = ()
    leaves: bool = False
    asks: int = 0
    orders: set[tuple[int, str, str]] = field(default_factory=set)

    def found(self) -> Found:
        """What all orders of steps lead to."""
        one = _ONE_RECORD if self.asks else ()
        whole = edited(edited(frames_ir.frames_text(), self.edits), one)
        text = Text(whole + _ASKS, {"settings": _SETTINGS})
        scripts = [
            [Call("enter", (PLAN, _NOTHING), ends=_checked(fails)) for fails in thread]
            for thread in self.calls
        ]
        if self.leaves:
            scripts[-1].append(Call("leave", (PLAN,)))
        if self.asks:
            scripts.append([Call("asks", (RECORDS,))] * self.asks)
        system: _System = {
            **_MEMORY,
            "run": (self._run, True),
            "seen": (lambda m, v: m.read(v[0]), True),
            "compared": (_compared, False),
        }
        machine = Machine(text, scripts, system, inside=_is_alive, orders=self.orders)
        return explore(machine, machine.start(self._memory()), self._is_done)

    def _run(self, m: Machine, values: list[int]) -> object:
        """The driver; failures have values by their number in their thread."""
        (call,) = values
        thread = m.threads[m.thread]
        assert thread is not None
        before = self.calls[m.thread][: thread.calls + 1]
        m.write(call + 8 * block.VALUE, _VALUE * sum(before))
        return _use(m, call, int(before[-1]))

    @property
    def _failures(self) -> int:
        return sum(map(sum, self.calls))

    def _memory(self) -> dict[Address, int]:
        there = {PLAN + 8 * plan.FAILURES: RECORDS} if self.asks else {}
        return {**_plan(self.kept), **there, _SETTINGS: 1}

    def _is_done(self, state: State) -> bool:
        done = all(t is not None and not t.frames for t in state.threads)
        ended = [t.calls for t in state.threads if t is not None]
        wanted = [len(c) for c in self.calls]
        wanted[-1] += self.leaves
        wanted += [self.asks] if self.asks else []
        if not done or ended != wanted:
            return False
        memory = dict(state.memory)
        if memory.get(PLAN + 8 * plan.TICKET, 0) != self._failures:
            raise Wrong("a failure has no number of its own")
        if self.asks and memory.get(RECORDS, 0) != self._failures:
            raise Wrong("a failure has no record")
        _is_tidy(memory, self.kept)
        return True


_VALUE: Final = 10
_ONE_RECORD: Final = [
    (f"urem i64 %number, {plan.RECORDS}\n", "urem i64 %number, 1\n"),
    ("store i64 %value, ptr %r3\n", "store atomic i64 %value, ptr %r3 monotonic, align 8\n"),
]
_ASKS: Final = f"""
define void @asks(ptr %record) nounwind {{
  %before = call i64 @seen(ptr %record)
  %place = getelementptr i64, ptr %record, i64 {plan.VALUE}
  %value = call i64 @seen(ptr %place)
  %after = call i64 @seen(ptr %record)
  call void @compared(i64 %before, i64 %value, i64 %after)
  ret void
}}
"""


def _compared(_: Machine, values: list[int]) -> object:
    """What Python takes for the words of a failure are its own."""
    before, value, after = values
    if before and before == after and value != _VALUE * before:
        raise Wrong(f"failure {before} is told as {value}")
    return 0


def _checked(fails: bool) -> Callable[[Machine, int], bool]:
    def ends(_: Machine, code: int) -> bool:
        if (code != 0) != fails:
            raise Wrong(f"a call answers {code}")
        return True

    return ends


def _allocate(m: Machine, _: list[int]) -> object:
    at = _HEAP
    while m.read(("alive", at)):
        at += _BLOCK
    m.write(("alive", at), 1)
    return at


def _free(m: Machine, values: list[int]) -> object:
    at = values[0]
    if not at:
        return 0
    if not m.read(("alive", at)):
        raise Wrong("memory is freed twice")
    m.write(("alive", at), 0)
    for address in [a for a in m.memory if isinstance(a, int) and at <= a < at + _BLOCK]:
        m.write(address, 0)
    return 0


def _is_alive(m: Machine, address: int) -> None:
    if address >= _HEAP and not m.read(("alive", address - address % _BLOCK)):
        raise Wrong("memory is used after it was freed")


_MEMORY: Final[_System] = {
    "aligned_alloc": (_allocate, True),
    "calloc": (_allocate, True),
    "free": (_free, False),
}


@dataclass(frozen=True)
class FromPython:
    """Threads of Python that call a function which gives the interpreter's lock away.

    Attributes:
        calls: of each thread, whether it fails.
        kept: frames that stay when no call uses them.
        edits: what stands in the text instead.
    """

    calls: Sequence[Sequence[bool]]
    kept: int
    edits: Sequence[tuple[str, str]] = ()

    def found(self) -> Found:
        """What all orders of steps lead to."""
        parts = (entry_ir.stub_text(16), RELEASED, frames_ir.frames_text())
        whole = edited("\n".join(parts), self.edits) + _CALLER
        names = ("ndarray", "list", "tuple", "none", "out_name", "slow", "failed", "main_thread")
        globals_ = {name: _NOTHING + 1024 + 16 * n for n, name in enumerate(names)}
        own = {"settings_version": _SETTINGS, "settings": _SETTINGS + 512}
        text = Text(whole, {**globals_, **own})
        scripts = [
            [Call("caller", (_SELF, _NOTHING), ends=_answered(fails)) for fails in thread]
            for thread in self.calls
        ]
        system: _System = {
            **_MEMORY,
            "run": (lambda m, v: _use(m, v[0], self._fails(m)), True),
            "PyEval_SaveThread": (_save, True),
            "PyEval_RestoreThread": (_restore, True),
            "unlock": (_save, True),
            "lock": (_restore, True),
            "PyMethod_New": (lambda _, __: 1, False),
            "PyLong_FromLongLong": (lambda _, __: 1, False),
            "PyObject_Vectorcall": (
                lambda _, v: 0 if v[0] == globals_["failed"] else _SLOW, False
            ),
            "Py_IncRef": (lambda m, v: _count(m, v[0], 1), False),
            "Py_DecRef": (lambda m, v: _count(m, v[0], -1), False),
            "PyList_New": (lambda _, __: _ANSWER, False),
        }  # fmt: skip
        machine = Machine(text, scripts, system, inside=_is_alive)
        return explore(machine, machine.start(self._memory()), self._is_done)

    def _fails(self, m: Machine) -> int:
        thread = m.threads[m.thread]
        assert thread is not None
        return int(self.calls[m.thread][thread.calls])

    def _memory(self) -> dict[Address, int]:
        record, bindings, binding = (_LISTS + 1024 * n for n in range(3))
        return {
            **_plan(self.kept),
            _SETTINGS: _VERSION,
            _SETTINGS + 512: 1,
            _SELF + 16: record,
            record + 8 * checks_ir.BINDINGS: bindings,
            bindings: binding,
            binding + 8 * checks_ir.BINDING_VERSION: _VERSION,
            binding + 8 * checks_ir.ALLOCATES: 1,
            binding + 8 * checks_ir.RELEASES: 1,
            binding + 8 * checks_ir.FRAMES: PLAN,
            binding + 8 * checks_ir.OWNER: _OWNER,
        }

    def _is_done(self, state: State) -> bool:
        for wanted, t in zip(self.calls, state.threads, strict=True):
            if t is None or t.frames or t.calls < len(wanted):
                return False
        memory = dict(state.memory)
        if memory.get(("refs", _OWNER)):
            raise Wrong("a binding is held for ever")
        _is_tidy(memory, self.kept)
        return True


def _count(m: Machine, of: int, more: int) -> object:
    """A reference more or less, by who has the interpreter's lock; null has none."""
    if of == _OWNER:
        m.write(("refs", of), m.read(("refs", of)) + more)
    return 0


_CALLER: Final = """
define ptr @caller(ptr %self, ptr %args) nounwind {
  call void @lock()
  %answer = call ptr @call(ptr %self, ptr %args, i64 0, ptr null)
  call void @unlock()
  ret ptr %answer
}
"""


def _answered(fails: bool) -> Callable[[Machine, int], bool]:
    def ends(_: Machine, answer: int) -> bool:
        if answer != (0 if fails else _ANSWER):
            raise Wrong(f"a call answers {answer}")
        return True

    return ends


def _save(m: Machine, _: list[int]) -> object:
    m.write(_GIL, 0)
    return 1


def _restore(m: Machine, _: list[int]) -> object:
    if m.read(_GIL):
        raise Waits
    m.write(_GIL, 1)
    return 0
