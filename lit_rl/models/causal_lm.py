"""Any causal language model of transformers as a policy."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lit_rl.functional.logprobs import completion_logprobs, tokens_per_chunk
from lit_rl.models.adapters import (
    POLICY,
    REFERENCE,
    LoRA,
    add_reference_adapter,
    copy_adapter,
    has_adapter,
    using_adapter,
)
from lit_rl.models.cached_decoding import CachedDecoding
from lit_rl.models.family import counts_pads, eos_token_ids, most_positions, text_config
from lit_rl.models.loading import load_model, load_tokenizer, warn_of_another_tokenizer
from lit_rl.models.model_spec import ModelSpec
from lit_rl.models.packing import check_packing, hidden_states
from lit_rl.models.policy import Policy
from lit_rl.models.probe import probe
from lit_rl.models.projection import check_projection, project
from lit_rl.models.sources import MODEL_KEY, TOKENIZER_KEY
from lit_rl.models.text_codec import TextCodec
from lit_rl.training.dtypes import torch_dtype
from lit_rl.training.sharding import compute_again, gathered, layers_of
from lit_rl.types import Completions


class CausalLM(Policy):
    """A causal language model: from a hub id, a local folder, a PEFT adapter folder, or from scratch.

    Args:
        model: hub id, folder of a model, or folder of a PEFT adapter (its base is loaded with it).
            ``package:NAME/FOLDER`` names a folder inside an installed package.
        config: build a new model from this configuration instead (``model_type`` and its fields); vocabulary
            size and special tokens come from the tokenizer.
        tokenizer: where the tokenizer comes from; by default, where the model comes from.
        chat_template: for tokenizers without one: a Jinja template of chat messages.
        lora: train low-rank adapters instead of all weights.
        dtype: of the weights, ``float32`` or ``bfloat16``; what learns below float32 has float32 masters beside it,
            see :mod:`lit_rl.models.masters`.
        attention: attention implementation of transformers; ``None`` lets it choose what the model's family has.
        init_seed: of the initial weights of a model from scratch and of new adapters; on the command line
            ``seed_everything`` unless it is set, else 0.
        chunk_tokens: tokens whose logits exist at the same time while scoring; by default as many as fit in 256 MiB
            of float32, at most 4,096. A backward pass needs about three times as much.
        pack_tokens: score several rows in one sequence of at most so many tokens: no padding, the same numbers;
            ``None`` gives each row a sequence of its own.
        quantization: ``4bit`` loads the base in 4 bits (NF4, through bitsandbytes) under new adapters: QLoRA.
        gradient_checkpointing: compute each layer's activations again in the backward pass instead of keeping them.
        probe: compare, after loading, how the model samples and how it is scored on a few tokens; see
            :mod:`lit_rl.models.probe`. It costs about ten short forward passes.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        tokenizer: str | None = None,
        chat_template: str | None = None,
        lora: LoRA | None = None,
        dtype: str = "float32",
        attention: str | None = None,
        init_seed: int | None = None,
        chunk_tokens: int | None = None,
        pack_tokens: int | None = None,
        quantization: Literal["4bit"] | None = None,
        gradient_checkpointing: bool = False,
        probe: bool = True,
    ) -> None:
        super().__init__()
        if (model is None) == (config is None):
            raise ValueError("give either model (hub id or folder) or config (a model from scratch), not both or none")
        if model is None and tokenizer is None:
            raise ValueError("a model from scratch needs tokenizer: the hub id or folder of one")
        if quantization is not None and (model is None or lora is None):
            raise ValueError("quantization freezes the base of a given model under new adapters: give model and lora")
        torch_dtype(dtype)  # looked at here, before a run waits for its data
        self.source = model
        self.config = config
        self.tokenizer_source = tokenizer or model
        self.chat_template = chat_template
        self.lora = lora
        self.dtype = dtype
        self.attention = attention
        self.init_seed = init_seed or 0
        self.chunk_tokens = chunk_tokens
        self.pack_tokens = pack_tokens
        self.quantization = quantization
        self.gradient_checkpointing = gradient_checkpointing
        self.probe = probe
        self.model: Any = None
        self.tokenizer: Any = None
        self.frozen_reference: Any = None
        self.reference_was_refreshed = False

    def load(self) -> None:
        """Build the model and its tokenizer; see :mod:`lit_rl.models.loading`."""
        if self.model is not None:
            return
        self.load_tokenizer()
        self.model = load_model(self.model_spec(), self.tokenizer)
        if self.gradient_checkpointing:
            for layer in layers_of(self.model):
                compute_again(layer)
        if not next(self.model.parameters()).is_meta:
            (probe if self.probe else check_projection)(self.model)
            if self.pack_tokens is not None:
                check_packing(self.model)
        self.codec = TextCodec(
            self.tokenizer,
            eos_token_ids(self.model, self.tokenizer),
            most_positions(self.model) or 1 << 30,
            counts_pads=counts_pads(self.model),
        )

    def model_spec(self) -> ModelSpec:
        """What the model is built from."""
        return ModelSpec(
            source=self.source,
            config=self.config,
            lora=self.lora,
            dtype=self.dtype,
            attention=self.attention,
            init_seed=self.init_seed,
            quantization=self.quantization,
        )

    def load_tokenizer(self) -> None:
        """Load the tokenizer alone."""
        if self.tokenizer is None:
            key = MODEL_KEY if self.tokenizer_source == self.source else TOKENIZER_KEY
            self.tokenizer = load_tokenizer(str(self.tokenizer_source), key)
            if self.chat_template is not None:
                self.tokenizer.chat_template = self.chat_template

    def decoding(self) -> CachedDecoding:
        """From the model's cache; see :mod:`lit_rl.models.cached_decoding`."""
        return CachedDecoding(self.model, self.codec)

    def forward(
        self,
        completions: Completions,
        temperature: float = 1.0,
        with_entropy: bool = False,
        head: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Log-probabilities and entropies [N, T] of the completions' tokens; see :meth:`Policy.forward`.

        ``head`` reads the hidden states [N, S, H] instead. A critic on the policy's base comes in through this door
        because a sharded policy gathers its weights here.
        """
        hidden = sequence_hidden_states(self.model, completions, self.pack_tokens)
        if head is not None:
            return head(hidden)
        return completion_logprobs(
            hidden,
            lambda chunk: project(self.model, chunk),
            completions.completion_ids,
            completions.completion_mask,
            temperature=temperature or 1.0,
            chunk_tokens=self.chunk_tokens or tokens_per_chunk(text_config(self.model).vocab_size),
            with_entropy=with_entropy,
        )

    @contextmanager
    def reference(self) -> Iterator[Policy]:
        """Score as the reference: frozen copy, frozen starting adapter, or base without adapters."""
        with torch.no_grad():
            if self.lora is None and not has_adapter(self.model):
                if self.frozen_reference is None:
                    raise RuntimeError("no reference was prepared: call prepare_reference() after load()")
                trained, self.model = self.model, self.frozen_reference
                try:
                    with gathered(self.frozen_reference):
                        yield self
                finally:
                    self.model = trained
            else:
                with using_adapter(self.model, REFERENCE if has_adapter(self.model, REFERENCE) else None):
                    yield self

    def prepare_reference(self) -> None:
        """Freeze the policy as it is now; with new adapters, switching them off gives the start."""
        if has_adapter(self.model):
            return  # new adapters start as zero; a loaded adapter got its frozen twin when it was loaded
        if self.frozen_reference is None:
            self.frozen_reference = frozen_copy(self.model)

    def expect_refresh(self) -> None:
        """Give a reference that will move an adapter of its own; it starts as the policy does."""
        if has_adapter(self.model) and not has_adapter(self.model, REFERENCE):
            add_reference_adapter(self.model, self.init_seed)

    def refresh_reference(self) -> None:
        """Copy the policy's present weights into the reference."""
        self.reference_was_refreshed = True
        if not has_adapter(self.model):
            with torch.no_grad():
                for old, new in zip(self.frozen_reference.parameters(), self.model.parameters(), strict=True):
                    old.copy_(new)
            return
        if not has_adapter(self.model, REFERENCE):
            add_reference_adapter(self.model, self.init_seed)
        copy_adapter(self.model, POLICY, REFERENCE)

    def keeps(self, name: str) -> bool:
        """Reference adapters always (their start may be gone); a frozen copy once it was refreshed."""
        return f".{REFERENCE}." in name or (self.reference_was_refreshed and ".frozen_reference." in f".{name}")

    def make_room(self, names: Collection[str]) -> None:
        """Add what a checkpoint holds of refreshed references."""
        if any(f".{REFERENCE}." in name for name in names) and not has_adapter(self.model, REFERENCE):
            add_reference_adapter(self.model, self.init_seed)
        if any(".frozen_reference." in f".{name}" for name in names):
            self.reference_was_refreshed = True
            self.frozen_reference = self.frozen_reference or frozen_copy(self.model)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder that ``transformers`` (or ``peft``, for adapters) loads, tokenizer included."""
        path = Path(folder)
        if has_adapter(self.model):
            self.model.save_pretrained(path, selected_adapters=[POLICY])
        else:
            self.model.save_pretrained(path)
        self.tokenizer.save_pretrained(path)
        warn_of_another_tokenizer(path)


def sequence_hidden_states(model: Any, completions: Completions, pack_tokens: int | None = None) -> Tensor:
    """Run a causal LM's decoder over prompts and completions.

    Args:
        model: a causal LM of transformers (inside PEFT or not).
        completions: N rows.
        pack_tokens: see :func:`lit_rl.models.packing.hidden_states`.

    Returns:
        [N, S, H] last hidden states, S = P + T.
    """
    ids = torch.cat([completions.prompt_ids, completions.completion_ids], 1)
    mask = torch.cat([completions.prompt_mask, completions.completion_mask], 1)
    return hidden_states(model, ids, mask, pack_tokens)


def frozen_copy(module: nn.Module) -> nn.Module:
    """A copy in eval mode that no optimizer and no checkpoint takes up."""
    twin = copy.deepcopy(module).eval()
    return twin.requires_grad_(False)
