"""Mistakes in models: sampling, positions, values."""

from __future__ import annotations

from mutations.mutant import Mutant

MODELS: list[Mutant] = [
    Mutant(
        "top-k keeps one token too many",
        "lit_rl/models/sampling.py",
        "logits.topk(sampling.top_k, dim=-1)",
        "logits.topk(sampling.top_k + 1, dim=-1)",
        "tests/models/test_sampling.py",
    ),
    Mutant(
        "top-p ignored",
        "lit_rl/models/sampling.py",
        "if sampling.top_p < 1:",
        "if False:",
        "tests/models/test_sampling.py",
    ),
    Mutant(
        "random numbers repeat every 8 tokens",
        "lit_rl/models/sampling.py",
        "return self._block[rows, column]",
        "return self._block[rows, column % 8]",
        "tests/models/test_sampling.py",
    ),
    Mutant(
        "rows that stay have the positions of those that stood there",
        "lit_rl/models/decoding.py",
        "self._mask = self._mask[rows]\n        self._positions = self._positions[rows]",
        "self._mask = self._mask[rows]\n        self._positions = self._positions[: len(rows)]",
        "tests/models/test_shared_decoding.py",
    ),
    Mutant(
        "prompts that lost their rows keep the mask of those that stay",
        "lit_rl/models/decoding.py",
        "self.bias = self.bias[kept]",
        "self.bias = self.bias[: len(kept)]",
        "tests/models/test_shared_decoding.py",
    ),
    Mutant(
        "positions of prompts count left pads",
        "lit_rl/models/decoding.py",
        "positions = (prompt_mask.long().cumsum(-1) - 1).clamp(min=0)",
        "positions = torch.ones_like(prompt_ids).cumsum(-1) - 1",
        "tests/models/test_causal_lm.py",
    ),
    Mutant(
        "only the tokenizer's EOS ends a completion",
        "lit_rl/models/family.py",
        'for owner in (getattr(model, "generation_config", None), model.config, text_config(model), tokenizer):',
        "for owner in (tokenizer,):",
        "tests/models/test_sampling.py",
    ),
    Mutant(
        "only the last 3 tokens are searched for a stop string",
        "lit_rl/models/codecs/text_codec.py",
        "self.tokenizer.decode(ids[-tokens:], skip_special_tokens=True)",
        "self.tokenizer.decode(ids[-3:], skip_special_tokens=True)",
        "tests/models/test_sampling.py",
    ),
    Mutant(
        "Granite's scaling is left out",
        "lit_rl/models/family.py",
        "scale /= divisor",
        "pass",
        "tests/models/test_projection.py",
    ),
    Mutant(
        "soft-capping is left out",
        "lit_rl/models/family.py",
        "cap = bound",
        "pass",
        "tests/models/test_projection.py",
    ),
    Mutant(
        "the projection is not checked",
        "lit_rl/models/family.py",
        "if (gap := relative_gap(ours, own)) > tolerance(model, 1e-3, 0.02):",
        "if (gap := relative_gap(ours, own)) > 1e9:",
        "tests/models/test_projection.py",
    ),
    Mutant(
        "values are read one token late",
        "lit_rl/models/critic.py",
        "return all_values[:, :num_tokens].clone(), tail",
        "return all_values[:, 1:].clone(), tail",
        "tests/modules/test_critic.py",
    ),
    Mutant(
        "the tail value is read from the last column",
        "lit_rl/models/critic.py",
        "tail = all_values.gather(1, ends(completions.completion_mask)[:, None])[:, 0]",
        "tail = all_values[:, -1]",
        "tests/modules/test_critic.py",
    ),
    Mutant(
        "the reference adapter learns",
        "lit_rl/models/adapters.py",
        "add_adapter(model, REFERENCE, seed, trained=False)",
        "add_adapter(model, REFERENCE, seed, trained=True)",
        "tests/models/test_causal_lm.py",
    ),
]
