"""Counts of bytes, operations and collectives, from a configuration's own update on tensors without memory."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lit_rl.cli.live_bytes import HOST, REST, LiveByteCounter
from lit_rl.engines.in_process import InProcess
from lit_rl.errors import UsageError
from lit_rl.math import linear_head
from lit_rl.models.causal_lm import CausalLM
from lit_rl.modules.distillation import Distillation
from lit_rl.modules.ppo import PPO
from lit_rl.modules.rollout_module import RolloutModule
from lit_rl.training.precision import add_gradients_to_masters, fp32_masters
from lit_rl.training.ranks import eval_mode, shard, syncing_gradients_if, tensors_of_fsdp_unit, unsharded_weights
from lit_rl.training.strategy import FSDP2Strategy
from lit_rl.types import Completions, Experience, StopReason


@dataclass(frozen=True)
class RunWorkload:
    """The ranks of a run, and the rows that each rank learns from.

    One copy of the weights is spread over ``num_shards`` ranks; 1 means a whole copy on each rank. If ``weights_wait``
    is true, weights and optimizer wait in the CPU's memory. ``microbatch_rows`` rows go through the model together.
    """

    num_ranks: int = 1
    ranks_per_node: int = 1
    num_shards: int = 1
    weights_wait: bool = False
    num_problems: int = 8
    group_size: int = 8
    prompt_tokens: int = 256
    completion_tokens: int = 256
    microbatch_rows: int = 8

    @property
    def num_rows(self) -> int:
        """Number of completions of a rollout on one rank."""
        return self.num_problems * self.group_size

    @property
    def num_microbatches(self) -> int:
        """Number of micro-batches of one pass over a rollout."""
        return -(-self.num_rows // self.microbatch_rows)


@dataclass(frozen=True)
class RankCosts:
    """Counts of one rank.

    Args:
        parameters: of the policy, over all ranks, adapters not counted.
        trained: parameters that an optimizer moves, of policy and critic.
        updating: bytes by kind at the worst moment of an update, the optimizer's step included.
        sampling: bytes by kind while this process samples all rows, or between updates if another process samples.
        flops: operations of a rollout's passes, with and without gradients.
        received: bytes that collectives of these passes bring from ranks of the same node, and from other nodes.
        copied: bytes that go from CPU to device and back in a rollout, if weights or activations wait on the CPU.
        on_cpu: largest number of bytes that wait on the CPU.
    """

    parameters: int
    trained: int
    updating: dict[str, float]
    sampling: dict[str, float]
    flops: float
    received: tuple[float, float]
    copied: float = 0.0
    on_cpu: float = 0.0


def workload_from_run(module: Any, strategy: Any, batch_size: int, gpus: int, gpus_per_node: int = 8) -> RunWorkload:
    """Return the ranks and rows of a run."""
    counted = isinstance(module, RolloutModule) and not isinstance(module, Distillation)  # a teacher is not counted
    if not counted or not isinstance(module.policy, CausalLM):
        raise UsageError(
            f"plan covers GRPO, REINFORCE and PPO on a CausalLM, got {type(module).__name__}: configure one of these"
        )
    if module.policy.quantization is not None and isinstance(strategy, FSDP2Strategy):
        raise UsageError(
            "4-bit weights cannot be sharded over ranks: plan this run with --trainer.strategy ddp or auto"
        )
    replicas = strategy.replicas if isinstance(strategy, FSDP2Strategy) else gpus
    if gpus % replicas:
        raise UsageError(f"{gpus} GPUs cannot be divided into {replicas} replicas: change --gpus or replicas")
    rows = batch_size * module.sampling.num_samples
    return RunWorkload(
        num_ranks=gpus,
        ranks_per_node=min(gpus, gpus_per_node),
        num_shards=gpus // replicas,
        weights_wait=isinstance(strategy, FSDP2Strategy) and strategy.offload,
        num_problems=batch_size,
        group_size=module.sampling.num_samples,
        completion_tokens=module.sampling.max_tokens,
        microbatch_rows=min(rows, module.update.microbatch_size or -(-rows // module.update.minibatches)),
    )


class _NewTensorsWithoutMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]  # of torch
    """Inside, new floating-point tensors, such as the buffers in which FSDP2 sums gradients, have no memory."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        kind = named.get("dtype")
        is_new = func.namespace == "aten" and not any(isinstance(leaf, Tensor) for leaf in tree_leaves((args, named)))
        if is_new and kind is not None and kind.is_floating_point and func._opname == "empty":
            with self.fake:
                return func(*args, **named)
        return func(*args, **named)

    def __init__(self, fake: FakeTensorMode) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of torch
        self.fake = fake


