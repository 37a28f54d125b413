"""The parts of benchmarks/gpu.py."""
