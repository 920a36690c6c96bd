"""The child process: answers frames on standard input with frames on standard output until the parent closes them.

Usage: python -m moriarty_guest SECONDS, the longest time that one answer may take.
"""

import os
import resource
import signal
import sys

ADDRESS_SPACE_BYTES = 4 << 30
STDERR_BYTES = 8 << 20


def main() -> int:
    if sys.version_info < (3, 10):
        sys.stderr.write(f"moriarty_guest: Python 3.10 or later is needed, this is {sys.version.split()[0]}\n")
        return 2
    # What the guest prints goes to standard error; the pipes are ours.
    reader, writer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    # Ctrl-C is for the parent, which ends this process when it has told what it found.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (STDERR_BYTES, STDERR_BYTES))
    try:
        from .serve import Server
    except ModuleNotFoundError as error:
        sys.stderr.write(f"moriarty_guest: {error}\n")
        return 2
    from .failures import FrameError
    from .frames import read_frame, write_frame
    from .watchdog import Watchdog

    server, watchdog = Server(), Watchdog(float(sys.argv[1]))
    try:
        while True:
            frame = read_frame(reader)
            if frame is None:
                return 0
            watchdog.begin()
            write_frame(writer, server.answer(frame))
            watchdog.end()
    except FrameError as error:
        sys.stderr.write(f"moriarty_guest: {error}\n")
        return 3
    except BrokenPipeError:
        return 0


if __name__ == "__main__":
    os._exit(main())
