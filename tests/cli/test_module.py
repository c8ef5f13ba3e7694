"""``python -m kernelstream``."""

import subprocess
import sys


def run(*arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_module_is_the_command():
    found = run("-m", "kernelstream", "--version")
    assert found.returncode == 0
    assert found.stdout.startswith("kernelstream ")


def test_without_the_extra_it_is_named():
    code = (
        "import sys, runpy; sys.modules['typer'] = None\n"
        "runpy.run_module('kernelstream', run_name='__main__')"
    )
    found = run("-c", code)
    assert found.returncode != 0
    assert "pip install 'kernelstream[cli]'" in found.stderr
    assert "Traceback" not in found.stderr
