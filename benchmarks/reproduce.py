"""Run the documents' experiments, ours beside theirs; every number of docs/experiments.md comes from here.

    python benchmarks/reproduce.py                      # all parts, three seeds: make reproduce
    python benchmarks/reproduce.py sorting --seeds 0    # one part, one seed

Two cases run side by side, each in a process of its own with one thread. Each finished case and seed is a line of
``results.jsonl`` in the folder, so a run that was interrupted goes on where it was. A table for each part goes to the
screen and, with --page, between its marks on a Markdown page; a picture of it goes to ``pictures`` beside it.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from pages import put_into
from reproductions import PARTS
from reproductions.part import Case, Numbers, Part, Store


def aside(folder: Path, work: Callable[[], Any]) -> Any:
    """Do some work in this process; what it prints goes to ``log.txt`` in its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    return work()


def prepare(part: Part, folder: Path) -> None:
    """Prepare what a part's cases begin with, unless an earlier run has made it."""
    done = folder / "prepared"
    if part.prepare is not None and not done.exists():
        aside(folder, partial(part.prepare, folder))
        done.touch()


def work(part: Part, case: Case, seed: int, folder: Path) -> tuple[Numbers, float]:
    """Run a case in this process; return its numbers, and the CPU seconds that this process took for them."""
    own = folder / part.name / f"{case.name}, seed {seed}".replace("/", " ")
    started = time.process_time()
    numbers: Numbers = aside(own, lambda: case.run(seed, own))
    return numbers, time.process_time() - started


def end_with_workers(*_: object) -> None:
    """End the running cases when asked to stop, since they would go on without this process."""
    for worker in mp.active_children():
        worker.terminate()
    os._exit(143)


def run(parts: Sequence[Part], seeds: Sequence[int], folder: Path, processes: int) -> None:
    """Run the cases that have not been run yet, several side by side."""
    store = Store(folder / "results.jsonl")
    missing = [
        (part, case, seed)
        for seed in seeds  # outermost: what was interrupted has whole seeds
        for part in parts
        for case in part.cases
        if (part.name, case.name, seed) not in store.lines and (case.seeded or seed == seeds[0])
    ]
    started = time.perf_counter()
    signal.signal(signal.SIGTERM, end_with_workers)
    # No fork: a copy of a process that has used torch's threads may hang.
    with ProcessPoolExecutor(processes, mp_context=mp.get_context("spawn")) as pool:
        begun = [part for part in parts if any(one[0] is part for one in missing)]
        list(pool.map(prepare, begun, [folder / part.name for part in begun]))
        running = {pool.submit(work, *one, folder): one for one in missing}
        for finished, future in enumerate(as_completed(running), 1):
            (part, case, seed), (numbers, seconds) = running[future], future.result()
            store.add(part.name, case.name, seed, seconds, numbers)
            minutes = (time.perf_counter() - started) / 60
            print(
                f"{finished}/{len(missing)} after {minutes:.1f} minutes: "
                f"{part.name}: {case.name}, seed {seed}: {seconds:.0f} CPU s",
                flush=True,
            )


def write(parts: Sequence[Part], seeds: Sequence[int], folder: Path, page: Path | None) -> None:
    """Write the tables to the screen and to a page."""
    store = Store(folder / "results.jsonl")
    machine = f"{os.cpu_count()} cores, torch {torch.__version__.partition('+')[0]}"
    for part in parts:
        results, seconds = store.of_part(part, seeds), store.cpu_seconds(part)
        used = seeds if any(case.seeded for case in part.cases) else seeds[:1]
        note = (
            f"`python benchmarks/reproduce.py {part.name} --seeds {' '.join(map(str, used))}`, "
            f"{datetime.now(UTC):%Y-%m-%d}, {machine}; {seconds:.0f} CPU seconds."
        )
        below = "" if part.below is None else part.below(results) + "\n"
        text = f"{part.table(results)}\n{below}{note}\n"
        if part.picture is not None:
            pictures = (folder if page is None else page.parent) / "pictures"
            part.picture.write(results, pictures / f"experiments_{part.name}.svg")
            text += f"\n![{part.picture.says}](pictures/experiments_{part.name}.svg)\n"
        print(f"\n{part.name}\n\n{text}")
        if page is not None:
            put_into(page, text, f"benchmarks/reproduce.py {part.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; if none, all but those that take hours"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, default=Path("runs/reproduce"), help="where results are kept")
    parser.add_argument("--processes", type=int, default=2, help="cases side by side")
    parser.add_argument("--page", type=Path, help="Markdown page for the tables")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no part is called {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    parts = [PARTS[name] for name in given.parts or [name for name, part in PARTS.items() if not part.hours]]
    for part in parts:
        if part.needs is not None and find_spec(part.needs) is None:
            parser.error(f"{part.name} needs the package {part.needs}, which is not installed: make reproduce does it")
    run(parts, given.seeds, given.folder, given.processes)
    write(parts, given.seeds, given.folder, given.page)


if __name__ == "__main__":
    main()
