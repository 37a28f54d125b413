"""Eval mode for a while: every part is as it was afterwards, also after an exception."""

from __future__ import annotations

import pytest
from torch import nn

from lit_rl.training.ranks import evaluating


@pytest.mark.parametrize("error", [None, KeyboardInterrupt(), ValueError("in between")])
def test_every_part_is_back_in_its_mode(error: BaseException | None) -> None:
    learns, frozen = nn.Sequential(nn.Dropout(), nn.Linear(1, 1)), nn.Dropout()
    module = nn.ModuleList([learns, frozen]).train()
    frozen.eval()
    before = {name: part.training for name, part in module.named_modules()}
    assert len(set(before.values())) == 2
    try:
        with evaluating(module):
            assert not any(part.training for part in module.modules())
            if error is not None:
                raise error
    except (KeyboardInterrupt, ValueError) as raised:
        assert raised is error
    assert {name: part.training for name, part in module.named_modules()} == before
