"""Names of version 0.3 and what they are called now: for messages, ``lit-rl migrate``, and old checkpoints.

Plain data and plain functions: nothing heavy is imported, so that a message costs no start of torch.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from lit_rl.arguments import UnknownArgumentError, UsageError, arguments_of

ARGUMENTS = {
    "optimizer": "update.optimizer",
    "lr_scheduler": "update.lr_scheduler",
    "gradient_clip_norm": "update.gradient_clip_norm",
    "microbatch_size": "update.microbatch_size",
    "max_tokens_per_microbatch": "update.microbatch_tokens",
    "num_epochs": "update.epochs",
    "num_minibatches": "update.minibatches",
    "aggregate": "update.aggregate",
    "largest_kl": "update.max_kl",
    "mask_truncated": "update.mask_truncated",
    "refresh_reference_every": "update.refresh_reference_every",
    "engine": "collect.engine",
    "environment": "collect.environment",
    "sampler_check": "collect.sampler_check",
    "staleness": "collect.staleness",
    "max_resamples": "collect.max_resamples",
    "max_infrastructure_failures": "collect.max_failures",
    "validation_sampling": "evaluate.sampling",
    "predict_sampling": "evaluate.predict",
    "critic_lr": "critic_update.learning_rate",
    "critic_gradient_clip_norm": "critic_update.gradient_clip_norm",
    "critic_warmup_rollouts": "critic_update.warmup_rollouts",
    "value_coef": "critic_update.coef",
    "value_clip": "critic_update.value_clip",
}
"""Arguments of algorithms whose value moves as it is."""

OF_PPO = {
    "gamma": "estimator.init_args.gamma",
    "gae_lambda": "estimator.init_args.gae_lambda",
    "whiten_advantages": "estimator.init_args.whiten",
}
"""Arguments that went with GAE, which is now the estimator."""

REPLACED = {
    "scale_by": "baseline.GroupMean.normalize",
    "truncation": "critic_update.bootstrap_truncated or update.mask_truncated",
    "clip_low": "objective.loss.Clipped.clip_low",
    "clip_high": "objective.loss.Clipped.clip_high",
    "dual_clip": "objective.loss.Clipped.dual_clip",
    "importance_cap": "objective.loss.ImportanceSampling.cap",
}
"""Arguments whose value has another form now; the name of a class means an object of it."""

REMOVED = {"token_weights": False, "kl_horizon": 10000}
"""Arguments that are gone, and the value at which they did nothing."""

REMOVED_LATER: dict[str, Any] = {
    "Basics.show_public_cases": False,
    "CodeCompletion.train_on_places": False,
    "DeepCoder.max_tests": None,
    "EinsteinToolkit.max_source_chars": None,
    "LLMJudgeReward.cache_file": None,
    "OpenCodeInstruct.min_judge_score": None,
    "RoboInstruct.use_revision": True,
    "TestsReward.blame": True,
    **{f"{name}.split_seed": 0 for name in ("EinsteinToolkit", "HumanEval", "RoboInstruct")},
    **{f"{name}.split_seed": 0 for name in ("HumanEvalX", "MultiPLE")},
}
"""The same of classes that a configuration names, with their classes; gone since version 0.4."""

ELSEWHERE = {
    "num_generations": "sampling.num_samples",
    "max_completion_length": "sampling.max_tokens",
    "epsilon": "objective.loss.Clipped.clip_low",
    "loss_type": "objective.loss",
    "beta": "objective.kl_coef",
    "per_device_train_batch_size": "update.microbatch_size",
    "num_iterations": "update.epochs",
    "steps_per_generation": "update.minibatches",
    "learning_rate": "update.optimizer",
    "max_grad_norm": "update.gradient_clip_norm",
}
"""Names that people bring along from other libraries, or put in the wrong place."""

LOSSES = {
    "clipped": "Clipped",
    "unclipped": "Unclipped",
    "naive": "PolicyGradient",
    "cispo": "CISPO",
    "importance_sampling": "ImportanceSampling",
}
_LOSS_ARGUMENTS = {
    "clip_low": "clip_low",
    "clip_high": "clip_high",
    "dual_clip": "dual_clip",
    "importance_cap": "cap",
}
_READ_BY = {
    "Clipped": ("clip_low", "clip_high", "dual_clip"),
    "CISPO": ("clip_low", "clip_high"),
    "ImportanceSampling": ("importance_cap",),
}
_CISPO_DEFAULT = {"clip_low": 0.2, "clip_high": 0.2}  # by name it had both bounds

BASELINES: dict[str, tuple[str, dict[str, Any]]] = {
    "group_mean": ("GroupMean", {}),
    "leave_one_out": ("LeaveOneOut", {}),
    "batch_mean": ("BatchMean", {}),
    "none": ("NoBaseline", {}),
    "max_rewards": ("MaxRewards", {}),
    "mean": ("BatchMean", {"normalize": "none"}),
    "rewards": ("NoBaseline", {}),
    "centered_rewards": ("GroupMean", {"normalize": "none"}),
    "normalized_rewards": ("GroupMean", {"normalize": "std", "eps": 1e-5}),
}
"""Advantages by the name they had as ``baseline`` of GRPO or REINFORCE, or as ``deltas``: class and arguments."""

CLASSES: dict[str, str] = {
    "OwnTrunk": "SeparateCritic",
    "SharedBase": "SharedCritic",
    "Board": "TensorBoardLayout",
    "Screen": "ProgressScreen",
}
"""Classes that have another name now."""

MODULES: dict[str, str] = {
    "lit_rl.data.prefer_mixed": "lit_rl.data.problem_loader",
    "lit_rl.data.toys.corridor": "lit_rl.data.toys.toy_tasks",
    "lit_rl.data.toys.sorting": "lit_rl.data.toys.toy_tasks",
    "lit_rl.rewards.bleu": "lit_rl.rewards.similarity",
    "lit_rl.rewards.dataflow": "lit_rl.rewards.similarity",
    "lit_rl.rewards.format": "lit_rl.rewards.penalties",
    "lit_rl.rewards.length": "lit_rl.rewards.penalties",
    "lit_rl.rewards.turns": "lit_rl.rewards.penalties",
    "lit_rl.rollout.single_turn": "lit_rl.rollout.environment",
}
"""Files with classes that a configuration can name, and where these classes are now."""


def require_known(cls: type, given: Mapping[str, object]) -> None:
    """Check whether a class takes the arguments that it is given; the message says where an unknown one belongs.

    Raises:
        UnknownArgumentError: one is unknown.
    """
    known = arguments_of(cls)
    for name in given:
        if name not in known:
            raise UnknownArgumentError(f"{cls.__name__} has no argument {name}{hint(name, known)}")


def arguments_at(class_path: str) -> Mapping[str, inspect.Parameter]:
    """Return the constructor arguments of a class by name; empty if the class is missing or has no signature.

    Args:
        class_path: module and name, such as ``lit_rl.modules.GRPO``.
    """
    module, _, name = class_path.rpartition(".")
    try:
        return inspect.signature(getattr(import_module(module), name)).parameters
    except (ImportError, AttributeError, ValueError, TypeError):
        return {}


def hint(name: str, known: Mapping[str, object]) -> str:
    """A remedy for an unknown argument of an algorithm as Python writes it, to append to the message.

    Args:
        name: of the argument.
        known: those that there are, by name, as :func:`inspect.signature` lists them.
    """
    if name in REMOVED:
        return ": version 0.4 has removed it; leave it out"
    if places := places_now(name, known):
        return f": give {' or '.join(_in_python(place.split('.'), known) for place in places)}"
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else f": it takes {', '.join(known)}"


def hint_of_key(name: str, known: Mapping[str, object], file: str = "FILE") -> str:
    """A remedy for an unknown key of an algorithm as a configuration writes it; nothing where none is known.

    Args:
        name: of the key.
        known: arguments of the algorithm by name, as :func:`inspect.signature` lists them.
        file: that ``lit-rl migrate`` would rewrite.
    """
    tool = f"; lit-rl migrate {file} rewrites a configuration of version 0.3"
    if name in REMOVED:
        return f": version 0.4 has removed it{tool}"
    places = " or ".join(map(_in_yaml, places_now(name, known)))
    return f": give {places}{tool if name in ARGUMENTS | OF_PPO | REPLACED else ''}" if places else ""


def places_now(name: str, known: Mapping[str, object]) -> list[str]:
    """Return the present places of an argument, such as ``update.epochs`` or ``baseline.GroupMean.normalize``.

    Args:
        name: of the argument.
        known: those that the algorithm takes, by name, as :func:`inspect.signature` lists them.
    """
    of_gae = {old: new.replace("init_args", "GAE") for old, new in OF_PPO.items()}
    found = (ELSEWHERE | ARGUMENTS | REPLACED | of_gae).get(name, "").split(" or ")
    places = [place for place in found if _has(known, *place.split("."))]
    return places or [f"{group}.{name}" for group in known if name in _fields_of(group, known)]


def _has(known: Mapping[str, object], group: str, name: str = "", *_: str) -> bool:
    return group in known and (not name or name[0].isupper() or name in (_fields_of(group, known) or (name,)))


def _fields_of(group: str, known: Mapping[str, object]) -> Collection[str]:
    return getattr(getattr(known[group], "default", None), "__dataclass_fields__", ())


def _in_python(place: Sequence[str], known: Mapping[str, object]) -> str:
    """``update=Update(epochs=...)``."""
    name, *rest = place
    if not rest:
        return f"{name}=..."
    if rest[0][0].isupper():
        kind, *rest = rest
    else:
        kind = type(getattr(known[name], "default", None)).__name__
    return f"{name}={kind}({_in_python(rest, known)})"


def _in_yaml(place: str) -> str:
    """``model.update.epochs``, or ``model.baseline: {class_path: GroupMean, init_args: {normalize: ...}}``."""
    parts = place.split(".")
    kind = next((part for part in parts if part[0].isupper()), None)
    if kind is None:
        return f"model.{place}"
    at = parts.index(kind)
    return f"model.{'.'.join(parts[:at])}: {{class_path: {kind}, init_args: {{{parts[at + 1]}: ...}}}}"


def value_now(key: str, value: object) -> str:
    """``; it is now PolicyGradient`` for a value that had another name, else nothing.

    Args:
        key: the argument, such as ``loss``.
        value: what was given for it.
    """
    if not isinstance(value, str):
        return ""
    if key == "loss" and value in LOSSES:
        kind, arguments = LOSSES[value], _CISPO_DEFAULT if value == "cispo" else {}
    elif key in ("baseline", "deltas") and value in BASELINES:
        kind, arguments = BASELINES[value]
    else:
        return ""
    given = ", ".join(f"{name}: {one}" for name, one in arguments.items())
    return f"; it is now {kind}{f' with {given}' if given else ''}"


Config = MutableMapping[str, Any]


def migrate(config: Config) -> list[str]:
    """Rewrite a configuration of version 0.3 in place; one of this version stays as it is.

    Args:
        config: of a run, as YAML reads it.

    Returns:
        what was rewritten, a line each.

    Raises:
        ValueError: it sets an option that this version no longer has.
    """
    changes: list[str] = []
    _rename_classes(config, changes)
    model = config.get("model")
    if isinstance(model, MutableMapping):
        arguments = model.get("init_args", model)
        if isinstance(arguments, MutableMapping):
            _migrate_algorithm(arguments, str(model.get("class_path", "")).rpartition(".")[2], changes)
    return changes


def _rename_classes(node: Any, changes: list[str]) -> None:
    if isinstance(node, MutableMapping):
        path = node.get("class_path")
        if isinstance(path, str) and (new := _renamed_class(path)) != path:
            node["class_path"] = new
            changes.append(f"{path} is {new}")
        _leave_out_removed(str(path).rpartition(".")[2], node.get("init_args"), changes)
        for key, value in node.items():
            if isinstance(value, str) and key == "critic" and (new := _renamed_class(value)) != value:
                node[key] = new
                changes.append(f"{value} is {new}")
            _rename_classes(value, changes)
    elif isinstance(node, list):
        for value in node:
            _rename_classes(value, changes)


def _leave_out_removed(name: str, arguments: Any, changes: list[str]) -> None:
    for key in list(arguments) if isinstance(arguments, MutableMapping) else ():
        option = f"{name}.{key}"
        if option in REMOVED_LATER:
            if arguments.pop(key) != REMOVED_LATER[option]:
                raise UsageError(f"{option}: this version has removed it; leave it out")
            changes.append(f"{option} is left out: this version has removed it")


def _renamed_class(path: str) -> str:
    home, dot, name = path.rpartition(".")
    if home and home.split(".")[0] != "lit_rl":
        return path
    return f"{MODULES.get(home, home)}{dot}{CLASSES.get(name, name)}"


def _migrate_algorithm(arguments: Config, algorithm: str, changes: list[str]) -> None:
    _loss_of_name(arguments.get("objective"), changes)
    _advantages_of_name(arguments, algorithm, changes)
    for name, nothing in REMOVED.items():
        if name in arguments and arguments.pop(name) not in (nothing, None):
            raise UsageError(f"{name}: version 0.4 has removed it; leave it out")
    if "truncation" in arguments:
        treatment = arguments.pop("truncation")
        changes.append(f"truncation: {treatment} is {_TRUNCATIONS.get(treatment, 'the default')}")
        if treatment in _TRUNCATIONS:
            _put(arguments, _TRUNCATIONS[treatment], True)
    moved = ARGUMENTS | (OF_PPO if algorithm == "PPO" else {})
    if arguments.get("estimator") is not None:
        for name in OF_PPO:
            moved.pop(name, None)
            if algorithm == "PPO":
                arguments.pop(name, None)  # it had to be the default together with an estimator
    elif algorithm == "PPO":
        arguments.pop("estimator", None)
        if any(name in arguments for name in OF_PPO):
            _put(arguments, "estimator.class_path", "lit_rl.advantages.GAE")
    for name in [name for name in arguments if name in moved]:
        _put(arguments, moved[name], arguments.pop(name))
        changes.append(f"{name} is {moved[name]}")


_TRUNCATIONS = {"bootstrap": "critic_update.bootstrap_truncated", "mask": "update.mask_truncated"}


def _loss_of_name(objective: Any, changes: list[str]) -> None:
    if not isinstance(objective, MutableMapping):
        return
    flat = {name: objective.pop(name) for name in _LOSS_ARGUMENTS if name in objective}
    given = {name: value for name, value in flat.items() if value is not None}
    loss = objective.get("loss", "clipped")
    if not isinstance(loss, str) or (loss not in LOSSES and not given):
        return
    kind = LOSSES.get(loss, loss)
    values = {_LOSS_ARGUMENTS[name]: value for name, value in given.items() if name in _READ_BY.get(kind, ())}
    if kind == "CISPO":
        values = _CISPO_DEFAULT | values
    if "loss" in objective or values:
        objective["loss"] = {"class_path": f"lit_rl.losses.{kind}"} | ({"init_args": values} if values else {})
        changes.append(f"loss: {loss} is the class {kind}")


def _advantages_of_name(arguments: Config, algorithm: str, changes: list[str]) -> None:
    scale = arguments.pop("scale_by", None)
    if scale is not None and "baseline" not in arguments:
        arguments["baseline"] = "group_mean"
    for key in ("baseline", "deltas"):
        name = arguments.get(key)
        _scale_is_normalize(name)
        if not isinstance(name, str) or name not in BASELINES:
            continue
        kind, values = BASELINES[name]
        if algorithm != "REINFORCE" and name in ("group_mean", "leave_one_out", "batch_mean") and scale is not None:
            values = {"normalize": scale}
        arguments[key] = {"class_path": f"lit_rl.advantages.{kind}"} | ({"init_args": dict(values)} if values else {})
        changes.append(f"{key}: {name} is the class {kind}")


def _scale_is_normalize(node: Any) -> None:
    """Rename the argument in a class's configuration and in those inside of it."""
    if isinstance(node, MutableMapping):
        if "scale_by" in node:
            node["normalize"] = node.pop("scale_by")
        for value in node.values():
            _scale_is_normalize(value)


def _put(arguments: Config, path: str, value: Any) -> None:
    *groups, name = path.split(".")
    for group in groups:
        inner = arguments.get(group)
        if not isinstance(inner, MutableMapping):
            inner = arguments[group] = type(arguments)() if type(arguments) is not dict else {}
        arguments = inner
    arguments[name] = value
