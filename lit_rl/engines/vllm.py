"""Sampling with vLLM in the trainer's own process: one engine per rank, with a copy of the weights."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from lit_rl.engines.engine import Engine, Session
from lit_rl.engines.vllm_package import (
    isolated_random_state,
    keeping_process_group,
    reload_weights,
    replace_adapter,
    sampling_params,
    start_llm,
    vllm_adapter_arguments,
    write_model_config,
)
from lit_rl.engines.weight_export import (
    Tensors,
    adapter_weights,
    full_weights,
    gather_and_write_weights,
    require_copyable_policy,
    sends_adapter_only,
    write_adapter,
)
from lit_rl.models.adapters import POLICY
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.policy import Policy
from lit_rl.models.sampling import RunningRow
from lit_rl.signature_check import PositiveInt, Share
from lit_rl.training.ranks import eval_mode, naming_phase
from lit_rl.types import Generation, Request, Sampling, StopReason

_NO_LIMIT = 1 << 30


class VLLM(Engine):
    """vLLM in the trainer's process, on the trainer's device.

    Each rank has a whole engine (no tensor parallelism, no further process), which starts with the first session. If
    the policy has learned since the last session, vLLM reloads the weights before the next session; they are gathered
    from all ranks one layer at a time. For a policy with adapters, the base is sent once, then only the adapter.

    vLLM returns log-probabilities under the distribution that it sampled from. They differ by rounding from those of
    the training forward pass; the metric ``sampling/logprob_gap`` tells by how much, see ``docs/engines.md``.

    Args:
        dtype: type of vLLM's weights and activations; ``None`` for the policy's type. The trainer's type keeps the
            gap small.
        memory_share: share of the device's memory for vLLM's weights and cache together. Leave the rest to training.
        max_row_tokens: longest row, prompt and completion together; ``None`` for as long as the policy can read.
        max_rows: largest number of rows sampled at the same time.
        sleep: give the device's memory back between sessions; the weights then wait in the node's memory.
        in_rounds: ask for the next turn only once every row has finished its turn. Which rows are computed together
            then does not depend on timing, and a resumed run samples the same. ``false`` is faster with several turns.
        merge_adapters: add adapters to their base and send all weights each time, for adapters that vLLM cannot run
            beside their base.
        options: further arguments of ``vllm.LLM`` by name. For example, ``enforce_eager`` starts faster and samples
            slower; a CPU needs ``kv_cache_memory_bytes``, the size of the cache.

    Attributes:
        num_weight_updates: how often weights were sent to vLLM.
        bytes_sent: size of the tensors that were sent last.
    """

    def __init__(
        self,
        dtype: str | None = None,
        memory_share: Share = 0.4,
        max_row_tokens: PositiveInt | None = None,
        max_rows: PositiveInt = 256,
        sleep: bool = False,
        in_rounds: bool = True,
        merge_adapters: bool = False,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.dtype = dtype
        self.memory_share = memory_share
        self.max_row_tokens = max_row_tokens
        self.max_rows = max_rows
        self.sleep = sleep
        self.in_rounds = in_rounds
        self.merge_adapters = merge_adapters
        self.options = options or {}
        self.num_weight_updates = self.bytes_sent = 0
        self._llm: Any = None
        self._trainers_group = False
        self._holds: tuple[int, int] | None = None  # which policy's weights, of which version
        self._base: int | None = None  # which policy's base, without adapters
        self._adapter: Any = None  # vLLM's name for the adapter that samples

    @contextmanager
    def session(self, policy: Policy, sampling: Sampling) -> Iterator[Session]:
        policy.load()
        model = require_copyable_policy(policy, "VLLM", merge=self.merge_adapters)
        with eval_mode(model), torch.no_grad(), naming_phase("sampling"), isolated_random_state(model.device):
            self._start_llm(model)
            self._send_weights_if_changed(model)
            session = VLLMSession(self._llm.llm_engine, model, sampling, self._adapter)
            try:
                yield session
            finally:
                session.end()
                if self.sleep:
                    self._llm.sleep(level=1)

    def require_ready(self) -> None:
        if find_spec("vllm") is None:
            install = "run pip install 'lit-rl[vllm]' in an environment of its own (see lit-rl docs engines)"
            raise ModuleNotFoundError(f"the engine VLLM needs the package vllm: {install}", name="vllm")

    def mark_weights_stale(self) -> None:
        self._holds = None

    def close(self) -> None:
        if self._llm is not None:
            with keeping_process_group(self._trainers_group):
                self._llm.llm_engine.engine_core.shutdown()
            self._llm = self._holds = self._base = None

    # -- weights ---------------------------------------------------------------------------------------------

    def _start_llm(self, policy: CausalLM) -> None:
        if self._llm is not None:
            return
        self._trainers_group = dist.is_initialized()
        longest = self.max_row_tokens or policy.codec.max_positions
        arguments: dict[str, Any] = {
            "dtype": self.dtype or policy.dtype,
            "gpu_memory_utilization": self.memory_share,
            "max_num_seqs": self.max_rows,
            "enable_sleep_mode": self.sleep,
        }
        if longest < _NO_LIMIT:
            arguments["max_model_len"] = longest
        if sends_adapter_only(policy, self.merge_adapters):
            config = policy.model.peft_config[POLICY]
            arguments |= vllm_adapter_arguments(int(max([config.r, *config.rank_pattern.values()])))
        with naming_phase("starting vllm"), tempfile.TemporaryDirectory() as folder:
            write_model_config(policy, Path(folder))
            self._llm = start_llm(Path(folder), arguments | self.options)
        if self.sleep:
            self._llm.sleep(level=1)

    def _send_weights_if_changed(self, policy: CausalLM) -> None:
        """Send the weights if they changed since the last session; all ranks take part."""
        if self.sleep:
            self._llm.wake_up(tags=["weights"])
        if self._holds != (id(policy), policy.version):
            with naming_phase("sending weights to vllm"):
                self._send_weights(policy)
            self._holds = id(policy), policy.version
            self.num_weight_updates += 1
        if self.sleep:
            self._llm.wake_up(tags=["kv_cache"])
        # Even if no weights were sent: results must not depend on what was sampled before.
        self._llm.reset_prefix_cache()

    def _send_weights(self, policy: CausalLM) -> None:
        """Send all weights through vLLM's reload call; for an unmerged adapter, the base once, then the adapter."""
        alone, self.bytes_sent, self._adapter = sends_adapter_only(policy, self.merge_adapters), 0, None
        if not alone or self._base != id(policy):
            weights = full_weights(policy, merge=not alone)
            # vLLM keeps a tensor until its layer is complete, and an embedding that it pads until the end. Tensors
            # gathered from shards are gone by then, so vLLM gets copies.
            given = ((name, tensor.clone()) for name, tensor in weights) if isinstance(policy, FSDPModule) else weights
            self._llm.collective_rpc(reload_weights, args=(self._count_bytes_sent(given),))
            for _ in weights:  # ranks gather together, also the tensors that vLLM leaves out
                pass
            self._base = id(policy) if alone else None
        if alone:
            with tempfile.TemporaryDirectory() as folder:
                config = policy.model.peft_config[POLICY]
                write = partial(write_adapter, folder=Path(folder), config=config)
                remedy = "set TMPDIR to a folder with free space"
                self.bytes_sent += gather_and_write_weights(adapter_weights(policy), Path(folder), write, remedy)
                self._adapter = replace_adapter(self._llm, folder)

    def _count_bytes_sent(self, weights: Iterator[Tensors]) -> Iterator[Tensors]:
        for name, tensor in weights:
            self.bytes_sent += tensor.nbytes
            yield name, tensor


