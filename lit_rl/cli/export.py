"""``lit-rl export``: write a checkpoint as a folder that other programs load, with a model card."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from pprint import pformat
from typing import Any

import yaml
from jsonargparse import ArgumentParser

from lit_rl import __version__
from lit_rl.cli import options
from lit_rl.cli.config_files import find_class_or_none
from lit_rl.data.task import PLACEHOLDER
from lit_rl.errors import UsageError
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.loading.export import load_policy_weights, write_policy_folder
from lit_rl.models.policy import Policy
from lit_rl.modules.module_config import restrict_config_imports
from lit_rl.signature_check import constructor_parameters
from lit_rl.training.checkpoints import read_checkpoint, resolve_checkpoint_path
from lit_rl.training.precision import dtype_from_name

_FROM = """\
from {package} import {kind}
from transformers import AutoTokenizer

model = {kind}.from_pretrained("FOLDER_OR_HUB_ID")
tokenizer = AutoTokenizer.from_pretrained("FOLDER_OR_HUB_ID")
"""
_LOAD = {
    "model": _FROM.format(package="transformers", kind="AutoModelForCausalLM"),
    "adapter": _FROM.format(package="peft", kind="AutoPeftModelForCausalLM"),
}

_SHOWN = ("policy", "sampling", "evaluate", "objective", "rewards", "update")


def export_policy(arguments: Sequence[str]) -> None:
    """Write the policy of a checkpoint, as :func:`lit_rl.cli.options.export_parser` says."""
    parsed = options.export_parser().parse_args(list(arguments))
    dtype = None if parsed.dtype is None else dtype_from_name(parsed.dtype)
    path, folder = resolve_checkpoint_path(Path(parsed.checkpoint), parsed.ckpt_path), Path(parsed.folder)
    checkpoint = read_checkpoint(path)
    config = load_run_config(checkpoint, parsed.config or ())
    remedy = "if you trust whoever made that file, give the run's configuration with --config"
    with nullcontext() if parsed.config else restrict_config_imports((), str(path), remedy):
        policy = build_policy(config)
    policy.load()
    load_policy_weights(policy, checkpoint["state_dict"])
    stops = (checkpoint.get("task") or {}).get("stop_strings", ())
    kind = write_policy_folder(
        policy, folder, merge=parsed.merge, dtype=dtype, overwrite=parsed.overwrite, stop_strings=stops
    )
    (folder / "README.md").write_text(model_card_text(checkpoint, config, path.name, kind))
    publish = f"hf upload ORGANISATION/NAME {shlex.quote(str(folder))}"
    print(f"{kind} of {path} written to {folder}; to publish it: {publish}")


def load_run_config(checkpoint: Mapping[str, Any], files: Sequence[str]) -> dict[str, Any]:
    """Return the run's configuration: from files, later ones over earlier ones, or without files from the checkpoint.

    For a run that was made in Python, it holds only the policy and the name of the module.
    """
    if not files and not checkpoint.get("config") and checkpoint.get("made_of"):
        made_of: dict[str, Any] = json.loads(checkpoint["made_of"])
        return made_of
    config: Any = {}
    for text in [Path(file).read_text() for file in files] or [checkpoint.get("config") or ""]:
        config = _merge_configs(config, yaml.safe_load(text))
    if not isinstance(config, dict) or "policy" not in (config.get("model") or {}).get("init_args", {}):
        where = " with ".join(files) or "the checkpoint"
        raise UsageError(f"{where} holds no configuration of a run with model.policy: give --config FILE")
    return config


def _merge_configs(under: Any, over: Any) -> Any:
    if not isinstance(under, Mapping) or not isinstance(over, Mapping):
        return over
    if under.get("init_args") and "class_path" in over:
        cls = find_class_or_none(str(over["class_path"]))
        taken = under["init_args"] if cls is None else constructor_parameters(cls)
        under = {**under, "init_args": {name: one for name, one in under["init_args"].items() if name in taken}}
    return {**under, **{key: _merge_configs(under.get(key), value) for key, value in over.items()}}


def build_policy(config: Mapping[str, Any]) -> CausalLM:
    """Build only the policy that a configuration describes."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(Policy, "policy")
    described = config["model"]["init_args"]["policy"]
    policy: CausalLM = parser.instantiate_classes(parser.parse_object({"policy": described})).policy
    return policy


def model_card_text(checkpoint: Mapping[str, Any], config: Mapping[str, Any], name: str, kind: str) -> str:
    """Return a model card: what the model is, and how to load it, how it was measured and how it was trained."""
    model = config["model"]
    arguments = model.get("init_args", {})
    base = arguments["policy"].get("init_args", {}).get("model")
    metrics = checkpoint.get("metrics") or {}
    passes = {metric: value for metric, value in sorted(metrics.items()) if "pass@" in metric}
    header: dict[str, Any] = {
        "library_name": "transformers" if kind == "model" else "peft",
        "pipeline_tag": "text-generation",
        "tags": ["lit-rl", "code", "reinforcement-learning"],
    }
    if base and not Path(base).is_absolute():
        header["base_model"] = base
    counted = {"rollouts": checkpoint.get("rollout_step"), "updates": checkpoint.get("global_step")}
    counts = ", ".join(f"{count} {word}" for word, count in counted.items() if count)
    rewards = {metric: value for metric, value in sorted(metrics.items()) if metric.endswith("reward/mean")}
    # A task that runs no programs has no pass@k.
    rows = [f"| {metric} | {value:.4f} |" for metric, value in (passes or rewards).items()]
    table = ["| metric | value |", "| --- | --- |", *rows] if rows else ["No validation ran before this checkpoint."]
    shown = {"model": {"class_path": model["class_path"], **{k: arguments[k] for k in _SHOWN if arguments.get(k)}}}
    shown |= {"data": config["data"]} if config.get("data") else {}
    asked = checkpoint.get("task") or {}
    on = f" on {asked['name']}" if asked else ""
    parts = [
        f"---\n{yaml.safe_dump(header, sort_keys=False).strip()}\n---\n",
        f"Trained by {model['class_path']} of lit-rl {__version__}{on}: {counts}. Exported from `{name}`.\n",
        f"## Use\n\n```python\n{_LOAD[kind]}{_prompt_example_code(asked)}```\n",
        "## Measured by execution\n\n" + "\n".join(table) + "\n",
        f"## Configuration\n\n```yaml\n{yaml.safe_dump(shown, sort_keys=False).strip()}\n```\n",
    ]
    return "\n".join(parts)


def _prompt_example_code(asked: Mapping[str, Any]) -> str:
    """Return code that prompts as the task did in training, with the task's chat and stop strings."""
    if chat := asked.get("chat"):
        prompt = f"{pformat(chat, sort_dicts=False, width=110)}  # {PLACEHOLDER} stands for the problem"
        goes_on = "continue_final_message" if chat[-1]["role"] == "assistant" else "add_generation_prompt"
        ids = f'tokenizer.apply_chat_template(prompt, {goes_on}=True, return_dict=True, return_tensors="pt")'
    else:
        prompt, ids = '"def add(a, b):"', 'tokenizer(prompt, return_tensors="pt")'
    stops = asked.get("stop_strings")
    until = f", stop_strings={stops!r}, tokenizer=tokenizer" if stops else ""
    return f"""
prompt = {prompt}
ids = {ids}
print(tokenizer.decode(model.generate(**ids, max_new_tokens=64{until})[0]))
"""
