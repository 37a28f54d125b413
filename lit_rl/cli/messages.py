"""Error messages of the command line."""

from __future__ import annotations

import re
import sys
from typing import NoReturn

from lit_rl.cli.verbs import AROUND_A_RUN, RUNS
from lit_rl.errors import did_you_mean
from lit_rl.run_files.row_text import escape_controls

_MAX_LINE_LENGTH = 400
_SURROUNDS = re.compile(
    r"Parser key|Problem with given|Given value|Does not validate|Subtypes:|Errors:|Expected a <class 'NoneType'>"
    r"|Subclass types expect|Not a valid subclass|a class path|a dict |Expected a path but"
)
"""Lines of a parser's message about other types that the parser tried, and lines around its reasons."""
_VERB = re.compile(rf"\b({'|'.join(RUNS)})\.")
_SYNONYMS = {"train": "fit", "eval": "validate", "evaluate": "validate", "sample": "predict", "merge": "export"}


def exit_with_error(message: str, status: int) -> NoReturn:
    """Print one clear error and exit."""
    lines = [line.strip()[:_MAX_LINE_LENGTH] for line in message.strip().splitlines()]
    text = "\n  ".join(filter(None, lines[:12]))
    print(f"lit-rl: error: {escape_controls(text)}", file=sys.stderr)
    raise SystemExit(status)


def error_text(error: BaseException) -> str:
    """Return the text of an error; a file's error begins with the file's name instead of the system's error number."""
    if isinstance(error, OSError) and error.filename and error.strerror and type(error).__str__ is OSError.__str__:
        return f"{error.filename}: {error.strerror}"
    return str(error).strip()


def shorten_parser_message(message: str) -> str:
    """Shorten a parser's message, which lists every type that was tried, to the key and the last reason."""
    lines = [line.strip(" -") for line in message.splitlines() if line.strip()]
    keys = [found[1] for line in lines if (found := re.search(r'Parser key "([^"]+)"', line))]
    reasons = [line for line in lines if not _SURROUNDS.match(line)]
    reasons = [line for line in reasons if not line.startswith("Expected a <class")] or reasons
    text = ": ".join([*keys[:1], *reasons[-1:]]) if len(lines) > 1 else message
    if "arguments are required: " in text:
        text = f"{_VERB.sub('', text)}; give them in a --config FILE (lit-rl configs lists some) or one by one"
    return text


def unknown_verb_message(name: str) -> str:
    """Return the message for a verb that does not exist."""
    return f"there is no verb {name}; {did_you_mean(_SYNONYMS.get(name, name), RUNS | AROUND_A_RUN)}"
