"""Judge programs under stress: no verdict is wrong, none is missing, nothing grows, nothing is left over.

    python benchmarks/sandbox_stress.py garbage --minutes 30              # programs and messages of garbage
    python benchmarks/sandbox_stress.py kills --minutes 30 --workers 4    # the sandbox's processes get SIGKILL

Each round is made from the seed and its number alone. These must hold: each program gets its verdict, none that is
meant to be wrong passes, and none is an infrastructure failure; no supervisor takes more than 300 MB; memory and
descriptors of the last third of the time are those of the middle third, within a tenth and 4 MiB; no process, folder,
descriptor or control group is left. A fault is printed as a line of JSON with seed and round, and makes the status 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sandbox_garbage import CHECKS, HONEST, fuzz_parsers, garbage_program

from lit_rl.execution import Outcome, Sandbox, Verdict

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "execution"))
from suites import changes, children, descendants, state, told_of

MAX_MEGABYTES = 300
Item = tuple[str, Any, Verdict | None]
"""A program, its check and its verdict; ``None`` stands for any verdict but a pass."""


# -- programs ----------------------------------------------------------------------------------------------------------

WAITS = "import time\ntime.sleep(0.05)\n"


def honest(rng: random.Random) -> Item:
    """Return a program whose verdict does not depend on what else happens: the program has time to spare."""
    source, check, expected = rng.choice(HONEST)
    return source, replace(check, timeout_seconds=10.0), expected


def garbage(rng: random.Random) -> list[Item]:
    """Return programs that write garbage among as many honest ones."""
    items: list[Item] = []
    for _ in range(20):
        check = rng.choice(CHECKS)
        items += [(garbage_program(rng, check), check, None), honest(rng)]
    return items


def kills(rng: random.Random) -> list[Item]:
    """Return honest programs, half of which take a while."""
    items = [honest(rng) for _ in range(200)]
    return [(rng.choice(["", WAITS]) + source, check, expected) for source, check, expected in items]


WORK: dict[str, Callable[[random.Random], list[Item]]] = {"garbage": garbage, "kills": kills}


# -- the sandbox's processes -------------------------------------------------------------------------------------------


def processes() -> dict[int, str]:
    """Return the kind of each process of this process's sandboxes: judge, zygote or program."""
    judges = [pid for pid in children("self") if told_of(pid, "comm").strip() in ("lit_rl-judge", "python", "python3")]
    found = dict.fromkeys(judges, "judge")
    for zygote in (child for judge in judges for child in children(judge)):
        found[zygote] = "zygote"
        for pid in descendants(zygote):
            # A program bears its zygote's name and has nothing below it; a zygote may be inside another.
            found[pid] = "program" if "zygote" in told_of(pid, "comm") and not children(pid) else "zygote"
    return found


class Killer(threading.Thread):
    """Kills a process about every half second while most workers live; otherwise a round might never end."""

    def __init__(self, rng: random.Random, num_workers: int) -> None:
        super().__init__(daemon=True)
        self.rng, self.num_workers = rng, num_workers
        self.killed: Counter[str] = Counter()
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.wait(self.rng.expovariate(2.0)):
            found = processes()
            if list(found.values()).count("judge") <= self.num_workers // 2:
                continue
            kind = self.rng.choice(sorted(set(found.values())))
            pid = self.rng.choice([pid for pid, its in found.items() if its == kind])
            with contextlib.suppress(OSError):  # through a descriptor: the number cannot mean another process by then
                process = os.pidfd_open(pid)
                try:
                    if "lit_rl" in told_of(pid, "comm"):
                        signal.pidfd_send_signal(process, signal.SIGKILL)
                        self.killed[kind] += 1
                finally:
                    os.close(process)


def peak_megabytes() -> int:
    """Return the largest memory peak of the supervisors so far."""
    most = 0
    for pid in (pid for pid, kind in processes().items() if kind == "judge"):
        with contextlib.suppress(IndexError):  # one that has ended has no peak
            most = max(most, int(told_of(pid, "status").partition("VmHWM:")[2].split()[0]) >> 10)
    return most


def usage() -> tuple[int, int]:
    """Return the private memory in KiB and the descriptors of this process and the sandbox's processes."""
    memory = descriptors = 0
    for pid in (os.getpid(), *processes()):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            memory += sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))
    return memory, descriptors


