"""The embedded default task: small functions in families, drawn and rendered, and a tokenizer for them."""
