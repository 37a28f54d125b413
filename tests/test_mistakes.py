"""Mistakes that people make, each with what the answer must say: one line, with what is wrong and what to do.

Each row is a command and parts of its answer. Nothing here trains: a mistake is found before a run begins.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import yaml
from support.command_line import BASE, one_line

from lit_rl.cli.config_files import overridden
from lit_rl.cli.messages import in_words
from lit_rl.trainer import check_settings

OWN = '''
from lit_rl.rewards import RewardTerm


class Nameless(RewardTerm):
    """A term without a name."""

    def score(self, completions, judgements):
        return []


class NoTerm:
    """Something else."""
'''
FILES = {
    "broken.yaml": "a: [1\nb: 2\n",
    "empty.yaml": "",
    "comment.yaml": "# nothing else\n",
    "list.yaml": "- a\n",
    "relative.yaml": "model: {init_args: {policy: {class_path: CausalLM, init_args: {model: ../m.0}}}}\n",
    "tab.yaml": "model:\n\tclass_path: x\n",
    "text.yaml": "hello\n",
    "rows.yaml": "data: a/rows.jsonl\n",
    "section.yaml": "modle:\n  class_path: GRPO\n",
    "sections.yaml": "model:\n  class_path: GRPO\noptimiser: {}\n",
    "key.yaml": "model:\n  init_args:\n    max_rollout: 3\n",
    "callback.yaml": (
        "trainer:\n  callbacks:\n    - class_path: lit_rl.callbacks.Checkpointing\n      init_args: {foldr: x}\n"
    ),
    "term.yaml": "model:\n  init_args:\n    rewards:\n      - class_path: lit_rl.rewards.TestReward\n",
    "binary.yaml": b"\xff\xfe\x00",
    "sampling.yaml": "model:\n  init_args:\n    sampling: {temprature: 1}\n",
    "comma.yaml": "model:\n  class_path: GRPO\n  init_args:\n    sampling: {temperature: 0,7}\n",
    "update.yaml": "model:\n  class_path: GRPO\n  init_args:\n    update: {epoch: 2}\n",
    "objective.yaml": "model:\n  class_path: GRPO\n  init_args:\n    objective: {kl_coeff: 1}\n",
    "collect.yaml": "model:\n  class_path: GRPO\n  init_args:\n    collect: {stalness: 1}\n",
    "evaluate.yaml": "model:\n  class_path: GRPO\n  init_args:\n    evaluate: {samplings: {}}\n",
    "greedy.yaml": "model:\n  class_path: GRPO\n  init_args:\n    evaluate: {sampling: {greedy: {top_kk: 1}}}\n",
    "lora.yaml": "model: {class_path: GRPO, init_args: {policy: {class_path: CausalLM, init_args: {lora: {r: 4}}}}}\n",
    "trainer.yaml": "trainer: {maxepochs: 3}\n",
    "one_reward.yaml": "model:\n  class_path: GRPO\n  init_args:\n    rewards: {class_path: TestsReward}\n",
    "reward_text.yaml": "model:\n  class_path: GRPO\n  init_args:\n    rewards: TestsReward\n",
    "reward_key.yaml": "model:\n  class_path: GRPO\n  init_args:\n    rewards: [{TestsReward: {weight: 1}}]\n",
    "callbacks.yaml": "trainer:\n  callbacks: {Checkpointing: {folder: x}}\n",
    "callback_key.yaml": "trainer:\n  callbacks: [{Checkpointing: {folder: x}}]\n",
    "beside_reward.yaml": "model: {class_path: GRPO, init_args: {rewards: [{class_path: TestsReward, weight: 2}]}}\n",
    "beside_data.yaml": "data: {class_path: Basics, batch_size: 2}\n",
    "beside_model.yaml": "model: {class_path: GRPO, max_rollouts: 2}\n",
    "beside_callback.yaml": "trainer:\n  callbacks: [{class_path: Checkpointing, folder: x}]\n",
    "beside_policy.yaml": (
        "model:\n  class_path: GRPO\n  init_args:\n    policy: {class_path: CausalLM, dtype: bfloat16}\n"
    ),
    "twice.yaml": "model:\n  class_path: GRPO\nmodel:\n  init_args: {max_rollouts: 2}\n",
    "inner_twice.yaml": "model:\n  init_args:\n    sampling: {num_samples: 2, top_k: 1, num_samples: 4}\n",
    "schedule.yaml": (
        "model: {init_args: {update: {lr_scheduler: {class_path: transformers.get_constant_schedule}}}}\n"
    ),
    "accumulate.yaml": (
        "trainer: {callbacks: [{class_path: lightning.pytorch.callbacks.GradientAccumulationScheduler, "
        "init_args: {scheduling: {0: 4}}}]}\n"
    ),
    "stop.yaml": 'data: {init_args: {stop_strings: "\\n\\n"}}\n',
    "whole.yaml": (
        "model: {class_path: GRPO, init_args: {max_rollouts: 3, sampling: {num_samples: 2}}}\n"
        "data: {class_path: Basics}\n"
    ),
    "overlay.yaml": "model: {init_args: {max_rollouts: 2}}\n",
    "one_sampling.yaml": "model: {init_args: {evaluate: {sampling: {temperature: 0.0}}}}\n",
    "no_sampling.yaml": "model: {init_args: {evaluate: {sampling: {greedy: {temperature: 0.0}, sampled: null}}}}\n",
    "below/critic.yaml": "model: {init_args: {critic: {class_path: lit_rl.models.SeparateCritic}}}\n",
    "own_terms.py": OWN,
}

# name: (what is added to `fit --config base.yaml`, or a whole command; parts of the answer)
MISTAKES: dict[str, tuple[str, tuple[str, ...]]] = {
    # -- files ---------------------------------------------------------------------------------------------
    "broken YAML": ("fit --config broken.yaml", ("broken.yaml, line 2", "','", "line 1 opens a bracket")),
    "an empty file": ("fit --config empty.yaml", ("empty.yaml is empty", "model and data")),
    "a file of comments": ("fit --config comment.yaml", ("comment.yaml is empty",)),
    "a list": ("fit --config list.yaml", ("list.yaml is not a configuration", "got ['a']")),
    "a relative path with a dot": (
        "fit --config basics_grpo --config relative.yaml --trainer.max_rollouts 2",
        ("trainer.max_rollouts is unknown: the module takes it: model.max_rollouts",),
    ),
    "names with a comma": (
        "fit --config basics_grpo --model.rewards TestsReward,LengthPenalty",
        ("model.rewards: expected a list, got TestsReward,LengthPenalty; write [TestsReward,LengthPenalty]",),
    ),
    "a decimal comma": ("fit --config comma.yaml", ("model.sampling", "got 7", "0.7, not 0,7")),
    "a tab": ("fit --config tab.yaml", ("tab.yaml, line 2", "YAML indents with blanks, not tabs")),
    "a section twice": (
        "--config twice.yaml",
        ("twice.yaml, line 3, column 1: model is given twice, first in line 1: keep one",),
    ),
    "a key twice": ("--config inner_twice.yaml", ("num_samples is given twice, first in line 3",)),
    "a text": ("fit --config text.yaml", ("text.yaml is not a configuration", "got hello")),
    "no text at all": ("fit --config binary.yaml", ("binary.yaml is not UTF-8 text",)),
    "a mistyped section": ("fit --config section.yaml", ("no section modle", "did you mean model?")),
    "a section that there is not": ("fit --config sections.yaml", ("sections.yaml", "no section optimiser")),
    "a missing file": ("fit --config nothere.yaml", ("nothere.yaml is neither a file nor", "lit-rl configs")),
    "a mistyped name": ("fit --config basics_gropo", ("error: basics_gropo is", "did you mean basics_grpo")),
    "a folder": ("fit --config .", ("neither a file nor",)),
    "no configuration": ("fit", ("missing: data, model", "--config FILE")),
    "a mistyped verb": ("fitt --config base.yaml", ("no verb fitt", "did you mean fit?")),
    "a mistyped verb of ours": ("chekc-data --data Basics", ("no verb chekc-data",)),
    # -- keys, names of classes ------------------------------------------------------------------------------
    "a key in a file": (
        "--config key.yaml",
        ("key.yaml: model.max_rollout is unknown to GRPO", "did you mean max_rollouts?"),
    ),
    "a key of a callback": (
        "--config callback.yaml",
        ("callback.yaml: trainer.callbacks.foldr", "did you mean folder?"),
    ),
    "a class in a file": ("--config term.yaml", ("term.yaml: model.rewards", "did you mean TestsReward")),
    "a key of the model": ("--model.smapling.max_tokens 5", ("model.smapling", "did you mean sampling?")),
    "a key of other algorithms": (
        "--model.credit spans",
        ("model.credit is unknown to GRPO; it is an argument of PPO and REINFORCE (",),
    ),
    "a key of a group": ("--model.sampling.temprature 1", ("temprature is unknown", "mean temperature?")),
    "a key of the trainer": ("--trainer.maxepochs 3", ("trainer.maxepochs", "did you mean trainer.max_epochs")),
    "a key of the data": ("--data.batch_sise 3", ("data.batch_sise", "did you mean batch_size?")),
    "a key of the policy": ("--model.policy.dtpye float32", ("model.policy.dtpye", "did you mean dtype")),
    "a section as a flag": ("--modle.max_rollouts 3", ("modle.max_rollouts is unknown", "did you mean model?")),
    "a key of LoRA": ("""--model.policy.lora '{"rank": 4, "alhpa": 3}'""", ("lora.alhpa", "did you mean alpha?")),
    "a key of a reward": (
        """--model.rewards '[{"class_path": "lit_rl.rewards.TestsReward", "init_args": {"wieght": 2}}]'""",
        ("model.rewards.wieght is unknown to TestsReward; did you mean weight?",),
    ),
    "a key of the sandbox": (
        """--model.sandbox '{"class_path": "lit_rl.execution.Sandbox", "init_args": {"num_wokers": 1}}'""",
        ("model.sandbox.num_wokers", "did you mean num_workers?"),
    ),
    "an algorithm": ("--model GRPOO", ("there is no class GRPOO; did you mean GRPO?",)),
    "a task": ("--data Basic", ("there is no class Basic; did you mean Basics?",)),
    "a reward": ("--model.rewards '[lit_rl.rewards.TestReward]'", ("no TestReward; did you mean TestsReward",)),
    "a reward by the path of a file that was renamed": (
        "--model.rewards '[lit_rl.rewards.tests.TestsReward]'",
        ("no lit_rl.rewards.tests.TestsReward; did you mean lit_rl.rewards.TestsReward?",),
    ),
    "a callback": ("--trainer.callbacks '[lit_rl.callbacks.Checkpoint]'", ("did you mean Checkpointing?",)),
    "a sandbox": ("--model.sandbox lit_rl.execution.Sandboxx", ("no Sandboxx; did you mean Sandbox",)),
    "an optimizer": ("--model.update.optimizer torch.optim.AdamX", ("torch.optim has no AdamX", "Adam")),
    "a word for a number of an optimizer": (
        "--model.update.optimizer torch.optim.Adam --model.update.optimizer.lr abc",
        ("model.update.optimizer.lr: expected float", "got abc"),
    ),
    "a schedule": ("--model.update.lr_scheduler torch.optim.lr_scheduler.LinearLRR", ("did you mean LinearLR",)),
    "a module that is not there": ("--model.rewards '[nomodule.Thing]'", ("there is no module nomodule",)),
    "a class that is not in its file": (
        "--model.rewards '[own_terms.Missing]'",
        ("own_terms has no Missing", "NoTerm"),
    ),
    "a class of another kind": ("--model.rewards '[own_terms.NoTerm]'", ("NoTerm is not derived from RewardTerm",)),
    "a term without a name": ("--model.rewards '[own_terms.Nameless]'", ("Nameless.default_name is empty",)),
    # -- the shape of a file: groups, lists, classes ---------------------------------------------------------
    **{
        f"a key of {name} in a file": (f"fit --config base.yaml --config {name}.yaml", (f"{name}.yaml: {where}", meant))
        for name, where, meant in (
            ("update", "model.update.epoch is unknown to Update", "did you mean epochs?"),
            ("objective", "model.objective.kl_coeff is unknown to Objective", "did you mean kl_coef?"),
            ("collect", "model.collect.stalness is unknown to Collect", "did you mean staleness?"),
            ("evaluate", "model.evaluate.samplings is unknown to Evaluate", "did you mean sampling?"),
            ("greedy", "model.evaluate.sampling.top_kk is unknown to Sampling", "did you mean top_k"),
            ("lora", "model.policy.lora.r is unknown to LoRA", "rank, alpha, dropout"),
            ("trainer", "trainer.maxepochs is unknown to Trainer", "did you mean max_epochs"),
            ("one_reward", "model.rewards: expected a list", "put it into a list"),
            ("reward_text", "model.rewards: expected a list, got TestsReward", "put it into a list"),
            ("reward_key", "model.rewards[0]: TestsReward is a class", "write class_path: TestsReward"),
            ("callbacks", "trainer.callbacks: Checkpointing is a class", "write class_path: Checkpointing"),
            ("callback_key", "trainer.callbacks[0]: Checkpointing is a class", "write class_path: Checkpointing"),
            ("beside_reward", "model.rewards[0]: weight is beside class_path", "put it under init_args"),
            ("beside_data", "data: batch_size is beside class_path", "put it under init_args"),
            ("beside_model", "model: max_rollouts is beside class_path", "put it under init_args"),
            ("beside_callback", "trainer.callbacks[0]: folder is beside class_path", "put it under init_args"),
            ("beside_policy", "model.policy: dtype is beside class_path", "put it under init_args"),
        )
    },
    "a configuration without its flag": ("fit basics_sft", ("basics_sft belongs to no option", "--config basics_sft")),
    "fewer than none": ("--data.num_train_problems -5", ("Basics.num_train_problems: expected at least 1, got -5",)),
    "a key in a file of another folder": (
        "--config below/critic.yaml",
        ("critic.yaml: model.critic.class_path is unknown to GRPO", "an argument of PPO"),
    ),
    "no sampling": ("--model.sampling null", ("model.sampling: expected keys and values, got null", "num_samples")),
    "a chunk of no tokens": ("--model.policy.chunk_tokens -2", ("CausalLM.chunk_tokens: expected at least 1, got -2",)),
    "an optimizer in small letters": ("--model.update.optimizer adam", ("there is no class adam; did you mean Adam",)),
    "an optimizer's name in small letters": ("--model.update.optimizer adamw", ("did you mean AdamW or",)),
    "betas as a text": (
        """--model.update.optimizer '{"class_path": "AdamW", "init_args": {"betas": "0.9 0.95"}}'""",
        ("model.update.optimizer.betas: expected a list, [A, B], got 0.9 0.95$",),
    ),
    "a size in words": ("--model.sandbox Sandbox --model.sandbox.memory_bytes 2GB", ("expected int, got 2GB$",)),
    "a size in mebibytes": (
        "--model.sandbox Sandbox --model.sandbox.memory_bytes 512",
        ("error: Sandbox.memory_bytes: expected at least 16777216 bytes, got 512",),
    ),
    "a reward that is no list": ("--model.rewards TestsReward", ("expected a list, got TestsReward; write [TestsR",)),
    "a list given twice": (
        "--model.rewards '[TestsReward]' --model.rewards '[FormatReward]'",
        ("--model.rewards is given twice, and the last one counts", "--model.rewards '[A, B]'"),
    ),
    "an item's key": (
        "--model.rewards '[TestsReward]' --model.rewards.0.weight 2",
        ("model.rewards is a list: model.rewards.weight changes its last item",),
    ),
    "a folder for a class": ("--model.policy some/model", ("--model.policy CausalLM --model.policy.model some/model",)),
    "a mistyped divergence": (
        "--model Distillation --model.teacher reference --model.distil.divergence SampledReversKL",
        ("there is no class SampledReversKL; did you mean SampledReverseKL",),
    ),
    "a logger by name": ("--trainer.logger wandb", ("trainer.logger: expected a class such as TensorBoardLogger",)),
    "a logger without its package": (
        "--trainer.logger lightning.pytorch.loggers.CometLogger",
        ("CometLogger needs the package comet_ml: pip install comet_ml",),
    ),
    **{
        f"a value of the optimizer: {name}": (f"--model.update.optimizer.{flag}", ("update.optimizer cannot", *parts))
        for name, flag, parts in (
            ("its rate", "lr -1", ("Invalid learning rate: -1.0; correct its arguments",)),
            ("its decay", "weight_decay -1", ("Invalid weight_decay value", "correct")),
            ("its betas", "betas [0.9,1.5]", ("Invalid beta parameter at index 1", "correct")),
        )
    },
    "an optimizer for matrices": (
        "--model.update.optimizer torch.optim.Muon",
        ("update.optimizer cannot be built: Muon only supports 2D", "or take another class$"),
    ),
    "a schedule without its step": (
        "--model.update.lr_scheduler torch.optim.lr_scheduler.StepLR",
        ("model.update.lr_scheduler: the class there needs step_size", "lr_scheduler.init_args.step_size"),
    ),
    "PPO without its critic": (
        "--model PPO",
        ("model: PPO needs critic: give it as model.init_args.critic (", "SeparateCritic"),
    ),
    "LoRA as a switch": ("--model.policy.lora true", ("policy.lora: expected LoRA, got 'true'; its keys are",)),
    "a sampling by its name as a flag": (
        "--model.evaluate.sampling.greedy.temperature 0",
        ("sampling: expected a dict of Sampling by name", "each with its keys, such as {greedy: {temperature: 0}}"),
    ),
    "a word for a model's fields": (
        "--model.policy.config qwen2",
        ("model.policy.config: expected keys and values such as {model_type: qwen2}, got qwen2",),
    ),
    "a mistyped field of a model": (
        "--model.policy.config.hiden_size 16",
        ("model.policy.config.hiden_size: expected a field of qwen2", "did you mean hidden_size?"),
    ),
    "a model of less than no width": (
        "--model.policy.config.hidden_size -16",
        ("model.policy.config: qwen2 cannot be built", "correct its sizes"),
    ),
    "whole numbers for weights": ("--model.policy.dtype int8", ("unknown dtype 'int8'", "float32 or bfloat16")),
    "a layer of LoRA as a text": (
        """--model.policy.lora '{"rank": 4, "target_modules": "q_proj"}'""",
        ("target_modules names q_proj, which as a text is a pattern", "or a list of some of q_proj"),
    ),
    "an option in one letter": ("-x", ("-x is unknown; --help lists what there is",)),
    "a model's folder for a module": (
        "--model runs/sft/model",
        ("there is no class runs/sft/model; a folder or hub id is given as --model.policy.model runs/sft/model",),
    ),
    "rollouts for a module that counts updates": (
        "fit --config base.yaml --model SFT --model.max_rollouts 2",
        ("model.max_rollouts is unknown to SFT, which counts updates; did you mean max_updates?",),
    ),
    "a random seed": ("--seed_everything true", ("seed_everything is true", "0 each time: give a number")),
    "a callback that accumulates gradients": (
        "fit --config base.yaml --config accumulate.yaml",
        ("GradientAccumulationScheduler, which has no effect here: use model.update.microbatch_size",),
    ),
    "a callback that averages weights": (
        "--trainer.callbacks lightning.pytorch.callbacks.StochasticWeightAveraging --trainer.callbacks.swa_lrs 0.1",
        ("StochasticWeightAveraging, which takes over schedules", "leave it out"),
    ),
    "a package by the index's name": (
        "--model.sandbox lit_rl.Sandbox --model.sandbox.packages [PyYAML]",
        ("packages names 'PyYAML', whose modules have other names: give yaml",),
    ),
    "a switch without a value": ("--validate_first", ("--validate_first needs a value", "--validate_first true")),
    "a schedule that is a function": (
        "fit --config base.yaml --config schedule.yaml",
        ("lr_scheduler: transformers.get_constant_schedule is a function: give a class", "OneCycleLR"),
    ),
    "a stop string without a list": (
        "fit --config base.yaml --config stop.yaml",
        ("stop.yaml: data.stop_strings: expected a list", "got '\\n\\n'; put it into a list$"),
    ),
    "pairs that are not written yet": (
        "check-data --data PreferencePairs --data.path pairs.jsonl",
        ("no data file at pairs.jsonl", "PreferenceWriter writes pairs (lit-rl predict --config basics_pairs)"),
    ),
    "a run in no folder": ("--run_dir ''", ("run_dir: expected a folder, got an empty text",)),
    **{
        f"nothing to train: {name}": (f"--trainer.{name} 0", (f"trainer.{name} is 0, so there is nothing to train",))
        for name in ("max_epochs", "max_steps", "limit_train_batches")
    },
    "fewer steps than endless": ("--trainer.max_steps -5", ("trainer.max_steps: expected at least -1, got -5",)),
    "a validation every 0 epochs": (
        "--trainer.check_val_every_n_epoch 0",
        ("trainer.check_val_every_n_epoch: expected at least 1, got 0",),
    ),
    "a time in words": ("--trainer.max_time tomorrow", ("trainer.max_time: expected DD:HH:MM:SS", "got tomorrow$")),
    "a migration of nothing": ("migrate nothere.yaml", ("nothere.yaml: No such file", "give the path of a YAML file")),
    "a migration of a folder": ("migrate .", (".: Is a directory", "give the path of a YAML file")),
    # -- values ----------------------------------------------------------------------------------------------
    "a word for a number": ("--trainer.max_epochs many", ("trainer.max_epochs: expected int, got many",)),
    "a word for the data's number": ("--data.batch_size many", ("data.batch_size: expected int, got many",)),
    "adapters of rank 0": ("""--model.policy.lora '{"rank": 0}'""", ("rank: expected at least 1, got 0",)),
    "a word inside LoRA": ("--model.policy.lora.rank x", ("model.policy.lora.rank: expected int, got x",)),
    "a fraction of a rollout": ("--model.max_rollouts 2.5", ("model.max_rollouts: expected int, got 2.5",)),
    "a loss that there is not": (
        "--model.objective.loss Cliped",
        ("there is no class Cliped; did you mean Clipped or Unclipped?",),
    ),
    "a loss by its former name": (
        "--model.objective.loss naive",
        ("objective.loss: there is no class naive; it is now PolicyGradient",),
    ),
    "a bound where it was before": (
        "--model.objective.clip_low 0.3",
        ("clip_low is unknown to GRPO: give model.objective.loss: {class_path: Clipped, init_args: {clip_low: ...}}",),
    ),
    "a choice that there is not": (
        "--model.objective.kl_kind k4",
        ("objective.kl_kind: expected one of 'k1', 'k2', 'k3', 'k3_weighted', got k4",),
    ),
    "a correction that there is not": (
        "--model.objective.correction Maskd",
        ("there is no class Maskd; did you mean MaskedBand? (MaskedBand, SequenceMask, TruncatedWeights)",),
    ),
    "a baseline that there is not": ("--model.baseline Mediam", ("baseline: there is no class Mediam", "GroupMean")),
    "a baseline by its former name": ("--model.baseline batch_mean", ("there is no class batch_mean; it is now",)),
    "a scale where it was before": (
        "--model.scale_by none",
        ("give model.baseline: {class_path: GroupMean, init_args: {normalize: ...}}; lit-rl migrate FILE rewrites",),
    ),
    "a key of 0.3": ("--model.num_epochs 2", ("num_epochs is unknown to GRPO: give model.update.epochs; lit-rl mig",)),
    "a key of 0.3 with a class": (
        "--model.lr_scheduler torch.optim.lr_scheduler.LinearLR",
        ("model.lr_scheduler is unknown to GRPO: give model.update.lr_scheduler",),
    ),
    "a key that is gone": ("--model.token_weights true", ("token_weights is unknown", "version 0.4 has removed it")),
    "a task's key that is gone": (
        "--data.show_public_cases true",
        ("data.show_public_cases is unknown to Basics: this version has removed it",),
    ),
    "a key outside of its group": (
        "--model.minibatches 2",
        ("minibatches is unknown to GRPO: give model.update.minibatches",),
    ),
    "a precision that there is not": ("--trainer.precision bf17", ("trainer.precision", "'bf16-mixed'", "got bf17")),
    "the dtype of an export": ("export run out --dtype bf16", ("bf16",)),
    "a dtype that there is not": ("--model.policy.dtype float33", ("unknown dtype 'float33'", "bfloat16")),
    "a list for a group": ("--model.sampling [4,24]", ("model.sampling: expected keys and values", "num_samples")),
    "a word for a group": ("--model.objective ppo", ("model.objective: expected Objective", "its keys are loss")),
    "no samples": ("--model.sampling.num_samples 0", ("Sampling.num_samples: expected at least 1, got 0",)),
    "a group of one": ("--model.sampling.num_samples 1", ("num_samples must be 2 or more, got 1",)),
    "negative temperature": ("--model.sampling.temperature -1", ("Sampling.temperature: expected at least 0",)),
    "a greedy group": ("--model.sampling.temperature 0", ("greedy", "use num_samples: 1 or a temperature")),
    "top_p above 1": ("--model.sampling.top_p 1.5", ("Sampling.top_p: expected a number from 0 to 1", "got 1.5")),
    "negative top_k": ("--model.sampling.top_k -1", ("Sampling.top_k: expected at least 0", "-1")),
    "no tokens": ("--model.sampling.max_tokens 0", ("Sampling.max_tokens: expected at least 1",)),
    "negative KL": ("--model.objective.kl_coef -1", ("Objective.kl_coef: expected at least 0, got -1",)),
    "no rows at once": ("--model.update.microbatch_size 0", ("Update.microbatch_size: expected at least 1, got 0",)),
    "no rollouts": ("--model.max_rollouts 0", ("max_rollouts: expected at least 1, got 0",)),
    "a batch of less than nothing": ("--data.batch_size -2", ("Basics.batch_size: expected at least 1, got -2",)),
    "no batch to validate": ("--data.validation_batch_size 0", ("validation_batch_size: expected at least 1",)),
    "fewer problems than none": ("--data.max_train_problems -1", ("max_train_problems: expected at least 1, got -1",)),
    "a clip of 0": ("--model.update.gradient_clip_norm 0", ("Update.gradient_clip_norm: expected a number above 0",)),
    "a negative largest KL": ("--model.update.max_kl -1", ("Update.max_kl: expected a number above 0, got -1",)),
    "negative resamples": ("--model.collect.max_resamples -1", ("Collect.max_resamples: expected at least 0, got -1",)),
    "a share of 2": ("--model.collect.max_failures 2", ("Collect.max_failures: expected a number from 0 to 1",)),
    "a refresh of never": ("--model.update.refresh_reference_every 0", ("Update.refresh_reference_every: expected",)),
    "no epochs": ("--model.update.epochs 0", ("Update.epochs: expected at least 1, got 0",)),
    "no minibatches": ("--model.update.minibatches 0", ("Update.minibatches: expected at least 1, got 0",)),
    "no rewards": ("--model.rewards null", ("GRPO needs rewards: give it as model.init_args.rewards (", "TestsReward")),
    "an empty list of rewards": ("--model.rewards []", ("list at least one reward term",)),
    "a batch larger than the data": ("--data.batch_size 100000", ("got 52", "lower batch_size")),
    "a share above 1": ("--data.bug_share 60", ("bug_share is a share in [0, 1], got 60", "0.6 for 60%")),
    "a model folder": (
        "--model.policy "
        """'{"class_path": "CausalLM", "init_args": {"model": "./not/there", "config": null, "tokenizer": null}}'""",
        ("model folder not found", "not/there", "lit-rl export RUN FOLDER writes"),
    ),
    # -- the trainer -------------------------------------------------------------------------------------------
    "a GPU that is not there": ("--trainer.accelerator cuda", ("sees no GPU here", "use cpu or auto")),
    "any GPU": ("--trainer.accelerator gpu", ("sees no GPU here",)),
    "an accelerator that there is not": ("--trainer.accelerator banana", ("trainer.accelerator is banana", "use cpu")),
    "Lightning's clipping": ("--trainer.gradient_clip_val 1.0", ("use model.update.gradient_clip_norm",)),
    "Lightning's accumulation": ("--trainer.accumulate_grad_batches 4", ("use model.update.microbatch_size",)),
    "DeepSpeed": ("--trainer.strategy deepspeed_stage_2", ("use strategy fsdp2",)),
    "FSDP1": ("--trainer.strategy fsdp", ("use strategy fsdp2",)),
    "a strategy that there is not": ("--trainer.strategy fdsp2", ("unknown strategy fdsp2", "fsdp2")),
    # -- the sandbox -------------------------------------------------------------------------------------------
    "no workers": (
        """--model.sandbox '{"class_path": "lit_rl.execution.Sandbox", "init_args": {"num_workers": 0}}'""",
        ("Sandbox.num_workers: expected at least 1, got 0",),
    ),
    "a tier that there is not": (
        """--model.sandbox '{"class_path": "lit_rl.execution.Sandbox", "init_args": {"tier": 7}}'""",
        ("tier 7 is unknown",),
    ),
    "a package that is not installed": (
        """--model.sandbox '{"class_path": "lit_rl.execution.Sandbox", "init_args": {"packages": ["numpyy"]}}'""",
        ("'numpyy', which is not installed", "pip install"),
    ),
    "a server without an address": (
        "--model.sandbox lit_rl.execution.SandboxFusionClient",
        ("pass url or set SANDBOX_URL",),
    ),
    # -- the verbs around a run ----------------------------------------------------------------------------------
    "a report of nothing": ("report .", ("no TensorBoard event files below .",)),
    "a mistyped option of report": (
        "report . --pictures x.png",
        ("--pictures is unknown; lit-rl report --help says what it takes",),
    ),
    "an export of nothing": ("export nothing out", ("no checkpoint at", "nothing: give a .ckpt")),
    "an export without arguments": ("export", ("missing: checkpoint, folder", "lit-rl export --help")),
    "a report without a run": ("report", ("missing: runs", "lit-rl report --help")),
    "a page that is a folder": ("report . --html .", ("--html . is a folder", "such as report.html")),
    "a picture that is a folder": ("report . --picture .", ("--picture . is a folder", "such as report.png")),
    "an unknown task to check": ("check-data --data NoSuchTask", ("no class NoSuchTask",)),
    "nothing to check": ("check-data", ("--config FILE or --data TASK",)),
    "a negative number of examples": (
        "check-data --data Basics --examples -1",
        ("examples: expected at least 0, got -1",),
    ),
    "no task to look for overlaps in": ("check-contamination", ("--config FILE or --data TASK",)),
    "a copy without a name": ("configs copy", ("needs a NAME",)),
    "a copy of nothing": ("configs copy basics_gpro", ("error: basics_gpro is", "did you mean basics_grpo")),
    "a wrong action": ("configs lst", ("lst", "list")),
    "a name to list": ("configs list foo", ("configs list takes no name, got foo", "configs copy foo")),
    "too much to copy": ("configs copy basics_grpo a b", ("b is one too many; lit-rl configs --help says",)),
    "a verb with an underscore": ("check_data --data Basics", ("no verb check_data; did you mean check-data?",)),
    "a longer verb with an underscore": ("check_contamination", ("did you mean check-contamination?",)),
    "a verb of other libraries": ("train --config base.yaml", ("no verb train; did you mean fit?",)),
    "another verb of other libraries": ("eval --config base.yaml", ("no verb eval; did you mean validate?",)),
    "a verb with a capital": ("Fit --config base.yaml", ("no verb Fit; did you mean fit?",)),
    "a file without its flag": ("fit base.yaml", ("base.yaml belongs to no option", "--config base.yaml")),
    "a section of no page": ("docs foo#bar", ("no page or section is called foo#bar", "lists the pages")),
    "a section that a page lacks": ("docs monitoring#nope", ("called monitoring#nope",)),
    "a word in no page": ("docs zzzzqq", ("none has all of these words", "lists the pages")),
    "fewer rollouts than none": ("report . --rollouts -3", ("rollouts: expected at least 1, got -3",)),
    "no rollouts to show": ("report . --rollouts 0", ("rollouts: expected at least 1, got 0",)),
    "the last none": ("replay . --config base.yaml --last 0", ("last: expected at least 1, got 0",)),
    "the last minus one": ("replay . --config base.yaml --last -1", ("last: expected at least 1, got -1",)),
    "a replay of nothing": ("replay nothere", ("no rollouts.jsonl.gz at or below nothere",)),
    "a run that is not there": ("show nothere", ("no rollouts.jsonl.gz at or below nothere",)),
    "a colour that there is not": ("show . --value pink", ("--value pink is unknown", "credit, advantage")),
    "a row in words": ("show . --row x", ("row: expected int, got x",)),
    "prompts of less than nothing": ("plan --prompt_tokens -1", ("prompt_tokens: expected at least 1, got -1",)),
    "completions of nothing": ("plan --completion_tokens 0", ("completion_tokens: expected at least 1, got 0",)),
    "programs that take no time": ("plan --program_seconds -1", ("program_seconds: expected a number above 0",)),
    "no GPU to plan for": ("plan --gpus 0", ("gpus: expected at least 1, got 0",)),
    "GPUs in words": ("plan --gpus many", ("gpus: expected int, got many",)),
    "a GPU that is unknown": ("plan --gpu h1000", ("gpu: expected one of", "got h1000; did you mean h100?")),
    "splits that there are not": ("check-data --data Basics --splits [valid]", ("splits: expected one of 'train'",)),
    "no workers to check with": ("check-data --data Basics --num_workers 0", ("num_workers: expected at least 1",)),
    # -- validation ------------------------------------------------------------------------------------------------
    "a validation of nothing": (
        "validate --config base.yaml --trainer.limit_val_batches 0",
        ("limit_val_batches is 0, so there is nothing to validate",),
    ),
    "a first validation of nothing": (
        "--validate_first true --trainer.limit_val_batches 0",
        ("limit_val_batches is 0, so there is nothing to validate",),
    ),
    "no problems to validate on": (
        "validate --config base.yaml --data.max_validation_problems 0",
        ("nothing to validate: raise data.max_validation_problems$",),
    ),
    "a mistyped monitor": (
        """--trainer.callbacks '[{"class_path": "Checkpointing", "init_args": """
        """{"folder": "mistyped", "monitor": "val/gredy/pass@1"}}]'""",
        ("monitor val/gredy/pass@1 is none of the metrics", "did you mean val/greedy/pass@1?"),
    ),
    "Lightning's usual monitor": (
        """--trainer.callbacks '[{"class_path": "EarlyStopping", "init_args": {"monitor": "val_loss"}}]'""",
        ("EarlyStopping's monitor val_loss is none of the metrics that validation logs: did you mean val/",),
    ),
    "no processes": ("--trainer.devices 0", ("trainer.devices: expected a number of processes from 1 on",)),
    "processes in words": ("--trainer.devices two", ("trainer.devices: expected a number of processes", "got two")),
    # -- the place of a flag or file ---------------------------------------------------------------------------
    **{
        f"{flag} without its section": (f"{flag} 5", (f"{flag[2:]} is unknown; did you mean --{section}.{flag[2:]}?$",))
        for flag, section in (("--max_rollouts", "model"), ("--batch_size", "data"), ("--devices", "trainer"))
    },
    "an argument before its class": (
        "fit --model.max_rollouts 3 --config base.yaml",
        ("error: model.max_rollouts: model has no class yet; give --config FILE or --model CLASS before it",),
    ),
    "an argument of a task before it": (
        "fit --data.num_train_problems 60 --config base.yaml",
        ("error: data.num_train_problems: data has no class yet; give --config FILE or --data CLASS before it",),
    ),
    "a file that adds to nothing": (
        "fit --config overlay.yaml",
        ("model.max_rollouts: model has no class yet; give --config FILE",),
    ),
    "a sampling without its name": (
        "--config one_sampling.yaml",
        ("expected a dict of Sampling by name", "got '0.0'", "each with its keys, such as {greedy: {temperature: 0}}"),
    ),
    "a sampling of null": ("--config no_sampling.yaml", ("got 'None'; give all names in one value, each with",)),
    # -- what strangers did --------------------------------------------------------------------------------------
    "rows where their class is wanted": (
        "check-data --data rows.jsonl",
        ("--data: expected a class, got rows.jsonl", "--data MBPP --data.path rows.jsonl", "HumanEval"),
    ),
    "rows for a run": ("--data=rows.parquet", ("--data: expected a class, got rows.parquet",)),
    "rows in a file": ("fit --config rows.yaml", ("rows.yaml: data: expected a class, got a/rows.jsonl",)),
    "a data set where its class is wanted": ("check-data --data owner/name", ("--data MBPP --data.path owner/name$",)),
    "a mistyped split": ("check-data --data Basics --splits [trian]", ("did you mean train?",)),
    "a split without brackets": ("check-data --data Basics --splits valid", ("'test'", "did you mean validation?")),
    "GPUs by their kind": ("plan --gpus h100", ("gpus: expected int, got h100",)),
    "a kind of GPU in capitals": ("plan --gpu H100", ("got H100; did you mean h100?",)),
    "a mistyped key among a group's": (
        """--model.update '{"epoch": 2}'""",
        ("model.update.epoch is unknown", "did you mean epochs?"),
    ),
    "a key that a group has not": (
        """--model Distillation --model.teacher reference --model.distil '{"beta": 0.3}'""",
        ("model.distil.beta is unknown", "divergence, weight"),
    ),
    "two callbacks that save": (
        """--trainer.callbacks '[{"class_path": "Checkpointing", "init_args": {"folder": "a"}}, """
        """{"class_path": "Checkpointing", "init_args": {"folder": "b"}}]'""",
        ("trainer.callbacks has Checkpointing more than once", "keep one"),
    ),
    "days in the wrong order": (
        "check-data --data DeepCoder --data.start_date 2024-09-01 --data.end_date 2024-08-01",
        ("start_date: expected a day up to end_date, 2024-08-01, got 2024-09-01", "swap"),
    ),
    "vLLM that is not installed": (
        "--model.collect.engine lit_rl.engines.VLLM",
        ("the engine VLLM needs the package vllm: pip install",),
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a configuration that runs, and files that are wrong."""
    here = tmp_path_factory.mktemp("mistakes")
    (here / "base.yaml").write_text(yaml.safe_dump(BASE))
    (here / "below").mkdir()
    for name, content in FILES.items():
        (here / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return here


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_in_one_line(
    mistake: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, parts = MISTAKES[mistake]
    monkeypatch.chdir(folder)
    monkeypatch.delenv("SANDBOX_URL", raising=False)
    line = one_line(command, capsys)
    assert [part for part in parts if part not in f"{line}$"] == [], line


def test_a_whole_configuration_after_one_that_changes_it_is_told(folder: Path) -> None:
    files = {name: folder / name for name in ("overlay.yaml", "whole.yaml")}
    (told,) = overridden(files)
    assert told.startswith("whole.yaml comes after overlay.yaml and overrides model.max_rollouts: ")
    assert list(overridden(dict(reversed(files.items())))) == []


@pytest.mark.parametrize("devices", [1000, "1000"])
def test_a_thousand_processes_on_a_few_cores_are_refused(devices: int | str) -> None:
    """Asked of the function alone: were it not refused, the command would start them."""
    with pytest.raises(ValueError, match=r"trainer\.devices is 1000, processes on \d+ cores"):
        check_settings({"accelerator": "cpu", "devices": devices})
    check_settings({"accelerator": "cpu", "devices": 2})


def test_a_full_disk_is_not_blamed_on_the_path() -> None:
    assert in_words(OSError(errno.ENOSPC, "No space left on device", "run/a")) == "run/a: No space left on device"
