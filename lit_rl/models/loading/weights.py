"""Loading of weights and tokenizers from a hub id, folder, adapter folder or package, or without any source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from inspect import getsource
from pathlib import Path
from sys import modules
from typing import Any, Literal

import torch

from lit_rl.errors import ArgumentError, UsageError, did_you_mean
from lit_rl.math.products import use_fast_linear_layers
from lit_rl.models.adapters import (
    POLICY,
    LoRA,
    add_reference_adapter,
    attach_saved_adapter,
    initialisation_device,
    lora_config,
)
from lit_rl.models.loading.sources import (
    ADAPTER_CONFIG,
    CONFIG_KEY,
    MODEL_KEY,
    NO_FOREIGN_CODE,
    TOKENIZER_KEY,
    base_source_of_adapter,
    has_tokenizer,
    offline_unless_reachable,
    one_line_load_errors,
    resolve_model_source,
)
from lit_rl.training.precision import dtype_from_name

_SPECIAL = {"bos_token_id", "eos_token_id", "pad_token_id"}
_OF_ANY_MODEL = {*_SPECIAL, "auto_map", "tie_word_embeddings", "max_position_embeddings"}  # the last is read here, too
_GENERIC = ("TokenizersBackend", "PreTrainedTokenizerFast")


@dataclass(frozen=True)
class ModelSpec:
    """A causal language model and its adapters, described before anything is loaded."""

    source: Any = None
    config: Mapping[str, Any] | None = None
    lora: LoRA | None = None
    dtype: str = "float32"
    attention: str | None = None
    init_seed: int = 0
    quantization: Literal["4bit"] | None = None


def load_tokenizer(source: str, key: str = TOKENIZER_KEY) -> Any:
    """Load the tokenizer of a hub id or folder, as its own files describe it; an adapter without one has its base's.

    For some model types (``qwen2`` among them in transformers 5) ``AutoTokenizer`` ignores the tokenizer that a folder
    declares and splits text by the rules of another tokenizer: the model would silently read other tokens than it was
    trained on. A folder that declares the generic class is therefore read by that class.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    folder = resolve_model_source(source)
    if (Path(folder) / ADAPTER_CONFIG).is_file() and not has_tokenizer(Path(folder)):
        folder = base_source_of_adapter(folder)
    declared = Path(folder) / "tokenizer_config.json"
    with one_line_load_errors("tokenizer", folder, key):
        if Path(folder).is_dir() and not has_tokenizer(Path(folder)):
            raise FileNotFoundError("no file of a tokenizer")
        if declared.exists() and json.loads(declared.read_text()).get("tokenizer_class") in _GENERIC:
            return PreTrainedTokenizerFast.from_pretrained(folder)
        return AutoTokenizer.from_pretrained(folder, **NO_FOREIGN_CODE)


