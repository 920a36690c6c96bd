"""Tells a loop that only polls, so that virtual time can jump over it.

A thread that waits for a time polls when it stands where it stood the last time, its variables are the same, and it has
asked for nothing. A poller that reads the clock takes longer and longer strides, at most half of what it has waited so
far; one that does not can only be moved by others, and is parked until something happens in its process.
"""

from typing import Any

STRIDE_ROUNDS = 8
PARK_ROUNDS = 64
PARK_MICROS = 3.6e9
"""An hour: no deadline of a connector is longer."""

PLAIN = (int, str, bool, bytes, type(None))


def fingerprint(frames: "list[Any]") -> Any:
    """What the guest's frames hold, as far as it is plain: no clock value (a float), no address."""
    return [
        (frame.f_code.co_name, {key: _plain(value) for key, value in frame.f_locals.items()}) for frame in frames
    ]


def _plain(value: Any) -> Any:
    return value if isinstance(value, PLAIN) else type(value).__name__


def patience(rounds: int, micros: float, waited: float, reads_clock: bool) -> "float | None":
    """Microseconds until the poller looks again; None when only others can move it."""
    if reads_clock:
        if waited > PARK_MICROS:
            return None
        return micros if rounds < STRIDE_ROUNDS else max(micros, waited / 2)
    return micros if rounds < PARK_ROUNDS else None
