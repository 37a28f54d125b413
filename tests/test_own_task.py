"""The pages about tasks, algorithms, environments and engines of one's own run as printed, with a tiny policy."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from support.tiny_models import TINY_QWEN2
from torch import Tensor

import lit_rl.cli.main
from lit_rl.modules import GRPO, RolloutModule
from lit_rl.rollout import Rollout
from lit_rl.types import Experience, StopReason

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("own_task", "own_algorithm", "own_environment", "own_engine")
PAGE = "\n".join((DOCS / f"{name}.md").read_text() for name in PAGES)
CHAT = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"


FILES = (
    *(
        f"my_{name}.py"
        for name in ("task", "functions", "grpo", "loss", "baseline", "algorithm", "environment", "hints")
    ),
    "my_generate.py",
    *(f"my_{name}.yaml" for name in ("functions", "method", "best", "turns", "generate")),
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def file(name: str) -> str:
    """The block that begins with the file's name in a comment."""
    (text,) = (block for kind in ("python", "yaml") for block in blocks(kind) if block.startswith(f"# {name}\n"))
    return text


def commands() -> list[list[str]]:
    """Words after ``lit-rl`` on each line of the page, in order."""
    lines = re.findall(r"^lit-rl (.*?)(?: *#.*)?$", "\n".join(blocks("bash")), re.MULTILINE)
    return [line.split() for line in lines]


def with_config(name: str) -> list[str]:
    """The command of the page that adds this configuration."""
    (command,) = [words for words in commands() if name in words]
    return command


