"""Ends this process when it hangs, with the stack of every thread on standard error: the parent then reads the end."""

import faulthandler
import os
import sys
import threading
import time

LOOK_SECONDS = 1.0
EXIT_CODE = 70


class Watchdog:
    """Counts the time since the last frame was begun. Threads here are true ones."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit = limit_seconds
        self.busy_since: "float | None" = None
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()

    def _watch(self) -> None:
        while True:
            # Fires when even this thread gets no time: native code that holds the interpreter.
            faulthandler.dump_traceback_later(self.limit + 2 * LOOK_SECONDS, exit=True)
            time.sleep(LOOK_SECONDS)
            since = self.busy_since
            if since is not None and time.monotonic() - since > self.limit:
                sys.stderr.write(f"moriarty_guest: no answer after {self.limit} s; the threads stand here:\n")
                faulthandler.dump_traceback(all_threads=True)
                os._exit(EXIT_CODE)

    def begin(self) -> None:
        self.busy_since = time.monotonic()

    def end(self) -> None:
        self.busy_since = None