def measure_update_costs(module: RolloutModule, strategy: Any, job: RunWorkload, on_cpu: bool = False) -> RankCosts:
    """Run an update of a module that is not loaded yet, without its weights; the module cannot be used afterwards.

    Two micro-batches go forward and backward, so that the gradients of the first exist during the second. The optimizer
    steps before and after them, so that its state exists throughout. All rows are as long as the job says.
    """
    try:
        with _fake_process_group(job.num_ranks):
            fake = FakeTensorMode(allow_non_fake_inputs=True)
            parameters = _load_fake_weights(module, strategy, job, fake)
            with _NewTensorsWithoutMemory(fake), _device_sized_logit_blocks(on_cpu):
                return _UpdateOnFakeTensors(module, job, strategy, on_cpu).measure_costs(parameters)
    except (UnsupportedOperatorException, DataDependentOutputException, DynamicOutputShapeException) as error:
        raise UsageError(
            f"this model needs {error}, which torch {torch.__version__} cannot run on fake tensors (tensors without "
            "memory): update torch, or plan a dense model"
        ) from None


@contextmanager
def _device_sized_logit_blocks(on_cpu: bool) -> Iterator[None]:
    """Inside, blocks of logits are as large as on the device, although fake tensors are on the CPU."""
    before = linear_head.BLOCK_ON_CPU
    linear_head.BLOCK_ON_CPU = before if on_cpu else sys.maxsize
    try:
        yield
    finally:
        linear_head.BLOCK_ON_CPU = before


