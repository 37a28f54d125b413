"""Sampling: whether it writes what the CPU writes, and how fast."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from lit_rl import Sampling
from lit_rl.engines import InProcess, Request
from lit_rl.models import CausalLM
from on_gpu.measuring import Row, forget, seconds_of
from on_gpu.policies import GROUP, policy_of, requests_of


def greedy_part(given: argparse.Namespace, found: dict[str, Any]) -> list[Row]:
    """Ids of the same model on both, float32 without TF32."""
    ids = []
    for place in (torch.device("cpu"), given.device):
        policy = policy_of(given.shapes[0], given, "float32").to(place)
        requests = requests_of(given, rows=2, group=1, tokens=16)
        ids.append(sampled(policy, requests, Sampling(temperature=0.0)))
    same = sum(a == b for row in ids[0] for a, b in zip(ids[0][row], ids[1][row], strict=True))
    return [{"shape": given.shapes[0], "ids": sum(map(len, ids[0].values())), "equal to the CPU's": same}]


def sampled(policy: CausalLM, requests: Sequence[Request], sampling: Sampling) -> dict[int, tuple[int, ...]]:
    """Ids of each row, from a session of the default engine."""
    answers = {}
    with InProcess().session(policy, sampling) as session:
        session.submit(requests)
        while session.num_unfinished:
            answers |= {done.row: done.ids for done in session.step()}
    return answers


def generated(policy: CausalLM, requests: Sequence[Request]) -> None:
    """The same rows by transformers."""
    ids = torch.tensor([request.prompt_ids for request in requests], device=policy.device)
    policy.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=True,
        top_k=0,
        top_p=1.0,
        max_new_tokens=requests[0].max_tokens,
        pad_token_id=policy.codec.pad_id,
    )


def bytes_of_a_step(policy: CausalLM, given: argparse.Namespace) -> float:
    """Bytes that one token step of all rows reads at least: weights, prompts once a group, half of the completions."""
    config, size = policy.model.config, next(policy.model.parameters()).element_size()
    head = config.hidden_size // config.num_attention_heads
    of_token = 2 * config.num_hidden_layers * config.num_key_value_heads * head
    cached = given.batch / GROUP * given.prompt + given.batch * given.tokens / 2
    return size * (sum(p.numel() for p in policy.model.parameters()) + of_token * cached)


def sampling_part(given: argparse.Namespace, found: dict[str, Any]) -> list[Row]:
    """Tokens a second."""
    table = []
    for shape in given.shapes:
        policy = policy_of(shape, given).to(given.device)
        requests = requests_of(given, given.batch, GROUP, given.tokens)
        least = bytes_of_a_step(policy, given) / found["bandwidth"] if "bandwidth" in found else None
        ways = {
            "engine": partial(sampled, policy, requests, Sampling()),
            "generate": partial(generated, policy, requests),
        }
        with torch.no_grad():
            seconds = {way: seconds_of(call, given.device, given.rounds) for way, call in ways.items()}
        del ways
        if given.vllm:
            seconds |= vllm_seconds(policy, requests, given)
        for way, taken in seconds.items():
            row = {"shape": shape, "way": way, "s": taken, "tokens/s": given.batch * given.tokens / taken}
            row["engine is faster by"] = taken / seconds["engine"]
            if least is not None:
                row["share of the roofline"] = least * given.tokens / taken
            table.append(row)
        del policy
        forget(given.device)
    return table


def vllm_seconds(policy: CausalLM, requests: Sequence[Request], given: argparse.Namespace) -> dict[str, float]:
    """The same rows by vLLM in this process; one line if it cannot."""
    try:
        from vllm import LLM, SamplingParams, TokensPrompt

        with tempfile.TemporaryDirectory() as folder:
            policy.save_pretrained(folder)
            model = LLM(folder, dtype=given.dtype, skip_tokenizer_init=True, gpu_memory_utilization=0.4, seed=0)
        prompts = [TokensPrompt(prompt_token_ids=list(request.prompt_ids)) for request in requests]
        params = SamplingParams(max_tokens=given.tokens, ignore_eos=True, detokenize=False)
        return {"vLLM": seconds_of(lambda: model.generate(prompts, params, use_tqdm=False), given.device, given.rounds)}
    except Exception as error:  # another program, of which nothing here depends
        print(f"vLLM is left out: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        return {}