@pytest.fixture
def folder(tmp_path: Path, byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's files, with a tiny policy and few rows."""
    monkeypatch.chdir(tmp_path)
    rows, small = blocks("json")
    (tmp_path / "small.jsonl").write_text(small)
    for name in ("train.jsonl", "held_out.jsonl"):
        (tmp_path / name).write_text(rows)
    for name in FILES:
        (tmp_path / name).write_text(file(name))
    (tmp_path / "own_sums.py").write_text(SUMS)
    config: dict[str, Any] = yaml.safe_load(file("my_run.yaml"))
    model = config["model"]["init_args"]
    tiny = TINY_QWEN2 | {"max_position_embeddings": 256}
    model["policy"]["init_args"] = {"config": tiny, "tokenizer": byte_tokenizer, "chat_template": CHAT}
    model |= {"max_rollouts": 1, "sampling": {"num_samples": 2, "max_tokens": 4}}
    config["data"]["init_args"]["batch_size"] = 2
    config["trainer"] |= {"accelerator": "cpu", "devices": 1, "val_check_interval": 1}
    (tmp_path / "my_run.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


def test_the_page_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check, fit, *_ = commands()
    lit_rl.cli.main.main(check)
    assert "2 of 2 references pass" in capsys.readouterr().out, "equal rows of both files count once"
    lit_rl.cli.main.main(fit)
    assert (folder / "runs" / "mine" / "best.ckpt").exists()


def test_rows_in_completion_form_suit_the_shipped_configuration(folder: Path, byte_tokenizer: str) -> None:
    """The command of the page with a tiny policy; references are whole functions."""
    command = with_config("my_functions.yaml")
    tiny = {"model": None, "config": TINY_QWEN2 | {"max_position_embeddings": 256}, "tokenizer": byte_tokenizer}
    (folder / "tiny.yaml").write_text(yaml.safe_dump({"model": {"init_args": {"policy": {"init_args": tiny}}}}))
    lit_rl.cli.main.main(
        [*command, "--config", "tiny.yaml", "--model.max_rollouts", "1", "--trainer.val_check_interval", "1"]
    )
    kept = torch.load(folder / "runs" / "small" / "last.ckpt", weights_only=False)
    assert kept["config"].count("my_functions.MyFunctions") == 1


class Watched:
    """The last training rollout, what was learned from, and the policy's weights before the rollout."""

    rollout: Rollout
    module: RolloutModule
    before: list[Tensor]

    def __init__(self) -> None:
        self.experiences: list[Experience] = []

    def weights(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self.module.policy.parameters()]

    def has_learned(self) -> bool:
        return any(not torch.equal(*both) for both in zip(self.before, self.weights(), strict=True))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    seen = Watched()
    collect, update = RolloutModule.collect, RolloutModule.update_once

    def watch(module: RolloutModule, batch: Any) -> Rollout:
        seen.module = module
        seen.before = seen.weights()
        seen.rollout = collect(module, batch)
        return seen.rollout

    def watch_update(module: RolloutModule, experience: Experience, *rest: Any) -> Any:
        seen.experiences.append(experience)
        return update(module, experience, *rest)

    monkeypatch.setattr(RolloutModule, "collect", watch)
    monkeypatch.setattr(RolloutModule, "update_once", watch_update)
    return seen


FOUR = ["--trainer.limit_val_batches", "0", "--model.sampling.num_samples", "4", "--model.rewards", "[own_sums.Sums]"]
LEARNS = [*FOUR, "--model.update.optimizer.lr", "0.05"]
"""Groups of four, with rewards that differ and a rate that moves the weights."""


def test_a_loss_a_baseline_and_an_environment_of_ones_own_train(
    folder: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pages in one run. The tiny policy is always cut off after four tokens, so each row has a second turn."""
    seen: list[Any] = []
    log = GRPO.log_dict

    def watch(module: GRPO, values: Any, **options: Any) -> None:
        seen.append(values)
        log(module, values, **options)

    monkeypatch.setattr(GRPO, "log_dict", watch)
    both = [*with_config("my_method.yaml"), *with_config("my_turns.yaml")[-2:]]
    lit_rl.cli.main.main([*both, *LEARNS, "--model.max_rollouts", "3"])
    assert any(values.get("policy/beyond_width", 0) > 0 for values in seen), "no update moved the policy"
    rows = watched.rollout.completions
    assert [len(turns) for turns in rows.turns] == [2] * 8 and watched.rollout.max_turns == 2
    said = rows.completion_ids[0, rows.turns[0][0].end : rows.turns[0][1].start].tolist()
    text = watched.module.policy.codec.decode(said, StopReason.LENGTH, ())[0]
    assert text.strip() == "Your answer was cut off. Write a shorter one."
    assert rows.completion_mask.sum(-1).tolist() == [8] * 8
    written = yaml.safe_load(torch.load(folder / "runs" / "mine" / "last.ckpt", weights_only=False)["config"])
    again = lit_rl.cli.main.Cli(
        ["--config", str(write(folder / "again.yaml", {k: written[k] for k in ("model", "data")}))], run=False
    ).model
    for module in (watched.module, again):
        assert type(module.objective.loss).__name__ == "SoftClip" and module.objective.loss.width == 0.3
        assert type(module.baseline).__name__ == "GroupMedian"


def test_an_environment_that_reads_outcomes_is_tried_without_a_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that returns nothing fails all public cases; the reference leaves nothing to say."""
    monkeypatch.syspath_prepend(folder)
    (script,) = (block for block in blocks("python") if block.startswith("from my_hints import"))
    exec(compile(script, "own_environment.md", "exec"), {"__name__": "snippet"})
    said = capsys.readouterr().out
    assert said.startswith("\n# 0 of 3 cases passed") and said.endswith("\nNone\n")
    assert "\ndef " in said, "the function begins once more"


def test_an_algorithm_of_ones_own_imitates_the_best_of_each_group(folder: Path, watched: Watched) -> None:
    lit_rl.cli.main.main([*with_config("my_best.yaml"), *LEARNS])
    assert type(watched.module).__name__ == "BestOfGroup"
    ids = watched.rollout.completions.group_ids.tolist()
    sums = [sum(row) % 7 for row in watched.rollout.completions.completion_ids.tolist()]
    best = {group: max(value for value, other in zip(sums, ids, strict=True) if other == group) for group in ids}
    wanted = [float(value == best[group] and value > 0) for value, group in zip(sums, ids, strict=True)]
    assert watched.experiences[0].advantages.amax(-1).tolist() == wanted and 0 < sum(wanted) < len(wanted)
    assert watched.has_learned()


def test_grpo_of_the_page_has_the_advantages_of_grpo(folder: Path, watched: Watched) -> None:
    config = yaml.safe_load((folder / "my_run.yaml").read_text())
    for algorithm in ("my_grpo.MyGRPO", "lit_rl.modules.GRPO"):
        shutil.rmtree(folder / "runs", ignore_errors=True)
        config["model"]["class_path"] = algorithm
        lit_rl.cli.main.main(["fit", "--config", str(write(folder / "run.yaml", config)), *LEARNS])
        assert watched.has_learned()
    page, library = (experience.advantages for experience in watched.experiences)
    assert page.abs().amax() > 0.5
    torch.testing.assert_close(page, library)


def test_generate_as_an_engine_samples_what_training_reads(folder: Path, watched: Watched) -> None:
    """The log-probabilities are the policy's own, so the first ratio is 1; a stop string and EOS end a row."""
    lit_rl.cli.main.main([*with_config("my_generate.yaml"), *FOUR, "--model.sampling.max_tokens", "6"])
    completions = watched.rollout.completions
    assert len(set(completions.texts)) > 3 and int(completions.lengths.max()) == 6
    assert watched.has_learned()
    assert float(watched.module.trainer.callback_metrics["sampling/logprob_gap/max"]) < 1e-4


SUMS = """
from lit_rl.rewards import RewardTerm, TermScore


class Sums(RewardTerm):
    default_name = "sums"

    def score(self, completions, judgements):
        return [TermScore(float(sum(ids) % 7)) for ids in completions.completion_ids.tolist()]
"""


def write(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(config))
    return path
