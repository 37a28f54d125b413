"""Completions of validate and predict are in a file, which SFT learns from."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from distributed.runs import trainer_of
from support.asking import AsksAgain
from support.ranks import on_ranks
from support.small_runs import Brief, EvenBytes, Words, grouped, quiet_trainer
from support.tiny_models import TINY_QWEN2

from lit_rl.callbacks import CompletionWriter, ExecutionEvaluation
from lit_rl.data import CompletionFile
from lit_rl.modules import SFT
from lit_rl.run_files.files import append_record_batch, read_rollouts
from lit_rl.run_files.records import RecordedRow
from lit_rl.types import Sampling

SAMPLED = Sampling(num_samples=3, max_tokens=6)


@pytest.fixture
def make(byte_tokenizer: str) -> Any:
    """Builds SFT on a tiny policy that ends many turns early, and answers each turn but the second."""

    def build(**options: Any) -> SFT:
        policy = Brief(config=TINY_QWEN2, tokenizer=byte_tokenizer, dtype="float64")
        given: dict[str, Any] = {"environment": AsksAgain(), "rewards": [EvenBytes()], "predict": SAMPLED}
        given |= {"validation_sampling": {"greedy": Sampling(temperature=0.0, max_tokens=6), "sampled": SAMPLED}}
        return SFT(policy, **grouped(SFT, **(given | options)))

    return build


def measured(module: SFT, path: Path, devices: int = 1, **task: Any) -> dict[str, float]:
    """All metrics of a validation that writes to a file."""
    callbacks = [ExecutionEvaluation(), CompletionWriter(str(path))]
    strategy = "ddp" if devices > 1 else "auto"
    trainer = trainer_of(strategy, path.parent, devices, callbacks=callbacks, limit_val_batches=1.0)
    data = Words(validation_batch_size=5, **task)
    return dict(trainer.validate(module, data, verbose=False)[0])


def predicted(module: SFT, path: Path) -> list[RecordedRow]:
    trainer = quiet_trainer(path.parent, callbacks=[CompletionWriter(str(path))])
    trainer.predict(module, Words(validation_batch_size=5), return_predictions=False)
    return rows_in(path)


def rows_in(path: Path) -> list[RecordedRow]:
    return [row for rollout in read_rollouts(path) for row in rollout.rows]


def row_texts(path: Path) -> list[tuple[str, ...]]:
    return sorted((row.task_id, *(turn.text for turn in row.turns)) for row in rows_in(path))


def test_two_ranks_write_each_row_once(make: Any, tmp_path: Path) -> None:
    """Eleven problems on two ranks: the last batch is short, and of unequal size. One rank writes the same rows."""

    def on_two(path: Path) -> dict[str, float]:
        return measured(make(), path, devices=2, max_validation_problems=11)

    alone, both = tmp_path / "alone.jsonl.gz", tmp_path / "both.jsonl.gz"
    expected = measured(make(), alone, max_validation_problems=11)
    for found in on_ranks(on_two, both):
        assert found == pytest.approx(expected, rel=1e-6)  # means of float32
    assert row_texts(both) == row_texts(alone) and len(row_texts(both)) == 11 * 4
    assert [len(rollout.rows) for rollout in read_rollouts(alone)] == [5, 15, 5, 15, 1, 3]
    assert {row.reward is not None and len(row.turns) <= 2 for row in rows_in(alone)} == {True}


def test_the_file_of_an_earlier_prediction_is_moved_away(make: Any, tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl.gz"
    before = predicted(make(), path)
    assert predicted(make(predict=replace(SAMPLED, temperature=0.7)), path) != before
    assert rows_in(path.with_name("one.jsonl.gz.old")) == before


@pytest.mark.parametrize("keep", ["passed", "all"])
def test_what_passed_is_learned_as_it_was_sampled(make: Any, tmp_path: Path, keep: Any) -> None:
    """Of two turns ``passed`` teaches the second; a sampled EOS is learned, and a turn that was cut gets none."""
    path = tmp_path / "rows.jsonl.gz"
    rows = predicted(make(), path)
    verdicts = ["passed", "wrong_answer", "passed", "exception"]
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    items = [line for line in lines if "row" in line]
    for number, item in enumerate(items):
        item["turns"][-1]["outcome"] = {"verdict": verdicts[number % 4]}
    path.unlink()
    append_record_batch(path, [lines[0], *items, items[0]])  # the first row twice
    kept = [row for number, row in enumerate(rows) if keep == "all" or verdicts[number % 4] == "passed"]
    distinct = list({(row.task_id, tuple(turn.text for turn in row.turns)): row for row in kept}.values())
    problems = CompletionFile(str(path), keep=keep).problems("train")
    assert [problem.fields["demonstration"] for problem in problems] == [row.turns[-1].text for row in distinct]
    module = make()
    module.policy.load()
    completions, group = module.completions_and_group_size(problems)
    assert group == 1
    assert {len(row.turns) for row in distinct} == {1, 2}
    for number, row in enumerate(distinct):
        length = len(row.tokens["ids"])
        assert completions.completion_ids[number, :length].tolist() == row.tokens["ids"]
        assert completions.prompt_ids[number][completions.prompt_mask[number]].tolist() == list(row.prompt_ids)
        learned = set() if keep == "passed" else {c for turn in row.turns for c in range(turn.start, turn.end)}
        learned |= set(range(row.turns[-1].start, row.turns[-1].end))
        assert completions.completion_mask[number].nonzero().flatten().tolist() == sorted(learned)
        assert int(completions.token_mask[number].sum()) == length


def test_rows_whose_learned_turn_does_not_fit_teach_nothing(make: Any, tmp_path: Path) -> None:
    """Rows of one and of two turns, learned by a policy with a few positions more than the longest prompt."""
    path = tmp_path / "rows.jsonl.gz"
    predicted(make(), path)
    problems = CompletionFile(str(path), keep="all").problems("train")
    module, found = make(), set()
    module.policy.load()
    module.policy.codec.max_positions = 12
    for problem in problems:
        row = problem.fields["row"]
        room, start = 12 - len(row.prompt_ids), row.turns[-1].start
        last_alone = replace(problem, fields={**problem.fields, "learned_from": start})
        cut = len(row.tokens["ids"]) > room
        assert module.truncated_count_and_trainable(last_alone) == (int(cut), not cut or start < room)
        found.add((cut, start < room))
    assert found == {(False, True), (True, True), (True, False)}


@pytest.mark.filterwarnings("ignore::lit_rl.run_files.files.TruncatedFileWarning")
def test_what_cannot_be_learned_is_refused(make: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    predicted(make(), path)
    none_passed = f"none of its {len(rows_in(path))} completions can be kept"
    with pytest.raises(ValueError, match=none_passed):
        CompletionFile(str(path)).problems("train")
    with pytest.raises(FileNotFoundError, match=r"none\.jsonl\.gz"):
        CompletionFile(str(tmp_path / "none.jsonl.gz")).problems("train")
    for name, data in (("empty", b""), ("plain", b'{"task_id": "a"}\n')):
        other = tmp_path / f"{name}.jsonl.gz"
        other.write_bytes(data)
        with pytest.raises(ValueError, match=other.name):
            CompletionFile(str(other)).problems("train")
    problems = CompletionFile(str(path), keep="all").problems("train")
    changed = [replace(problem, prompt=f"{problem.prompt}!") for problem in problems]
    module = make()
    module.policy.load()
    with pytest.raises(ValueError, match="multi-turn completions need the tokenizer"):
        module.completions_and_group_size(changed)
    with pytest.raises(ValueError, match="batches without other demonstrations"):
        module.completions_and_group_size([*problems, replace(problems[0], fields={"demonstration": "return 1"})])
    one_turn = [problem for problem in changed if len(problem.fields["row"].turns) == 1]
    completions, _ = module.completions_and_group_size(one_turn)
    assert completions.texts == tuple(problem.fields["demonstration"] for problem in one_turn)
