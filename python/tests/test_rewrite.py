import traceback
import unittest
from typing import Any

from moriarty_guest.rewrite import HOOK, rewrite


def run(source: str, hook: Any) -> "dict[str, Any]":
    scope: "dict[str, Any]" = {HOOK: hook}
    exec(compile(rewrite(source, "guest.py"), "guest.py", "exec"), scope)
    return scope


class Rewriting(unittest.TestCase):
    def test_the_hook_comes_before_each_statement_of_a_function_with_its_line(self) -> None:
        lines: "list[int]" = []

        def hook() -> None:
            import sys

            lines.append(sys._getframe(1).f_lineno)

        source = 'def f(x):\n    "text"\n    y = x\n    if y:\n        y = 2\n    else:\n        y = 3\n    return y\n'
        scope = run(source, hook)
        self.assertEqual(lines, [])
        self.assertEqual(scope["f"](1), 2)
        self.assertEqual(lines, [3, 4, 5, 8])
        self.assertEqual(scope["f"].__doc__, "text")

    def test_an_augmented_assignment_is_overtaken_between_its_read_and_its_write(self) -> None:
        source = (
            "class Box: pass\nbox = Box(); box.n = 0; table = {'k': 0}; total = 0\n"
            "def f():\n    global total\n    box.n += 1\n    table['k'] += 1\n    total += 1\n"
        )
        scope: "dict[str, Any]" = {}
        state = {"hooks": 0}

        def hook() -> None:
            # The second hook of each statement lies between read and write.
            state["hooks"] += 1
            if state["hooks"] % 2 == 0 and "f" in scope:
                scope["box"].n = scope["table"]["k"] = scope["total"] = 100 * state["hooks"]

        scope.update(run(source, hook))
        scope["f"].__globals__.update(scope)
        scope = scope["f"].__globals__
        scope["f"]()
        self.assertEqual((scope["box"].n, scope["table"]["k"], scope["total"]), (600, 600, 401))

    def test_meaning_stays(self) -> None:
        source = (
            "def f():\n"
            "    rows = [[1], [2]]\n"
            "    at = iter([0])\n"
            "    rows[next(at)] += [9]\n"
            "    rows[0][0:1] += [5]\n"
            "    names = {x: y for x in 'ab' for y in range(2) if y}\n"
            "    try:\n        1 / 0\n    except ZeroDivisionError as error:\n        caught = type(error).__name__\n"
            "    finally:\n        rows.append('end')\n"
            "    def inner():\n        nonlocal caught\n        caught += '!'\n"
            "    inner()\n"
            "    with open_it() as got:\n        while got:\n            got -= 1\n"
            "    return rows, names, caught, got\n"
        )

        class Opened:
            def __enter__(self) -> int:
                return 3

            def __exit__(self, *_: Any) -> None: ...

        with_hooks = run(source, lambda: None)
        plain: "dict[str, Any]" = {}
        exec(source, plain)
        for scope in (with_hooks, plain):
            scope["open_it"] = Opened
        self.assertEqual(with_hooks["f"](), plain["f"]())

    def test_a_comprehension_can_be_overtaken_and_an_augmented_owner_is_read_once(self) -> None:
        count = {"hooks": 0, "owners": 0}

        def hook() -> None:
            count["hooks"] += 1

        source = "def f(owner):\n    owner().n += 1\n    return [x for x in range(5)]\n"
        scope = run(source, hook)

        class Box:
            n = 0

        def owner() -> Box:
            count["owners"] += 1
            return box

        box = Box()
        self.assertEqual(scope["f"](owner), [0, 1, 2, 3, 4])
        self.assertEqual((box.n, count["owners"]), (1, 1))
        self.assertEqual(count["hooks"], 1 + 1 + 1 + 5)

    def test_tracebacks_keep_their_lines(self) -> None:
        scope = run("def f():\n    x = 1\n\n    raise ValueError(x)\n", lambda: None)
        try:
            scope["f"]()
        except ValueError as error:
            self.assertEqual(traceback.extract_tb(error.__traceback__)[-1].lineno, 4)
        else:
            self.fail("nothing was raised")
