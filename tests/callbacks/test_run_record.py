"""The plain files of a run: what is in them, how large they get, and what a crash leaves of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from distributed.runs import build, policy
from distributed.runs import fit as fit_ranks
from distributed.test_validation import Told
from support.completions import batch, judged
from support.ill_runs import Judged, Programs
from support.ranks import on_ranks
from support.saved_runs import CrashAt, run
from support.small_runs import EvenBytes, build_module, fit

from lit_rl.callbacks import Checkpointing
from lit_rl.callbacks.run_record import RunRecord
from lit_rl.execution.interface import FailedCase, Outcome, Verdict
from lit_rl.modules import GRPO, SFT, RolloutModule
from lit_rl.reports.recorded_rows import choose_rows_to_record, round_significant
from lit_rl.rewards import Composite, TestsReward
from lit_rl.rollout import FinishedRollout, Rollout
from lit_rl.run_files.files import METRICS_FILE, MetricsWriter, read_json_lines, read_rollouts
from lit_rl.run_files.records import RecordedRollout
from lit_rl.training.progress import StepCounter
from lit_rl.types import Experience, Sampling

Make = Callable[..., RolloutModule]

BROKEN = Outcome(
    Verdict.EXCEPTION,
    cases=(Verdict.PASSED, Verdict.EXCEPTION),
    stderr="Traceback: ZeroDivisionError",
    exception_type="ZeroDivisionError",
    line=2,
    failed_case=FailedCase(2, "f(0)", "1"),
)
LOST = Outcome(Verdict.INFRASTRUCTURE_FAILURE, stderr="no memory")


def lines(folder: Path) -> list[dict[str, Any]]:
    return [frame.items[0] for frame in read_json_lines(folder / METRICS_FILE)]


def rollouts(folder: Path) -> list[RecordedRollout]:
    return list(read_rollouts(folder))


def record_by_hand(folder: Path, texts: list[str], outcomes: list[Outcome], **options: Any) -> RecordedRollout:
    """One rollout of one group, a token a letter, recorded."""
    completions = batch(texts)
    judgements = tuple(judged(text, outcome) for text, outcome in zip(texts, outcomes, strict=True))
    rewards = Composite([TestsReward()])(completions, judgements)
    advantages = torch.arange(completions.completion_ids.numel()).view(completions.completion_ids.shape) / 3
    experience = Experience(completions, rewards.rewards, rewards.valid, advantages)
    codec = SimpleNamespace(decode=lambda *_: ("", ()))
    clock = StepCounter("rollout")
    clock.count = 1
    module = SimpleNamespace(clock=clock, policy=SimpleNamespace(codec=codec), trace=SimpleNamespace(recorded={}))
    trainer = SimpleNamespace(world_size=1, is_global_zero=True)
    record = RunRecord(**options)
    record._writer = MetricsWriter(folder, "rollout", count=1)
    finished = FinishedRollout(Rollout(completions, judgements), rewards, experience, {"loss": 0.5})
    record.on_rollout_end(trainer, module, finished)  # type: ignore[arg-type]
    return rollouts(folder)[-1]


def test_a_row_is_recorded_as_it_was(tmp_path: Path) -> None:
    text = "def f(x):\n    return 1 / x"
    found = record_by_hand(tmp_path, [text, "x = 1"], [BROKEN, LOST])
    assert found.num_rows == 2 and found.endings == {"exception: ZeroDivisionError": 1, "infrastructure_failure": 1}
    broken, lost = found.rows
    assert (broken.task_id, broken.prompt, broken.turns[0].text) == ("p/0", "Write it.", text)
    assert broken.turns[0].token_texts() == [*text, ""]
    assert broken.program is not None and broken.program["source"] == text
    assert broken.failing is not None
    assert text.encode()[slice(*broken.failing)] == b"return 1 / x"
    assert broken.outcome == {
        "verdict": "exception",
        "cases": ["passed", "exception"],
        "stderr": "Traceback: ZeroDivisionError",
        "exception_type": "ZeroDivisionError",
        "line": 2,
        "failed_case": {"number": 2, "call": "f(0)", "expected": "1", "actual": "", "kind": "call"},
    }
    assert (broken.reward, broken.terms) == (0.0, {"tests": 0.0})
    assert (lost.reward, lost.reason, lost.terms) == (None, "tests: no memory", {"tests": None})
    assert broken.tokens["advantage"][:4] == [0.0, 0.3333, 0.6667, 1.0]
    assert len(broken.tokens["credit"]) == len(text) + 1 and sum(broken.tokens["credit"]) == pytest.approx(0, abs=1e-3)


def test_the_stop_string_that_ended_a_turn_is_recorded(byte_tokenizer: str, tmp_path: Path) -> None:
    """The first of two in what was sampled, read back from the tokens: the text itself ends before it."""
    strings = tuple("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!?$%&/()[]{}")
    module = build_module(
        byte_tokenizer, sandbox=Judged(), max_rollouts=1, sampling=Sampling(num_samples=8, max_tokens=24)
    )
    data = Programs(batch_size=3, stop_strings=strings)
    fit(module, tmp_path, data=data, callbacks=[RunRecord(str(tmp_path), num_groups=9)])
    turns = [row.turns[0] for row in rollouts(tmp_path)[0].rows]
    ended = [turn for turn in turns if turn.stop_reason == "stop_string"]
    assert len(ended) > 10 and {turn.stop_string for turn in turns if turn not in ended} <= {""}
    assert len({turn.stop_string for turn in ended}) > 3
    assert all(turn.stop_string in strings and not set(turn.text) & set(strings) for turn in ended)


def test_numbers_keep_four_digits_at_any_size() -> None:
    values = torch.tensor([[0.0, 123456.0, -1.23456e-5], [float("nan"), -float("inf"), 0.99999]])
    assert round_significant(values) == [[0.0, 123500.0, -1.235e-5], [None, None, 1.0]]
    assert round_significant(values[:1]) == [[0.0, 123500.0, -1.235e-5]]


def test_the_rows_that_tell_most_are_kept() -> None:
    """Group 1 differs most; row 0 is the best of all, row 8 the worst, row 5 has no reward."""
    rewards = [0.9, 0.9, 0.9, -0.5, 0.8, None, 0.1, 0.0, -0.6, -0.6, -0.6, -0.6]
    groups = {0: [0, 1, 2], 1: [3, 4, 5, 6, 7], 2: [8, 9, 10, 11]}
    assert choose_rows_to_record(groups, rewards, num_groups=1, num_rows=2, seed=0) == [0, 3, 4, 5, 11]
    assert choose_rows_to_record(groups, rewards, num_groups=0, num_rows=2, seed=0) == [0, 5, 11]
    everything = choose_rows_to_record(groups, rewards, num_groups=9, num_rows=9, seed=0)
    assert everything == list(range(12))
    assert choose_rows_to_record({}, [], num_groups=2, num_rows=8, seed=0) == []
    groups, rewards = {k: [k] for k in range(50)}, [0.0] * 50
    drawn = {tuple(choose_rows_to_record(groups, rewards, num_groups=2, num_rows=1, seed=seed)) for seed in range(20)}
    assert len(drawn) > 10, "the draw of groups differs from rollout to rollout"


def test_a_full_file_still_says_how_programs_ended(tmp_path: Path) -> None:
    for number in range(2):
        found = record_by_hand(tmp_path, ["x = 1"], [BROKEN], max_megabytes=1e-5)
        assert len(found.rows) == 1 - number and found.endings == {"exception: ZeroDivisionError": 1}


def same(folder: Path) -> tuple[list[Any], list[Any]]:
    """Fields that two runs must have in common: all but what the machine decides."""
    machine = ("time", "memory/", "sandbox/")
    logged = [line for line in lines(folder) if "start" not in line]
    untimed = [{name: value for name, value in line.items() if not name.startswith(machine)} for line in logged]
    return untimed, [(rollout.number, rollout.endings, rollout.rows) for rollout in rollouts(folder)]


def test_a_run_that_went_on_has_nothing_twice_and_nothing_missing(make_module: Make, tmp_path: Path) -> None:
    """Saved at 3, crashed at 5, gone on to 6; beside a run that never stopped."""

    def start(name: str, *others: Any) -> None:
        record = RunRecord(folder=str(tmp_path / name))
        run(
            make_module(max_rollouts=6),
            Checkpointing(str(tmp_path / f"{name}_ckpt"), every_n_rollouts=3),
            record,
            *others,
        )

    start("whole")
    with pytest.raises(InterruptedError):
        start("parts", CrashAt(5))
    assert [rollout.number for rollout in rollouts(tmp_path / "parts")] == [1, 2, 3, 4, 5]
    start("parts")
    assert [line["rollout"] for line in lines(tmp_path / "parts")] == [0, 1, 2, 3, 3, 4, 5, 6]
    assert same(tmp_path / "parts") == same(tmp_path / "whole")


def test_a_line_holds_every_number_that_was_logged(make_module: Make, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fit(make_module(max_rollouts=2), tmp_path, callbacks=[RunRecord(str(folder))])
    start, first, second = lines(folder)[:3]
    assert start["start"] | {"num_samples": 4} == start["start"]
    assert start["start"]["method"] == "GRPO" and start["start"]["task"] == "words"
    assert {"reward/mean", "reward/even", "loss", "completion/length", "time/update_seconds"} <= first.keys()
    assert (first["rollout"], second["rollout"]) == (1, 2)
    even = rollouts(folder)[0].rows
    assert {row.verdict for row in even} == {"nothing to run"} and not rollouts(folder)[0].endings
    assert {row.group for row in even} <= {0, 1, 2} and len(even) >= 8
    for row in even:
        assert row.terms["even"] == pytest.approx(
            sum(i % 2 == 0 for i in row.tokens["ids"]) / len(row.tokens["ids"]), abs=1e-4
        )
        trained = [x for x in row.tokens["logprob_update"] if x is not None]
        assert trained == pytest.approx(row.tokens["logprob_sampled"][: len(trained)], abs=2e-3)


def test_rank_0_writes_what_all_ranks_kept(byte_tokenizer: str, tmp_path: Path) -> None:
    """Four problems of four rows, on one rank or two: the same rows, numbered over the ranks."""

    def record(folder: str, devices: int) -> None:
        callbacks: list[Any] = [RunRecord(folder, num_groups=9, num_rows=9)]
        module = build(GRPO, policy(byte_tokenizer), max_rollouts=2, rewards=[EvenBytes()], epochs=1)
        options: dict[str, Any] = {"devices": devices, "global_batch": 4, "callbacks": callbacks}
        fit_ranks(module, "ddp" if devices > 1 else "auto", tmp_path / "root", **options)

    def on_two() -> None:
        record(str(tmp_path / "two"), 2)

    record(str(tmp_path / "one"), 1)
    on_ranks(on_two)
    for one, two in zip(rollouts(tmp_path / "one"), rollouts(tmp_path / "two"), strict=True):
        assert one.num_rows == two.num_rows == len(two.rows) == 16 and one.endings == two.endings
        assert [row.row for row in two.rows] == list(range(16))
        assert len({(row.group, row.task_id) for row in two.rows}) == 4
        said = [sorted((row.task_id, row.tokens["ids"], row.reward) for row in kept.rows) for kept in (one, two)]
        assert said[0] == said[1]
    assert [line["rollout"] for line in lines(tmp_path / "two")] == [0, 1, 2]


def test_a_record_without_a_place_is_refused(make_module: Make, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"neither a logger nor Checkpointing has a folder"):
        fit(make_module(max_rollouts=1), tmp_path, callbacks=[RunRecord()])


def test_a_run_without_rollouts_has_a_line_for_each_update(byte_tokenizer: str, tmp_path: Path) -> None:
    module = SFT(policy(byte_tokenizer), max_updates=3)
    fit(module, tmp_path, data=Told(batch_size=1), callbacks=[RunRecord(str(tmp_path))])
    start, *updates = lines(tmp_path)
    assert (start["update"], start["start"]["method"]) == (0, "SFT")
    assert [line["update"] for line in updates] == [1, 2, 3] and all(line["sft/loss"] > 0 for line in updates)
