"""What the Dockerfile says holds for this tree, as far as that can be seen without an engine."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import typer

from kernelstream.cli.app import app

ROOT = Path(__file__).parents[2]


def instructions():
    """Every instruction with its text."""
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in lines]


def of(name):
    return [text for found, text in instructions() if found == name]


def test_what_is_copied_is_here_and_builds_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    copied = [source for text in of("COPY") for source in text.split()[:-1]]
    assert all((ROOT / source).exists() for source in copied)
    assert {"pyproject.toml", "src", project["readme"], *project["license-files"]} <= set(copied)
    (install,) = (text for text in of("RUN") if text.startswith("pip install"))
    (what,) = (word for word in shlex.split(install) if word.startswith("."))
    assert set(what.strip(".[]").split(",")) <= set(project["optional-dependencies"])


def test_it_runs_as_a_user_who_may_write_where_it_does():
    names = [name for name, _ in instructions()]
    (user,), (volumes,) = of("USER"), of("VOLUME")
    made = " ".join(of("RUN"))
    assert f"useradd --create-home --uid 10001 {user}" in made
    owned = re.search(rf"chown {user} (.*)", made)[1].split()
    assert set(json.loads(volumes)) <= set(owned)  # and a volume begins with the owner of its place
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN")


def test_the_command_is_one_that_the_command_line_takes():
    """It is in exec form, so that signals reach the service and no shell stands between."""
    (entry,), (arguments,), (port,) = of("ENTRYPOINT"), of("CMD"), of("EXPOSE")
    program, command, *rest = [*json.loads(entry), *json.loads(arguments)]
    assert (program, command) == ("kernelstream", "serve")
    serve = typer.main.get_command(app).commands[command]
    found = serve.make_context(command, rest).params
    assert found["host"] == "0.0.0.0"
    assert found["token_file"] is not None  # without which it would not start there
    assert found["port"] == int(port)
    (volumes,) = of("VOLUME")
    assert str(found["checkpoint"]) in json.loads(volumes)


def test_the_check_of_its_health(url):
    (check,) = of("HEALTHCHECK")
    python, flag, code = json.loads(check[check.index("CMD ") + 4 :])
    assert (python, flag) == ("python", "-c")
    assert "8765" in code
    for port, healthy in ((url.rsplit(":", 1)[1], True), ("9", False)):
        done = subprocess.run(
            [sys.executable, flag, code.replace("8765", port)], stderr=subprocess.DEVNULL,
            env={"http_proxy": "http://127.0.0.1:9"},
        )  # fmt: skip
        assert (done.returncode == 0) == healthy
