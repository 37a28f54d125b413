"""Pictures of `lit-rl report --html` and of TensorBoard for the docs: real runs, as a headless browser shows them.

    python benchmarks/report_pictures.py runs/basics/grpo_seed0 runs/basics/grpo_seed1 --out docs/pictures

Of the page the beginning, wide and on a narrow screen, and a group of completions; of
TensorBoard the overview under CUSTOM SCALARS. Needs Chromium (Debian: apt-get install chromium-headless-shell).
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.browser import Page, browser

from lit_rl.cli.report import report

WIDE, NARROW = 1400, 420
BOARD_HEIGHT = 1000

HEADING = "[...document.querySelectorAll('h2')].find(h => h.textContent.startsWith('{}'))"


def picture(page: Page, file: Path, first: str, most: int, width: int = WIDE) -> None:
    """From an element downward, in at most this many pixels of height."""
    top = page.run(f"{first}.getBoundingClientRect().top + scrollY")
    height = min(most, page.run("document.documentElement.scrollHeight") - top + 8)
    page.picture(file, clip={"x": 0, "y": max(0, top - 8), "width": width, "height": height, "scale": 1})


def of_report(page: Page, runs: Sequence[str], rollout: int, out: Path) -> None:
    """The page of `lit-rl report`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        report([*runs, "--html", str(file)])
        page.open(file, width=WIDE)
        picture(page, out / "report_curves.png", "document.querySelector('h1')", 900)
        choice = "document.getElementById('choose-rollout')"
        page.run(f"(s => {{ s.value = {rollout}; s.dispatchEvent(new Event('change')) }})({choice})")
        picture(page, out / "report_rollout.png", HEADING.format("Rollouts"), 560)
        page.open(file, width=NARROW)
        picture(page, out / "report_narrow.png", "document.querySelector('h1')", 900, NARROW)
    assert not page.said, page.said


@contextlib.contextmanager
def board(runs: Sequence[str]) -> Iterator[str]:
    """The address of a TensorBoard that shows these runs."""
    named = ",".join(f"run_{number}:{run}" for number, run in enumerate(runs))
    command = [sys.executable, "-m", "tensorboard.main", "--logdir_spec", named, "--port", "0", "--load_fast=false"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = (re.search(r"http://\S+", line) for line in process.stderr)
        yield next(one.group(0) for one in found if one)
    finally:
        process.terminate()
        process.wait()


def of_board(page: Page, runs: Sequence[str], out: Path, seconds: float) -> None:
    """The overview of TensorBoard, once its curves are drawn."""
    with board(runs) as address:
        time.sleep(seconds)  # it reads the runs after it has begun to answer
        page.open(f"{address}#custom_scalars", width=WIDE, height=BOARD_HEIGHT)
        time.sleep(seconds)
        page.picture(out / "board.png", clip={"x": 0, "y": 0, "width": WIDE, "height": BOARD_HEIGHT, "scale": 1})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    parser.add_argument("--rollout", type=int, default=2, help="which of the page's rollouts, from 0")
    parser.add_argument("--seconds", type=float, default=15, help="that TensorBoard is given to read, and to draw")
    parsed = parser.parse_args()
    with browser() as page:
        of_report(page, parsed.runs, parsed.rollout, parsed.out)
        of_board(page, parsed.runs, parsed.out, parsed.seconds)


if __name__ == "__main__":
    main()
