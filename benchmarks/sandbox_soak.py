"""Random programs at full load for a long time: memory and descriptors stay flat, no verdict is missing.

``python benchmarks/sandbox_soak.py --minutes 60 --log soak.log``: draws from the suites of hostile and
honest programs in all ways of judging, C included, and writes one line a minute and a summary. Exits with 1
if a hostile program passed, an honest one did not, an outcome is missing, or the last third of the run used
more memory or descriptors than the middle third by a tenth and 4 MiB.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from lit_rl.execution import Sandbox, StdioTests, Verdict

TESTS = Path(__file__).resolve().parent.parent / "tests" / "execution"
SUM_IN_C = '#include <stdio.h>\nint main(){{int a,b;scanf("%d %d",&a,&b);printf("%d\\n7 7\\n",a+b+{0}-{0});}}'
BATCH = 64


def load_suites():
    spec = importlib.util.spec_from_file_location("suites", TESTS / "suites.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def draw(suites, stream: random.Random, secret: str):
    """A program, its check, and whether it may pass (``None``: depends on how loaded the machine is)."""
    if stream.random() < 0.02:
        case = (("1 2\n3 4\n", "3\n7 7\n"),)
        return SUM_IN_C.format(stream.randrange(50)), StdioTests(case, "c", 2.0), True
    kind = stream.choice(["literal", "graded", "calls", "stdio"])
    if stream.random() < 0.3:
        programs = suites.programs(suites.hostile_programs, kind)
        name = stream.choice(sorted(programs))
        source = programs[name].replace("$SECRET", secret).replace("$PID", str(os.getpid()))
        return source, suites.check(kind, 0.2), False
    programs = suites.programs(suites.honest_programs, kind)
    return programs[stream.choice(sorted(programs))], suites.check(kind, 10.0), True


def family() -> list[int]:
    """This process and all its descendants."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    chosen = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in chosen} - chosen
        if not more:
            return sorted(chosen)
        chosen |= more


def usage() -> tuple[int, int, int]:
    """Private memory in KiB, descriptors and processes of this process and all its descendants."""
    memory = descriptors = count = 0
    for pid in family():
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            memory += sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))
            count += 1
        except OSError:
            continue
    return memory, descriptors, count


def soak(minutes: float, num_workers: int, tier: int | None, log) -> int:
    suites = load_suites()
    stream = random.Random(0)
    verdicts: collections.Counter[str] = collections.Counter()
    faults: list[str] = []
    points: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        secret = Path(folder) / "secret"
        secret.write_text("token")
        begun = noted = time.monotonic()
        submitted = 0
        with Sandbox(num_workers, 256 << 20, 4 << 20, tier=tier, temporary_folder=folder) as sandbox:
            print(f"tier {sandbox.tier}, {num_workers} workers, {minutes:g} minutes", file=log, flush=True)
            while time.monotonic() - begun < 60 * minutes:
                batch = [draw(suites, stream, str(secret)) for _ in range(BATCH)]
                submitted += len(batch)
                outcomes = sandbox.judge_many([(source, check) for source, check, _ in batch])
                for (source, _, may_pass), outcome in zip(batch, outcomes, strict=True):
                    verdicts[outcome.verdict.value] += 1
                    wrong = outcome.passed != may_pass or outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE
                    if wrong:
                        faults.append(f"{outcome.verdict} {outcome.stderr[-200:]!r} of {source[:200]!r}")
                        print(faults[-1], file=log, flush=True)
                if time.monotonic() - noted >= min(60.0, 6 * minutes):
                    noted = time.monotonic()
                    memory, descriptors, processes = usage()
                    points.append((memory, descriptors))
                    print(
                        f"{(noted - begun) / 60:6.1f} min  {submitted:8d} programs  {memory:7d} KiB  "
                        f"{descriptors:4d} descriptors  {processes:2d} processes  {len(faults)} faults",
                        file=log,
                        flush=True,
                    )
        left = sorted(os.listdir(folder))
    if left != ["secret"]:
        faults.append(f"left in the folder: {left}")
    if sum(verdicts.values()) != submitted:
        faults.append(f"{submitted} programs, {sum(verdicts.values())} outcomes")
    third = len(points) // 3
    for index, what in enumerate(("KiB", "descriptors")):
        if third:
            middle = statistics.median(point[index] for point in points[third : 2 * third])
            last = statistics.median(point[index] for point in points[2 * third :])
            print(f"median {what}: {middle:.0f} in the middle third, {last:.0f} in the last", file=log)
            if last > 1.1 * middle + (4096 if index == 0 else 2):
                faults.append(f"{what} grew from {middle:.0f} to {last:.0f}")
    print(f"{submitted} programs: {dict(sorted(verdicts.items()))}", file=log)
    print("\n".join(faults) or "no faults", file=log, flush=True)
    return 1 if faults else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tier", type=int, default=None)
    parser.add_argument("--log", type=Path, default=None, help="where to write; standard output by default")
    options = parser.parse_args()
    if options.log is None:
        return soak(options.minutes, options.workers, options.tier, sys.stdout)
    with options.log.open("w") as log:
        return soak(options.minutes, options.workers, options.tier, log)


if __name__ == "__main__":
    sys.exit(main())
