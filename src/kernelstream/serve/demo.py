"""An endless stream that changes now and then, so that the page shows something at once.

    python -m kernelstream.serve.demo

compiles what its models need, and keeps it on disk. The demo lets another process do so, while its
own answers, and stops at once when it is told to.
"""

import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from kernelstream.committee import Committee
from kernelstream.committee.warming import another_python, may_start_processes
from kernelstream.compile import note
from kernelstream.estimators import KernelClassifier
from kernelstream.presets import make
from kernelstream.serve.blocks import Block
from kernelstream.serve.estimator import ServedEstimator
from kernelstream.serve.model import ServedModel
from kernelstream.serve.queue import Closed, QueueFull
from kernelstream.serve.service import Service

__all__ = ["Demo", "drifting_rows"]

_FEATURES, _BLOCK = 4, 20
_SWITCH = 4000  # rows after which the classes change at once


def drifting_rows(seed: int = 0) -> Iterator[tuple[np.ndarray, list[str]]]:
    """Yield blocks of twenty rows of two classes; the border rotates slowly and sometimes jumps.

    Examples
    --------
    >>> from kernelstream.serve.demo import drifting_rows
    >>> X, y = next(drifting_rows())
    >>> X.shape, sorted(set(y))
    ((20, 4), ['calm', 'storm'])
    """
    random = np.random.default_rng(seed)
    n_rows = 0
    while True:
        X = random.normal(size=(_BLOCK, _FEATURES))
        angle = n_rows / 6000 + 2.2 * (n_rows // _SWITCH)
        side = np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1] + 0.4 * (X[:, 2] ** 2 - 1)
        storm = side + 0.2 * random.normal(size=_BLOCK) > 0.3
        yield X, np.where(storm, "storm", "calm").tolist()
        n_rows += _BLOCK


def new_models() -> dict[str, Any]:
    """Return the models of the demo, by name."""
    committee = {
        "kernel": KernelClassifier(budget=128, scaling="running"),
        "linear": make("linear-pa", "classifier"),
    }
    return {
        "svmd": KernelClassifier(budget=128, scaling="running"),
        "committee": Committee(committee, "classifier"),
    }


class Demo:
    """A service of two models that learn from a generated stream.

    Parameters
    ----------
    folder : str or path-like
        For checkpoints and logs.
    rows_per_second : float, default=400.0
    """

    def __init__(self, folder: Any, rows_per_second: float = 400.0, **options: Any):
        folder = Path(folder)
        self.service = Service(
            [ServedModel(name, model, folder / name) for name, model in new_models().items()],
            **options,
        )
        self._pause = _BLOCK / rows_per_second
        self._stop = threading.Event()
        self._feeder = threading.Thread(target=self._feed, name="demo", daemon=True)
        self._feeder.start()

    def close(self) -> None:
        """Stop the stream and the models."""
        self._stop.set()
        self._feeder.join()
        self.service.close()

    def _feed(self) -> None:
        self._compile()
        for n, (X, y) in enumerate(drifting_rows()):
            if self._stop.wait(self._pause):
                return
            for model in self.service.models.values():
                if n % 200 == 199:  # a sensor fails now and then
                    model.refuse(["it contains NaN or infinity"])
                try:
                    model.submit(Block(X, list(y)))
                except QueueFull:
                    pass
                except Closed:
                    return

    def _compile(self) -> None:
        """Compile in another process, once; the process ends when the demo stops."""
        done = note("demo")
        if done is None or done.exists() or not may_start_processes():
            return  # then the first rows wait until this one has compiled
        with suppress(OSError), another_python("kernelstream.serve.demo") as process:
            while process.poll() is None:
                if self._stop.wait(0.05):
                    process.kill()
            if process.returncode == 0:
                done.touch()


def _learn_some() -> None:
    for model in new_models().values():
        served = ServedEstimator(model)
        for X, y in islice(drifting_rows(), 3):
            served.learn(Block(X, y))


if __name__ == "__main__":
    _learn_some()
