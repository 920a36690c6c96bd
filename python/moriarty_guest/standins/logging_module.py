"""Stand-ins of logging: what a guest logs at INFO and above is a line of the run's story."""

from typing import Any

from .world import KERNEL

LEVELS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}


class Logger:
    def __init__(self, name: str) -> None:
        self.name = name

    def debug(self, *_words: Any, **_more: Any) -> None:
        """Not told."""

    def info(self, text: Any, *args: Any, **_more: Any) -> None:
        _tell("", text, args)

    def warning(self, text: Any, *args: Any, **_more: Any) -> None:
        _tell("WARNING ", text, args)

    def error(self, text: Any, *args: Any, **_more: Any) -> None:
        _tell("ERROR ", text, args)

    exception = critical = error

    def setLevel(self, _level: Any) -> None:
        """Levels are fixed."""

    def isEnabledFor(self, level: int) -> bool:
        return level >= LEVELS["INFO"]


def _tell(head: str, text: Any, args: "tuple[Any, ...]") -> None:
    if KERNEL.current is not None:
        line = str(text) % args if args else str(text)
        KERNEL.log("logs", thread=KERNEL.current.name, text=head + line)


def getLogger(name: str = "root") -> Logger:
    return Logger(name)


NAMES = {"getLogger": getLogger, "Logger": Logger, **LEVELS}
