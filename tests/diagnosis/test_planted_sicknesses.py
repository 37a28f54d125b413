"""Longer runs: what is planted is named first, and healthy runs have no alarm.

The tiny model learns to write texts of mostly ASCII, which the judge passes, within some 40 rollouts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.ill_runs import Judged, Programs
from support.small_runs import Scored, build_module, corridor, fit, grouped, sorting

from lit_rl.callbacks import Diagnostics, ExecutionEvaluation
from lit_rl.cli.main import main
from lit_rl.data import Basics, Corridor, Sorting
from lit_rl.data.task import Split
from lit_rl.execution import Sandbox
from lit_rl.execution.interface import Verdict
from lit_rl.math.advantages import NoBaseline
from lit_rl.models import CausalLM
from lit_rl.modules import GRPO
from lit_rl.rewards import TestsReward
from lit_rl.rewards.program_tests import GRADES
from lit_rl.types import Problem, Sampling

pytestmark = pytest.mark.slow

SIX = Sampling(num_samples=8, max_tokens=6)
"""All rows end at the limit, so the rule about that is left out."""


def ascii_share(text: str) -> float:
    return sum(letter.isascii() for letter in text) / max(1, len(text))


class PassesAscii(Judged):
    """Passes texts of mostly ASCII, or of a little."""

    def __init__(self, least: float = 0.7) -> None:
        super().__init__()
        self.least = least

    def judge(self, program: str) -> Verdict:
        return Verdict.PASSED if ascii_share(program) >= self.least else Verdict.WRONG_ANSWER


FOREIGN = Scored(lambda rows: (1 - ascii_share(text) for text in rows.texts), "foreign")
"""Pays for what no test passes."""


def adam(lr: float) -> Any:
    return partial(torch.optim.Adam, lr=lr)


def diagnosed(tokenizer: str, folder: Path, rollouts: int, **options: Any) -> list[Any]:
    """Diagnoses of a run of the tiny model with ten rollouts of patience."""
    torch.manual_seed(0)
    settings = {"sandbox": PassesAscii(), "rewards": [TestsReward()], "optimizer": adam(0.003), "sampling": SIX}
    module = build_module(tokenizer, max_rollouts=rollouts, **settings | options)
    callback = Diagnostics(leave_out=["truncated"])
    fit(module, folder, data=Programs(batch_size=4), callbacks=[callback, ExecutionEvaluation()])
    return callback.found


PLANTED: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "a term that pays for the opposite of passing": (
        {"rewards": [TestsReward(weight=0.1), FOREIGN]},
        60,
        "reward_hacking",
        "the term foreign pays for something else",
    ),
    "tests that always pass": ({"sandbox": PassesAscii(0.01)}, 40, "flat_reward", "likely the tests check nothing"),
    "learning rate 1": ({"optimizer": adam(1.0)}, 16, "collapse", "too high a learning rate (1)"),
}


@pytest.mark.parametrize("sickness", PLANTED)
def test_a_planted_cause_is_named_first(byte_tokenizer: str, tmp_path: Path, sickness: str) -> None:
    options, rollouts, rule, part = PLANTED[sickness]
    found = diagnosed(byte_tokenizer, tmp_path, rollouts, **options)
    assert found and (found[0].rule, part in found[0].message) == (rule, True), [one[:3] for one in found]


def test_a_policy_that_settled_for_less_than_it_once_earned_is_told(tmp_path: Path) -> None:
    """Sorting ends at 4 in every row, although rows earned 5; its entropy, of a few rows, comes and goes."""
    callback = Diagnostics()
    fit(sorting(adam(0.03), 120), tmp_path, data=Sorting(), callbacks=[callback])
    assert [one.rule for one in callback.found][:2] == ["entropy_collapse", "flat_reward"]
    assert "rows earned up to 5 before" in callback.found[1].message


# -- on the embedded task ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def imitated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the policy of basics_sft.yaml."""
    run = tmp_path_factory.mktemp("sft")
    main(["fit", "--config", "basics_sft", "--run_dir", str(run)])
    main(["export", str(run), str(run / "model")])
    return run / "model"


class Stripped(Basics):
    """Prompts without their last newline, cut at the first."""

    def load_problems(self, split: Split) -> list[Problem]:
        prompts = [(one, str(one.prompt).rstrip("\n")) for one in super().load_problems(split)]
        return [replace(one, prompt=text, program_prefix=text, stop_strings=("\n",)) for one, text in prompts]


def on_basics(imitated: Path, folder: Path, task: type[Basics], rollouts: int, **options: Any) -> list[Any]:
    """Diagnoses of a run of the shipped policy on the embedded task."""
    size = {"num_train_problems": 2080, "num_validation_problems": 78, "validation_batch_size": 78}
    optimizer = partial(torch.optim.AdamW, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.0)
    settings = {"rewards": [TestsReward()], "optimizer": optimizer, "sampling": Sampling(num_samples=8, max_tokens=40)}
    module = GRPO(
        CausalLM(str(imitated)), sandbox=Sandbox, max_rollouts=rollouts, seed=0, **grouped(GRPO, **settings | options)
    )
    callback = Diagnostics()
    validation = {"limit_val_batches": 1.0, "val_check_interval": 10}
    fit(module, folder, data=task(batch_size=16, **size), callbacks=[callback, ExecutionEvaluation()], **validation)
    return callback.found


def test_prompts_that_are_not_whole_are_told(imitated: Path, tmp_path: Path) -> None:
    (found,) = on_basics(imitated, tmp_path, Stripped, 12)
    assert found.rule == "flat_reward" and "the prompt is cut" in found.message


COSTS = {**dict.fromkeys(GRADES, -1.0), Verdict.PASSED: 0.0}


@pytest.mark.parametrize(
    "options",
    [{}, {"baseline": NoBaseline(), "rewards": [TestsReward(mode="graded", grades=COSTS)]}],
    ids=["as shipped", "costs without a baseline"],
)
def test_a_healthy_run_on_the_embedded_task_has_no_alarm(imitated: Path, tmp_path: Path, options: Any) -> None:
    assert on_basics(imitated, tmp_path, Basics, 40, **options) == []


# -- healthy runs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_a_healthy_run_of_300_rollouts_has_no_alarm(byte_tokenizer: str, tmp_path: Path, seed: int) -> None:
    """It learns slowly; the task is solved before its end with one seed at least."""
    assert diagnosed(byte_tokenizer, tmp_path, 300, seed=seed, optimizer=adam(0.001)) == []


def test_a_solved_task_without_programs_has_no_alarm(tmp_path: Path) -> None:
    """The corridor is solved within ten rollouts; then all returns are alike, and a critic has nothing to explain."""
    module = corridor(adam(0.05), 200, Sampling(num_samples=16, max_tokens=40), epochs=4)
    callback = Diagnostics()
    fit(module, tmp_path, data=Corridor(num_cells=5), callbacks=[callback])
    assert callback.found == []
