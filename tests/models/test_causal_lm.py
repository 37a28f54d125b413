"""The policy: what it samples and how it scores it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.asking import AsksAgain
from support.families import config_of
from support.moved_weights import disturb
from support.sampling import KEY, sample
from support.small_runs import EvenBytes, fit, weights
from support.tiny_models import TINY_QWEN2, loaded

from lit_rl.data.prompts import chat_messages
from lit_rl.engines import InProcess
from lit_rl.errors import ArgumentError
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, LoRA, SeparateCritic
from lit_rl.models.adapters import REFERENCE
from lit_rl.modules import GRPO
from lit_rl.rollout import sample_rows
from lit_rl.training.ranks import eval_mode
from lit_rl.types import Problem, Sampling, StopReason


@pytest.fixture(params=["qwen2", "gpt2", "gpt2-lora"])
def tiny_policy(request: pytest.FixtureRequest, byte_tokenizer: str) -> CausalLM:
    """A loaded policy with random weights; adapters are not zero."""
    config = config_of(request.param.removesuffix("-lora"))
    lora = LoRA(rank=2) if request.param == "gpt2-lora" else None
    policy = loaded(byte_tokenizer, config=config, lora=lora, probe=False)
    if lora is not None:
        disturb(policy, 0, 0.2)
    return policy


of_gpt2 = pytest.mark.parametrize("tiny_policy", ["gpt2"], indirect=True)


def problems(*prompts: str, stop_strings: tuple[str, ...] = ()) -> list[Problem]:
    return [Problem(p, p, TokenTarget(), stop_strings=stop_strings) for p in prompts]


@pytest.mark.parametrize("ends_early", [False, True])
def test_sampler_and_training_forward_agree_on_logprobs(tiny_policy: CausalLM, ends_early: bool) -> None:
    """Items 7, 12, 35: the shift, left padding and the temperature are the same in both, also as rows drop out."""
    if ends_early:
        tiny_policy.codec.eos_ids = frozenset(range(0, 256, 7))
    done = sample(tiny_policy, problems("a", "hello there", "def"), num_samples=4, temperature=0.5, max_tokens=20)
    assert (len(set(done.lengths.tolist())) > 3) is ends_early
    with torch.no_grad(), eval_mode(tiny_policy):
        logprobs = tiny_policy.logprobs(done, temperature=0.5)
    assert torch.allclose(logprobs, done.sampler_logprobs, atol=1e-5)


def test_left_pads_change_nothing(tiny_policy: CausalLM) -> None:
    """Item 12."""
    done = sample(tiny_policy, problems("hello"), num_samples=2, max_tokens=5)
    pads = torch.full((2, 5), tiny_policy.codec.pad_id)
    padded = replace(
        done,
        prompt_ids=torch.cat([pads, done.prompt_ids], 1),
        prompt_mask=torch.cat([torch.zeros_like(pads, dtype=torch.bool), done.prompt_mask], 1),
    )
    with torch.no_grad(), eval_mode(tiny_policy):
        assert torch.allclose(tiny_policy.logprobs(padded), tiny_policy.logprobs(done), atol=1e-5)


def force(policy: CausalLM, *ids: int) -> None:
    """Make the policy write these ids one after the other behind a prompt of one token."""

    def only_one(module: torch.nn.Module, args: object, kwargs: dict[str, torch.Tensor], output: Any) -> None:
        step = int(kwargs["position_ids"][0, -1])
        output.logits = torch.full_like(output.logits, -30.0)
        output.logits[..., ids[min(step, len(ids) - 1)]] = 30.0

    policy.model.register_forward_hook(only_one, with_kwargs=True)


@of_gpt2
@pytest.mark.parametrize(
    ("ids", "pad", "limit", "reason"),
    [
        pytest.param([70, 71, 65, 72], 257, 8, StopReason.EOS, id="an id that only the model calls EOS"),
        pytest.param([70, 71, 256], 256, 8, StopReason.EOS, id="pads that are EOS"),
        pytest.param([70, 71, 256], 257, 3, StopReason.EOS, id="EOS as the last allowed token"),
        pytest.param([70, 71, 72, 256], 257, 3, StopReason.LENGTH, id="cut"),
    ],
)
def test_every_eos_id_ends_a_completion_and_the_mask_covers_it(
    tiny_policy: CausalLM, ids: list[int], pad: int, limit: int, reason: StopReason
) -> None:
    """Items 8, 9, 10, 11: by position, whatever id pads; EOS as the last allowed token is no cut."""
    tiny_policy.codec.eos_ids, tiny_policy.codec.pad_id = frozenset({256, 65}), pad
    force(tiny_policy, *ids)
    done = sample(tiny_policy, problems("p"), temperature=1.0, max_tokens=limit)
    assert done.completion_ids.tolist() == [ids[:3]]
    assert done.completion_mask.tolist() == [[True, True, True]]
    assert done.stop_reasons == (reason,) and done.truncated.tolist() == [reason is StopReason.LENGTH]


@of_gpt2
def test_a_stop_string_cuts_the_text_but_keeps_the_ids(tiny_policy: CausalLM) -> None:
    """Item 13: sampled ids stay; the text ends before the stop string."""
    ids = tiny_policy.tokenizer("ab\ndef")["input_ids"]
    force(tiny_policy, *ids)
    done = sample(tiny_policy, problems("p", stop_strings=("\nd",)), max_tokens=8)
    assert done.texts == ("ab",)
    assert done.stop_reasons == (StopReason.STOP_STRING,)
    assert done.completion_ids[0].tolist() == ids[:4]
    assert done.token_byte_spans[0] == ((0, 1), (1, 2), (2, 2), (2, 2))


@of_gpt2
def test_reference_of_a_full_policy_stays_when_the_policy_moves(tiny_policy: CausalLM) -> None:
    """Item 48: frozen, not in the optimizer."""
    done = sample(tiny_policy, problems("a"), max_tokens=4)
    tiny_policy.eval()
    before = tiny_policy.logprobs(done).detach()
    reference = tiny_policy.make_reference()
    model = tiny_policy.model
    disturb(tiny_policy, 0, 0.2)
    assert torch.equal(reference.logprobs(done), before)
    assert tiny_policy.model is model
    assert not reference.logprobs(done).requires_grad
    assert not torch.allclose(tiny_policy.logprobs(done), before)
    assert not any(p.requires_grad for p in tiny_policy.frozen_reference.parameters())


def test_reference_of_new_adapters_is_the_base_and_switching_keeps_requires_grad(byte_tokenizer: str) -> None:
    """Items 45, 46."""
    policy = loaded(byte_tokenizer, lora=LoRA(rank=2))
    done = sample(policy, problems("a"), max_tokens=4)
    start = policy.logprobs(done).detach()
    disturb(policy, 0, 0.2)
    trained = {n for n, p in policy.named_parameters() if p.requires_grad}
    reference = policy.make_reference()
    assert torch.allclose(reference.logprobs(done), start)
    with pytest.raises(AttributeError):
        reference.logprobs(replace(done, completion_ids=None))  # fails on the way
    assert {n for n, p in policy.named_parameters() if p.requires_grad} == trained
    assert all("lora" in n for n in trained)
    assert not torch.allclose(policy.logprobs(done), start)


def test_a_policy_that_starts_from_a_trained_adapter_has_that_adapter_as_reference(
    byte_tokenizer: str, tmp_path: Path
) -> None:
    """Item 45: KL is 0 at the start, although the adapter is not zero."""
    loaded(byte_tokenizer).save_pretrained(tmp_path / "base")
    first = loaded(model=str(tmp_path / "base"), lora=LoRA(rank=2))
    disturb(first, 0, 0.2)
    first.save_pretrained(tmp_path / "adapter")
    policy = loaded(byte_tokenizer, model=str(tmp_path / "adapter"))
    require_frozen_reference(policy)
    reference = policy.make_reference()
    done = sample(policy, problems("a"), max_tokens=4)
    start = policy.logprobs(done).detach()
    assert torch.equal(reference.logprobs(done), start)
    disturb(policy, 1, 0.2)
    assert torch.equal(reference.logprobs(done), start)
    assert not torch.allclose(policy.logprobs(done), start)
    reference.refresh_from_policy()
    assert torch.equal(reference.logprobs(done), policy.logprobs(done).detach())


@pytest.mark.parametrize(("family", "positions"), [("gpt2", 128), ("phi3_longrope", 32)])
@pytest.mark.parametrize("is_chat", [False, True])
def test_rows_of_one_turn_and_of_several_end_with_the_positions(
    byte_tokenizer: str, family: str, positions: int, is_chat: bool
) -> None:
    """Long RoPE changes its frequencies there, also for the short rows of a batch."""
    template = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}\n{% endfor %}a:"
    policy = loaded(byte_tokenizer, config=config_of(family), chat_template=template)
    policy.codec.eos_ids = frozenset(range(101, 121))  # many, so that a row of random words ends soon
    made = [chat_messages(text) if is_chat else text for text in ("x" * (positions - 6), "ab")]
    both = [Problem(f"{i}", prompt, TokenTarget()) for i, prompt in enumerate(made)]
    with torch.no_grad(), eval_mode(policy):
        sampling = Sampling(num_samples=3, max_tokens=positions // 4)
        rows = sample_rows(policy, InProcess(), None, both, sampling, KEY, AsksAgain()).finish().completions
        lengths = rows.prompt_mask.sum(-1) + rows.token_mask.sum(-1)
        assert lengths.max() == positions and max(len(turns) for turns in rows.turns) > 1
        gap = (policy.logprobs(rows) - rows.sampler_logprobs).where(rows.completion_mask, 0.0)
        assert gap.abs().max() < 1e-5
    long = Problem("long", chat_messages("x" * positions) if is_chat else "x" * positions, TokenTarget())
    said = rf"problem long: expected fewer than the {positions} tokens .*, got \d+"
    for ask in (policy.complete, lambda p: sample_rows(policy, InProcess(), None, p, Sampling(), KEY)):
        with pytest.raises(ArgumentError, match=said):
            ask([both[1], long])


def test_a_policy_from_scratch_is_the_same_each_time(byte_tokenizer: str) -> None:
    made = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        made.append(loaded(byte_tokenizer, lora=LoRA(rank=2), probe=False).parameters())
    assert all(map(torch.equal, *made))


@pytest.mark.parametrize(
    ("model_type", "given", "remedy"),
    [
        ("qwen2", {"hidden_sise": 64}, "Qwen2Config, got hidden_sise; did you mean hidden_size?"),
        ("gpt2", {"n_embed": 64}, "GPT2Config, got n_embed; did you mean n_embd?"),
        ("gpt2", {"num_hidden_layer": 1}, "GPT2Config, got num_hidden_layer; did you mean num_hidden_layers?"),
        ("mamba2", {"xyz": 64}, "Mamba2Config, got xyz; leave it out"),
    ],
)
def test_a_field_that_the_model_does_not_have_is_refused(
    byte_tokenizer: str, model_type: str, given: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        loaded(byte_tokenizer, config=config_of(model_type) | given)
    assert str(caught.value) == f"model.policy.config: expected fields of {remedy}"


@pytest.mark.parametrize("model_type", ["gemma3_text", "gpt2", "llama", "mamba2", "mistral", "qwen2", "qwen3_moe"])
def test_all_fields_of_a_saved_model_are_taken(byte_tokenizer: str, model_type: str) -> None:
    """Those that an older version of transformers saved, and those of any model, too."""
    small = config_of(model_type)
    saved = loaded(byte_tokenizer, config=small, probe=False).model.config
    older = {"torch_dtype": "float32", "auto_map": {}, "tie_word_embeddings": True, "attn_implementation": "eager"}
    if hasattr(saved, "rope_parameters") and model_type != "gemma3_text":
        older |= {"rope_theta": 5000.0, "rope_scaling": None}
    again = loaded(byte_tokenizer, config=saved.to_dict() | older, probe=False).model.config
    assert [getattr(again, name) for name in small] == [getattr(saved, name) for name in small]


@pytest.mark.parametrize("model_type", ["llama", "qwen2"])
def test_a_saved_policy_reads_the_same_tokens_again(tmp_path: Path, model_type: str) -> None:
    """Transformers 5 sets the declared tokenizer of some model types aside."""
    policy = loaded("package:lit_rl.data/basics/tokenizer", config=TINY_QWEN2 | {"model_type": model_type})
    text = "def f(x1):\n    return  x1 >= 42"
    policy.save_pretrained(tmp_path)
    again = loaded(model=str(tmp_path))
    assert again.tokenizer(text)["input_ids"] == policy.tokenizer(text)["input_ids"]
    done = sample(policy, problems("abc"), temperature=0.0, max_tokens=8)
    assert sample(again, problems("abc"), temperature=0.0, max_tokens=8).texts == done.texts


def test_activations_are_computed_again_in_updates_and_nothing_else_changes(
    byte_tokenizer: str, tmp_path: Path
) -> None:
    """Item 51: updates run in eval mode, in which checkpointing of transformers does nothing."""

    def run(gradient_checkpointing: bool) -> tuple[torch.Tensor, int]:
        options: dict[str, Any] = {"lora": LoRA(rank=2), "dtype": "float64", "probe": False}
        policy = loaded(byte_tokenizer, gradient_checkpointing=gradient_checkpointing, **options)
        calls: list[bool] = []
        layer = policy.model.get_base_model().get_decoder().layers[1]
        layer.mlp.register_forward_pre_hook(lambda *_: calls.append(torch.is_grad_enabled()))
        sampling = Sampling(num_samples=4, max_tokens=6)
        module = GRPO(policy, rewards=[EvenBytes()], sampling=sampling, max_rollouts=1)
        fit(module, tmp_path)
        return weights(module), sum(calls)

    plain, once = run(False)
    again, twice = run(True)
    assert once == 2 and twice == 4  # the prompts, and their completions
    assert torch.equal(plain, again)


def test_a_critic_of_its_own_computes_activations_again_as_its_policy_does(byte_tokenizer: str) -> None:
    calls: list[Any] = []
    for way in (False, True, "offload"):
        policy, critic = loaded(byte_tokenizer, gradient_checkpointing=way), SeparateCritic()
        critic.load(policy)
        critic.trunk["model"].model.layers[1].mlp.register_forward_pre_hook(lambda *_, way=way: calls.append(way))
        values, _ = critic(sample(policy, problems("abc")))
        values.sum().backward()
    assert calls == [False, True, True, "offload", "offload"]


def require_frozen_reference(policy: CausalLM) -> None:
    learning = {name: p.requires_grad for name, p in policy.named_parameters()}
    assert any(f".{REFERENCE}." in name for name in learning)
    assert not any(learns for name, learns in learning.items() if f".{REFERENCE}." in name)
    assert any(learns for name, learns in learning.items() if ".policy." in name)


def test_a_reference_adapter_that_will_move_never_learns(byte_tokenizer: str) -> None:
    """Item 48."""
    policy = loaded(byte_tokenizer, lora=LoRA(rank=2), probe=False)
    policy.make_reference(will_refresh=True).refresh_from_policy()
    require_frozen_reference(policy)


def test_attention_of_a_loaded_policy_is_never_cudnns(byte_tokenizer: str) -> None:
    """Item 80: its gradients of masked rows are NaN on some cards; test_gpu.py has the gradients themselves."""
    torch.backends.cuda.enable_cudnn_sdp(True)
    loaded(byte_tokenizer)
    assert not torch.backends.cuda.cudnn_sdp_enabled()
