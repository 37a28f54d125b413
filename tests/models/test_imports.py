"""Files of models import each other in one direction only."""

from __future__ import annotations

import pytest


def test_no_circles_between_the_files_of_models() -> None:
    """No file comes back to itself through its imports, those for type checking included."""
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("lit_rl")
    files = [name for name in graph.modules if name.startswith("lit_rl.models.")]
    assert len(files) > 10
    circles = [
        name
        for name in files
        if any(name in graph.find_upstream_modules(i) | {i} for i in graph.find_modules_directly_imported_by(name))
    ]
    assert circles == []
