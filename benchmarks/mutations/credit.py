"""Mistakes on the way from a completion to its program, its credit and its data."""

from __future__ import annotations

from mutations.mutant import Mutant

CREDIT: list[Mutant] = [
    Mutant(
        "the first block that defines the entry point is the program",
        "lit_rl/execution/program.py",
        "    for block in reversed(blocks):\n        source",
        "    for block in blocks:\n        source",
        "tests/rollout/test_judge.py",
    ),
    Mutant(
        "output and shell blocks count as programs",
        "lit_rl/execution/program.py",
        "    return tag in TAGS_OF[language] if tag in KNOWN_TAGS else None",
        "    return tag in TAGS_OF[language] or None",
        "tests/rollout/test_judge.py",
    ),
    Mutant(
        "indentation that was taken away is forgotten",
        "lit_rl/rewards/places.py",
        "removed = program.removed or (0,) * len(lines)",
        "removed = (0,) * len(lines)",
        "tests/rewards/test_attribution.py",
    ),
    Mutant(
        "a failure at the top level is decided where its line ends",
        "lit_rl/rewards/places.py",
        "until = places.decided_by(outcome.module_line)",
        "until = 0",
        "tests/rewards/test_deciding_tokens.py",
    ),
    Mutant(
        "the parser is never stopped",
        "lit_rl/rewards/grammars.py",
        "return next(calls) > allowed",
        "return False",
        "tests/rewards/test_hostile_texts.py::test_a_table_costs_the_parser_too_much",
    ),
    Mutant(
        "BLEU counts what was given",
        "lit_rl/rewards/similarity.py",
        "return program.removeprefix(given), (left, reference)",
        "return program, (reference, reference)",
        "tests/rewards/test_bleu.py",
    ),
    Mutant(
        "HumanEval+ is tested with the base inputs only",
        "lit_rl/data/humaneval.py",
        'inputs = [*row.json("base_input"), *row.json("plus_input")]',
        'inputs = [*row.json("base_input")]',
        "tests/data/test_humaneval.py",
    ),
    Mutant(
        "a folder's splits are mixed",
        "lit_rl/data/local_files.py",
        "if split is None or len(set(names)) < 2:",
        "if True:",
        "tests/data/test_local_files.py",
    ),
    Mutant(
        "the test split has no maximum",
        "lit_rl/data/task.py",
        'limit = self.max_train_problems if split == "train" else self.max_validation_problems',
        'limit = {"train": self.max_train_problems, "validation": self.max_validation_problems}.get(split)',
        "tests/data/test_task.py",
    ),
]
