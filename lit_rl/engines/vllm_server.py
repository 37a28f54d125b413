"""Sampling on vLLM servers, which run on other devices or machines than the trainer."""

from __future__ import annotations

import queue
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import torch

from lit_rl.engines.engine import Engine, EngineError, Session
from lit_rl.engines.vllm_client import VLLMClient
from lit_rl.engines.vllm_package import sampling_params
from lit_rl.engines.weight_export import (
    Tensors,
    adapter_weights,
    full_weights,
    gather_and_write_weights,
    raise_if_any_rank_failed,
    require_copyable_policy,
    sends_adapter_only,
    write_adapter,
    write_weights,
)
from lit_rl.models.adapters import POLICY
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.policy import Policy
from lit_rl.signature_check import PositiveFloat, PositiveInt
from lit_rl.training.ranks import eval_mode, gather_over_ranks, naming_phase, rank
from lit_rl.types import Generation, Request, Sampling, StopReason

_MODE = "processed_logprobs"
_SECONDS_OF_A_STEP = 0.05
_ADAPTER = "adapter"  # folder inside the folder of the weights


class VLLMServer(Engine):
    """vLLM servers that the user starts; ids go in, ids and log-probabilities come out.

    If the policy has learned since the last session, all ranks gather the weights layer by layer before the next one,
    and the first rank writes them into ``folder``; with adapters, the base once and then only the adapter. The servers
    read the weights only when all are written, so no rank waits for other ranks and for a server at the same time. Each
    server then reports the version of its weights, and again with every completion; rows sampled with another version
    end the run. ``docs/engines.md`` tells how to start a server.

    A server that fails is no fault of the policy: the run ends with a message, saves itself where the callback
    Checkpointing is used, and resumes when the command is run again.

    Args:
        url: address of the server, or a list of addresses: rank r uses server r modulo the number of servers.
        folder: folder for the weights, on a file system that trainer and servers see under the same path. The folder
            holds one copy of the model.
        start_seconds: how long the first session waits for servers that are still starting.
        weights_seconds: how long a server may take to read new weights.
        row_seconds: how long a server may take for a completion, waiting included.
        max_requests: largest number of requests that a rank has at its server at the same time; further requests wait.
        num_tries: how often a request is sent before the server counts as dead. A repeated request gives the same row.
        in_rounds: see :class:`lit_rl.engines.VLLM`.
        merge_adapters: see :class:`lit_rl.engines.VLLM`.

    Attributes:
        num_weight_updates: how often weights were sent to the servers.
        bytes_sent: size of the tensors that were sent last; on the first rank.
    """

    def __init__(
        self,
        url: str | list[str],
        folder: str,
        start_seconds: PositiveFloat = 600.0,
        weights_seconds: PositiveFloat = 600.0,
        row_seconds: PositiveFloat = 600.0,
        max_requests: PositiveInt = 128,
        num_tries: PositiveInt = 5,
        in_rounds: bool = True,
        merge_adapters: bool = False,
    ) -> None:
        addresses = [url] if isinstance(url, str) else url
        self.servers = [VLLMClient(one, num_tries) for one in addresses]
        self.folder = Path(folder).absolute()
        self.start_seconds = start_seconds
        self.weights_seconds = weights_seconds
        self.row_seconds = row_seconds
        self.max_requests = max_requests
        self.in_rounds = in_rounds
        self.merge_adapters = merge_adapters
        self.num_weight_updates = self.bytes_sent = 0
        self._run = ""
        self._label = ""
        self._holds: tuple[int, int] | None = None
        self._base: int | None = None  # which policy's base, without adapters, the servers have

    @contextmanager
    def session(self, policy: Policy, sampling: Sampling) -> Iterator[Session]:
        policy.load()
        model = require_copyable_policy(policy, "VLLMServer", merge=self.merge_adapters)
        with eval_mode(model), torch.no_grad(), naming_phase("sampling"):
            self._send_weights_if_changed(model)
            server = self.servers[rank() % len(self.servers)]
            named = {"model": self._label} if sends_adapter_only(model, self.merge_adapters) else {}
            session = VLLMServerSession(self, server, model, sampling, named)
            fault = ""
            try:
                yield session
            except EngineError as error:
                fault = str(error)
            finally:
                session.end()
            raise_if_any_rank_failed(fault)

    def require_ready(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=self.folder):
            pass

    def mark_weights_stale(self) -> None:
        self._holds = None

    # -- weights ---------------------------------------------------------------------------------------------

    def _send_weights_if_changed(self, policy: CausalLM) -> None:
        """Send the weights if they changed since the last session (collective); an error is raised on all ranks."""
        if not self._run:
            with naming_phase("waiting for vllm servers"):
                self._call_for_each_server(self._check_server)
            self._run = gather_over_ranks(uuid.uuid4().hex[:8])[0]
        if self._holds == (id(policy), policy.version):
            return
        self.num_weight_updates += 1
        before, self._label = self._label, f"{self._run}-{self.num_weight_updates}-{policy.version}"
        alone = sends_adapter_only(policy, self.merge_adapters)
        with_base = not alone or self._base != id(policy)
        self._base = None  # until all servers have the base
        with naming_phase("gathering weights for vllm"):
            self.bytes_sent = 0
            if with_base:
                weights = full_weights(policy, with_tied=True, merge=not alone)
                self._write_on_first_rank(weights, lambda given: write_weights(given, self.folder))
            if alone:
                place, config = self.folder / _ADAPTER, policy.model.peft_config[POLICY]
                self._write_on_first_rank(adapter_weights(policy), lambda given: write_adapter(given, place, config))
        with naming_phase("sending weights to vllm servers"):
            self._call_for_each_server(
                lambda server: self._send_weights(server, before, with_base=with_base, adapter=alone)
            )
        self._holds = id(policy), policy.version
        self._base = id(policy) if alone else None

    def _write_on_first_rank(self, weights: Iterator[Tensors], write: Callable[[Iterator[Tensors]], int]) -> None:
        self.bytes_sent += gather_and_write_weights(weights, self.folder, write if rank() == 0 else None)

    def _call_for_each_server(self, do: Any) -> None:
        """Call a function with each server on the first rank; a failure there fails all ranks."""
        fault = ""
        if rank() == 0:
            try:
                for server in self.servers:
                    do(server)
            except (EngineError, ValueError) as error:
                fault = str(error)
        raise_if_any_rank_failed(fault)

    def _check_server(self, server: VLLMClient) -> None:
        """Check that a server is up and returns log-probabilities of the distribution that it samples from."""
        server.wait_until_ready(self.start_seconds)
        config = server.request("/server_info?config_format=json", 60.0).get("vllm_config", {})
        mode = config.get("model_config", {}).get("logprobs_mode", _MODE) if isinstance(config, dict) else _MODE
        if mode != _MODE:
            raise EngineError(
                f"the server at {server.url} reports {mode}, not the sampled distribution's log-probabilities: "
                f"start the server with --logprobs-mode {_MODE}"
            )

    def _send_weights(self, server: VLLMClient, before: str, *, with_base: bool, adapter: bool) -> None:
        """Make a server load the weights in the folder, and check the version that the server then reports."""
        seconds = self.weights_seconds
        if not with_base:
            self._require_weight_version(server, before, "was the server restarted? Run the command again")
        server.request("/pause?mode=abort", seconds, {})
        if with_base:
            # A server that was started with --load-format dummy would refuse to read files.
            server.call_on_workers("update_config", seconds, overrides={"load_config": {"load_format": "auto"}})
            server.call_on_workers("reload_weights", seconds, weights_path=str(self.folder))
        if adapter:
            if not with_base:
                server.request("/v1/unload_lora_adapter", seconds, {"lora_name": before})
            # Under a new name: an adapter replaced in place is read again in each step of each request (vLLM 0.32).
            content = {"lora_name": self._label, "lora_path": str(self.folder / _ADAPTER)}
            server.request("/v1/load_lora_adapter", seconds, content, tries=1)
        server.request("/reset_prefix_cache", seconds, {})
        server.request("/update_weight_version", seconds, {"new_version": self._label})
        server.request("/resume", seconds, {})
        self._require_weight_version(server, self._label, "does another run use the server?")

    def _require_weight_version(self, server: VLLMClient, label: str, question: str) -> None:
        has = server.request("/weight_info", self.weights_seconds).get("weight_version")
        if has != label:
            raise EngineError(f"the server at {server.url} reports weights {has}, but was sent {label}: {question}")

    def close(self) -> None:
        self._holds = self._base = None
        if self._run and rank() == 0:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._run = ""


