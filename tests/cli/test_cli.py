"""The command line, as a user calls it."""

import subprocess
import sys
from pathlib import Path

KERNELSTREAM = Path(sys.executable).with_name("kernelstream")


def kernelstream(*arguments, **options):
    return subprocess.run(
        [KERNELSTREAM, *arguments], capture_output=True, text=True, check=False, **options
    )


def test_demo(tmp_path):
    run = kernelstream("demo", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    for word in ("AutoClassifier", "SVMD", "NORMA", "error", "kernelstream-demo/demo.png"):
        assert word in run.stdout
    assert run.stderr == ""
    assert (tmp_path / "kernelstream-demo" / "demo.png").stat().st_size > 20_000


def test_help_and_version():
    assert "demo" in kernelstream("--help").stdout
    assert kernelstream("--version").stdout.startswith("kernelstream 0.")
    assert kernelstream("nothing").returncode == 2


def test_a_missing_extra_is_named():
    code = "import sys; sys.modules['typer'] = None; import kernelstream.cli as c; c.main()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "kernelstream[cli]" in run.stderr


def test_warnings_are_one_line_and_messages_of_the_compiler_are_for_terminals():
    code = """if True:
        import logging, sys, warnings
        import kernelstream.cli.app
        from kernelstream.cli import main
        def app():
            logging.getLogger("kernelstream.compile").warning("this compiles")
            logging.getLogger("kernelstream.serve").warning("the disk is full")
            warnings.warn("take care")
        kernelstream.cli.app.app = app
        main()"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr == "the disk is full\nkernelstream: take care\n"


def test_parts_lists_the_registry_and_the_page_is_current():
    from typer.testing import CliRunner

    from kernelstream.cli.app import app
    from kernelstream.cli.parts import as_markdown
    from kernelstream.parts import all_parts

    listed = CliRunner().invoke(app, ["parts"])
    assert listed.exit_code == 0
    for entry in all_parts():
        assert entry.cls.__name__ in listed.stdout
    page = CliRunner().invoke(app, ["parts", "--markdown"]).stdout
    assert page.strip() == as_markdown().strip()
    # after a change: kernelstream parts --markdown > docs/parts.md
    assert (Path(__file__).parents[2] / "docs" / "parts.md").read_text().strip() == page.strip()
