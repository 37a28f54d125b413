"""Samples equal those recorded when the policy still had its own sampling loop."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from engines.recorded import CASES, KEY
from support.sampling import sample

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_one_turn_samples_what_it_always_has(case: str, byte_tokenizer: str) -> None:
    policy, problems, sampling = CASES[case](byte_tokenizer)
    done = sample(policy, problems, KEY, **asdict(sampling))
    for row, (expected, length) in enumerate(zip(RECORDED[case], done.lengths.tolist(), strict=True)):
        assert done.completion_ids[row, :length].tolist() == expected["ids"]
        assert float(done.sampler_logprobs[row].sum()) == pytest.approx(expected["logprob"], abs=2e-3)
        assert done.stop_reasons[row] == expected["reason"]
