"""Hand-made plain files of a run, as RunRecord writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lit_rl.run_files.files import ROLLOUTS_FILE, MetricsWriter, append_record_batch


def row(number: int, text: str, reward: float | None, **more: Any) -> dict[str, Any]:
    """A row of one turn, a token a letter, and EOS; its values count up from the reward."""
    letters = [len(letter.encode("utf-8", "surrogatepass")) for letter in text]
    length = len(text) + 1
    outcome = {"verdict": "passed" if reward == 1 else "exception"} | more.pop("outcome", {})
    turn = {"start": 0, "end": length, "text": text, "spans": [*letters, 0], "stop_reason": "eos", "message": ""}
    tokens = {
        "ids": list(range(length)),
        "credit": [(reward or 0.0) / length] * length,
        "advantage": [-0.5] * length,
        "logprob_sampled": [-0.5] * length,
        "logprob_update": [-0.5 + 0.1 * (i % 3 - 1) for i in range(length)],
    }
    program = {"source": text, "start": 0, "end": sum(letters), "prefix_lines": 0, "fenced": False, "removed": []}
    found = {
        "row": number, "group": 0, "task_id": "p/0", "prompt": "Write it.", "prompt_ids": [1, 2],
        "turns": [turn | {"outcome": outcome}], "program": program,
        "failing": None, "reward": reward, "reason": "", "terms": {"tests": reward}, "tokens": tokens,
    }  # fmt: skip
    return found | more


def write_run(folder: Path, rollouts: dict[int, list[dict[str, Any]]], **kind: Any) -> Path:
    """A run whose reward is its rollout over ten, validated at the end."""
    writer = MetricsWriter(folder, "rollout", 0)
    what = {"method": "GRPO", "model": "tiny", "lora_rank": None, "task": "p", "seed": 0, "batch_size": 2} | kind
    writer.append(0, {"start": what})
    for number, rows in rollouts.items():
        values = {"reward/mean": number / 10 + what["seed"], "reward/tests": 0.5}
        values |= {"verdict/passed_fraction": 0.25, "verdict/exception_fraction": 0.75}
        writer.append(number, values)
        endings = {"passed": 2, "exception: KeyError": 6}
        head = {"rollout": number, "num_rows": 8, "time": 1.0, "endings": endings}
        append_record_batch(folder / ROLLOUTS_FILE, [head | {"seconds": {"sampling": 3.0, "judging": 1.0}}, *rows])
    validated = {"val/greedy/pass@1": 0.75, "val/greedy/num_problems": 16.0, "val/greedy/completion/length": 11.5}
    writer.append(max(rollouts), validated)
    return folder
