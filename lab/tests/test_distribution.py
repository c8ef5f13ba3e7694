"""The lab as a distribution beside the library."""

import tomllib
from pathlib import Path

import kernelstream
import kernelstream_lab
from kernelstream.cli.app import app
from kernelstream.cli.extensions import GROUP

ROOT = Path(__file__).parents[2]


def test_both_distributions_have_the_same_version():
    lab, library = (
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        for folder in (ROOT / "lab", ROOT)
    )
    assert lab["version"] == library["version"]
    assert kernelstream_lab.__version__ == kernelstream.__version__ == lab["version"]
    assert lab["dependencies"] == [f"kernelstream[cli,river]=={library['version']}"]


def test_its_commands_are_on_the_command_line():
    lab = tomllib.loads((ROOT / "lab/pyproject.toml").read_text())["project"]
    shown = {command.name for command in app.registered_commands if not command.hidden}
    assert set(lab["entry-points"][GROUP]) <= shown
