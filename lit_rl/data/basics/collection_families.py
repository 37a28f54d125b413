"""Families over strings, lists and dictionaries."""

from __future__ import annotations

from lit_rl.data.basics.cases import (
    ANY,
    BOUNDS,
    SIGNS,
    WORDS,
    bound_lists,
    lists,
    one_list,
    one_table,
    one_text,
    tables,
    text_with,
)
from lit_rl.data.basics.problems import Family

STRINGS = (
    Family(
        name="prefix",
        functions=("head", "start"),
        parameters=("text",),
        slots={"k": range(1, 31), "op": ("upper", "lower", "swapcase")},
        wordings=(
            "The first {k} letters of {x}, in {op}.",
            "Cut {x} to {k} letters, then {op}.",
            "{op} of the first {k} letters of {x}.",
        ),
        body="    return {x}[:{k}].{op}()",
        bug="    return {x}[{k}:].{op}()",
        inputs=lambda rng, slots: [
            (one_text(rng, slots["k"] + extra, "abcdefgABCDEFG"),) for extra in (-1, 0, 1, 2, 3, 5, 8, 13)
        ],
    ),
    Family(
        name="repeat_joined",
        functions=("repeat", "chain"),
        parameters=("text",),
        slots={"k": range(2, 41), "c": SIGNS},
        wordings=(
            '{x} {k} times, joined by "{c}".',
            'Repeat {x} {k} times with "{c}" between.',
            '{k} times {x}, with "{c}" between.',
        ),
        body='    return "{c}".join([{x}] * {k})',
        bug="    return {x} * {k}",
        inputs=lambda rng, slots: [(one_text(rng, length),) for length in (0, 1, 2, 3, 4, 5, 6, 7)],
    ),
    Family(
        name="count_sign",
        functions=("has", "check"),
        parameters=("text",),
        slots={"k": range(1, 25), "c": SIGNS, "op": BOUNDS},
        wordings=(
            'True if {x} has {op[2]} {k} "{c}".',
            'Does {x} hold {op[2]} {k} of "{c}"?',
            'Are there {op[2]} {k} "{c}" in {x}?',
        ),
        body='    return {x}.count("{c}") {op[0]} {k}',
        bug='    return {x}.count("{c}") {op[1]} {k}',
        inputs=lambda rng, slots: [
            (text_with(rng, slots["c"], max(count, 0)),)
            for count in (
                slots["k"],
                slots["k"] - 1,
                slots["k"] + 1,
                slots["k"],
                0,
                slots["k"] + 5,
                slots["k"] * 2,
            )
        ],
    ),
    Family(
        name="replace_sign",
        functions=("replace", "swap"),
        parameters=("text",),
        slots={"c": SIGNS, "w": SIGNS},
        wordings=(
            '{x} with every "{c}" turned into "{w}".',
            'Turn each "{c}" in {x} into "{w}".',
            'Each "{c}" in {x} becomes "{w}".',
        ),
        body='    return {x}.replace("{c}", "{w}")',
        bug='    return {x}.replace("{c}", "{w}", 1)',
        inputs=lambda rng, slots: [
            (one_text(rng, length, slots["c"] + slots["w"] + "ae"),) for length in (0, 3, 4, 5, 6, 7, 8, 9)
        ],
        valid=lambda slots: slots["c"] != slots["w"],
    ),
    Family(
        name="pad",
        functions=("pad", "fill"),
        parameters=("text",),
        slots={
            "k": range(3, 50),
            "c": SIGNS,
            "op": (("rjust", "ljust", "left"), ("ljust", "rjust", "right")),
        },
        wordings=(
            'Fill {x} on the {op[2]} with "{c}" to {k} letters.',
            '{x} with "{c}" on the {op[2]} up to {k}.',
            'Put "{c}" on the {op[2]} of {x} up to {k}.',
        ),
        body='    return {x}.{op[0]}({k}, "{c}")',
        bug='    return {x}.{op[1]}({k}, "{c}")',
        inputs=lambda rng, slots: [
            (one_text(rng, max(length, 0)),) for length in (0, 1, 2, slots["k"] - 1, slots["k"], slots["k"] + 2, 3, 5)
        ],
    ),
)

