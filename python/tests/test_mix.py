"""The twin of test/unit/base/mix.test.ts, over the same golden file."""

import json
import os
import unittest

from moriarty_guest.mix import Draws, below, finish, mix

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "..", "test", "golden", "mix.json")


class Mixing(unittest.TestCase):
    def test_gives_the_values_of_the_golden_file(self) -> None:
        with open(GOLDEN, encoding="utf-8") as file:
            golden = json.load(file)
        self.assertGreater(len(golden["mix"]), 100)
        for hash_, value, mixed, finished in golden["mix"]:
            self.assertEqual((mix(hash_, value), finish(mix(hash_, value))), (mixed, finished))
        for hash_, bound, value in golden["below"]:
            self.assertEqual(below(hash_, bound), value)

    def test_draws_of_two_keys_differ_and_repeat(self) -> None:
        first, again, other = ([draws.word() for _ in range(8)] for draws in (Draws(1, 2), Draws(1, 2), Draws(1, 3)))
        self.assertEqual(first, again)
        self.assertFalse(set(first) & set(other))
