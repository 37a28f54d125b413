"""Error messages of the command line: one line with what is wrong, the value, and what to do."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, get_origin

import yaml

from lit_rl.arguments import OTHER_NAMES, alternatives, arguments_at, arguments_of, elsewhere, misfit
from lit_rl.cli.verbs import AROUND_A_RUN, RUNS
from lit_rl.reports.run_files.row_text import printable

_MOST_NAMES, _MOST_NAMES_BESIDE_A_NEAR_ONE, _MOST_TAKERS = 40, 12, 3
_LONGEST_LINE = 400

_KEY = re.compile(r'(?:Type .* expects a function or a callable class: )?Parser key "(?P<key>[^"]*)":$')
_CLASS = re.compile(r"Problem with given class_path '(?P<path>[^']*)':$")
_SAYS_NOTHING = re.compile(
    r"usage:|Given value|Does not validate against any of the|Subtypes:|Errors:|Subclass types expect one of:"
    r"|Not a valid subclass of|a class path \(str\)|a dict |Expected a <class 'NoneType'>$|Expected a path but|$"
)
"""Lines about other types that the parser tried, or about what surrounds the error."""

_IMPORT_FILE = re.compile(r"^<frozen |[/\\]importlib[/\\]")
"""Files in the trace of a failed import that only do the importing."""

_HOMES = {
    "model": "lit_rl.modules:PolicyModule",
    "data": "lit_rl.data:",
    "tasks": "lit_rl.data:",
    "validation_tasks": "lit_rl.data:",
    "rewards": "lit_rl.rewards:RewardTerm",
    "policy": "lit_rl.models:Policy",
    "critic": "lit_rl.models:Critic",
    "teacher": "lit_rl.models:Teacher",
    "loss": "lit_rl.losses:Loss",
    "correction": "lit_rl.losses:Correction",
    "baseline": "lit_rl.advantages:RewardAdvantages",
    "deltas": "lit_rl.advantages:RowAdvantages",
    "estimator": "lit_rl.advantages:TokenAdvantages",
    "environment": "lit_rl.rollout:Environment",
    "engine": "lit_rl.engines:Engine",
    "divergence": "lit_rl.divergences:Divergence",
    "optimizer": "torch.optim:",
    "lr_scheduler": "torch.optim.lr_scheduler:",
    "callbacks": "lit_rl.callbacks:",
    "sandbox": "lit_rl.execution:",
}
"""Homes of the classes that an argument takes, and their base where a home has several kinds."""
_NO_CLASS = "Expected a dot import path string: "
_SYNONYMS = {"train": "fit", "eval": "validate", "evaluate": "validate", "sample": "predict", "merge": "export"}


class Cause(NamedTuple):
    """One thing that the parser rejected.

    Args:
        keys: where: ``("model", "policy", "lora")``.
        class_path: the class whose arguments these are, if the parser got that far.
        text: what the parser says.
    """

    keys: tuple[str, ...]
    class_path: str | None
    text: str


def fail(message: str, status: int) -> NoReturn:
    """Print one clear error and exit."""
    print(f"lit-rl: error: {printable(shorten(message))}", file=sys.stderr)
    raise SystemExit(status)


def shorten(message: str) -> str:
    """At most twelve lines of a message, none of them long."""
    lines = [line.strip()[:_LONGEST_LINE] for line in message.strip().splitlines()]
    return "\n  ".join(filter(None, lines[:12]))


def in_words(error: BaseException) -> str:
    """The text of an error; that of a file begins with the file instead of the system's number."""
    if isinstance(error, OSError) and error.filename and error.strerror and type(error).__str__ is OSError.__str__:
        of_path = isinstance(error, FileNotFoundError | FileExistsError | PermissionError | NotADirectoryError)
        return f"{error.filename}: {error.strerror}" + ("; correct the path, or its rights" if of_path else "")
    return str(error).strip()


