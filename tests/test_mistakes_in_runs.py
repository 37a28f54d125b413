"""Mistakes in rewards, own tasks and settings that show when a run begins, or in its first rollout."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from lightning.pytorch.callbacks import EarlyStopping
from support.command_line import BASE, one_line
from support.small_runs import adam, build_module, corridor, fit, weights

from lit_rl import GRPO, PPO, AssertTests, Basics, Problem, Sampling, TaskDataModule, Trainer
from lit_rl.__main__ import main
from lit_rl.arguments import UsageError
from lit_rl.callbacks import Checkpointing, checkpointing
from lit_rl.data import Corridor, Sorting
from lit_rl.data.cut_task import Cut, CutTask
from lit_rl.models import LoRA, SeparateCritic, SortingPolicy
from lit_rl.models.loading.checkpoints import read_checkpoint
from lit_rl.modules import Update, setup_checks
from lit_rl.rewards import SortingReward
from lit_rl.trainer import require_training
from lit_rl.training.progress import Clock

OWN = '''
from contextlib import contextmanager

from lit_rl import AssertTests, Problem, TaskDataModule
from lit_rl.engines import Engine, Session
from lit_rl.rewards import RewardTerm
from lit_rl.rewards.term import TermScore


class Raises(RewardTerm):
    default_name = "own"

    def score(self, completions, judgements):
        return [{}["missing"] for _ in judgements]


class Task(TaskDataModule):
    def load_problems(self, split):
        return [Problem(f"p{i}", "def f():\\n", AssertTests("assert f()")) for i in range(4)]


class Empty(Task):
    def load_problems(self, split):
        return []


class Chats(Task):
    def load_problems(self, split):
        chat = ({"role": "user", "content": "Write f."},)
        shown = AssertTests("assert f()")
        return [Problem(f"p{i}", chat, AssertTests("assert f()"), public_check=shown) for i in range(4)]


class Silent(Session):
    """Forgets what it is asked."""

    def submit(self, requests):
        pass

    def step(self):
        return []

    num_unfinished = 0


class Mute(Engine):
    @contextmanager
    def session(self, policy, sampling):
        yield Silent()


class Bare(Engine):
    def session(self, policy, sampling):
        yield Silent()


class Yields(Engine):
    @contextmanager
    def session(self, policy, sampling):
        yield [1]


class Mistyped(RewardTerm):
    default_name = "own"

    def score(self, completions, judgements):
        return [TermScore(float(one.outcom.passed)) for one in judgements]


class Narrow(RewardTerm):
    default_name = "own"

    def score(self, completions):
        return []
'''


def own(name: str) -> str:
    return "--data " + json.dumps({"class_path": f"own_things.{name}", "init_args": {"batch_size": 2}}).join("''")


def reward(name: str) -> str:
    return f"--model.rewards '[own_things.{name}]' --model.sandbox own_runner.Nothing"


def engine(name: str) -> str:
    return f"--model.collect.engine own_things.{name} --model.sandbox own_runner.Nothing"


def repair(**arguments: object) -> str:
    given = {"class_path": "lit_rl.Repair", "init_args": arguments}
    return f"--data.num_public_cases 2 --model.collect.environment '{json.dumps(given)}'"


def template(text: str) -> str:
    """The chat task with a template of its own."""
    given = {"class_path": "lit_rl.models.CausalLM", "init_args": BASE["model"]["init_args"]["policy"]["init_args"]}
    given["init_args"] = given["init_args"] | {"chat_template": text}
    return f"{own('Chats')} --model.collect.environment Repair --model.policy {shlex.quote(json.dumps(given))}"


REWRITES = "{% for m in messages %}{{ m.role }} of {{ messages | length }}\n{{ m.content }}\n{% endfor %}"

# name: (what is added to `fit --config base.yaml`, or a whole command; parts of the answer)
MISTAKES: dict[str, tuple[str, tuple[str, ...]]] = {
    # -- rewards ---------------------------------------------------------------------------------------------
    "a reward that raises": (
        reward("Raises"),
        ("Raises.score failed: KeyError: 'missing' (own_things.py, line", "correct that line, or return TermScore"),
    ),
    "a reward with a mistyped name": (reward("Mistyped"), ("AttributeError", "outcom", "; correct that line")),
    "a reward of one argument": (reward("Narrow"), ("Narrow.score: ", "have it take completions and judgements")),
    # -- the sandbox -----------------------------------------------------------------------------------------
    "no sandbox": ("--model.sandbox null", ("GRPO has no sandbox", "basics", "model.sandbox")),
    "no sandbox to measure with": (
        "validate --config base.yaml --model.sandbox null",
        ("GRPO has no sandbox", "model.sandbox"),
    ),
    # -- own tasks -------------------------------------------------------------------------------------------
    "a task with a mistake in its syntax": (
        "--data broken_task.Task",
        ("data: expected ':'", "broken_task.py, line 2"),
    ),
    "a task whose import fails": (
        "--data importing_task.Task",
        ("data: importing_task.py, line 2: there is no module no_such_package: install it",),
    ),
    "a task that imports a module whose import fails": (
        "--data indirect_task.Task",
        ("data: importing_task.py, line 2: there is no module no_such_package: install it",),
    ),
    "a task that imports a class by a wrong name": (
        "--data misnamed_task.Task",
        ("data: misnamed_task.py, line 2: ImportError: cannot import name 'Taskdata' from 'lit_rl.data'",),
    ),
    "a task whose file ends in an error": (
        "--data nameless_task.Task",
        ("data: nameless_task.py, line 3: NameError: name 'z' is not defined",),
    ),
    "a reward whose import fails": (
        """--model.rewards '[{"class_path": "importing_task.Reward"}]'""",
        ("importing_task.py, line 2: there is no module no_such_package: install it",),
    ),
    "a task in no file": ("--data no_such_file.Task", ("data: there is no module no_such_file: install it",)),
    "a task without problems": (own("Empty"), ("nothing to fit: have load_problems return some for the split train",)),
    "a test without a test split": ("test --config base.yaml", ("has no test problems", "or use lit-rl validate")),
    # -- turns -----------------------------------------------------------------------------------------------
    "repair without public checks": (
        "--model.collect.environment Repair",
        ("has no public_check to repair a program by", "SingleTurn"),
    ),
    "repair without public checks in validation": (
        "validate --config base.yaml --model.collect.environment lit_rl.Repair",
        ("has no public_check to repair a program by", "SingleTurn"),
    ),
    "no turns": (repair(max_turns=0), ("Repair.max_turns: expected at least 2, got 0",)),
    "turns in words": (repair(max_turns="two"), ("max_turns: expected int, got two",)),
    "a placeholder that there is not": (
        repair(template="{feedbak}"),
        ("unknown placeholder {feedbak}", "{feedback}, {comment}"),
    ),
    "a message of nothing": (repair(max_message_tokens=0), ("Repair.max_message_tokens: expected at least 1, got 0",)),
    "a message too short for a note": (
        "--model.sandbox own_runner.Nothing " + repair(max_message_tokens=3),
        ("max_message_tokens of Repair: 3 tokens do not hold", "allow at least"),
    ),
    "rows shorter than any prompt": (
        repair(max_row_tokens=3),
        ("basics: the prompts of all 52 train problems leave no room", "max_row_tokens"),
    ),
    "a mistyped limit of a row": (
        repair(max_row_token=3),
        ("max_row_token is unknown to Repair", "did you mean max_row_tokens"),
    ),
    "an environment that there is not": (
        "--model.collect.environment Repare",
        ("there is no class Repare", "did you mean Repair"),
    ),
    "an environment of another kind": (
        "--model.collect.environment own_things.Task",
        ("own_things.Task is not derived from Environment",),
    ),
    "an environment that is abstract": (
        "--model.collect.environment Environment",
        ("Environment is abstract: give a class derived from it (Repair, SingleTurn)",),
    ),
    "repair without public checks beside demonstrations": (
        "--model SFT --model.max_updates 1 --model.collect.environment Repair",
        ("has no public_check to repair a program by", "SingleTurn"),
    ),
    "a chat that is rewritten": (template(REWRITES), ("writes earlier turns differently", "chat_template")),
    "a chat template that cannot be read": (
        template("{% for m in messages %}{{ m.content }}"),
        ("the chat template fails on messages", "Unexpected end of template", "; set the policy's chat_template"),
    ),
    "a chat template that refuses a second turn": (
        template("{% if messages|length > 2 %}{{ raise_exception('one turn only') }}{% endif %}{{ messages }}"),
        ("of the roles user, assistant, user: one turn only; set the policy's chat_template",),
    ),
    "an engine that forgets what it is asked": (
        "--model.collect.engine own_things.Mute --model.sandbox own_runner.Nothing",
        ("Silent.num_unfinished is 0, but 8 requests are not answered yet (rows 0, 1, 2, 3, 4, ...)",),
    ),
    "a session without its decorator": (
        engine("Bare"),
        ("Bare.session: expected a context manager, got <generator", "decorate it with @contextmanager"),
    ),
    "a session of another kind": (engine("Yields"), ("Yields.session: expected a Session from its yield, got [1]",)),
    # -- the objective and the updates -----------------------------------------------------------------------
    "a bound of another loss": (
        "--model.objective.loss PolicyGradient --model.objective.loss.clip_low 0.3",
        ("clip_low is unknown to PolicyGradient; it is an argument of CISPO and Clipped",),
    ),
    "more minibatches than rows": ("--model.update.minibatches 9", ("minibatches is 9", "8 rows", "batch_size")),
    # -- the trainer -----------------------------------------------------------------------------------------
    "half precision without a GPU": ("--trainer.precision 16-mixed", ("16-mixed", "bf16-mixed or 32-true")),
    "half precision without scaling": ("--trainer.precision 16-true", ("16-true", "float16", "bf16-mixed or 32-true")),
    "weights that learn in half precision": (
        "--model.policy.dtype float16",
        ("weights that learn are float16", "small gradients become 0: set dtype to bfloat16"),
    ),
    "half precision by its old name": (
        "--trainer.precision 16",
        ("precision 16 scales losses", "bf16-mixed or 32-true"),
    ),
    "a TPU": ("--trainer.accelerator tpu", ("trainer.accelerator is tpu", "cpu, cuda or auto")),
    "another accelerator's package": ("--trainer.accelerator hpu", ("hpu", "cpu")),
    "a read-only folder": (
        "--trainer.default_root_dir /proc/nothing --trainer.logger true",
        ("/proc/nothing: No such file or directory; correct the path, or its rights",),
    ),
    "a run's folder that cannot be made": (
        """--trainer.callbacks '[{"class_path": "Checkpointing", "init_args": {"folder": "/proc/nothing"}}]'""",
        ("/proc/nothing", "Checkpointing's folder"),
    ),
    "a file for a run's folder": (
        """--trainer.callbacks '[{"class_path": "Checkpointing", "init_args": {"folder": "base.yaml"}}]'""",
        ("base.yaml", "Checkpointing's folder"),
    ),
}

RUNNER = '''
from concurrent.futures import Future

from lit_rl.execution import Outcome, ProgramRunner, Verdict


class Nothing(ProgramRunner):
    """Runs no program: all fail."""

    def submit(self, program, check):
        future = Future()
        future.set_result(Outcome(Verdict.WRONG_ANSWER))
        return future

    def close(self):
        pass
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("runs")
    (here / "base.yaml").write_text(yaml.safe_dump(copy.deepcopy(BASE)))
    (here / "own_things.py").write_text(OWN)
    (here / "own_runner.py").write_text(RUNNER)
    (here / "broken_task.py").write_text("x = 1\nclass Task\n")
    (here / "importing_task.py").write_text("x = 1\nimport no_such_package\n")
    (here / "indirect_task.py").write_text("from importing_task import Task\n")
    (here / "misnamed_task.py").write_text("x = 1\nfrom lit_rl.data import Taskdata\n")
    (here / "nameless_task.py").write_text("x = 1\n\ny = z + 1\n")
    return here


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_in_one_line(
    mistake: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, parts = MISTAKES[mistake]
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    line = one_line(command, capsys)
    assert [part for part in parts if part not in line] == [], line


def test_tasks_of_slurm_that_know_nothing_of_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = SimpleNamespace(world_size=2, max_epochs=-1, max_steps=-1, limit_train_batches=1.0)
    for tasks in ("1", "2"):
        monkeypatch.setenv("SLURM_STEP_NUM_TASKS", tasks)
        require_training(alone)  # type: ignore[arg-type]
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "3")
    with pytest.raises(UsageError, match=r"srun started 3 tasks, and trainer.devices x num_nodes is 2: set"):
        require_training(alone)  # type: ignore[arg-type]


def test_a_task_without_validation_problems_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(setup_checks, "rank_zero_info", told.append)
    for most, limit in ((0, 0), (1, 1.0), (0, 1.0)):
        assert not told, "with problems, or where no validation is wanted"
        trainer: Any = SimpleNamespace(datamodule=Basics(max_validation_problems=most), limit_val_batches=limit)
        setup_checks.require_problems(trainer, "fit")
    assert "no validation problems" in told[0] and "limit_val_batches" in told[0]


OVERLAP = {"train": [("a", "1"), ("b", "2"), ("c", "3")], "validation": [("c", "3"), ("a", "1"), ("b", "4")]}


@pytest.mark.parametrize(
    ("monitor", "mode", "told"), [("val/a/pass@1", "min", 1), ("val/a/pass@1", "max", 0), ("reward/mean", "min", 1)]
)
def test_a_pass_rate_that_is_better_if_smaller_is_told(
    monkeypatch: pytest.MonkeyPatch, monitor: str, mode: str, told: int
) -> None:
    said: list[str] = []
    monkeypatch.setattr(checkpointing, "rank_zero_warn", said.append)
    watch = EarlyStopping(monitor=monitor, mode=mode)
    trainer = SimpleNamespace(callbacks=[watch], limit_val_batches=1, val_check_interval=1, check_val_every_n_epoch=1)
    checkpointing.check_monitors(trainer, SimpleNamespace(clock=Clock("rollout"), metric_prefix=""))  # type: ignore[arg-type]
    assert len(said) == told and all("EarlyStopping.mode is min" in one for one in said)


@pytest.mark.parametrize(
    ("monitor", "prefix", "meant"),
    [
        ("val_loss", "", "val/greedy/pass@1"), ("val_loss", "sft", "val/loss"), ("val/loss", "", "val/greedy/pass@1"),
        ("val/pass@1", "sft", "val/greedy/pass@1"), ("val/loss", "sft", ""), ("val/margin", "dpo", ""),
        ("reward/mean", "", ""), ("val/greedy/pass@1", "", ""),
    ],
)  # fmt: skip
def test_a_metric_that_nothing_logs_is_refused_as_a_monitor(monitor: str, prefix: str, meant: str) -> None:
    watch: Any = EarlyStopping(monitor=monitor, mode="max")
    watch.metric_names = lambda *_: ["val/greedy/pass@1"]
    trainer = SimpleNamespace(callbacks=[watch], limit_val_batches=1, val_check_interval=1, check_val_every_n_epoch=1)
    module: Any = type("Ours", (), {"__module__": "lit_rl.x", "clock": Clock("rollout"), "metric_prefix": prefix})()
    refusal = pytest.raises(UsageError, match=f"EarlyStopping's monitor {monitor} is none .* did you mean {meant}")
    with refusal if meant else nullcontext():
        checkpointing.check_monitors(trainer, module)


def test_validation_problems_that_are_trained_on_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three have name and prompt of a training problem; one has its name alone."""
    told: list[str] = []
    monkeypatch.setattr(setup_checks, "rank_zero_warn", told.append)
    check = AssertTests("assert f()")
    parts = {split: [Problem(name, f"{name}{mark}", check) for name, mark in rows] for split, rows in OVERLAP.items()}

    class Task(TaskDataModule):
        def load_problems(self, split: str) -> list[Problem]:
            return parts[split]

    for limit in (0, 1.0):
        assert not told, "where no validation is wanted"
        setup_checks.require_problems(SimpleNamespace(datamodule=Task(), limit_val_batches=limit), "fit")  # type: ignore[arg-type]
    assert len(told) == 1 and "2 of 3 validation problems" in told[0]


