"""Families over numbers: arithmetic, comparisons, conditions, loops."""

from __future__ import annotations

from lit_rl.data.basics.cases import (
    ANY,
    BOUNDS,
    MEDIUM,
    SMALL,
    WORDS,
    bound_lists,
    interval,
    numbers,
    pairs,
)
from lit_rl.data.basics.problems import Family

ARITHMETIC = (
    Family(
        name="scale_and_add",
        functions=("scale", "adjust"),
        parameters=("number",),
        slots={"k": ANY, "c": ANY},
        wordings=(
            "Multiply {x} by {k}, then add {c}.",
            "{x} times {k}, plus {c}.",
            "Multiply {x} by {k} and add {c}.",
        ),
        body="    return {x} * {k} + {c}",
        bug="    return {x} * {k} - {c}",
        inputs=lambda rng, slots: numbers(rng, 0, 1, -1, 2),
        tellable="c",
    ),
    Family(
        name="subtract",
        functions=("difference", "gap"),
        parameters=("number",),
        slots={"k": ANY, "c": ANY},
        wordings=(
            "Take {k} from {x}, then multiply by {c}.",
            "{x} minus {k}, all times {c}.",
            "Multiply {x} minus {k} by {c}.",
        ),
        body="    return ({x} - {k}) * {c}",
        bug="    return {x} - {k} * {c}",
        inputs=lambda rng, slots: numbers(rng, 0, 1, slots["k"], slots["k"] + 1),
        tellable="c",
    ),
    Family(
        name="remainder",
        functions=("fits", "check"),
        parameters=("number",),
        slots={"k": ANY, "c": range(1, 60)},
        wordings=(
            "True if {x} leaves {c} when divided by {k}.",
            "Is {c} the remainder of {x} by {k}?",
            "Does {x} leave {c} when divided by {k}?",
        ),
        body="    return {x} % {k} == {c}",
        bug="    return {x} // {k} == {c}",
        inputs=lambda rng, slots: numbers(
            rng,
            slots["c"],
            slots["c"] + 1,
            slots["c"] - 1,
            slots["k"] + slots["c"],
            slots["k"] * slots["c"],
            slots["k"],
            slots["k"] * rng.randint(2, 9) + slots["c"],
        ),
        valid=lambda slots: slots["c"] < slots["k"],
    ),
    Family(
        name="safe_divide",
        functions=("divide", "share"),
        parameters=("number", "number"),
        slots={"k": ANY, "op": (("//", "Divide", "Quotient"), ("%", "Remainder of", "Remainder"))},
        wordings=("{op[1]} {x} by {y}; {k} if {y} is 0.", "{op[2]} of {x} by {y}, or {k} when {y} is 0."),
        body="    return {x} {op[0]} {y} if {y} else {k}",
        bug="    return {x} {op[0]} {y}",
        inputs=lambda rng, slots: pairs(rng, (7, 0), (0, 5), (17, 5), (-9, 4), (0, 0)),
        tellable="k",
    ),
)

