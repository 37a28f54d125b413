"""Sampling: filters, random streams, the ids that end a completion; toys, whose updates test_formulas.py compares."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.sampling import sample
from support.tiny_models import TINY_QWEN2, loaded
from transformers import GenerationConfig

import lit_rl.models.sampling
from lit_rl.data import Corridor, Sorting
from lit_rl.data.toys.toy_models import CorridorPolicy, SortingPolicy, ToyPolicy, distances_to_goal
from lit_rl.models.sampling import RowRandomStreams, sample_tokens
from lit_rl.types import Sampling, StopReason

ROW = torch.tensor([0])
PROBABILITIES = (0.05, 0.5, 0.15, 0.3)


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(), {0, 1, 2, 3}),
        (Sampling(top_k=1), {1}),
        (Sampling(top_k=3), {1, 2, 3}),
        (Sampling(top_p=0.4), {1}),
        (Sampling(top_p=0.9), {1, 2, 3}),
        (Sampling(top_p=0.9, top_k=2), {1, 3}),
    ],
)
def test_filters_keep_the_likeliest_tokens_and_score_them_as_drawn(sampling: Sampling, kept: set[int]) -> None:
    """Evenly spaced numbers draw each kept token as often as its share of what is kept says."""
    count = 4000
    logits = torch.tensor(PROBABILITIES).log().expand(count, 4)
    ids, logprobs = sample_tokens(logits, sampling, (torch.arange(count, dtype=torch.float64) + 0.5) / count)
    total = sum(PROBABILITIES[i] for i in kept)
    assert set(ids.tolist()) == kept
    for token in kept:
        share = PROBABILITIES[token] / total
        assert abs(float((ids == token).float().mean()) - share) < 2 / count
        assert torch.allclose(logprobs[ids == token].exp(), torch.tensor(share))


@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(temperature=0), Sampling(temperature=0.7, top_p=0.8), Sampling(top_k=5)]
)
@pytest.mark.parametrize("rows_at_once", [0.5, 3])
def test_rows_chosen_in_chunks_are_those_of_the_whole(
    sampling: Sampling, rows_at_once: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = torch.randn(7, 40, generator=torch.Generator().manual_seed(1)) * 3
    before, uniforms = logits.clone(), torch.linspace(0.05, 0.95, 7, dtype=torch.float64)
    whole = sample_tokens(logits, sampling, uniforms)
    monkeypatch.setattr(lit_rl.models.sampling, "_LOGITS_AT_ONCE", int(40 * rows_at_once))
    for one, other in zip(sample_tokens(logits, sampling, uniforms), whole, strict=True):
        assert torch.equal(one, other)
    assert torch.equal(logits, before)
    assert len(whole[0].unique()) > 2


def test_a_rows_random_numbers_never_repeat_and_are_its_own() -> None:
    """Row 1 is added when row 0 is at token 20."""
    alone = [
        torch.cat([one.draw(torch.tensor([step]), ROW) for step in range(120)])
        for one in map(RowRandomStreams, ([11], [12]))
    ]
    assert len(set(torch.cat(alone).tolist())) == 240
    uniforms = RowRandomStreams([11])
    assert torch.equal(torch.cat([uniforms.draw(torch.tensor([step]), ROW) for step in range(20)]), alone[0][:20])
    uniforms.add([12])
    both = torch.stack([uniforms.draw(torch.tensor([step, 20 + step]), torch.tensor([1, 0])) for step in range(100)])
    assert torch.equal(both[:, 0], alone[1][:100]) and torch.equal(both[:, 1], alone[0][20:])


def test_every_eos_id_of_model_and_tokenizer_ends_a_completion(byte_tokenizer: str, tmp_path: Path) -> None:
    """Item 8: chat models list several in their generation config alone."""
    first = loaded(byte_tokenizer, config=TINY_QWEN2 | {"eos_token_id": 70})
    first.model.generation_config = GenerationConfig(eos_token_id=[65, 66])
    first.save_pretrained(tmp_path)
    assert loaded(model=str(tmp_path)).codec.eos_ids == {65, 66, 70, 256}


def walker() -> ToyPolicy:
    policy = CorridorPolicy(num_cells=4)
    policy.load()
    with torch.no_grad():
        policy.weights.weight.copy_(torch.tensor([[0, 0], [0.3, -0.2], [1, 0], [0, 2], [-1, 1.0]]))
    return policy


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_scores_are_those_of_the_sampler(temperature: float) -> None:
    sorter = SortingPolicy(init_seed=1)
    sorter.load()
    for policy, task in ((sorter, Sorting()), (walker(), Corridor(num_cells=4))):
        rows = sample(policy, task.problems("train"), num_samples=6, temperature=temperature, max_tokens=8)
        logprobs = policy.logprobs(rows, temperature)
        torch.testing.assert_close(logprobs, rows.sampler_logprobs)
        assert logprobs.requires_grad


def test_a_walk_ends_at_the_goal_or_at_the_limit() -> None:
    rows = sample(walker(), Corridor(num_cells=4).problems("train"), num_samples=20, max_tokens=5)
    of_rows = zip(rows.problems, rows.completion_ids.tolist(), rows.lengths.tolist(), rows.stop_reasons, strict=True)
    for problem, ids, length, reason in of_rows:
        walk = distances_to_goal(torch.tensor([problem.check.numbers]), torch.tensor([[*ids[:length], 0]]))[0].tolist()
        assert (reason is StopReason.EOS) == (walk[-1] == 0)
        assert length == 5 or walk[-1] == 0
        assert 0 not in walk[:-1]
