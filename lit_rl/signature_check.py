"""Compare arguments with the constructors' signatures: in Python, and in configurations before anything is built.

:func:`check_and_convert` also accepts what is meant: a hub id or folder for a policy, keys and values for a group of
settings, a generator for a list, a dtype of torch for its name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache, wraps
from importlib import import_module
from math import inf, isfinite
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, ParamSpec, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from lit_rl.errors import ArgumentError, UnknownArgumentError, UsageError, did_you_mean, short_repr

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Group = TypeVar("Group")

OTHER_NAMES = {
    "num_generations": "sampling.num_samples",
    "max_completion_length": "sampling.max_tokens",
    "max_new_tokens": "sampling.max_tokens",
    "epsilon": "objective.loss.clip_low",
    "loss_type": "objective.loss",
    "beta": "objective.kl_coef",
    "per_device_train_batch_size": "update.microbatch_size",
    "num_iterations": "update.epochs",
    "steps_per_generation": "update.minibatches",
    "max_grad_norm": "update.gradient_clip_norm",
    "lr": "update.optimizer.lr",
    "learning_rate": "update.optimizer.lr",
}
"""Names that people bring along from other libraries, and their places in an algorithm here."""

_REDIRECT_HINTS = {
    "stop": "write data.stop_strings, in Python stop_strings=[...] of the task",
    "max_rollouts": "write model.max_rollouts, in Python max_rollouts=... of the algorithm",
    "resume_from_checkpoint": "the same command resumes by itself where Checkpointing keeps the run",
    "timeout": "write timeout_seconds of the check, such as AssertTests(..., timeout_seconds=2.0)",
}
_TEXT_SHORTHANDS = {"Policy": ("lit_rl.models.CausalLM", "model")}
"""Classes for which a text may be given: it becomes this argument of an object of another class."""

_WRITTEN = {int: re.compile(r"[+-]?\d+"), float: re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")}
"""Texts that a configuration may have for numbers: the parser reads them as numbers, even if PyYAML does not."""
_LISTS = (list, tuple, Sequence, Iterable)
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class ValueLimit:
    """Limits of an argument, beside its type: ``Annotated[int, ValueLimit("at least 1", lambda value: value >= 1)]``.

    Args:
        words: description of the allowed values, for messages.
        takes: function that says whether a value of the type is within the limits.
        remedy: what to do if a value is not.
    """

    words: str
    takes: Callable[[Any], bool]
    remedy: str = ""


PositiveInt = Annotated[int, ValueLimit("at least 1", lambda value: value >= 1)]
NonNegativeInt = Annotated[int, ValueLimit("at least 0", lambda value: value >= 0)]
NonNegativeFloat = Annotated[float, ValueLimit("at least 0", lambda value: value >= 0)]
PositiveFloat = Annotated[float, ValueLimit("a number above 0", lambda value: value > 0)]
FiniteFloat = Annotated[float, ValueLimit("a finite number", isfinite)]
Seconds = Annotated[float, ValueLimit("a finite number of seconds above 0", lambda value: 0 < value < inf)]
Share = Annotated[float, ValueLimit("a number from 0 to 1", lambda value: 0 <= value <= 1)]
PositiveShare = Annotated[float, ValueLimit("a number above 0 and at most 1", lambda value: 0 < value <= 1)]


class CommandLineText(str):
    """A value as it was typed on a command line: a text, or YAML where another type is wanted."""

    def parse_yaml(self) -> Any:
        """Return the value that YAML reads; a text that is not YAML stays a text."""
        import yaml  # here, since a sandbox starts without yaml

        try:
            return yaml.safe_load(self)
        except yaml.YAMLError:
            return str(self)


class ArgumentChecks:
    """Base of classes that compare the arguments of their constructor with its annotations, as for configurations.

    A constructor of a class outside this package is left alone: its annotations are its author's business.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "__init__" in vars(cls) and cls.__module__.startswith("lit_rl."):
            cls.__init__ = _checked_constructor(vars(cls)["__init__"], cls)  # type: ignore[method-assign]

    def __new__(cls, *args: Any, **given: Any) -> Self:
        """Check a dataclass, whose constructor is made after its class."""
        if is_dataclass(cls) and not hasattr(cls.__init__, "__wrapped__") and (args or given):
            cls.__init__ = _checked_constructor(cls.__init__, cls)
        return super().__new__(cls)


