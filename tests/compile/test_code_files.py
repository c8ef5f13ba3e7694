"""Machine code is kept on disk, and found there by whoever has the same source."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernelstream
from kernelstream.compile import code_files, compiled, functions
from kernelstream.compile.code_files import NEVER_COMPILED, Code, find, keep

LEARN = """
import sys
import numpy as np
from kernelstream.compile import code_files, compiled
from kernelstream.learner.kernel_rows import norm2_of

norm2_of(np.ones(3))
print("numba" in sys.modules, len(list(code_files.folder().glob("*.o"))))
compiled(lambda x: x[0])(np.ones(3))
print("numba" in sys.modules, len(list(code_files.folder().glob("*.o"))))
"""


def said_by(code, environment):
    """What a new process of Python prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.fixture(scope="module")
def checkouts(tmp_path_factory):
    """Two copies of the package, in different places and of different times."""
    source = Path(kernelstream.__file__).parent
    made = []
    for name in ("one", "other"):
        folder = tmp_path_factory.mktemp(name)
        shutil.copytree(
            source, folder / "kernelstream", ignore=shutil.ignore_patterns("__pycache__"),
            copy_function=shutil.copyfile,
        )  # fmt: skip
        made.append(folder)
    return made


def compiles(checkout, cache):
    """Whether Numba was needed for a function of ours and for a user's, and how much is kept."""
    given = {**os.environ, "PYTHONPATH": str(checkout), "NUMBA_CACHE_DIR": str(cache)}
    given.pop("NUMBA_DISABLE_JIT", None)
    return said_by(LEARN, given)


def test_copies_of_one_source_share_what_is_compiled(checkouts, tmp_path):
    one, other = checkouts
    assert compiles(one, tmp_path) == ["True", "1", "True", "1"]  # what a user wrote is not kept
    assert compiles(other, tmp_path) == ["False", "1", "True", "1"]
    with (other / "kernelstream" / "cli" / "app.py").open("a") as file:
        file.write("# a line of a package that defines no compiled function\n")
    assert compiles(other, tmp_path) == ["False", "1", "True", "1"]
    with (other / "kernelstream" / "parts" / "base.py").open("a") as file:
        file.write("# any line of any other file\n")
    assert compiles(other, tmp_path) == ["True", "1", "True", "1"]


def test_packages_whose_edits_leave_the_cache_valid_define_no_compiled_function():
    package = Path(kernelstream.__file__).parent
    for name in NEVER_COMPILED:
        assert (package / name).is_dir()
        for path in (package / name).rglob("*.py"):
            text = path.read_text()
            assert not re.search(r"^@(compiled|helper|rule|part|loss)\b", text, re.MULTILINE), path
            assert not re.search(r"\bcompiled\(", text), path


CHECK_FOLDER = """
import os
os.umask(0)
from kernelstream.compile import code_files
print(code_files.folder())
"""


def cache_folder(environment):
    """The cache folder that a new process chooses."""
    given = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    return said_by(CHECK_FOLDER, {**given, **environment})[0]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and modes are those of POSIX")
@pytest.mark.parametrize("writer", ["others", "group", "another owner"])
def test_a_cache_folder_that_somebody_else_can_write_is_never_used(tmp_path, writer):
    if writer == "another owner" and os.getuid() != 0:
        pytest.skip("only root can give a folder to another user")
    tmp_path.chmod(0o755)
    shared = tmp_path / "shared"
    planted = shared / "kernelstream"
    planted.mkdir(parents=True)
    chosen = {"NUMBA_CACHE_DIR": str(shared), "HOME": str(tmp_path), "XDG_CACHE_HOME": "/dev/null"}
    chosen["TMPDIR"] = str(tmp_path)
    assert cache_folder(chosen).startswith(str(planted))
    if writer == "another owner":
        os.chown(planted, 65534, 65534)
    else:
        planted.chmod(0o777 if writer == "others" else 0o770)
    assert not cache_folder(chosen).startswith(str(shared))


def test_folders_of_the_cache_are_made_for_one_user(tmp_path):
    made = Path(cache_folder({"NUMBA_CACHE_DIR": str(tmp_path / "new")}))
    for folder in (made, made.parent, made.parent.parent):
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of our own for what is kept."""
    monkeypatch.setattr(code_files, "folder", lambda: tmp_path)
    return tmp_path


CODE = Code("entry_a", ("exp", "log"), bytes(range(256)))


def test_what_is_kept_is_found(folder):
    keep(CODE)
    assert find("entry_a") == CODE
    assert find("entry_b") is None
    assert [path.name for path in folder.iterdir()] == ["entry_a.o"]


def test_a_file_of_another_function_is_not_taken(folder):
    keep(CODE)
    (folder / "entry_a.o").rename(folder / "entry_b.o")
    assert find("entry_b") is None


@pytest.mark.parametrize("damage", ["cut short", "changed", "of another format", "empty"])
def test_a_file_that_is_not_whole_is_not_taken(folder, damage):
    keep(CODE)
    file = folder / "entry_a.o"
    content = file.read_bytes()
    file.write_bytes({
        "cut short": content[:-1], "changed": content[:-1] + b"\0", "empty": b"",
        "of another format": content.replace(b"code 1", b"code 2"),
    }[damage])  # fmt: skip
    assert find("entry_a") is None


def test_a_full_disk_leaves_no_half_of_a_file(folder, monkeypatch):
    def fail(path, content):
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    keep(CODE)
    assert list(folder.iterdir()) == []


def test_code_that_calls_what_is_not_there_is_not_entered():
    assert code_files.load(CODE._replace(needs=("no_such_function",))) is None


def test_code_that_makes_arrays_works_in_a_new_process(tmp_path):
    code = (
        "import numpy as np, sys, kernelstream as ks\n"
        "X = np.random.default_rng(0).normal(size=(40, 3)); y = np.arange(40) % 4\n"
        "model = ks.KernelClassifier(loss='log_loss').partial_fit(X, y, classes=range(4))\n"
        "print(model.decision_function(X).sum())"
    )
    given = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    assert said_by(code, given) == said_by(code, given)


def test_functions_are_told_apart_by_the_types_of_their_arguments():
    def loop(x):
        return x + 1

    made = compiled(loop)
    assert made(1) == 2
    assert made(1.5) == 2.5
    names = [made.code_name(kinds) for kinds in made.addresses]
    assert len(set(names)) == 2


def test_checked_code_is_kept_apart(monkeypatch):
    made = compiled(lambda x: x[0])
    kinds = (functions.kind_of(np.zeros(1)),)
    before = made.code_name(kinds)
    monkeypatch.setattr(functions, "checks_bounds", lambda: True)
    assert made.code_name(kinds) != before
