"""What the parent may ask for, one frame each; docs/GUESTS.md has the table."""

import gc
import platform
import traceback
from typing import Any, Callable

from .failures import FrameError, Refusal, StatementLimit
from .hooks import HOOKS, Config
from .loader import Sources
from .standins.kv_transport import endpoint_of
from .standins.world import KERNEL
from .task import BLOCKED, DONE, MAIN, Process, Task

GC_EVERY = 32
"""Runs between two collections: a guest's `__del__` never runs within a run, so it cannot change one."""
TEXT_MAX = 400
FRAMES_MAX = 12


class Server:
    """One child's answers."""

    def __init__(self) -> None:
        self.sources: "Sources | None" = None
        self.classes: "dict[str, list[str]]" = {}
        self.methods: "dict[str, str]" = {}
        self.runs = 0

    def answer(self, frame: "dict[str, Any]") -> "dict[str, Any]":
        """The answer to one frame. Raises FrameError for one that is not of the protocol."""
        op = OPS.get(frame.get("op", ""))
        if op is None:
            raise FrameError(f"{frame.get('op')!r} is nothing to ask for")
        KERNEL.effects = []
        try:
            answer = op(self, frame)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise FrameError(f"{frame.get('op')}: {type(error).__name__}: {error}") from error
        except StatementLimit as error:
            return {"error": {"kind": "limit", "text": str(error)}}
        answer["effects"] = KERNEL.effects
        if KERNEL.deaths:
            answer["died"] = [_death(task) for task in KERNEL.deaths]
            KERNEL.deaths = []
        return answer

    def load(self, frame: "dict[str, Any]") -> "dict[str, Any]":
        gc.disable()
        try:
            sources = Sources(KERNEL, frame["files"])
            self.classes = {side: frame[side] for side in ("scheduler", "worker")}
            self.methods = {hook: frame["hooks"].get(hook, hook) for hook in HOOKS}
            modules = sources.set_for("a trial")
            for module, name in self.classes.values():
                if not isinstance(getattr(modules.load(module), name, None), type):
                    return {"error": {"kind": "source", "text": f"module {module} has no class {name}"}}
        except Exception as error:  # whatever the guest's own files are
            return {"error": {"kind": "source", "text": _first_line(error), "stack": _stack(error)}}
        self.sources = sources
        gc.collect()
        gc.freeze()
        return {"python": platform.python_version()}

    def begin(self, _frame: "dict[str, Any]") -> "dict[str, Any]":
        KERNEL.reset()
        self.runs += 1
        if self.runs % GC_EVERY == 0:
            gc.collect()
        return {}

    def create(self, frame: "dict[str, Any]") -> "dict[str, Any]":
        if self.sources is None:
            raise FrameError("create before load")
        side = frame["side"]
        process = KERNEL.add(frame["actor"], frame["config"]["name"], side == "worker")
        process.random_seed = frame["seed"]
        process.modules = self.sources.set_for(process.name)
        process.config = Config(frame["config"])
        module, name = self.classes[side]
        made = getattr(process.modules.load(module), name)
        task = KERNEL.call(process, lambda: made(process.config))
        KERNEL.resume(task, frame["now"], 0)
        if task.state != DONE:
            return {"error": _raised(Refusal(f"{name}() waits for {task.waits_for} at {task.where}"))}
        if task.error is not None:
            return {"error": _raised(task.error)}
        process.connector = task.value
        present = [hook for hook in HOOKS if callable(getattr(task.value, self.methods[hook], None))]
        task.value = None
        return {"hooks": present, "main": "done"}

    def call(self, frame: "dict[str, Any]") -> "dict[str, Any]":
        process = _process(frame)
        if process.main.state != DONE:
            raise FrameError(f"{process.name} is called within a call")
        hook = frame["hook"]
        run, method, args = HOOKS[hook], getattr(process.connector, self.methods[hook]), frame["args"]
        KERNEL.call(process, lambda: run(process, method, args))
        return self._go(process.main, frame)

    def go(self, frame: "dict[str, Any]") -> "dict[str, Any]":
        process = _process(frame)
        task = process.tasks.get(frame["thread"])
        # One that has ended, or was woken and ran before its own turn came.
        return {"main": process.main.state} if task is None else self._go(task, frame)

    def tell(self, frame: "dict[str, Any]") -> "dict[str, Any]":
        process = _process(frame)
        KERNEL.now = frame["now"]
        endpoint = endpoint_of(process)
        if frame["what"] == "message":
            endpoint.arrived(frame["peer"], bytes.fromhex(frame["payload"]))
        elif frame["what"] == "completion":
            endpoint.completed(frame["tag"], frame["ok"])
        else:
            KERNEL.fire(process, frame["thread"])
            return {"main": process.main.state, "quiet": True}
        KERNEL.stir(process)
        return {"main": process.main.state}

    def waits(self, frame: "dict[str, Any]") -> "dict[str, Any]":
        """(what, where, thread) of those that wait for something to happen, the main one first; idle ones wait for nothing."""
        tasks = _process(frame).tasks.values()
        told = [
            [task.waits_for, task.where, task.name]
            for task in tasks
            if task.state == BLOCKED and not task.is_idle
        ]
        return {"waits": told}

    def _go(self, task: Task, frame: "dict[str, Any]") -> "dict[str, Any]":
        KERNEL.resume(task, frame["now"], frame["budget"])
        main = task.process.main
        answer: "dict[str, Any]" = {"main": main.state, "quiet": task.is_quiet}
        if task.number != MAIN or task.state != DONE:
            return answer
        if isinstance(task.error, StatementLimit):
            raise task.error
        if task.error is not None:
            answer["error"] = _raised(task.error)
        answer["value"], task.value = task.value, None
        answer["clock"] = task.reads_clock
        return answer


def _process(frame: "dict[str, Any]") -> Process:
    return KERNEL.processes[frame["actor"]]


def _death(task: Task) -> "dict[str, Any]":
    assert task.error is not None
    return {"thread": task.name, "text": _first_line(task.error), "stack": _stack(task.error)}


def _raised(error: BaseException) -> "dict[str, Any]":
    return {"kind": "raised", "text": _first_line(error), "stack": _stack(error)}


def _first_line(error: BaseException) -> str:
    text = str(error).split("\n")[0]
    return f"{type(error).__name__}: {text}"[:TEXT_MAX]


def _stack(error: BaseException) -> "list[str]":
    """The guest's frames, innermost first, as `function (path:line)`."""
    frames = [
        f"{frame.name} ({frame.filename}:{frame.lineno})"
        for frame in reversed(traceback.extract_tb(error.__traceback__))
        if frame.filename in KERNEL.files
    ]
    return frames[:FRAMES_MAX]


OPS: "dict[str, Callable[[Server, dict[str, Any]], dict[str, Any]]]" = {
    "load": Server.load,
    "begin": Server.begin,
    "create": Server.create,
    "call": Server.call,
    "go": Server.go,
    "tell": Server.tell,
    "waits": Server.waits,
}
