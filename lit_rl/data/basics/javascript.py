"""The families of the embedded task in JavaScript: the same functions and bugs, as its programmers write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lit_rl.data.basics.cases import Slots

# Body and bug of each family, without the indent of the first line and the brace at the end.
_TEMPLATES = {
    "scale_and_add": ("return {x} * {k} + {c};", "return {x} * {k} - {c};"),
    "subtract": ("return ({x} - {k}) * {c};", "return {x} - {k} * {c};"),
    "remainder": ("return ({x} % {k} + {k}) % {k} === {c};", "return Math.floor({x} / {k}) === {c};"),
    "safe_divide": ("return {y} ? {op[0]} : {k};", "return {op[0]};"),
    "clamp": ("return Math.max({k}, Math.min({c}, {x}));", "return Math.max({k}, {x});"),
    "between": ("return {k} <= {x} && {x} <= {c};", "return {k} <= {x} && {x} < {c};"),
    "near": ("return Math.abs({x} - {k}) {op[0]} {c};", "return Math.abs({x} - {k}) {op[1]} {c};"),
    "multiple_and_bound": (
        "return {x} % {k} === 0 && {x} {op[0]} {c};",
        "return {x} % {k} === 0 || {x} {op[0]} {c};",
    ),
    "replace_if": (
        "if ({x} {op[0]} {k}) return {c};\n    return {x};",
        "if ({x} {op[1]} {k}) return {c};\n    return {x};",
    ),
    "label": ('return {x} {op[0]} {k} ? "{c}" : "{w}";', 'return {x} {op[1]} {k} ? "{c}" : "{w}";'),
    "sum_range": (
        "let total = 0;\n    for (let i = {k}; i <= {x}; i += {c}) total += i;\n    return total;",
        "let total = 0;\n    for (let i = {k}; i < {x}; i += {c}) total += i;\n    return total;",
    ),
    "total_above": (
        "let total = {c};\n    for (const e of {x}) {{\n        if (e {op[0]} {k}) total += e;\n    }}\n"
        "    return total;",
        "let total = {c};\n    for (const e of {x}) {{\n        if (e {op[0]} {k}) total += e;\n"
        "        return total;\n    }}",
    ),
    "repeat_step": (
        "for (let i = 0; i < {k}; i++) {x} = {x} * 2 + {c};\n    return {x};",
        "for (let i = 1; i < {k}; i++) {x} = {x} * 2 + {c};\n    return {x};",
    ),
    "prefix": ("return {x}.slice(0, {k}).{op};", "return {x}.slice({k}).{op};"),
    "repeat_joined": ('return Array({k}).fill({x}).join("{c}");', "return {x}.repeat({k});"),
    "count_sign": (
        'return {x}.split("{c}").length - 1 {op[0]} {k};',
        'return {x}.split("{c}").length - 1 {op[1]} {k};',
    ),
    "replace_sign": ('return {x}.replaceAll("{c}", "{w}");', 'return {x}.replace("{c}", "{w}");'),
    "pad": ('return {x}.{op[0]}({k}, "{c}");', 'return {x}.{op[1]}({k}, "{c}");'),
    "keep": ("return {x}.filter((e) => e {op[0]} {k});", "return {x}.filter((e) => e {op[1]} {k});"),
    "add_then_scale": ("return {x}.map((e) => (e + {c}) * {k});", "return {x}.map((e) => e + {c} * {k});"),
    "every_kth": ("return {x}.slice({c}).filter((e, i) => i % {k} === 0);", "return {x}.slice({c}, {k});"),
    "every_or_some": (
        "return {x}.{all[0]}((e) => e {op[0]} {k});",
        "return {x}.{all[1]}((e) => e {op[0]} {k});",
    ),
    "item_or_default": (
        "return {x}.length > {k} ? {x}[{k}] : {c};",
        "return {x}.length >= {k} ? {x}[{k}] : {c};",
    ),
    "get_or_default": ('return {x}["{w}"] ?? {k};', 'return {x}["{w}"];'),
    "keys_by_value": (
        "return Object.keys({x}).filter((e) => {x}[e] {op[0]} {k});",
        "return Object.values({x}).filter((e) => e {op[0]} {k});",
    ),
    "add_to_key": (
        'return {{ ...{x}, "{w}": ({x}["{w}"] ?? 0) + {k} }};',
        'return {{ ...{x}, "{w}": {k} }};',
    ),
    "spread": (
        "return Math.max(...{x}) - Math.min(...{x}) {op[0]} {k};",
        "return Math.max(...{x}) {op[0]} {k};",
    ),
    "suffix_repeated": ("return {x}.slice(-{k}).repeat({c});", "return {x}.slice(0, -{k}).repeat({c});"),
}

# Code of slots that is not the same in both languages.
_CODE = {
    "//": "Math.floor({x} / {y})",
    "%": "({x} % {y} + {y}) % {y}",
    "upper": "toUpperCase()",
    "lower": "toLowerCase()",
    "swapcase": 'replace(/./g, (e) => e < "a" ? e.toLowerCase() : e.toUpperCase())',
    "rjust": "padStart",
    "ljust": "padEnd",
    "all": "every",
    "any": "some",
}


def bodies(family: str, names: Sequence[str], slots: Slots) -> tuple[str, str]:
    """The body of a function of a family and the body with its bug, each with the brace at its end.

    Args:
        family: its name.
        names: of the function's parameters.
        slots: as they were drawn, for Python.
    """
    parameters = dict(zip("xy", names, strict=False))

    def code(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(code, value))
        return _CODE[value].format(**parameters) if value in _CODE else value

    values = {slot: code(value) for slot, value in slots.items()}
    body, bug = (f"    {template.format(**parameters, **values)}\n}}" for template in _TEMPLATES[family])
    return body, bug