def load_model(spec: ModelSpec, tokenizer: Any) -> Any:
    """Build or load the model that ``spec`` describes, with adapters where it has them.

    The global random state is left as it was: initial weights depend on ``spec.init_seed`` alone.

    cuDNN's attention is switched off in this process. On an H100 or H200, its backward pass turns finite gradients of
    masked rows into NaN (https://github.com/pytorch/pytorch/issues/196678), and it plans anew for each length: more
    than half of the CPU time of a sampled token. torch's other kernels take its place.

    Returns:
        A causal LM of transformers, wrapped by PEFT if there are adapters, in ``spec.dtype``.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
    if spec.lora is not None:
        from peft import get_peft_model

    with torch.random.fork_rng(), without_progress_bars():
        torch.manual_seed(spec.init_seed)
        if spec.config is not None:
            with initialisation_device():
                model = _model_from_config(spec, tokenizer)
            model = model.to(torch.get_default_device())
        elif isinstance(spec.source, torch.nn.Module):
            model = spec.source.to(dtype_from_name(spec.dtype))
        else:
            source = resolve_model_source(str(spec.source))
            is_adapter = (Path(source) / ADAPTER_CONFIG).exists()
            model = (_model_from_adapter if is_adapter else _model_from_pretrained)(spec, source)
        rows = model.get_input_embeddings().weight.shape[0]
        if tokenizer is not None and (needed := _num_used_token_ids(tokenizer)) > rows:
            raise ArgumentError(
                TOKENIZER_KEY,
                f"ids below {rows}, the rows of the model's embedding",
                f"a tokenizer with ids up to {needed - 1}",
                "give the tokenizer that the model was trained with, or resize the embedding",
            )
        use_fast_linear_layers(model)
        if spec.lora is None:
            return model
        # A new adapter's second matrix is zero, so switching the adapter off gives the start.
        with initialisation_device():
            return get_peft_model(model, lora_config(spec.lora, model), adapter_name=POLICY)


def _num_used_token_ids(tokenizer: Any) -> int:
    """Return the number of a tokenizer's ids, without special tokens at the end that nothing names.

    Gemma 3's tokenizer, for example, has a token for images, which its smallest model does not know.
    """
    special = {added.content for added in tokenizer.added_tokens_decoder.values() if added.special}
    named = {tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token, tokenizer.unk_token}
    unused = {token for token in special - named if token not in str(tokenizer.chat_template)}
    return 1 + max((index for token, index in tokenizer.get_vocab().items() if token not in unused), default=-1)


def _model_from_config(spec: ModelSpec, tokenizer: Any) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    fields = {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        **dict(spec.config or {}),
    }
    dtype = dtype_from_name(spec.dtype)
    if spec.quantization is not None and not torch.empty(0).is_meta:  # lit-rl plan builds without memory
        raise UsageError("quantization needs pretrained weights, but config builds the model from scratch: give model")
    config = AutoConfig.for_model(**fields)
    # A field that no code of the model reads would be kept, and the field that was meant would have its default. Some
    # models read fields that their configuration does not declare, such as head_dim.
    given, known = spec.config or {}, vars(type(config)())
    for name in sorted(given.keys() & vars(config).keys() - known.keys() - _OF_ANY_MODEL):
        of_config: Any = AutoModelForCausalLM._model_mapping
        source = getsource(modules[of_config[type(config)].__module__]) if type(config) in of_config else name
        if not re.search(rf"\b{re.escape(name)}\b", source):
            names = [*(one for one in known if one[0] != "_"), *config.attribute_map]
            remedy = did_you_mean(name, names) or "leave it out"
            raise ArgumentError(CONFIG_KEY, f"fields of {type(config).__name__}", name, remedy)
    return AutoModelForCausalLM.from_config(config, attn_implementation=spec.attention, dtype=dtype)


def _model_from_pretrained(spec: ModelSpec, source: str, key: str = MODEL_KEY) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    options: dict[str, Any] = {"attn_implementation": spec.attention, "dtype": dtype_from_name(spec.dtype)}
    if torch.empty(0).is_meta:  # this rank gets its weights from rank 0
        with one_line_load_errors("model", source, key):
            config = AutoConfig.from_pretrained(source, **NO_FOREIGN_CODE)
        model = AutoModelForCausalLM.from_config(config, **options)
        with suppress(OSError), offline_unless_reachable(source):  # not every model has a generation config
            model.generation_config = GenerationConfig.from_pretrained(source)
        return model
    if spec.quantization is not None:
        from transformers import BitsAndBytesConfig

        # NF4 with quantized scales (Dettmers et al. 2023, https://arxiv.org/abs/2305.14314).
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=options["dtype"],
        )
    with one_line_load_errors("model", source, key):
        options |= {"output_loading_info": True, **NO_FOREIGN_CODE}
        model, found = AutoModelForCausalLM.from_pretrained(source, **options)
    if new := [name for name, _ in model.named_parameters() if name in found["missing_keys"]]:
        raise UsageError(
            f"the model in {source} ({key}) lacks weights that its config.json describes, such as {new[0]}, which "
            "would be random: take weights and config.json from the same model"
        )
    for layer in model.modules():
        if hasattr(layer, "support_avx512bf16_for_cpu"):
            # On some CPUs a 4-bit layer that ran once in eval mode has no gradients afterwards; we train in eval mode.
            layer.support_avx512bf16_for_cpu = False
    return model


def _model_from_adapter(spec: ModelSpec, source: str) -> Any:
    """Continue a trained adapter; training starts from it, not from the base, so the reference is its frozen copy."""
    from peft import PeftConfig, get_peft_model

    if spec.lora is not None:
        raise UsageError(
            f"{source} is an adapter, and lora={spec.lora} would add another: omit lora to continue the first one"
        )
    home = base_source_of_adapter(source)
    with one_line_load_errors("adapter", source, MODEL_KEY):
        config = PeftConfig.from_pretrained(source)
    base = _model_from_pretrained(spec, home, f"the base of the adapter {source}")
    if next(base.parameters()).is_meta:
        config.inference_mode = False
        model = get_peft_model(base, config, adapter_name=POLICY)
    else:
        model = attach_saved_adapter(base, home, source)
    add_reference_adapter(model, spec.init_seed)
    return model


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Draw no bar for reading or writing weights; downloads from the Hub, which may take long, keep their bars."""
    from transformers.utils import logging

    set_hook: Any = getattr(logging, "set_tqdm_hook", None)
    if set_hook is None:
        yield
        return
    before = set_hook(lambda factory, args, kwargs: logging.EmptyTqdm(*args, **kwargs))
    try:
        yield
    finally:
        set_hook(before)