def explain(
    message: str, known_keys: Iterable[str] = (), files: Mapping[str, Path] = MappingProxyType({}), verb: str = ""
) -> str:
    """A parser's message as one line: the key, what is wrong with it, and what may have been meant.

    Args:
        message: of jsonargparse, which lists every type that it tried.
        known_keys: dotted keys that the parser knows, for suggestions.
        files: configurations that were read, by name; the one that holds the mistake is named.
        verb: whose arguments these are, if it is one of those around a run.
    """
    if verb and (missing := re.search("the following arguments are required: (.*)", message)):
        return f"missing: {missing[1]}; lit-rl {verb} --help says what it takes"
    if verb and (extra := re.match(r"unrecognized arguments: (?!-|\S+\.ya?ml)(\S+)", message)):
        return f"{extra[1]} is one too many; lit-rl {verb} --help says what it takes"
    if verb and (unknown := re.match(r"unrecognized arguments: (--?\w[^= ]*)", message)):
        return f"{unknown[1]} is unknown; lit-rl {verb} --help says what it takes"
    causes = causes_of(message) or causes_of(re.sub(r"Not a valid subclass of \S+ Got value: ", _NO_CLASS, message))
    if not causes:
        return message
    told = [(cause, _tell(cause, tuple(known_keys), _file_of(cause, files))) for cause in causes]
    cause, line = max(told, key=lambda pair: (pair[1] is not None, len(pair[0].keys)))
    numbers = (re.fullmatch(r"Expected a <class '(int|float|bool)'>", o.text) for o in causes if o.keys == cause.keys)
    if cause.text.startswith(_NO_CLASS) and any(numbers):  # where a class would be possible too
        line = _expected(cause, causes, message)
    if line is None or "there is no module" in line:
        line = _failed_import(cause, message) or line or _expected(cause, causes, message)
    if given := re.search(r"^ *Given value: ([\w.]+)$", message, re.M):
        line = line.replace("this class", given[1])
    if cause.keys[-1:] == ("update.lr_scheduler",) and (
        found := re.search(r"Given value: .*?class_path='(\w+[\w.]*)'", message)
    ):
        line = _no_function(".".join(cause.keys), found[1]) or line
    file = _file_of(cause, files)
    return f"{file}: {line}" if file else line


def causes_of(message: str) -> list[Cause]:
    """Return what the parser rejected, each with its keys, from the indentation of its message."""
    open_keys: list[tuple[int, str]] = []
    open_classes: list[tuple[int, str]] = []
    causes = []
    for raw in message.splitlines():
        line = raw.strip().removeprefix("- ")
        indent = len(raw) - len(raw.lstrip(" "))
        key, of_class = _KEY.match(line), _CLASS.match(line)
        if key or of_class:
            open_keys = [item for item in open_keys if item[0] < indent]
            open_classes = [item for item in open_classes if item[0] < indent]
        if key:
            open_keys.append((indent, key["key"]))
        elif of_class:
            open_classes.append((indent, of_class["path"]))
        elif line and not _SAYS_NOTHING.match(line):
            keys = tuple(name for at, name in open_keys if at <= indent)
            owner = next((path for at, path in reversed(open_classes) if at < indent), None)
            causes.append(Cause(keys, owner, line))
    return causes


def suggestion(name: str, known: Iterable[str]) -> str:
    """``did you mean a?`` if a known name is similar, and the known names."""
    names = list(dict.fromkeys(known))
    if remedy := elsewhere(name, names):
        return remedy
    in_lower_case = {one.lower(): one for one in names}
    near = [in_lower_case[one] for one in get_close_matches(name.lower(), in_lower_case, n=2, cutoff=0.6)]
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    most = _MOST_NAMES_BESIDE_A_NEAR_ONE if near else _MOST_NAMES
    return meant + (f" ({', '.join(names)})" if 0 < len(names) <= most else "")


def no_verb(name: str) -> str:
    """The message for a verb that does not exist."""
    return f"there is no verb {name}{suggestion(_SYNONYMS.get(name, name), RUNS | AROUND_A_RUN)}"


