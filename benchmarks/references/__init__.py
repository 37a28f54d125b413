"""Training runs and judged programs: the scripts that ``benchmarks/reference.py`` runs in two trees."""
