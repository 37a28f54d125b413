"""Settings under which a run would end well and have done something else: each is refused."""

from __future__ import annotations

import pytest
from support.tiny_models import TINY_QWEN2

from lit_rl import SFT, Basics, CausalLM, RolloutConfig
from lit_rl.callbacks import CompletionWriter, PreferenceWriter
from lit_rl.cli.run_config import apply_run_dir
from lit_rl.rewards.penalties import OverlongPenalty
from lit_rl.types import Sampling

POLICY = CausalLM(config=TINY_QWEN2, tokenizer="package:lit_rl/data/basics/tokenizer")
REFUSED = {
    "given texts of older weights": (lambda: SFT(POLICY, collect=RolloutConfig(staleness=1)), "does not sample"),
    "given texts drawn again": (lambda: SFT(POLICY, collect=RolloutConfig(max_resamples=3)), "does not sample"),
    "equal rewards as preferences": (lambda: PreferenceWriter("pairs.jsonl", margin=0.0), "margin"),
    "the same completion many times": (lambda: Sampling(temperature=0.0, num_samples=4), "the same completion"),
    "a penalty for every length": (lambda: OverlongPenalty(4, 8), "buffer_tokens"),
    "a compressed file by the name of a plain one": (lambda: CompletionWriter("rows.jsonl"), "jsonl.gz"),
    "a run that writes nowhere": (lambda: apply_run_dir({"run_dir": "", "trainer": {}}), "run_dir"),
    "constants that no test shows": (lambda: Basics(untold_constants=True, num_public_cases=0), "public case"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_go_wrong_in_silence_is_refused(name: str) -> None:
    make, said = REFUSED[name]
    with pytest.raises(ValueError, match=said):
        make()
