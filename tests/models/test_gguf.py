"""A GGUF file gives the model that was written into it, ready to train and to save."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support.completions import problem
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from lit_rl.models import CausalLM, LoRA
from lit_rl.models.loading.gguf import convert
from lit_rl.models.loading.sources import resolve

BASICS = resolve("package:lit_rl/data/basics/tokenizer")
needs_gguf = pytest.mark.skipif(importlib.util.find_spec("gguf") is None, reason="needs the package gguf")


def written_model() -> LlamaForCausalLM:
    """A llama whose query and key heads differ in number: GGUF stores both in another order than transformers."""
    torch.manual_seed(3)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(AutoTokenizer.from_pretrained(BASICS)),
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
            rope_theta=5000.0,
            tie_word_embeddings=True,
        )
    ).eval()


def interleaved(weight: Any, heads: int) -> Any:
    """Rows of a query or key matrix as llama.cpp keeps them: the two halves of each head take turns."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(model: LlamaForCausalLM, file: Path, kind: str = "F32") -> None:
    """The model and the tokenizer of the embedded task as llama.cpp's own converter would write them."""
    import gguf

    config, writer = model.config, gguf.GGUFWriter(file, "llama")
    sizes = {
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": config.intermediate_size,
        "head_count": config.num_attention_heads,
        "head_count_kv": config.num_key_value_heads,
        "rope_dimension_count": config.hidden_size // config.num_attention_heads,
        "rope_freq_base": 5000.0,
        "layer_norm_rms_eps": config.rms_norm_eps,
        "vocab_size": config.vocab_size,
    }
    for name, value in sizes.items():
        getattr(writer, f"add_{name}")(value)
    bpe = json.loads((Path(BASICS) / "tokenizer.json").read_text())["model"]
    tokenizer = AutoTokenizer.from_pretrained(BASICS)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokenizer.convert_ids_to_tokens(list(range(config.vocab_size))))
    special = set(tokenizer.all_special_ids)
    writer.add_token_types([3 if token in special else 1 for token in range(config.vocab_size)])
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in bpe["merges"]])
    writer.add_bos_token_id(tokenizer.eos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.eos_token_id)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight":  # tied
            continue
        value = weight.numpy()
        if "q_proj" in name:
            value = interleaved(value, config.num_attention_heads)
        elif "k_proj" in name:
            value = interleaved(value, config.num_key_value_heads)
        target = gguf.GGMLQuantizationType[kind if value.ndim > 1 else "F32"]
        stem, _, ending = name.rpartition(".")
        packed = gguf.quants.quantize(value, target)
        writer.add_tensor(f"{names.get_name(stem)}.{ending}", packed, raw_dtype=target)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def loaded(source: Path, lora: LoRA | None = None) -> CausalLM:
    policy = CausalLM(str(source), lora=lora)
    policy.load()
    return policy


@needs_gguf
@pytest.mark.parametrize("kind", ["F32", "Q4_1"])
def test_a_converted_file_is_a_plain_model_that_learns_and_writes_adapters(tmp_path: Path, kind: str) -> None:
    """Quantized weights are those that gguf itself unpacks."""
    import gguf

    file = tmp_path / "tiny.gguf"
    write_gguf(written_model(), file, kind)
    convert(str(file), str(tmp_path / "model"))
    assert "quantization_config" not in json.loads((tmp_path / "model" / "config.json").read_text())
    policy, target = loaded(tmp_path / "model"), gguf.GGMLQuantizationType[kind]
    for name in ("model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight"):
        written, read = written_model().get_parameter(name).detach(), policy.model.get_parameter(name)
        rounded = gguf.quants.dequantize(gguf.quants.quantize(written.numpy(), target), target)
        assert torch.equal(read, torch.from_numpy(rounded)) and torch.equal(read, written) is (kind == "F32")
    ids = torch.arange(40).view(2, 20)
    if kind == "F32":
        torch.testing.assert_close(policy.model(ids).logits, written_model()(ids).logits, rtol=0, atol=1e-6)
    text = "def f(x): return x + 12"
    assert policy.tokenizer.decode(policy.tokenizer(text)["input_ids"]) == text
    assert policy.codec.eos_ids == {policy.tokenizer.eos_token_id}
    policy(policy.codec.as_completions([problem()], ["return x"], policy.device))[0].sum().backward()
    assert all(parameter.grad is not None for parameter in policy.model.parameters())
    adapted = loaded(tmp_path / "model", LoRA(rank=2))
    adapted.save_pretrained(tmp_path / "adapter")
    torch.testing.assert_close(loaded(tmp_path / "adapter").model(ids).logits, adapted.model(ids).logits)


def test_a_package_that_ships_a_file_is_found_and_its_code_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "ships_a_model"
    package.mkdir()
    (package / "__init__.py").write_text("import something_that_is_not_installed\n")
    (package / "tiny.gguf").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert resolve("package:ships_a_model") == str(package)
    assert resolve("package:ships_a_model/tiny.gguf") == str(package / "tiny.gguf")
    for missing in ("package:not_installed_at_all", "package:not_installed/inside/tiny.gguf"):
        with pytest.raises(ModuleNotFoundError, match=r"not_installed.* is not installed") as raised:
            resolve(missing)
        assert "\n" not in str(raised.value)


def test_a_file_in_place_of_a_folder_is_answered_with_the_converter(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="model file not found"):
        CausalLM("c.gguf", tokenizer=BASICS).load()
    (tmp_path / "tiny.gguf").touch()
    with pytest.raises(FileNotFoundError, match=r"tiny.gguf holds no model: .* lit_rl.models.loading.gguf for a GGUF"):
        CausalLM(str(tmp_path / "tiny.gguf"), tokenizer=BASICS).load()
