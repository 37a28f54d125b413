"""Errors of this library, and checks of arguments before anything is loaded or run."""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import cache, wraps
from importlib import import_module
from numbers import Integral, Real
from os import PathLike
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, Self, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

_ENVIRONMENT_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_MOST_CLASSES = 3
"""Named in the answer to a value of another type."""

_HOMES = ("lit_rl.", "lightning.pytorch.callbacks.", "lightning.pytorch.loggers.")  # of the classes named there


class LitRLError(Exception):
    """An error of this library's own: one line that says what is wrong and what to do.

    The command line prints it as it is; other exceptions come with their class and a way to see the traceback.
    """


class UsageError(LitRLError, ValueError):
    """Something the user gave that cannot be used: a file, a combination of settings, an object of the wrong kind."""


class UnknownArgumentError(LitRLError, TypeError):
    """A name that a constructor does not have, with the name that was probably meant."""


class ArgumentError(UsageError):
    """An argument that cannot be used: ``key: expected X, got Y; do Z``.

    Args:
        key: the argument's name, dotted as in a configuration where it belongs to a group or class.
        expected: a phrase that describes what the argument takes.
        got: what came, as text; empty where the key says it.
        remedy: what to do; empty where ``expected`` says it.
    """

    def __init__(self, key: str, expected: str, got: str = "", remedy: str = "") -> None:
        super().__init__(key, expected, got, remedy)  # all of them, so that another process can rebuild it
        self.key, self.expected, self.got, self.remedy = key, expected, got, remedy

    def __str__(self) -> str:
        """The line."""
        line = f"{self.key}: expected {self.expected}"
        return line + (f", got {self.got}" if self.got else "") + (f"; {self.remedy}" if self.remedy else "")


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Group = TypeVar("Group")


class TypedArguments:
    """Base of classes that compare the arguments of their constructor with its annotations, as YAML does anyway.

    A constructor of a class outside this package is left alone: its annotations are its author's business.
    """

    @staticmethod
    def argument_hint(key: str, value: object) -> str:
        """Return what to do about a value of another type than the argument's, if the class knows."""
        return ""

    def __new__(cls, *args: Any, **given: Any) -> Self:
        """Check the arguments; see :func:`require_arguments`."""
        _check(cls, args, given, cls.argument_hint)
        return super().__new__(cls)


def typed_group(cls: type[Group]) -> type[Group]:
    """Class decorator for a dataclass whose fields are keys in a configuration: the same check.

    With a base that is no dataclass the parser of configurations would ask for a ``class_path``.
    """
    construct = cls.__init__

    @wraps(construct)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        _check(cls, args, given, getattr(cls, "argument_hint", TypedArguments.argument_hint))
        construct(self, *args, **given)

    cls.__init__ = checked  # type: ignore[method-assign]
    return cls


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()
"""The value of an argument that was not given, for messages."""


