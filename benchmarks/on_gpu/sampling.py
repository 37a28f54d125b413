"""How fast the default engine samples, beside transformers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from lit_rl import Sampling
from lit_rl.engines import Generation, InProcess, Request
from lit_rl.models import CausalLM
from on_gpu.measuring import Row, forget, seconds_of
from on_gpu.policies import loaded, policy_of, requests_of, shapes


def sampled(policy: CausalLM, requests: Sequence[Request], sampling: Sampling) -> dict[int, Generation]:
    """What a session of the default engine writes for each row."""
    answers = {}
    with InProcess().session(policy, sampling) as session:
        session.submit(requests)
        while session.num_unfinished:
            answers |= {done.row: done for done in session.step()}
    return answers


def generated(policy: CausalLM, requests: Sequence[Request]) -> Any:
    """The same rows by transformers."""
    ids = torch.tensor([request.prompt_ids for request in requests], device=policy.device)
    return policy.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=True,
        top_k=0,
        top_p=1.0,
        max_new_tokens=requests[0].max_tokens,
        pad_token_id=policy.codec.pad_id,
    )


def sampling_part(given: argparse.Namespace) -> list[Row]:
    """Tokens per second at several numbers of rows."""
    prompt, tokens, batches = (12, 8, (8, 16)) if given.tiny else (256, 128, (8, 64, 256))
    table: list[Row] = []
    for shape in shapes(given):
        policy = loaded(policy_of(shape), given)
        for rows in batches:
            requests = requests_of(rows, prompt, [tokens] * rows)
            with torch.no_grad():
                engine = seconds_of(partial(sampled, policy, requests, Sampling()), given.device, 1)
                peer = seconds_of(partial(generated, policy, requests), given.device, 1)
            rates = {"engine (tokens/s)": rows * tokens / engine, "generate (tokens/s)": rows * tokens / peer}
            table.append({"shape": shape, "rows": rows, **rates, "engine is faster by": peer / engine})
        del policy
        forget(given.device)
    return table
