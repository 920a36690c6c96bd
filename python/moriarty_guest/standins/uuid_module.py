"""Stand-ins of uuid: a counter in each process, scrambled with the process's number."""

import uuid as true_uuid

from ..mix import Draws
from .world import KERNEL

KEY = 2


def uuid4() -> true_uuid.UUID:
    process = KERNEL.process()
    draws = Draws(process.number << 16 | process.count("uuid"), KEY)
    number = 0
    for _ in range(4):
        number = number << 32 | draws.word()
    return true_uuid.UUID(int=number, version=4)


NAMES = {"uuid4": uuid4, "UUID": true_uuid.UUID}
