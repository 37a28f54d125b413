"""The engine on vLLM servers, against a stub: what it sends, what it refuses, and how it fails."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from distributed.runs import trainer_of
from safetensors.torch import load_file
from support.moved_weights import disturb
from support.sampling import sample
from support.small_runs import Words
from support.tiny_models import loaded
from support.vllm_stub import VLLMStub, stub_server

from lit_rl.callbacks import Checkpointing
from lit_rl.engines import EngineError, VLLMServer
from lit_rl.engines.weight_export import write_weights
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, LoRA
from lit_rl.modules import RolloutModule
from lit_rl.types import Problem, Request, Sampling, StopReason

PROBLEMS = [Problem(prompt, prompt, TokenTarget(), stop_strings=("\n",)) for prompt in ("a", "hello")]


@pytest.fixture
def stub() -> Iterator[VLLMStub]:
    with stub_server() as stub:
        yield stub


def engine_of(stub: VLLMStub, folder: Path, **options: Any) -> VLLMServer:
    defaults: dict[str, Any] = {"start_seconds": 0.5, "num_tries": 3}
    return VLLMServer(stub.url, str(folder / "weights"), **(defaults | options))


def test_weights_arrive_before_the_rows_of_their_version_and_only_then(
    tiny_policy: CausalLM, stub: VLLMStub, tmp_path: Path
) -> None:
    engine = engine_of(stub, tmp_path)
    done = sample(tiny_policy, PROBLEMS, engine=engine, num_samples=2, max_tokens=3)
    assert done.completion_ids.tolist() == [[1, 2, 3]] * 4 and done.sampler_logprobs.eq(-1).all()
    assert done.stop_reasons == (StopReason.LENGTH,) * 4
    steps = [step for step in stub.steps if step != "/inference/v1/generate"]
    arrival = ["/pause", *["/collective_rpc"] * 2, "/reset_prefix_cache", "/update_weight_version", "/resume"]
    assert steps == ["/health", "/server_info", *arrival, "/weight_info"]
    held = load_file(tmp_path / "weights" / "model-00000.safetensors")
    assert held.keys() == stub.read[0] == {name.removeprefix("model.") for name in tiny_policy.state_dict()}
    sample(tiny_policy, PROBLEMS, engine=engine, max_tokens=3)
    assert engine.num_weight_updates == len(stub.read) == 1
    tiny_policy.version += 1
    sample(tiny_policy, PROBLEMS, engine=engine, max_tokens=3)
    assert engine.num_weight_updates == len(stub.read) == 2 and stub.label.endswith("-2-1")
    engine.close()
    assert not (tmp_path / "weights").exists()


@pytest.fixture
def adapted(byte_tokenizer: str) -> CausalLM:
    return loaded(byte_tokenizer, lora=LoRA(rank=3))


def test_the_base_travels_once_and_then_the_adapter_alone_by_a_name_of_its_own(
    adapted: CausalLM, stub: VLLMStub, tmp_path: Path
) -> None:
    engine = engine_of(stub, tmp_path)
    learned = sum(one.nbytes for one in adapted.parameters() if one.requires_grad)
    both = sum(one.nbytes for one in adapted.parameters()) + adapted.model.lm_head.weight.nbytes
    for version, expected in enumerate((both, learned, learned)):
        adapted.version = version
        sample(adapted, PROBLEMS, engine=engine, max_tokens=3)
        assert engine.bytes_sent == expected
        assert stub.requests[-1]["model"] == stub.adapter == stub.label and stub.label.endswith(
            f"-{version + 1}-{version}"
        )
        disturb(adapted, version)
    assert len(stub.read) == 1 and len(stub.uploads) == 3
    name = "base_model.model.model.layers.1.mlp.up_proj.lora_B.weight"
    assert not stub.uploads[0][name].any() and stub.uploads[2][name].any()
    stub.label = "default"
    with pytest.raises(EngineError, match=r"reports weights default, but was sent \w+-3-2: was the server restarted"):
        sample(adapted, PROBLEMS, engine=engine, max_tokens=3)
    sample(adapted, PROBLEMS, engine=engine, max_tokens=3)
    assert engine.bytes_sent == both, "a base that may be lost is sent again"
    merging = engine_of(stub, tmp_path, merge_adapters=True)
    sample(adapted, PROBLEMS, engine=merging, max_tokens=3)
    assert merging.bytes_sent == both - learned and "model" not in stub.requests[-1]


def test_a_request_says_everything_that_a_server_may_have_a_default_for(
    tiny_policy: CausalLM, stub: VLLMStub, tmp_path: Path
) -> None:
    how = Sampling(temperature=0.7, top_p=0.9, top_k=5, max_tokens=9)
    with engine_of(stub, tmp_path).session(tiny_policy, how) as session:
        session.submit([Request(4, (7, 8), stream=2**62 + 1, max_tokens=2, stop_strings=("\n",))])
        while session.num_unfinished:
            session.step()
    asked = stub.requests[0]
    assert asked["token_ids"] == [7, 8]
    assert asked["sampling_params"] == {
        **{"n": 1, "temperature": 0.7, "top_p": 0.9, "top_k": 5, "min_p": 0.0, "repetition_penalty": 1.0},
        **{"seed": 2**62 + 1, "max_tokens": 2, "stop": ["\n"], "stop_token_ids": [256], "ignore_eos": True},
        **{"logprobs": 0, "detokenize": True},
    }


def test_no_more_requests_than_allowed_are_at_the_server(tiny_policy: CausalLM, stub: VLLMStub, tmp_path: Path) -> None:
    sample(tiny_policy, PROBLEMS, engine=engine_of(stub, tmp_path, max_requests=3), num_samples=8, max_tokens=2)
    assert len(stub.requests) == 16 and 1 < stub.max_at_once <= 3


def test_what_fails_now_and_then_is_tried_again(tiny_policy: CausalLM, stub: VLLMStub, tmp_path: Path) -> None:
    stub.failures = [503, 500]
    done = sample(tiny_policy, PROBLEMS, engine=engine_of(stub, tmp_path), max_tokens=2)
    assert len(done) == 2 and len(stub.requests) == 4
    stub.failures = [503] * 9
    with pytest.raises(EngineError, match=r"failed at /inference/v1/generate: HTTP 503: out of patience"):
        sample(tiny_policy, PROBLEMS, engine=engine_of(stub, tmp_path), max_tokens=2)


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "closed": ({"url": "http://127.0.0.1:1"}, r"^no vllm server answers at http://127.0.0.1:1 within 0.5 seconds"),
    "raw": (
        {"info": {"logprobs_mode": "raw_logprobs", "max_model_len": 128}},
        r"reports raw_logprobs, .*: start the server with --logprobs-mode processed_logprobs$",
    ),
    "deaf": ({"stuck": True}, r"reports weights default, but was sent \w+-1-0: does another run use the server\?$"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_would_make_a_run_wrong_is_refused(
    tiny_policy: CausalLM, stub: VLLMStub, tmp_path: Path, fault: str
) -> None:
    changes, said = FAULTS[fault]
    vars(stub).update(changes)
    with pytest.raises(EngineError, match=said):
        sample(tiny_policy, PROBLEMS[:1], engine=engine_of(stub, tmp_path), max_tokens=2)


def test_rows_of_a_server_that_was_started_anew_are_refused(
    tiny_policy: CausalLM, stub: VLLMStub, tmp_path: Path
) -> None:
    with (
        pytest.raises(EngineError, match=r"row 0 with the weights default, not \w+-1-0: the server was restarted"),
        engine_of(stub, tmp_path).session(tiny_policy, Sampling()) as session,
    ):
        stub.label = "default"
        session.submit([Request(0, (1,), 1, 2)])
        while session.num_unfinished:
            session.step()


def test_a_server_that_dies_stops_the_run_with_a_checkpoint_from_which_it_goes_on(
    make_module: Callable[..., RolloutModule], stub: VLLMStub, tmp_path: Path
) -> None:
    """Killed in the third rollout: the two before are saved though no save was due, and none is repeated."""

    def start(rollouts: int) -> RolloutModule:
        engine = engine_of(stub, tmp_path, num_tries=1)
        module = make_module(engine=engine, max_rollouts=rollouts, sampler_check=None)
        callback = Checkpointing(str(tmp_path / "run"), every_n_rollouts=50)
        trainer = trainer_of("auto", tmp_path, 1, callbacks=[callback])
        trainer.fit(
            module, Words(batch_size=3), ckpt_path=callback.lock_and_resolve_checkpoint(trainer), weights_only=False
        )
        return module

    stub.failures = [200] * 29 + [503] * 99  # twelve rows a rollout
    with pytest.raises(EngineError, match="HTTP 503"):
        start(4)
    assert (tmp_path / "run" / "last.ckpt").resolve().name == "rollout_000002.ckpt"
    stub.failures, before = [], len(stub.requests)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = start(4)
    assert module.clock.count == 4
    # By seed: a request of the run that died may come late, and is asked for again.
    assert len({asked["sampling_params"]["seed"] for asked in stub.requests[before:]}) == 24


def test_files_hold_what_they_are_given_and_replace_what_was_there(tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    reused = torch.zeros(100)

    def stream() -> Iterator[tuple[str, torch.Tensor]]:
        for i in range(5):
            yield f"w{i}", reused.fill_(i)

    assert write_weights(stream(), folder, file_bytes=900) == 5 * 400
    assert len(list(folder.iterdir())) == 2
    held = {name: one for file in folder.iterdir() for name, one in load_file(file).items()}
    assert {name: float(one.unique()) for name, one in held.items()} == {f"w{i}": i for i in range(5)}
    write_weights([("only", reused)], folder)
    assert [file.name for file in folder.iterdir()] == ["model-00000.safetensors"]
