"""Any causal language model of transformers as a policy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from lit_rl.errors import ArgumentError, UsageError, seed_or_global
from lit_rl.math.logprobs import (
    Compare,
    TokenLogits,
    completion_logprobs,
    logprobs_and_divergences,
    select_predicting_states,
    tokens_per_chunk,
)
from lit_rl.models.adapters import (
    REFERENCE,
    LoRA,
    add_reference_adapter,
    has_adapter,
    save_adapter,
)
from lit_rl.models.codecs.text_codec import TextCodec
from lit_rl.models.decoding import BatchDecoder, SharedPromptDecoder
from lit_rl.models.family import check_output_projection, eos_token_ids, max_positions, output_projection, text_config
from lit_rl.models.loading.sources import MODEL_KEY, TOKENIZER_KEY
from lit_rl.models.loading.weights import ModelSpec, load_model, load_tokenizer, without_progress_bars
from lit_rl.models.padding import can_train_on_shared_prompts, completion_hidden_states
from lit_rl.models.policy import Policy
from lit_rl.models.probe import can_decode_from_shared_prompts, check_sampling_matches_training
from lit_rl.models.reference import FrozenCopyReference, NoGradScorer, SharedBaseReference, make_frozen_copy
from lit_rl.signature_check import PositiveInt, ValueLimit
from lit_rl.training.precision import dtype_from_name
from lit_rl.training.ranks import enable_activation_checkpointing
from lit_rl.types import Completions

# If this were the name of a file, each prompt would become that name.
Template = Annotated[str, ValueLimit("a Jinja template", lambda text: "{" in text, "give its text")]


class CausalLM(Policy):
    """A causal language model: from a hub id, a local folder, a PEFT adapter folder, or from scratch.

    Args:
        model: hub id, folder of a model, or folder of a PEFT adapter (its base is loaded too). ``package:NAME/PATH``
            names a folder inside an installed package. In Python also a transformers model object, which is trained in
            place.
        config: build a new model from this configuration instead (``model_type`` and its fields); vocabulary
            size and special tokens come from the tokenizer.
        tokenizer: source of the tokenizer; by default that of the model.
        chat_template: Jinja template of chat messages, for tokenizers without one.
        template_arguments: arguments of the chat template besides messages, such as ``{enable_thinking: false}``.
        lora: train low-rank adapters instead of all weights.
        dtype: type of the weights, ``float32`` or ``bfloat16``; trained weights below float32 also have float32
            masters, see :mod:`lit_rl.training.precision`.
        attention: attention implementation of transformers; ``None`` for the default of the model's family.
        init_seed: seed of the initial weights of a model from scratch and of new adapters; by default the seed of
            Lightning's ``seed_everything``, or 0 without one.
        chunk_tokens: tokens whose logits are in memory at the same time; by default as many as fit in 256 MiB of
            float32, at most 4,096. The backward pass of one chunk needs about three times as much.
        share_prompts: compute a prompt once for all its completions, see :mod:`lit_rl.models.padding`; the
            numbers are the same up to rounding. ``false`` computes each row's prompt, as do sharded weights and models
            that cannot share.
        quantization: ``4bit`` loads the base in 4 bits (NF4, through bitsandbytes) under new adapters: QLoRA.
        gradient_checkpointing: compute each layer's activations again in the backward pass instead of keeping them;
            ``offload`` also moves what remains, the layers' inputs, to the CPU's memory.
        probe: compare, after loading, the log-probabilities of sampling with those of training on a few tokens; see
            :mod:`lit_rl.models.probe`. It costs about ten short forward passes.
    """

    def __init__(
        self,
        model: str | nn.Module | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        tokenizer: str | None = None,
        chat_template: Template | None = None,
        template_arguments: Mapping[str, Any] | None = None,
        lora: LoRA | None = None,
        dtype: str = "float32",
        attention: str | None = None,
        init_seed: int | None = None,
        chunk_tokens: PositiveInt | None = None,
        share_prompts: bool = True,
        quantization: Literal["4bit"] | None = None,
        gradient_checkpointing: bool | Literal["offload"] = False,
        probe: bool = True,
    ) -> None:
        super().__init__()
        given = model if isinstance(model, nn.Module) else None
        if hasattr(given, "peft_config"):
            raise ArgumentError(
                "CausalLM.model", "a model without adapters", "a PEFT model", "give its adapter's folder"
            )
        if given is not None and tokenizer is None:
            tokenizer = str(getattr(given, "name_or_path", "")) or None
        if (model is None) == (config is None):
            raise UsageError("give either model (hub id or folder) or config (a model from scratch), not both or none")
        if (model is None or given is not None) and tokenizer is None:
            raise UsageError("a model from scratch or a model object needs tokenizer: give a hub id or folder")
        if quantization is not None and lora is None:
            raise UsageError("a quantized model is frozen and trains only new adapters, but lora is not set: give lora")
        dtype_from_name(dtype)  # checked here, before a run waits for its data
        self.source = None if given is not None else model
        self._given = (given,)  # in a tuple, so that it is no part of this module before it is loaded
        self.config = config
        self.tokenizer_source = tokenizer or model
        self.chat_template = chat_template
        self.template_arguments = template_arguments
        self.lora = lora
        self.dtype = dtype
        self.attention = attention
        self.init_seed = seed_or_global(init_seed)
        self.chunk_tokens = chunk_tokens
        self.share_prompts = share_prompts
        self.quantization = quantization
        self.gradient_checkpointing = gradient_checkpointing
        self.probe = probe
        self.model: Any = None
        self.tokenizer: Any = None
        self.frozen_reference: Any = None
        self._decoding: type[BatchDecoder] | None = None

    def load(self) -> None:
        if self.model is not None:
            return
        self.load_tokenizer()
        self.model = load_model(self.model_spec(), self.tokenizer)
        if self.gradient_checkpointing:
            enable_activation_checkpointing(self.model, offload=self.gradient_checkpointing == "offload")
        if not next(self.model.parameters()).is_meta:
            (check_sampling_matches_training if self.probe else check_output_projection)(self.model)
            if self.share_prompts:
                self.shares_prompts = can_train_on_shared_prompts(self.model)
        self.codec = TextCodec(
            self.tokenizer,
            eos_token_ids(self.model, self.tokenizer),
            max_positions(self.model) or 1 << 30,
            template_arguments=self.template_arguments,
        )
        self.codec.num_ids = text_config(self.model).vocab_size
        self._chunk_tokens = tokens_per_chunk(self.codec.num_ids)

    def constructor_arguments(self) -> dict[str, Any] | None:
        """Return the arguments that determine the weights; ``None`` for a subclass and for a model that was given."""
        if type(self) is not CausalLM or self._given[0] is not None:
            return None
        spec = dict(vars(self.model_spec()))
        sources = {"model": spec.pop("source"), "tokenizer": self.tokenizer_source, "chat_template": self.chat_template}
        sources["template_arguments"] = self.template_arguments
        return sources | spec | {"lora": asdict(self.lora) if self.lora else None}

    def model_spec(self) -> ModelSpec:
        """Return the specification that the model is built from."""
        own = {field.name: getattr(self, field.name) for field in fields(ModelSpec) if field.name != "source"}
        return ModelSpec(self.source if self._given[0] is None else self._given[0], **own)

    def load_tokenizer(self) -> None:
        """Load the tokenizer alone."""
        if self.tokenizer is None:
            key = MODEL_KEY if self.tokenizer_source == self.source else TOKENIZER_KEY
            self.tokenizer = load_tokenizer(str(self.tokenizer_source), key)
            if self.chat_template is not None:
                self.tokenizer.chat_template = self.chat_template

    def named_parameters(self, *args: Any, **given: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """Return the weights by name; raise if there are none yet, since nothing would then be trained or frozen."""
        if self.model is None:
            raise UsageError(
                f"{type(self).__name__} has no weights yet: call its load() first (the optimizer of a run gets the "
                "weights by itself: UpdateConfig(optimizer=partial(AdamW, lr=1e-6)))"
            )
        return super().named_parameters(*args, **given)

    def make_batch_decoder(self) -> BatchDecoder:
        """Return a decoder with a cache that shares prompts, or the model's own; see :class:`SharedPromptDecoder`."""
        if self._decoding is None:
            self._decoding = SharedPromptDecoder if can_decode_from_shared_prompts(self.model) else BatchDecoder
        return self._decoding(self.model, self.codec)

    def forward(
        self,
        completions: Completions,
        temperature: float = 1.0,
        with_entropy: bool = False,
        head: Callable[[Tensor], Any] | None = None,
        model: Any = None,
    ) -> Any:
        """Return log-probabilities and entropies [N, T] of the completions' tokens; see :meth:`Policy.forward`.

        ``head`` reads the hidden states [N, 1 + T, H] instead, and ``model`` is used in place of the policy's own
        model. A critic on the policy's base, a comparison and a frozen copy are passed in here because a sharded policy
        gathers its weights in this call.
        """
        model = self.model if model is None else model
        hidden = completion_hidden_states(model, completions, self.shares_prompts)
        if head is not None:
            return head(hidden)
        return completion_logprobs(
            hidden,
            output_projection(model),
            completions.completion_ids,
            completions.on_host.completion_mask,
            temperature=temperature or 1.0,
            chunk_tokens=self.chunk_tokens or self._chunk_tokens,
            with_entropy=with_entropy,
        )

    def lazy_token_logits(self, completions: Completions, model: Any = None) -> TokenLogits:
        """Compute hidden states now and logits on request; see :meth:`Policy.lazy_token_logits` and :meth:`forward`."""
        model = self.model if model is None else model
        ids, mask = completions.completion_ids, completions.on_host.completion_mask
        with torch.no_grad():
            states: Tensor = self(
                completions, head=lambda hidden: select_predicting_states(hidden, ids, mask)[0], model=model
            )
        # The output matrix is read when logits are requested: sharded weights are gathered by then.
        return lambda rows: output_projection(model)(states[rows])

    def logprobs_and_divergence(
        self, completions: Completions, teacher: TokenLogits, compare: Compare, temperature: float, with_entropy: bool
    ) -> tuple[Tensor, Tensor | None, Tensor]:

        def head(hidden: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
            return logprobs_and_divergences(
                hidden,
                output_projection(self.model),
                completions.completion_ids,
                completions.on_host.completion_mask,
                teacher,
                compare,
                temperature=temperature or 1.0,
                chunk_tokens=self.chunk_tokens or self._chunk_tokens,
                with_entropy=with_entropy,
            )

        found: tuple[Tensor, Tensor | None, Tensor] = self(completions, head=head)
        return found

    def make_reference(self, *, will_refresh: bool = False) -> NoGradScorer:
        """Return a frozen copy, or, with adapters, the base without them or under a frozen one. See :class:`Policy`."""
        if self.lora is not None or has_adapter(self.model):
            # New adapters start as zero; a loaded adapter got its frozen copy when it was loaded.
            if will_refresh and not has_adapter(self.model, REFERENCE):
                add_reference_adapter(self.model, self.init_seed)
            return SharedBaseReference(self)
        if self.frozen_reference is None:
            self.frozen_reference = make_frozen_copy(self.model)
        return FrozenCopyReference(self, self.frozen_reference, self.model)

    def saves_frozen_parameter(self, name: str) -> bool:
        """Return True for reference adapters, whose start may be gone, and for a frozen copy once it was refreshed."""
        return f".{REFERENCE}." in name or (self.reference_was_refreshed and ".frozen_reference." in f".{name}")

    def add_reference_if_saved(self, names: Collection[str]) -> None:
        if any(f".{REFERENCE}." in name for name in names) and not has_adapter(self.model, REFERENCE):
            add_reference_adapter(self.model, self.init_seed)
        if any(".frozen_reference." in f".{name}" for name in names):
            self.reference_was_refreshed = True
            self.frozen_reference = self.frozen_reference or make_frozen_copy(self.model)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder that ``transformers`` (or ``peft``, for adapters) loads, tokenizer included."""
        path = Path(folder)
        with without_progress_bars():
            if has_adapter(self.model):
                save_adapter(self.model, path)
            else:
                self.model.save_pretrained(path)
        self.tokenizer.save_pretrained(path)
