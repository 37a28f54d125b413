"""Each rule provoked by a real small run, and silent in a healthy one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import EvenBytes, build_module, fit

from lit_rl.callbacks import Diagnostics
from lit_rl.engines import InProcess
from lit_rl.engines.in_process import InProcessSession
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.rollout import FinishedRollout
from lit_rl.types import Completions, Generation, Judgement, Sampling

FEW = 3


def found(tokenizer: str, folder: Path, rollouts: int = FEW, **arguments: Any) -> dict[str, str]:
    """What is said of a run, by rule. Tiny rows always end at the limit, so truncation is let pass unless asked for."""
    limits = {"truncated": 1.0} | arguments.pop("limits", {})
    callback = Diagnostics(patience=FEW, **limits)
    fit(build_module(tokenizer, max_rollouts=rollouts, **arguments), folder, callbacks=[callback])
    assert len({diagnosis.rule for diagnosis in callback.found}) == len(callback.found), "a rule speaks once"
    return {diagnosis.rule: diagnosis.message for diagnosis in callback.found}


class Constant(RewardTerm):
    """The same for all rows."""

    default_name = "constant"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        return [TermScore(self.weight * 0.0) for _ in judgements]


class OfGroup(RewardTerm):
    """The same for all rows of a group."""

    default_name = "group"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        return [TermScore(float(number)) for number in completions.group_ids.tolist()]


class Falling(EvenBytes):
    """Less and less with every rollout."""

    calls = 0

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        self.calls += 1
        scale = 1.0 if self.calls <= FEW else 0.1
        return [TermScore(scale * (one.value or 0.0)) for one in super().score(completions, judgements)]


class Off(InProcess):
    """Reports log-probabilities that are not those of the weights."""

    def session(self, policy: Any, sampling: Sampling) -> Any:
        inner = super().session(policy, sampling)

        class Shifted:
            def __enter__(self) -> Any:
                session: InProcessSession = inner.__enter__()
                step = session.step

                def shifted() -> list[Generation]:
                    return [
                        Generation(g.row, g.ids, tuple(p - 0.2 for p in g.logprobs), g.reason, g.weights_version)
                        for g in step()
                    ]

                session.step = shifted  # type: ignore[method-assign]
                return session

            def __exit__(self, *left: Any) -> Any:
                return inner.__exit__(*left)

        return Shifted()


PROVOKED: dict[str, tuple[dict[str, Any], str]] = {
    "flat_reward": ({"rewards": [Constant()]}, "all rewards of the last 3 rollouts were 0"),
    "flat_groups": ({"rewards": [OfGroup()]}, "100% of the groups have equal rewards"),
    "truncated": ({"limits": {"truncated": 0.9}}, "of the completions are cut by the token limit"),
    "sampler_gap": ({"engine": Off()}, "sampler and trainer differ by 0.2 nats"),
    "still_weights": (
        {"optimizer": partial(torch.optim.SGD, lr=1e-30), "rollouts": FEW + 1},
        "the learning rate 1e-30 is too small",
    ),
    "collapse": ({"rewards": [Falling()], "rollouts": 2 * FEW}, "lower the learning rate (0.5)"),
}


@pytest.mark.parametrize("rule", list(PROVOKED))
def test_each_rule_names_its_cause_and_no_other(byte_tokenizer: str, tmp_path: Path, rule: str) -> None:
    arguments, said = PROVOKED[rule]
    messages = found(byte_tokenizer, tmp_path, **arguments)
    assert list(messages) == [rule]
    assert said in messages[rule] and "\n" not in messages[rule] and "docs/metrics.md" in messages[rule]


def test_a_healthy_run_hears_nothing(byte_tokenizer: str, tmp_path: Path) -> None:
    assert found(byte_tokenizer, tmp_path, rollouts=8) == {}


def test_nothing_is_said_before_the_patience_is_over(byte_tokenizer: str, tmp_path: Path) -> None:
    assert found(byte_tokenizer, tmp_path, rollouts=FEW - 1, rewards=[Constant()]) == {}


@pytest.mark.parametrize(
    ("name", "said"),
    [("timed_out", "20% of the programs time out"), ("infrastructure_failure", "20% of the programs could not be")],
)
def test_shares_of_verdicts_are_watched(name: str, said: str, tmp_path: Path) -> None:
    """Programs that hang take longer than a test may: the numbers of such a run are given by hand."""
    from types import SimpleNamespace

    module: Any = SimpleNamespace(
        rollout_step=0, sampling=Sampling(), policy=torch.nn.Linear(1, 1), at_hand=SimpleNamespace(found={})
    )
    trainer: Any = SimpleNamespace(is_global_zero=True, loggers=[])
    callback, nothing = Diagnostics(patience=2), {"reward/mean": 0.5, "reward/std": 0.5}
    for share in (0.0, 0.0, 0.404, 0.404, 0.404):
        module.rollout_step += 1
        metrics = nothing | {f"verdict/{name}_fraction": share}
        callback.on_rollout_end(trainer, module, FinishedRollout(None, None, None, metrics))  # type: ignore[arg-type]
    (diagnosis,) = [one for one in callback.found if one.rule != "still_weights"]
    assert diagnosis.rollout == 3 and said in diagnosis.message


@pytest.mark.parametrize("wrong", [{"patience": 0}, {"truncated": 1.5}, {"sampler_gap": 0.0}])
def test_thresholds_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Diagnostics(**wrong)