# -- judging -----------------------------------------------------------------------------------------------------------


@dataclass
class Found:
    """Counts of a run; ``peak`` is a supervisor's memory peak in MB, ``killed`` counts processes by kind."""

    rounds: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    faults: list[dict[str, Any]] = field(default_factory=list)
    peak: int = 0
    killed: Counter[str] = field(default_factory=Counter)


def fault_of(outcome: Outcome, expected: Verdict | None) -> str | None:
    """Return the fault of a verdict; ``None`` if there is none."""
    if outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE:
        return "infrastructure failure"
    if expected is None:
        return "a wrong program passed" if outcome.passed else None
    return None if outcome.verdict is expected else f"{outcome.verdict} instead of {expected}"


def run(
    work: str,
    seed: int,
    minutes: float,
    num_workers: int = 2,
    tier: int | None = None,
    max_rounds: int | None = None,
) -> Found:
    """Judge rounds until the time is up."""
    found, supervisors, points = Found(), set[int](), list[tuple[int, int]]()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        before, killer = state(folder), Killer(random.Random(seed + 1), num_workers)
        began = noted = time.monotonic()
        with Sandbox(num_workers, 256 << 20, 4 << 20, tier=tier, temporary_folder=folder) as sandbox:
            if work == "kills":
                killer.start()
            while time.monotonic() - began < 60 * minutes and found.rounds != max_rounds:
                rng = random.Random(f"{seed}/{found.rounds}")
                at = {"seed": seed, "round": found.rounds}
                if work == "garbage":
                    found.faults += [at | fault for fault in fuzz_parsers(rng, 100)]
                supervisors |= {pid for pid, kind in processes().items() if kind == "judge"}
                items = WORK[work](rng)
                outcomes = sandbox.judge_many([item[:2] for item in items])
                for (source, check, expected), outcome in zip(items, outcomes, strict=True):
                    found.verdicts[f"{expected or 'wrong'}: {outcome.verdict}"] += 1
                    if fault := fault_of(outcome, expected):
                        about = {"fault": fault, "check": type(check).__name__, "outcome": repr(outcome)[:2000]}
                        found.faults.append(at | about | {"program": source})
                found.peak = max(found.peak, peak_megabytes())
                found.rounds += 1
                if time.monotonic() - noted >= min(60.0, 6 * minutes):
                    noted = time.monotonic()
                    points.append(usage())
                    print(f"{(noted - began) / 60:.1f} min, {found.verdicts.total()} programs, {points[-1][0]} KiB, "
                          f"{points[-1][1]} descriptors, {len(found.faults)} faults", flush=True)  # fmt: skip
            killer.is_over.set()
            if killer.is_alive():
                killer.join()
        found.faults += [{"fault": change} for change in changes(before, state(folder))]
    groups = [
        path for path in Path("/sys/fs/cgroup").glob("**/lit_rl-*") if int(path.name.split("-")[1]) in supervisors
    ]
    found.faults += [{"fault": f"{path} is left"} for path in groups]
    found.killed = killer.killed
    if found.peak > MAX_MEGABYTES:
        found.faults.append({"fault": f"a supervisor took {found.peak} MB"})
    if third := len(points) // 3:
        for index, (name, slack) in enumerate((("KiB", 4096), ("descriptors", 2))):
            middle, last = (statistics.median(p[index] for p in points[i * third :][:third]) for i in (1, 2))
            if last > 1.1 * middle + slack:
                found.faults.append({"fault": f"{name} grew from {middle:.0f} to {last:.0f}"})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=WORK)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    found = run(given.work, given.seed, given.minutes, given.workers)
    print("".join(json.dumps(fault) + "\n" for fault in found.faults), end="")
    print(f"seed {given.seed}: {found.rounds} rounds, {found.verdicts.total()} programs, {found.killed.total()} kills, "
          f"supervisors' peak {found.peak} MB, {len(found.faults)} faults")  # fmt: skip
    for name, count in sorted((found.verdicts + found.killed).items()):
        print(f"  {count:7d} {name}")
    sys.exit(1 if found.faults else os.EX_OK)


if __name__ == "__main__":
    main()
