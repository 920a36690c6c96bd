"""Objects that go from one simulated process to another: copied, and made of the target's own classes."""

import io
import pickle
from typing import Any

from .failures import Refusal
from .loader import ModuleSet

SAFE = {
    "builtins": frozenset(("set", "frozenset", "complex", "bytearray", "slice", "range", "object", "getattr")),
    "collections": frozenset(("deque", "OrderedDict", "defaultdict", "Counter")),
    "copyreg": frozenset(("_reconstructor", "__newobj__")),
}


def _class_of(module: str, name: str) -> Any:
    """Resolved in the target's modules when it is unpickled; never called while pickling."""
    raise Refusal(f"{module}.{name} was unpickled outside of a process")


class _Pickler(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, names: "frozenset[str]") -> None:
        super().__init__(stream, protocol=4)
        self.names = names

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type) and value.__module__ in self.names:
            return _class_of, (value.__module__, value.__qualname__)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, modules: ModuleSet) -> None:
        super().__init__(stream)
        self.modules = modules

    def find_class(self, module: str, name: str) -> Any:
        if name == "_class_of" and module == __name__:
            return self._resolve
        if name in SAFE.get(module, ()):
            return super().find_class(module, name)
        raise Refusal(f"{module}.{name} cannot go from process to process; plain data and classes of the guest can")

    def _resolve(self, module: str, qualname: str) -> Any:
        value: Any = self.modules.load(module)
        for name in qualname.split("."):
            value = getattr(value, name)
        return value


def pack(value: Any, modules: ModuleSet) -> str:
    """Hexadecimal digits. Raises what pickle raises, TypeError above all, for what cannot be copied."""
    stream = io.BytesIO()
    _Pickler(stream, frozenset(modules.sources.codes)).dump(value)
    return stream.getvalue().hex()


def unpack(digits: str, modules: ModuleSet) -> Any:
    return _Unpickler(io.BytesIO(bytes.fromhex(digits)), modules).load()
