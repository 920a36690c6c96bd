"""Stand-ins of threading. Whoever waits tests its own condition again after each wake-up."""

from typing import Any, Callable

from ..failures import Refusal
from ..task import DONE, Task
from .world import KERNEL


class Lock:
    """A mutex; it may be made when a module is loaded, and is put back with it."""

    _is_of_a_run = True
    _what = "Lock.acquire"

    def __init__(self) -> None:
        self._holder: Any = None
        self._waiters: "list[Task]" = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        KERNEL.point()
        seconds = 0 if not blocking else None if timeout < 0 else timeout
        if not KERNEL.wait_for(lambda: self._holder is None, self._waiters, self._what, seconds):
            return False
        self._holder = KERNEL.current or "nobody"
        return True

    def release(self) -> None:
        if self._holder is None:
            raise RuntimeError("release unlocked lock")
        self._holder = None
        KERNEL.wake(self._waiters)

    def locked(self) -> bool:
        return self._holder is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_error: Any) -> None:
        self.release()


class RLock(Lock):
    """A mutex that its holder may take again."""

    _what = "RLock.acquire"

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._holder is None or self._holder is not KERNEL.current:
            if not super().acquire(blocking, timeout):
                return False
        self._depth += 1
        return True

    def release(self) -> None:
        if self._holder is None or (self._holder is not KERNEL.current and KERNEL.current is not None):
            raise RuntimeError("cannot release un-acquired lock")
        self._depth -= 1
        if self._depth == 0:
            super().release()


class Condition:
    """A condition variable."""

    _is_of_a_run = True

    def __init__(self, lock: "Lock | None" = None) -> None:
        self._lock = lock if lock is not None else RLock()
        self._waiters: "list[Task]" = []
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_error: Any) -> None:
        self._lock.release()

    def wait(self, timeout: "float | None" = None) -> bool:
        self._lock.release()
        try:
            return KERNEL.block(self._waiters, "Condition.wait", timeout)
        finally:
            self._lock.acquire()

    def wait_for(self, predicate: Callable[[], bool], timeout: "float | None" = None) -> bool:
        end = None if timeout is None else KERNEL.now + timeout * 1e6
        while not predicate():
            left = None if end is None else (end - KERNEL.now) / 1e6
            if left is not None and left <= 0:
                return predicate()
            self.wait(left)
        return True

    def notify(self, n: int = 1) -> None:
        woken = self._waiters[:n]
        del self._waiters[:n]
        KERNEL.wake(woken)

    def notify_all(self) -> None:
        KERNEL.wake(self._waiters)


class Event:
    """A flag that threads can wait for."""

    _is_of_a_run = True

    def __init__(self) -> None:
        self._flag = False
        self._waiters: "list[Task]" = []

    def is_set(self) -> bool:
        return self._flag

    def set(self) -> None:
        KERNEL.point()
        self._flag = True
        KERNEL.wake(self._waiters)

    def clear(self) -> None:
        self._flag = False

    def wait(self, timeout: "float | None" = None) -> bool:
        KERNEL.point()
        # As in CPython: who was woken has seen the flag, even if it was cleared before this thread went on.
        if self._flag:
            return True
        return KERNEL.block(self._waiters, "Event.wait", timeout)


class Semaphore:
    """A counter that threads can wait for."""

    _is_of_a_run = True

    def __init__(self, value: int = 1) -> None:
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self._value = value
        self._waiters: "list[Task]" = []

    def acquire(self, blocking: bool = True, timeout: "float | None" = None) -> bool:
        KERNEL.point()
        seconds = timeout if blocking else 0
        if not KERNEL.wait_for(lambda: self._value > 0, self._waiters, "Semaphore.acquire", seconds):
            return False
        self._value -= 1
        return True

    def release(self, n: int = 1) -> None:
        self._value += n
        KERNEL.wake(self._waiters)

    __enter__ = acquire

    def __exit__(self, *_error: Any) -> None:
        self.release()


class Thread:
    """A thread of the running process."""

    def __init__(
        self,
        group: None = None,
        target: "Callable[..., Any] | None" = None,
        name: "str | None" = None,
        args: "tuple[Any, ...]" = (),
        kwargs: "dict[str, Any] | None" = None,
        *,
        daemon: "bool | None" = None,
    ) -> None:
        if group is not None:
            raise Refusal("Thread(group=...) is None in every Python")
        self._target, self._args, self._kwargs = target, args, kwargs or {}
        process = KERNEL.process()
        self.name = name if name is not None else f"Thread-{process.count('thread') + 1}"
        self.daemon = bool(daemon)
        self._task: "Task | None" = None

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def start(self) -> None:
        if self._task is not None:
            raise RuntimeError("threads can only be started once")
        self._task = KERNEL.spawn(KERNEL.process(), self.run, self.name)
        self._task.handle = self
        KERNEL.point()

    def is_alive(self) -> bool:
        return self._task is not None and self._task.state != DONE

    def join(self, timeout: "float | None" = None) -> None:
        task = self._task
        if task is None:
            raise RuntimeError("cannot join thread before it is started")
        KERNEL.wait_for(lambda: task.state == DONE, task.joiners, "Thread.join", timeout)

    @property
    def ident(self) -> "int | None":
        return None if self._task is None else self._task.number + 1


class _MainThread(Thread):
    def __init__(self, task: Task) -> None:
        self.name, self.daemon, self._task = "MainThread", False, task


def current_thread() -> Thread:
    KERNEL.process()
    task = KERNEL.current
    assert task is not None
    if task.handle is None:
        task.handle = _MainThread(task)
    return task.handle  # type: ignore[no-any-return]


def get_ident() -> int:
    KERNEL.process()
    assert KERNEL.current is not None
    return KERNEL.current.number + 1


class Local:
    """Attributes that each thread has for itself."""

    def _fields(self) -> "dict[str, Any]":
        KERNEL.process()
        assert KERNEL.current is not None
        return KERNEL.current.locals.setdefault(id(self), {})

    def __getattr__(self, name: str) -> Any:
        try:
            return self._fields()[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._fields()[name] = value

    def __delattr__(self, name: str) -> None:
        del self._fields()[name]


NAMES = {
    "Thread": Thread,
    "Lock": Lock,
    "RLock": RLock,
    "Condition": Condition,
    "Event": Event,
    "Semaphore": Semaphore,
    "current_thread": current_thread,
    "get_ident": get_ident,
    "local": Local,
}