@contextmanager
def _fake_process_group(number: int) -> Iterator[None]:
    """Inside, there is a process group of ``number`` ranks, of which only this rank exists."""
    dist.init_process_group("fake", rank=0, world_size=number, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def _load_fake_weights(module: Any, strategy: Any, job: RunWorkload, fake: FakeTensorMode) -> int:
    """Build all weights as fake tensors, tied weights once, and shard them; count the policy's without adapters."""
    with torch.device("meta"):
        module.load_models()
        parameters: int = sum(p.numel() for name, p in module.policy.named_parameters() if ".lora_" not in name)
        if module.policy.quantization is not None:
            _fake_quantise_layers(module.policy.model)
        module.logprobs.create_reference_if_needed()
    for part in _parts_with_parameters(module):  # usually found by a trial with real weights, which are missing here
        if hasattr(part, "shares_prompts"):
            part.shares_prompts = module.policy.share_prompts and job.num_shards == 1
    if isinstance(strategy, FSDP2Strategy):
        replicas = job.num_ranks // job.num_shards
        shape = (job.num_ranks,) if replicas == 1 else (replicas, job.num_shards)
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replica", "share")[2 - len(shape) :])
    made: dict[int, tuple[Tensor, Tensor]] = {}  # tied weights stay tied
    with fake:
        for part in _parts_with_parameters(module):
            for store, name, tensor in tensors_of_fsdp_unit(part):
                if id(tensor) not in made:
                    empty: Tensor = torch.empty_like(tensor, device="cpu")
                    weight = nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
                    made[id(tensor)] = (tensor, weight)
                store[name] = made[id(tensor)][1]
            if isinstance(strategy, FSDP2Strategy):
                shard(
                    part,
                    mesh,
                    param_dtype=strategy.param_dtype,
                    reduce_dtype=strategy.reduce_dtype,
                    offload=strategy.offload,
                )
    return parameters


class _FakeFourBitLinear(nn.Module):
    """The bytes of a frozen linear layer in NF4 as bitsandbytes keeps them, with scales of the scales (QLoRA)."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.shape, number = linear.weight.shape, linear.weight.numel()
        self.weight = nn.Parameter(torch.empty(-(-number // 2), dtype=torch.uint8), requires_grad=False)
        self.register_buffer("scales", torch.empty(-(-number // 64), dtype=torch.uint8))
        self.register_buffer("scales_of_scales", torch.empty(-(-number // (64 * 256)), dtype=torch.float32))
        self.bias = linear.bias

    def forward(self, states: Tensor) -> Tensor:
        product: Tensor = _ProductWithTransientWeight.apply(states, self.weight, self.shape)  # type: ignore[no-untyped-call]
        return product if self.bias is None else product + self.bias


class _ProductWithTransientWeight(torch.autograd.Function):
    """A product with a weight that is whole only during the product, forward and backward."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, _: Tensor, shape: torch.Size) -> Tensor:
        ctx.shape = shape
        return states @ states.new_empty(shape).t()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient @ gradient.new_empty(ctx.shape), None, None


def _fake_quantise_layers(model: Any) -> None:
    """Replace frozen linear layers by 4-bit layers, except the output matrix."""
    output = model.get_output_embeddings()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and child is not output and not child.weight.requires_grad:
                setattr(parent, name, _FakeFourBitLinear(child))


def _parts_with_parameters(module: Any) -> list[Any]:
    return [part for part in module.children() if any(True for _ in part.parameters())]


class _UpdateOnFakeTensors:
    """An update of a module on fake tensors."""

    def __init__(self, module: Any, job: RunWorkload, strategy: Any, on_cpu: bool) -> None:
        self.module, self.job, self.is_sharded = module, job, isinstance(strategy, FSDP2Strategy)
        self.whole_gradients = self.is_sharded and strategy.whole_gradients
        self.offload = self.is_sharded and strategy.offload
        made = module.configure_optimizers()
        self.optimizer: Any = made["optimizer"] if isinstance(made, dict) else made
        for group in self.optimizer.param_groups:
            if not on_cpu and not self.offload and group.get("foreach", True) is None and not group.get("fused"):
                group["foreach"] = True
        self.masters = list(fp32_masters(self.optimizer).values())
        self.trained = [p for p in module.parameters() if p.requires_grad]

    def measure_costs(self, parameters: int) -> RankCosts:
        job, module = self.job, self.module
        weights, gradients, moments = (HOST,) * 3 if self.offload else ("weights", "gradients", "moments")
        micro = make_longest_experience(job, job.microbatch_rows)
        with eval_mode(module), LiveByteCounter() as live:
            live.set_kind(module.parameters(), weights)
            live.set_kind(module.buffers(), "weights")
            live.set_kind(self.masters, "masters")
            with live.count_new_tensors_as(gradients):
                for parameter in self.trained:
                    parameter.grad = torch.empty_like(parameter)
            add_gradients_to_masters(self.optimizer)
            self.run_optimizer_step(live)
            for state in self.optimizer.state.values():
                live.set_kind((v for v in state.values() if isinstance(v, Tensor)), moments)
            sampling, of_engine = self.measure_sampling_bytes(live)
            live.reset_peak()
            live.flops, live.received = 0, Counter()
            with torch.no_grad():
                self.run_passes_without_gradients(micro)
            flops, received = live.flops * job.num_microbatches, _multiply_counts(live.received, job.num_microbatches)
            received += of_engine
            passes, steps = module.update.epochs * job.num_microbatches, module.update.steps_per_rollout
            last = min(passes, steps)
            for times, is_last in ((passes - last, False), (last, True)):
                if times > 0:
                    live.flops, live.received = 0, Counter()
                    with syncing_gradients_if(module, is_last, whole=self.whole_gradients):
                        losses = self.run_forward_backward(micro, live, gradients)
                    flops, received = flops + live.flops * times, received + _multiply_counts(live.received, times)
            if not self.is_sharded and job.num_ranks > 1:  # in the last pass: once per loss, or only once with masters
                moved = sum(p.nbytes for group in self.optimizer.param_groups for p in group["params"])
                reduced = moved if self.masters else moved * losses
                received[tuple(range(job.num_ranks))] = 2 * reduced * steps * (job.num_ranks - 1) // job.num_ranks
            self.run_optimizer_step(live)
            updating = _device_bytes_by_kind(live.peak)
        if not self.is_sharded and job.num_ranks > 1:  # DDP sums gradients in buckets of their own
            updating["gradients"] += sum(p.nbytes for p in self.trained)
        copied = received.pop(HOST, 0)
        near = sum(n for ranks, n in received.items() if len({rank // job.ranks_per_node for rank in ranks}) == 1)
        return RankCosts(
            parameters=parameters,
            trained=sum(p.numel() for p in self.trained),
            updating=updating,
            sampling=sampling,
            flops=flops,
            received=(near, received.total() - near),
            copied=copied,
            on_cpu=live.most_on_cpu,
        )

    def measure_sampling_bytes(self, live: LiveByteCounter) -> tuple[dict[str, float], Counter[Any]]:
        """Return bytes by kind while all rows are sampled, and bytes received to gather whole weights for an engine."""
        engine, job, policy = self.module.collector.engine, self.job, self.module.policy
        held = _device_bytes_by_kind(live.now)
        is_here = isinstance(engine, InProcess)
        if not is_here and policy.lora is not None and not getattr(engine, "merge_adapters", False):
            return held, Counter()  # only adapters are sent to the engine
        before, live.received = live.total, Counter()
        with torch.no_grad(), unsharded_weights(policy):
            gathered, received = float(live.total - before), Counter(live.received)
            if not is_here:
                return held, received
            ids = torch.zeros(1, job.prompt_tokens, dtype=torch.int64)
            output = policy.model(input_ids=ids, use_cache=True)
            of_token = sum(one.keys.nbytes + one.values.nbytes for one in output.past_key_values.layers)
            of_token /= job.prompt_tokens
        rows = min(engine.max_rows or job.num_rows, job.num_rows)
        prompts = -(-rows // job.group_size)
        # Bytes of an entry: its logit, three numbers in float32 (tempered, log-probability, noise) and two in float64.
        entries = rows * output.logits.shape[-1] * (output.logits.element_size() + 3 * 4 + 2 * 8)
        cache = of_token * (prompts * job.prompt_tokens + rows * job.completion_tokens)
        return held | {"gathered": gathered, "logits": float(entries), "cache": cache}, received

    def run_passes_without_gradients(self, micro: Experience) -> None:
        """Run the passes without gradients that the algorithm has."""
        module, completions = self.module, micro.completions
        every = torch.ones(len(micro), dtype=torch.bool)
        module.logprobs_of(completions, every)
        if isinstance(module, PPO):
            module.values_and_tail_values(completions)

    def run_forward_backward(self, micro: Experience, live: LiveByteCounter, gradients: str) -> int:
        """Run forward and backward passes; return the number of losses."""
        module, losses = self.module, 0
        for loss, _ in module.microbatch_losses(micro, module.update_denominator(micro)):
            loss.backward()
            losses += 1
            live.set_kind((p.grad for p in self.trained), gradients)
            add_gradients_to_masters(self.optimizer)
            live.set_kind((p.grad for p in self.masters), "gradients")
        return losses

    def run_optimizer_step(self, live: LiveByteCounter) -> None:
        """Step as ``PolicyModule.optimizer_step`` does, but without reading a number."""
        with live.count_new_tensors_as(HOST if self.offload else REST):
            for group in self.optimizer.param_groups:
                norm = nn.utils.get_total_norm([p.grad for p in group["params"] if p.grad is not None])
                if (limit := self.module.max_gradient_norm(group["name"])) is not None:
                    nn.utils.clip_grads_with_norm_(group["params"], limit, norm)
            self.optimizer.step()
            self.optimizer.zero_grad()


def make_longest_experience(job: RunWorkload, number: int) -> Experience:
    """Return experience of maximum length, with actual values, not fake tensors: values decide which operations run.

    The first prompt and the first completion are one token shorter than others that go through the model together with
    them, since attention that has to leave out padding keeps more in memory than attention without padding.
    """
    rows, size = torch.arange(number), (number, job.completion_tokens)
    of_prompt = rows // job.group_size
    prompts = of_prompt[:, None].expand(number, job.prompt_tokens).contiguous()
    prompt_mask, completion_mask = torch.ones_like(prompts, dtype=torch.bool), torch.ones(size, dtype=torch.bool)
    prompt_mask[of_prompt < of_prompt[-1].clamp(max=1), 0] = False
    completion_mask[: number > 1, -1] = False
    floats = torch.zeros(size)
    completions = Completions.single_turn(
        problems=(None,) * number,  # type: ignore[arg-type]
        prompt_ids=prompts,
        prompt_mask=prompt_mask,
        completion_ids=torch.zeros(size, dtype=torch.int64),
        completion_mask=completion_mask,
        sampler_logprobs=floats,
        stop_reasons=(StopReason.LENGTH,) * number,
        texts=("",) * number,
        token_byte_spans=((),) * number,
        group_size=job.group_size,
        weights_versions=(0,) * number,
    )
    return Experience(
        completions,
        torch.zeros(number),
        torch.ones(number, dtype=torch.bool),
        floats,
        old_logprobs=floats,
        ref_logprobs=floats,
        token_rewards=floats,
        old_values=floats,
        returns=floats,
    )


def _multiply_counts(received: Counter[Any], number: int) -> Counter[Any]:
    return Counter({ranks: size * number for ranks, size in received.items()})


def _device_bytes_by_kind(kinds: Counter[str]) -> dict[str, float]:
    return {kind: float(size) for kind, size in kinds.items() if size and kind != HOST}
