"""Make one mistake after another in a copy of the code: does a test notice each of them?

    python benchmarks/mutants.py                # all rows
    python benchmarks/mutants.py minibatch      # rows whose name contains the word

Each row names a file, a text in it, what stands there after the mistake, and the tests that must fail. The tests run
in a temporary copy of the tree, so nothing here is changed. Prints a line per mistake and ends with the survivors; the
exit status is 1 if there are any, or if a row no longer fits the code.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST_SECONDS = 600.0
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "runs", "build", "dist", "*.egg-info", ".*_cache", "__pycache__")


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    Args:
        name: what is wrong, in a few words.
        file: path from the root of the tree.
        old: a text that occurs there exactly once.
        new: what takes its place.
        tests: what must fail, as pytest takes it: files, or ``file::test``; separated by spaces.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS: list[Mutant] = [
    # -- modules: the life of a run ----------------------------------------------------------------------------
    Mutant(
        "the same minibatch order each epoch",
        "lit_rl/modules/rollout_module.py",
        'key.seed_of("epoch", epoch)',
        'key.seed_of("epoch", 0)',
        "tests/modules/test_updates.py",
    ),
    Mutant(
        "minibatches unshuffled",
        "lit_rl/modules/rollout_module.py",
        "order = torch.randperm(num_rows, generator=generator)",
        "order = torch.arange(num_rows)",
        "tests/modules/test_updates.py",
    ),
    Mutant(
        "the schedule is never stepped",
        "lit_rl/modules/rollout_module.py",
        "        self.step_schedule()\n        self.rollout_step += 1",
        "        self.rollout_step += 1",
        "tests/modules/test_updates.py",
    ),
    Mutant(
        "the schedule is stepped per update",
        "lit_rl/modules/rollout_module.py",
        "        of_update.add(self.optimizer_step())",
        "        of_update.add(self.optimizer_step())\n        self.step_schedule()",
        "tests/modules/test_updates.py",
    ),
    Mutant(
        "temperature 1 in the update",
        "lit_rl/modules/rollout_module.py",
        "self.policy(micro.completions, self.sampling.temperature, with_entropy)",
        "self.policy(micro.completions, 1.0, with_entropy)",
        "tests/modules/test_updates.py",
    ),
    Mutant(
        "largest_kl stops one update late",
        "lit_rl/modules/rollout_module.py",
        "        if near:\n",
        "        if True:\n",
        "tests/modules/test_updates.py",
    ),
    Mutant(
        "neighbouring seeds share orders",
        "lit_rl/data/problem_loader.py",
        "orders = (torch.randperm(len(self.problems), generator=generator) for _ in range(self.epoch + 1))",
        "orders = [torch.randperm(len(self.problems), generator=generator.manual_seed(self.seed + self.epoch))]",
        "tests/data/test_task.py",
    ),
    Mutant(
        "a finished epoch is not counted on resume",
        "lit_rl/modules/epochs.py",
        "epoch, position = epoch + 1, 0",
        "epoch, position = epoch, 0",
        "tests/callbacks/test_epoch_borders.py",
    ),
    Mutant(
        "Lightning's own counters decide where an epoch ends",
        "lit_rl/modules/stored_module.py",
        "            settle_progress(self.trainer, checkpoint)\n",
        "            pass\n",
        "tests/callbacks/test_epoch_borders.py",
    ),
    Mutant(
        "the engine is not told of an update",
        "lit_rl/modules/optimized_module.py",
        "        self.engine.mark_stale()\n",
        "",
        "tests/modules/test_updates.py",
    ),
    Mutant(
        "value_coef ignored",
        "lit_rl/modules/ppo.py",
        "return self.value_coef * reduced, metrics",
        "return reduced, metrics",
        "tests/modules/test_updates.py",
    ),
    Mutant(
        "critic_lr ignored",
        "lit_rl/modules/ppo.py",
        'return {} if self.critic_lr is None else {"critic": self.critic_lr}',
        "return {}",
        "tests/modules/test_updates.py",
    ),
    Mutant(
        "the value clip is around the current values",
        "lit_rl/modules/ppo.py",
        "clipped_value_loss(values, micro.old_values, micro.returns",
        "clipped_value_loss(values, values.detach(), micro.returns",
        "tests/modules/test_updates.py",
    ),
    Mutant(
        "credit weights without the absolute value",
        "lit_rl/modules/grpo.py",
        "sizes = credit.abs() * mask",
        "sizes = credit * mask",
        "tests/modules/test_updates.py",
    ),
    Mutant(
        "the resample key is the same at every attempt",
        "lit_rl/modules/grpo.py",
        'f"resample/{attempt}"',
        '"resample/0"',
        "tests/modules/test_resampling.py",
    ),
    Mutant(
        "the problems for resampling are the same in every rollout",
        "lit_rl/modules/grpo.py",
        'StreamKey(self.seed, "resample", self.rollout_step)',
        'StreamKey(self.seed, "resample", 0)',
        "tests/modules/test_resampling.py",
    ),
    Mutant(
        "infrastructure failures count as failures when resampling",
        "lit_rl/modules/resampling.py",
        "if verdicts[row] is not Verdict.INFRASTRUCTURE_FAILURE]",
        "]",
        "tests/modules/test_resampling.py",
    ),
    Mutant(
        "infrastructure failures count in REINFORCE's baseline",
        "lit_rl/advantages/batch.py",
        "    total = sum_over_ranks(",
        "    valid = torch.ones_like(valid)\n    total = sum_over_ranks(",
        "tests/modules/test_reinforce.py tests/advantages",
    ),
    Mutant(
        "equal programs share a verdict across problems",
        "lit_rl/rollout.py",
        "key = (problem.task_id, program.source)",
        'key = ("", program.source)',
        "tests/test_rollout.py",
    ),
    Mutant(
        "clip_fraction does not see the upper side",
        "lit_rl/functional/ratios.py",
        "too_high = (ratio > 1 + clip_high)",
        "too_high = (ratio > 1 + clip_low)",
        "tests/functional/test_ratios.py",
    ),
    Mutant(
        "Python's generator is not restored",
        "lit_rl/callbacks/random_state.py",
        "    random.setstate((version, tuple(internal), gauss_next))\n",
        "",
        "tests/callbacks/test_random_state.py",
    ),
    Mutant(
        "the best is the largest whatever mode says",
        "lit_rl/callbacks/checkpointing.py",
        'if self.mode == "max" else',
        "if True else",
        "tests/callbacks/test_checkpointing.py",
    ),
    # -- losses and advantages ---------------------------------------------------------------------------------
    Mutant(
        "CISPO has a lower bound unless it is given",
        "lit_rl/functional/policy_losses.py",
        "weights.clamp(0.0 if clip_low is None else 1 - clip_low",
        "weights.clamp(0.8 if clip_low is None else 1 - clip_low",
        "tests/losses",
    ),
    Mutant(
        "a completion alone with its problem counts where completions are compared",
        "lit_rl/advantages/base.py",
        "return result.masked_fill(too_small, 0.0) if self.smallest_group > 1 else result",
        "return result",
        "tests/advantages",
    ),
    Mutant(
        "rows of a table come back in the order of the groups",
        "lit_rl/functional/groups.py",
        "    back = order.argsort()",
        "    back = torch.arange(len(order), device=order.device)",
        "tests/functional/test_groups.py tests/advantages",
    ),
    Mutant(
        "the running mean holds the rollout's own scores",
        "lit_rl/advantages/batch.py",
        "0.0 if before is None else before",
        "self.mean",
        "tests/advantages",
    ),
    Mutant(
        "a named loss ignores the objective's bounds",
        "lit_rl/modules/objective.py",
        "values = _UNLESS_GIVEN | given",
        "values = _UNLESS_GIVEN",
        "tests/losses",
    ),
    Mutant(
        "the KL in the reward is that of the starting coefficient",
        "lit_rl/modules/objective.py",
        "coef=self.kl_coef if coef is None else coef",
        "coef=self.kl_coef",
        "tests/modules/test_ppo.py tests/modules/test_ppo_experience.py",
    ),
    # -- models: sampling, positions, values ---------------------------------------------------------------------
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
        "lit_rl/models/streams.py",
        "return self._block[rows, step - self._first]",
        "return self._block[rows, (step - self._first) % 8]",
        "tests/models/test_sampling.py",
    ),
    Mutant(
        "rows that stay have the positions of those that stood there",
        "lit_rl/models/cached_decoding.py",
        "self._positions = self._positions[rows]",
        "self._positions = self._positions[: len(rows)]",
        "tests/models/test_causal_lm.py",
    ),
    Mutant(
        "positions of prompts count left pads",
        "lit_rl/models/cached_decoding.py",
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
        "lit_rl/models/text_codec.py",
        "self.tokenizer.decode(ids[-tokens:], skip_special_tokens=True)",
        "self.tokenizer.decode(ids[-3:], skip_special_tokens=True)",
        "tests/models/test_sampling.py",
    ),
    Mutant(
        "Granite's scaling is left out",
        "lit_rl/models/projection.py",
        "logits = logits / scale",
        "pass",
        "tests/models/test_projection.py",
    ),
    Mutant(
        "soft-capping is left out",
        "lit_rl/models/projection.py",
        "logits = torch.tanh(logits / cap) * cap",
        "pass",
        "tests/models/test_projection.py",
    ),
    Mutant(
        "the projection is not checked",
        "lit_rl/models/projection.py",
        "if (gap := relative_gap(ours, own)) > tolerance(model, 1e-3, 0.02):",
        "if (gap := relative_gap(ours, own)) > 1e9:",
        "tests/models/test_projection.py",
    ),
    Mutant(
        "values are read one token late",
        "lit_rl/models/critic.py",
        "return all_values[:, :num_tokens].clone(), tail",
        "return all_values[:, 1:].clone(), tail",
        "tests/models/test_critic_values.py",
    ),
    Mutant(
        "the tail value is read from the last column",
        "lit_rl/models/critic.py",
        "tail = all_values.gather(1, completions.lengths[:, None])[:, 0]",
        "tail = all_values[:, -1]",
        "tests/models/test_critic_values.py",
    ),
    Mutant(
        "the reference adapter learns",
        "lit_rl/models/adapters.py",
        "add_adapter(model, REFERENCE, seed, trained=False)",
        "add_adapter(model, REFERENCE, seed, trained=True)",
        "tests/models/test_adapters.py",
    ),
    # -- from a completion to a program, its credit, its data ---------------------------------------------------
    Mutant(
        "the first block that defines the entry point is the program",
        "lit_rl/execution/program.py",
        "    for block in reversed(blocks):\n        source",
        "    for block in blocks:\n        source",
        "tests/execution/test_extraction.py",
    ),
    Mutant(
        "output and shell blocks count as programs",
        "lit_rl/execution/program.py",
        "    return tag in own if tag in KNOWN_TAGS else None",
        "    return tag in own or None",
        "tests/execution/test_extraction.py",
    ),
    Mutant(
        "indentation that was taken away is forgotten",
        "lit_rl/rewards/places.py",
        "removed = program.removed or (0,) * len(lines)",
        "removed = (0,) * len(lines)",
        "tests/rewards/test_places.py",
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
        "lit_rl/rewards/bleu.py",
        "program.removeprefix(given), [reference.removeprefix(given)]",
        "program, [reference]",
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
    # -- grading: tests beside the program ----------------------------------------------------------------------
    Mutant(
        "a result without the job's secret counts",
        "lit_rl/execution/judging/graded.py",
        'exited and result["secret"] == secret else',
        "exited else",
        "tests/execution/test_graded.py::test_a_result_counts_once_whole_with_its_secret_and_its_exit_status",
    ),
    Mutant(
        "a grader's asserts that held are not counted",
        "lit_rl/execution/judging/graded.py",
        'num_passed = int(result["num_passed"]) if result else 0',
        'num_passed = min(1, int(result["num_passed"])) if result else 0',
        "tests/execution/test_graded.py::test_the_asserts_that_held_are_counted_before_the_one_that_did_not",
    ),
    Mutant(
        "asserts that no condition guards need not run",
        "lit_rl/execution/grading/grader.py",
        'if not set(job["required"]) <= counts.keys():',
        "if False:",
        "tests/execution/test_forged_answers.py::test_nothing_is_forged_and_no_row_is_masked",
    ),
    Mutant(
        "an error outside of the tests' lines is always theirs",
        "lit_rl/execution/grading/grader.py",
        "line = _line(error) or line",
        "line = _line(error)",
        "tests/execution/test_masked_rows.py::test_the_program_is_judged_where_it_has_a_say",
    ),
    Mutant(
        "a grader that is killed is always a fault of the tests",
        "lit_rl/execution/judging/graded.py",
        "theirs = also_broken is not None or alone.verdict is Verdict.INFRASTRUCTURE_FAILURE",
        "theirs = True",
        "tests/execution/test_masked_rows.py::test_the_program_is_judged_where_it_has_a_say",
    ),
    Mutant(
        "a grader that ran full of the program's values is a fault of the tests",
        "lit_rl/execution/grading/memory.py",
        "    limit = resource.getrlimit(resource.RLIMIT_AS)[0] - ADDRESS_SLACK",
        "    return False",
        "tests/execution/test_masked_rows.py::test_the_program_is_judged_where_it_has_a_say",
    ),
    Mutant(
        "the grader's exit status is not read",
        "lit_rl/execution/judging/graded.py",
        "return result if exited and",
        "return result if",
        "tests/execution/test_graded.py::test_a_result_counts_once_whole_with_its_secret_and_its_exit_status",
    ),
    Mutant(
        "a result may stand among other lines",
        "lit_rl/execution/judging/graded.py",
        'if content.count(b"\\n") != 1 or not',
        "if not",
        "tests/execution/test_graded.py::test_a_result_counts_once_whole_with_its_secret_and_its_exit_status",
    ),
    Mutant(
        "an exception may end the tests' loops",
        "lit_rl/execution/wire/held.py",
        "    return issubclass(kind, ending) or str(kind.__module__).startswith(_STEERING_MODULES)",
        "    return False",
        "tests/execution/test_graded.py::test_a_program_cannot_bend_the_tests",
    ),
    Mutant(
        "a with block of the program's swallows any error",
        "lit_rl/execution/grading/tests_side.py",
        " and not isinstance(error, AssertionError) and isinstance(error, Exception)",
        "",
        "tests/execution/test_graded.py::test_a_program_cannot_bend_the_tests",
    ),
    Mutant(
        "objects compare as their class says",
        "lit_rl/execution/grading/tests_side.py",
        "OPERATIONS if allow_objects else _WITHOUT_ORDER",
        "OPERATIONS",
        "tests/execution/test_graded.py::test_a_program_cannot_bend_the_tests",
    ),
    Mutant(
        "any operator of the program's gets a stand-in",
        "lit_rl/execution/wire/link.py",
        "[operation for operation in operations if operation in self._operations]",
        "list(operations)",
        "tests/execution/test_graded.py::test_a_program_cannot_bend_the_tests",
    ),
    Mutant(
        "what an object computes of the tests' values is believed",
        "lit_rl/execution/grading/tests_side.py",
        "if operation in ARITHMETIC and result is not NotImplemented and not self._allow_objects:",
        "if False:",
        "tests/execution/test_graded.py::test_a_program_cannot_bend_the_tests",
    ),
    Mutant(
        "an object says what it contains",
        "lit_rl/execution/grading/tests_side.py",
        'if operation == "__contains__" and not self._is_named(standin) and not self._allow_objects:',
        "if False:",
        "tests/execution/test_graded.py::test_a_program_cannot_bend_the_tests",
    ),
    Mutant(
        "modules of the tests are what the program calls so",
        "lit_rl/execution/judging/prepared_tests.py",
        "modules = foreign_modules(tree, names, entry_point)",
        "modules = {}",
        "tests/execution/test_graded.py::test_a_program_cannot_bend_the_tests",
    ),
    Mutant(
        "an end of the program passes if the tests catch it",
        "lit_rl/execution/grading/grader.py",
        "    if program.ended:  # whatever",
        "    if False:  # whatever",
        "tests/execution/test_graded.py::test_a_program_cannot_bend_the_tests",
    ),
    Mutant(
        "zero asserts pass",
        "lit_rl/execution/grading/grader.py",
        "    if counts:\n        return",
        "    if True:\n        return",
        "tests/execution/test_graded.py::test_a_program_cannot_bend_the_tests",
    ),
    Mutant(
        "tests that assert nothing are run",
        "lit_rl/execution/judging/prepared_tests.py",
        "if not can_fail(tree, idle):",
        "if False:",
        "tests/execution/test_graded.py::test_a_fault_of_the_tests_is_no_fault_of_the_program",
    ),
    Mutant(
        "helpers that only compute count as asserts",
        "lit_rl/execution/judging/prepared_tests.py",
        "idle = idle_helpers(tree)",
        "idle = frozenset()",
        "tests/execution/test_graded.py::test_a_fault_of_the_tests_is_no_fault_of_the_program",
    ),
    Mutant(
        "an error of the tests is the program's",
        "lit_rl/execution/judging/graded.py",
        'if own or line is None or not result["asked"]:',
        "if False:",
        "tests/execution/test_graded.py::test_a_fault_of_the_tests_is_no_fault_of_the_program",
    ),
    Mutant(
        "tests out of memory are the program's fault",
        "lit_rl/execution/judging/graded.py",
        'result["asked"] and (result["using"] or not own)',
        "True",
        "tests/execution/test_masked_rows.py::test_the_tests_are_at_fault_where_it_has_none",
    ),
]


class DoesNotFitError(ValueError):
    """The row's text is not in the file exactly once: the code has moved on and the row must follow."""


