"""Count the files and functions of lit_rl that one GRPO step of the embedded task enters.

    python benchmarks/entered.py            # --list names them

The second of two rollouts is counted, so that what is made once is left out. Programs run in the sandbox's own
processes, which are not counted.
"""

from __future__ import annotations

import argparse
import sys
import threading
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import lightning.pytorch as pl
import torch

import lit_rl
from lit_rl import GRPO, Basics, CausalLM, Sampling, Sandbox, TestsReward, Trainer, UpdateConfig

HOME = str(Path(lit_rl.__file__).parent)
TINY = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


class Entered(pl.Callback):
    """Profiles the second batch on all threads."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(HOME):
            self.functions.add((file, frame.f_code.co_qualname))

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == 1:
            threading.setprofile(self._note)
            sys.setprofile(self._note)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the functions")
    options = parser.parse_args()
    entered = Entered()
    policy = CausalLM(config=TINY, tokenizer="package:lit_rl/data/basics/tokenizer")
    module = GRPO(
        policy,
        [TestsReward()],
        sandbox=partial(Sandbox, num_workers=1),
        sampling=Sampling(num_samples=4, max_tokens=16),
        update=UpdateConfig(optimizer=partial(torch.optim.AdamW, lr=1e-3)),
        max_rollouts=2,
    )
    trainer = Trainer(accelerator="cpu", logger=False, callbacks=[entered], limit_val_batches=0)
    trainer.fit(module, Basics(batch_size=4))
    files = {file for file, _ in entered.functions}
    if options.list:
        print("\n".join(f"{Path(file).name}: {name}" for file, name in sorted(entered.functions)))
    unnamed = [name for _, name in entered.functions if name.endswith(">")]
    print(f"files {len(files)} | functions {len(entered.functions)}, {len(unnamed)} of them comprehensions and lambdas")


if __name__ == "__main__":
    main()
