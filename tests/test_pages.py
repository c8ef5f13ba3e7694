"""Every code block of the README and of the documentation runs, and commands are real ones."""

import json
import re
import shlex
import sys
import tomllib
from pathlib import Path

import matplotlib
import pytest
import typer.main
from typer.testing import CliRunner

from kernelstream.cli.app import app

from .conftest import interpret

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("lab/*.md"),
        *ROOT.glob(".github/*/*.md"),
    ]
)
MADE_BY_THE_BUILD = (
    "docs/project/", "docs/examples/", "docs/reference/command_line.md",
    "docs/reference/http_api.md",
)  # fmt: skip
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```[ ]*$", flags=re.MULTILINE | re.DOTALL)

# What is not run, and why. Its syntax is checked all the same.
NOT_RUN = {
    "docs/gpu.md": "needs a GPU",
    "docs/scale.md": "needs Spark; tests/spark/test_page.py runs it",
}
# Commands of a page that are run, after the blocks above them; others are parsed.
RUN = (
    "kernelstream run machine.csv",
    "kernelstream run train.txt --format libsvm --algorithm lasvm",
    "kernelstream predict model.ks test.txt",
)
# Pages with few rows, where plain Python takes less time than the compiler.
FEW_ROWS = {"CONTRIBUTING.md", "docs/tables.md"}


def pages():
    names = [path.relative_to(ROOT).as_posix() for path in PAGES]
    return [name for name in names if not name.startswith(MADE_BY_THE_BUILD)]


def blocks(name):
    """The code blocks of a page, as (language, text). A block without a language is a shell's."""
    found = BLOCK.findall((ROOT / name).read_text())
    return [(language.strip(), text) for language, text in found if not language.startswith("{")]


def commands(text):
    """The commands of a block of a shell: lines that end in a backslash go on in the next."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


def run_commands(text):
    for words in commands(text):
        check_command(words)
        if " ".join(words).startswith(RUN):
            result = CliRunner().invoke(app, words[1:])
            assert result.exit_code == 0, result.output


def run_page(name, only_syntax=False):
    """Run the blocks of a page from top to bottom. They share their names."""
    names = {"__name__": "page"}
    for language, text in blocks(name):
        if language == "":
            run_commands(text)
        elif language == "python":
            code = compile(text, name, "exec")
            if not only_syntax:
                exec(code, names)
        else:
            assert language in ("text", "json"), language


@pytest.mark.parametrize("name", [n for n in pages() if blocks(n) and n != "ARCHITECTURE.md"])
def test_blocks_run(name, tmp_path, monkeypatch, own_registry):
    """The blocks of a page share a folder that is empty at first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["page"])
    matplotlib.use("agg")
    if name in FEW_ROWS:
        interpret(monkeypatch)
    run_page(name, only_syntax=name in NOT_RUN)


# --- commands -------------------------------------------------------------------------------------


def check_command(words):
    """A command is one that there is, with options that there are."""
    CHECKS[words[0]](words[1:])


def check_kernelstream(words):
    group = typer.main.get_command(app)
    if words[0].startswith("-"):
        group.make_context("kernelstream", list(words), resilient_parsing=True)
        return
    assert words[0] in group.commands, f"kernelstream has no command {words[0]}."
    group.commands[words[0]].make_context(words[0], list(words[1:]))


def check_make(words):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    goals = [word for word in words if "=" not in word]
    assert goals
    assert set(goals) <= targets


def check_pip(words):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert words[0] == "install"
    for extras in re.findall(r"\[(.*?)\]", " ".join(words)):
        assert set(extras.split(",")) <= set(project["optional-dependencies"])


def check_python(words):
    if not words[0].startswith("-"):
        assert (ROOT / words[0]).exists(), f"There is no program {words[0]}."


def check_curl(words):
    """The path is one of the service's, and what is sent is JSON."""
    paths = re.findall(
        r'@(?:get|post)\("(.*?)"', (ROOT / "src/kernelstream/serve/app.py").read_text()
    )
    asked = next(word for word in words if "localhost" in word or "127.0.0.1" in word)
    asked = "/" + asked.split("/", 1)[1].split("?")[0]
    assert any(re.fullmatch(path.replace("{name:str}", "[^/]+"), asked) for path in paths), asked
    if "-d" in words:
        json.loads(words[words.index("-d") + 1])


def check_docker(words):
    assert words[0] in ("build", "run")
    assert (ROOT / "Dockerfile").exists()


CHECKS = {
    "kernelstream": check_kernelstream, "make": check_make, "pip": check_pip, "curl": check_curl,
    "python": check_python, "docker": check_docker,
}  # fmt: skip


def check_mention(words):
    """A command inside a sentence need not be complete, but it and its options exist."""
    if words[0] != "kernelstream":
        check_command(words)
    elif not words[1].startswith("-"):
        command = typer.main.get_command(app).commands[words[1]]
        known = {option for parameter in command.params for option in parameter.opts}
        used = {word.split("=")[0] for word in words[2:] if word.startswith("--")}
        assert used <= known | {"--help"}, f"kernelstream {words[1]} has no {used - known}."


@pytest.mark.parametrize("name", [n for n in pages() if n != "CHANGELOG.md"])
def test_commands_inside_sentences_are_real(name):
    text = BLOCK.sub("", (ROOT / name).read_text())
    for code in re.findall(r"`((?:kernelstream|make|python) [^`]*)`", text):
        if not re.search(r"\b[A-Z]{2,}\b|\.\.\.", code):  # a word in capitals stands for another
            check_mention(shlex.split(code))
