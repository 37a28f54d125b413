"""Speed of sampling with the default engine, beside transformers."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence

import torch
from on_gpu.measuring import Row, finish, forget
from on_gpu.policies import loaded, make_sampling_requests, policy_of, shapes

from lit_rl import Sampling
from lit_rl.engines import InProcess, Request
from lit_rl.models import CausalLM


def sampled(policy: CausalLM, requests: Sequence[Request]) -> None:
    """The rows by the default engine."""
    with InProcess().session(policy, Sampling()) as session:
        session.submit(requests)
        while session.num_unfinished:
            session.step()


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


def measure(given: argparse.Namespace) -> Iterator[Row]:
    """Tokens per second at several numbers of rows; each way has written some tokens before."""
    prompt, tokens, batches = (12, 8, (8, 16)) if given.tiny else (256, 96, (8, 64, 256))
    for shape in shapes(given):
        policy = loaded(policy_of(shape), given)
        for rows in batches:
            seconds = {}
            for way, write in {"engine": sampled, "generate": generated}.items():
                with torch.no_grad():
                    write(policy, make_sampling_requests(rows, prompt, 4))
                    finish(given.device)
                    began = time.perf_counter()
                    write(policy, make_sampling_requests(rows, prompt, tokens))
                    finish(given.device)
                    seconds[way] = time.perf_counter() - began
            rates = {f"{way} (tokens/s)": rows * tokens / taken for way, taken in seconds.items()}
            yield {"shape": shape, "rows": rows} | rates | {"faster by": seconds["generate"] / seconds["engine"]}
        del policy
        forget(given.device)
