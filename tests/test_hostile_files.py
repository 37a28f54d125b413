"""Files of strangers: what a checkpoint, a run's folder or a model's folder names is neither imported nor run."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import re
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import cache, reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from jsonargparse import ArgumentParser
from support.command_line import one_line
from support.recorded_runs import row, write_run
from support.tiny_models import TINY_QWEN2, loaded

from lit_rl.__main__ import main
from lit_rl.data import Basics
from lit_rl.data.rows import read_rows
from lit_rl.errors import UsageError
from lit_rl.foreign_files import load_bounded_yaml
from lit_rl.models import CausalLM
from lit_rl.modules import GRPO, PolicyModule
from lit_rl.rewards.term import RewardTerm
from lit_rl.run_files.files import append_json_line, append_record_batch, read_metrics, read_rollouts
from lit_rl.run_files.settings import read_settings

TRAP = """
from pathlib import Path
from lit_rl.rewards.term import RewardTerm, TermScore
Path({mark!r}).touch()

class Trap(RewardTerm):
    default_name = "trap"
    def score(self, completions, judgements):
        return [TermScore(0.0) for _ in completions.texts]

def run(*arguments, **named):
    pass
"""


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that appears as soon as the module ``trap`` is imported."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/trap.py").write_text(TRAP.format(mark=str(tmp_path / "sprung")))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    monkeypatch.delitem(sys.modules, "trap", raising=False)
    return tmp_path / "sprung"


TRAPPED = {"class_path": "trap.Trap"}
PLANTED: list[dict[str, Any]] = [
    {"update": {"optimizer": {"class_path": "trap.run", "init_args": {"lr": 0.1}}}},
    {"rewards": [TRAPPED]},
    {"sandbox": {"class_path": "trap.run", "init_args": {"command": "true"}}},
    {"sandbox": {"class_path": "subprocess.Popen", "init_args": {"args": ["touch", "sprung"]}}},
    {"policy": TRAPPED},
]


def configuration(tokenizer: str, **planted: Any) -> dict[str, Any]:
    policy = {"class_path": "lit_rl.models.CausalLM", "init_args": {"config": TINY_QWEN2, "tokenizer": tokenizer}}
    arguments = {"policy": policy, "rewards": [{"class_path": "lit_rl.rewards.LengthPenalty"}], "max_rollouts": 1}
    return {"class_path": "lit_rl.modules.GRPO", "init_args": arguments | planted}


@cache
def honest_weights(tokenizer: str) -> dict[str, Any]:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(PolicyModule, "model")
    honest = parser.instantiate_classes(parser.parse_object({"model": configuration(tokenizer)})).model
    honest.load_models()
    weights: dict[str, Any] = honest.state_dict()
    return weights


def checkpoint(folder: Path, config: dict[str, Any], tokenizer: str) -> Path:
    """The checkpoint of an honest run, with the configuration of a stranger."""
    state = {"state_dict": honest_weights(tokenizer), "rollout_step": 1, "global_step": 1, "policy_version": 1}
    state |= {"pytorch-lightning_version": "2.6.6", "config": yaml.safe_dump({"model": config})}
    torch.save(state, folder / "stranger.ckpt")
    return folder / "stranger.ckpt"


@pytest.mark.parametrize("planted", [*PLANTED, None], ids=str)
def test_a_checkpoint_builds_no_class_that_only_it_names(
    planted: dict[str, Any] | None, mark: Path, byte_tokenizer: str, tmp_path: Path
) -> None:
    config = configuration(byte_tokenizer, **(planted or {}))
    file = checkpoint(tmp_path, config if planted else config | TRAPPED, byte_tokenizer)
    with pytest.raises(ValueError, match=r"stranger\.ckpt") as caught:
        PolicyModule.load_from_checkpoint(file)
    assert not mark.exists() and "trap" not in sys.modules
    assert "\n" not in str(caught.value) and "trust" in str(caught.value)


def test_a_checkpoint_builds_what_the_user_names_too(mark: Path, byte_tokenizer: str, tmp_path: Path) -> None:
    config = configuration(byte_tokenizer, rewards=[TRAPPED])
    loaded = GRPO.load_from_checkpoint(checkpoint(tmp_path, config, byte_tokenizer), trust=["trap"])
    assert mark.exists() and type(loaded.rewards.terms[0]).__name__ == "Trap"


def test_a_refusal_leaves_the_parser_as_it_was(mark: Path, byte_tokenizer: str, tmp_path: Path) -> None:
    file = checkpoint(tmp_path, configuration(byte_tokenizer, rewards=[TRAPPED]), byte_tokenizer)
    with pytest.raises(ValueError, match=r"trap\.Trap"):
        GRPO.load_from_checkpoint(file)
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(RewardTerm, "term")
    built = parser.instantiate_classes(parser.parse_object({"term": {"class_path": "trap.Trap"}}))
    assert type(built.term).__name__ == "Trap", "what the user's own configuration names is built"


def test_export_builds_no_policy_that_only_the_checkpoint_names(
    mark: Path, byte_tokenizer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = checkpoint(tmp_path, configuration(byte_tokenizer, policy=TRAPPED), byte_tokenizer)
    said = one_line(f"export {file} {tmp_path / 'out'}", capsys)
    assert not mark.exists() and "trap.Trap" in said and "--config" in said


@pytest.mark.parametrize("part", ["data", "rewards", "sandbox"])
def test_replay_builds_no_class_that_only_the_run_names(
    part: str, mark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named: dict[str, Any] = {"data": "lit_rl.data.Basics", "rewards": ["TestsReward"], "sandbox": None}
    named[part] = [TRAPPED] if part == "rewards" else TRAPPED
    data, model = named.pop("data"), {"class_path": "lit_rl.modules.GRPO", "init_args": named}
    folder = write_run(tmp_path / "run", {1: [row(0, "1", 0.0, task_id="one")]})
    (folder / "config.yaml").write_text(yaml.safe_dump({"model": model, "data": data}))
    said = one_line(f"replay --last 1 {folder}", capsys)  # options may come before the run
    assert not mark.exists() and "trap.Trap" in said and "--config" in said


def rewrite(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def code_of_the_model(folder: Path) -> None:
    classes = {"AutoConfig": "trap.Trap", "AutoModelForCausalLM": "trap.Trap"}
    rewrite(folder / "config.json", model_type="stranger", architectures=["Stranger"], auto_map=classes)


def code_of_the_tokenizer(folder: Path) -> None:
    classes = {"AutoTokenizer": ["trap.Trap", "trap.Trap"]}
    rewrite(folder / "tokenizer_config.json", tokenizer_class="Stranger", auto_map=classes)


class Touch:
    """Call that unpickling it makes."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


