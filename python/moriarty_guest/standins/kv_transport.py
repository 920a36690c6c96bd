"""What a guest moves messages and KV with: named endpoints, and one-sided copies over sessions.

This is a module of ours, not of vLLM: the smallest transport that a connector needs. A message is bytes. A copy names
segments: (offset in my region, offset in the peer's region, bytes).
"""

import collections
from typing import Any, Iterable

from ..task import Process, Task
from .world import KERNEL

Segment = "tuple[int, int, int]"


class Endpoint:
    """The network and the NIC of the running process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._inbox: "collections.deque[tuple[str, bytes]]" = collections.deque()
        self._receivers: "list[Task]" = []
        self._ended: "collections.deque[tuple[int, bool]]" = collections.deque()
        self._watchers: "list[Task]" = []

    def send(self, peer: str, payload: bytes) -> None:
        """To a rank by its name, such as `P0.r0`. Messages of one pair may overtake each other only when the network is ill."""
        if not isinstance(payload, bytes):
            raise TypeError(f"a message is bytes, not {type(payload).__name__}")
        self._must_be_a_rank(peer)
        KERNEL.point()
        KERNEL.act("send", peer, payload.hex())

    def recv(self, timeout: "float | None" = None) -> "tuple[str, bytes] | None":
        """The next message as (peer, bytes); None when the time was over first."""
        if not KERNEL.wait_for(lambda: bool(self._inbox), self._receivers, "Endpoint.recv", timeout, is_idle=True):
            return None
        return self._inbox.popleft()

    def connect(self, peer: str) -> None:
        """Makes the session that copies from and to the peer's memory need."""
        self._must_be_a_rank(peer)
        KERNEL.act("connect", peer)

    def read(self, peer: str, segments: "Iterable[tuple[int, int, int]]", *, request: str, layer: int) -> int:
        """Posts a read of the peer's memory into mine; the tag that its completion will carry."""
        return self._post("read", peer, segments, request, layer)

    def write(self, peer: str, segments: "Iterable[tuple[int, int, int]]", *, request: str, layer: int) -> int:
        """Posts a write of my memory into the peer's; the tag that its completion will carry."""
        return self._post("write", peer, segments, request, layer)

    def wait_completion(self, timeout: "float | None" = None) -> "tuple[int, bool] | None":
        """The next posted copy that ended as (tag, whether it succeeded); None when the time was over first."""
        if not KERNEL.wait_for(lambda: bool(self._ended), self._watchers, "wait_completion", timeout, is_idle=True):
            return None
        return self._ended.popleft()

    def _post(self, kind: str, peer: str, segments: Any, request: str, layer: int) -> int:
        self._must_be_a_rank(peer)
        tag = self._process.count("post") + 1
        flat = [int(number) for segment in segments for number in segment]
        KERNEL.act("post", kind, peer, tag, str(request), int(layer), flat)
        KERNEL.point()
        return tag

    def _must_be_a_rank(self, peer: str) -> None:
        if not any(peer in ranks for ranks in self._process.config.ranks.values()):
            raise ValueError(f"there is no rank {peer!r}")

    # --- for the runtime --------------------------------------------------------------------------------------------

    def arrived(self, peer: str, payload: bytes) -> None:
        self._inbox.append((peer, payload))
        KERNEL.wake(self._receivers)

    def completed(self, tag: int, ok: bool) -> None:
        self._ended.append((tag, ok))
        KERNEL.wake(self._watchers)


def endpoint() -> Endpoint:
    """Of the running process."""
    return endpoint_of(KERNEL.process())


def endpoint_of(process: Process) -> Endpoint:
    if process.endpoint is None:
        process.endpoint = Endpoint(process)
    return process.endpoint  # type: ignore[no-any-return]


NAMES = {"endpoint": endpoint, "Endpoint": Endpoint}