def checked_dataclass(cls: type[Group]) -> type[Group]:
    """Check the arguments of a dataclass whose fields are keys in a configuration (a class decorator).

    With :class:`ArgumentChecks` as a base, the parser of configurations would ask for a ``class_path``.
    """
    cls.__init__ = _checked_constructor(cls.__init__, cls)  # type: ignore[method-assign]
    return cls


def _checked_constructor(construct: Any, of: type) -> Any:
    own = inspect.signature(construct).parameters

    @wraps(construct)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        kind, known = type(self).__name__, constructor_parameters(of)
        names = [name for name, one in own.items() if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD][1:]
        by_place = check_and_convert_arguments(of, dict(zip(names, args, strict=False)), kind, config=False)
        given = check_and_convert_arguments(of, given, kind, config=False)
        by_key = [name for name, one in own.items() if one.kind is one.KEYWORD_ONLY]
        left = [name for name in (*names[len(args) :], *by_key) if own[name].default is inspect.Parameter.empty]
        if missing := [name for name in left if name not in given]:
            classes = [one for one in union_members(known[missing[0]].annotation) if isinstance(one, type)]
            hints = [hint for hint in map(_class_examples_hint, classes) if hint]
            raise UsageError("; ".join([f"{kind} needs {' and '.join(missing)}", *hints[:1]]))
        construct(self, *by_place.values(), *args[len(by_place) :], **given)

    return checked


def check_call_arguments(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Check a function's arguments against its annotations at each call."""
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*args: Parameters.args, **given: Parameters.kwargs) -> Result:
        hints, bound = _type_hints(function), signature.bind(*args, **given)
        for name, value in bound.arguments.items():
            bound.arguments[name] = check_and_convert(value, hints.get(name, Any), name)
        return function(*bound.args, **bound.kwargs)

    return checked


@cache
def constructor_parameters(cls: Any) -> Mapping[str, inspect.Parameter]:
    """Return the arguments of a class with their types, and those of the bases that its ``**kwargs`` go to."""
    known: dict[str, inspect.Parameter] = {}
    for base in inspect.getmro(cls):
        if "__init__" in vars(base):
            own = inspect.signature(vars(base)["__init__"]).parameters
            hints = _type_hints(base if is_dataclass(base) else vars(base)["__init__"])
            for name, one in own.items():
                if one.kind not in _VARIABLE and name != "self":
                    known.setdefault(name, one.replace(annotation=hints.get(name, Any)))
            if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in own.values()):
                break
    return known


@cache
def _type_hints(what: Any) -> dict[str, Any]:
    """Return the types of arguments; empty if a name is imported only for type checkers."""
    try:
        return get_type_hints(what, include_extras=True)
    except (NameError, TypeError):
        return {}


def check_and_convert(value: Any, hint: Any, path: str, *, config: bool = False, default: Any = None) -> Any:
    """Return a value in the form that an annotation asks for.

    Args:
        value: an object; in a configuration, what YAML holds, where a class is its name or ``{class_path: ...}``.
        hint: the annotation; a type that cannot be looked into takes anything.
        path: names the value in messages.
        config: whether the value comes from a configuration, whose parts are not built yet.
        default: the argument's default, whose class is meant if keys come without a class.
    """
    kinds, reasons, remedies = list(union_members(hint)), list[UsageError](), list[str]()
    words = [kind for kind in kinds if str(get_origin(kind)) == str(Literal)]  # first: a word is no hub id
    for kind in [*words, *(kind for kind in kinds if kind not in words)]:
        try:
            return _convert_to_type(value, kind, path, config, default)
        except _TypeMismatch as mismatch:
            remedies += mismatch.args
        except UsageError as error:
            reasons.append(error)
    if reasons and (not any(remedies) or any(str(one).startswith(f"{path}.") for one in reasons)):
        raise max(reasons, key=lambda one: len(str(getattr(one, "key", path))))
    expected = " or ".join(dict.fromkeys(map(_describe_annotation, kinds)))
    raise ArgumentError(path, expected, short_repr(value), next(filter(None, remedies), ""))


