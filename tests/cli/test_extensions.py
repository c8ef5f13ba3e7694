"""Commands that other distributions add."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from kernelstream.cli import extensions


def app_with(monkeypatch, *found):
    """A command line with a command of its own, and those of these entry points."""
    monkeypatch.setattr(extensions, "entry_points", lambda group: found)
    app = typer.Typer()
    app.command()(lambda: None)
    extensions.add_commands(app)
    return app


def entry(name, value):
    return EntryPoint(name, value, extensions.GROUP)


@pytest.mark.parametrize("arguments", [[], ["svmd-switch", "--quick", "--out", "x"], ["--help"]])
@pytest.mark.parametrize("name", ["reproduce", "benchmark", "compare"])
def test_without_the_lab_its_commands_say_how_to_install_it(name, arguments, monkeypatch):
    found = CliRunner().invoke(app_with(monkeypatch), [name, *arguments])
    assert found.exit_code == 1
    assert found.stderr.count("\n") == 1
    assert f"command {name} belongs to kernelstream-lab" in found.stderr
    assert "pip install kernelstream-lab" in found.stderr


def test_help_lists_installed_commands_only(monkeypatch):
    app = app_with(monkeypatch, entry("hello", "typer:echo"))
    text = CliRunner().invoke(app, ["--help"]).stdout
    assert "hello" in text
    assert "reproduce" not in text


def test_a_command_of_another_distribution_runs(monkeypatch, tmp_path):
    (tmp_path / "greetings.py").write_text("def greet(name: str): print('hello', name)")
    monkeypatch.syspath_prepend(tmp_path)
    app = app_with(monkeypatch, entry("greet", "greetings:greet"))
    assert CliRunner().invoke(app, ["greet", "Ada"]).stdout == "hello Ada\n"


def test_a_command_that_cannot_be_imported_leaves_the_others_alone(monkeypatch):
    app = app_with(monkeypatch, entry("reproduce", "no_such_module:run"))
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0
    found = CliRunner().invoke(app, ["reproduce", "all"])
    assert found.exit_code == 1
    assert "cannot be imported (ModuleNotFoundError: No module named" in found.stderr


def test_the_library_never_imports_the_lab():
    code = "import sys; sys.modules['kernelstream_lab'] = None; import kernelstream.cli.app"
    subprocess.run([sys.executable, "-c", code], check=True)
