"""One policy for all tests of a file: nothing here trains it."""

import pytest
from support.tiny_models import TINY_QWEN2

from lit_rl.models import CausalLM


@pytest.fixture(scope="module")
def tiny_policy(byte_tokenizer: str) -> CausalLM:
    """A loaded policy with random weights."""
    policy = CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer)
    policy.load()
    return policy
