"""Parts of tree-sitter's nodes that the data-flow graph asks for."""

from __future__ import annotations

from typing import Any


def name_of(node: Any) -> str:
    """The text of an identifier, whatever bytes it has."""
    return str(node.text.decode("utf-8", "replace"))


def field_of(node: Any, *names: str) -> Any:
    """The first of these fields that a node has."""
    found = (node.child_by_field_name(name) for name in names)
    return next((child for child in found if child is not None), None)


def parts_of(node: Any) -> list[Any]:
    """Parts of a plain tuple; a node that is not one, or has a starred part, is one part."""
    plural = ("pattern_list", "tuple_pattern", "expression_list", "tuple", "list", "list_pattern")
    parts = list(node.named_children) if node.type in plural else [node]
    starred = any(part.type in ("list_splat_pattern", "list_splat") for part in parts)
    return [node] if starred else parts


def root_of(node: Any) -> Any:
    """The variable that an element, attribute or ``*p`` belongs to."""
    while node is not None and node.type != "identifier":
        node = field_of(node, "object", "value", "argument", "function")
    return node


def reads_input(node: Any) -> bool:
    """Whether a chain of ``>>`` begins with ``cin``."""
    while node.type == "binary_expression":
        node = node.child_by_field_name("left")
    return node.text in (b"cin", b"std::cin")


def parameters_of(signature: Any) -> list[Any]:
    """Parameters below a signature, Python's or C's."""
    if signature.type in ("parameters", "lambda_parameters", "parameter_list"):
        return list(signature.named_children)
    inner = field_of(signature, "parameters", "declarator")
    return [] if inner is None else parameters_of(inner)


def match_of(clause: Any) -> Any:
    """The ``match`` that a case belongs to."""
    node = clause.parent
    while node is not None and node.type != "match_statement":
        node = node.parent
    return node
