"""The modules that a guest gets instead of the true ones, as one table. A name that a stand-in lacks is refused loudly."""

import types
from typing import Any

from ..failures import NameRefusal
from . import concurrent_futures, kv_transport, logging_module, queue_module, random_module, threading_module
from . import time_module, uuid_module

REAL_MODULES = frozenset(
    "__future__ abc array ast bisect collections contextlib copy dataclasses enum fractions functools hashlib heapq "
    "itertools json math numbers operator re statistics string struct textwrap types typing zlib msgpack numpy".split()
)
"""Modules without threads, clock, chance or a world outside: a guest gets the true ones."""


class StandIn(types.ModuleType):
    """A module that says what it is when it is asked for what it lacks."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        there = ", ".join(sorted(key for key in vars(self) if not key.startswith("_")))
        raise NameRefusal(f"the stand-in for {self.__name__} has no {name}; it has {there}")


def _stand_in(name: str, names: "dict[str, Any]") -> StandIn:
    module = StandIn(name)
    module.__dict__.update(names)
    return module


STAND_INS: "dict[str, StandIn]" = {
    name: _stand_in(name, names)
    for name, names in {
        "threading": threading_module.NAMES,
        "queue": queue_module.NAMES,
        "concurrent.futures": concurrent_futures.NAMES,
        "time": time_module.NAMES,
        "uuid": uuid_module.NAMES,
        "random": random_module.NAMES,
        "logging": logging_module.NAMES,
        "kv_transport": kv_transport.NAMES,
    }.items()
}
STAND_INS["concurrent"] = _stand_in("concurrent", {"futures": STAND_INS["concurrent.futures"]})


def find_stand_in(name: str) -> "StandIn | None":
    return STAND_INS.get(name)
