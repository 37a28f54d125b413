"""``lit-rl fit`` on an idle machine and beside busy processes: wall and CPU seconds.

    python benchmarks/beside_load.py [--rounds 3] [--states idle beside]

The run is ``lit-rl fit --config basics_grpo`` of 30 rollouts, whose policy was imitated once before (kept in
``runs/beside_load``), in an environment that sets nothing about threads. CPU seconds are those of the process and all
that it started, sandbox and programs included. The busy processes are loops in Python, started here and ended by pid.

**Fair share.** A run that takes ``wall`` and ``cpu`` seconds alone has ``cpu / wall`` runnable threads on average: the
trainer's, and those of the sandbox's workers while they run programs. Beside ``busy`` processes, a scheduler that is
fair to threads gives each of ``cpu / wall + busy`` threads the same part of ``cores``, so the run should take
``wall * max(1, (cpu / wall + busy) / cores)``. The formula leaves out what else runs on the machine, so
that CPU seconds count first if the load at the start, which is shown, is not near 0.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
THREAD_VARIABLES = ("OMP_", "GOMP_", "KMP_", "MKL_", "MALLOC_")
LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(10**6):
        pass
"""
ROLLOUTS, UPDATES, BUSY = 30, 300, 4
"""Of the run, of the imitation that its policy comes from, and processes beside."""
FOLDER = Path("runs/beside_load")


class Used(NamedTuple):
    """Seconds of one run."""

    wall: float
    cpu: float


def lit_rl(*arguments: str, busy: int = 0) -> Used:
    """Run ``lit-rl`` beside loops, each in a session of its own as other people's processes are."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(THREAD_VARIABLES)}
    loop = [sys.executable, "-c", LOOP]
    with tempfile.TemporaryFile("w+") as log:
        loops = [subprocess.Popen(loop, start_new_session=True) for _ in range(busy)]
        try:
            start = time.perf_counter()
            command = [sys.executable, "-P", "-m", "lit_rl", *arguments]  # not the code of the folder it runs in
            run = subprocess.Popen(command, env=kept | {"PYTHONPATH": str(ROOT)}, stdout=log, stderr=log)
            _, status, used = os.wait4(run.pid, 0)
            end = time.perf_counter()
            run.returncode = os.waitstatus_to_exitcode(status)
        finally:
            for one in loops:
                one.kill()
                one.wait()
        if status:
            log.seek(0)
            raise SystemExit(f"lit-rl {' '.join(arguments)} failed:\n{log.read()[-2000:]}")
    return Used(end - start, used.ru_utime + used.ru_stime)


def warm_start() -> str:
    """Imitate and export a policy, unless that was done before; return the policy's folder."""
    run, model = str(FOLDER / f"sft_{UPDATES}"), (FOLDER / f"model_{UPDATES}").resolve()
    if not model.exists():
        lit_rl("fit", "--config", "basics_sft", "--run_dir", run, "--model.max_updates", str(UPDATES))
        lit_rl("export", run, str(model))
    return str(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--states", nargs="+", choices=("idle", "beside"), default=["idle", "beside"])
    given = parser.parse_args()
    model = warm_start()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {ROLLOUTS} rollouts, {BUSY} busy processes")
    table: dict[str, list[Used]] = {state: [] for state in given.states}
    for _ in range(given.rounds):
        for state in given.states:
            with tempfile.TemporaryDirectory() as run:
                used = lit_rl(
                    *("fit", "--config", "basics_grpo", "--run_dir", run),
                    *("--model.policy.model", model, "--model.max_rollouts", str(ROLLOUTS)),
                    busy=BUSY if state == "beside" else 0,
                )
            table[state].append(used)
            print(f"{state:<8}wall {used.wall:7.1f}  CPU {used.cpu:6.1f}", flush=True)
    middle = {
        state: Used(*(statistics.median(values) for values in zip(*runs, strict=True))) for state, runs in table.items()
    }
    for state, used in middle.items():
        print(f"median, {state:<8}wall {used.wall:7.1f}  CPU {used.cpu:6.1f}")
    if len(middle) < 2:
        return
    idle, beside = middle["idle"], middle["beside"]
    fair = idle.wall * max(1.0, (idle.cpu / idle.wall + BUSY) / (os.cpu_count() or 1))
    print(f"CPU beside / idle: {beside.cpu / idle.cpu:.2f}")
    print(f"wall beside / fair share ({fair:.0f} s): {beside.wall / fair:.2f}")


if __name__ == "__main__":
    main()