class _TypeMismatch(Exception):
    """A value has another type; the exception's argument says what to do, if that is known."""


def has_type(value: Any, hint: Any) -> bool:
    """Return whether a value is of the annotated type."""
    try:
        return check_and_convert(value, hint, "") is value
    except UsageError:
        return False


def union_members(hint: Any) -> Iterator[Any]:
    """Yield the types of a union."""
    if get_origin(hint) in (Union, UnionType):
        for one in get_args(hint):
            yield from union_members(one)
    else:
        yield hint


def _convert_to_type(value: Any, kind: Any, path: str, config: bool, default: Any) -> Any:
    home, inner, remedy = get_origin(kind) or kind, get_args(kind), ""
    if isinstance(value, CommandLineText) and kind is not str:
        value = value.parse_yaml()
    if kind is Any:
        return value
    if home is Annotated:
        found = _convert_to_type(value, inner[0], path, config, default)
        for limit in inner[1:]:
            if isinstance(limit, ValueLimit) and not limit.takes(
                inner[0](found) if inner[0] in (int, float) else found
            ):
                raise ArgumentError(path, limit.words, short_repr(found), limit.remedy)
        return found
    if value is None or kind in (None, NoneType):
        if value is None and kind in (None, NoneType):
            return value
    elif home is Literal:
        if any((type(one) is type(value) and one == value) or str(one) == value for one in inner):
            return value
        if isinstance(value, str):
            near = did_you_mean(value, map(str, inner))
            remedy = near if near.startswith("did") else ""
    elif kind is str:
        if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
            return str(value).removeprefix("torch.")
        if isinstance(value, str | PathLike):
            return value if isinstance(value, str) else str(value)
    elif kind in (int, float):
        if isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool) and value == value:
            return value if isinstance(value, int | float) else kind(value)  # NumPy's numbers
        if config and isinstance(value, str) and _WRITTEN[kind].fullmatch(value):
            return value
        if isinstance(value, str) and value.strip("+-").replace(".", "", 1).isdigit():
            remedy = f"write {value} without quotes"
    elif home is Callable:
        return _check_factory_config(value, kind, path) if config else _check_callable(value, kind)
    elif home in _LISTS:
        return _check_list(value, home, inner, path, config)
    elif home in (dict, Mapping):
        if isinstance(value, Mapping):
            of = inner[1] if inner else Any
            found = {key: check_and_convert(one, of, f"{path}[{key!r}]", config=config) for key, one in value.items()}
            return value if all(found[key] is one for key, one in value.items()) else found
    elif not isinstance(home, type) or getattr(home, "_is_protocol", False) or isinstance(value, home):
        return value
    elif is_dataclass(home) and isinstance(value, Mapping) and (not config or "class_path" not in value):
        given = check_and_convert_arguments(home, value, path, config=config)
        return given if config else home(**given)
    elif home.__name__ in _TEXT_SHORTHANDS and _is_model_source(value, home):
        class_path, argument = _TEXT_SHORTHANDS[home.__name__]
        if config:
            return {"class_path": class_path, argument: str(value)}
        module, _, name = class_path.rpartition(".")
        return getattr(import_module(module), name)(str(value))
    elif config and isinstance(value, str | Mapping) and home not in (bool, bytes) and home.__module__ != "torch":
        return _check_class_config(value, home, path, default)
    elif isinstance(value, type) and issubclass(value, home):
        remedy = f"give an object of the class, {value.__name__}(...)"
    elif callable(value) and inspect.isabstract(home) and home.__module__.startswith("lit_rl."):
        remedy = f"write a class derived from {home.__name__} (lit-rl docs own_task shows some)"
    raise _TypeMismatch(remedy)


