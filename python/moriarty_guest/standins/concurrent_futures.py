"""Stand-ins of concurrent.futures."""

import concurrent.futures as true_futures
from typing import Any, Callable

from ..task import Task
from .queue_module import Queue
from .threading_module import Thread
from .world import KERNEL

PENDING, RUNNING, CANCELLED, FINISHED = "PENDING", "RUNNING", "CANCELLED", "FINISHED"


class Future:
    """A result to come. Between its being there and its callbacks another thread may come in."""

    def __init__(self) -> None:
        self._state = PENDING
        self._result: Any = None
        self._error: "BaseException | None" = None
        self._callbacks: "list[Callable[[Future], Any]]" = []
        self._waiters: "list[Task]" = []

    def __class_getitem__(cls, _kind: Any) -> Any:
        return cls

    def done(self) -> bool:
        KERNEL.point()
        return self._state in (FINISHED, CANCELLED)

    def running(self) -> bool:
        return self._state == RUNNING

    def cancelled(self) -> bool:
        return self._state == CANCELLED

    def cancel(self) -> bool:
        if self._state in (RUNNING, FINISHED):
            return False
        self._end(CANCELLED)
        return True

    def result(self, timeout: "float | None" = None) -> Any:
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._result

    def exception(self, timeout: "float | None" = None) -> "BaseException | None":
        KERNEL.point()
        if not KERNEL.wait_for(lambda: self._is_over(), self._waiters, "Future.result", timeout):
            raise true_futures.TimeoutError
        if self._state == CANCELLED:
            raise true_futures.CancelledError
        return self._error

    def add_done_callback(self, callback: "Callable[[Future], Any]") -> None:
        if self._is_over():
            self._call(callback)
        else:
            self._callbacks.append(callback)

    def set_running_or_notify_cancel(self) -> bool:
        if self._state == CANCELLED:
            return False
        self._state = RUNNING
        return True

    def set_result(self, result: Any) -> None:
        self._result = result
        self._end(FINISHED)

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._end(FINISHED)

    def _is_over(self) -> bool:
        return self._state in (FINISHED, CANCELLED)

    def _end(self, state: str) -> None:
        if self._is_over():
            raise true_futures.InvalidStateError(f"{self._state}: the future has ended before")
        self._state = state
        KERNEL.wake(self._waiters)
        KERNEL.point()
        for callback in self._callbacks:
            self._call(callback)

    def _call(self, callback: "Callable[[Future], Any]") -> None:
        try:
            callback(self)
        except Exception as error:  # as in CPython: logged, and gone
            KERNEL.log("callback-raised", error=f"{type(error).__name__}: {error}")


class ThreadPoolExecutor:
    """A pool of threads, started as they are needed."""

    def __init__(self, max_workers: "int | None" = None, thread_name_prefix: str = "") -> None:
        self._max = max_workers if max_workers is not None else 8
        if self._max <= 0:
            raise ValueError("max_workers must be greater than 0")
        process = KERNEL.process()
        self._prefix = thread_name_prefix or f"ThreadPoolExecutor-{process.count('pool')}"
        self._queue = Queue()
        self._threads: "list[Thread]" = []
        self._idle = 0
        self._is_shut = False

    def submit(self, function: "Callable[..., Any]", /, *args: Any, **kwargs: Any) -> Future:
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = Future()
        self._queue.put((future, function, args, kwargs))
        if self._idle > 0:
            self._idle -= 1
        elif len(self._threads) < self._max:
            thread = Thread(target=self._work, name=f"{self._prefix}_{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._is_shut = True
        while cancel_futures and not self._queue.empty():
            self._queue.get()[0].cancel()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def __enter__(self) -> "ThreadPoolExecutor":
        return self

    def __exit__(self, *_error: Any) -> None:
        self.shutdown()

    def _work(self) -> None:
        while True:
            job = self._queue.get()
            if job is None:
                return
            future, function, args, kwargs = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            self._idle += 1


NAMES = {
    "Future": Future,
    "ThreadPoolExecutor": ThreadPoolExecutor,
    "TimeoutError": true_futures.TimeoutError,
    "CancelledError": true_futures.CancelledError,
}
