"""The Qwen2.5 tokenizer and a way to read which of its tokens a term flags."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.completions import PASSED, FixedScores, batch, judged, problem
from transformers import AutoTokenizer

from lit_rl.execution.interface import Outcome
from lit_rl.models.codecs.token_bytes import text_and_byte_spans
from lit_rl.rewards import Composite, RewardTerm, TermScore


@pytest.fixture(scope="session")
def qwen(real_data: Path) -> Any:
    return AutoTokenizer.from_pretrained(real_data / "tokenizers" / "qwen2.5")


@pytest.fixture
def flagged(qwen: Any) -> Callable[..., list[str]]:
    """Texts of the Qwen2.5 tokens that a term flags in one completion that ends with EOS."""

    def find(term: RewardTerm, text: str, outcome: Outcome = PASSED, **task: Any) -> list[str]:
        ids = [*qwen(text, add_special_tokens=False)["input_ids"], qwen.eos_token_id]
        decoded, spans = text_and_byte_spans(qwen, ids)
        assert decoded == text
        judgement = judged(text, outcome, problem(**task))
        completions = batch([text], [spans])
        scores = term.score(completions, [judgement])
        if not scores[0].spans:
            return []
        # Without the part that is spread evenly.
        scores = [TermScore(sum(span.value for span in one.spans), one.spans) for one in scores]
        credit = Composite([FixedScores(scores)])(completions, [judgement]).credit[0]
        whole = Composite([term])(completions, [judgement])
        torch.testing.assert_close(whole.credit.sum(-1), whole.rewards)
        raw = text.encode()
        return [raw[slice(*spans[t])].decode(errors="replace") for t in credit.nonzero().flatten().tolist()]

    return find
