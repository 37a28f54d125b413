"""Real vLLM on a server and colocated: tokens and log-probabilities after each arrival, kills, two ranks."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from distributed.runs import whole_weights
from support.moved_weights import disturb, rounding_bound
from support.sampling import sample
from support.vllm_real import Server
from support.vllm_run import CONFIG, engine_of, processes, run_with, said

from lit_rl.engines import EngineError, VLLMServer
from lit_rl.engines.vllm_package import write_model_config
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, LoRA
from lit_rl.types import Problem

PROBLEMS = [Problem(prompt, prompt, TokenTarget()) for prompt in ("a", "def f(x):", "hello, hello")]


@pytest.fixture(scope="module")
def server(byte_tokenizer: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served")
    policy = CausalLM(config=CONFIG, tokenizer=byte_tokenizer)
    policy.load()
    policy.tokenizer.save_pretrained(folder)
    write_model_config(policy, folder)
    server = Server(folder, adapters=8)
    yield server
    server.stop()


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_tokens_and_logprobs_are_the_policys_after_each_of_ten_arrivals(
    byte_tokenizer: str, server: Server, tmp_path: Path, lora: bool
) -> None:
    policy = CausalLM(config=CONFIG, tokenizer=byte_tokenizer, lora=LoRA(rank=4) if lora else None)
    policy.load()
    disturb(policy, 0, 0.3)
    engine = VLLMServer(server.url, str(tmp_path / "weights"))
    learned = sum(one.nbytes for one in policy.parameters() if one.requires_grad)
    for arrival in range(1, 11):
        greedy = {"temperature": 0.0, "max_tokens": 12}
        ours, theirs = sample(policy, PROBLEMS, **greedy), sample(policy, PROBLEMS, engine=engine, **greedy)
        assert torch.equal(ours.completion_ids, theirs.completion_ids)
        assert ours.stop_reasons == theirs.stop_reasons
        rows = sample(policy, PROBLEMS, engine=engine, temperature=0.7, num_samples=4, max_tokens=12)
        gap = (policy.logprobs(rows, 0.7) - rows.sampler_logprobs)[rows.completion_mask].abs().max()
        assert gap < rounding_bound(policy, rows, 0.7) and engine.num_weight_updates == arrival
        assert (engine.bytes_sent == learned) is (lora and arrival > 1)
        disturb(policy, arrival, 0.05)


def test_a_killed_server_stops_the_run_and_the_same_command_goes_on_once_it_is_back(
    byte_tokenizer: str, server: Server, tmp_path: Path
) -> None:
    """By SIGKILL in the middle of the fourth rollout: the three before are saved, and the end is the same."""

    def start(folder: str, kill: Callable[[], None] | None = None) -> tuple[Any, list[dict[str, float]]]:
        engine = engine_of("VLLMServer", tmp_path / folder, server.url)
        if kill is not None:
            engine.kill, engine.kill_in = kill, 3
        policy = CausalLM(config=CONFIG, tokenizer=byte_tokenizer)
        module, logged = run_with(engine, policy, tmp_path / folder, 5, every=50)
        engine.close()
        return whole_weights(module), logged

    whole, before = start("whole")
    with pytest.raises(EngineError, match=f"^the vllm server at {server.url} failed at /inference/v1/generate"):
        start("killed", server.kill)
    assert (tmp_path / "killed" / "run" / "last.ckpt").resolve().name == "rollout_000003.ckpt"
    server.start()
    resumed, after = start("killed")
    assert [one["reward/mean"] for one in after] == [one["reward/mean"] for one in before[3:]]
    assert all(one["sampling/logprob_gap/max"] < 1e-4 for one in after)
    assert all(np.array_equal(resumed[name], whole[name]) for name in whole)


def weights(folder: Path) -> dict[str, Any]:
    with np.load(folder / "weights.npz") as found:
        return dict(found)


def logged(folder: Path, rank: int = 0) -> Any:
    return json.loads((folder / f"rank{rank}.json").read_text())


def apart(first: dict[str, Any], second: dict[str, Any]) -> float:
    assert first.keys() == second.keys()
    return max(float(np.abs(first[name] - second[name]).max()) for name in first)


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_a_run_killed_while_it_samples_ends_with_the_weights_of_one_that_was_not(
    byte_tokenizer: str, tmp_path: Path, lora: bool
) -> None:
    """Colocated: by SIGKILL in the sixth rollout, saved after the fourth, to the last bit."""
    told = {"engine": "VLLM", "rollouts": 7, "tokenizer": byte_tokenizer, "lora": lora}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert processes(whole, **told) == [0], said(whole)
    assert processes(killed, kill_in=5, **told) == [-signal.SIGKILL], said(killed)
    assert not (killed / "weights.npz").exists()
    assert (killed / "run" / "last.ckpt").resolve().name == "rollout_000004.ckpt"
    assert processes(killed, **told) == [0], said(killed)
    assert apart(weights(killed), weights(whole)) == 0.0
    after, before = logged(killed), logged(whole)
    assert (after["arrivals"], before["arrivals"]) == (3, 7)
    rewards = [one["reward/mean"] for one in before["logged"]]
    assert [one["reward/mean"] for one in after["logged"]] == rewards[4:]
    assert len(set(rewards)) > 3, "the weights did not move enough to tell"


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_two_ranks_with_shards_and_an_engine_each_learn_what_one_process_learns(
    byte_tokenizer: str, tmp_path: Path, lora: bool
) -> None:
    """The same rows from the same streams; sums over two ranks are in another order, in float32."""
    told = {"engine": "VLLM", "rollouts": 4, "tokenizer": byte_tokenizer, "lora": lora}
    alone, two = tmp_path / "alone", tmp_path / "two"
    assert processes(alone, **told) == [0], said(alone)
    assert processes(two, 2, **told) == [0, 0], said(two)
    assert apart(weights(alone), weights(two)) < 1e-4
    for rank in range(2):
        found = logged(two, rank)
        assert found["arrivals"] == 4 and found["bytes"] == logged(alone)["bytes"]
        assert all(one["sampling/logprob_gap/max"] < 1e-4 for one in found["logged"])
    rewards = [one["reward/mean"] for one in logged(alone)["logged"]]
    np.testing.assert_allclose([one["reward/mean"] for one in logged(two)["logged"]], rewards, rtol=1e-6)
