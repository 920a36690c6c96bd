import io
import unittest

from moriarty_guest.failures import FrameError
from moriarty_guest.frames import FRAME_BYTES_MAX, read_frame, write_frame

from .harness import World

IDLE = "class Worker:\n    def __init__(self, config):\n        pass\n"


class Frames(unittest.TestCase):
    def test_there_and_back(self) -> None:
        pipe = io.BytesIO()
        write_frame(pipe, {"op": "begin", "text": "ü"})
        pipe.seek(0)
        self.assertEqual(read_frame(pipe), {"op": "begin", "text": "ü"})
        self.assertIsNone(read_frame(pipe))

    def test_rubbish_is_refused(self) -> None:
        long = (FRAME_BYTES_MAX + 1).to_bytes(4, "little")
        for rubbish in (b"\1", long + b"{}", b"\5\0\0\0{}", b"\2\0\0\0{]", b"\2\0\0\0[]", b"\1\0\0\0\xff"):
            with self.assertRaises(FrameError):
                read_frame(io.BytesIO(rubbish))

    def test_questions_of_another_form_are_refused(self) -> None:
        world = World(IDLE)
        world.start()
        for frame in ({}, {"op": "no"}, {"op": "call"}, {"op": "go", "actor": 9, "thread": 0}, {"op": "tell", "actor": 1}):
            with self.assertRaises(FrameError):
                world.server.answer(frame)


class Refusals(unittest.TestCase):
    def refused(self, source: str, text: str) -> None:
        told = World(source + IDLE).loaded.get("error")
        self.assertIsNotNone(told)
        self.assertIn(text, told["text"])

    def test_modules_that_are_not_simulated_are_refused_by_name(self) -> None:
        for module in ("socket", "os", "subprocess", "asyncio", "multiprocessing", "_thread", "select", "sys"):
            self.refused(f"import {module}\n", f"module guest: {module} is not simulated; there are stand-ins for")

    def test_names_that_a_stand_in_lacks_are_refused_by_name(self) -> None:
        self.refused("from threading import Barrier\n", "threading has no Barrier here; it has Condition")
        self.refused("threading.Barrier(2)\n", "the stand-in for threading has no Barrier; it has Condition")
        self.refused("open('x')\n", "a guest has no files")

    def test_a_missing_class_and_a_mistake_of_syntax_are_told(self) -> None:
        self.refused("def f(:\n", "SyntaxError")
        self.assertIn("no class Worker", World("").loaded["error"]["text"])

    def test_waiting_where_nobody_can_come_is_refused(self) -> None:
        world = World("class Worker:\n    def __init__(self, config):\n        threading.Event().wait()\n")
        self.assertIn("Worker() waits for Event.wait at guest.py", world.start()["error"]["text"])

    def test_plain_modules_are_the_true_ones(self) -> None:
        source = "import collections.abc, json, dataclasses\nfrom typing import Any\nassert json.dumps([1]) == '[1]'\n"
        self.assertNotIn("error", World(source + IDLE).loaded)


class Crossing(unittest.TestCase):
    SOURCE = """
import dataclasses, enum
class Kind(enum.Enum):
    A = 1
@dataclasses.dataclass
class Meta:
    kind: Kind
    rows: list
class Worker:
    def __init__(self, config):
        self.got = None
    def start_load_kv(self, meta):
        assert type(meta) is Meta and meta.kind is Kind.A
        self.got = meta
"""

    def test_an_object_is_copied_into_the_targets_own_classes(self) -> None:
        from moriarty_guest.crossing import pack
        from moriarty_guest.standins.world import KERNEL

        world = World(self.SOURCE)
        world.start()
        other = world.server.sources.set_for("another")  # type: ignore[union-attr]
        guest = other.load("guest")
        meta = guest.Meta(guest.Kind.A, [1, 2])
        self.assertNotIn("error", world.hook("start_load_kv", pack(meta, other)))
        got = world.worker().got
        self.assertIsNot(type(got), type(meta))
        meta.rows.append(3)
        self.assertEqual(got.rows, [1, 2])
        self.assertIsNotNone(KERNEL)

    def test_what_cannot_go_from_process_to_process_is_refused(self) -> None:
        import pickle

        world = World(self.SOURCE)
        world.start()
        told = world.hook("start_load_kv", pickle.dumps(__import__("os").system).hex())
        self.assertIn("cannot go from process to process", told["error"]["text"])


class Chance(unittest.TestCase):
    def test_random_and_uuid_repeat_and_differ(self) -> None:
        world = World(
            """
import random, uuid
class Worker:
    def __init__(self, config):
        self.seen = [random.randint(1, 6), random.random(), random.choice("abc"), str(uuid.uuid4()), str(uuid.uuid4())]
        random.shuffle(self.seen)
"""
        )
        world.start()
        first = world.worker().seen
        world.start()
        self.assertEqual(world.worker().seen, first)
        self.assertEqual(len(set(map(str, first))), 5)
