"""A script whose run is stopped by a signal goes no further: its next lines would take half a run for a whole one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest

from lit_rl import Checkpointing, Trainer
from lit_rl.data import Sorting, SortingPolicy, SortingReward
from lit_rl.modules import REINFORCE

SCRIPT = """
import json, os, signal, sys
import lightning.pytorch as pl
from lit_rl import Checkpointing, Trainer
from lit_rl.data import Sorting
from lit_rl.data import SortingPolicy
from lit_rl.modules import REINFORCE
from lit_rl.data import SortingReward

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background jobs
statuses = []
for case in json.loads(sys.argv[1]):  # a process each; importing once saves a minute
    child = os.fork()
    if not child:
        break
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    print(json.dumps(statuses))
    raise SystemExit
number, moment, saver = case
os.mkdir("-".join(map(str, case)))
os.chdir("-".join(map(str, case)))
said = os.open("said", os.O_WRONLY | os.O_CREAT)
os.dup2(said, 1), os.dup2(said, 2)


class Stop(pl.Callback):
    def on_train_batch_start(self, trainer, module, *_):
        if moment == "rollout" and module.clock.count == 1:
            os.kill(os.getpid(), getattr(signal, number))

    def on_train_end(self, *_):
        if moment == "end":
            os.kill(os.getpid(), getattr(signal, number))

    def on_validation_batch_start(self, *_):
        if moment == "validate":
            os.kill(os.getpid(), getattr(signal, number))


savers = [Checkpointing("run")] if saver else []
trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[Stop(), *savers])
module = REINFORCE(SortingPolicy(), rewards=[SortingReward()], max_rollouts=4)
if moment == "validate":
    trainer.validate(module, Sorting())
else:
    trainer.fit(module, Sorting())
print("exported", module.clock.count)
"""

CASES = [
    ("SIGINT", "rollout", "saves", None, "rollout_000002.ckpt"),
    ("SIGTERM", "rollout", "saves", 75, "rollout_000002.ckpt"),
    ("SIGTERM", "end", "saves", 75, "rollout_000004.ckpt"),
    ("SIGINT", "rollout", "", None, ""),
    ("SIGTERM", "rollout", "", 128 + signal.SIGTERM, ""),
    ("SIGTERM", "validate", "", 128 + signal.SIGTERM, ""),
]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """Run the script for each case; return the folder of the cases' folders and the statuses."""
    folder = tmp_path_factory.mktemp("scripts")
    command = [sys.executable, "-c", SCRIPT, json.dumps([case[:3] for case in CASES])]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    return folder, json.loads(done.stdout)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case[:3]))
def test_a_script_that_a_signal_stops_saves_and_runs_no_further(ended: tuple[Path, list[int]], case: Any) -> None:
    *named, wanted, last = case
    folder, status = ended[0] / "-".join(named), ended[1][CASES.index(case)]
    said = (folder / "said").read_text()
    if wanted is None:  # Python's own status for Ctrl-C, or 1 once torch's compiler is loaded
        assert status and said.splitlines()[-1].startswith("KeyboardInterrupt"), said
    else:
        assert status == wanted, said
    assert "exported" not in said
    assert (folder / "run" / "last.ckpt").exists() == bool(last)
    if last:
        assert (folder / "run" / "last.ckpt").resolve().name == last and f"{last}: the same command" in said


class StopOnce(pl.Callback):
    """Ctrl-C in the second rollout of the first fit."""

    def __init__(self) -> None:
        self.stopped = False

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        if pl_module.clock.count == 1 and not self.stopped:
            self.stopped = True
            os.kill(os.getpid(), signal.SIGINT)


def test_a_notebook_goes_on_with_the_same_trainer_after_ctrl_c(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    saver = Checkpointing(str(tmp_path / "run"))
    trainer = Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[StopOnce(), saver], limit_val_batches=2
    )
    module = REINFORCE(SortingPolicy(), rewards=[SortingReward()], max_rollouts=4)
    with pytest.raises(KeyboardInterrupt, match=r"rollout_000002\.ckpt"):
        trainer.fit(module, Sorting())
    assert (module.clock.count, saver.exit_status) == (2, 130)
    trainer.validate(module, Sorting())
    trainer.fit(module, Sorting())
    signal.signal(signal.SIGINT, before)
    assert (module.clock.count, saver.exit_status, trainer.limit_val_batches) == (4, 0, 2)
