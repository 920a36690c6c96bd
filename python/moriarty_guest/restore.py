"""Puts the modules of a process back to what they were when they had just been loaded, at the cost of a few copies."""

import collections
import types
from typing import Any

CONTAINERS = (dict, list, set, collections.deque)


class Snapshot:
    """What modules, their classes and the containers and objects at their top held."""

    def __init__(self, modules: "dict[str, types.ModuleType]") -> None:
        self.names = set(modules)
        self.saved: "list[tuple[Any, Any]]" = []
        self.seen: "set[int]" = set()
        for module in modules.values():
            self._keep(module.__dict__)

    def restore(self) -> None:
        for owner, content in self.saved:
            _put_back(owner, content)

    def _keep(self, value: Any) -> None:
        """Only what the guest itself made: its classes, objects of them, and plain containers within reach."""
        if id(value) in self.seen:
            return
        if isinstance(value, CONTAINERS):
            self.seen.add(id(value))
            copied = value.copy()
            self.saved.append((value, copied))
            for inner in copied.values() if isinstance(value, dict) else copied:
                self._keep(inner)
        elif isinstance(value, type) and value.__module__ in self.names:
            self.seen.add(id(value))
            self.saved.append((value, dict(value.__dict__)))
            for inner in list(value.__dict__.values()):
                self._keep(inner)
        elif type(value).__module__ in self.names or hasattr(type(value), "_is_of_a_run"):
            self.seen.add(id(value))
            fields = getattr(value, "__dict__", None)
            if fields is not None:
                self._keep(fields)


def _put_back(owner: Any, content: Any) -> None:
    if isinstance(owner, type):
        _put_class_back(owner, content)
    elif isinstance(owner, dict):
        if owner.keys() == content.keys() and all(owner[key] is content[key] for key in content):
            return
        owner.clear()
        owner.update(content)
    elif isinstance(owner, list):
        owner[:] = content
    else:
        owner.clear()
        owner.update(content) if isinstance(owner, set) else owner.extend(content)


def _put_class_back(owner: type, content: "dict[str, Any]") -> None:
    now = owner.__dict__
    for key in [key for key in now if key not in content]:
        delattr(owner, key)
    for key, value in content.items():
        if now.get(key) is not value:
            setattr(owner, key, value)
