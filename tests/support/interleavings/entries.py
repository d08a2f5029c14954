"""The two native entries of compiled functions, with a driver that notes who uses which frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tensorad.codegen.entry import checks_ir, entry_ir, frames_ir
from tensorad.codegen.entry import plan_words as plan
from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.threads.signals_ir import RELEASED
from tests.support.interleavings.ir_text import Text
from tests.support.interleavings.machine import AGAIN, Address, Call, Machine, State, Waits, Wrong
from tests.support.interleavings.pool import edited
from tests.support.interleavings.search import Found, explore

_PLAN, _IDLE, _TEMPLATE, _NOTHING = 1 << 20, 2 << 20, 3 << 20, 4 << 20
_SETTINGS, _SELF, _LISTS, _MOVED = 5 << 20, 6 << 20, 7 << 20, 8 << 20
_OWNER: Final = 9 << 20
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
        plan.SCRATCH_BYTES: 64, plan.IDLE: _IDLE, plan.KEPT: kept,
        plan.FAILURE_WORDS: plan.FAILURE_HEAD, plan.WORD_COUNTS: _NOTHING, plan.PLACES: _NOTHING,
    }  # fmt: skip
    memory: dict[Address, int] = {_PLAN + 8 * n: w for n, w in words.items()}
    for n, (word, offset) in enumerate(((block.SLOTS, 512), (block.HEAP, 640))):
        memory[_TEMPLATE + 8 * (_CALL + word)] = offset
        memory[_MOVED + 8 * n] = _CALL + word
    return memory


def _is_tidy(memory: Mapping[Address, int], kept: int) -> None:
    """All memory belongs to a frame that is idle, or to the records of failures."""
    idle = [memory.get(_IDLE + 8 * n, 0) for n in range(kept)]
    owned = {a for frame in idle if frame for a in (frame, memory[frame + _SCRATCH])}
    owned |= {memory[_PLAN + 8 * plan.FAILURES]} if _PLAN + 8 * plan.FAILURES in memory else set()
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
    """

    calls: Sequence[Sequence[bool]]
    kept: int = 1
    edits: Sequence[tuple[str, str]] = ()
    leaves: bool = False

    def found(self) -> Found:
        """What all orders of steps lead to."""
        text = Text(edited(frames_ir.frames_text(), self.edits), {"settings": _SETTINGS})
        scripts = [
            [Call("enter", (_PLAN, _NOTHING), ends=_checked(fails)) for fails in thread]
            for thread in self.calls
        ]
        if self.leaves:
            scripts[-1].append(Call("leave", (_PLAN,)))
        system: _System = {
            **_MEMORY,
            "run": (lambda m, v: _use(m, v[0], self._fails(m)), True),
        }
        machine = Machine(text, scripts, system, inside=_is_alive)
        return explore(machine, machine.start(self._memory()), self._is_done)

    def _fails(self, m: Machine) -> int:
        thread = m.threads[m.thread]
        assert thread is not None
        return int(self.calls[m.thread][thread.calls])

    def _memory(self) -> dict[Address, int]:
        return {**_plan(self.kept), _SETTINGS: 1}

    def _is_done(self, state: State) -> bool:
        done = all(t is not None and not t.frames for t in state.threads)
        ended = [t.calls for t in state.threads if t is not None]
        wanted = [len(c) for c in self.calls]
        wanted[-1] += self.leaves
        if not done or ended != wanted:
            return False
        _is_tidy(dict(state.memory), self.kept)
        return True


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
            binding + 8 * checks_ir.FRAMES: _PLAN,
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
