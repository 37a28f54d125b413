"""Around a configuration: seeds and lengths that follow the run's, checkpoints by name, Ctrl-C, and what is refused."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
import yaml
from support.command_line import BASE, TINY, answer, one_line
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import lit_rl.cli.main
from lit_rl.__main__ import main
from lit_rl.callbacks import Checkpointing, ExecutionEvaluation
from lit_rl.cli.main import Cli
from lit_rl.cli.run_config import rewrite_policy_nulls
from lit_rl.errors import UsageError
from lit_rl.models import CausalLM
from lit_rl.modules import SFT
from lit_rl.reports.runs import find_run_folders
from lit_rl.run_files.files import read_metrics
from lit_rl.run_files.settings import setting_changes_on_resume, setting_texts_by_name
from lit_rl.trainer import Trainer, warn_about_untrained_weights

RUN = """
trainer:
  accelerator: cpu
  logger: false
  enable_progress_bar: false
  val_check_interval: 2
  callbacks: [ExecutionEvaluation, {class_path: Checkpointing, init_args: {folder: run, every_n_rollouts: 1, keep: 9}}]
model:
  class_path: GRPO
  init_args:
    policy: SortingPolicy
    sampling: {num_samples: 4, max_tokens: 3}
    evaluate: {sampling: {greedy: {temperature: 0, max_tokens: 3}}}
    rewards: [SortingReward]
    update: {optimizer: {class_path: torch.optim.SGD, init_args: {lr: 0.5}}}
    max_rollouts: 4
data:
  class_path: Sorting
  init_args:
    prompts: [[1, 0, 2], [3, 2, 4], [1, 2, 3], [0, 0, 1], [4, 1, 0], [2, 2, 1], [3, 0, 1], [4, 4, 0]]
    batch_size: 1
"""


def sorting(**update: Any) -> dict[str, Any]:
    """A run of a second without programs: eight rollouts an epoch."""
    config: dict[str, Any] = yaml.safe_load(RUN)
    config["model"]["init_args"]["update"] |= update
    return config


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes the configuration of a run; its path."""
    monkeypatch.chdir(tmp_path)

    def write_config(config: dict[str, Any] | None = None, **update: Any) -> str:
        Path("config.yaml").write_text(yaml.safe_dump(config or sorting(**update)))
        return "config.yaml"

    return write_config


# -- seeds and lengths -----------------------------------------------------------------------------------------


def test_all_seeds_that_are_not_set_follow_that_of_the_run(write: Callable[..., str]) -> None:
    cli = Cli(["--config", write(), "--seed_everything", "7"], run=False)
    assert (cli.model.seed, cli.datamodule.seed, cli.model.policy.init_seed) == (7, 7, 7)
    set_ones = ["--model.seed=1", "--data.seed=0", "--model.policy.init_seed=0"]
    cli = Cli(["--config", write(), "--seed_everything", "7", *set_ones], run=False)
    assert (cli.model.seed, cli.datamodule.seed, cli.model.policy.init_seed) == (1, 0, 0)


@pytest.mark.parametrize(
    ("schedule", "arguments", "key", "expected"),
    [
        ("LinearLR", {"end_factor": 0.1}, "total_iters", 4),
        ("LinearLR", {"end_factor": 0.1, "total_iters": 3}, "total_iters", 3),
        ("OneCycleLR", {"max_lr": 0.1, "cycle_momentum": False}, "total_steps", 5),
    ],
)
def test_a_schedule_is_as_long_as_the_run_unless_its_length_is_set(
    write: Callable[..., str], schedule: str, arguments: dict[str, Any], key: str, expected: int
) -> None:
    described = {"class_path": f"torch.optim.lr_scheduler.{schedule}", "init_args": arguments}
    for asked, found in ((4, expected), (6, expected + 2 if key not in arguments else expected)):
        cli = Cli(["--config", write(lr_scheduler=described), f"--model.max_rollouts={asked}"], run=False)
        assert cli.config["model.init_args.update.lr_scheduler.init_args"][key] == found


