"""The threads of all simulated processes, as greenlets. The parent's world says which thread goes on, and when.

A thread runs until it blocks, ends, or has run the statements that the parent gave it (its *budget*); then control comes
back to the hub, which answers the parent. So one slice of one thread is one exchange, and the world's tape decides every
order of slices. Nothing here draws anything.
"""

import sys
from typing import Any, Callable

import greenlet

from .failures import Refusal, StatementLimit
from .polling import fingerprint, patience
from .task import BLOCKED, DONE, MAIN, READY, RUNNING, Process, Task

TURN_MICROS = 1
"""From the moment a thread may go on to its next statement, when nobody holds it back."""
SLICE_STATEMENTS = 2_000
"""Statements after which a thread that was given no budget is taken for a spinner and moved on."""
SPIN_MICROS = 10
STATEMENTS_MAX = 5_000_000
"""Statements of one run."""
TEXT_MAX = 200
TOLD = frozenset(("send", "post", "connect", "turn", "main"))
"""Effects that others notice."""


class Kernel:
    """All simulated processes of a run, and the thread that runs now."""

    def __init__(self) -> None:
        self.hub = greenlet.getcurrent()
        self.files: "set[str]" = set()
        self.processes: "dict[int, Process]" = {}
        self.is_ending = False
        self.reset()

    def reset(self) -> None:
        """Ends what is left of a run."""
        self.current: "Task | None" = None
        self.is_ending, self.left = True, 0
        for process in self.processes.values():
            for task in list(process.tasks.values()):
                self._end(task)
        self.is_ending = False
        self.processes = {}
        self.now = 0.0
        self.left = SLICE_STATEMENTS
        self.is_drawn = False
        self.spent = 0
        self.effects: "list[list[Any]]" = []
        self.deaths: "list[Task]" = []

    # --- for the parent ---------------------------------------------------------------------------------------------

    def add(self, actor: int, name: str, has_threads: bool) -> Process:
        process = Process(name, len(self.processes), has_threads)
        self.processes[actor] = process
        return process

    def call(self, process: Process, function: Callable[[], Any]) -> Task:
        """Gives the main thread its next piece of work; it does not run yet."""
        task = process.main
        task.value, task.error, task.state, task.reads_clock = None, None, READY, False
        task.greenlet = greenlet.greenlet(lambda: self._body(task, function), self.hub)
        self.stir(process)
        return task

    def resume(self, task: Task, now: float, budget: int) -> None:
        """Runs one slice of a thread. A budget of 0 is none: it runs until it blocks, ends, or is taken for a spinner."""
        self.now = now
        if task.state != READY:
            return
        given = budget if budget > 0 else SLICE_STATEMENTS
        self.left, self.is_drawn = given, budget > 0
        task.state, task.is_quiet = RUNNING, False
        self.current = task
        try:
            task.greenlet.switch()
        finally:
            self.current = None
        self._spend(given - self.left)
        if not task.is_quiet:
            self.stir(task.process)
        task.seen = task.process.activity

    def fire(self, process: Process, number: int) -> None:
        """The world says that a deadline has passed."""
        task = process.tasks.get(number)
        if task is None or task.state != BLOCKED or task.deadline is None:
            return
        task.timed_out, task.deadline = True, None
        self._ready(task)

    def stir(self, process: Process) -> None:
        """Something happened in the process: who polls with long strides looks again soon."""
        process.activity += 1
        for task in process.tasks.values():
            if task.state != BLOCKED or task.rounds == 0:
                continue
            soon = self.now + task.asked_micros
            task.rounds = 0
            if task.deadline is None or task.deadline > soon:
                self._arm(task, soon)

    # --- for threads ------------------------------------------------------------------------------------------------

    def spawn(self, process: Process, function: Callable[[], Any], name: str) -> Task:
        if not process.has_threads:
            raise Refusal(f"{self.place()} starts a thread in {process.name}: only workers have threads here")
        task = process.add(name)
        task.greenlet = greenlet.greenlet(lambda: self._body(task, function), self.hub)
        self._ready(task)
        return task

    def statement(self) -> None:
        """The budget of the running thread is spent. Called from the hook before a statement."""
        task = self.current
        if self.is_ending:
            raise greenlet.GreenletExit
        if task is None or not task.process.has_threads:
            self._spend(SLICE_STATEMENTS)
            self.left = SLICE_STATEMENTS
        elif self.is_drawn:
            self.log("preempted", thread=task.name, before=self.place())
            self._ready(task)
            self.hub.switch()
        else:
            self.block(None, "a spinning loop", SPIN_MICROS / 1e6)

    def point(self) -> None:
        """Counts as a statement: another thread may come in between."""
        self.left -= 1
        if self.left <= 0:
            self.statement()

    def block(self, waiters: "list[Task] | None", what: str, seconds: "float | None", is_idle: bool = False) -> bool:
        """Waits to be woken; False when `seconds` were over first. Who was woken tests its condition again."""
        if self.is_ending:
            raise greenlet.GreenletExit
        task = self.current
        if task is None or not task.process.has_threads:
            raise Refusal(f"{what} at {self.place()} would wait, but nothing else runs in this process")
        micros = None if seconds is None else self._patience(task, max(0.0, seconds) * 1e6)
        task.state, task.timed_out = BLOCKED, False
        task.waits_for, task.is_idle, task.where = what, is_idle, self.place()
        if waiters is not None:
            waiters.append(task)
        if micros is not None:
            self._arm(task, self.now + micros)
        elif not is_idle:
            self.log("waits", thread=task.name, what=what, at=task.where)
        self.hub.switch()
        if waiters is not None and task in waiters:
            waiters.remove(task)
        return not task.timed_out

    def wait_for(
        self, holds: Callable[[], bool], waiters: "list[Task]", what: str, seconds: "float | None" = None, **how: bool
    ) -> bool:
        """Waits until `holds()`, at most `seconds`; what it was in the end."""
        end = None if seconds is None else self.now + seconds * 1e6
        while not holds():
            left = None if end is None else (end - self.now) / 1e6
            if left is not None and left <= 0:
                return False
            if not self.block(waiters, what, left, **how) and not holds():
                return False
        return True

    def wake(self, waiters: "list[Task]") -> None:
        """Whoever waits may go on, each at a turn of its own."""
        for task in waiters:
            if task.state == BLOCKED:
                self._ready(task)
        waiters.clear()

    def clock(self) -> float:
        """Microseconds of virtual time; whoever asks may be waiting for a time."""
        if self.current is not None:
            self.current.reads_clock = True
        return self.now

    def effect(self, *words: Any) -> None:
        self.effects.append(list(words))

    def act(self, *words: Any) -> None:
        """An effect that is told with the thread and the place that it came from."""
        if self.current is not None:
            self.log("acts", thread=self.current.name, at=self.place())
        self.effect(*words)

    def log(self, name: str, **fields: str) -> None:
        """A line of the story: a name of small letters and hyphens, and what it is about."""
        self.effects.append(["log", name, {key: text[:TEXT_MAX] for key, text in fields.items()}])

    def process(self) -> Process:
        """Of the running thread."""
        if self.current is None:
            raise Refusal(f"{self.place()} uses the simulated world outside of a simulated thread")
        return self.current.process

    def place(self) -> str:
        """Where the guest's code stands: `connector.py:88 in _session`."""
        frames = self.guest_frames()
        return place_of(frames[0].f_code, frames[0].f_lineno) if frames else "the runtime"

    def guest_frames(self) -> "list[Any]":
        """Frames of the guest's code, innermost first."""
        found: "list[Any]" = []
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename in self.files:
                found.append(frame)
            frame = frame.f_back
        return found

    # --- inside -----------------------------------------------------------------------------------------------------

    def _patience(self, task: Task, micros: float) -> "float | None":
        """How long a thread that waits for a time really waits: longer and longer, if all it does is poll."""
        mark = fingerprint(self.guest_frames())
        is_told = any(effect[0] in TOLD for effect in self.effects)
        task.is_quiet = mark == task.mark and not is_told
        is_alone = task.seen == task.process.activity
        task.rounds = task.rounds + 1 if task.is_quiet and is_alone else 0
        if task.rounds == 0:
            task.quiet_from = self.now
        reads_clock, task.reads_clock = task.reads_clock, False
        task.mark, task.asked_micros = mark, micros
        return patience(task.rounds, micros, self.now - task.quiet_from, reads_clock)

    def _spend(self, statements: int) -> None:
        self.spent += statements
        if self.spent > STATEMENTS_MAX:
            raise StatementLimit(f"more than {STATEMENTS_MAX} statements in one run, at {self.place()}")

    def _ready(self, task: Task) -> None:
        if task.deadline is not None:
            task.deadline = None
            self.effect("stop", task.number)
        task.state = READY
        if task.number == MAIN:
            self.effect("main")
        else:
            self.effect("turn", task.number, TURN_MICROS)

    def _arm(self, task: Task, at: float) -> None:
        task.deadline = at
        self.effect("arm", task.number, round(at))

    def _body(self, task: Task, function: Callable[[], Any]) -> None:
        try:
            task.value = function()
        except greenlet.GreenletExit:
            return
        except BaseException as error:  # whatever ends a thread is told
            task.error = error
            if task.number != MAIN:
                self.deaths.append(task)
        task.state = DONE
        if task.number != MAIN:
            del task.process.tasks[task.number]
        self.wake(task.joiners)

    def _end(self, task: Task) -> None:
        if task.greenlet is None or task.greenlet.dead or not task.greenlet:
            return
        task.greenlet.parent = greenlet.getcurrent()
        self.current = None
        task.greenlet.throw(greenlet.GreenletExit)


def place_of(code: Any, line: int) -> str:
    return f"{code.co_filename.rsplit('/', 1)[-1]}:{line} in {code.co_name}"
