"""Where weights and tokenizers come from: hub id, folder, adapter folder, package, or nothing at all."""

from __future__ import annotations

import json
import os
import warnings
from contextlib import suppress
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lit_rl.models.adapters import POLICY, LoRA, not_adaptable
from lit_rl.models.family import plain_refusals

if TYPE_CHECKING:
    from lit_rl.models.causal_lm import CausalLM


_GENERIC = ("TokenizersBackend", "PreTrainedTokenizerFast")


def resolve(source: str) -> str:
    """Turn ``package:NAME/FOLDER`` into a folder, expand ``$VARIABLES``; leave hub ids as they are.

    Raises:
        FileNotFoundError: a path that looks local does not exist.
    """
    if source.startswith("package:"):
        package, _, folder = source.removeprefix("package:").partition("/")
        return str(resources.files(package).joinpath(folder))
    source = os.path.expandvars(source)
    looks_local = source.startswith((".", "/", "~")) or source.count("/") > 1
    if looks_local and not Path(source).expanduser().exists():
        raise FileNotFoundError(f"model folder not found: {source} (from {Path.cwd()}): give a folder or a hub id")
    return str(Path(source).expanduser()) if looks_local else source


def torch_dtype(name: str) -> torch.dtype:
    """The dtype of a name.

    Raises:
        ValueError: torch has none of this name.
    """
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"unknown dtype {name!r}: give a name of torch's, such as float32 or bfloat16")
    return found


def load_tokenizer(source: str) -> Any:
    """The tokenizer of a hub id or folder, as its own files describe it.

    ``AutoTokenizer`` sets the tokenizer that a folder declares aside for some model types (``qwen2`` among them in
    transformers 5) and splits text by another one's rules: the model would read other tokens than it was trained
    on, without a sign. A folder that declares the generic class is therefore read by that class.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    folder = resolve(source)
    declared = Path(folder) / "tokenizer_config.json"
    if declared.exists() and json.loads(declared.read_text()).get("tokenizer_class") in _GENERIC:
        return PreTrainedTokenizerFast.from_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def load_model(spec: CausalLM) -> Any:
    """Build or load the model that ``spec`` describes, with adapters where it has them.

    The global random state is left as it was: initial weights depend on ``spec.init_seed`` alone.

    Returns:
        a causal LM of transformers, wrapped by PEFT if there are adapters, in ``spec.dtype``.
    """
    with torch.random.fork_rng():
        torch.manual_seed(spec.init_seed)
        if spec.config is not None:
            model = _from_config(spec)
        else:
            source = resolve(str(spec.source))
            if (Path(source) / "adapter_config.json").exists():
                return _from_adapter(spec, source)
            model = _from_pretrained(spec, source)
        return _with_new_adapter(spec, model) if spec.lora is not None else model


def _from_config(spec: CausalLM) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    tokenizer = spec.tokenizer
    fields = {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        **dict(spec.config or {}),
    }
    config = AutoConfig.for_model(**fields)
    dtype = torch_dtype(spec.dtype)
    with plain_refusals(config.model_type, spec.attention):
        return AutoModelForCausalLM.from_config(config, attn_implementation=spec.attention, dtype=dtype)


def _from_pretrained(spec: CausalLM, source: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    options: dict[str, Any] = {"attn_implementation": spec.attention, "dtype": torch_dtype(spec.dtype)}
    if torch.empty(0).is_meta:  # this rank gets its weights from rank 0
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(source), **options)
        with suppress(OSError):  # not every model has a generation config
            model.generation_config = GenerationConfig.from_pretrained(source)
        return model
    if spec.quantization is not None:
        options["quantization_config"] = _four_bits(options["dtype"])
    with plain_refusals(source, spec.attention):
        model = AutoModelForCausalLM.from_pretrained(source, **options)
    for layer in model.modules():
        if hasattr(layer, "support_avx512bf16_for_cpu"):
            # On some CPUs a 4-bit layer that ran once in eval mode goes on without gradients; we train in eval mode.
            layer.support_avx512bf16_for_cpu = False
    return model


def _four_bits(compute_dtype: torch.dtype) -> Any:
    """NF4 with quantized scales (Dettmers et al. 2023, https://arxiv.org/abs/2305.14314).

    Raises:
        ModuleNotFoundError: bitsandbytes is not installed.
    """
    from transformers import BitsAndBytesConfig

    if find_spec("bitsandbytes") is None:
        raise ModuleNotFoundError(
            "quantization 4bit needs the package bitsandbytes: pip install 'lit-rl[qlora]'", name="bitsandbytes"
        )
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=compute_dtype,
    )


def _with_new_adapter(spec: CausalLM, model: Any) -> Any:
    """Add a fresh policy adapter: its second matrix is zero, so switching it off gives the start."""
    from peft import get_peft_model

    assert spec.lora is not None
    return get_peft_model(model, lora_config(spec.lora, model), adapter_name=POLICY)


def lora_config(lora: LoRA, model: Any) -> Any:
    """PEFT's configuration of an adapter for a model."""
    from peft import LoraConfig

    left_out = not_adaptable(model) if lora.target_modules == "all-linear" else []
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=lora.target_modules,
        exclude_modules=left_out or None,
        task_type="CAUSAL_LM",
    )


def _from_adapter(spec: CausalLM, source: str) -> Any:
    """Continue a trained adapter. Its start is not the base, so a frozen twin of it is the reference."""
    from peft import PeftConfig, PeftModel, get_peft_model

    if spec.lora is not None:
        raise ValueError(
            f"{source} holds an adapter already, got lora={spec.lora} as well: leave lora out to continue it"
        )
    config = PeftConfig.from_pretrained(source)
    base = _from_pretrained(spec, str(config.base_model_name_or_path))
    if next(base.parameters()).is_meta:
        config.inference_mode = False
        model = get_peft_model(base, config, adapter_name=POLICY)
    else:
        model = PeftModel.from_pretrained(base, source, adapter_name=POLICY, is_trainable=True)
    spec.model = model
    spec.add_reference_adapter()
    return model


def warn_of_another_tokenizer(folder: Path) -> None:
    """Say so if ``AutoTokenizer`` would not read a saved folder's tokenizer as it was saved."""
    from transformers import AutoTokenizer

    mine, theirs = load_tokenizer(str(folder)), AutoTokenizer.from_pretrained(folder)
    sample = 'def f(x1, y):\n    """Is x1 >= 42?"""\n    return x1 >= 42\n'
    if mine(sample)["input_ids"] != theirs(sample)["input_ids"]:
        warnings.warn(
            f"AutoTokenizer reads {folder} as {type(theirs).__name__} and splits text in another way than the policy: "
            "load its tokenizer with transformers.PreTrainedTokenizerFast",
            stacklevel=3,
        )
