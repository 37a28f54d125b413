"""A prompt computed once, in training and in decoding: the same numbers and gradients as whole rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from support.families import config_of, language_model
from support.moved_weights import disturb
from support.tiny_models import TINY_QWEN2, loaded
from support.two_turns import drawn, rows_of

from lit_rl.engines import Generation, InProcess, Request
from lit_rl.models import CausalLM, LoRA, padding
from lit_rl.models.critic import ValueHead, values_and_tail_values
from lit_rl.models.decoding import BatchDecoder, PromptGroups, SharedPromptDecoder
from lit_rl.models.family import relative_logit_gap
from lit_rl.models.padding import (
    can_train_on_shared_prompts,
    completion_hidden_states,
    expand_prompts_to_rows,
    pad_left,
)
from lit_rl.models.probe import can_decode_from_shared_prompts, logits_while_decoding, probe_ids_and_mask
from lit_rl.modules.minibatches import divide_into_microbatches
from lit_rl.types import Completions, Sampling, StopReason


def rows() -> Completions:
    """Groups of three, two and one, not side by side, of one to three turns; prompts behind different pads.

    One prompt begins with the id of the padding: its ids are those of another one and its pads.
    """
    prompts = {"a": [119, 120], "b": [97] * 7, "c": [257, 257, 119, 120]}
    return rows_of([prompts[name] for name in "abacba"], [drawn(str(i)) for i in range(6)])


def moved(tokenizer: str, config: dict[str, Any] = TINY_QWEN2, dtype: str = "float64", **options: Any) -> CausalLM:
    """A policy whose adapters are not zero, where half of their gradients vanish."""
    policy = loaded(tokenizer, config=config, dtype=dtype, probe=False, **options)
    disturb(policy, 0, 0.1)
    return policy.eval()


def everything(policy: CausalLM, done: Completions, share: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities, entropies, values and tails in one vector, and the gradient of a sum with unequal weights."""
    policy.shares_prompts = share
    head = ValueHead(32, torch.float64)
    torch.nn.init.constant_(head.weight, 0.3)
    logprobs, entropy = policy(done, 0.7, True)
    values, tails = values_and_tail_values(completion_hidden_states(policy.model, done, share=share), head, done)
    found = torch.cat([logprobs[done.completion_mask], entropy[done.completion_mask]])
    found = torch.cat([found, values[done.completion_mask], tails])
    learning = [p for p in policy.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(found @ torch.arange(len(found)).cos().double(), learning, allow_unused=True)
    return found.detach(), torch.cat([g.flatten() for g in gradients if g is not None])


def shapes_read(policy: CausalLM, done: Completions) -> list[tuple[int, ...]]:
    """Shapes of the ids that the model reads, alone and then with shared prompts, which change no number."""
    shapes: list[tuple[int, ...]] = []
    base = policy.model.get_base_model() if policy.lora else policy.model
    base.get_input_embeddings().register_forward_pre_hook(lambda _, ids: shapes.append(tuple(ids[0].shape)))
    (alone, gradient), (shared, same) = (everything(policy, done, share) for share in (False, True))
    assert (alone - shared).abs().max() < 1e-10
    assert (gradient - same).abs().max() < 1e-10 < 1e-2 < gradient.abs().max()
    return shapes


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "lora": {"lora": LoRA(rank=2)},
    "checkpointing": {"gradient_checkpointing": True},
}


@pytest.mark.parametrize(
    ("config", "options"), [(TINY_QWEN2, "lora"), (TINY_QWEN2, "checkpointing"), (config_of("gpt2"), "plain")], ids=str
)
def test_nothing_changes_but_what_is_read(byte_tokenizer: str, config: dict[str, Any], options: str) -> None:
    policy, done = moved(byte_tokenizer, config, **OPTIONS[options]), rows()
    assert policy.shares_prompts
    shapes, width = shapes_read(policy, done), done.completion_ids.shape[1]
    first_shared = shapes.index((3, 7))
    assert set(shapes[:first_shared]) == {(6, 7 + width)} and shapes[first_shared + 1] == (6, width)


