"""Stand-ins of queue."""

import collections
import queue as true_queue
from typing import Any

from ..task import Task
from .world import KERNEL

Empty, Full = true_queue.Empty, true_queue.Full


class Queue:
    """First in, first out. A thread that waits in `get` with nothing to do waits for nothing in particular."""

    _is_of_a_run = True

    def __init__(self, maxsize: int = 0) -> None:
        self.maxsize = maxsize
        self._items: "collections.deque[Any]" = collections.deque()
        self._getters: "list[Task]" = []
        self._putters: "list[Task]" = []

    def __class_getitem__(cls, _kind: Any) -> Any:
        return cls

    def qsize(self) -> int:
        KERNEL.point()
        return len(self._items)

    def empty(self) -> bool:
        KERNEL.point()
        return not self._items

    def full(self) -> bool:
        KERNEL.point()
        return 0 < self.maxsize <= len(self._items)

    def put(self, item: Any, block: bool = True, timeout: "float | None" = None) -> None:
        KERNEL.point()
        seconds = timeout if block else 0
        if not KERNEL.wait_for(self._has_room, self._putters, "Queue.put", seconds):
            raise Full
        self._items.append(item)
        KERNEL.wake(self._getters)

    def put_nowait(self, item: Any) -> None:
        self.put(item, block=False)

    def get(self, block: bool = True, timeout: "float | None" = None) -> Any:
        KERNEL.point()
        seconds = timeout if block else 0
        if not KERNEL.wait_for(lambda: bool(self._items), self._getters, "Queue.get", seconds, is_idle=True):
            raise Empty
        item = self._items.popleft()
        KERNEL.wake(self._putters)
        return item

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def _has_room(self) -> bool:
        return self.maxsize <= 0 or len(self._items) < self.maxsize


NAMES = {"Queue": Queue, "SimpleQueue": Queue, "Empty": Empty, "Full": Full}
