"""A small run that samples with vLLM in processes of its own: to be killed, resumed, and started as several ranks.

With ``kill_in`` the process ends by SIGKILL in the middle of that rollout's sampling. A run that reaches its end writes
its weights to ``weights.npz`` and what each rollout logged to ``rank<r>.json``.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from distributed.runs import trainer_of, whole_weights

from lit_rl.callbacks import Checkpointing
from lit_rl.engines import VLLM, VLLMServer
from lit_rl.models import CausalLM, LoRA
from lit_rl.modules import GRPO, RolloutConfig, UpdateConfig
from lit_rl.rollout.sampler_check import SamplerCheck
from lit_rl.types import Sampling
from support.ranks import become_rank, free_port
from support.small_runs import EvenBytes, Words
from support.tiny_models import TINY_QWEN2

CONFIG = TINY_QWEN2 | {"hidden_size": 128, "intermediate_size": 128}
"""Heads of 32: vLLM's attention on a CPU has no smaller ones."""


class KilledColocated(VLLM):
    """Ends the process when the first row of a rollout is there."""

    kill_in: int | None = None

    @contextmanager
    def session(self, policy: Any, sampling: Sampling) -> Iterator[Any]:
        with super().session(policy, sampling) as session:
            if policy.version == self.kill_in:
                session.step = dying(session.step, lambda: os.kill(os.getpid(), signal.SIGKILL))
            yield session


class KilledRemote(VLLMServer):
    """The same, of a trainer whose server lives on; or, given ``kill``, of the server."""

    kill_in: int | None = None

    def kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def session(self, policy: Any, sampling: Sampling) -> Iterator[Any]:
        with super().session(policy, sampling) as session:
            if policy.version == self.kill_in:
                session.step = dying(session.step, self.kill)
            yield session


def dying(step: Any, kill: Any) -> Any:
    """A session's step that kills once when it has the first row."""
    left = [kill]

    def stepping() -> Any:
        done = step()
        if done and left:
            left.pop()()
        return done

    return stepping


def engine_of(kind: str, folder: Path, url: str = "") -> Any:
    """Few rows at a time, so that most of a rollout is missing when its first row is there."""
    if kind == "VLLMServer":
        return KilledRemote(url, str(folder / "handed_over"), max_requests=2, num_tries=2)
    return KilledColocated(options={"enforce_eager": True, "kv_cache_memory_bytes": 10**8}, max_rows=2)


def run_with(engine: Any, policy: CausalLM, folder: Path, rollouts: int, ranks: int = 1, every: int = 2) -> Any:
    """Start the run in ``folder`` or go on with it; the module and what each rollout logged."""
    module = GRPO(
        policy,
        sampling=Sampling(num_samples=4, max_tokens=8),
        rewards=[EvenBytes()],
        max_rollouts=rollouts,
        collect=RolloutConfig(engine=engine, sampler_check=SamplerCheck(largest_gap=1e-4, stop=True)),
        update=UpdateConfig(optimizer=lambda parameters: torch.optim.Adam(parameters, lr=1e-2)),
    )
    logged: list[dict[str, float]] = []
    log = module.log_rollout
    module.log_rollout = lambda *given: logged.append(log(*given)) or logged[-1]
    callback = Checkpointing(str(folder / "run"), every_n_rollouts=every)
    trainer = trainer_of("fsdp2" if ranks > 1 else "auto", folder, ranks, callbacks=[callback])
    trainer.strategy.timeout_minutes = 10
    trainer.fit(
        module,
        Words(batch_size=4 // ranks),
        ckpt_path=callback.lock_and_resolve_checkpoint(trainer),
        weights_only=False,
    )
    return module, logged


def processes(folder: Path, ranks: int = 1, **told: Any) -> list[int]:
    """The run as one process or several, forked from one that has imported vLLM and started nothing; how each ended."""
    folder.mkdir(exist_ok=True)
    port = free_port()
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["vllm", "vllm.v1.engine.llm_engine", __name__])
    started = [context.Process(target=_one, args=(folder, rank, ranks, port, told)) for rank in range(ranks)]
    for process in started:
        process.start()
    for process in started:
        process.join(900)
    return [process.exitcode or 0 for process in started]


def said(folder: Path) -> str:
    """The end of what each rank printed."""
    return "\n".join(file.read_text()[-3000:] for file in sorted(folder.glob("rank*.txt")))


def _one(folder: Path, rank: int, ranks: int, port: int, told: dict[str, Any]) -> None:
    if ranks > 1:
        become_rank(rank, ranks, port)
    torch.set_num_threads(1)
    log = os.open(folder / f"rank{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    engine = engine_of(told["engine"], folder, told.get("url", ""))
    engine.kill_in = told.get("kill_in")
    policy = CausalLM(config=CONFIG, tokenizer=told["tokenizer"], lora=LoRA(rank=4) if told.get("lora") else None)
    module, logged = run_with(engine, policy, folder, told["rollouts"], ranks)
    gathered = whole_weights(module)
    if rank == 0:
        np.savez(folder / "weights.npz", **gathered)
    (folder / f"rank{rank}.json").write_text(
        json.dumps({"arrivals": engine.num_weight_updates, "bytes": engine.bytes_sent, "logged": logged})
    )
    engine.close()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
