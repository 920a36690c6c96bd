"""Threads and processes of a run, as data."""

from typing import Any

READY, RUNNING, BLOCKED, DONE = "ready", "running", "blocked", "done"

MAIN = 0
"""The main thread of a process, which runs one hook after the other."""


class Task:
    """One thread."""

    def __init__(self, process: "Process", number: int, name: str) -> None:
        self.process, self.number, self.name = process, number, name
        self.greenlet: Any = None
        self.state = DONE
        self.deadline: "float | None" = None
        self.timed_out = False
        self.waits_for, self.where, self.is_idle = "", "", False
        self.value: Any = None
        self.error: "BaseException | None" = None
        self.joiners: "list[Task]" = []
        self.handle: Any = None
        """What `threading.current_thread()` gives."""
        self.locals: "dict[int, dict[str, Any]]" = {}
        # What tells a polling loop from one that gets on; see polling.py.
        self.mark: Any = None
        self.rounds = 0
        self.seen = -1
        self.quiet_from = 0.0
        self.asked_micros = 0.0
        self.is_quiet = False
        self.reads_clock = False


class Process:
    """One simulated process: a scheduler, or one rank's worker."""

    def __init__(self, name: str, number: int, has_threads: bool) -> None:
        self.name, self.number, self.has_threads = name, number, has_threads
        self.main = Task(self, MAIN, "main")
        self.tasks: "dict[int, Task]" = {MAIN: self.main}
        self.activity = 0
        self.counts: "dict[str, int]" = {}
        self.modules: Any = None
        self.connector: Any = None
        self.config: Any = None
        self.endpoint: Any = None
        self.random_seed = 0

    def add(self, name: str) -> Task:
        number = self.count("task") + 1
        task = Task(self, number, name)
        self.tasks[number] = task
        return task

    def count(self, what: str) -> int:
        """How many of the kind there were before: names and ids come from counters, never from addresses."""
        number = self.counts.get(what, 0)
        self.counts[what] = number + 1
        return number