def _check_list(value: Any, home: Any, inner: Sequence[Any], path: str, config: bool) -> Any:
    """Check a value for a list; a generator becomes a list."""
    if isinstance(value, Iterator) and home is not Iterable:
        value = list(value)
    if isinstance(value, Mapping | str | bytes) or not isinstance(value, Iterable if home is Iterable else Sequence):
        item = inner[0] if inner else Any
        name = value.get("class_path") if isinstance(value, Mapping) else value
        named = classes_by_name().get(str(name).rpartition(".")[2], object) if config else object
        is_item = item is not Any and (has_type(value, item) or (isinstance(item, type) and issubclass(named, item)))
        is_fixed = home is tuple and inner[-1:] != (...,)
        if config or is_fixed or not is_item or not getattr(item, "__module__", "").startswith("lit_rl."):
            raise _TypeMismatch("put it into a list" if is_item and not is_fixed else "")
        value = [value]  # a single reward or task
    if not inner or not isinstance(value, Sequence):
        return value
    if home is tuple and inner[-1] is not ...:
        if len(value) != len(inner):
            raise ArgumentError(path, f"a list of {len(inner)} items", short_repr(value))
        found = [
            check_and_convert(one, of, f"{path}[{at}]", config=config)
            for at, (one, of) in enumerate(zip(value, inner, strict=True))
        ]
    else:
        found = [
            check_and_convert(one, inner[0], f"{path}[{number}]", config=config) for number, one in enumerate(value)
        ]
    if home is tuple and not config and not isinstance(value, tuple):
        return tuple(found)
    return value if all(a is b for a, b in zip(value, found, strict=True)) else found


def _check_callable(value: Any, kind: Any) -> Any:
    if callable(value):
        return value
    is_optimizer = "Optimizer" in _describe_annotation(kind)
    name = value if isinstance(value, str) else type(value).__name__
    rate = getattr(value, "defaults", {}).get("lr", "1e-6")
    raise _TypeMismatch(f"write functools.partial(torch.optim.{name}, lr={rate})" if is_optimizer else "")


def _is_model_source(value: Any, home: type) -> bool:
    """Return whether a text is a hub id or a folder, and not the name of a class."""
    if isinstance(value, PathLike):
        return True
    if not isinstance(value, str):
        return False
    if "/" in value or Path(value).is_dir():
        return True
    known = {one.__name__ for one in _self_and_subclasses(home)}
    return "." not in value and value not in known and "did you mean" not in did_you_mean(value, known)


# -- configurations ----------------------------------------------------------------------------------------------


def check_and_convert_arguments(
    cls: Any, given: Mapping[Any, Any], path: str, *, config: bool = True, of: type | None = None, skip: int = 0
) -> dict[str, Any]:
    """Check the keyword arguments for a class; return them in the form that its constructor asks for.

    Args:
        cls: the class.
        given: arguments for the class.
        path: names the class in messages.
        config: see :func:`check_and_convert`.
        of: base of the class: other classes with this base may have an argument that the class lacks.
        skip: number of first arguments that come from elsewhere.
    """
    known = dict(list(constructor_parameters(cls).items())[skip:])
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key == "class_path":
            continue
        if not isinstance(key, str):
            remedy = f"write decimals with a point: 0.{key}, not 0,{key}"
            raise ArgumentError(path, "names as keys", short_repr(key), remedy)
        one = known.get(key)
        if one is not None:
            found[key] = value
            if value is not one.default:
                found[key] = check_and_convert(
                    value, one.annotation, f"{path}.{key}", config=config, default=one.default
                )
        elif isinstance(key, str) and _accepts_any_keyword(cls):
            found[key] = value
        elif not config:
            raise UnknownArgumentError(f"{path} has no argument {key}{_unknown_argument_hint(key, value, known)}")
        else:
            place = OTHER_NAMES.get(key, "").partition(".")[0]
            kinds = _self_and_subclasses(of) if of is not None and place not in known else ()
            others = sorted(kind.__name__ for kind in kinds if key in constructor_parameters(kind))
            hint = f"; it is an argument of {' and '.join(others[:3])}" if others else ""
            hint = _class_as_key_hint(key) or hint or _unknown_argument_hint(key, value, known, path)
            raise UsageError(f"{path}.{key} is unknown to {cls.__name__}{hint}")
    return found


