"""Reading and writing weights, tokenizers and checkpoints."""
