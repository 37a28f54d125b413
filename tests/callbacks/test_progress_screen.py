"""Display of a run: in a terminal of 80 x 24, in a log file, and at its end."""

from __future__ import annotations

import io
import re
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
from distributed.test_validation import Told
from rich.console import Console
from support.small_runs import Clock, Words, build_module
from support.tiny_models import TINY_QWEN2

from lit_rl.callbacks import Checkpointing, ExecutionEvaluation, ProgressScreen
from lit_rl.models import CausalLM
from lit_rl.modules import SFT
from lit_rl.reports.run_summary import sampling_result_line
from lit_rl.rewards import RewardTerm, TermScore
from lit_rl.trainer import Trainer
from lit_rl.training.progress import RolloutProgress
from lit_rl.types import Completions, Judgement, Sampling

METRICS = {
    "reward/mean": 0.8125,
    "execution/pass_rate": 0.75,
    "completion/length": 11.1,
    "completion/truncated_fraction": 0.0,
    "time/tokens_per_second": 2716.0,
}


def a_screen(monkeypatch: pytest.MonkeyPatch) -> tuple[ProgressScreen, RolloutProgress, Clock]:
    clock = Clock()
    monkeypatch.setattr("lit_rl.callbacks.progress_screen.time", SimpleNamespace(monotonic=clock))
    progress, screen = RolloutProgress(clock), ProgressScreen()
    screen._start_counting(progress, "rollout", 0, 180)
    clock.now = 62.0
    screen.done, screen.metrics = 74, METRICS
    return screen, progress, clock


def test_the_screen_says_where_the_run_stands_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, progress, clock = a_screen(monkeypatch)
    screen.validations = [{"val/greedy/pass@1": p, "val/greedy/reward/mean": 1.0} for p in (0.185, 0.862, 0.85)]
    progress.begin("training")
    progress.rows, progress.open_rows, progress.turns, progress.tokens = 128, 32, 96, 1000
    clock.now += 2
    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True, color_system=None)
    console.print(screen.render())
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) <= 7 and max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert lines[0].startswith("rollout") and "74 of 180   1:04 elapsed, 1:32 left" in text
    assert "sampling 96 of 128 rows, 0 judged, 500 tokens/s" in text
    assert "reward 0.812  passed 75%  length 11" in text
    assert "greedy pass@1 0.185 -> 0.850" in text


# -- runs ------------------------------------------------------------------------------------------------------


SMALL: dict[str, Any] = {"accelerator": "cpu", "devices": 1, "logger": False, "limit_val_batches": 0}


def run(module: pl.LightningModule, folder: Path, *callbacks: pl.Callback, **settings: Any) -> Trainer:
    trainer = Trainer(callbacks=list(callbacks), default_root_dir=folder, **(SMALL | settings))
    trainer.fit(module, Words(batch_size=3))
    return trainer


