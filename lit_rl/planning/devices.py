"""Accelerators and networks, as their makers describe them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """One accelerator.

    Args:
        memory_bytes: of the device.
        flops: dense bfloat16 operations per second, without sparsity.
        flops_float32: float32 operations per second, as torch computes them unless told otherwise.
        memory_bandwidth: bytes per second between memory and cores.
        link_bandwidth: bytes per second to another device of the node, one direction.
        node_bandwidth: bytes per second to another node, for each device, one direction.
    """

    memory_bytes: float
    flops: float
    flops_float32: float
    memory_bandwidth: float
    link_bandwidth: float
    node_bandwidth: float


# NVLink figures of the makers count both directions; here is one. Between nodes: one 400 Gbit/s port for each device
# (a100: 200 Gbit/s), as in DGX systems; l40s: PCIe 4 inside the node, 100 Gbit/s beyond.
DEVICES = {
    # https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet (SXM)
    "h100": Device(80e9, 989e12, 67e12, 3.35e12, 450e9, 50e9),
    # https://nvdam.widen.net/s/nb5zzzsjdf/hpc-datasheet-sc23-h200-datasheet-3002446 (SXM)
    "h200": Device(141e9, 989e12, 67e12, 4.8e12, 450e9, 50e9),
    # https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf
    "a100": Device(80e9, 312e12, 19.5e12, 2.039e12, 300e9, 25e9),
    # https://resources.nvidia.com/en-us-l40s/l40s-datasheet-28413
    "l40s": Device(48e9, 362e12, 91.6e12, 0.864e12, 32e9, 12.5e9),
}
"""By the name that ``lit-rl plan --gpu`` takes."""
