"""Bandwidth and products per second that a card reaches."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from on_gpu.measuring import Row, seconds_of


def measure(given: argparse.Namespace) -> Iterator[Row]:
    side, count = (512, 1 << 22) if given.tiny else (8192, 1 << 30)
    matrix = torch.randn(side, side, device=given.device, dtype=torch.bfloat16)
    source = torch.zeros(count, device=given.device, dtype=torch.int8)
    target = torch.empty_like(source)
    product = seconds_of(lambda: matrix @ matrix, given.device, 10)
    copy = seconds_of(lambda: target.copy_(source), given.device, 10)
    yield {"bf16 products (TFLOP/s)": 2 * side**3 / product / 1e12, "bandwidth (GB/s)": 2 * count / copy / 1e9}