def _class_as_key_hint(key: Any) -> str:
    is_class = isinstance(key, str) and key.rpartition(".")[2] in classes_by_name()
    return f"; {key} is a class: write class_path: {key}, and its arguments in init_args" if is_class else ""


def _unknown_argument_hint(name: str, value: Any, known: Mapping[str, inspect.Parameter], path: str = "") -> str:
    """Return what to write in place of an unknown argument, to append to a message.

    With a path, this is a key of a configuration; without a path, an argument in Python.
    """
    groups = {key: getattr(one.default, "__dataclass_fields__", {}) for key, one in known.items()}
    place = OTHER_NAMES.get(name) or next((f"{group}.{name}" for group in groups if name in groups[group]), "")
    group, _, inside = place.partition(".")
    if group not in known:
        return f": {_REDIRECT_HINTS[name]}" if name in _REDIRECT_HINTS else f"; {did_you_mean(name, known)}"
    if path:
        return f": write {path}.{place}"
    text = (
        f"partial(torch.optim.{value}, lr=1e-6)"
        if isinstance(value, str) and name == "optimizer"
        else short_repr(value)
    )
    if inside == "optimizer.lr":
        inside, text = "optimizer", f"partial(torch.optim.AdamW, lr={text})"
    first, _, rest = inside.partition(".")
    return f": write {group}=dict({first}={f'Clipped({rest}={text})' if rest else text})"


def _check_class_config(value: str | Mapping[Any, Any], home: type, path: str, default: Any) -> Any:
    if isinstance(value, str):
        value = {"class_path": value}
    name = value.get("class_path")
    if name is None:
        cls = type(default) if isinstance(default, home) else home
        if inspect.isabstract(home) and cls is home:
            hint = _class_as_key_hint(next(iter(value), "")).removeprefix("; ")
            raise ArgumentError(
                path, "a class", short_repr(value), hint or "give class_path, and the keys under init_args"
            )
    else:
        cls = find_class(str(name), home, path)
    found = check_and_convert_arguments(cls, value, path, of=home)
    return found if name is None else {"class_path": name, **found}


def _check_factory_config(value: Any, kind: Any, path: str) -> Any:
    """Check a value for a callable argument: a function, or a class whose first arguments its caller adds later."""
    taken, made = get_args(kind) or ((), Any)
    homes = [one for one in union_members(made) if isinstance(one, type) and one is not NoneType]
    described = {"class_path": value} if isinstance(value, str) else value
    if not homes or not isinstance(described, Mapping):
        return value
    if "class_path" not in described:
        abstract = next((home for home in homes if inspect.isabstract(home)), None)
        return _check_class_config(described, abstract, path, None) if abstract else value
    found, reasons = None, []
    for home in homes:
        try:
            found = find_class(str(described["class_path"]), home, path)
        except UsageError as error:
            reasons.append(error)
    if found is None:
        raise reasons[0]
    skip = len(taken) if isinstance(taken, list) else 0
    if isinstance(found, type):
        given = check_and_convert_arguments(found, described, path, of=homes[0], skip=skip)
        return value if isinstance(value, str) else {"class_path": described["class_path"], **given}
    return value


