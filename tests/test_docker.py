"""The container files name only what exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]


def dockerfile() -> str:
    return (ROOT / "docker/Dockerfile").read_text()


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
    return found


def test_images_have_the_versions_and_extras_of_the_project() -> None:
    constraints = (ROOT / "constraints.txt").read_text()
    for version in re.findall(r"torch==\S+", dockerfile()):
        assert version.strip('"') in constraints
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extras in re.findall(r'"\.\[(.*?)\]"', dockerfile()):
        assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    assert "lit-rl" in project["scripts"]


def test_services_have_health_checks_and_configurations_that_exist() -> None:
    services = compose()["services"]
    assert services.keys() == {"trainer", "sandbox", "tensorboard", "vllm"}
    assert "HEALTHCHECK" in dockerfile()  # the trainer's
    assert all("healthcheck" in services[name] for name in ("sandbox", "tensorboard", "vllm"))
    config = services["trainer"]["command"].split()[-1]
    assert (ROOT / config).is_file()
    for service in services.values():
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).is_file()