LISTS = (
    Family(
        name="keep",
        functions=("keep", "select"),
        parameters=("list",),
        slots={"k": ANY, "op": BOUNDS},
        wordings=(
            "Items of {x} that are {op[2]} {k}.",
            "Keep what is {op[2]} {k} in {x}.",
            "All items of {x} that are {op[2]} {k}.",
        ),
        body="    return [e for e in {x} if e {op[0]} {k}]",
        bug="    return [e for e in {x} if e {op[1]} {k}]",
        inputs=bound_lists,
    ),
    Family(
        name="add_then_scale",
        functions=("change", "adjust"),
        parameters=("list",),
        slots={"k": ANY, "c": ANY},
        wordings=(
            "Add {c} to each item of {x}, then multiply by {k}.",
            "Each item of {x} plus {c}, times {k}.",
            "{x} with {c} added to each item, all times {k}.",
        ),
        body="    return [(e + {c}) * {k} for e in {x}]",
        bug="    return [e + {c} * {k} for e in {x}]",
        inputs=lambda rng, slots: lists(rng, [], [0], [1, 2]),
    ),
    Family(
        name="every_kth",
        functions=("thin", "pick"),
        parameters=("list",),
        slots={"k": range(2, 16), "c": range(1, 16)},
        wordings=(
            "Every item of {x} in steps of {k}, from index {c}.",
            "From index {c}, {x} in steps of {k}.",
        ),
        body="    return {x}[{c}::{k}]",
        bug="    return {x}[{c}:{k}]",
        inputs=lambda rng, slots: [
            (one_list(rng, slots["c"] + extra),)
            for extra in (1, 0, slots["k"], slots["k"] + 1, slots["k"] + 2, 2 * slots["k"] + 1, 16, 20)
        ],
    ),
    Family(
        name="every_or_some",
        functions=("test", "check"),
        parameters=("list",),
        slots={"k": ANY, "op": BOUNDS, "all": (("all", "any", "every"), ("any", "all", "some"))},
        wordings=(
            "True if {all[2]} item of {x} is {op[2]} {k}.",
            "Is {all[2]} item of {x} {op[2]} {k}?",
            "Check that {all[2]} item of {x} is {op[2]} {k}.",
        ),
        body="    return {all[0]}(e {op[0]} {k} for e in {x})",
        bug="    return {all[1]}(e {op[0]} {k} for e in {x})",
        inputs=bound_lists,
    ),
    Family(
        name="item_or_default",
        functions=("item", "find"),
        parameters=("list",),
        slots={"k": range(1, 31), "c": ANY},
        wordings=(
            "Item {k} of {x}, or {c} if {x} is too short.",
            "Index {k} of {x}; {c} if there is none.",
            "{x} at {k}, or {c} if too short.",
        ),
        body="    return {x}[{k}] if len({x}) > {k} else {c}",
        bug="    return {x}[{k}] if len({x}) >= {k} else {c}",
        inputs=lambda rng, slots: [
            (one_list(rng, max(0, slots["k"] + extra), low=101, high=300),) for extra in (0, 1, -1, 2, 0, 4, 9, -9)
        ],
        tellable="c",
    ),
)

DICTIONARIES = (
    Family(
        name="get_or_default",
        functions=("get", "find"),
        parameters=("table",),
        slots={"k": ANY, "w": WORDS},
        wordings=(
            'Value of "{w}" in {x}, or {k} if missing.',
            'Look up "{w}" in {x}; {k} if there is none.',
            'What {x} has for "{w}", or {k} if missing.',
        ),
        body='    return {x}.get("{w}", {k})',
        bug='    return {x}["{w}"]',
        inputs=tables,
        tellable="k",
    ),
    Family(
        name="keys_by_value",
        functions=("keys", "select"),
        parameters=("table",),
        slots={"k": ANY, "op": BOUNDS},
        wordings=(
            "Keys of {x} whose value is {op[2]} {k}.",
            "Which keys of {x} have {op[2]} {k}?",
            "Keys with a value {op[2]} {k} in {x}.",
        ),
        body="    return [k for k, v in {x}.items() if v {op[0]} {k}]",
        bug="    return [v for k, v in {x}.items() if v {op[0]} {k}]",
        inputs=lambda rng, slots: [
            ({},),
            *((one_table(rng, slots["k"] - 1, slots["k"], slots["k"] + 1),) for _ in range(4)),
            *((one_table(rng, rng.randint(0, 120)),) for _ in range(3)),
        ],
    ),
    Family(
        name="add_to_key",
        functions=("update", "count"),
        parameters=("table",),
        slots={"k": ANY, "w": WORDS},
        wordings=('{x} with {k} added to "{w}".', 'Add {k} to "{w}" in a copy of {x}.'),
        body='    return {{**{x}, "{w}": {x}.get("{w}", 0) + {k}}}',
        bug='    return {{**{x}, "{w}": {k}}}',
        inputs=tables,
    ),
)