# -- checkpoints by name -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of four rollouts that has ended; rollout 2 or 4 is the best."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("ended")
        patch.chdir(folder)
        config = sorting()
        config["trainer"]["callbacks"][1]["init_args"]["monitor"] = "val/greedy/reward/mean"
        Path("config.yaml").write_text(yaml.safe_dump(config))
        lit_rl.cli.main.main(["fit", "--config", "config.yaml"])
    return folder


@pytest.fixture
def trained(ended: Path, write: Callable[..., str], tmp_path: Path) -> str:
    """The configuration of that run, in a copy of its folder."""
    shutil.copytree(ended, tmp_path, symlinks=True, dirs_exist_ok=True)
    return "config.yaml"


def test_last_best_and_the_folder_of_a_run_name_checkpoints(
    trained: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loaded: list[int] = []
    monkeypatch.setattr("lit_rl.modules.GRPO.on_validation_start", lambda self: loaded.append(self.clock.count))
    caplog.set_level("INFO")
    best = int((tmp_path / "run" / "best.ckpt").resolve().stem.split("_")[1])
    for name in ("last", "best", "run", "run/rollout_000003.ckpt", "run/best.ckpt"):
        lit_rl.cli.main.main(["validate", "--config", trained, "--ckpt_path", name])
    lit_rl.cli.main.main(["validate", "--config", trained])
    assert loaded == [4, best, 4, 3, best, 0]
    for name in ("best", "run/best.ckpt"):
        assert f"{name} is the checkpoint {(tmp_path / 'run' / 'best.ckpt').resolve()}" in caplog.messages
    assert f"last is the checkpoint {tmp_path / 'run' / 'rollout_000004.ckpt'}" in caplog.messages


def test_measuring_what_no_run_trained_is_told(trained: str, recwarn: pytest.WarningsRecorder) -> None:
    def told(act: Callable[[], Any]) -> list[str]:
        recwarn.clear()
        act()
        return [name for name in ("rollout_000004.ckpt", "random") for one in recwarn if name in str(one.message)]

    command = ["validate", "--config", trained]
    assert told(lambda: lit_rl.cli.main.main(command)) == ["rollout_000004.ckpt"]
    assert told(lambda: lit_rl.cli.main.main([*command, "--ckpt_path", "last"])) == []
    cli = Cli(["--config", trained], run=False)
    trainer = Trainer(accelerator="cpu", devices=1, logger=False, callbacks=[Checkpointing("run")], fast_dev_run=True)
    assert told(lambda: trainer.validate(cli.model, datamodule=cli.datamodule)) == ["rollout_000004.ckpt"]
    assert told(lambda: trainer.validate(cli.model, datamodule=cli.datamodule, ckpt_path="last")) == []
    assert told(lambda: trainer.validate(cli.model, datamodule=cli.datamodule)) == [], "it has these weights now"
    tokenizer = "package:lit_rl/data/basics/tokenizer"
    sft = SFT(CausalLM(config=TINY, tokenizer=tokenizer), update=cli.model.update)
    assert told(lambda: warn_about_untrained_weights(Trainer(logger=False), sft)) == ["random"]


def test_a_checkpoint_that_is_not_there_is_one_line(
    trained: str, write: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert "no checkpoint at empty" in one_line(f"validate --config {trained} --ckpt_path empty", capsys)
    (tmp_path / "run" / "best.ckpt").unlink()
    error = one_line(f"validate --config {trained} --ckpt_path best", capsys)
    assert "no best checkpoint in " in error and "set Checkpointing's monitor" in error
    assert "no best checkpoint in run: set" in one_line("export run/best.ckpt out", capsys)
    config = sorting()
    del config["trainer"]["callbacks"][1]
    error = one_line(f"validate --config {write(config)} --ckpt_path last", capsys)
    assert "give the path of a checkpoint or of a run's folder" in error


def test_python_takes_the_best_checkpoint_of_an_ended_run_and_says_which(
    trained: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Lightning alone finds a best checkpoint only in the process that trained."""
    caplog.set_level("INFO")
    cli = Cli(["--config", trained], run=False)
    settings: dict[str, Any] = {"accelerator": "cpu", "devices": 1, "logger": False}

    def trainer(folder: Path, monitor: str | None = "val/greedy/reward/mean") -> Trainer:
        return Trainer(**settings, callbacks=[ExecutionEvaluation(), Checkpointing(str(folder), monitor=monitor)])

    trainer(tmp_path / "run").validate(cli.model, datamodule=cli.datamodule, ckpt_path="best")
    assert f"best is the checkpoint {(tmp_path / 'run' / 'best.ckpt').resolve()}" in caplog.messages
    assert cli.model.clock.count == int((tmp_path / "run" / "best.ckpt").resolve().stem[-1])
    with pytest.raises(FileNotFoundError, match=r"no best checkpoint in .*new: train first"):
        trainer(tmp_path / "new").fit(cli.model, datamodule=cli.datamodule, ckpt_path="best")
    with pytest.raises(UsageError, match=r"ckpt_path last needs .*Checkpointing: add the callback, or give the path"):
        Trainer(**settings).fit(cli.model, datamodule=cli.datamodule, ckpt_path="last")


# -- Ctrl-C ------------------------------------------------------------------------------------------------------


class Interrupts(pl.Callback):
    """Ctrl-C in the middle of the second rollout, once or twice."""

    def __init__(self, times: int) -> None:
        self.times = times

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: Any, *args: Any) -> None:
        if pl_module.clock.count == 1:
            for _ in range(self.times):
                os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    ("times", "saved"), [(1, ["rollout_000001.ckpt", "rollout_000002.ckpt"]), (2, ["rollout_000001.ckpt"])]
)
def test_ctrl_c_saves_after_the_rollout_and_twice_stops_now(
    write: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str], times: int, saved: list[str]
) -> None:
    before = signal.getsignal(signal.SIGINT)
    config = sorting()
    config["trainer"]["callbacks"].append({"class_path": f"{__name__}.Interrupts", "init_args": {"times": times}})
    sys.modules.setdefault(__name__, sys.modules[Interrupts.__module__])
    with pytest.raises(SystemExit) as left:
        lit_rl.cli.main.main(["fit", "--config", write(config)])
    assert left.value.code == 130
    assert sorted(p.name for p in (tmp_path / "run").glob("rollout_*.ckpt")) == saved
    told = capsys.readouterr().err
    assert "Ctrl-C again stops now" in told
    assert ("rollout_000002.ckpt: the same command goes on from there" in told) == (times == 1)
    signal.signal(signal.SIGINT, before)
    lit_rl.cli.main.main(["fit", "--config", write()])
    assert (tmp_path / "run" / "last.ckpt").resolve().name == "rollout_000004.ckpt"


# -- what makes no sense -----------------------------------------------------------------------------------------


def test_a_model_of_null_is_none_and_not_the_text_none(capsys: pytest.CaptureFixture[str]) -> None:
    for null in ("--model.policy.model=null", "--model.policy.model null"):
        assert "give either model" in one_line(f"fit --config mbpp_grpo {null}", capsys)


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        (["--model.policy.model", "null"], ['--model.policy={"model": null}']),
        (["--model.init_args.policy.init_args.model=null"], ['--model.policy={"model": null}']),
        (["--model.sampling.top_p=null"], ['--model.sampling={"top_p": null}']),
        (["--model.update.microbatch_size=null"], ['--model.update={"microbatch_size": null}']),
        (["--trainer.logger", "null", "--data.x.y=nullable"], ["--trainer.logger", "null", "--data.x.y=nullable"]),
    ],
)
def test_a_null_two_classes_deep_is_said_as_the_parser_understands_it(given: list[str], understood: list[str]) -> None:
    assert rewrite_policy_nulls(given) == understood


# -- runs that can do nothing ------------------------------------------------------------------------------------


def test_a_prediction_that_nobody_writes_is_refused(
    write: Callable[..., str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lit_rl.data.SortingPolicy.load", lambda self: pytest.fail("the model was loaded"))
    error = one_line(f"predict --config {write()} --trainer.logger false --trainer.callbacks null", capsys)
    assert "predict would write no completions: add a callback" in error and "CompletionWriter" in error


def test_a_file_without_classes_adds_to_those_of_an_earlier_one_and_is_refused_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    added = tmp_path / "added.yaml"
    added.write_text("data: {batch_size: 3}\nmodel:\n  objective: {kl_coef: 0.25}\n")
    with pytest.raises(SystemExit) as left:
        lit_rl.cli.main.main(["fit", "--config", "basics_grpo", "--config", str(added), "--print_config"])
    assert not left.value.code
    whole = yaml.safe_load(capsys.readouterr().out)
    assert whole["data"]["init_args"]["batch_size"] == 3
    assert whole["model"]["init_args"]["objective"]["kl_coef"] == 0.25
    assert "names no class: give class_path" in one_line(f"fit --config {added}", capsys)
    for text, said in (
        ("model:\n  objective: {kl_coeff: 0.25}\n", "kl_coeff is unknown to Objective; did you mean kl_coef"),
        ("model: null\n", "model: expected a class"),
    ):
        added.write_text(text)
        assert said in one_line(f"fit --config basics_grpo --config {added}", capsys)


SORTING = Path(__file__).parents[1] / "configs" / "sorting_rewards.yaml"
SAVED = """
run_dir: null
trainer:
  val_check_interval: 2
  callbacks:
    - class_path: lit_rl.callbacks.ExecutionEvaluation
    - class_path: lit_rl.callbacks.Checkpointing
      init_args: {folder: elsewhere, every_n_rollouts: 2}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("saved.yaml").write_text(SAVED)
    return tmp_path


def fit(rollouts: int, *more: str) -> None:
    main(["fit", "--config", str(SORTING), "--config", "saved.yaml", "--model.max_rollouts", str(rollouts), *more])


def test_all_verbs_find_a_run_by_its_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit(2, "--run_dir", "mine/first")
    fit(4, "--run_dir", "mine/first")
    assert {path.name for path in here.iterdir()} == {"saved.yaml", "mine"}, "nothing is written elsewhere"
    assert Path("mine/first/last.ckpt").resolve().name == "rollout_000004.ckpt"
    assert find_run_folders("mine/first") == [Path("mine/first/version_0")], "the resumed run logs where it began"
    said = capsys.readouterr().out
    assert "rollout 2/2" in said and "rollout 3/4" in said and said.count("rollout 1/") == 1
    main(["validate", "--config", "mine/first/version_0/config.yaml", "--ckpt_path", "last"])
    said = capsys.readouterr().out
    assert (
        "mine/first/rollout_000004.ckpt" in said
        and "greedy" in said
        and "\N{BOX DRAWINGS HEAVY HORIZONTAL}" not in said
    )
    main(["report", "mine/first/version_0"])
    assert "reward/mean" in capsys.readouterr().out


def test_a_run_without_a_logger_gets_one_in_its_folder(here: Path) -> None:
    main(["validate", "--config", str(SORTING), "--trainer.logger", "null", "--run_dir", "mine"])
    assert list(Path("mine/validate").glob("events.*")), "where it is no second run next to one"
    main(["validate", "--config", str(SORTING), "--trainer.logger", "false", "--run_dir", "other"])
    written = [path.name for path in Path("other").iterdir()]
    assert written == ["completions.jsonl.gz"], "no logger was wanted, and config.yaml is a training's"
    fit(2, "--trainer.logger", "null")
    assert find_run_folders("elsewhere") == [Path("elsewhere/version_0")], "without --run_dir, beside the checkpoints"


def test_a_trial_of_one_batch_leaves_nothing_to_resume_from(here: Path) -> None:
    fit(2, "--run_dir", "mine", "--trainer.fast_dev_run", "true")
    assert not list(Path("mine").glob("*.ckpt"))


def test_a_run_with_a_checkpoint_callback_of_lightnings_can_be_resumed_too(here: Path) -> None:
    theirs = json.dumps([{"class_path": "ModelCheckpoint", "init_args": {"monitor": "val_loss"}}])
    fit(2, "--run_dir", "mine", "--trainer.limit_val_batches", "0", "--trainer.callbacks", theirs)
    assert Path("mine/last.ckpt").resolve().name == "rollout_000002.ckpt"


def test_a_validation_before_training_is_told_once_and_changes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(2, "--run_dir", "plain")
    assert "\nsampled" not in capsys.readouterr().out.partition("rollout 1/")[0]
    fit(2, "--run_dir", "first", "--validate_first", "true")
    before, _, after = capsys.readouterr().out.partition("rollout 1/")
    assert "\nsampled   reward " in before
    (folder,) = find_run_folders("first")
    curve = read_metrics(folder).curves["val/sampled/reward/mean"]
    (summary,) = [line for line in after.partition("\ndone ")[2].splitlines() if line.startswith("sampled reward")]
    assert [count for count, _ in curve] == [0, 2]
    assert re.findall(r"\d\.\d{3}", summary)[:2] == [f"{value:.3f}" for _, value in curve]
    events = EventAccumulator(str(folder))
    events.Reload()
    assert sorted(event.step for event in events.Scalars("val/sampled/reward/mean")) == [0, 2]
    weights = [torch.load(f"{name}/last.ckpt", weights_only=False)["state_dict"] for name in ("plain", "first")]
    assert weights[0] and all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    fit(4, "--run_dir", "first", "--validate_first", "true")
    assert "\nsampled   reward " not in capsys.readouterr().out.partition("rollout 3/")[0]
    assert [count for count, _ in read_metrics(folder).curves["val/sampled/reward/mean"]] == [0, 2, 4]


def config(**changes: Any) -> str:
    """The base configuration with some arguments of the model changed: ``policy={"init_seed": 3}``."""
    found = copy.deepcopy(BASE)
    arguments = found["model"]["init_args"]
    for name, value in changes.items():
        if name == "policy":
            arguments["policy"]["init_args"] |= value
        elif name == "algorithm":
            found["model"]["class_path"] = value
        elif name == "batch_size":
            found["data"]["init_args"][name] = value
        else:
            arguments[name] = value
    return yaml.safe_dump(found)


def adamw(lr: float, name: str = "AdamW") -> dict[str, Any]:
    return {"optimizer": {"class_path": f"torch.optim.{name}", "init_args": {"lr": lr}}}


@pytest.mark.parametrize(
    ("changes", "name", "in_force"),
    [
        ({"max_rollouts": 5}, "model.max_rollouts", True),
        ({"update": adamw(0.01)}, "model.update.optimizer.lr", False),
        ({"sampling": {"num_samples": 4, "max_tokens": 4}}, "model.sampling.num_samples", True),
        ({"rewards": [{"class_path": "lit_rl.rewards.FormatReward"}]}, "model.rewards", True),
        ({"algorithm": "lit_rl.modules.REINFORCE"}, "model", True),
        ({"policy": {"init_seed": 7}}, "model.policy.init_seed", False),
        ({"policy": {"chunk_tokens": 7}}, "model.policy.chunk_tokens", True),
        ({"batch_size": 8}, "data.batch_size", True),
    ],
)
def test_each_change_says_whether_it_is_in_force(changes: dict[str, Any], name: str, in_force: bool) -> None:
    lines = map(str, setting_changes_on_resume(config(), config(**changes)))
    (line,) = [line for line in lines if line.startswith(f"{name}: ")]
    assert ("in force" in line, "ignored" in line) == (in_force, not in_force)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"update": adamw(0.001, "SGD")}, "model.update.optimizer: expected AdamW"),
        ({"policy": {"config": TINY | {"hidden_size": 24}}}, "model.policy.config.hidden_size: expected 16"),
        ({"policy": {"config": TINY | {"hidden_act": "gelu"}}}, "model.policy.config.hidden_act: expected not set"),
        ({"policy": {"lora": {"rank": 2}}}, "model.policy.lora.rank: expected not set"),
        ({"algorithm": "lit_rl.modules.PPO"}, "model: expected GRPO"),
        ({"algorithm": "lit_rl.modules.SFT", "policy": {"config": {}}}, "model: expected GRPO"),
    ],
)
def test_what_the_checkpoint_holds_the_state_of_is_refused(changes: dict[str, Any], name: str) -> None:
    """Told as ignored, it would be refused a moment later, or silently be in force."""
    before = config(policy={"lora": None})
    with pytest.raises(UsageError, match=rf"^{name}.*got .*lit-rl export"):
        setting_changes_on_resume(before, config(**{"policy": {"lora": None}} | changes))


