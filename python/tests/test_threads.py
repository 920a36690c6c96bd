import unittest

from .harness import World

COUNTER = """
class Worker:
    def __init__(self, config):
        self.n = 0
        for k in range(2):
            threading.Thread(target=self.work, name=f"adder-{k}").start()
    def work(self):
        self.n += 1
"""


class Threads(unittest.TestCase):
    def run_guest(self, source: str, **more: object) -> World:
        world = World(source, **more)  # type: ignore[arg-type]
        self.assertNotIn("error", world.loaded)
        self.assertNotIn("error", world.start())
        world.run()
        self.assertEqual(world.died, [])
        return world

    def test_an_update_is_lost_when_it_is_preempted_between_read_and_write(self) -> None:
        self.assertEqual(self.run_guest(COUNTER).worker().n, 2)
        # The third hook of the first adder: before the statement, and after its read.
        world = self.run_guest(COUNTER, budgets={(1, 0): 2})
        self.assertEqual(world.worker().n, 1)
        self.assertEqual(world.logs, [["preempted", {"thread": "adder-0", "before": "guest.py:11 in work"}]])

    def test_a_lock_keeps_others_out_whoever_is_preempted(self) -> None:
        source = COUNTER.replace("self.n += 1", "with self.lock:\n            self.n += 1").replace(
            "self.n = 0", "self.n = 0\n        self.lock = threading.Lock()"
        )
        for statements in range(1, 6):
            world = self.run_guest(source, budgets={(1, 0): statements})
            self.assertEqual(world.worker().n, 2, statements)

    def test_queue_event_condition_semaphore_and_join(self) -> None:
        world = self.run_guest(
            """
class Worker:
    def __init__(self, config):
        self.seen = []
        self.jobs, self.done, self.room = queue.Queue(maxsize=1), threading.Event(), threading.Condition()
        self.tickets = threading.Semaphore(0)
        self.eater = threading.Thread(target=self.eat, name="eater")
        self.eater.start()
        threading.Thread(target=self.feed, name="feeder").start()
    def eat(self):
        while True:
            job = self.jobs.get()
            if job is None:
                break
            self.seen.append(job)
            self.tickets.release()
        with self.room:
            self.seen.append("end")
            self.room.notify_all()
        self.done.wait()
        self.seen.append("done")
    def feed(self):
        for job in range(3):
            self.jobs.put(job)
        for _ in range(3):
            self.tickets.acquire()
        with self.room:
            self.jobs.put(None)
            self.room.wait_for(lambda: "end" in self.seen)
        self.done.set()
        self.eater.join()
        self.seen.append(self.eater.is_alive())
"""
        )
        self.assertEqual(world.worker().seen, [0, 1, 2, "end", "done", False])

    def test_futures_run_in_the_pool_and_tell_their_errors(self) -> None:
        world = self.run_guest(
            """
from concurrent.futures import ThreadPoolExecutor, TimeoutError
class Worker:
    def __init__(self, config):
        self.seen = []
        threading.Thread(target=self.work, name="asker").start()
    def work(self):
        pool = ThreadPoolExecutor(max_workers=1)
        def slow(n):
            time.sleep(1)
            return n * 2
        first, second = pool.submit(slow, 2), pool.submit(lambda: 1 / 0)
        first.add_done_callback(lambda future: self.seen.append(("called", future.result())))
        try:
            first.result(timeout=0.5)
        except TimeoutError:
            self.seen.append("late")
        self.seen.append(first.result())
        try:
            second.result()
        except ZeroDivisionError:
            self.seen.append("error")
        pool.shutdown()
"""
        )
        self.assertEqual(world.worker().seen, ["late", ("called", 4), 4, "error"])

    def test_what_ends_a_thread_is_told_with_file_and_line(self) -> None:
        world = World(COUNTER.replace("self.n += 1", "raise KeyError('k')"))
        world.start()
        world.run()
        self.assertEqual([(each["thread"], each["text"]) for each in world.died][:1], [("adder-0", "KeyError: 'k'")])
        self.assertRegex(world.died[0]["stack"][0], r"^work \(.*guest\.py:11\)$")

    def test_a_hook_waits_and_goes_on(self) -> None:
        world = World(
            """
class Worker:
    def __init__(self, config):
        self.go = threading.Event()
        threading.Thread(target=self.later, name="later").start()
    def later(self):
        self.go.set()
    def wait_for_save(self):
        self.go.wait()
"""
        )
        world.start()
        self.assertEqual(world.hook("wait_for_save")["main"], "blocked")
        told = world.ask(op="waits", actor=1)["waits"]
        self.assertEqual(told, [["Event.wait", "guest.py:12 in wait_for_save", "main"]])
        world.run()
        answer = world.go_main()
        self.assertEqual((answer["main"], answer["value"]), ("done", None))

    def test_a_run_leaves_nothing_to_the_next_one(self) -> None:
        world = World(
            """
CACHE, LOCK = {}, threading.Lock()
class Base:
    made = []
class Worker(Base):
    single = None
    def __init__(self, config):
        assert not CACHE and not self.made and Worker.single is None and not hasattr(Worker, "late"), "left over"
        CACHE[1] = [2]
        Worker.single = self
        Worker.late = 1
        self.made.append(self)
        threading.Thread(target=LOCK.acquire, name="holder").start()
        threading.Thread(target=self.never, name="never").start()
    def never(self):
        try:
            threading.Event().wait()
        finally:
            time.sleep(1)
"""
        )
        for _ in range(3):
            self.assertNotIn("error", world.start())
            world.run()
            self.assertEqual(world.died, [])


class Polling(unittest.TestCase):
    def test_a_poller_that_others_must_move_is_parked_and_found_again(self) -> None:
        world = World(
            """
class Worker:
    def __init__(self, config):
        self.flag, self.seen = False, []
        threading.Thread(target=self.poll, name="poller").start()
    def poll(self):
        while not self.flag:
            time.sleep(0.001)
        self.seen.append("found")
    def wait_for_save(self):
        self.flag = True
"""
        )
        world.start()
        world.run()
        self.assertLess(world.slices, 200)
        world.hook("wait_for_save")
        world.run()
        self.assertEqual(world.worker().seen, ["found"])

    def test_a_deadline_by_the_clock_is_reached_in_a_few_strides(self) -> None:
        world = World(
            """
class Worker:
    def __init__(self, config):
        self.seen = []
        threading.Thread(target=self.poll, name="poller").start()
    def poll(self):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            time.sleep(0.001)
        self.seen.append("late")
"""
        )
        world.start()
        world.run()
        self.assertEqual(world.worker().seen, ["late"])
        self.assertLess(world.slices, 200)
        self.assertLess(world.now, 60e6)

    def test_attempts_that_are_counted_all_happen(self) -> None:
        world = World(
            """
class Worker:
    def __init__(self, config):
        self.seen = 0
        threading.Thread(target=self.poll, name="poller").start()
    def poll(self):
        for attempt in range(300):
            time.sleep(0.1)
        self.seen = attempt
"""
        )
        world.start()
        world.run()
        self.assertEqual(world.worker().seen, 299)
        self.assertAlmostEqual(world.now / 1e6, 30, places=3)

    def test_a_spinner_costs_turns_and_not_for_ever(self) -> None:
        world = World(
            """
class Worker:
    def __init__(self, config):
        self.flag = False
        threading.Thread(target=self.spin, name="spinner").start()
    def spin(self):
        while not self.flag:
            pass
"""
        )
        world.start()
        world.run()
        self.assertLess(world.slices, 200)
        self.assertEqual(world.ask(op="waits", actor=1)["waits"][0][0], "a spinning loop")
