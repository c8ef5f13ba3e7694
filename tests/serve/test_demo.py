"""The demo: a stream that changes, and a stop that need not wait for the compiler."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from kernelstream.serve import demo as demo_module
from kernelstream.serve.demo import Demo, drifting_rows


class Compilers:
    """Processes that take as long as they are told to, in place of those that compile."""

    seconds = 0

    def __init__(self):
        self.made = []

    def __call__(self, module):
        sleep = f"import time; time.sleep({self.seconds})"
        self.made.append(subprocess.Popen([sys.executable, "-c", sleep]))
        return self.made[-1]


@pytest.fixture
def compilers(monkeypatch, tmp_path):
    """Nothing has been compiled before."""
    found = Compilers()
    monkeypatch.setattr(demo_module, "another_python", found)
    monkeypatch.setattr(demo_module, "note", lambda name: tmp_path / name)
    return found


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_it_stops_while_it_compiles(compilers, tmp_path):
    compilers.seconds = 600
    demo = Demo(tmp_path / "folder")
    while not compilers.made:
        time.sleep(0.01)
    demo.close()
    assert compilers.made[0].returncode == -signal.SIGKILL
    assert [model.position for model in demo.service.models.values()] == [0, 0]
    assert not (tmp_path / "demo").exists()


@pytest.mark.usefixtures("interpreted")
def test_rows_come_when_it_has_compiled_which_is_done_once(compilers, tmp_path):
    for n in range(2):
        demo = Demo(tmp_path / f"folder-{n}", rows_per_second=10_000)
        models = demo.service.models.values()
        while not all(model.position >= 100 for model in models):
            time.sleep(0.01)
        demo.close()
        assert all(model.failure is None for model in models)
    assert [process.returncode for process in compilers.made] == [0]


def test_the_stream_changes():
    blocks = [block for _, block in zip(range(400), drifting_rows(), strict=False)]
    X, y = np.concatenate([X for X, _ in blocks]), np.concatenate([y for _, y in blocks])
    sides = np.array([np.corrcoef(X[i : i + 1000, 0], y[i : i + 1000] == "storm")[0, 1]
                      for i in range(0, 8000, 1000)])  # fmt: skip
    assert sides[:3].min() > 0.2  # until the classes change, after 4,000 rows
    assert sides[4:7].max() < 0