def pickled_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with (folder / "pytorch_model.bin").open("wb") as file:
        pickle.dump({"lm_head.weight": Touch(folder.parent / "sprung")}, file)


def adapter_of_another_core(folder: Path) -> None:
    from peft import LoraConfig, get_peft_model

    base = loaded(model=str(folder))
    base.save_pretrained(folder / "base")
    get_peft_model(base.model, LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(str(folder))
    core = {"megatron_config": {"tensor_model_parallel_size": 1}, "megatron_core": "trap"}
    rewrite(folder / "adapter_config.json", base_model_name_or_path=str(folder / "base"), **core)


@pytest.mark.parametrize("plant", [code_of_the_model, code_of_the_tokenizer, pickled_weights, adapter_of_another_core])
def test_a_model_folder_runs_no_code_of_its_own(
    plant: Callable[[Path], None], mark: Path, tiny_policy: CausalLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    tiny_policy.save_pretrained(folder)
    (folder / "trap.py").write_text(TRAP.format(mark=str(mark)))
    plant(folder)
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda *text: asked.append(str(text)) or "y")
    if plant is code_of_the_tokenizer:  # its files are read all the same, by the class for any tokenizer
        CausalLM(str(folder)).load()
    else:
        with pytest.raises(ValueError, match="model") as caught:
            CausalLM(str(folder)).load()
        assert "\n" not in str(caught.value) and not re.search("trust_remote_code|weights_only", str(caught.value))
    assert not mark.exists() and not asked


# -- folders of runs -----------------------------------------------------------------------------------------------

WEAK = {"tier": -1, "allow_weak": True}
SANDBOX = "lit_rl.execution.Sandbox"


@pytest.mark.parametrize(
    "sandbox",
    [
        {"class_path": SANDBOX, "init_args": WEAK},
        {"class_path": SANDBOX, "dict_kwargs": WEAK},
        {"class_path": SANDBOX, "init_args.tier": -1},
        json.dumps({"class_path": SANDBOX, "init_args": {"tier": -1}}),
    ],
    ids=["arguments", "keyword arguments", "dotted", "text"],
)
def test_replay_takes_a_weak_tier_from_its_command_alone(
    sandbox: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    problem = Basics(num_train_problems=26).problems("train")[0]
    data = {"class_path": "lit_rl.data.Basics", "init_args": {"num_train_problems": 26}}
    folder = write_run(tmp_path / "tier", {1: [row(0, "    pass\n", 0.0, task_id=problem.task_id)]})
    model = {"class_path": "lit_rl.modules.GRPO", "init_args": {"sandbox": sandbox}}
    (folder / "config.yaml").write_text(yaml.safe_dump({"model": model, "data": data}))
    caplog.set_level("INFO")
    main(["replay", str(folder), "--sandbox.num_workers", "1"])
    assert "sandbox: 1 workers, tier" in caplog.text and "tier -1" not in caplog.text
    main(["replay", str(folder), "--sandbox.tier", "-1"])
    assert "tier -1" in caplog.text


STEERS = "\x1b[8mhidden\x1b]0;title\x07\x9b2J\u202eback\r"


def test_nothing_in_a_run_steers_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names, texts, verdicts, metrics, diagnoses and settings, in what is printed and in errors."""
    case = {"number": 1, "call": STEERS, "expected": STEERS, "actual": STEERS}
    outcome = {"verdict": STEERS, "exception_type": STEERS, "stderr": STEERS, "line": 1, "failed_case": case}
    more = {"prompt": STEERS, "terms": {STEERS: 1.0}, "reason": STEERS}
    rows = [row(0, f"x{STEERS}", 0.0, task_id=f"basics{STEERS}", outcome=outcome, **more)]
    folder = write_run(tmp_path / f"run{STEERS.replace('/', '')}", {1: rows}, model=STEERS)
    said = {"rule": "truncated", "message": STEERS, "details": STEERS}
    append_json_line(folder / "metrics.jsonl", {"rollout": 1, "diagnosis": said})
    append_json_line(folder / "metrics.jsonl", {"rollout": 1, f"val/{STEERS}/pass@1": 1.0})
    other = write_run(tmp_path / "other", {1: rows}, model="b")
    for place, value in ((folder, 1), (other, 2)):
        config = {"model": {"class_path": "lit_rl.modules.GRPO", "init_args": {STEERS: value}}}
        (place / "config.yaml").write_text(yaml.safe_dump(config | {"data": {"class_path": "lit_rl.data.Basics"}}))
    shows = [["show", str(folder), *options] for options in ([], ["--row", "0"], ["--row", "7"])]
    others = [["report", str(folder), str(other), "--metrics", "*"], ["replay", str(folder)]]
    for command in [*shows, ["show", str(folder / "config.yaml")], *others]:
        with suppress(SystemExit):
            main(command)
        out, err = capsys.readouterr()
        assert "hidden" in out + err, command
        assert all(sign.isprintable() or sign in "\n\t" for sign in out + err), command


def bomb(file: Path, line: bytes, times: int) -> Path:
    """A small gzip file of many megabytes."""
    with gzip.open(file, "wb", compresslevel=9) as packed:
        for _ in range(times):
            packed.write(line)
    return file


MEGABYTE = b'{"a":[' + b"[]," * 349_520 + b"[]]}\n"


@pytest.mark.parametrize(
    ("name", "line"),
    [("rollouts.jsonl.gz", MEGABYTE), ("rows.jsonl.gz", b" " * (1 << 20)), ("rows.json.gz", b" " * (1 << 20))],
    ids=["rollouts", "one line", "one value"],
)
def test_a_small_file_does_not_fill_the_memory(
    name: str, line: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lit_rl.foreign_files._FREE_BYTES", 1 << 20)
    file = bomb(tmp_path / name, line, 64)
    assert file.stat().st_size < 1 << 18
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=rf"{name} expands to more than 1 MiB and 50 times its size"):
            for _ in read_rollouts(file) if name.startswith("rollouts") else read_rows(str(file)):
                pass
        assert tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()


def test_what_a_run_writes_can_be_read_however_well_it_compresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy that writes one token for ever: such rows take a thousandth of their size."""
    monkeypatch.setattr("lit_rl.foreign_files._FREE_BYTES", 1 << 20)
    rows = [row(number, "a" * 4000, 0.0) for number in range(20)]
    file = tmp_path / "rollouts.jsonl.gz"
    append_record_batch(file, [{"rollout": 1, "num_rows": 20, "time": 0.0, "endings": {}, "seconds": {}}, *rows])
    (rollout,) = read_rollouts(file)
    assert len(rollout.rows) == 20


@pytest.mark.parametrize("kind", ["device", "pipe"])
@pytest.mark.parametrize("name", ["metrics.jsonl", "rollouts.jsonl.gz", "config.yaml"])
def test_a_name_in_a_run_that_is_no_regular_file_is_not_read(
    name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(tmp_path / "run", {1: [row(0, "1", 0.0)]})
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name) if kind == "pipe" else (folder / name).symlink_to("/dev/zero")
    for command in (["show", str(folder)], ["report", str(folder), "--html", str(tmp_path / "page.html")]):
        try:
            main(command)
        except SystemExit:
            assert f"{folder / name} is not a regular file" in capsys.readouterr().err
    one_line(f"replay {folder}", capsys)


def test_a_small_configuration_does_not_fill_the_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lists that name lists that name lists, ten times each."""
    folder = write_run(tmp_path / "run", {1: [row(0, "1", 0.0)]})
    levels = "".join(f"l{n + 1}: &l{n + 1} [{', '.join([f'*l{n}'] * 10)}]\n" for n in range(6))
    config = f"l0: &l0 [1]\n{levels}data: {{class_path: lit_rl.data.Basics, init_args: {{x: *l6}}}}\n"
    (folder / "config.yaml").write_text(config)
    assert read_settings(folder) == {}
    assert "YAML with aliases holds more than 1,048,576 values" in one_line(f"replay {folder}", capsys)
    assert load_bounded_yaml("a: &a [1, 2]\nb: [*a, *a]") == {"a": [1, 2], "b": [[1, 2], [1, 2]]}


MALFORMED: dict[str, tuple[list[Any], Any]] = {
    "a list": ([1], [1]),
    "no text": ([1, "turns", 0, "text"], ...),
    "no turns": ([1, "turns"], []),
    "spans are texts": ([1, "turns", 0, "spans"], ["a", "b"]),
    "start below 0": ([1, "turns", 0, "start"], -5),
    "end beyond the tokens": ([1, "turns", 0, "end"], 10**12),
    "no verdict": ([1, "turns", 0, "outcome"], {}),
    "program without source": ([1, "program", "source"], ...),
    "reward is a text": ([1, "reward"], "much"),
    "tokens are few": ([1, "tokens", "advantage"], []),
    "head without number": ([0, "rollout"], ...),
}
"""Places in the lines of a rollout and what stands there; ``...`` for nothing."""


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_row_is_named_by_file_and_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(tmp_path / "run", {1: [row(0, "1", 0.0)]})
    head = {"rollout": 2, "num_rows": 8, "time": 1.0, "endings": {"passed": 8}, "seconds": {}}
    lines = [head, row(0, "1", 0.0, outcome={"stderr": "", "cases": [], "line": 1, "failed_case": None})]
    (*keys, last), value = MALFORMED[name]
    part = reduce(getitem, keys, lines)
    part[last] = value
    if value is ...:
        del part[last]
    append_record_batch(folder / "rollouts.jsonl.gz", lines)
    for command in (f"show {folder}", f"report {folder} --html {tmp_path / 'page.html'}"):
        said = one_line(command, capsys)
        assert re.search(rf"rollouts\.jsonl\.gz, line {3 + MALFORMED[name][0][0]}, .", said), said


@pytest.mark.parametrize(
    "line",
    [
        "[1]",
        '{"rollout": "two", "loss": 1.0}',
        '{"rollout": 2, "loss": "low"}',
        '{"rollout": 1e999, "loss": 1.0}',
        '{"rollout": 2, "diagnosis": {"rule": "truncated"}}',
        '{"rollout": 2, "start": {"model": [1]}}',
    ],
)
def test_a_malformed_line_of_metrics_is_named_by_file_and_line(line: str, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {1: [row(0, "1", 0.0)]})
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(UsageError, match=r"metrics\.jsonl, line 4\b"):
        read_metrics(folder)
