"""What ``benchmarks/reference.py`` runs in two trees: small training runs, and programs that are judged."""