def _check(cls: type, args: Sequence[Any], given: Mapping[str, Any], hint: Callable[[str, object], str]) -> None:
    owner = next(base for base in cls.__mro__ if "__init__" in vars(base))
    if not (args or given) or not owner.__module__.startswith("lit_rl."):  # a copy is made without any
        return
    known = arguments_of(cls)
    placed = [name for name, one in known.items() if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(args) > len(placed):
        taken = f"{', '.join(placed)} by position" if placed else "its arguments by name"
        fitting = (name for name, one in known.items() if fits(args[len(placed)], one.annotation))
        named = next((name for name in fitting if name not in placed), "")
        remedy = f"; write the others by name, such as {named}={shown(args[len(placed)], 30)}" if named else ""
        raise UnknownArgumentError(f"{cls.__name__} takes {taken}, got {len(args)} values{remedy}")
    named_values = dict(zip(placed, args, strict=False)) | dict(given)
    require_arguments(cls, named_values, hint)
    for name, one in known.items():
        if one.default is inspect.Parameter.empty and name not in named_values:
            raise misfit(f"{cls.__name__}.{name}", one.annotation, _NOTHING)


_RESUMES = (
    "the same command resumes by itself where Checkpointing keeps the run; another checkpoint is ckpt_path of fit"
)
_ELSEWHERE = {
    "max_rollouts": "the module takes it: model.max_rollouts in a configuration",
    "resume": _RESUMES,
    "resume_from_checkpoint": _RESUMES,
    "timeout": "a program is limited by timeout_seconds of its check, such as AssertTests(..., timeout_seconds=2.0)",
}
"""Names that other places or libraries have, and where to give that here."""


def seed_or_global(seed: int | None) -> int:
    """Return a seed that is given, else that of Lightning's ``seed_everything`` if it was called, else 0."""
    return int(os.environ.get("PL_GLOBAL_SEED", 0)) if seed is None else seed


OTHER_NAMES = {
    "num_generations": "sampling.num_samples",
    "max_completion_length": "sampling.max_tokens",
    "temperature": "sampling.temperature",
    "stop": "data.stop_strings",
    "epsilon": "objective.loss.clip_low",
    "loss_type": "objective.loss",
    "beta": "objective.kl_coef",
    "per_device_train_batch_size": "update.microbatch_size",
    "num_iterations": "update.epochs",
    "steps_per_generation": "update.minibatches",
    "lr": "update.optimizer.lr",
    "learning_rate": "update.optimizer.lr",
    "optimizer": "update.optimizer",
    "max_grad_norm": "update.gradient_clip_norm",
}
"""Names that people bring along from other libraries, and where they are here."""


def elsewhere(name: str, known: Iterable[str] = ()) -> str:
    """Say where an argument that is unknown here is given, or which of the known ones counts so; else nothing."""
    if name == "max_rollouts" and "max_updates" in known:
        return ", which counts updates; did you mean max_updates?"
    return f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""


def require_arguments(cls: type, given: Mapping[str, Any], hint: Callable[[str, object], str] | None = None) -> None:
    """Compare the arguments of a constructor with its annotations.

    Args:
        cls: the class.
        given: its arguments by name.
        hint: from a name and a value that does not fit to what to do, or nothing.

    Raises:
        UnknownArgumentError: the constructor has no such argument.
        ArgumentError: a value does not fit the annotation.
    """
    known = arguments_of(cls)
    for name, value in given.items():
        if name not in known:
            near = get_close_matches(name, list(known), n=1)
            meant = f"; did you mean {near[0]}?" if near else f": it takes {', '.join(known)}"
            meant = elsewhere(name, known) or meant
            raise UnknownArgumentError(f"{cls.__name__} has no argument {name}{meant}")
        if not (fits(value, known[name].annotation) or value is known[name].default):
            remedy = hint(name, value).removeprefix("; ") if hint is not None else ""
            raise misfit(f"{cls.__name__}.{name}", known[name].annotation, value, remedy)


def typed_arguments(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Have a function compare its arguments with its annotations at each call."""

    @wraps(function)
    def checked(*args: Parameters.args, **given: Parameters.kwargs) -> Result:
        hints = _hints_of(function)
        for name, value in inspect.signature(function).bind(*args, **given).arguments.items():
            if not fits(value, hints.get(name, Any)):
                raise misfit(name, hints[name], value)
        return function(*args, **given)

    return checked


def arguments_at(class_path: str) -> Mapping[str, inspect.Parameter]:
    """Return the constructor arguments of a class by name; empty if the class is missing or has no signature."""
    module, _, name = class_path.rpartition(".")
    try:
        return inspect.signature(getattr(import_module(module), name)).parameters
    except (ImportError, AttributeError, ValueError, TypeError):
        return {}


_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@cache
def arguments_of(cls: Any) -> Mapping[str, inspect.Parameter]:
    """The arguments of a class with their types, and those of its bases to which its ``**kwargs`` go."""
    known: dict[str, inspect.Parameter] = {}
    for base in inspect.getmro(cls):
        if "__init__" in vars(base):
            own = inspect.signature(vars(base)["__init__"]).parameters
            hints = _hints_of(base if is_dataclass(base) else vars(base)["__init__"])
            for name, one in own.items():
                if one.kind not in _VARIABLE and name != "self":
                    known.setdefault(name, one.replace(annotation=hints.get(name, Any)))
            if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in own.values()):
                break
    return known


@cache
def _hints_of(what: Any) -> dict[str, Any]:
    """Return the types of arguments; none where a name is imported for type checkers only."""
    try:
        return get_type_hints(what)
    except NameError:
        return {}


LISTS = (list, tuple, Sequence, Iterable)
"""Types of several values in order."""


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of the annotated type; a type that cannot be looked into fits anything."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or value is None:
        return hint in (Any, None, NoneType) or NoneType in inner
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return any(isinstance(value, type(one)) and value == one for one in inner)
    if hint is str:
        return isinstance(value, str | PathLike)
    if hint in (int, float):
        number = isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
        return number and value == value  # NaN fits nothing
    kind = origin or hint
    if kind is Callable:
        return callable(value)
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    if kind in LISTS:
        items = isinstance(value, Iterable if kind is Iterable else Sequence) and not isinstance(value, str | bytes)
        return items and (not inner or not isinstance(value, Sequence) or all(fits(one, inner[0]) for one in value))
    if kind in (dict, Mapping):
        return isinstance(value, Mapping) and all(fits(one, inner[1]) for one in value.values() if inner)
    return isinstance(value, kind)


def misfit(name: str, hint: Any, value: object, remedy: str = "") -> ArgumentError:
    """The error for a value of another type; for values inside a mapping or a list it names them."""
    kinds = list(alternatives(hint))
    for kind in kinds:
        container, inner = get_origin(kind), get_args(kind)
        if container in (dict, Mapping) and isinstance(value, Mapping):
            key = next(key for key, one in value.items() if not fits(one, inner[1]))
            return misfit(f"{name}[{key!r}]", inner[1], value[key])
        if container in LISTS and isinstance(value, list | tuple):
            index = next(index for index, one in enumerate(value) if not fits(one, inner[0]))
            return misfit(f"{name}[{index}]", inner[0], value[index])
    wanted = " or ".join(dict.fromkeys(map(_described, kinds)))
    return ArgumentError(name, wanted, shown(value), remedy or _remedy(kinds, value))


def alternatives(hint: Any) -> Iterator[Any]:
    """Yield the types of a union, each once."""
    if get_origin(hint) in (Union, UnionType):
        for one in get_args(hint):
            yield from alternatives(one)
    else:
        yield hint


def _described(hint: Any) -> str:
    """An annotation in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if hint is None or hint is NoneType:
        return "None"
    if origin in LISTS:
        return f"a list of {' or '.join(map(_described, alternatives(inner[0])))}"
    if origin in (dict, Mapping):
        return "a dict" if inner[1] is Any else f"a dict of {_described(inner[1])} by name"
    if origin is Callable:
        returned = " or ".join(map(_described, alternatives(inner[1]))) if inner else ""
        return f"a function that returns an object of {returned}" if returned else "a function"
    return str(getattr(hint, "__name__", hint))


def _remedy(kinds: Sequence[Any], value: object) -> str:
    """Return the thing to write instead of a value, empty where that is unknown."""
    if any(get_origin(kind) in LISTS and fits(value, get_args(kind)[0]) for kind in kinds):
        return "put it into a list"
    kinds = [*kinds, *(one for kind in kinds if get_origin(kind) in LISTS for one in alternatives(get_args(kind)[0]))]
    if isinstance(value, type) and any(isinstance(kind, type) and issubclass(value, kind) for kind in kinds):
        return f"give an object of the class, {value.__name__}(...)"
    if isinstance(value, str) and {int, float} & {*kinds} and value.strip("+-").replace(".", "", 1).isdigit():
        return f"write {value} without quotes"
    if any(get_origin(kind) is Callable and fits(value, get_args(kind)[1]) for kind in kinds):
        return f"give a function that builds it, such as lambda it: {type(value).__name__}(it)"
    if any(get_origin(kind) in (dict, Mapping) and fits(value, get_args(kind)[1]) for kind in kinds):
        return "put it into a dict under a name, such as {'greedy': ...}"
    ours = [kind for kind in kinds if isinstance(kind, type) and kind.__module__.startswith(_HOMES)]
    if any(isinstance(getattr(value, "policy", None), kind) for kind in ours):
        return f"give its policy, {type(value).__name__}(...).policy"
    if hasattr(value, "problems") and any(kind.__name__ == "Problem" for kind in ours):
        return f"give {type(value).__name__}(...).problems('validation')"
    for kind in ours:
        if isinstance(value, Mapping) and value.keys() <= arguments_of(kind).keys() and not inspect.isabstract(kind):
            return f"write {kind.__name__}({', '.join(f'{key}={shown(one, 30)}' for key, one in value.items())})"
    if inspect.isfunction(value) and (base := next((kind for kind in ours if inspect.isabstract(kind)), None)):
        methods = ", ".join(sorted(base.__abstractmethods__))  # type: ignore[attr-defined]
        return f"write a class derived from {base.__name__} with {methods}: lit-rl docs own_task shows one"
    built = sorted({(".toys." in of.__module__, of.__name__) for kind in ours for of in _built_of(kind)})
    known = {name.lower(): name for _, name in built}
    given = value if isinstance(value, str) else type(value).__name__
    near = [known[one] for one in get_close_matches(given.lower(), known, n=1) or list(known)[:_MOST_CLASSES]]
    return f"give an object such as {' or '.join(f'{name}(...)' for name in near)}" if near else ""


def _built_of(kind: type) -> Iterator[type]:
    """Yield the public classes of this package that are of a kind and can be built."""
    if not inspect.isabstract(kind) and kind.__module__.startswith(_HOMES) and kind.__name__[0] != "_":
        yield kind
    below: type
    for below in kind.__subclasses__():
        yield from _built_of(below)


def require_at_least(least: float, owner: object = None, /, **values: float | None) -> None:
    """Raise ArgumentError, which names the owner's class, unless numbers are large enough; NaN is not, None is."""
    _require_each(owner, values, f"at least {least}", lambda value: value >= least)


def require_above(bound: float, owner: object = None, /, **values: float | None) -> None:
    """Raise ArgumentError unless numbers are above a bound; ``None`` is ignored, NaN is not above it."""
    _require_each(owner, values, f"a number above {bound}", lambda value: value > bound)


def require_share(owner: object, /, **values: float | None) -> None:
    """Raise ArgumentError unless numbers are from 0 to 1; ``None`` is ignored."""
    _require_each(owner, values, "a number from 0 to 1", lambda value: 0 <= value <= 1)


def require_clip(owner: object, /, **values: float | None) -> None:
    """Raise ArgumentError unless distances of a ratio's lower bound from 1 are in (0, 1]; ``None`` is ignored."""
    remedy = "0.2 is usual, and 1 would be no lower bound, since ratios are above 0"
    _require_each(owner, values, "a number above 0 and at most 1", lambda value: 0 < value <= 1, remedy)


def _require_each(
    owner: object, values: Mapping[str, float | None], wanted: str, right: Callable[[float], bool], remedy: str = ""
) -> None:
    of = "" if owner is None else f"{type(owner).__name__}."
    for name, value in values.items():
        if value is not None and not right(value):
            raise ArgumentError(f"{of}{name}", wanted, shown(value), remedy)


def require_number(owner: object, key: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """A constructor argument as a finite float within ``[low, high]``; else raise ArgumentError."""
    if not _is_number(value) or not low <= value <= high:
        limits = "a finite number" if low == -math.inf and high == math.inf else f"a number in [{low}, {high}]"
        raise ArgumentError(f"{type(owner).__name__}.{key}", limits, shown(value))
    return float(value)


def require_seconds(owner: object, *names: str) -> None:
    """Raise ArgumentError unless the fields hold a finite number of seconds above 0."""
    _require(owner, names, "a finite number of seconds above 0", lambda value: _is_number(value) and value > 0)


def require_count(owner: object, *names: str) -> None:
    """Raise ArgumentError unless the fields are whole numbers of at least 1."""
    _require(owner, names, "a whole number of at least 1", lambda value: type(value) is int and value >= 1)


def require_not_negative(owner: object, name: str) -> None:
    """Raise ArgumentError unless a field holds a finite number of at least 0."""
    _require(owner, [name], "a finite number of at least 0", lambda value: _is_number(value) and value >= 0)


def require_switch(owner: object, *names: str) -> None:
    """Raise ArgumentError unless the fields are True or False: the text "false" would count as True."""
    _require(owner, names, "True or False", lambda value: type(value) is bool)


def require_one_of(owner: object, name: str, known: Sequence[str]) -> None:
    """Raise ArgumentError unless a field is one of the known words."""
    _require(owner, [name], f"one of {', '.join(known)}", lambda value: value in known)


def require_items(owner: object, name: str) -> None:
    """Raise ArgumentError unless a field is a tuple with an item: a check without tests would pass every program."""
    where, value = f"{type(owner).__name__}.{name}", getattr(owner, name)
    if not isinstance(value, tuple):
        raise ArgumentError(where, "a tuple", type(value).__name__)
    if not value:
        raise ArgumentError(where, "at least one", "none", "every program would pass")


def with_variables(text: str) -> str:
    """Expand the environment variables in a path.

    Raises:
        FileNotFoundError: one is not set.
    """
    expanded = os.path.expandvars(text)
    if unset := _ENVIRONMENT_VARIABLE.search(expanded):
        name = unset[1] or unset[2]
        raise FileNotFoundError(
            f"{text}: the environment variable {name} is not set: `export {name}=FOLDER`, or give another path"
        )
    return expanded


def shown(value: object, longest: int = 80) -> str:
    """The beginning of a value's ``repr`` on one line, for messages."""
    text = " ".join(f"{value!r:.300}".split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _require(owner: object, names: Sequence[str], wanted: str, is_right: Callable[[Any], bool]) -> None:
    for name in names:
        value = getattr(owner, name)
        if not is_right(value):
            raise ArgumentError(f"{type(owner).__name__}.{name}", wanted, shown(value))