@pytest.mark.parametrize("options", ["plain", "checkpointing"])
def test_short_completions_are_not_padded_to_the_longest(byte_tokenizer: str, options: str) -> None:
    """One token, two, 22 and 24: two passes, which save 3 x 22 columns, and whose numbers are those of one."""
    said = [[[5]], [[5, 7]], [[9]], [[9] * 24], [[11] * 9, [3] * 6, [12] * 7]]
    prompts = [[119, 120] if row % 2 else [97, 98] for row in range(5)]
    shapes = shapes_read(moved(byte_tokenizer, **OPTIONS[options]), rows_of(prompts, said))
    first_shared = shapes.index((2, 2))
    assert shapes[first_shared : first_shared + 3] == [(2, 2), (3, 2), (2, 24)]


@pytest.mark.parametrize("family", ["gemma2", "phi3", "gpt_oss"])
def test_families_of_attention_can(byte_tokenizer: str, family: str) -> None:
    """Also with sliding windows of 8 tokens, which end inside prompts: float32, states and gradients."""
    assert moved(byte_tokenizer, config_of(family), "float32").shares_prompts


@pytest.mark.parametrize("family", ["mamba2", "qwen3_5_text", "rwkv"])
def test_families_that_keep_more_than_keys_fall_back(
    byte_tokenizer: str, family: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A recurrent state, a hybrid, a state changed in place, and a family without a cache."""
    with caplog.at_level("INFO"):
        assert not moved(byte_tokenizer, config_of(family), "float32").shares_prompts
    assert sum("the prompt is computed once for each completion" in line for line in caplog.messages) == 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_cache_that_loses_the_gradient_is_noticed(
    byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    policy = moved(byte_tokenizer, dtype=dtype)
    update = padding._PromptCache.update
    assert can_train_on_shared_prompts(policy.model)
    monkeypatch.setattr(padding._PromptCache, "update", lambda self, k, v, *_: update(self, k.detach(), v.detach()))
    assert not can_train_on_shared_prompts(policy.model)


@pytest.mark.parametrize(
    ("prompt", "budget", "size", "shares", "pieces"),
    [
        # Groups are kept together where that reads less: behind twelve tokens, not behind one.
        (12, None, 4, True, [[0, 3, 1, 2], [4, 7, 5, 6]]),
        (12, None, 4, False, [[0, 3, 4, 7], [1, 2, 5, 6]]),
        (1, None, 4, True, [[0, 3, 4, 7], [1, 2, 5, 6]]),
        # Whole rows are 13 tokens (short) and 18 (long); four rows of a group that share a prompt are 12 + 4 x 6 = 36.
        (12, 36, None, False, [[0, 3], [4, 7], [1, 2], [5, 6]]),
        (12, 35, None, False, [[0, 3], [4, 7], [1], [2], [5], [6]]),
        (12, 36, None, True, [[0, 3, 1, 2], [4, 7, 5, 6]]),
        (12, 35, None, True, [[0, 3, 4, 7], [1, 2], [5, 6]]),
        (12, 72, 3, True, [[0, 3, 4], [7, 1, 2], [5, 6]]),
        (12, 1, None, True, [[0], [3], [4], [7], [1], [2], [5], [6]]),
    ],
)
def test_microbatches_stay_within_a_budget_of_tokens(
    prompt: int, budget: int | None, size: int | None, shares: bool, pieces: list[list[int]]
) -> None:
    """Two groups of two short and two long completions; a row that is too long goes alone."""
    said = [[[2]], [[2] * 6], [[2] * 6], [[2]]] * 2
    done = rows_of([[119] * prompt] * 8, said, group_size=4)
    found = [piece.tolist() for piece in divide_into_microbatches(done, torch.arange(8), size, budget, shares)]
    assert found == pieces
    assert divide_into_microbatches(done, torch.arange(0), size, budget, shares) == []


def test_rows_add_to_their_prompts_gradient_in_the_same_order_every_time() -> None:
    """Item 71: with several threads too, each start of a run gives the same weights, to the last bit."""
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randn(4, 8, 64, 32, generator=generator, requires_grad=True)
    prompt_of_row, upstream = torch.arange(64) % 4, torch.randn(64, 8, 64, 32, generator=generator)
    torch.set_num_threads(2)
    try:
        found = [
            torch.autograd.grad(expand_prompts_to_rows(prompts, prompt_of_row), prompts, upstream)[0] for _ in range(5)
        ]
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(one, found[0]) for one in found)
    exact = upstream.double().unflatten(0, (16, 4)).sum(0)
    torch.testing.assert_close(found[0].double(), exact, rtol=1e-5, atol=1e-5)


def test_prompts_are_padded_on_the_left() -> None:
    ids, mask = pad_left([(5, 7, 9), (), (2**40,), (1, 2)], 3, "cpu")
    assert ids.tolist() == [[5, 7, 9], [3, 3, 3], [3, 3, 2**40], [3, 1, 2]]
    assert mask.tolist() == [[True] * 3, [False] * 3, [False, False, True], [False, True, True]]


IN_DOUBLE = {"qwen2": 1e-10, "gpt2": 1e-10, "gpt_bigcode": 1e-10, "llama_dynamic": 2e-5, "phi3_longrope": 2e-5}
"""Grouped heads, learned positions, a single head of keys, long RoPE; the last two round to float32 on their way."""
SHARING = (*IN_DOUBLE, "mixtral")
"""Experts too, which transformers does not compute in float64."""
NOT_SHARING = ("gemma2", "mamba2", "granitemoehybrid", "bloom", "mistral")
"""Windows and caps, recurrent states, hybrids, positions from the mask."""
PROMPTS = [(5, 6, 7, 8, 9, 10, 11), (12,), (13, 14, 15), (16, 17, 18, 19, 20)]
COPIES = [1, 0, 0, 2, 0, 1, 3, 0]
"""Of different numbers, in no order."""


def double(family: str, tokenizer: str) -> CausalLM:
    policy = language_model(family, tokenizer)
    policy.model.double()
    return policy.eval()


@torch.no_grad()
def written(decoding: BatchDecoder, tokens: int) -> torch.Tensor:
    """Logits of rows that write random tokens; a third of the rows leaves after each third of the way."""
    drawn = torch.randint(0, 200, (tokens, len(COPIES)), generator=torch.Generator().manual_seed(1))
    logits = [decoding.prefill(PROMPTS, torch.tensor(COPIES), tokens)]
    held = torch.arange(len(COPIES))
    for step in range(tokens):
        if len(held) > 2 and step and step % max(1, tokens // 3) == 0:
            stay = torch.arange(len(held)) % 3 != step % 3
            decoding.keep_rows(stay.nonzero()[:, 0])
            held = held[stay]
        logits.append(decoding.decode_step(drawn[step, held]))
    return torch.cat(logits)


@pytest.mark.parametrize("family", IN_DOUBLE)
def test_logits_are_those_of_the_models_own_cache(family: str, byte_tokenizer: str) -> None:
    """Left pads, rows that leave, prompts that nobody reads any more, and buffers that grow."""
    model = double(family, byte_tokenizer).model
    plain, shared = (
        written(kind(model), 70 if family == "qwen2" else 20) for kind in (BatchDecoder, SharedPromptDecoder)
    )
    assert float((shared - plain).abs().max()) < IN_DOUBLE[family]


@pytest.mark.parametrize(("family", "rows_of_part"), [("gpt2", 16), ("qwen2", 2)])
@torch.no_grad()
def test_rows_that_join_others_are_written_as_if_alone(
    family: str, rows_of_part: int, byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New rows of one more prompt every 7 tokens, longer or shorter than those before; the oldest rows leave.

    Rows that began at different times read their own tokens together, or the oldest apart from the youngest.
    """
    monkeypatch.setattr("lit_rl.models.decoding._ROWS_OF_PART", rows_of_part)
    policy = double(family, byte_tokenizer)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 200, (10, 3, 60), generator=generator)
    prompts = [tuple(torch.randint(0, 200, (1 + 5 * i % 13,), generator=generator).tolist()) for i in range(10)]
    rows = [torch.cat([torch.tensor([prompt] * 3), drawn], 1) for prompt, drawn in zip(prompts, tokens, strict=True)]
    # Without a cache: row by row, the logits after the prompt and after each token.
    expected = [policy.model(row).logits[:, len(prompt) - 1 :] for prompt, row in zip(prompts, rows, strict=True)]
    decoding = SharedPromptDecoder(policy.model)
    ages: dict[int, int] = {}
    for step in range(100):
        logits = []
        if ages:
            written = torch.cat([tokens[i, : 3 - i % 2, age] for i, age in ages.items()])
            logits.append(decoding.decode_step(written))
            ages = {i: age + 1 for i, age in ages.items()}
        if step % 7 == 0 and step // 7 < 10:
            logits.append(decoding.prefill([prompts[step // 7]], torch.zeros(3 - step // 7 % 2, dtype=torch.long), 60))
            ages[step // 7] = 0
        wanted = torch.cat([expected[i][: 3 - i % 2, age] for i, age in ages.items()])
        assert float((torch.cat(logits) - wanted).abs().max()) < 1e-10
        if len(ages) > 4:
            stay = [i != min(ages) for i in ages for _ in range(3 - i % 2)]
            decoding.keep_rows(torch.tensor(stay).nonzero()[:, 0])
            del ages[min(ages)]
    assert decoding._cache.layers[0].keys.shape[-2] == 64  # columns of rows that left are written again


@pytest.mark.parametrize("family", [*SHARING, *NOT_SHARING])
def test_models_that_cannot_share_prompts_keep_their_own_cache(family: str, byte_tokenizer: str) -> None:
    policy = language_model(family, byte_tokenizer)
    assert can_decode_from_shared_prompts(policy.model) == (family in SHARING)
    assert type(policy.make_batch_decoder()) is (SharedPromptDecoder if family in SHARING else BatchDecoder)


@torch.no_grad()
def test_rounding_in_bfloat16_does_not_end_the_sharing_of_prompts(byte_tokenizer: str) -> None:
    """A model so deep and of such weights that the two ways differ as they do in Qwen2.5-Coder-0.5B, by 0.05."""
    policy = loaded(byte_tokenizer, config=TINY_QWEN2 | {"num_hidden_layers": 24}, probe=False)
    for name, parameter in policy.model.named_parameters():
        generator = torch.Generator().manual_seed(sum(name.encode()))
        parameter.copy_(0.6 * torch.randn(parameter.shape, generator=generator))
    policy.model.bfloat16()
    tried = probe_ids_and_mask(policy.model)
    plain, shared = (logits_while_decoding(kind(policy.model), *tried) for kind in (BatchDecoder, SharedPromptDecoder))
    assert 0.04 < relative_logit_gap(shared, plain) < 0.08
    assert can_decode_from_shared_prompts(policy.model) and can_train_on_shared_prompts(policy.model)


@pytest.mark.parametrize("extra", [{"softcap": 50.0}, {"s_aux": torch.zeros(4)}, {"sliding_window": 9}])
def test_attention_that_is_more_than_keys_and_values_is_refused(
    byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch, extra: dict[str, object]
) -> None:
    """However little it changes in a probe of a few tokens."""
    policy = language_model("qwen2", byte_tokenizer)
    assert can_decode_from_shared_prompts(policy.model)
    for layer in policy.model.model.layers:
        plain = layer.self_attn.forward
        monkeypatch.setattr(layer.self_attn, "forward", lambda *a, plain=plain, **k: plain(*a, **k, **extra))
    assert not can_decode_from_shared_prompts(policy.model)


def test_a_model_that_fails_gets_its_own_attention_back(byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = language_model("qwen2", byte_tokenizer)
    decoding = policy.make_batch_decoder()
    with torch.no_grad():
        decoding.prefill([(1, 2)], torch.tensor([0, 0]), 4)
        monkeypatch.setattr(PromptGroups, "group_by_prompt", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            decoding.decode_step(torch.tensor([1, 2]))
    assert policy.model.config._attn_implementation == "sdpa"


def test_samples_are_those_from_the_models_own_cache(byte_tokenizer: str) -> None:
    """In float64, with rows that end at once, at EOS, at a stop string, at a limit and where positions are full."""
    policy = double("qwen2", byte_tokenizer)
    prompts = [*PROMPTS, tuple(range(100))]
    requests = [Request(i, prompts[i % 5], i, max_tokens=60, stop_strings=("e", "x")) for i in range(40)]
    requests += [replace(one, row=one.row + 40, max_tokens=1 + one.row % 7) for one in requests[:10]]
    policy.codec.eos_ids = frozenset(range(0, 256, 50))

    def sampled(decoding: Callable[[], BatchDecoder]) -> dict[int, Generation]:
        policy.make_batch_decoder = decoding  # type: ignore[method-assign]
        with InProcess().session(policy, Sampling(temperature=0.8)) as session:
            session.submit(requests)
            return {one.row: one for _ in range(60) for one in session.step()}

    plain = sampled(lambda: BatchDecoder(policy.model, policy.codec))
    shared = sampled(lambda: SharedPromptDecoder(policy.model, policy.codec))
    assert {one.reason for one in plain.values()} == set(StopReason)
    assert len(plain) == 50 and max(len(one.ids) for one in plain.values()) > 28
    for row, one in plain.items():
        assert (shared[row].ids, shared[row].reason) == (one.ids, one.reason)
        assert shared[row].logprobs == pytest.approx(one.logprobs, abs=1e-10)
