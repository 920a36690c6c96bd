"""Stand-ins of random: keyed draws of each process."""

from typing import Any, MutableSequence, Sequence

from ..mix import Draws
from .world import KERNEL

KEY = 1


def _word() -> int:
    process = KERNEL.process()
    return Draws(process.random_seed + process.count("random"), KEY).word()


def random() -> float:
    return _word() / 2**32


def uniform(a: float, b: float) -> float:
    return a + (b - a) * random()


def randrange(start: int, stop: "int | None" = None) -> int:
    low, high = (0, start) if stop is None else (start, stop)
    if high <= low:
        raise ValueError(f"empty range for randrange({low}, {high})")
    return low + (_word() * (high - low) >> 32)


def randint(a: int, b: int) -> int:
    return randrange(a, b + 1)


def choice(items: "Sequence[Any]") -> Any:
    if not items:
        raise IndexError("Cannot choose from an empty sequence")
    return items[randrange(len(items))]


def shuffle(items: "MutableSequence[Any]") -> None:
    for index in range(len(items) - 1, 0, -1):
        other = randrange(index + 1)
        items[index], items[other] = items[other], items[index]


NAMES = {
    each.__name__: each for each in (random, uniform, randrange, randint, choice, shuffle)
}
