"""The colocated engine samples what the policy would: same tokens, same log-probabilities, after every arrival."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.moved_weights import disturb, rounding_bound
from support.sampling import sample
from support.tiny_models import TINY_QWEN2

from lit_rl.engines import VLLM
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, LoRA
from lit_rl.models.sampling import filter_top_k_top_p
from lit_rl.types import Problem, Request, Sampling, StopReason

FAMILIES = {"llama": {"tie_word_embeddings": False}, "qwen2": {}, "qwen3": {"head_dim": 32}}
SIZES = {"hidden_size": 128, "intermediate_size": 128}  # heads of 32: vLLM's attention on a CPU has no smaller ones
ARRIVALS = 10


WAYS = [(family, way) for family in FAMILIES for way in ("full", "lora")] + [("qwen2", "merged"), ("qwen2", "4bit")]


def policy_of(tokenizer: str, family: str = "qwen2", lora: LoRA | None = None, folder: Path | None = None) -> CausalLM:
    """A policy whose weights have moved; with a folder, its base is saved there and loaded in four bits.

    Adapters of attention alone are moved less: attention with large scores multiplies rounding, in ``InProcess`` too.
    """
    config = TINY_QWEN2 | SIZES | FAMILIES[family] | {"model_type": family}
    policy = CausalLM(config=config, tokenizer=tokenizer, lora=None if folder else lora)
    policy.load()
    if folder is not None:
        policy.save_pretrained(folder)
        policy = CausalLM(str(folder), lora=lora, quantization="4bit")
        policy.load()
    disturb(policy, 0, 0.05 if folder else 0.3)
    return policy


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[VLLM]:
    engine = VLLM(
        options={"enforce_eager": True, "kv_cache_memory_bytes": 10**8}, max_rows=16, **getattr(request, "param", {})
    )
    yield engine
    engine.close()


def problems(*prompts: str) -> list[Problem]:
    return [Problem(prompt, prompt, TokenTarget()) for prompt in prompts]


@pytest.mark.parametrize(
    ("family", "way", "engine"), [(*one, {"merge_adapters": one[1] == "merged"}) for one in WAYS], indirect=["engine"]
)
def test_tokens_and_logprobs_are_the_policys_after_each_of_ten_arrivals(
    byte_tokenizer: str, engine: VLLM, family: str, way: str, tmp_path: Path
) -> None:
    if way == "4bit":
        pytest.importorskip("bitsandbytes", reason="bitsandbytes is not in this environment: lit-rl[qlora]")
        # Adapters of attention: the other layers in four bits arrive as well.
        lora = LoRA(rank=4, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])
        policy = policy_of(byte_tokenizer, family, lora, tmp_path / "model")
    else:
        policy = policy_of(byte_tokenizer, family, LoRA(rank=4) if way != "full" else None)
    learned = sum(one.nbytes for one in policy.parameters() if one.requires_grad)
    sent = []
    tasks = problems("a", "def f(x):", "hello, hello")
    texts = set()
    for arrival in range(1, ARRIVALS + 1):
        greedy = {"temperature": 0.0, "max_tokens": 12}
        ours, theirs = sample(policy, tasks, **greedy), sample(policy, tasks, engine=engine, **greedy)
        assert torch.equal(ours.completion_ids, theirs.completion_ids)
        assert ours.stop_reasons == theirs.stop_reasons
        assert (ours.sampler_logprobs - theirs.sampler_logprobs).abs().max() < rounding_bound(policy, ours)
        rows = sample(policy, tasks, engine=engine, temperature=0.7, num_samples=4, max_tokens=12)
        gap = (policy.logprobs(rows, 0.7) - rows.sampler_logprobs)[rows.completion_mask].abs().max()
        assert gap < rounding_bound(policy, rows, 0.7)
        sent.append(engine.bytes_sent)
        assert engine.num_weight_updates == arrival  # the second session of a version needs none
        texts.add(theirs.texts)
        disturb(policy, arrival)
    assert len(texts) > ARRIVALS / 2, "the weights did not move enough to tell"
    # The base with the first arrival; then what was learned alone, unless it is merged.
    assert sent[1:] == [learned if way in ("lora", "4bit") else sent[0]] * (ARRIVALS - 1)
    assert sent[0] > 10 * learned or way == "full"


def test_rows_depend_on_their_stream_alone_and_are_reported_as_they_were_drawn(
    byte_tokenizer: str, engine: VLLM
) -> None:
    """Top-p and top-k: the log-probabilities are those of the tokens that were left, at the temperature."""
    policy = policy_of(byte_tokenizer)
    how = Sampling(temperature=0.5, top_p=0.7, top_k=40, max_tokens=8)
    asked = [Request(row, (10, 20 + row % 2), stream=row // 2 + 2**62, max_tokens=8) for row in range(8)]
    with engine.session(policy, how) as session:
        session.submit(asked)
        together = {row.row: row for row in finish(session)}
        session.submit(asked[3:4])
        alone = finish(session)[0]
    assert together[3].ids == alone.ids
    assert len({row.ids for row in together.values()}) > 4
    ids = torch.tensor([[*asked[3].prompt_ids, *alone.ids]])
    with torch.no_grad():
        logits = policy.model(ids).logits[0, len(asked[3].prompt_ids) - 1 : -1]
    expected = filter_top_k_top_p(logits / how.temperature, how).log_softmax(-1)
    assert alone.logprobs == pytest.approx([float(expected[i, one]) for i, one in enumerate(alone.ids)], abs=1e-4)
    assert alone.logprobs[0] > float((logits[0] / how.temperature).log_softmax(-1)[alone.ids[0]]) + 0.01


def finish(session: Any) -> list[Any]:
    done = []
    while session.num_unfinished:
        done += session.step()
    return done


def test_rows_end_at_eos_at_a_stop_string_or_at_their_limit(byte_tokenizer: str, engine: VLLM) -> None:
    """With the token that completes the string; an EOS in the last place is an EOS; a late short request is first."""
    policy = policy_of(byte_tokenizer)
    greedy = Sampling(temperature=0.0, max_tokens=30)
    with engine.session(policy, greedy) as session:
        session.submit([Request(0, (5, 6, 7), 1, max_tokens=30)])
        assert [session.step() for _ in range(3)] == [[]] * 3
        session.submit([Request(1, (5, 6, 7), 1, max_tokens=6)])
        short, long = finish(session)
        assert (short.row, long.row) == (1, 0) and short.ids == long.ids[:6]
        assert short.reason is long.reason is StopReason.LENGTH
        policy.codec.eos_ids = frozenset({long.ids[5]})
        first = long.ids.index(long.ids[5])
        session.submit([Request(2, (5, 6, 7), 1, max_tokens=first + 1)])
        ended = finish(session)[0]
        assert ended.reason is StopReason.EOS and ended.ids == long.ids[: first + 1]
        policy.codec.eos_ids = frozenset({257})
        text, _ = policy.codec.decode(long.ids, StopReason.LENGTH, ())
        string = text[3:6]
        session.submit([Request(3, (5, 6, 7), 1, max_tokens=30, stop_strings=("\0\0", string))])
        cut = finish(session)[0]
        assert cut.reason is StopReason.STOP_STRING and cut.ids == long.ids[: len(cut.ids)]
        assert string in policy.codec.decode(cut.ids, StopReason.LENGTH, ())[0]
        assert string not in policy.codec.decode(cut.ids[:-1], StopReason.LENGTH, ())[0]
        session.submit([Request(6, (1,), 1, max_tokens=20)])
        session.step()
    with engine.session(policy, greedy) as session:
        assert session.num_unfinished == 0 and session.step() == []


def test_the_trainers_random_numbers_and_threads_are_left_alone(byte_tokenizer: str, engine: VLLM) -> None:
    policy = policy_of(byte_tokenizer)
    state, threads, affinity = torch.get_rng_state(), torch.get_num_threads(), torch.get_num_interop_threads()
    sample(policy, problems("a"), engine=engine, num_samples=2, max_tokens=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert (torch.get_num_threads(), torch.get_num_interop_threads()) == (threads, affinity)
