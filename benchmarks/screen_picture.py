"""Draw the screen of a real run as docs/pictures/screen.svg: a short GRPO run, pictured while it samples.

    python benchmarks/screen_picture.py [--model runs/basics/sft/model] [--rollouts 8]

Shows what a terminal showed: the heading, the screen in the middle of the last rollout, and the end. The run is that of
configs/basics_grpo.yaml, shortened, in a folder of its own that is removed afterwards.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

import lit_rl.cli.main  # short class names
import lit_rl.trainer
from lit_rl.callbacks.progress_screen import ProgressScreen, frame_of
from lit_rl.callbacks.run_view import RunView
from lit_rl.cli.main import Cli
from lit_rl.cli.shipped_configs import with_paths
from lit_rl.training.progress import Progress

PICTURE = Path("docs/pictures/screen.svg")


WIDTH = 80
SCREEN = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
"""Screen as drawn in the middle of the run."""


class Pictured(ProgressScreen):
    """A screen that is drawn once, in the middle of the last rollout's sampling."""

    def __init__(self, live: bool | None = None) -> None:
        super().__init__(live=False, lines_every=0)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Wait for the middle of the last rollout."""
        if pl_module.clock.left == 1:
            pl_module.sampler.progress = self.view.progress = _Watched(self.view)


class _Watched(Progress):
    """Has the picture taken when half of the rows are written."""

    def __init__(self, view: RunView) -> None:
        super().__init__()
        self._view: RunView | None = view

    def add_turn(self, tokens: int, outcome: Any) -> None:
        super().add_turn(tokens, outcome)
        if self._view is not None and self.turns >= self.rows // 2:
            self.open_rows = self.rows - self.turns
            SCREEN.print(frame_of(self._view))
            self._view = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("runs/basics/sft/model"))
    parser.add_argument("--rollouts", type=int, default=8)
    given = parser.parse_args()
    lit_rl.trainer.ProgressScreen = Pictured
    half = max(1, given.rollouts // 2)
    arguments = ["fit", "--config", "basics_grpo", "--model.max_rollouts", f"{given.rollouts}"]
    arguments += ["--trainer.val_check_interval", f"{half}", "--data.validation_tasks", "null"]
    arguments += ["--data.num_validation_problems", "52"]
    printed, picture, model = io.StringIO(), PICTURE.resolve(), given.model.resolve()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        Path("runs/basics/sft").mkdir(parents=True)
        Path("runs/basics/sft/model").symlink_to(model)
        Cli(with_paths(arguments))
    lines = printed.getvalue().splitlines()
    end = next(i for i, line in enumerate(lines) if line.startswith("done"))
    whole = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for part in (lines[:end], [SCREEN.export_text(styles=True).rstrip()], lines[end:]):
        whole.print(Text.from_ansi("\n".join(part)))
    picture.parent.mkdir(parents=True, exist_ok=True)
    drawn = whole.export_svg(title="lit-rl fit --config basics_grpo")
    picture.write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL))  # fonts from elsewhere
    print(f"{PICTURE} shows the last of {given.rollouts} rollouts, and the end")


if __name__ == "__main__":
    main()