def _tell(cause: Cause, known_keys: tuple[str, ...], file: str) -> str | None:
    """The message for a cause that is known to be decisive; ``None`` for types that were only tried."""
    where = ".".join(cause.keys)
    text = re.sub(r"^Unable to load config '(.*)'$", rf"{_NO_CLASS}\1", cause.text)
    text = re.sub(r"^Type .* expects a function or a callable class: ", "", text)
    if found := re.match(r"(?:Option '([^']+)' is not accepted|unrecognized arguments: --([^= ]+))", text):
        return _unknown_key(cause, where, found[1] or found[2], known_keys, file)
    if found := re.match(r"Group '([^']+)' does not accept option '([^']+)'", text):
        return _unknown_key(cause, where, f"{found[1]}.{found[2]}", known_keys, file)
    if found := re.match(r"module '([^']+)' has no attribute '([^']+)'", text):
        home, path = import_module(found[1]), cause.class_path or ""
        known = [name for name in dir(home) if inspect.isclass(getattr(home, name)) and not name.startswith("_")]
        name = path.removeprefix(f"{found[1]}.{found[2]}.")
        if name in known:  # a file was renamed or moved; the package above it still has the class
            return f"{where}: there is no {path}; did you mean {found[1]}.{name}?"
        return f"{where}: {found[1]} has no {found[2]}{suggestion(found[2], known)}"
    if found := re.match(r"No module named '([^']+)'", text):
        return f"{where}: there is no module {found[1]}: install it, or correct the class path"
    if found := re.match(r"Import path (?:(\S+) )?does not correspond to a subclass of (\S+)", text):
        return f"{where}: {found[1] or 'this class'} is not derived from {found[2]}: give a class that is"
    if found := re.match(r"Expected an instantiatable class, but (?:(\S+) )?is abstract", text):
        names = ", ".join(_our_classes(cause.keys))
        return f"{where}: {found[1] or 'this class'} is abstract: give a class derived from it ({names})"
    if (found := re.match(r"Expected a dot import path string: (.+)", text)) and (group := _group_at(cause)):
        return str(misfit(where, group[0], found[1], group[1]))
    if found:
        known = _our_classes(cause.keys)
        if {*found[1].split(",")} <= {*known}:  # of the items
            return f"{where}: expected a list, got {found[1]}; write [{found[1]}]"
        if known and found[1] not in known and any(found[1] in _our_classes((word,)) for word in _HOMES):
            return f"{where}: {found[1]} is a class of another kind: give one of {', '.join(known)}"
        of, key = ("MBPP", "path") if cause.keys[-1:] in (("data",), ("held_out",)) else ("CausalLM", "model")
        given = f"; a folder or hub id is given as --{where} {of} --{where}.{key} {found[1]}"
        if where == "model":
            of, given = "GRPO", f"; a folder or hub id is given as --model.policy.model {found[1]}"
        now = given if "/" in found[1] and of in known else suggestion(found[1], known)
        return f"{where}: there is no class {found[1]}{now}"
    if found := re.match(r"argument subcommand: invalid choice: '([^']*)' \(choose from (.*)\)", text):
        return no_verb(found[1])
    if found := re.match(r"unrecognized arguments: (?!-)(\S+)", text):
        like = f"--config {found[1]}" if found[1].endswith((".yaml", ".yml")) else "--config FILE or --smoke=30"
        return f"{found[1]} belongs to no option: name one before it, such as {like}"
    if found := re.match(r"argument --(\S+): invalid (\w+) value: '(.*)'", text):
        return f"{found[1]}: expected {found[2]}, got {found[3]}"
    if found := re.match(r"argument --(\S+): invalid choice: '([^']*)' \(choose from (.*)\)", text):
        return f"{found[1]}: expected one of {found[3]}, got {found[2]}{_near(found[2], found[3])}"
    if found := re.match(r"argument (--\S+): expected one argument", text):
        return f"{found[1]} needs a value: write it after the name, such as {found[1]} true for a switch"
    if found := re.match(r"unrecognized arguments: (-\w\S*)", text):
        return f"{found[1]} is unknown; --help lists what there is"
    if found := re.match(r"the following arguments are required: (.*)", text):
        if cause.class_path is not None:
            owner = cause.class_path.rpartition(".")[2] if text == cause.text else "the class there"
            first = found[1].partition(",")[0]
            names = "" if first == "model" else ", ".join(_our_classes((first,)))
            return f"{where}: {owner} needs {found[1]}: give it as {where}.init_args.{first}{names and f' ({names})'}"
        missing = ", ".join(name.partition(".")[2] or name for name in found[1].split(", "))
        return f"missing: {missing}; give them in a --config FILE (lit-rl configs lists some) or one by one"
    return None


