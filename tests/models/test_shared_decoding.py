"""Decoding with shared prompts against decoding from the model's own cache: the same logits up to rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from engines.recorded import language_model
from support.families import config_of

from lit_rl.engines import Generation, InProcess, Request
from lit_rl.models import CausalLM, LoRA
from lit_rl.models.decoding import Decoding, Groups, SharedDecoding
from lit_rl.models.probe import can_share
from lit_rl.types import Sampling, StopReason

IN_DOUBLE = {"qwen2": 1e-10, "gpt2": 1e-10, "gpt_bigcode": 1e-10, "llama_dynamic": 2e-5, "phi3_longrope": 2e-5}
"""Grouped heads, learned positions, a single head of keys, long RoPE; the last two round to float32 on their way."""
SHARING = (*IN_DOUBLE, "mixtral")
"""Experts too, which transformers does not compute in float64."""
NOT_SHARING = ("gemma2", "mamba2", "granitemoehybrid", "bloom", "mistral")
"""Windows and caps, recurrent states, hybrids, positions from the mask."""
PROMPTS = [(5, 6, 7, 8, 9, 10, 11), (12,), (13, 14, 15), (16, 17, 18, 19, 20)]
COPIES = [1, 0, 0, 2, 0, 1, 3, 0]
"""Of different numbers, in no order."""


def double(policy: CausalLM) -> CausalLM:
    policy.model.double()
    policy.eval()
    return policy


@torch.no_grad()
def written(decoding: Decoding, prompts: list[tuple[int, ...]], copies: list[int], tokens: int) -> torch.Tensor:
    """Logits of rows that write random tokens; a third of the rows leaves after each third of the way."""
    drawn = torch.randint(0, 200, (tokens, len(copies)), generator=torch.Generator().manual_seed(1))
    logits = [decoding.read(prompts, torch.tensor(copies), tokens)]
    held = torch.arange(len(copies))
    for step in range(tokens):
        if len(held) > 2 and step and step % max(1, tokens // 3) == 0:
            stay = torch.arange(len(held)) % 3 != step % 3
            decoding.keep(stay.nonzero()[:, 0])
            held = held[stay]
        logits.append(decoding.append(drawn[step, held]))
    return torch.cat(logits)


def gap(policy: CausalLM, prompts: list[tuple[int, ...]], copies: list[int], tokens: int) -> float:
    plain, shared = (written(kind(policy.model), prompts, copies, tokens) for kind in (Decoding, SharedDecoding))
    return float((shared - plain).abs().max())


@pytest.mark.parametrize("family", IN_DOUBLE)
def test_logits_are_those_of_the_models_own_cache(family: str, byte_tokenizer: str) -> None:
    """Left pads, rows that leave, prompts that nobody reads any more, and buffers that grow."""
    policy = double(language_model(family, byte_tokenizer))
    assert gap(policy, PROMPTS, COPIES, 70 if family == "qwen2" else 20) < IN_DOUBLE[family]


def test_numbers_do_not_depend_on_how_rows_spread_over_prompts(byte_tokenizer: str) -> None:
    """One row, one prompt, and a prompt of many rows beside many of one: there each row gets a prompt of its own."""
    policy = double(language_model("qwen2", byte_tokenizer))
    many = [(i, i + 1) for i in range(12)], [0] * 12 + list(range(1, 12))
    for prompts, copies in (([(5, 6, 7)], [0]), ([(5, 6, 7)], [0] * 9), many):
        assert gap(policy, prompts, copies, 10) < 1e-10
        decoding = SharedDecoding(policy.model)
        written(decoding, prompts, copies, 1)
        assert decoding._groups is not None
        assert len(decoding._groups.bias) * decoding._groups.size <= 4 * len(copies)


@pytest.mark.parametrize(("family", "rows_of_part"), [("gpt2", 16), ("qwen2", 2)])
@torch.no_grad()
def test_rows_that_join_others_are_written_as_if_alone(
    family: str, rows_of_part: int, byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New rows of one more prompt every 7 tokens, longer or shorter than those before; the oldest rows leave.

    Rows that began at different times read their own tokens together, or the oldest apart from the youngest.
    """
    monkeypatch.setattr("lit_rl.models.decoding._ROWS_OF_PART", rows_of_part)
    policy = double(language_model(family, byte_tokenizer))
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 200, (10, 3, 60), generator=generator)
    prompts = [tuple(torch.randint(0, 200, (1 + 5 * i % 13,), generator=generator).tolist()) for i in range(10)]
    rows = [torch.cat([torch.tensor([prompt] * 3), drawn], 1) for prompt, drawn in zip(prompts, tokens, strict=True)]
    # Without a cache: row by row, the logits after the prompt and after each token.
    expected = [policy.model(row).logits[:, len(prompt) - 1 :] for prompt, row in zip(prompts, rows, strict=True)]
    decoding = SharedDecoding(policy.model)
    ages: dict[int, int] = {}
    for step in range(100):
        logits = []
        if ages:
            written = torch.cat([tokens[i, : 3 - i % 2, age] for i, age in ages.items()])
            logits.append(decoding.append(written))
            ages = {i: age + 1 for i, age in ages.items()}
        if step % 7 == 0 and step // 7 < 10:
            logits.append(decoding.read([prompts[step // 7]], torch.zeros(3 - step // 7 % 2, dtype=torch.long), 60))
            ages[step // 7] = 0
        wanted = torch.cat([expected[i][: 3 - i % 2, age] for i, age in ages.items()])
        assert float((torch.cat(logits) - wanted).abs().max()) < 1e-10
        if len(ages) > 4:
            stay = [i != min(ages) for i in ages for _ in range(3 - i % 2)]
            decoding.keep(torch.tensor(stay).nonzero()[:, 0])
            del ages[min(ages)]
    assert decoding._cache.layers[0].keys.shape[-2] == 64  # columns of rows that left are written again


@torch.no_grad()
def test_young_rows_read_few_columns(byte_tokenizer: str) -> None:
    """16 rows with 20 tokens beside 48 that join them: three of four parts read the one column that these have."""
    decoding = SharedDecoding(double(language_model("qwen2", byte_tokenizer)).model)
    decoding.read([(5, 6, 7)], torch.zeros(16, dtype=torch.long), 60)
    for _ in range(20):
        decoding.append(torch.zeros(16, dtype=torch.long))
    decoding.read([(8, 9)], torch.zeros(48, dtype=torch.long), 60)
    decoding.append(torch.zeros(64, dtype=torch.long))
    assert decoding._groups is not None
    read = [(rows.stop - rows.start, columns.stop - columns.start) for rows, columns, _ in decoding._groups.parts]
    assert read == [(16, 21), (16, 1), (16, 1), (16, 1)]


def test_adapters_decode_alike(byte_tokenizer: str) -> None:
    policy = CausalLM(config=config_of("llama"), tokenizer=byte_tokenizer, lora=LoRA(rank=2))
    policy.load()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1)
    assert isinstance(policy.decoding(), SharedDecoding)
    assert gap(double(policy), PROMPTS, COPIES, 12) < 2e-5


@pytest.mark.parametrize("family", [*SHARING, *NOT_SHARING])
def test_models_that_cannot_share_prompts_keep_their_own_cache(family: str, byte_tokenizer: str) -> None:
    policy = language_model(family, byte_tokenizer)
    assert can_share(policy.model) == (family in SHARING)
    assert type(policy.decoding()) is (SharedDecoding if family in SHARING else Decoding)


@pytest.mark.parametrize("extra", [{"softcap": 50.0}, {"s_aux": torch.zeros(4)}, {"sliding_window": 9}])
def test_attention_that_is_more_than_keys_and_values_is_refused(
    byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch, extra: dict[str, object]
) -> None:
    """However little it changes in a probe of a few tokens."""
    policy = language_model("qwen2", byte_tokenizer)
    assert can_share(policy.model)
    for layer in policy.model.model.layers:
        plain = layer.self_attn.forward
        monkeypatch.setattr(layer.self_attn, "forward", lambda *a, plain=plain, **k: plain(*a, **k, **extra))
    assert not can_share(policy.model)


def test_a_model_that_fails_gets_its_own_attention_back(byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = language_model("qwen2", byte_tokenizer)
    decoding = policy.decoding()
    with torch.no_grad():
        decoding.read([(1, 2)], torch.tensor([0, 0]), 4)
        monkeypatch.setattr(Groups, "gather", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            decoding.append(torch.tensor([1, 2]))
    assert policy.model.config._attn_implementation == "sdpa"


def test_a_prompt_is_held_once_and_forgotten_with_its_last_row(byte_tokenizer: str) -> None:
    """Ten rows of two prompts; memory of own tokens grows with what is written, not with what may be."""
    decoding = language_model("qwen2", byte_tokenizer).decoding()
    with torch.no_grad():
        decoding.read([(1, 2, 3), (4, 5)], torch.tensor([0] * 5 + [1] * 5), 10_000)
        decoding.append(torch.arange(10))
        layers = decoding._cache.layers
        assert [len(layer.prompt_keys) for layer in layers] == [2, 2]
        assert all(len(layer.keys) == 10 and layer.keys.shape[-2] == 32 for layer in layers)
        decoding.keep(torch.tensor([6, 8]))
        decoding.append(torch.arange(2))
    assert [(len(layer.prompt_keys), len(layer.keys)) for layer in layers] == [(1, 2), (1, 2)]


def test_samples_are_those_from_the_models_own_cache(byte_tokenizer: str) -> None:
    """In float64, with rows that end at once, at EOS, at a stop string, at a limit and where positions are full."""
    policy = double(language_model("qwen2", byte_tokenizer))
    prompts = [*PROMPTS, tuple(range(100))]
    requests = [Request(i, prompts[i % 5], i, max_tokens=60, stop_strings=("e", "x")) for i in range(40)]
    requests += [replace(one, row=one.row + 40, max_tokens=1 + one.row % 7) for one in requests[:10]]
    policy.codec.eos_ids = frozenset(range(0, 256, 50))

    def sampled(decoding: Callable[[], Decoding]) -> dict[int, Generation]:
        policy.decoding = decoding  # type: ignore[method-assign]
        with InProcess().session(policy, Sampling(temperature=0.8)) as session:
            session.submit(requests)
            return {one.row: one for _ in range(60) for one in session.step()}

    plain = sampled(lambda: Decoding(policy.model, policy.codec))
    shared = sampled(lambda: SharedDecoding(policy.model, policy.codec))
    assert {one.reason for one in plain.values()} == set(StopReason)
    assert len(plain) == 50 and max(len(one.ids) for one in plain.values()) > 28
    for row, one in plain.items():
        assert (shared[row].ids, shared[row].reason) == (one.ids, one.reason)
        assert shared[row].logprobs == pytest.approx(one.logprobs, abs=1e-10)
