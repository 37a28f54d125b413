"""Measure lit_rl on one GPU of 80 GB: one command, about eight minutes, no network.

    python benchmarks/gpu.py --folder gpu_results --policy runs/basics/sft/model
    python benchmarks/gpu.py --folder try --device cpu --tiny       # tries the script itself where there is no GPU

Each part is a file of ``on_gpu`` that says what it measures. It runs in a process of its own with a time limit, so that
one can fail alone, and writes a file row by row; the same command again runs the parts without a file. ``gpu.json``
holds them all. The part ``learn`` begins with --policy, the demo's warm start.

Shapes are those of Qwen2.5-Coder 0.5B and 1.5B with random weights and 151,936 words. Random models end no completion.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import torch
import transformers
from on_gpu.measuring import Row, as_markdown

ROOT = Path(__file__).parents[1]
PARTS = {"device": 40, "ratio": 80, "tests": 80, "update": 90, "sampling": 90, "learn": 110}
"""Files of ``on_gpu``, and seconds after which each part is ended."""


def run_part(given: argparse.Namespace) -> None:
    """Measure one part in this process, and write its rows as they come."""
    from lit_rl.trainer import silence_lightning

    limit = PARTS[given.part] * given.patience - 3
    faulthandler.dump_traceback_later(limit, exit=True)  # says where a part was when its time was over
    silence_lightning()
    given.device = torch.device(given.device)
    rows: list[Row] = []
    for row in importlib.import_module(f"on_gpu.{given.part}").measure(given):
        rows.append(row)
        (given.folder / f"{given.part}.json").write_text(json.dumps(rows, indent=1))


def about(given: argparse.Namespace) -> str:
    """Return the card, date and versions."""
    card = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}" if given.device == "cuda" else "CPU"
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, Python {platform.python_version()}"
    return f"{card}, {date.today()}, {versions}"


def main() -> None:
    """Run the parts that are missing, and join their files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("gpu_results"), help="of the results")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--policy", help="folder of the embedded task's warm start; without it that part is left out")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--patience", type=float, default=1.0, help="multiplies the limits of all parts")
    parser.add_argument("--tiny", action="store_true", help="a shape and sizes for trying the script")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.part:
        run_part(given)
        return
    began, found, heading = time.perf_counter(), {}, about(given)
    print(heading, flush=True)
    for part in given.parts:
        file = given.folder / f"{part}.json"
        fault = []
        if not file.exists() and not (part == "learn" and given.policy is None):
            fault = limited(part, given)
        found[part] = (json.loads(file.read_text()) if file.exists() else []) + fault
        if found[part]:
            print(f"\n{part}, after {time.perf_counter() - began:.0f} s\n{as_markdown(found[part])}", flush=True)
        (given.folder / "gpu.json").write_text(json.dumps({"about": heading} | found, indent=1))


def limited(part: str, given: argparse.Namespace) -> list[Row]:
    """Run a part in a process with a time limit; return a row with the reason if the part did not finish."""
    command = [sys.executable, __file__, *sys.argv[1:], "--part", part]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(command, env=environment, check=False, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(done.stderr[-5000:])
    if "Timeout (" in done.stderr:
        return [{"failed": f"not done after {PARTS[part] * given.patience:.0f} s"}]
    return [{"failed": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}] if done.returncode else []


if __name__ == "__main__":
    main()
