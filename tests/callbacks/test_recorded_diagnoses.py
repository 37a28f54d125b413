"""Places where a diagnosis can be read later: in the run's files, in reports, and in the last lines of the run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from distributed.runs import build, policy
from distributed.runs import fit as fit_ranks
from lightning.pytorch.loggers import CSVLogger
from support.ill_runs import Constant
from support.ranks import on_ranks
from support.small_runs import EvenBytes, Words
from test_html_report import page_of

import lit_rl.cli.main  # noqa: F401  # short class names
from lit_rl import Trainer
from lit_rl.callbacks import Checkpointing, Diagnostics, RunRecord
from lit_rl.cli.report import report_on_runs
from lit_rl.cli.show import show_recorded_completion
from lit_rl.modules import GRPO, RolloutModule
from lit_rl.reports.diagnosis import LastRollout, MetricHistory, Rule, RunSettings
from lit_rl.rewards.term import TermScore
from lit_rl.run_files.files import METRICS_FILE, read_metrics
from lit_rl.types import Completions, Judgement

Make = Callable[..., RolloutModule]
ALWAYS_CUT = ["truncated"]
"""Tiny rows always end at the limit."""


class Ends(EvenBytes):
    """Pays nothing after two rollouts."""

    calls = 0

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        self.calls += 1
        scores = super().score(completions, judgements)
        return scores if self.calls <= 2 else [TermScore(0.0)] * len(scores)


def holds(first: int, last: int) -> Rule:
    """A rule that holds from one rollout to another."""

    def between(metrics: MetricHistory, rollout: LastRollout, settings: RunSettings) -> str:
        return "it holds" if first <= metrics.rollout <= last else ""

    return between


def watched(patience: int = 2, **options: Any) -> Diagnostics:
    return Diagnostics(patience, leave_out=ALWAYS_CUT, **options)


def run_in(
    folder: Path, module: RolloutModule, *callbacks: Any, ckpt_path: str | None = None, **settings: Any
) -> Trainer:
    """A run in Python, without the command line."""
    common: dict[str, Any] = {"accelerator": "cpu", "devices": 1, "limit_val_batches": 0, "default_root_dir": folder}
    logger = settings.pop("logger", CSVLogger(folder.parent, name=folder.name, version=""))
    trainer = Trainer(**common | settings, logger=logger, callbacks=list(callbacks), enable_progress_bar=False)
    trainer.fit(module, Words(batch_size=3), ckpt_path=ckpt_path, weights_only=False)
    return trainer


def said_by(capsys: pytest.CaptureFixture[str], command: Callable[[Sequence[str]], None], *arguments: str) -> str:
    capsys.readouterr()
    command(arguments)
    return capsys.readouterr().out


def test_what_was_found_is_in_files_reports_and_the_last_lines(
    make_module: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    run_in(folder, make_module(max_rollouts=4, rewards=[Ends()]), watched(rules=[holds(2, 2)]))
    last = capsys.readouterr().out.partition("\ndone ")[2]
    between, lost = read_metrics(folder).diagnoses
    assert (between.rule, between.rollout, between.ended, between.message) == ("between", 2, 4, "it holds")
    assert (lost.rule, lost.rollout, lost.ended) == ("collapse", 3, None)
    assert "lit-rl docs monitoring#collapse" in lost.message and lost.details.count("reward 0") == 3
    assert "diagnosis" not in read_metrics(folder).curves

    assert "#collapse" in last and "it holds" not in last
    assert re.search(rf"next +lit-rl show {folder}\n +lit-rl report {folder}\n", last)

    shown = said_by(capsys, show_recorded_completion, str(folder)).splitlines()
    assert shown[1] == f"diagnosis since rollout 3: {lost.message}" and shown[2].startswith("rollout 4: ")
    reported = said_by(capsys, report_on_runs, str(folder))
    assert f"{folder}  collapse, since rollout 3: {lost.message}" in reported
    assert f"{folder}  between, rollouts 2 to 4: it holds" in reported
    _, page = page_of(folder)
    assert "<h2>Diagnoses</h2>" in page and ">collapse</td>" in page and ">since rollout 3</td>" in page


def test_only_the_first_rank_says_and_writes(byte_tokenizer: str, tmp_path: Path) -> None:
    def on_two() -> list[str]:
        module = build(GRPO, policy(byte_tokenizer), max_rollouts=3, rewards=[Constant()], epochs=1)
        callbacks: list[Any] = [RunRecord(str(tmp_path / "two")), watched()]
        options: dict[str, Any] = {"devices": 2, "global_batch": 4, "callbacks": callbacks}
        fit_ranks(module, "ddp", tmp_path / "root", **options)
        return [one.rule for one in callbacks[1].found]

    assert on_ranks(on_two) == [["flat_reward"], []]
    written = (tmp_path / "two" / METRICS_FILE).read_text().count('"flat_reward"')
    assert written == 1 and [one.rule for one in read_metrics(tmp_path / "two").diagnoses] == ["flat_reward"]


def test_a_checkpoint_goes_on_with_what_was_said(make_module: Make, tmp_path: Path) -> None:
    """Raised from 4 rollouts to 8: said once, and its end is noted once the condition was clear for two rollouts."""
    for length in (4, 8):
        saving = Checkpointing(str(tmp_path / "run"), every_n_rollouts=2)
        module = make_module(max_rollouts=length)
        run_in(tmp_path / "run", module, watched(rules=[holds(3, 5)]), saving, logger=False)
    (one,) = read_metrics(tmp_path / "run").diagnoses
    assert (one.rule, one.rollout, one.ended) == ("between", 3, 7)
