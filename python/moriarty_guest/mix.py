"""Counter-based integer mixing, bit for bit that of src/base/mix.ts; test/golden/mix.json holds both to it."""

MASK = 0xFFFFFFFF


def mix(hash_: int, value: int) -> int:
    """Folds one more integer into a hash; unsigned 32 bits."""
    h = ((hash_ ^ value) * 0x9E3779B1) & MASK
    h = ((h ^ (h >> 15)) * 0x85EBCA6B) & MASK
    return h ^ (h >> 13)


def finish(hash_: int) -> int:
    """The closing scramble, so that neighbouring keys give unrelated values."""
    h = (hash_ ^ (hash_ >> 16)) & MASK
    h = (h * 0x21F0AAAD) & MASK
    h = ((h ^ (h >> 15)) * 0x735A2D97) & MASK
    return h ^ (h >> 15)


def below(hash_: int, bound: int) -> int:
    """A value below `bound` (1 to 2**32), from a finished hash."""
    return (hash_ * bound) >> 32


class Draws:
    """A stream of values of one key: the n-th depends on the seed, the key and n alone."""

    def __init__(self, seed: int, key: int) -> None:
        self._root = mix(seed & MASK, key & MASK)
        self._count = 0

    def word(self) -> int:
        """32 bits."""
        self._count += 1
        return finish(mix(self._root, self._count))

    def below(self, bound: int) -> int:
        """A value below `bound` (1 to 2**32)."""
        return below(self.word(), bound)
