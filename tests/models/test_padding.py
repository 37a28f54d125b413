from array import array

import pytest
import torch
from support.plain_loops import plain_table

from lit_rl.models.padding import pad_left, pad_right

IDS = [(5, 7, 9), (), (2**40,), (1, 2)]
CASES = {
    "ids": (IDS, 3, torch.int64),
    "ids that are arrays": ([array("q", row) for row in IDS], 3, torch.int64),
    "numbers": ([(0.1, -2.5e-8), (1 / 3,), ()], 0.0, torch.float32),
    "flags": ([[True, False, True], [False], []], False, torch.bool),
    "flags that are bytes": ([bytearray(b"\1\0\1"), bytearray(b"\0"), bytearray()], False, torch.bool),
    "no rows": ([], 0, torch.int64),
}


@pytest.mark.parametrize(("rows", "fill", "dtype"), CASES.values(), ids=CASES)
def test_rows_are_padded_on_the_right(rows: list, fill: float, dtype: torch.dtype) -> None:
    assert torch.equal(pad_right(rows, fill, dtype), plain_table(rows, fill, dtype))


def test_prompts_are_padded_on_the_left() -> None:
    ids, mask = pad_left(IDS, 3, "cpu")
    assert ids.tolist() == [[5, 7, 9], [3, 3, 3], [3, 3, 2**40], [3, 1, 2]]
    assert mask.tolist() == [[True] * 3, [False] * 3, [False, False, True], [False, True, True]]