class VLLMSession(Session):
    """Requests inside one vLLM engine, whose scheduler batches them."""

    _numbers = count()

    def __init__(self, engine: Any, policy: CausalLM, sampling: Sampling, adapter: Any = None) -> None:
        self._engine = engine
        self._codec, self._version = policy.codec, policy.version
        self._sampling = sampling
        self._adapter = adapter
        self._open: dict[str, RunningRow] = {}

    def submit(self, requests: Sequence[Request]) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        for request in requests:
            name = f"{next(self._numbers)}"
            self._open[name] = RunningRow(request)
            prompt = {"prompt_token_ids": list(request.prompt_ids)}
            params = SamplingParams(
                **sampling_params(request, self._sampling, self._codec.eos_ids),
                detokenize=False,
                # Only rows with stop strings are checked token by token.
                output_kind=RequestOutputKind.DELTA if request.stop_strings else RequestOutputKind.FINAL_ONLY,
            )
            self._engine.add_request(name, prompt, params, lora_request=self._adapter)

    def step(self) -> list[Generation]:
        if not self._open:
            return []
        outputs = self._engine.step()
        done = [
            (output.request_id, reason)
            for output in outputs
            if (reason := self._append_and_find_end(output)) is not None
        ]
        return [self._open.pop(name).to_generation(reason, self._version) for name, reason in done]

    @property
    def num_unfinished(self) -> int:
        return len(self._open)

    def end(self) -> None:
        """Drop unanswered requests."""
        if self._open:
            self._engine.abort_request(list(self._open))
            self._open.clear()
            while self._engine.has_unfinished_requests():
                self._engine.step()

    def _append_and_find_end(self, output: Any) -> StopReason | None:
        """Append a step's tokens to a row; if the row ends with them, return the reason."""
        row = self._open.get(output.request_id)
        if row is None:
            return None
        written = output.outputs[0]
        for index, found in zip(written.token_ids, written.logprobs, strict=True):
            row.ids.append(int(index))
            row.logprobs.append(float(found[index].logprob))
            if self._codec.contains_stop(row.ids, row.request.stop_strings) and row.ids[-1] not in self._codec.eos_ids:
                if not output.finished:
                    self._engine.abort_request([output.request_id])
                return StopReason.STOP_STRING
        if not output.finished:
            return None
        if written.finish_reason not in ("stop", "length"):
            raise RuntimeError(
                f"vllm ended row {row.request.row} with {written.finish_reason}: set VLLM_LOGGING_LEVEL=INFO to see why"
            )
        return StopReason.EOS if row.ids[-1] in self._codec.eos_ids else StopReason.LENGTH