def _group_at(cause: Cause) -> tuple[Any, str] | None:
    """The type of an argument that takes keys and values, and how to write them; ``None`` for one of classes."""
    from jsonargparse.typing import import_object  # `lit-rl --help` needs none of it

    hint: Any = import_object(cause.class_path) if cause.class_path else None
    for name in cause.keys[-1].split(".") if cause.keys else ():
        known = arguments_of(hint) if isinstance(hint, type) else {}
        if name not in known:
            return None
        hint = known[name].annotation
        groups = [kind for kind in alternatives(hint) if is_dataclass(kind)]
        hint = groups[0] if groups else hint
    if is_dataclass(hint):
        return hint, f"its keys are {', '.join(field.name for field in fields(hint))}"
    if any(get_origin(kind) in (dict, Mapping) for kind in alternatives(hint)):
        return hint, "give all names in one value, each with its keys, such as {greedy: {temperature: 0}}"
    return None


def _no_function(where: str, path: str) -> str | None:
    """The message for a schedule that is a function; ``None`` for a class."""
    from jsonargparse.typing import import_object

    if inspect.isclass(import_object(path)):
        return None
    return (
        f"{where}: {path} is a function: give a class, such as torch.optim.lr_scheduler.OneCycleLR, or in Python "
        "Update(lr_scheduler=partial(...))"
    )


def _failed_import(cause: Cause, message: str) -> str | None:
    """File and line of a module that exists but cannot be imported, which the parser's message lacks."""
    paths = re.findall(r"class_path'?[:=]? '([\w.]+)'|^ *Given value: ([\w.]+)$", message, flags=re.MULTILINE)
    for module in dict.fromkeys("".join(path).rpartition(".")[0] for path in paths):
        if not module or module in sys.modules:
            continue
        try:
            import_module(module)
        except Exception as error:
            inside = [frame for frame in extract_tb(error.__traceback__) if not _IMPORT_FILE.search(frame.filename)]
            if len(inside) < 2:  # only this file's own: the module itself is missing, or its syntax is wrong
                continue
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            what = f"{type(error).__name__}: {error}"
            what = f"there is no module {missing}: install it, or correct the import" if missing else what
            path, here = Path(inside[-1].filename).resolve(), Path.cwd().resolve()
            path = path.relative_to(here) if path.is_relative_to(here) else path
            return f"{'.'.join(cause.keys)}: {path}, line {inside[-1].lineno}: {what}"
    return None


def _unknown_key(cause: Cause, where: str, name: str, known_keys: tuple[str, ...], file: str) -> str:
    inner = re.search(r"Got value: Namespace\(class_path='([^']+)'", cause.text)  # of a class that is built later
    owner = inner[1] if inner else cause.class_path
    if owner is not None:
        if _has_no_class(cause):
            return f"{where}.{name}: {where} has no class yet; give --config FILE or --{where} CLASS before it"
        known, kind = arguments_at(owner), owner.rpartition(".")[2]
        group, _, inside = name.partition(".")
        if group.isdigit():
            return f"{where} is a list: {where}.{inside} changes its last item; give the whole list to change others"
        if where == "model" and group in OTHER_NAMES:
            return f"model.{group} is unknown to {kind}: it is model.{OTHER_NAMES[group]} here"
        of_group = getattr(known[group].default, "__dataclass_fields__", {}) if group in known else {}
        meant = suggestion(inside, of_group) if inside and of_group else suggestion(group, known)
        takers = _takers(cause.keys, group) if group not in known else ""
        meant = "" if takers and "did you mean" in meant else meant
        return f"{where}.{name} is unknown to {kind}{takers}{meant}"
    keys = {key for key in known_keys if key.startswith("trainer.")}
    for section in ("model", "data"):
        home = _HOMES[section].partition(":")[0]
        keys |= {f"{section}.{key}" for of in _our_classes((section,)) for key in arguments_at(f"{home}.{of}")}
    if owners := sorted(key for key in keys if key.partition(".")[2] == name):
        return f"{name} is unknown; did you mean --{' or --'.join(owners)}?"
    if remedy := elsewhere(name.removeprefix("trainer.")):
        return f"{name} is unknown{remedy}"
    near = get_close_matches(name, known_keys, n=2, cutoff=0.7)
    near = near or get_close_matches(name.partition(".")[0], {key.partition(".")[0] for key in known_keys}, n=1)
    return f"{name} is unknown" + (f"; did you mean {' or '.join(near)}?" if near else "; --help lists what there is")