def test_a_log_file_has_one_line_a_rollout_and_the_end(
    byte_tokenizer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = build_module(byte_tokenizer, max_rollouts=4)
    saved = Checkpointing("here", every_n_rollouts=2, monitor="val/greedy/reward/mean")
    validating = {"limit_val_batches": 1, "val_check_interval": 2, "check_val_every_n_epoch": None}
    run(module, tmp_path, saved, ExecutionEvaluation(), **validating)
    out, err = capsys.readouterr()
    lines = out.splitlines()
    counted = [line.partition("  ")[0] for line in lines if line.startswith("rollout")]
    assert counted == [f"rollout {i}/4" for i in (1, 2, 3, 4)]
    assert lines[0].startswith("lit-rl   ") and "GRPO on words   cpu x 1   seed 0" in lines[0]
    assert sum(line.startswith("validation after rollout") for line in lines) == 2
    end = lines[next(i for i, line in enumerate(lines) if line.startswith("done")) :]
    told = {line.split()[0]: line for line in end}
    assert told["last"].endswith("here/rollout_000004.ckpt") and "val/greedy/reward/mean 1.000" in told["best"]
    commands = ["next   lit-rl show here", "lit-rl report here", "lit-rl export here here/model"]  # there is no board
    assert [re.sub(" {3,}", "   ", line.strip()) for line in end[-3:]] == commands
    assert "\x1b" not in out and "Epoch" not in out + err and "v_num" not in out + err
    assert "Tip:" not in err and "GPU available" not in err and "it/s" not in err


class FailsLater(RewardTerm):
    """0.5 in the first rollout; then the term fails, as a grader that does not answer."""

    called = 0

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        self.called += 1
        return [TermScore(0.5 if self.called == 1 else None, reason="no answer") for _ in judgements]


def test_a_line_has_no_reward_of_an_earlier_rollout(
    byte_tokenizer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(build_module(byte_tokenizer, rewards=[FailsLater()], max_rollouts=2), tmp_path)
    first, second = (line for line in capsys.readouterr().out.splitlines() if line.startswith("rollout "))
    assert "reward 0.500" in first and "length" in second and "reward" not in second


def test_updates_without_rollouts_write_at_most_a_line_a_second(
    byte_tokenizer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = SFT(CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer), max_updates=6)
    started = time.monotonic()
    Trainer(default_root_dir=tmp_path, **SMALL).fit(module, Told(batch_size=2))
    seconds = time.monotonic() - started
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("update")]
    assert 2 <= len(lines) <= 3 + seconds
    assert lines[0].startswith("update 1/6  ") and lines[-1].startswith("update 6/6  ")
    assert all("  loss " in line for line in lines)


def test_a_terminal_is_drawn_every_second_while_one_rollout_goes_on(
    byte_tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawings = io.StringIO()
    console = Console(file=drawings, width=80, height=24, force_terminal=True)
    monkeypatch.setattr("lit_rl.callbacks.progress_screen._console", lambda: console)
    module = build_module(byte_tokenizer, max_rollouts=1)
    inner = module.compute_rewards

    def slow(rollout: Any) -> Any:
        before = drawings.tell()
        deadline = time.monotonic() + 20
        while "rewarding" not in drawings.getvalue()[before:] and time.monotonic() < deadline:
            time.sleep(0.01)
        return inner(rollout)

    monkeypatch.setattr(module, "compute_rewards", slow)
    run(module, tmp_path, ProgressScreen(live=True))
    assert "rewarding" in drawings.getvalue() and "1 of 1   " in drawings.getvalue()
    for thread in threading.enumerate():
        if type(thread).__name__ == "_RefreshThread":  # rich tells it to stop and does not wait
            thread.join(timeout=20)
            assert not thread.is_alive()


def test_a_minute_of_silence_is_broken_once_and_the_line_says_what_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen, progress, clock = a_screen(monkeypatch)
    screen._shows = True
    screen._print_if_no_screen("rollout 74/180")
    progress.begin("training")
    progress.rows, progress.open_rows, progress.turns, progress.tokens, progress.steps = 128, 96, 32, 6000, 40
    said = []
    for seconds in (59, 1, 59, 1):
        clock.now += seconds
        screen.print_heartbeat()
        said.append(capsys.readouterr().out)
    progress.enter_phase("updating")
    progress.updates, progress.update, progress.parts, progress.part = 4, 1, 8, 2
    clock.now += 60
    screen.print_heartbeat()
    screen._print_if_no_screen("rollout 75/180")
    clock.now += 59
    screen.print_heartbeat()
    sampling = "rollout 75/180  sampling 32 of 128 rows, 0 judged"
    assert said == [
        "rollout 74/180\n",
        f"{sampling}, 100 tokens/s, step 40  2:02 elapsed\n",
        "",
        f"{sampling}, 50 tokens/s, step 40  3:02 elapsed\n",
    ]
    assert capsys.readouterr().out.splitlines() == [
        "rollout 75/180  update 2 of 4, part 3 of 8  4:02 elapsed",
        "rollout 75/180",
    ]


class Heard(io.StringIO):
    """An output that tells of a line as it comes."""

    def __init__(self, awaited: str) -> None:
        super().__init__()
        self.awaited, self.came = awaited, threading.Event()

    def write(self, text: str) -> int:
        if self.awaited in text:
            self.came.set()
        return super().write(text)


@pytest.mark.parametrize(
    ("place", "awaited"),
    [("on_train_batch_start", "rollout 1/1  between two steps"), ("configure_model", "setting up")],
)
def test_a_log_file_hears_of_a_run_in_which_nothing_ends(
    byte_tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, awaited: str
) -> None:
    """A batch, or the loading of weights, goes on until the line has come; with a terminal there is no such line."""
    monkeypatch.setattr("lit_rl.callbacks.progress_screen._SECONDS_OF_SILENCE", 0.0)
    output = Heard(awaited)
    monkeypatch.setattr(sys, "stdout", output)
    module = build_module(byte_tokenizer, max_rollouts=1)
    inner = getattr(module, place)

    def endless(*args: Any) -> Any:
        assert output.came.wait(60), output.getvalue()
        return inner(*args)

    monkeypatch.setattr(module, place, endless)
    threads = threading.active_count()
    run(module, tmp_path, ProgressScreen())
    for thread in threading.enumerate():
        if "_print_heartbeats_until" in thread.name:
            thread.join(60)
            assert not thread.is_alive()
    assert threading.active_count() <= threads


def test_a_screen_has_no_heartbeat(byte_tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beats: list[bool] = []  # it would beat on a thread, where a failure ends nothing
    monkeypatch.setattr(ProgressScreen, "_print_heartbeats_until", lambda self, over: beats.append(True))
    run(build_module(byte_tokenizer, max_rollouts=1), tmp_path / "file", ProgressScreen(live=False))
    assert beats == [True]
    run(build_module(byte_tokenizer, max_rollouts=1), tmp_path / "screen", ProgressScreen(live=True))
    assert beats == [True]


def test_an_exception_gives_the_terminal_back_and_says_where_it_came(
    byte_tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
    monkeypatch.setattr("lit_rl.callbacks.progress_screen._console", lambda: console)
    module = build_module(byte_tokenizer, max_rollouts=2)

    def broken(rollout: Any) -> Any:
        raise RuntimeError("out of order")

    monkeypatch.setattr(module, "compute_rewards", broken)
    with pytest.raises(RuntimeError, match="out of order"):
        run(module, tmp_path, ProgressScreen(live=True))
    assert "ended in rollout 1, rewarding" in capsys.readouterr().out
    assert console.file.getvalue().endswith("\x1b[?25h")  # type: ignore[attr-defined]  # the cursor is back


# -- how it gets there -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "live"), [({}, None), ({"enable_progress_bar": True}, None), ({"enable_progress_bar": False}, False)]
)
def test_a_trainer_has_one_screen(settings: dict[str, Any], live: bool | None) -> None:
    trainer = Trainer(accelerator="cpu", logger=False, **settings)
    screens = [callback for callback in trainer.callbacks if isinstance(callback, ProgressScreen)]
    assert [screen.live for screen in screens] == [live] and trainer.progress_bar_callback is None
    own = ProgressScreen()
    trainer = Trainer(accelerator="cpu", logger=False, callbacks=[own], **settings)
    assert [callback for callback in trainer.callbacks if isinstance(callback, ProgressScreen)] == [own]


GREEDY, SAMPLED = Sampling(temperature=0.0, max_tokens=8), Sampling(num_samples=4, max_tokens=8)
TWO_TURNS = {"num_problems": 52.0, "pass@1": 0.75, "pass@1/turn_1": 0.5, "pass@1/turn_2": 0.75, "reward/mean": 0.8}
TWO_TURNS |= {"verdict/passed_fraction": 0.75, "verdict/wrong_answer_fraction": 0.25}
LINES: dict[str, tuple[str, dict[str, float], str]] = {
    "turns": (
        "val/greedy",
        TWO_TURNS,
        "pass@1 0.750 (0.618 to 0.848)   reward 0.800   52 problems   passed 75%  wrong answer 25%",
    ),
    "several samples": (
        "val/basics/sampled",
        {"num_problems": 10.0, "pass@1": 0.25, "pass@4": 0.5},
        "pass@1 0.250 (0.081 to 0.558)   pass@4 0.500 (0.237 to 0.763)   10 problems x 4",
    ),
    "a task without programs": (
        "val/greedy",
        {"num_problems": 3.0, "reward/mean": 2.625},
        "reward 2.625   3 problems",
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_a_sampling_is_one_line(case: str) -> None:
    prefix, metrics, line = LINES[case]
    module: Any = SimpleNamespace(validation_sampling={"greedy": GREEDY, "sampled": SAMPLED})
    assert sampling_result_line(module, prefix, {f"{prefix}/{name}": value for name, value in metrics.items()}) == line


def test_a_run_that_max_steps_ended_says_what_it_counts(
    byte_tokenizer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two updates end a run of four rollouts; one that an epoch ended, or its own limit, does not mention them."""
    for max_steps, max_epochs, says in ((2, -1, True), (9, 1, False), (9, -1, False)):
        module, folder = build_module(byte_tokenizer, max_rollouts=4), tmp_path / f"{max_steps} {max_epochs}"
        run(module, folder, max_steps=max_steps, max_epochs=max_epochs, limit_train_batches=3)
        out, _ = capsys.readouterr()
        assert (f"; trainer.max_steps {max_steps} counts updates" in out) == says
        assert (module.clock.count < 4) == (max_steps == 2 or max_epochs == 1)