def find_class(name: str, home: type, path: str) -> Any:
    """Return the class that a configuration names by its path, or by its short name as a kind of ``home``."""
    module, _, short = name.rpartition(".")
    if not all(part.isidentifier() for part in name.split(".")) or Path(name).is_file():
        raise ArgumentError(path, f"a {home.__name__}", name, _class_examples_hint(home))
    if module:
        try:
            home_of = import_module(module)
        except Exception as error:
            raise UsageError(f"{path}: {module} cannot be imported: {_import_error_text(error)}") from error
        found = getattr(home_of, short, None)
        known = [one for one in dir(home_of) if isinstance(getattr(home_of, one), type)]
        missing = f"{module} has no {short}"
    else:
        found = next(
            (one for one in _self_and_subclasses(home) if one.__name__ == name), None
        ) or classes_by_name().get(name)
        known = [one.__name__ for one in _self_and_subclasses(home) if one.__module__.startswith(_KNOWN)]
        missing = f"there is no class {name}"
    is_other = isinstance(found, type) and not issubclass(found, home)
    if found is None:
        fault, hint = missing, did_you_mean(short, known)
    elif is_other or inspect.isabstract(found):
        fault, hint = f"{name} is {f'no {home.__name__}' if is_other else 'abstract'}", _class_examples_hint(home)
    else:
        return found
    raise UsageError(f"{path}: {fault}; {hint}".rstrip("; "))


_KNOWN = ("lit_rl.", "lightning.", "torch.")
_PUBLIC_MODULES = (
    "callbacks",
    "data",
    "engines",
    "execution",
    "math.advantages",
    "math.divergences",
    "math.losses",
    "models",
    "modules",
    "rewards",
    "rollout",
)


def _import_error_text(error: BaseException) -> str:
    """Return the text of an import error with the user's file and line that the error is about."""
    where, trace = "", error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if "importlib" not in file.parts and not file.name.startswith("<") and file != Path(__file__):
            where = f"{file.name}, line {trace.tb_lineno}: "
        trace = trace.tb_next
    return f"{where}{type(error).__name__}: {error}"


@cache
def classes_by_name() -> Mapping[str, type]:
    """Return the public classes of this package by name."""
    found: dict[str, type] = {}
    for home in _PUBLIC_MODULES:
        module = import_module(f"lit_rl.{home}")
        public = (getattr(module, name) for name in getattr(module, "__all__", dir(module)))
        found |= {one.__name__: one for one in public if isinstance(one, type)}
    return found


def _self_and_subclasses(home: type) -> Iterator[type]:
    yield home
    one: type
    for one in type.__subclasses__(home):
        yield from _self_and_subclasses(one)


def _class_examples_hint(home: type) -> str:
    ours = [
        one for one in _self_and_subclasses(home) if one.__name__ in classes_by_name() and not inspect.isabstract(one)
    ]
    names = dict.fromkeys(one.__name__ for one in ours if not one.__name__.endswith("Module"))
    return f"give {' or '.join([*names][:3])}" if names else ""


def _accepts_any_keyword(cls: Any) -> bool:
    """Return whether a class passes on keyword arguments that none of its bases names."""
    constructors = [vars(base)["__init__"] for base in inspect.getmro(cls) if "__init__" in vars(base)]
    for one in constructors:
        if not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(one).parameters.values()):
            return one is object.__init__
    return True


def _describe_annotation(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _describe_annotation(inner[0])
    if origin is Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if hint is None or hint is NoneType:
        return "None"
    if origin is tuple and inner[-1] is not ...:
        return f"a list of {len(inner)} items"
    if origin in _LISTS:
        return f"a list of {' or '.join(map(_describe_annotation, union_members(inner[0])))}"
    if origin in (dict, Mapping):
        return f"a dict of {_describe_annotation(inner[1])} by name"
    if origin is Callable:
        return f"a function that returns {' or '.join(map(_describe_annotation, union_members(inner[1])))}"
    return str(getattr(hint, "__name__", hint))
