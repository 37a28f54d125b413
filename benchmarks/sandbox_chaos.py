"""Judges, zygotes and programs are killed at random: no verdict is wrong, none is missing, nothing is left over.

``python benchmarks/sandbox_chaos.py [--programs 20000] [--workers 4] [--tier T] [--seed S]``. Programs whose verdict is
known are judged while one process of the sandbox after the other gets SIGKILL. Exits with 1 if a verdict was wrong (an
infrastructure failure is), or a process, folder, descriptor or control group is left.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from lit_rl.execution import AssertTests, CallTests, Sandbox, StdioTests, Verdict

KINDS = ("judge", "zygote", "program")
PRINTS = StdioTests((("3\n", "6"), ("4\n", "8")), timeout_seconds=2.0)
CALLS = CallTests((((1,), 2), ((2,), 3)), "f", 2.0)
LITERAL = AssertTests("assert f(1) == 2\nassert f(2) == 3", timeout_seconds=2.0)
GRADED = AssertTests("for i in range(2):\n    assert f(i) == i + 1", timeout_seconds=2.0)
WAITS = "import time\ntime.sleep(0.05)\n"
# Program, check, verdict.
KNOWN = [
    ("print(int(input()) * 2)", PRINTS, Verdict.PASSED),
    (WAITS + "print(int(input()) * 2)", PRINTS, Verdict.PASSED),
    ("print(int(input()) * 3)", PRINTS, Verdict.WRONG_ANSWER),
    ("print(1 / 0)", PRINTS, Verdict.EXCEPTION),
    ("print(", PRINTS, Verdict.SYNTAX_ERROR),
    *[(f"def f(x): return x + {1 + wrong}", check, (Verdict.PASSED, Verdict.WRONG_ANSWER)[wrong])
      for check in (CALLS, LITERAL, GRADED) for wrong in (0, 1)],
    *[(WAITS + "def f(x): return x + 1", check, Verdict.PASSED) for check in (CALLS, LITERAL, GRADED)],
    ("def f(x): raise KeyError", CALLS, Verdict.EXCEPTION),
    ("import os\nos.makedirs('a/b')\nopen('a/b/c', 'w')\ndef f(x): return x + 1", CALLS, Verdict.PASSED),
]  # fmt: skip


def processes_below(root: int) -> dict[str, list[int]]:
    """Descendants of a process: its judges, their zygotes, their programs."""
    children: dict[int, list[int]] = {}
    names = {}
    for entry in os.listdir("/proc"):
        try:
            name, _, rest = Path(f"/proc/{entry}/stat").read_text().partition(" (")[2].rpartition(") ")
            children.setdefault(int(rest.split()[1]), []).append(int(entry))
            names[int(entry)] = name
        except (OSError, ValueError, IndexError):
            continue
    found: dict[str, list[int]] = {kind: [] for kind in KINDS}
    level = [(pid, 0) for pid in children.get(root, []) if names[pid] in ("lit_rl-judge", "python", "python3")]
    while level:
        pid, depth = level.pop()
        below = children.get(pid, [])
        # A program bears its zygote's name and has nothing below it; a zygote may be inside another.
        is_program = depth >= 2 and not below and "zygote" in names.get(pid, "")
        found["judge" if depth == 0 else "program" if is_program else "zygote"].append(pid)
        level += [(child, depth + 1) for child in below]
    return found


class Killer(threading.Thread):
    """Kills one process of the sandbox after another until told to stop.

    Args:
        stream: of random numbers.
        mean_seconds: between two kills.
    """

    def __init__(self, stream: random.Random, mean_seconds: float) -> None:
        super().__init__(daemon=True)
        self.stream, self.mean_seconds = stream, mean_seconds
        self.killed: collections.Counter[str] = collections.Counter()
        self.is_over = threading.Event()

    def run(self) -> None:
        """Kill, wait, kill."""
        while not self.is_over.wait(self.stream.expovariate(1 / self.mean_seconds)):
            found = processes_below(os.getpid())
            kind = self.stream.choice([kind for kind in KINDS if found[kind]] or ["none"])
            if kind != "none":
                self.kill(self.stream.choice(found[kind]), kind)

    def kill(self, pid: int, kind: str) -> None:
        """Kill a process through a descriptor, so that its number cannot mean another by now."""
        try:
            process = os.pidfd_open(pid)
        except OSError:
            return
        try:
            if "lit_rl" in Path(f"/proc/{pid}/comm").read_text():
                signal.pidfd_send_signal(process, signal.SIGKILL)
                self.killed[kind] += 1
        except OSError:
            pass
        finally:
            os.close(process)


def what_is_left(folder: str) -> dict[str, object]:
    """State of the machine that a sandbox must leave as it was."""
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob("**/lit_rl-*")]
    return {
        "processes": [pid for pids in processes_below(os.getpid()).values() for pid in pids],
        "folders": sorted(os.listdir(folder)),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "control groups": [path for path in groups if str(os.getpid()) in _makers(path)],
    }


def _makers(group: str) -> str:
    """Whose supervisor made a group: it bears the supervisor's number, known only while that lives."""
    pid = Path(group).name.split("-")[1]
    return str(os.getpid()) if pid in SUPERVISORS else ""


SUPERVISORS: set[str] = set()


def chaos(num_programs: int, num_workers: int, tier: int | None, seed: int, mean_seconds: float) -> list[str]:
    """Run it; returns the faults found, one line each."""
    stream = random.Random(seed)
    wrong: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        before = what_is_left(folder)
        killer = Killer(random.Random(seed + 1), mean_seconds)
        begun = time.monotonic()
        with Sandbox(num_workers, 256 << 20, 1 << 20, tier=tier, temporary_folder=folder) as sandbox:
            tier = sandbox.tier
            killer.start()
            judged = 0
            while judged < num_programs:
                batch = [stream.choice(KNOWN) for _ in range(min(500, num_programs - judged))]
                SUPERVISORS.update(map(str, processes_below(os.getpid())["judge"]))
                outcomes = sandbox.judge_many([item[:2] for item in batch])
                judged += len(batch)
                for (program, check, expected), outcome in zip(batch, outcomes, strict=True):
                    if outcome.verdict is not expected:
                        kind = "graded" if check is GRADED else type(check).__name__
                        said = (
                            f"{outcome.exception_type} {outcome.exception_message[-200:]!r} {outcome.stderr[-200:]!r}"
                        )
                        wrong[f"{outcome.verdict} where {expected} was due: {kind}, {program[-60:]!r}: {said}"] += 1
            killer.is_over.set()
            killer.join()
        seconds = time.monotonic() - begun
        left = what_is_left(folder)
    print(f"tier {tier}, {num_workers} workers, seed {seed}: {num_programs} programs in {seconds:.0f} s")
    print(f"killed: {dict(sorted(killer.killed.items()))}")
    print(f"wrong verdicts: {wrong.total()}")
    print(f"left: { {key: value for key, value in left.items() if value != before[key]} or 'nothing' }")
    faults = [f"{number} x {text}" for text, number in wrong.items()]
    faults += [f"{key}: {before[key]} before, {left[key]} after" for key in before if left[key] != before[key]]
    return faults


def main() -> int:
    """Entry point; the exit status says whether every bound held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--tier", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=float, default=0.5, help="mean seconds between two kills")
    options = parser.parse_args()
    faults = chaos(options.programs, options.workers, options.tier, options.seed, options.every)
    print("\n".join(faults) or "no faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
