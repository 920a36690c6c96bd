"""Loads the guest's own modules: one set for each simulated process, with imports redirected to the stand-ins."""

import builtins
import types
from typing import Any

from .failures import Refusal
from .kernel import Kernel
from .restore import Snapshot
from .rewrite import HOOK, rewrite
from .standins import REAL_MODULES, find_stand_in, STAND_INS


class Sources:
    """The guest's files, compiled once. `files` maps the name of a module to its path."""

    def __init__(self, kernel: Kernel, files: "dict[str, str]") -> None:
        self.kernel = kernel
        self.codes: "dict[str, types.CodeType]" = {}
        self.paths = files
        for name in sorted(files):
            with open(files[name], "rb") as file:
                source = file.read()
            self.codes[name] = compile(rewrite(source.decode(), files[name]), files[name], "exec")
            kernel.files.add(files[name])
        self.sets: "dict[str, ModuleSet]" = {}

    def set_for(self, process: str) -> "ModuleSet":
        """The modules of a process, as they were when they had just been loaded."""
        known = self.sets.get(process)
        if known is None:
            known = self.sets[process] = ModuleSet(self)
        known.restore()
        return known


class ModuleSet:
    """Module objects of one simulated process."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.modules: "dict[str, types.ModuleType]" = {}
        self.snapshot: "Snapshot | None" = None
        self.builtins = dict(builtins.__dict__)
        self.builtins["__import__"] = self._import
        self.builtins["open"] = _refuse_open
        self.builtins["input"] = _refuse_open

    def restore(self) -> None:
        if self.snapshot is None:
            for name in self.sources.codes:
                self.load(name)
            self.snapshot = Snapshot(self.modules)
        else:
            self.snapshot.restore()

    def load(self, name: str) -> types.ModuleType:
        known = self.modules.get(name)
        if known is not None:
            return known
        module = types.ModuleType(name)
        module.__file__ = self.sources.paths[name]
        module.__dict__["__builtins__"] = self.builtins
        module.__dict__[HOOK] = _hook_of(self.sources.kernel)
        self.modules[name] = module
        try:
            exec(self.sources.codes[name], module.__dict__)
        except BaseException:
            del self.modules[name]
            raise
        return module

    def _import(
        self, name: str, scope: Any = None, _locals: Any = None, wanted: "tuple[str, ...] | None" = (), level: int = 0
    ) -> Any:
        if level > 0:
            raise Refusal(f"{self._where(scope)}: a guest's modules import each other by their plain names")
        if name in self.sources.codes:
            module: Any = self.load(name)
        else:
            module = find_stand_in(name)
            if module is None:
                return self._import_real(name, scope, wanted)
        for each in wanted or ():
            if each != "*" and not hasattr(module, each):
                there = sorted(key for key in vars(module) if not key.startswith("_"))
                text = f"{self._where(scope)}: {name} has no {each} here; it has {', '.join(there)}"
                raise Refusal(text)
        if not wanted and "." in name:
            return find_stand_in(name.split(".")[0]) or module
        return module

    def _import_real(self, name: str, scope: Any, wanted: Any) -> Any:
        if name.split(".")[0] not in REAL_MODULES:
            stand_ins = ", ".join(sorted(STAND_INS))
            raise Refusal(f"{self._where(scope)}: {name} is not simulated; there are stand-ins for {stand_ins}")
        return builtins.__import__(name, None, None, wanted or (), 0)

    def _where(self, scope: Any) -> str:
        name = (scope or {}).get("__name__", "?")
        return f"module {name}"


def _hook_of(kernel: Kernel) -> Any:
    def hook() -> None:
        kernel.left -= 1
        if kernel.left <= 0:
            kernel.statement()

    return hook


def _refuse_open(*_words: Any, **_more: Any) -> Any:
    raise Refusal("a guest has no files and no terminal here")
