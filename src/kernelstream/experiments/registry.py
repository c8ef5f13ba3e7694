"""Which experiments there are: each is found by its file."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelstream.experiments.outcome import Outcome
from kernelstream.experiments.papers import PAPERS
from kernelstream.experiments.setting import Setting
from kernelstream.parts import one_of

__all__ = ["Experiment", "all_experiments", "experiment", "find", "names"]


@dataclass(frozen=True)
class Experiment:
    """An experiment of the papers.

    Attributes
    ----------
    name : str
        That of its file, with dashes.
    title : str
    paper, figure : str
        Where the original is: one of `papers.PAPERS`, and "figure 3" or the like.
    question : str
        What it answers, in one sentence.
    parameters : dict
        What was set, as a reader would say it.
    size : tuple of two floats
        Of the picture, in inches.
    caption : str
        What the picture shows.
    perform : callable
        ``Setting -> Outcome``.
    draw : callable
        ``(figure, series) -> None``: draws an outcome's series, also one read from a file.
    """

    name: str
    title: str
    paper: str
    figure: str
    question: str
    parameters: dict[str, Any]
    size: tuple[float, float]
    caption: str
    perform: Callable[[Setting], Outcome]
    draw: Callable[[Any, dict[str, Any]], None]

    def run(
        self,
        data: str | Path | None = None,
        seed: int = 0,
        quick: bool = False,
        progress: Callable[[str, float], None] | None = None,
    ) -> Outcome:
        """Do it.

        Parameters
        ----------
        data : path, default=None
            A folder to look for the data in first; see `kernelstream.datasets.load`.
        seed : int, default=0
        quick : bool, default=False
            A few seconds on a part of the data, to see that it works.
        progress : callable, default=None
            Is told what is being done and which share of the work is behind.

        Returns
        -------
        Outcome
        """
        setting = Setting(data, seed, quick, progress)
        outcome = self.perform(setting)
        return outcome.with_notes(setting.remarks)


_EXPERIMENTS: dict[str, Experiment] = {}


def experiment(
    *, title: str, paper: str, figure: str, question: str, parameters: dict[str, Any],
    caption: str, draw: Callable[[Any, dict[str, Any]], None],
    size: tuple[float, float] = (10.0, 3.9),
) -> Callable[[Callable[[Setting], Outcome]], Callable[[Setting], Outcome]]:  # fmt: skip
    """Decorator: make a function an experiment, with the name of its file."""

    def register(perform: Callable[[Setting], Outcome]) -> Callable[[Setting], Outcome]:
        name = perform.__module__.rpartition(".")[2].replace("_", "-")
        _EXPERIMENTS[name] = Experiment(
            name, title, paper, figure, question, parameters, size, caption, perform, draw
        )
        return perform

    return register


def all_experiments() -> list[Experiment]:
    """Every experiment, in the order of the papers and of their figures."""
    return sorted(
        _EXPERIMENTS.values(),
        key=lambda found: (PAPERS.index(found.paper), re.findall(r"\d+", found.figure), found.name),
    )


def names() -> list[str]:
    """The names of the experiments.

    Examples
    --------
    >>> from kernelstream import experiments
    >>> experiments.names()[0]
    'svmd-usps-binary'
    """
    return [found.name for found in all_experiments()]


def find(name: str) -> Experiment:
    """An experiment by name.

    Examples
    --------
    >>> from kernelstream import experiments
    >>> experiments.find("sog-sinc").figure
    'figure 1'
    """
    return _EXPERIMENTS[one_of("experiment", name, names())]
