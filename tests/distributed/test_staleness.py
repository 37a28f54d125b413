"""Two ranks that sample one rollout ahead: together, as one process does, and through a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed.runs import build, policy, sgd, trainer_of, whole_weights
from support.late_verdicts import Counting, Late, PassedAndEven, Programs
from support.ranks import on_ranks
from support.saved_runs import CrashAt

from lit_rl.callbacks import Checkpointing
from lit_rl.losses import TruncatedWeights
from lit_rl.modules import GRPO, Objective


def run(tokenizer: str, strategy: str, folder: Path, devices: int, *others: Any) -> tuple[dict[str, Any], int]:
    """Start or go on, four problems a rollout on any number of ranks: an epoch has three rollouts."""
    engine = Counting()
    module = build(
        GRPO,
        policy(tokenizer),
        objective=Objective(correction=TruncatedWeights()),
        staleness=1,
        sandbox=Late,
        engine=engine,
        rewards=[PassedAndEven()],
        epochs=1,
        optimizer=sgd,
        max_rollouts=5,
    )
    callback = Checkpointing(str(folder), 1)
    trainer = trainer_of(strategy, folder, devices, callbacks=[callback, *others])
    trainer.fit(module, Programs(batch_size=4 // devices), ckpt_path=callback.prepare(trainer))
    return whole_weights(module), engine.sessions


@pytest.mark.parametrize(
    ("strategy", "stops"),
    [pytest.param("ddp", (2, 3), marks=pytest.mark.slow), ("fsdp2", (3,))],
    ids=["ddp", "fsdp2"],
)
def test_two_ranks_learn_what_one_process_learns_and_resume_to_the_last_bit(
    byte_tokenizer: str, tmp_path: Path, strategy: str, stops: tuple[int, ...]
) -> None:
    """An epoch ends after the third rollout."""
    alone, _ = run(byte_tokenizer, "auto", tmp_path / "alone", 1)

    def on_two() -> Any:
        whole, _ = run(byte_tokenizer, strategy, tmp_path / "whole", 2)
        for stop in stops:
            with pytest.raises(InterruptedError):
                run(byte_tokenizer, strategy, tmp_path / "a", 2, CrashAt(stop))
        again, sessions = run(byte_tokenizer, strategy, tmp_path / "a", 2)
        return whole, all(np.array_equal(again[name], whole[name]) for name in whole), sessions

    for whole, same, sessions in on_ranks(on_two, seconds=180):
        assert same and sessions == 1
        assert max(float(np.abs(whole[name] - alone[name]).max()) for name in alone) < 1e-8


def test_rows_sampled_ahead_are_dealt_out_again_to_another_number_of_ranks(byte_tokenizer: str, tmp_path: Path) -> None:
    """Two ranks crash, then one process, then two end it: none samples again what the one before had sampled."""
    whole, _ = run(byte_tokenizer, "auto", tmp_path / "whole", 1)

    def go_on(strategy: str, devices: int, stop: int) -> Any:
        try:
            return run(byte_tokenizer, strategy, tmp_path / "a", devices, CrashAt(stop))
        except InterruptedError:
            return None

    assert on_ranks(go_on, "ddp", 2, 2) == [None, None]
    assert go_on("auto", 1, 3) is None
    for found, sessions in on_ranks(go_on, "ddp", 2, -1, seconds=180):
        assert sessions == 1
        assert max(float(np.abs(found[name] - whole[name]).max()) for name in whole) < 1e-8
