"""Runs small guests in one process, with a world that gives turns in the order in which they were asked for."""

import os
import tempfile
from typing import Any

from moriarty_guest.serve import Server

PREFIX = "import threading, queue, time\n"
IDLE = "class Scheduler:\n    def __init__(self, config): pass\n"


class World:
    """One guest worker in a process of its own, driven until nothing is left to happen."""

    def __init__(self, source: str, budgets: "dict[tuple[int, int], int] | None" = None) -> None:
        self.server = Server()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "guest.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(PREFIX + IDLE + source)
            classes = {"scheduler": ["guest", "Scheduler"], "worker": ["guest", "Worker"]}
            self.loaded = self.ask(op="load", files={"guest": path}, hooks={}, **classes)
        self.budgets = budgets or {}
        self.logs: "list[list[Any]]" = []
        self.slices = 0

    def ask(self, **frame: Any) -> "dict[str, Any]":
        return self.server.answer(frame)

    def start(self) -> "dict[str, Any]":
        """A run with one worker; the answer to its creation."""
        self.ask(op="begin")
        self.now, self.turns, self.timers, self.counts = 0.0, [], {}, {}
        self.logs, self.died, self.slices = [], [], 0
        config = dict(name="D0.r0", engine="D0", role="decode", mode="read", tpRank=0, tpSize=1, blockTokens=4)
        config.update(ranks={"D0": ["D0.r0"], "P0": ["P0.r0"]}, layers=[])
        answer = self.ask(op="create", actor=1, side="worker", seed=0, now=0, config=config)
        self._take(answer)
        return answer

    def hook(self, hook: str, *args: Any) -> "dict[str, Any]":
        answer = self.ask(op="call", actor=1, hook=hook, args=list(args), now=self.now, budget=self._budget(0))
        self._take(answer)
        return answer

    def go_main(self) -> "dict[str, Any]":
        answer = self.ask(op="go", actor=1, thread=0, now=self.now, budget=self._budget(0))
        self._take(answer)
        return answer

    def run(self, slices_most: int = 10_000) -> None:
        """Turns in order, then the next timer; until there is none."""
        while self.turns or self.timers:
            self.slices += 1
            if self.slices > slices_most:
                raise AssertionError(f"no end after {slices_most} slices")
            if self.turns:
                thread = self.turns.pop(0)
                self._take(self.ask(op="go", actor=1, thread=thread, now=self.now, budget=self._budget(thread)))
            else:
                thread = min(self.timers, key=lambda each: (self.timers[each], each))
                self.now = max(self.now, float(self.timers.pop(thread)))
                self._take(self.ask(op="tell", actor=1, now=self.now, what="fire", thread=thread))

    def worker(self) -> Any:
        """The guest's object."""
        from moriarty_guest.standins.world import KERNEL

        return KERNEL.processes[1].connector

    def _budget(self, thread: int) -> int:
        number = self.counts.get(thread, 0)
        self.counts[thread] = number + 1
        return self.budgets.get((thread, number), 0)

    def _take(self, answer: "dict[str, Any]") -> None:
        self.died += answer.get("died", [])
        for kind, *words in answer.get("effects", []):
            if kind == "turn":
                self.turns.append(words[0])
            elif kind == "arm":
                self.timers[words[0]] = words[1]
            elif kind == "stop":
                self.timers.pop(words[0], None)
            elif kind == "log":
                self.logs.append(words)
