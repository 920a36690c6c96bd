"""vLLM's hooks as the guest sees them, from the plain data that the parent sends."""

from typing import Any, Callable

from .crossing import pack, unpack
from .task import Process


class Config:
    """What one process knows of itself and of the cluster."""

    def __init__(self, told: "dict[str, Any]") -> None:
        self.name: str = told["name"]
        """Of the process: `P0` for a scheduler, `P0.r0` for a rank."""
        self.engine_id: str = told["engine"]
        self.role: str = told["role"]
        """`prefill` or `decode`."""
        self.mode: str = told["mode"]
        self.tp_rank: int = told["tpRank"]
        self.tp_size: int = told["tpSize"]
        self.block_size: int = told["blockTokens"]
        self.ranks: "dict[str, list[str]]" = told["ranks"]
        """Names of the ranks of each engine."""
        self._layers: "list[list[list[list[int]]]]" = told.get("layers", [])
        """For each layer and unit of a block: (offset in block 0, from one block to the next, bytes)."""

    @property
    def num_layers(self) -> int:
        return len(self._layers)

    def segments(
        self, layer: int, local_blocks: "list[int]", remote_blocks: "list[int]", num_tokens: int
    ) -> "list[tuple[int, int, int]]":
        """Copies between equal caches, of the first tokens of some blocks, as (local offset, remote offset, bytes)."""
        units = self._layers[layer]
        found: "list[tuple[int, int, int]]" = []
        for index in range(num_tokens * len(units) // self.block_size):
            at = index // len(units)
            for base, stride, size in units[index % len(units)]:
                found.append((base + local_blocks[at] * stride, base + remote_blocks[at] * stride, size))
        return _joined(sorted(found))


class Request:
    """A request as the engine's scheduler sees it, with vLLM's names."""

    def __init__(self, told: "dict[str, Any]") -> None:
        self.request_id: str = told["request"]
        self.num_prompt_tokens: int = told["promptTokens"]
        self.num_computed_tokens: int = told["computed"]
        self.kv_transfer_params: "dict[str, Any] | None" = told["params"]
        self.is_aborted: bool = told.get("aborted", False)


class Blocks:
    """vLLM's KVCacheBlocks, of one cache group."""

    def __init__(self, ids: "list[int]") -> None:
        self._ids = ids

    def get_block_ids(self) -> "tuple[list[int], ...]":
        return (list(self._ids),)


class ScheduledRequest:
    """One row of the engine's step."""

    def __init__(self, told: "dict[str, Any]") -> None:
        self.request_id: str = told["request"]
        self.num_computed_tokens: int = told["tokenFrom"]
        self.num_scheduled_tokens: int = told["tokenTo"] - told["tokenFrom"]
        self.block_ids: "list[int]" = told["blocks"]


def _joined(segments: "list[tuple[int, int, int]]") -> "list[tuple[int, int, int]]":
    """Neighbours on both sides become one."""
    out: "list[tuple[int, int, int]]" = []
    for local, remote, size in segments:
        if out and (out[-1][0] + out[-1][2], out[-1][1] + out[-1][2]) == (local, remote):
            out[-1] = (out[-1][0], out[-1][1], out[-1][2] + size)
        else:
            out.append((local, remote, size))
    return out


Call = Callable[[Process, Any, "list[Any]"], Any]


def _matched(process: Process, method: Any, args: "list[Any]") -> Any:
    value = method(Request(args[0]), args[1])
    tokens, is_async = _pair(value, "get_num_new_matched_tokens")
    return {"tokens": 0 if tokens is None else int(tokens), "async": bool(is_async)}


def _allocated(process: Process, method: Any, args: "list[Any]") -> Any:
    method(Request(args[0]), Blocks(args[1]), args[2])


def _meta(process: Process, method: Any, args: "list[Any]") -> Any:
    meta = method([ScheduledRequest(row) for row in args[0]])
    return None if meta is None else pack(meta, process.modules)


def _finished(process: Process, method: Any, args: "list[Any]") -> Any:
    value = method(Request(args[0]), args[1])
    keep, params = _pair(value, "request_finished")
    if params is not None and not isinstance(params, dict):
        raise TypeError(f"request_finished returned {params!r} as its parameters; a dict or None is wanted")
    return {"keep": bool(keep), "params": params}


def _load(process: Process, method: Any, args: "list[Any]") -> Any:
    method(None if args[0] is None else unpack(args[0], process.modules))


def _layer(process: Process, method: Any, args: "list[Any]") -> Any:
    method(args[0])


def _nothing(process: Process, method: Any, _args: "list[Any]") -> Any:
    method()


def _reported(process: Process, method: Any, args: "list[Any]") -> Any:
    sent, received = _pair(method(set(args[0])), "get_finished")
    return {"sent": sorted(sent or ()), "received": sorted(received or ())}


def _count(process: Process, method: Any, _args: "list[Any]") -> Any:
    return int(method())


def _pair(value: Any, hook: str) -> "tuple[Any, Any]":
    if not isinstance(value, tuple) or len(value) != 2:
        raise TypeError(f"{hook} returned {value!r}; a tuple of two is wanted")
    return value


HOOKS: "dict[str, Call]" = {
    "get_num_new_matched_tokens": _matched,
    "update_state_after_alloc": _allocated,
    "build_connector_meta": _meta,
    "request_finished": _finished,
    "start_load_kv": _load,
    "wait_for_layer_load": _layer,
    "save_kv_layer": _layer,
    "wait_for_save": _nothing,
    "get_finished": _reported,
    "leak_count": _count,
}
"""How each hook is called. One that the guest's class lacks is not called at all."""
