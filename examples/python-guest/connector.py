"""A small pull connector: P keeps the blocks of a finished prompt, a thread of D reads them, and tells P when it has.

It is written the way such connectors are written, and it has three mistakes of the kind that no unit test finds: see
README.md. mended.py is the same connector without them.
"""

import json
import logging
import queue
import threading
from dataclasses import dataclass, field

from kv_transport import endpoint

logger = logging.getLogger(__name__)

LOADERS = 2


@dataclass
class Load:
    """What D's worker needs to know to fetch one request's KV."""

    request_id: str
    peer: str
    local_blocks: list[int]
    remote_blocks: list[int]
    num_tokens: int


@dataclass
class Metadata:
    loads: list[Load] = field(default_factory=list)


class Scheduler:
    """The half in the engine's scheduler process."""

    def __init__(self, config):
        self._config = config
        self._loads = []
        self._asked = set()

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        params = request.kv_transfer_params
        if params is None or "remote_block_ids" not in params or request.request_id in self._asked:
            return 0, False
        # The last prompt token is computed here: its attention gives the first logits.
        tokens = request.num_prompt_tokens - 1 - num_computed_tokens
        return (tokens, True) if tokens > 0 else (0, False)

    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        if num_external_tokens == 0:
            return
        self._asked.add(request.request_id)
        params = request.kv_transfer_params
        (local,) = blocks.get_block_ids()
        peer = self._config.ranks[params["remote_engine_id"]][self._config.tp_rank]
        remote = params["remote_block_ids"]
        self._loads.append(Load(request.request_id, peer, local, remote, num_external_tokens))

    def build_connector_meta(self, scheduled):
        if not self._loads:
            return None
        meta = Metadata(self._loads)
        self._loads = []
        return meta

    def request_finished(self, request, block_ids):
        params = request.kv_transfer_params
        self._asked.discard(request.request_id)
        if request.is_aborted or params is None or self._config.role == "decode":
            return False, None
        # Without a token to fetch D never asks, and nobody would free the blocks.
        if request.num_prompt_tokens == 1:
            return False, {"remote_block_ids": [], "remote_num_tokens": 1}
        return True, {"remote_block_ids": block_ids, "remote_num_tokens": request.num_prompt_tokens}


class Session:
    """What a rank knows of one peer."""

    def __init__(self, peer):
        self.peer = peer
        self.ready = threading.Event()


class Worker:
    """The half in a rank's process, with its threads."""

    def __init__(self, config):
        self._config = config
        self._endpoint = endpoint()
        self._queue = queue.Queue()
        self._sessions = {}
        self._reads = {}
        self._left = {}
        self._landed = threading.Event()
        self._lock = threading.Lock()
        self._sent = set()
        self._received = set()
        threading.Thread(target=self._listen, name="listener", daemon=True).start()
        if config.role == "decode":
            threading.Thread(target=self._complete, name="completer", daemon=True).start()
            for number in range(LOADERS):
                threading.Thread(target=self._load_all, name=f"loader-{number}", daemon=True).start()

    # --- hooks of the engine ---

    def start_load_kv(self, meta):
        for load in meta.loads if meta is not None else ():
            self._queue.put(load)

    def get_finished(self, finished_req_ids):
        with self._lock:
            sent, self._sent = self._sent, set()
            received, self._received = self._received, set()
        return sent, received

    # --- threads ---

    def _listen(self):
        while True:
            peer, payload = self._endpoint.recv()
            message = json.loads(payload)
            if message["kind"] == "hello":
                self._send(peer, kind="welcome")
            elif message["kind"] == "welcome":
                self._endpoint.connect(peer)
                self._sessions[peer].ready.set()
            else:
                with self._lock:
                    self._sent.add(message["request"])

    def _load_all(self):
        while True:
            load = self._queue.get()
            self._session(load.peer).ready.wait()
            self._fetch(load)
            with self._lock:
                self._received.add(load.request_id)
            self._send(load.peer, kind="done", request=load.request_id)

    def _session(self, peer):
        if peer not in self._sessions:
            session = Session(peer)
            logger.info("no session with %s yet: opening one", peer)
            self._sessions[peer] = session
            self._send(peer, kind="hello")
        return self._sessions[peer]

    def _fetch(self, load):
        self._landed.clear()
        self._left[load.request_id] = self._config.num_layers
        for layer in range(self._config.num_layers):
            segments = self._config.segments(layer, load.local_blocks, load.remote_blocks, load.num_tokens)
            tag = self._endpoint.read(load.peer, segments, request=load.request_id, layer=layer)
            self._reads[tag] = load.request_id
        self._landed.wait()

    def _complete(self):
        while True:
            tag, ok = self._endpoint.wait_completion()
            if not ok:
                raise RuntimeError(f"copy {tag} failed")
            request_id = self._reads.pop(tag)
            self._left[request_id] -= 1
            if self._left[request_id] == 0:
                del self._left[request_id]
                self._landed.set()

    def _send(self, peer, **message):
        self._endpoint.send(peer, json.dumps(message).encode())
