"""What is compiled is kept on disk, and found there by whoever has the same source."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import kernelstream
from kernelstream.compiled import _NEVER_COMPILED, _Keeper, compiled

COMPILE = """
import numpy as np
from kernelstream.compiled import compiled
from kernelstream.learner.kernel_rows import norm2_of as ours

users = compiled(lambda x: x[0])
ours(np.ones(3)), users(np.ones(3))
print(*(sum(function.stats.cache_hits.values()) for function in (ours, users)))
"""


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


def hits(checkout, cache):
    """How many functions, of ours and of the user's, were found on disk."""
    given = {**os.environ, "PYTHONPATH": str(checkout), "NUMBA_CACHE_DIR": str(cache)}
    given.pop("NUMBA_DISABLE_JIT", None)
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], env=given, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_copies_of_one_source_share_what_is_compiled(checkouts, tmp_path):
    one, other = checkouts
    assert hits(one, tmp_path) == ["0", "0"]
    assert hits(other, tmp_path) == ["1", "0"]  # what a user wrote is compiled again
    with (other / "kernelstream" / "cli" / "app.py").open("a") as file:
        file.write("# a line of a package that defines no compiled function\n")
    assert hits(other, tmp_path) == ["1", "0"]
    with (other / "kernelstream" / "parts" / "base.py").open("a") as file:
        file.write("# any line of any other file\n")
    assert hits(other, tmp_path) == ["0", "0"]


def test_packages_whose_edits_leave_the_cache_valid_define_no_compiled_function():
    package = Path(kernelstream.__file__).parent
    for name in _NEVER_COMPILED:
        assert (package / name).is_dir()
        for path in (package / name).rglob("*.py"):
            text = path.read_text()
            assert not re.search(r"^@(compiled|helper|rule|part|loss)\b", text, re.MULTILINE), path
            assert not re.search(r"\bcompiled\(", text), path


CHECK_FOLDER = """
import os, sys
os.umask(0)
from kernelstream import compiled
print(compiled._FOLDER)
"""


def cache_folder(environment):
    """The cache folder that a new process chooses."""
    given = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", CHECK_FOLDER], env={**given, **environment}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


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


def test_what_is_kept_is_found_by_the_types_that_it_was_made_for(tmp_path):
    def loop(x):
        return x + 1

    made = compiled(loop)
    one, other = (_Keeper(tmp_path, loop, is_piece=False) for _ in range(2))
    for kind in (numba.float64, numba.int64):
        made.compile((kind,))
        one.save_overload((kind,), made.overloads[kind,])
    assert len(one.kept()) == 2
    for kind in (numba.float64, numba.int64):
        assert other.load_overload((kind,), made.targetctx).entry_point(1) == 2
        assert other.load_overload((kind,), made.targetctx).signature.args == (kind,)
    assert other.load_overload((numba.float32,), made.targetctx) is None


def test_a_file_of_other_types_is_not_taken(tmp_path):
    """Names are hashes of descriptions; what a file says itself is what counts."""

    def loop(x):
        return x + 1

    made, keeper = compiled(loop), _Keeper(tmp_path, loop, is_piece=False)
    for kind in (numba.float64, numba.int64):
        made.compile((kind,))
        keeper.save_overload((kind,), made.overloads[kind,])
    one, other = keeper.kept()
    one.replace(other)
    found = [keeper.load_overload((kind,), made.targetctx) for kind in (numba.float64, numba.int64)]
    assert found == [None, None]


def test_a_file_that_ends_too_early_is_made_again(tmp_path):
    def loop(x):
        return x + 1

    made, keeper = compiled(loop), _Keeper(tmp_path, loop, is_piece=False)
    made.compile((numba.float64,))
    keeper.save_overload((numba.float64,), made.overloads[numba.float64,])
    (file,) = keeper.kept()
    file.write_bytes(file.read_bytes()[:-100])
    assert keeper.load_overload((numba.float64,), made.targetctx) is None
