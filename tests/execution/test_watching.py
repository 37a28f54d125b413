"""The clocks of a job: waiting threads buy no wall time, and a crowded machine ends no program that computes."""

from itertools import product

import pytest
from support.slow_cases import slow_but

from lit_rl.execution import Sandbox, StdioTests, Verdict
from lit_rl.execution.judging.supervising import watching
from lit_rl.execution.judging.supervising.watching import JobWatch, SleepTotal
from lit_rl.execution.zygote.zygote import OUT_OF_CPU, OUT_OF_WALL


class Machine:
    """Stands in for the kernel's clocks: seconds since the start, CPU seconds, waiting seconds of each thread."""

    def __init__(self, monkeypatch, num_threads):
        self.now = self.cpu = 0.0
        self.waited = [0.0] * num_threads
        monkeypatch.setattr(watching.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(watching._ProcessClocks, "_total_cpu_seconds", lambda clocks: self.cpu)
        monkeypatch.setattr(watching._ProcessClocks, "_thread_core_waits", lambda clocks: dict(enumerate(self.waited)))

    def verdict_of(self, ran, waited, seconds=1000.0, look=0.05, limit=2.0, row=None):
        """Ends of a job: each look finds ``ran`` CPU seconds more and, of each thread, seconds waited."""
        num_looks, until = 0, self.now + seconds
        watch = JobWatch(limit, 1, None, 1 << 30, row)
        watch.begin([])
        while self.now < until:
            self.now += look
            self.cpu += ran[num_looks % len(ran)]
            told = waited[num_looks % len(waited)]
            num_looks += 1
            self.waited = [sum(pair) for pair in zip(self.waited, told, strict=True)]
            cause = watch.exceeded_limit()
            if cause is not None:
                return cause, self.now
        return None, self.now


LOOK = 0.05
BOUGHT = {
    # Sixty threads wake together, and each waits until those before it have run for 50 microseconds.
    "bursts": (60 * 50e-6, [number * 50e-6 for number in range(60)]),
    "long bursts": (0.01, [number * 0.01 / 60 for number in range(60)]),
    "all wait, one runs": (0.003, [0.003] * 60),
}


@pytest.mark.parametrize(("ran", "waited"), BOUGHT.values(), ids=BOUGHT)
def test_threads_that_wait_for_each_other_buy_no_time(monkeypatch, ran, waited):
    """The limits are 2 CPU seconds and 7 s asleep; a program that uses up one and then the other takes 9 s."""
    cause, when = Machine(monkeypatch, len(waited)).verdict_of([ran], [waited])
    assert cause in (OUT_OF_CPU, OUT_OF_WALL) and when < 7 + 2 + 2 + 2 * LOOK


def test_a_row_shares_its_sleep_but_for_a_second_of_each_case(monkeypatch):
    """Waits of 0.9 s that the kernel tells of too late: hundreds of cases end none. Then 7 s, less what was slept."""
    machine, row = Machine(monkeypatch, 1), SleepTotal()
    for _ in range(200):
        cause, _ = machine.verdict_of([0.0], [[0.0]], seconds=0.9, row=row)
        assert cause is None
    cause, _ = machine.verdict_of([0.0], [[0.0]], seconds=5.0, row=row)
    began = machine.now
    assert cause is None
    cause, ended = machine.verdict_of([0.0], [[0.0]], row=row)
    assert cause == OUT_OF_WALL and ended - began == pytest.approx(7.0 - 4.0, abs=3 * LOOK)


CROWDS = list(product([1, 2, 5, 20, 90], [1, 2, 4], [1, 3, 8]))


@pytest.mark.parametrize(("crowd", "num_threads", "lag"), slow_but(CROWDS[::4], CROWDS))
def test_a_program_that_computes_is_never_ended_for_sleeping(monkeypatch, crowd, num_threads, lag):
    """Its threads take turns; one of them runs or waits at any time, which the kernel tells some looks later."""
    ran = LOOK / crowd
    waited = [[0.0] * num_threads for _ in range(lag * num_threads)]
    for thread in range(num_threads):
        waited[lag * (thread + 1) - 1][thread] = lag * (LOOK - ran)
    cause, when = Machine(monkeypatch, num_threads).verdict_of([ran], waited)
    assert cause == OUT_OF_CPU and when == pytest.approx(2.0 * crowd, rel=0.06)


def test_waits_that_are_told_in_the_window_after_the_work_buy_nothing(monkeypatch):
    """Sixty threads work at the end of one second, and the kernel tells of their waits at the start of the next."""
    ran, waited = [0.0] * 20, [[0.0] * 60 for _ in range(20)]
    ran[18], waited[1] = 0.04, [0.03] * 60
    cause, when = Machine(monkeypatch, 60).verdict_of(ran, waited)
    assert cause == OUT_OF_WALL and when < 7 * 1.1


@pytest.mark.parametrize("threads", [2, 60])
def test_waits_of_many_threads_for_others_cover_no_earlier_sleep(monkeypatch, threads):
    """They all wait for another program at once, a tenth of the time, and sleep the rest."""
    cause, when = Machine(monkeypatch, threads).verdict_of([1e-3], [[0.0] * threads] * 90 + [[LOOK] * threads] * 10)
    assert cause == OUT_OF_WALL and when < 7 / 0.8 + 2 * LOOK


def test_waiting_is_credited_up_to_a_hundred_times_the_seconds_used(monkeypatch):
    cause, when = Machine(monkeypatch, 1).verdict_of([LOOK / 10_000], [[LOOK * 0.9]])
    assert cause == OUT_OF_WALL and when < 12


def test_cores_used_at_once_are_not_saved_for_later_sleep(monkeypatch):
    """Four threads on four cores for half a second, then sleep. Within one window, a second, time is one."""
    machine = Machine(monkeypatch, 4)
    watch = JobWatch(2.0, 1, None, 1 << 30)
    watch.begin([])
    while (cause := watch.exceeded_limit()) is None:
        machine.now += LOOK
        machine.cpu += 4 * LOOK if machine.now < 0.45 else 0.0
    assert cause == OUT_OF_WALL and machine.now < 0.45 + 7 + 1


WAITERS = """
import threading, time, zlib
data = bytes(300_000)
def work():
    while True:
        zlib.crc32(data)  # lets the others run
        time.sleep(0.1 - time.monotonic() % 0.1)
for _ in range(60): threading.Thread(target=work, daemon=True).start()
time.sleep(1000)
"""


def test_sixty_waiting_threads_do_not_hold_a_worker():
    with Sandbox(num_workers=1, tier=0) as sandbox:
        outcome = sandbox.submit(WAITERS, StdioTests((("", ""),), timeout_seconds=1.0)).result(100)
    assert outcome.verdict is Verdict.TIMED_OUT
