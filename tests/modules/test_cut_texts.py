"""Texts that do not fit into the policy's positions: counted, told, refused where all are cut, never learned twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import fit, quiet_trainer
from support.tiny_models import TINY_QWEN2

from lit_rl.arguments import UsageError
from lit_rl.callbacks import CompletionWriter
from lit_rl.data import CompletionFile
from lit_rl.data.preferences import PreferencePair, PreferencePairs, write_pairs
from lit_rl.data.task import TaskDataModule
from lit_rl.execution import ReferenceText
from lit_rl.models import CausalLM
from lit_rl.modules import DPO, SFT, Evaluate, Optimization
from lit_rl.types import Problem, Sampling

CHAT = "{% for m in messages %}<{{ m.content }}>{% endfor %}{% if add_generation_prompt %}>>{% endif %}"


def policy(tokenizer: str, positions: int = 32, **given: Any) -> CausalLM:
    """A token a byte, one more for EOS."""
    return CausalLM(config=TINY_QWEN2 | {"max_position_embeddings": positions}, tokenizer=tokenizer, **given)


def update(lr: float = 0.1) -> Optimization:
    return Optimization(optimizer=lambda of: torch.optim.SGD(of, lr=lr))


class Texts(TaskDataModule):
    """Demonstrations of the given lengths after prompts of four letters, or of the given ones."""

    name = "texts"

    def __init__(self, lengths: Sequence[int], prompts: Sequence[Any] = (), **options: Any) -> None:
        super().__init__(**({"batch_size": len(lengths)} | options))
        self.lengths, self.prompts = lengths, prompts or ["wwww"] * len(lengths)

    def load_problems(self, split: Any) -> list[Problem]:
        return [
            Problem(f"{split}{i}", prompt, ReferenceText(""), fields={"demonstration": "x" * length})
            for i, (length, prompt) in enumerate(zip(self.lengths, self.prompts, strict=True))
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
    module = SFT(policy(byte_tokenizer), update=update(), max_updates=1)
    metrics = fit(module, tmp_path, data=Texts(lengths)).callback_metrics
    assert float(metrics["sft/cut_fraction"]) == pytest.approx(cut[1] / len(lengths) if cut else 0.0)
    told = f"texts: {cut[1]} of {len(lengths)} train texts, such as that of {cut[0]}, are longer" if cut else ""
    assert [line.startswith(told) and "32 positions" in line for line in notices(caplog)] == [True] * bool(cut)


def test_a_run_whose_texts_are_all_cut_is_refused(byte_tokenizer: str, tmp_path: Path) -> None:
    module = SFT(policy(byte_tokenizer), update=update(), max_updates=1)
    with pytest.raises(UsageError, match=r"^texts: 2 of 2 train texts, such as that of train0, .* more positions"):
        fit(module, tmp_path, data=Texts([40, 50]))
    assert module.clock.count == 0


def test_the_prompt_of_a_chat_takes_the_room_that_its_template_fills(
    byte_tokenizer: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two letters are six tokens in the template: 25 letters and EOS fit after them, 26 do not."""
    caplog.set_level("INFO")
    prompt = ({"role": "user", "content": "ww"},)
    module = SFT(policy(byte_tokenizer, chat_template=CHAT), update=update(), max_updates=1)
    fit(module, tmp_path, data=Texts([25, 26], [prompt, prompt]))
    assert [line.partition(",")[0] for line in notices(caplog)] == ["texts: 1 of 2 train texts"]
    assert "train1" in notices(caplog)[0]


def test_texts_of_a_loader_without_a_task_are_counted_too(byte_tokenizer: str, tmp_path: Path) -> None:
    module = SFT(policy(byte_tokenizer), update=update(), max_updates=1)
    trainer = quiet_trainer(tmp_path)
    trainer.fit(module, torch.utils.data.DataLoader(Texts([40, 3, 4]).problems("train"), 3, collate_fn=list))  # type: ignore[arg-type]
    assert float(trainer.callback_metrics["sft/cut_fraction"]) == pytest.approx(1 / 3)


