"""SFT and DPO: what is learned of given texts, in any split, and texts that do not fit into the positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from rollout.scripted import Scripted
from support.small_runs import Words, adam, at_start, fit, grouped, quiet_trainer, weights
from support.tiny_models import TINY_QWEN2, loaded

from lit_rl.callbacks import CompletionWriter, PreferenceWriter
from lit_rl.data.preferences import PreferencePair, PreferencePairs, pair_from_problem, write_preference_pairs
from lit_rl.data.task import TaskDataModule
from lit_rl.errors import UsageError
from lit_rl.execution import AssertTests, ReferenceText, Sandbox
from lit_rl.models import CausalLM, LoRA
from lit_rl.modules import DPO, SFT, EvaluationConfig, RolloutConfig
from lit_rl.modules.dpo import preference_loss
from lit_rl.rewards import TestsReward
from lit_rl.run_files.files import read_rollouts
from lit_rl.types import Problem, Sampling

Make = Callable[..., SFT]


class Shown(Words):
    name = "shown"

    def load_problems(self, split: Any) -> list[Problem]:
        return [
            Problem(f"{split}{i}", "w" * (1 + i % 5), ReferenceText(""), fields={"demonstration": "abc" * (1 + i % 3)})
            for i in range(6)
        ]


def policy(tokenizer: str, **options: Any) -> CausalLM:
    return CausalLM(**{"config": TINY_QWEN2, "tokenizer": tokenizer} | options)


@pytest.fixture
def make_sft(byte_tokenizer: str) -> Make:
    def make(**kwargs: Any) -> SFT:
        sgd: Any = lambda params: torch.optim.SGD(params, lr=0.5)  # noqa: E731
        defaults: dict[str, Any] = {"optimizer": sgd, "gradient_clip_norm": None, "max_updates": 1}
        actor = kwargs.pop("actor", None) or policy(byte_tokenizer, dtype="float64")
        return SFT(actor, **grouped(SFT, **(defaults | kwargs)))

    return make


def test_one_update_is_a_step_down_the_mean_over_completion_tokens_and_eos(make_sft: Make, tmp_path: Path) -> None:
    """Items 1, 8: every token of every demonstration weighs the same, EOS is one of them, the prompt none."""
    module = make_sft()
    fit(module, tmp_path, data=Shown(batch_size=6))
    twin: Any = at_start(make_sft()).policy
    total, count = torch.tensor(0.0, dtype=torch.float64), 0
    for problem in Shown().problems("train"):
        prompt = twin.tokenizer(problem.prompt)["input_ids"]
        answer = [*twin.tokenizer(problem.fields["demonstration"])["input_ids"], twin.tokenizer.eos_token_id]
        logits = twin.model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
        total = total - logits.log_softmax(-1).gather(-1, torch.tensor(answer)[:, None]).sum()
        count += len(answer)
    (total / count).backward()
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter -= 0.5 * parameter.grad
    moved = torch.cat([p.detach().flatten() for p in twin.parameters()])
    assert (weights(module) - moved).abs().max() < 1e-12


def test_validation_loss_is_the_mean_over_all_tokens_however_they_are_batched(make_sft: Make) -> None:
    losses = []
    for size in (4, 6):
        trainer = pl.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False)
        task = Shown(validation_batch_size=size)
        losses.append(trainer.validate(make_sft(), task, verbose=False)[0]["val/loss"])
    # Random weights know nothing of 258 bytes.
    assert losses[0] == pytest.approx(math.log(258), abs=0.3)
    assert losses[1:] == pytest.approx(losses[:1], abs=1e-6)


def test_adapters_over_a_base_in_4_bits_learn_as_over_the_base_itself(
    make_sft: Make, byte_tokenizer: str, tmp_path: Path
) -> None:
    """A model wide enough for blocks of 64 weights."""
    bitsandbytes = pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed (extra qlora)")
    wide = TINY_QWEN2 | {"hidden_size": 64, "intermediate_size": 128}
    loaded(byte_tokenizer, config=wide).save_pretrained(tmp_path / "saved")
    curves: list[list[float]] = []
    note = pl.callbacks.LambdaCallback(
        on_train_batch_end=lambda trainer, *_: curves[-1].append(float(trainer.callback_metrics["sft/loss"]))
    )
    for quantization in (None, "4bit"):
        actor = CausalLM(str(tmp_path / "saved"), lora=LoRA(rank=4), dtype="float32", quantization=quantization)
        module = make_sft(actor=actor, optimizer=adam, max_updates=4)
        curves.append([])
        fit(module, tmp_path, data=Shown(batch_size=6), callbacks=[note])
    assert curves[0][-1] < curves[0][0] - 0.4
    assert curves[1] == pytest.approx(curves[0], abs=0.2)
    assert any(isinstance(layer, bitsandbytes.nn.Linear4bit) for layer in actor.model.modules())
    assert all(".policy." in name for name in module.state_dict())


def short(tokenizer: str) -> CausalLM:
    """32 positions; a token a byte, one more for EOS."""
    return policy(tokenizer, config=TINY_QWEN2 | {"max_position_embeddings": 32})


class Texts(TaskDataModule):
    """Demonstrations of the given lengths after prompts of four letters."""

    name = "texts"

    def __init__(self, lengths: Sequence[int]) -> None:
        super().__init__(batch_size=len(lengths))
        self.lengths = lengths

    def load_problems(self, split: Any) -> list[Problem]:
        return [
            Problem(f"{split}{i}", "wwww", ReferenceText(""), fields={"demonstration": "x" * length})
            for i, length in enumerate(self.lengths)
        ]


def notices(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "are cut there" in line]


@pytest.mark.parametrize(
    ("lengths", "cut"),
    [([27, 20], []), ([28, 20, 40], ["train0", 2]), ([1, 99], ["train1", 1])],
    ids=["all fit", "two", "last"],
)
def test_demonstrations_that_are_cut_are_counted_and_told(
    byte_tokenizer: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, lengths: list[int], cut: list[Any]
) -> None:
    """27 letters and EOS are what fits after four; one more letter has no room for EOS."""
    caplog.set_level("INFO")
    module = SFT(short(byte_tokenizer), max_updates=1)
    metrics = fit(module, tmp_path, data=Texts(lengths)).callback_metrics
    assert float(metrics["sft/cut_fraction"]) == pytest.approx(cut[1] / len(lengths) if cut else 0.0)
    told = f"texts: {cut[1]} of {len(lengths)} train texts, such as that of {cut[0]}, do not fit" if cut else ""
    assert [line.startswith(told) and "context of 32 tokens" in line for line in notices(caplog)] == [True] * bool(cut)


def test_a_run_whose_texts_are_all_cut_is_refused(byte_tokenizer: str, tmp_path: Path) -> None:
    module = SFT(short(byte_tokenizer), max_updates=1)
    with pytest.raises(UsageError, match=r"^texts: 2 of 2 train texts, such as that of train0, .* longer context"):
        fit(module, tmp_path, data=Texts([40, 50]))
    assert module.clock.count == 0


def test_pairs_that_are_equal_once_they_are_cut_leave(
    byte_tokenizer: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first and the last pair; of the other three, three of the six texts are cut. Also of those held out."""
    caplog.set_level("INFO")
    path, long = str(tmp_path / "pairs.jsonl"), "x" * 28
    texts = [(f"{long}a", f"{long}b"), ("yes", "no"), (f"{long}a", "no"), (f"a{long}", f"b{long}"), (long, f"{long}b")]
    write_preference_pairs(path, [PreferencePair(f"p{i}", "wwww", *both, 1.0, 0.0) for i, both in enumerate(texts)])
    module = DPO(short(byte_tokenizer), max_updates=2)
    task = PreferencePairs(path, validation_path=path, batch_size=3)
    metrics = fit(module, tmp_path, data=task, limit_val_batches=1.0).callback_metrics
    for split in ("train", "validation"):
        assert [problem.task_id for problem in task.problems(split)] == ["p1/1", "p2/2", "p3/3"]
    assert len(notices(caplog)) == 2, caplog.messages
    assert "7 of 10 train texts, such as that of p0/0," in notices(caplog)[0]
    assert all("; 2 pairs whose texts are then equal are left out" in line for line in notices(caplog))
    assert float(metrics["dpo/cut_fraction"]) == pytest.approx(3 / 6)
    assert float(metrics["dpo/margin"]) != 0


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Pairs of unequal length: good ones say yes, bad ones say no."""
    path = tmp_path / "pairs.jsonl"
    texts = [("w" * (1 + i % 3), "yes" * (1 + i % 4), "no" * (1 + i % 5)) for i in range(6)]
    write_preference_pairs(path, [PreferencePair(f"p{i}", *three, 1.0, 0.0) for i, three in enumerate(texts)])
    return path


def test_validation_measures_held_out_pairs_without_running_them(
    byte_tokenizer: str, pairs: Path, tmp_path: Path
) -> None:
    """At the start policy and reference are the same, whatever the dropout: loss log 2, margin 0."""
    module = DPO(policy(byte_tokenizer, config=TINY_QWEN2 | {"attention_dropout": 0.3}, dtype="float64"))
    held_out = PreferencePairs(str(pairs), validation_path=str(pairs), validation_batch_size=4)
    (metrics,) = quiet_trainer(tmp_path, limit_val_batches=None).validate(module, held_out, verbose=False)
    assert metrics["val/loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert metrics["val/margin"] == pytest.approx(0.0, abs=1e-6)


class YesOrNo(Words):
    """Programs that pass only as ``x = 1``; a policy that was never trained writes bytes."""

    name = "yes_or_no"

    def load_problems(self, split: Any) -> list[Problem]:
        check = AssertTests("assert x == 1")
        return [Problem(f"{split}{i}", f"{i} ", check) for i in range(3)]


def predicting(actor: CausalLM, engine: Scripted, num_samples: int, rewards: Any = None) -> DPO:
    """A module that asks the engine for completions and runs them."""
    evaluate = EvaluationConfig(predict=Sampling(num_samples=num_samples))
    return DPO(actor, rewards=rewards, sandbox=Sandbox, collect=RolloutConfig(engine=engine), evaluate=evaluate)


def predict(module: DPO, folder: Path, writer: pl.Callback) -> None:
    trainer = quiet_trainer(folder, callbacks=[writer])
    trainer.predict(module, YesOrNo(validation_batch_size=2), return_predictions=False)


def test_predict_writes_pairs_of_programs_that_were_run_and_preference_pairs_reads_them(
    byte_tokenizer: str, tmp_path: Path
) -> None:
    """Two of four completions pass, so each problem has 2 x 2 pairs, of which three are asked for."""
    texts = ["x = 1", "x = 2", "x =", "x = 1 # again"]
    writes = Scripted([[text] * 2 for text in texts * 2])  # rows of two batches, the second of one problem
    path, actor = str(tmp_path / "made" / "pairs.jsonl"), policy(byte_tokenizer)
    predict(predicting(actor, writes, 4, [TestsReward()]), tmp_path, PreferenceWriter(path, margin=0.5, max_pairs=3))
    read = [pair_from_problem(problem) for problem in PreferencePairs(path).problems("train")]
    assert [pair.task_id for pair in read] == ["train0"] * 3 + ["train1"] * 3 + ["train2"] * 3
    assert {(pair.chosen_reward, pair.rejected_reward) for pair in read} == {(1.0, 0.0)}
    assert {pair.chosen for pair in read} == {"x = 1", "x = 1 # again"}
    assert {pair.rejected for pair in read} == {"x = 2", "x ="}
    fit(DPO(actor, max_updates=1), tmp_path, data=PreferencePairs(path, batch_size=6))


@pytest.mark.parametrize(("rewards", "num_samples"), [(None, 4), ([TestsReward()], 1)])
def test_pairs_that_cannot_come_about_are_refused_before_anything_is_sampled(
    byte_tokenizer: str, tmp_path: Path, rewards: Any, num_samples: int
) -> None:
    module = predicting(policy(byte_tokenizer), Scripted([]), num_samples, rewards)  # which raises when it is asked
    with pytest.raises(UsageError, match=r"set model\.rewards, and model\.evaluate\.predict\.num_samples"):
        predict(module, tmp_path, PreferenceWriter(str(tmp_path / "pairs.jsonl")))
    assert module.policy.model is None and not (tmp_path / "pairs.jsonl").exists()


def test_completions_without_rewards_are_written(byte_tokenizer: str, tmp_path: Path) -> None:
    writes = Scripted([["x = 1", "x = 3"], ["x = 2"]])  # rows of two batches, the second of one problem
    module = predicting(policy(byte_tokenizer), writes, 1)
    predict(module, tmp_path, CompletionWriter(str(tmp_path / "completions.jsonl.gz")))
    rows = [row for rollout in read_rollouts(tmp_path / "completions.jsonl.gz") for row in rollout.rows]
    verdicts = {row.task_id: row.verdict for row in rows}
    assert verdicts == {"train0": "passed", "train1": "wrong_answer", "train2": "wrong_answer"}
    assert {row.reward for row in rows} == {None}


def test_far_margins_stay_finite() -> None:
    zero = torch.zeros(1, dtype=torch.float64)
    for difference, want in ((1e4, 0.0), (-1e4, 2500.0)):
        assert preference_loss(zero + difference, zero, zero, zero, beta=0.25).item() == pytest.approx(want)
