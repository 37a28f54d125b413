"""Files of rows for tasks to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_rows(folder: Path, *rows: Mapping[str, Any], name: str = "rows.jsonl") -> str:
    """Write rows as JSON lines; returns the file's path."""
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)
