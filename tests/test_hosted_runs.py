"""Hosted test runs: workflows are valid, and the lock file covers what is installed."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
LOCK = (ROOT / "requirements/dev.txt").read_text()


def jobs_of(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    return workflow["jobs"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_valid_and_call_targets_that_exist(path):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for job in jobs_of(path).values():
        assert job["timeout-minutes"] <= 180
        matrix = job.get("strategy", {}).get("matrix", {})
        assert set(matrix.get("target", ())) <= targets
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            called = re.fullmatch(r"make ([a-z]+)", step.get("run", ""))
            assert called is None or called[1] in targets


def test_every_supported_python_is_tested_on_three_systems():
    matrix = jobs_of(ROOT / ".github/workflows/tests.yml")["tests"]["strategy"]["matrix"]
    assert {system.split("-")[0] for system in matrix["os"]} == {"ubuntu", "macos", "windows"}
    for folder in (ROOT, ROOT / "lab"):
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        named = [line.rpartition(" :: ")[2] for line in project["classifiers"]]
        supported = {version for version in named if re.fullmatch(r"3\.\d+", version)}
        assert supported == set(matrix["python"])


def test_the_lock_file_names_versions_and_nothing_else():
    lines = LOCK.splitlines()
    assert len(lines) > 80
    for line in lines:
        specifier = Requirement(line).specifier
        assert [part.operator for part in specifier] == ["=="], line
    assert not re.search(r"https?:|file:|/|--|^kernelstream", LOCK, flags=re.MULTILINE)


def test_the_lock_file_has_every_package_for_development():
    """After a change of pyproject.toml: make lock."""
    locked = {canonicalize_name(Requirement(line).name) for line in LOCK.splitlines()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras, needed = ["dev"], list(project["dependencies"])
    while extras:
        for requirement in map(Requirement, project["optional-dependencies"][extras.pop()]):
            if requirement.name == "kernelstream":
                extras += requirement.extras
            else:
                needed.append(str(requirement))
    assert {canonicalize_name(Requirement(line).name) for line in needed} <= locked