def test_a_benchmark_that_is_not_cut_says_how_to_train_on_it() -> None:
    class Whole(CutTask):
        split: Cut = "all"
        name = "whole"

        def read_problems(self) -> list[Problem]:
            raise AssertionError("no row is needed to know that")

    trainer: Any = SimpleNamespace(datamodule=Whole(), limit_val_batches=0)
    with pytest.raises(UsageError, match="whole has no train problems, so there is nothing to fit: give split='train'"):
        setup_checks.require_problems(trainer, "fit")


@pytest.mark.parametrize(("tokens", "fit"), [(124, True), (125, False)])
def test_a_plan_of_rows_that_the_model_cannot_read_says_so(
    tokens: int, fit: bool, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model has 128 positions, and a completion 4 tokens."""
    monkeypatch.chdir(folder)
    main(["plan", "--config", "base.yaml", "--gpus", "1", "--prompt_tokens", str(tokens)])
    assert ("do not fit into the model's 128 positions" in capsys.readouterr().out) is not fit


def test_a_timer_does_not_keep_a_configuration_from_being_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A default of its arguments is a member of an enumeration; the checkpoint holds the configuration."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    timer = {"class_path": "lightning.pytorch.callbacks.Timer", "init_args": {"duration": "00:01:00:00"}}
    saves = {"class_path": "Checkpointing", "init_args": {"folder": "timed"}}
    options = ["--trainer.callbacks", json.dumps([timer, saves]), "--model.sandbox", "own_runner.Nothing"]
    main(["fit", "--config", "base.yaml", *options])
    config = yaml.safe_load(read_checkpoint(folder / "timed" / "last.ckpt")["config"])
    assert config["trainer"]["callbacks"][0]["init_args"]["interval"] == "step"


def decay(steps: int = 9, lr: float = 0.1, optimizer: Any = torch.optim.AdamW) -> Update:
    return Update(
        optimizer=lambda of: optimizer(of, lr=lr),
        lr_scheduler=lambda of: torch.optim.lr_scheduler.LinearLR(of, total_iters=steps),
    )


def go_on(folder: Path, lists: Sequence[list[int]] = ([1, 0, 2], [3, 2, 4]), **given: Any) -> None:
    """A start of a run in Python, as a script has it."""
    module = GRPO(
        SortingPolicy(init_seed=0),
        **{"rewards": [SortingReward()], "sampling": Sampling(num_samples=2, max_tokens=3), "max_rollouts": 1}
        | {"update": decay()}
        | given,
    )
    trainer = Trainer(accelerator="cpu", limit_val_batches=0, callbacks=[Checkpointing(str(folder))], logger=False)
    trainer.fit(module, Sorting([*lists], batch_size=1))


def test_a_script_that_goes_on_tells_what_differs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    go_on(tmp_path)
    go_on(tmp_path)
    assert "going on from" in caplog.text and "->" not in caplog.text
    given = {"rewards": [SortingReward(weight=2.0)], "sampling": Sampling(num_samples=4, max_tokens=3)}
    go_on(tmp_path, **given, max_rollouts=2, update=decay(8, 0.01))
    assert [one.strip() for one in caplog.messages if "->" in one] == [
        "model.rewards.terms.SortingReward.weight: 1.0 -> 2.0, in force from now on",
        "model.sampling.num_samples: 2 -> 4, in force from now on",
        "model.update.lr_scheduler.total_iters: 9 -> 8, in force from now on",
        "model.update.optimizer.lr: 0.1 -> 0.01, ignored: the checkpoint's optimizer keeps its own",
        "model.max_rollouts: 1 -> 2, in force from now on",
    ]
    caplog.clear()
    go_on(tmp_path, **given, max_rollouts=2, update=decay(8))  # with the rate that was in force all the time
    assert "->" not in caplog.text
    with pytest.raises(UsageError, match=r"^model\.update\.optimizer: expected AdamW, .* got SGD; .*lit-rl export"):
        go_on(tmp_path, max_rollouts=3, update=decay(optimizer=torch.optim.SGD))


@pytest.mark.parametrize(("rollouts", "twice"), [(1, True), (2, False)])
def test_a_task_that_is_exchanged_between_two_starts_is_told(rollouts: int, twice: bool, tmp_path: Path) -> None:
    """In the middle of an epoch of two rollouts, and at its end, where Lightning reads back no position."""
    go_on(tmp_path, max_rollouts=rollouts)
    with pytest.warns(UserWarning, match="training problems are others than the checkpoint's") as told:
        go_on(tmp_path, [[0, 2, 1], [3, 4, 2]], max_rollouts=rollouts + 1)
    assert sum("come twice" in str(one.message) for one in told) == twice


@pytest.mark.parametrize(
    ("optimizer", "rate", "told"),
    [("AdamW", 6.0, 1), ("NAdam", 0.2, 1), ("Adamax", 0.2, 1), ("RAdam", 0.1, 0), ("AdamW", 0.1, 0), ("SGD", 6.0, 0)],
)
def test_a_rate_that_moves_weights_by_more_than_they_are_is_told(
    optimizer: str, rate: float, told: int, recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    go_on(tmp_path, update=decay(1, rate, getattr(torch.optim, optimizer)))  # which begins with a third of it
    line = f"the learning rate is {rate:g}, and {optimizer} moves a weight by about that much in each update: lower it"
    assert sum(line in str(one.message) for one in recwarn) == told


@pytest.mark.parametrize(("rate", "told"), [(0.5, 1), (0.05, 0)])
def test_a_rate_of_the_critic_is_looked_at_too(
    rate: float, told: int, recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    fit(corridor(adam, 1, Sampling(num_samples=2, max_tokens=4), learning_rate=rate), tmp_path, data=Corridor(5))
    assert sum("the learning rate is 0.5, and Adam moves" in str(one.message) for one in recwarn) == told


def test_a_rate_that_a_checkpoint_brings_is_the_one_looked_at(recwarn: pytest.WarningsRecorder, tmp_path: Path) -> None:
    go_on(tmp_path, update=decay(1, 1.5))
    recwarn.clear()
    go_on(tmp_path, update=decay(1, 0.01), max_rollouts=2)
    assert sum("the learning rate is 1.5, and AdamW" in str(one.message) for one in recwarn) == 1


def by_shape(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    """Matrices apart from vectors, as where only matrices decay."""
    split = [
        {**group, "params": [p for p in group["params"] if (p.ndim >= 2) is matrices]}
        for group in groups
        for matrices in (True, False)
    ]
    return torch.optim.SGD(split, lr=1.0)


@pytest.mark.parametrize("kind", [GRPO, PPO])
def test_weights_that_an_optimizer_splits_by_shape_are_clipped_together(
    kind: Any, byte_tokenizer: str, tmp_path: Path
) -> None:
    """A rate of 1 moves the policy by the clipped norm, and the norm that is logged is that of the whole part."""
    moved, logged = [], []
    for optimizer in (by_shape, partial(torch.optim.SGD, lr=1.0)):
        options: dict[str, Any] = {"optimizer": optimizer, "gradient_clip_norm": 1e-3, "max_rollouts": 1}
        options |= {"critic": SeparateCritic()} if kind is PPO else {}
        module: Any = build_module(byte_tokenizer, kind, **options)
        before = weights(module_at_start(module))
        logged.append(float(fit(module, tmp_path).callback_metrics["policy/gradient_norm"]))
        moved.append(weights(module) - before)
    assert float(moved[0].norm()) == pytest.approx(1e-3, rel=1e-4)
    assert torch.allclose(*moved, rtol=0, atol=1e-9)
    assert logged[0] == pytest.approx(logged[1])


def module_at_start(module: Any) -> Any:
    module.policy.load()
    return module


def test_muon_learns_adapters(byte_tokenizer: str, tmp_path: Path) -> None:
    """It takes matrices only, which all weights of adapters are."""
    module: Any = build_module(
        byte_tokenizer, optimizer=partial(torch.optim.Muon, lr=0.01), gradient_clip_norm=1.0, max_rollouts=2
    )
    module.policy.lora = LoRA(rank=4)
    before = weights(module_at_start(module))
    assert fit(module, tmp_path).global_step == 2
    assert int((weights(module) != before).sum()) == sum(
        p.numel() for p in module.policy.parameters() if p.requires_grad
    )


def test_an_optimizer_that_cannot_take_the_weights_is_refused_by_its_key(byte_tokenizer: str, tmp_path: Path) -> None:
    module = build_module(byte_tokenizer, optimizer=partial(torch.optim.Muon, lr=0.01), max_rollouts=2)
    with pytest.raises(UsageError, match=r"^update\.optimizer cannot be built: Muon only supports 2D"):
        fit(module, tmp_path)
