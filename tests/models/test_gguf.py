"""A GGUF file gives the model that was written into it, ready to train and to save."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support.completions import problem
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from lit_rl.models import CausalLM, LoRA
from lit_rl.models.loading.checkpoints import write_model
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shipped")
    write_gguf(written_model(), place / "tiny.F32.gguf")
    return place


def loaded(source: Path, lora: LoRA | None = None) -> CausalLM:
    policy = CausalLM(str(source), lora=lora)
    policy.load()
    return policy


@needs_gguf
def test_file_and_folder_give_the_model_and_the_tokenizer_that_were_written(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ids = torch.arange(40).view(2, 20)
    for source in (folder, folder / "tiny.F32.gguf"):
        policy = loaded(source)
        torch.testing.assert_close(policy.model(ids).logits, written_model()(ids).logits, rtol=0, atol=1e-6)
        assert policy.tokenizer.decode(policy.tokenizer("def f(x): return x + 12")["input_ids"]) == (
            "def f(x): return x + 12"
        )
        assert policy.codec.eos_ids == {policy.tokenizer.eos_token_id}
    assert "it/s" not in capfd.readouterr().err  # no bar


@needs_gguf
def test_quantized_weights_become_plain_ones_that_learn(tmp_path: Path) -> None:
    import gguf

    file = tmp_path / "tiny.Q4_1.gguf"
    write_gguf(written_model(), file, "Q4_1")
    policy = loaded(file)
    assert policy.source == str(file)
    kind = gguf.GGMLQuantizationType.Q4_1
    for name in ("model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight"):
        written, read = written_model().get_parameter(name).detach(), policy.model.get_parameter(name)
        rounded = gguf.quants.dequantize(gguf.quants.quantize(written.numpy(), kind), kind)
        assert torch.equal(read, torch.from_numpy(rounded)) and not torch.equal(read, written)
        assert read.requires_grad and read.dtype == torch.float32
    policy(policy.codec.as_completions([problem()], ["return x"], policy.device))[0].sum().backward()
    assert all(parameter.grad is not None for parameter in policy.model.parameters())


@needs_gguf
def test_saved_and_merged_models_are_plain_folders(folder: Path, tmp_path: Path) -> None:
    policy = loaded(folder)
    policy.save_pretrained(tmp_path / "saved")
    assert "quantization_config" not in json.loads((tmp_path / "saved" / "config.json").read_text())
    again = loaded(tmp_path / "saved")
    ids = torch.arange(20).view(1, 20)
    assert torch.equal(again.model(ids).logits, policy.model(ids).logits)
    sample = "def f(x):\n    return x"
    assert again.tokenizer(sample)["input_ids"] == policy.tokenizer(sample)["input_ids"]


@needs_gguf
def test_an_adapter_on_a_gguf_file_finds_its_base_again_and_says_how_to_merge(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = loaded(folder, LoRA(rank=2))
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    with caplog.at_level("INFO"):
        policy.save_pretrained(tmp_path / "policy")
    assert "lit-rl export --merge true" in caplog.text
    again = loaded(tmp_path / "policy")
    ids = torch.arange(20).view(1, 20)
    torch.testing.assert_close(again.model(ids).logits, policy.model(ids).logits)
    assert again.tokenizer.get_vocab() == policy.tokenizer.get_vocab()
    assert write_model(again, tmp_path / "adapter", merge=False) == "adapter for a GGUF file"
    assert write_model(again, tmp_path / "merged", merge=True) == "model"
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    torch.testing.assert_close(merged(ids).logits, policy.model(ids).logits, rtol=0, atol=1e-5)


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
        with pytest.raises(ModuleNotFoundError, match=r"not_installed.* is not installed here") as raised:
            resolve(missing)
        assert "\n" not in str(raised.value)


def test_missing_files_several_and_a_missing_reader_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError, match="model file not found"):
        CausalLM("c.gguf").load()
    file = tmp_path / "tiny.gguf"
    for name in (file.name, "b.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=r"holds 2 GGUF files \(b.gguf, tiny.gguf\): name one, "):
        CausalLM(str(tmp_path)).load()
    monkeypatch.setattr("lit_rl.models.loading.weights.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"needs the package gguf: pip install 'lit-rl\[gguf\]'"):
        CausalLM(str(file)).load()


@needs_gguf
def test_a_file_that_is_cut_and_quantizing_twice_are_refused_in_one_line(folder: Path, tmp_path: Path) -> None:
    whole, cut = folder / "tiny.F32.gguf", tmp_path / "cut.gguf"
    with pytest.raises(ValueError, match="quantization 4bit cannot be had from the GGUF file"):
        CausalLM(str(whole), lora=LoRA(rank=2), quantization="4bit").load()
    cut.write_bytes(whole.read_bytes()[:5000])
    with pytest.raises(ValueError, match="cannot be read") as raised:
        loaded(cut)
    assert "\n" not in str(raised.value)