class VLLMServerSession(Session):
    """Requests at one server, with a thread for each pending request."""

    def __init__(
        self, engine: VLLMServer, server: VLLMClient, policy: CausalLM, sampling: Sampling, named: Mapping[str, str]
    ) -> None:
        self._server = server
        self._seconds, self._label = engine.row_seconds, engine._label
        self._codec, self._version = policy.codec, policy.version
        self._sampling = sampling
        self._named = named
        self._threads = ThreadPoolExecutor(engine.max_requests, thread_name_prefix="vllm-server")
        self._answers: queue.SimpleQueue[Generation | Exception] = queue.SimpleQueue()
        self._open = 0

    def submit(self, requests: Sequence[Request]) -> None:
        self._open += len(requests)
        for request in requests:
            self._threads.submit(self._fetch_and_queue_answer, request)

    def step(self) -> list[Generation]:
        done: list[Generation] = []
        while self._open:
            try:
                answer = self._answers.get(timeout=0 if done else _SECONDS_OF_A_STEP)
            except queue.Empty:
                break
            if isinstance(answer, Exception):
                raise answer
            done.append(answer)
            self._open -= 1
        return done

    @property
    def num_unfinished(self) -> int:
        return self._open

    def end(self) -> None:
        """Drop unanswered requests; the server aborts them when it next gets weights."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._open = 0

    def _fetch_and_queue_answer(self, request: Request) -> None:
        try:
            params = sampling_params(request, self._sampling, self._codec.eos_ids)
            # A server may have other defaults for these.
            params |= {"n": 1, "min_p": 0.0, "repetition_penalty": 1.0}
            params |= {"stop": list(request.stop_strings), "detokenize": bool(request.stop_strings)}
            content = {"token_ids": list(request.prompt_ids), "sampling_params": params, **self._named}
            answer = self._server.request("/inference/v1/generate", self._seconds, content)
            self._answers.put(self._parse_answer(request, answer))
        except Exception as error:  # raised again where the rollout waits
            self._answers.put(
                error if isinstance(error, EngineError) else EngineError(f"{self._server.url}: {error!r}")
            )

    def _parse_answer(self, request: Request, answer: dict[str, Any]) -> Generation:
        choice = answer["choices"][0]
        ids = [int(index) for index in choice["token_ids"]]
        logprobs = [float(one["logprob"]) for one in choice["logprobs"]["content"]]
        ended = choice["finish_reason"]
        labels = {span["version"] for span in choice.get("weight_versions") or ()}
        if labels - {self._label}:
            raise EngineError(
                f"the server at {self._server.url} sampled row {request.row} with the weights "
                f"{', '.join(sorted(labels))}, not {self._label}: the server was restarted, or another run uses it"
            )
        if ended not in ("stop", "length") or not ids:
            raise EngineError(f"the server at {self._server.url} ended row {request.row} with {ended}")
        reason = StopReason.STOP_STRING if isinstance(choice.get("stop_reason"), str) else StopReason.LENGTH
        reason = StopReason.EOS if ids[-1] in self._codec.eos_ids else reason
        return Generation(request.row, tuple(ids), tuple(logprobs), reason, self._version)
