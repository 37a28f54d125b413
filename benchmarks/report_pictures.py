"""Pictures of `lit-rl report --html` and of TensorBoard for the docs: real runs, as a headless browser shows them.

    python benchmarks/report_pictures.py runs/basics/grpo_seed0 runs/basics/grpo_seed1 --out docs/pictures

The page at a wide and a narrow width, and the overview that TensorBoard has under CUSTOM SCALARS.

Needs Chromium (Debian: apt-get install chromium-headless-shell).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.browser import Page, browser

from lit_rl.report import report

WIDTH = 1180

MIXED = """(s => {
  const mixed = [...s.options].filter(o => / -?0?\\.?\\d* .*-|[^\\d.]0 | 1 .* 0/.test(o.textContent));
  s.value = (mixed.at(-1) || s.options[0]).value;
  s.dispatchEvent(new Event('change'));
})(document.getElementById('choose-problem'))"""
"""Choose a problem whose rows differ in reward: there is something to see."""


def picture(page: Page, file: Path, first: str, last: str | None = None, most: int = 1000) -> None:
    """Everything from one element to another, in at most this many pixels of height."""
    top = page.run(f"{first}.getBoundingClientRect().top + scrollY")
    end = page.run(f"{last}.getBoundingClientRect().top + scrollY") if last else top + most
    page.picture(file, clip={"x": 0, "y": top - 8, "width": WIDTH, "height": min(most, end - top), "scale": 1})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--rollout", type=int, default=2, help="which of the page's rollouts, from 0")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, browser() as page:
        file = Path(folder) / "report.html"
        report([*parsed.runs, "--html", str(file)])
        page.open(file, width=WIDTH)
        heading = "[...document.querySelectorAll('h2')].find(h => h.textContent.startsWith('{}'))"
        picture(page, parsed.out / "report_curves.png", heading.format("Runs"), most=1020)
        page.run(
            f"(s => {{ s.value = {parsed.rollout}; s.dispatchEvent(new Event('change')) }})"
            "(document.getElementById('choose-rollout'))"
        )
        page.run(MIXED)
        picture(page, parsed.out / "report_rollout.png", heading.format("Rollouts"), most=575)
        assert not page.said, page.said


if __name__ == "__main__":
    main()