def _expected(cause: Cause, causes: Sequence[Cause], message: str) -> str:
    """``model.rank: expected int, got x``: the types that were tried, put together."""
    same = [other.text for other in causes if other.keys == cause.keys]
    kinds: list[str] = []
    for text in same:
        for kind in re.findall(r"Expected a (?:<class '([^']+)'>|typing\.Literal\[([^\]]*)\])", text):
            kinds.append(kind[0].replace("collections.abc.Mapping", "keys and values") or f"one of {kind[1]}")
    end = r"(.+?)(?:\. Got value: .*)?$"
    got = re.search(f"Got value: {end}", "\n".join(same), re.M) or re.search(f"Given value: {end}", message, re.M)
    value = got and got[1]
    where = ".".join(cause.keys)
    if where == "trainer.logger":
        kinds = ["a class such as TensorBoardLogger", *kinds[1:]]  # the first is an Iterable of them
    if where.endswith(".policy.config"):
        kinds = ["keys and values such as {model_type: qwen2}"]
    start = f"{where}: " if where else ""
    if not kinds:
        return start + cause.text
    got_value = f", got {value}{_near(value, ' '.join(kinds))}" if value else ""
    return f"{start}expected {' or '.join(dict.fromkeys(kinds)).replace('tuple', 'a list, [A, B]')}" + got_value


def _near(value: str, choices: str) -> str:
    """``; did you mean a?`` of the words in quotes."""
    near = get_close_matches(value.lower(), re.findall(r"'([^']*)'", choices), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _file_of(cause: Cause, files: Mapping[str, Path]) -> str:
    """The configuration that holds the key or class that is wrong, if exactly one does."""
    patterns = (
        r"Option '([^'.]+)[^']*' is not",
        r"has no attribute '([^']+)'",
        r"Import path (\S+) does",
        r"module named '(.+)'",
    )
    wrong = next((found[1] for pattern in patterns if (found := re.search(pattern, cause.text))), None)
    if wrong is None or _has_no_class(cause):
        return ""
    contents = {name: yaml.safe_load(path.read_text(encoding="utf-8")) for name, path in files.items()}
    holding = [name for name, content in contents.items() if _names(content, wrong, cause.keys)]
    return holding[0] if len(holding) == 1 else ""


def _has_no_class(cause: Cause) -> bool:
    """Return whether these arguments come before anything that names their class."""
    return (cause.class_path or "").endswith((".PolicyModule", ".TaskDataModule"))


def _names(value: Any, wrong: str, below: Sequence[str] = ()) -> bool:
    """Return whether a configuration has a key or class of this name, below these keys as far as it has them."""
    if isinstance(value, Mapping):
        inside = value[below[0]] if below and below[0] in value else None
        if inside is not None:
            return _names(inside, wrong, below[1:])
        return any(wrong == str(key).partition(".")[0] or _names(one, wrong, below) for key, one in value.items())
    if isinstance(value, list):
        return any(_names(one, wrong, below) for one in value)
    return isinstance(value, str) and re.search(rf"\b{re.escape(wrong)}\b", value) is not None


def _takers(keys: tuple[str, ...], argument: str) -> str:
    """``; it is an argument of PPO and REINFORCE`` where other classes that a key may have as value have it."""
    takers = [kind.__name__ for kind in _kinds(keys) if argument in arguments_of(kind)]
    return f"; it is an argument of {' and '.join(takers)}" if 0 < len(takers) <= _MOST_TAKERS else ""


def _our_classes(keys: tuple[str, ...]) -> list[str]:
    """Short names of classes that a key may have as value."""
    return [kind.__name__ for kind in _kinds(keys)]


def _kinds(keys: tuple[str, ...]) -> list[type]:
    word = next((word for key in reversed(keys) for word in reversed(key.split(".")) if word in _HOMES), None)
    if word is None:
        return []
    module, _, name = _HOMES[word].partition(":")
    home = import_module(module)
    kinds = [kind for known in home.__all__ if inspect.isclass(kind := getattr(home, known))]
    if name:
        kinds = [kind for kind in kinds if issubclass(kind, getattr(home, name)) and not inspect.isabstract(kind)]
    return [kind for kind in kinds if not kind.__name__.endswith("Module")]  # which are bases
