"""What is compiled is kept on disk, and found there by whoever has the same source."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import kernelstream
from kernelstream.compiled import _Keeper

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
    with (other / "kernelstream" / "parts.py").open("a") as file:
        file.write("# any line of any file\n")
    assert hits(other, tmp_path) == ["0", "0"]


def test_processes_that_keep_functions_at_the_same_time_do_not_mix_them_up(tmp_path, monkeypatch):
    """One looks into the index, and then writes, while another does both."""
    one, other = _Keeper(tmp_path, "loop"), _Keeper(tmp_path, "loop")
    first, second = ((numba.float64,), "cpu"), ((numba.int64,), "cpu")
    write = one._save_data
    monkeypatch.setattr(other, "_load_index", dict)  # as it was before
    monkeypatch.setattr(
        one, "_save_data", lambda *given: (other.save(second, "of second"), write(*given))
    )
    one.save(first, "of first")
    monkeypatch.undo()
    assert one.load(second) == "of second"
    assert one.load(first) in (None, "of first")  # then it is compiled once more
