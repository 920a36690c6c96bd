"""Stand-ins of time: one virtual clock; `monotonic` of each process has an offset of its own, as on different hosts."""

from .world import KERNEL

EPOCH_SECONDS = 1_700_000_000
OFFSET_SECONDS = 1_000


def time() -> float:
    return EPOCH_SECONDS + KERNEL.clock() / 1e6


def monotonic() -> float:
    return OFFSET_SECONDS * (1 + KERNEL.process().number) + KERNEL.clock() / 1e6


def sleep(seconds: float) -> None:
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    KERNEL.process()
    KERNEL.block(None, "time.sleep", seconds)


NAMES = {
    "time": time,
    "monotonic": monotonic,
    "perf_counter": monotonic,
    "time_ns": lambda: round(time() * 1e6) * 1_000,
    "monotonic_ns": lambda: round(monotonic() * 1e6) * 1_000,
    "perf_counter_ns": lambda: round(monotonic() * 1e6) * 1_000,
    "sleep": sleep,
}