def pairs(folder: Path, texts: Sequence[tuple[str, str]]) -> str:
    path = folder / "pairs.jsonl"
    write_pairs(path, [PreferencePair(f"p{i}", "wwww", *both, 1.0, 0.0) for i, both in enumerate(texts)])
    return str(path)


LONG = "x" * 28
UNLIKE = [(f"{LONG}a", f"{LONG}b"), ("yes", "no"), (f"{LONG}a", "no"), (f"a{LONG}", f"b{LONG}"), (LONG, f"{LONG}b")]


def test_pairs_that_are_equal_once_they_are_cut_leave(
    byte_tokenizer: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first and the last pair; of the other three, three of the six texts are cut. Also of those held out."""
    caplog.set_level("INFO")
    path = pairs(tmp_path, UNLIKE)
    module = DPO(policy(byte_tokenizer), update=update(), max_updates=2)
    task = PreferencePairs(path, validation_path=path, batch_size=3)
    metrics = fit(module, tmp_path, data=task, limit_val_batches=1.0).callback_metrics
    assert [problem.task_id for problem in task.problems("train")] == ["p1/1", "p2/2", "p3/3"]
    assert [problem.task_id for problem in task.problems("validation")] == ["p1/1", "p2/2", "p3/3"]
    assert len(notices(caplog)) == 2, caplog.messages
    assert "7 of 10 train texts, such as that of p0/0," in notices(caplog)[0]
    assert all("; 2 pairs that are equal then are left out" in line for line in notices(caplog))
    assert float(metrics["dpo/cut_fraction"]) == pytest.approx(3 / 6)
    assert float(metrics["dpo/margin"]) != 0


def test_pairs_that_are_all_cut_are_refused(byte_tokenizer: str, tmp_path: Path) -> None:
    """Those that differ in front of the cut would be learned without their ends."""
    for texts, count in ((UNLIKE[:1], 2), ([UNLIKE[3], UNLIKE[0]], 4)):
        module = DPO(policy(byte_tokenizer), update=update(), max_updates=1)
        told = f"^preferences: {count} of {count} train texts, such as that of p0/0, .*: take a policy with more"
        with pytest.raises(UsageError, match=told):
            fit(module, tmp_path, data=PreferencePairs(pairs(tmp_path, texts), batch_size=1))


def test_prediction_reads_no_text_and_refuses_none(byte_tokenizer: str, tmp_path: Path) -> None:
    """Sampling needs room for a prompt only."""
    module = SFT(policy(byte_tokenizer), evaluate=Evaluate(predict=Sampling(max_tokens=2)))
    writer = CompletionWriter(str(tmp_path / "rows.jsonl.gz"))
    quiet_trainer(tmp_path, callbacks=[writer]).predict(module, Texts([40, 50]), return_predictions=False)
    assert (tmp_path / "rows.jsonl.gz").is_file()


def test_rows_that_a_longer_policy_sampled_are_cut_and_counted(
    byte_tokenizer: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Completions of 20 tokens, learned by a policy of the same tokenizer that has 24 positions."""
    path = tmp_path / "rows.jsonl.gz"
    long = SFT(policy(byte_tokenizer), evaluate=Evaluate(predict=Sampling(num_samples=2, max_tokens=20)))
    writer = CompletionWriter(str(path))
    long.policy.load()
    long.policy.codec.eos_ids = frozenset()
    prompts = Texts([1, 1], ["ww", "wwwwwwww"])
    quiet_trainer(tmp_path, callbacks=[writer]).predict(long, prompts, return_predictions=False)
    caplog.set_level("INFO")
    short = SFT(policy(byte_tokenizer, 24), update=update(), max_updates=1)
    task = CompletionFile(str(path), keep="all", batch_size=4)
    metrics = fit(short, tmp_path, data=task).callback_metrics
    assert "2 of 4 train texts" in notices(caplog)[0]
    assert float(metrics["sft/cut_fraction"]) == pytest.approx(0.5)
    rows = short.given(task.problems("train"))[0]
    assert rows.lengths.tolist() == [20, 20, 16, 16]
    assert (rows.num_tokens + rows.prompt_mask.sum(-1)).max() == 24