COMPARISONS = (
    Family(
        name="clamp",
        functions=("clamp", "limit"),
        parameters=("number",),
        slots={"k": ANY, "c": ANY},
        wordings=(
            "{x}, but at least {k} and at most {c}.",
            "Keep {x} between {k} and {c}.",
            "{x} limited to between {k} and {c}.",
        ),
        body="    return max({k}, min({c}, {x}))",
        bug="    return max({k}, {x})",
        inputs=interval,
        valid=lambda slots: slots["k"] + 2 < slots["c"],
        tellable="k",
    ),
    Family(
        name="between",
        functions=("inside", "check"),
        parameters=("number",),
        slots={"k": ANY, "c": ANY},
        wordings=(
            "True if {x} is between {k} and {c}, both included.",
            "Is {x} between {k} and {c}, ends included?",
        ),
        body="    return {k} <= {x} <= {c}",
        bug="    return {k} <= {x} < {c}",
        inputs=interval,
        valid=lambda slots: slots["k"] + 2 < slots["c"],
    ),
    Family(
        name="near",
        functions=("near", "close"),
        parameters=("number",),
        slots={"k": ANY, "c": ANY, "op": BOUNDS},
        wordings=(
            "True if {x} is {op[2]} {c} away from {k}.",
            "Is {x} {op[2]} {c} from {k}?",
            "True if {x} lies {op[2]} {c} from {k}.",
        ),
        body="    return abs({x} - {k}) {op[0]} {c}",
        bug="    return abs({x} - {k}) {op[1]} {c}",
        inputs=lambda rng, slots: numbers(
            rng,
            slots["k"] + slots["c"],
            slots["k"] - slots["c"],
            slots["k"] + slots["c"] + 1,
            slots["k"] - slots["c"] - 1,
            slots["k"] + slots["c"] - 1,
            slots["k"] - slots["c"] + 1,
            slots["k"],
        ),
    ),
    Family(
        name="multiple_and_bound",
        functions=("check", "accept"),
        parameters=("number",),
        slots={"k": range(3, 40), "c": ANY, "op": BOUNDS},
        wordings=(
            "True if {x} is a multiple of {k} and {op[2]} {c}.",
            "Is {k} a divisor of {x}, and {x} {op[2]} {c}?",
        ),
        body="    return {x} % {k} == 0 and {x} {op[0]} {c}",
        bug="    return {x} % {k} == 0 or {x} {op[0]} {c}",
        inputs=lambda rng, slots: numbers(
            rng,
            slots["k"],
            slots["c"] // slots["k"] * slots["k"],
            (slots["c"] // slots["k"] + 1) * slots["k"],
            1,
            slots["c"] + 1,
            slots["c"] - 1,
            slots["k"] * 100,
            slots["k"] * 100 + 1,
        ),
    ),
)

CONDITIONS = (
    Family(
        name="replace_if",
        functions=("fix", "guard"),
        parameters=("number",),
        slots={"k": ANY, "c": ANY, "op": BOUNDS},
        wordings=(
            "If {x} is {op[2]} {k} then {c}, else {x}.",
            "When {x} is {op[2]} {k}, {c}; else {x}.",
        ),
        body="    if {x} {op[0]} {k}:\n        return {c}\n    return {x}",
        bug="    if {x} {op[1]} {k}:\n        return {c}\n    return {x}",
        inputs=lambda rng, slots: numbers(rng, slots["k"], slots["k"] - 1, slots["k"] + 1, 0, 120),
        tellable="c",
    ),
    Family(
        name="label",
        functions=("label", "name"),
        parameters=("number",),
        slots={"k": ANY, "c": WORDS, "w": WORDS, "op": BOUNDS},
        wordings=(
            'Name "{c}" if {x} is {op[2]} {k}, else "{w}".',
            'Say "{c}" when {x} is {op[2]} {k}, or else "{w}".',
        ),
        body='    return "{c}" if {x} {op[0]} {k} else "{w}"',
        bug='    return "{c}" if {x} {op[1]} {k} else "{w}"',
        inputs=lambda rng, slots: numbers(rng, slots["k"], slots["k"] - 1, slots["k"] + 1, 0, 120),
        valid=lambda slots: slots["c"] != slots["w"],
        tellable="c",
    ),
)

LOOPS = (
    Family(
        name="sum_range",
        functions=("total", "add_up"),
        parameters=("number",),
        slots={"k": MEDIUM, "c": SMALL},
        wordings=(
            "Sum from {k} to {x}, {x} included, in steps of {c}.",
            "Add up {k} to {x}, {x} included, by {c}.",
            "Total of {k} to {x}, {x} included, by {c}.",
        ),
        body="    return sum(range({k}, {x} + 1, {c}))",
        bug="    return sum(range({k}, {x}, {c}))",
        inputs=lambda rng, slots: numbers(
            rng, *(slots["k"] + extra for extra in (0, -1, slots["c"], slots["c"] - 1, 3 * slots["c"], 60))
        ),
        tellable="k",
    ),
    Family(
        name="total_above",
        functions=("total", "add_up"),
        parameters=("list",),
        slots={"k": ANY, "c": ANY, "op": BOUNDS},
        wordings=(
            "{c} plus the items of {x} that are {op[2]} {k}.",
            "Start at {c}, add what is {op[2]} {k} in {x}.",
        ),
        body=(
            "    total = {c}\n    for e in {x}:\n        if e {op[0]} {k}:\n            total += e\n    return total"
        ),
        bug=(
            "    total = {c}\n    for e in {x}:\n        if e {op[0]} {k}:\n"
            "            total += e\n        return total"
        ),
        inputs=bound_lists,
        tellable="c",
    ),
    Family(
        name="repeat_step",
        functions=("grow", "steps"),
        parameters=("number",),
        slots={"k": range(2, 31), "c": ANY},
        wordings=("{k} times: double {x} and add {c}.", "Double {x} and add {c}, {k} times."),
        body="    for _ in range({k}):\n        {x} = {x} * 2 + {c}\n    return {x}",
        bug="    for _ in range(1, {k}):\n        {x} = {x} * 2 + {c}\n    return {x}",
        inputs=lambda rng, slots: numbers(rng, 0, 1, -1, 5),
    ),
)