def break_copy(tree: Path, mutant: Mutant) -> str:
    """Make the mistake in a copy of the tree; returns the file's text before it.

    Raises:
        DoesNotFitError: the old text is not there exactly once.
    """
    file = tree / mutant.file
    before = file.read_text()
    count = before.count(mutant.old)
    if count != 1:
        raise DoesNotFitError(f"{mutant.file} has {mutant.old!r} {count} times instead of once: mend the row")
    file.write_text(before.replace(mutant.old, mutant.new))
    return before


def is_noticed(tree: Path, mutant: Mutant) -> bool:
    """Whether one of the mutant's tests fails in the tree as it is now.

    Raises:
        DoesNotFitError: pytest did not run the tests, so their failing says nothing.
    """
    options = ["-q", "-x", "-m", "not slow", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *mutant.tests.split()]
    paths = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=os.environ | paths, capture_output=True, text=True, timeout=LONGEST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return True  # a run that never ends is noticed
    if done.returncode not in (0, 1):  # 2 to 5: a usage error, no such test, nothing collected
        raise DoesNotFitError(f"pytest could not run {mutant.tests}: {done.stdout[-400:]}{done.stderr[-400:]}")
    return done.returncode == 1


def try_all(mutants: list[Mutant]) -> tuple[list[str], list[str]]:
    """Names of the mutants that survive, and what does not fit any more; prints a line per mutant."""
    survivors, misfits = [], []
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(ROOT, tree, symlinks=True, ignore=_NOT_COPIED)
        for mutant in mutants:
            started = time.monotonic()
            try:
                before = break_copy(tree, mutant)
                try:
                    word = "killed" if is_noticed(tree, mutant) else "SURVIVES"
                finally:
                    (tree / mutant.file).write_text(before)
            except DoesNotFitError as error:
                misfits.append(f"{mutant.name}: {error}")
                word = "DOES NOT FIT"
            survivors += [mutant.name] if word == "SURVIVES" else []
            print(f"{word:12} {time.monotonic() - started:5.0f} s  {mutant.name}", flush=True)
    return survivors, misfits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only rows whose name or file contains one of these")
    words = parser.parse_args().words
    chosen = [m for m in MUTANTS if not words or any(word in m.name or word in m.file for word in words)]
    survivors, misfits = try_all(chosen)
    print(f"killed {len(chosen) - len(survivors) - len(misfits)}/{len(chosen)}")
    for line in [f"survives: {name}" for name in survivors] + [f"does not fit: {text}" for text in misfits]:
        print(line)
    raise SystemExit(1 if survivors or misfits or not chosen else 0)


if __name__ == "__main__":
    main()
