"""The container files name only what exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from lit_rl.execution.languages import LANGUAGES, Language

ROOT = Path(__file__).resolve().parents[1]


def dockerfile() -> str:
    return (ROOT / "docker/Dockerfile").read_text()


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
    return found


def test_every_stage_is_built_from_one_that_came_before() -> None:
    known = {"python:3.11-slim-bookworm"}
    for base, name in re.findall(r"^FROM (\S+) AS (\S+)$", dockerfile(), flags=re.M):
        assert base in known
        known.add(name)
    assert {"slim", "cuda", "checked"} <= known


def test_images_have_the_versions_and_extras_of_the_project() -> None:
    constraints = (ROOT / "constraints.txt").read_text()
    for version in re.findall(r"torch==\S+", dockerfile()):
        assert version.strip('"') in constraints
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extras in re.findall(r'"\.\[(.*?)\]"', dockerfile()):
        assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    assert "lit-rl" in project["scripts"]


def test_the_image_installs_the_packages_of_four_languages() -> None:
    (packages,) = re.findall(r'^ARG LANGUAGES="(.*)"$', dockerfile(), flags=re.M)
    languages: tuple[Language, ...] = ("javascript", "java", "go", "rust")
    assert packages.split() == [LANGUAGES[name].package for name in languages]


def test_the_checked_image_runs_commands_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "lit-rl check-data --data Basics --data.num_train_problems 52" in dockerfile()
    assert "lit-rl check-data --data Basics --data.num_train_problems 52" in readme


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


def test_trainer_and_vllm_server_share_the_folder_of_weights_and_a_network() -> None:
    """The server starts with what docs/engines.md says, and only where it is asked for: it needs a GPU."""
    trainer, server = (compose()["services"][name] for name in ("trainer", "vllm"))
    assert server["profiles"] == ["vllm"]
    assert "weights:/weights" in trainer["volumes"] and "weights:/weights:ro" in server["volumes"]
    assert set(server["networks"]) <= set(trainer["networks"])
    documented = (ROOT / "docs/engines.md").read_text()
    for option in ("--enable-scale-out", "--logprobs-mode processed_logprobs", "--generation-config vllm"):
        assert option in server["command"] and option in documented
    assert server["environment"] == {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}