def test_a_base_below_adapters_is_not_the_checkpoints() -> None:
    before, now = (config(policy={"lora": {"rank": 2}, "model": model}) for model in ("here", "there"))
    assert "here -> there, in force" in str(setting_changes_on_resume(before, now)[0])


def test_a_run_that_goes_on_tells_what_changed_and_keeps_its_config_when_it_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    saves = {"class_path": "lit_rl.callbacks.Checkpointing", "init_args": {"folder": "run", "every_n_rollouts": 1}}
    trainer = {**BASE["trainer"], "logger": True, "callbacks": [saves], "limit_val_batches": 0}
    Path("base.yaml").write_text(yaml.safe_dump({**yaml.safe_load(config()), "trainer": trainer}))
    run = "--run_dir run"
    main(["fit", "--config", "base.yaml", *run.split()])
    saved = {path: path.read_text() for path in Path("run").rglob("config.yaml")}
    assert len(saved) == 1
    capsys.readouterr()
    status, error = answer(f"{run} --model.update.optimizer SGD --model.update.optimizer.lr 0.1", capsys)
    assert status != 0 and "model.update.optimizer" in error
    assert {path: path.read_text() for path in Path("run").rglob("config.yaml")} == saved
    caplog.set_level("INFO")
    more = ["--model.max_rollouts", "2", "--model.update.optimizer.lr", "0.01"]
    main(["fit", "--config", "base.yaml", *run.split(), *more])
    assert "model.update.optimizer.lr: 0.001 -> 0.01, ignored" in caplog.text
    assert "model.max_rollouts: 1 -> 2, in force" in caplog.text
    (last,) = Path("run").rglob("last.ckpt")
    (state,) = torch.load(last, weights_only=False)["optimizer_states"]
    assert {group["lr"] for group in state["param_groups"]} == {0.001}
    # Recorded is what was in force, so that a start with the true value is not told of a change.
    (recorded,) = Path("run").rglob("config.yaml")
    for text in (recorded.read_text(), torch.load(last, weights_only=False)["config"]):
        assert setting_texts_by_name(text)["model.update.optimizer.lr"] == "0.001"
    assert "has finished" not in caplog.text
    main(["fit", "--config", "base.yaml", *run.split(), *more, "--model.objective.kl_coef", "0.1"])
    assert "model.objective.kl_coef: 0.0 -> 0.1, in force" in caplog.text
    assert "has finished (2 of 2 rollouts)" in caplog.text and "raise model.max_rollouts" in caplog.text
    assert "0.1" not in setting_texts_by_name(recorded.read_text())["model.objective.kl_coef"], (
        "nothing was trained with it"
    )
