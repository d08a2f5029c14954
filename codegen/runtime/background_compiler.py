"""The machine code of one program's kernels: LLVM works while the next loops are written.

Kernels are gathered into modules, since each costs LLVM a millisecond by itself. LLVM gives the
interpreter's lock away, so a second thread calls it; it lives as long as one build.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Final

from tensorad import config
from tensorad.codegen.loops.ir import Kernel
from tensorad.codegen.runtime.kernel_cache import CompiledKernel, Job, job_of, load_together
from tensorad.codegen.target import link
from tensorad.ir.analysis.alike import Key
from tensorad.ir.tensor import Tensor
from tensorad.process import Setting

MODULE_LINES: Final = 400
"""Lines of text after which a module takes no more kernels: some ten milliseconds for LLVM.

Where no thread can have it, a module takes all that are left."""
_TURN_S: Final = 1e-4
_turns: Final = Setting(
    lambda: (sys.getswitchinterval(),),
    lambda t: sys.setswitchinterval(*t),
    lambda t: (min(*t, _TURN_S),),
)
"""How long a thread waits before it asks for the interpreter while two take turns.

A thread that comes back from LLVM needs it for 20 us. By default it waits for 5 ms each time, which
is as long as LLVM takes for a kernel.
"""

Task = Callable[[], object]
Compiled = tuple[CompiledKernel, tuple[Tensor, ...]]


class Compiler:
    """Compiles kernels in the order they come; leaving the context ends its thread."""

    def __init__(self, first: Task | None = None) -> None:
        """`first`: what may be done beside the work that comes before the first kernel."""
        self._first = first
        self._begun: dict[Kernel, tuple[Job, tuple[Tensor, ...]]] = {}
        self._jobs: dict[Key, Job] = {}
        """Those begun here, by key."""
        self._gathered: list[Job] = []
        """The next module."""
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        """For the thread; None is the last."""
        self._thread: threading.Thread | None = None
        self._turns = ExitStack()
        self._is_left = False
        self._error: BaseException | None = None

    def __enter__(self) -> Compiler:
        first, self._first = self._first, None  # who is given a compiler may enter it again
        if first is not None and self._is_started():
            self._tasks.put(first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._is_left = True
        self._join()

    def begin(self, kernel: Kernel) -> None:
        """Write a kernel's text; LLVM has it soon."""
        job, tensors = job_of(kernel, self._jobs)
        self._begun[kernel] = job, tensors
        if job.key in self._jobs:
            return
        self._jobs[job.key] = job
        if job.made is not None:
            return
        if self._gathered and self._gathered[0].opt != job.opt:
            self._hand_over()
        self._gathered.append(job)
        if sum([g.lines for g in self._gathered]) >= MODULE_LINES and self._is_beside():
            self._hand_over()

    def finished(self, kernels: tuple[Kernel, ...]) -> list[Compiled]:
        """The code of these kernels, in order; those not begun yet are begun now.

        Raises:
            InternalError: LLVM refuses one.
        """
        for kernel in kernels:
            if kernel not in self._begun:
                self.begin(kernel)
        if self._thread is None:
            self._compile_here()
        else:
            self._hand_over()
            self._join()
        if self._error is not None:
            raise self._error
        found = [self._begun[kernel] for kernel in kernels]
        return [(job.compiled(), tensors) for job, tensors in found]

    def _hand_over(self) -> None:
        """Give the next module to the thread; where there can be none compile it here."""
        if not self._is_beside():
            self._compile_here()
        elif self._gathered:
            self._tasks.put(partial(load_together, self._gathered))
            self._gathered = []

    def _compile_here(self) -> None:
        load_together(self._gathered)
        self._gathered = []

    def _is_beside(self) -> bool:
        """Whether there is a thread to compile a module while the next loops are written."""
        return self._thread is not None or self._is_started()

    def _is_started(self) -> bool:
        if config.available_cpus() < 2 or link.is_held():  # a thread would wait for this one
            return False
        thread = threading.Thread(target=self._work, name="tensorad compiler", daemon=True)
        try:
            thread.start()
            self._thread = thread
            self._turns.enter_context(_turns.changed())
        except RuntimeError:  # the system gives no thread
            return False
        except BaseException:  # an interrupt: the thread may be there already
            self._tasks.put(None)
            raise
        return True

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None and not self._is_left:
            try:
                task()
            except BaseException as error:  # noqa: BLE001  # raised in the thread that waits
                self._error = error
                return

    def _join(self) -> None:
        if self._thread is None:
            return
        self._tasks.put(None)
        try:
            self._thread.join()
        finally:  # an interrupt ends the wait
            self._turns.close()
        self._thread = None
