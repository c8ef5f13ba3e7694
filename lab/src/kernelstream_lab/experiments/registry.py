"""The registered experiments, named after their files."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelstream.parts import one_of
from kernelstream_lab.experiments.outcome import Outcome
from kernelstream_lab.experiments.papers import PAPERS
from kernelstream_lab.experiments.setting import Setting

__all__ = ["Experiment", "all_experiments", "experiment", "find", "names"]


@dataclass(frozen=True)
class Experiment:
    """An experiment of the papers.

    Attributes
    ----------
    name : str
        The name of its file, with dashes.
    title : str
        The title of its results.
    paper, figure : str
        The source of the original: one of `papers.PAPERS`, and for example "figure 3".
    question : str
        The question that it answers, in one sentence.
    parameters : dict
        The parameters, as text for readers.
    size : tuple of two floats
        The size of the plot in inches.
    caption : str
        The caption of the plot.
    perform : callable
        ``Setting -> Outcome``: runs the experiment.
    draw : callable
        ``(figure, series) -> None``: draws the series of an outcome, also one read from a file.
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
        """Run the experiment.

        Parameters
        ----------
        data : path, default=None
            The folder in which data is looked for first; see `kernelstream.datasets.load`.
        seed : int, default=0
            Seed of the random generator.
        quick : bool, default=False
            Whether to run only a few seconds, on a part of the data, as a test.
        progress : callable, default=None
            Called with the current action and the share of the work that is done.

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
    """Register a function as an experiment, named after its file."""

    def register(perform: Callable[[Setting], Outcome]) -> Callable[[Setting], Outcome]:
        name = perform.__module__.rpartition(".")[2].replace("_", "-")
        _EXPERIMENTS[name] = Experiment(
            name, title, paper, figure, question, parameters, size, caption, perform, draw
        )
        return perform

    return register


def all_experiments() -> list[Experiment]:
    """Return all experiments, in the order of the papers and of their figures."""
    return sorted(
        _EXPERIMENTS.values(),
        key=lambda found: (PAPERS.index(found.paper), re.findall(r"\d+", found.figure), found.name),
    )


def names() -> list[str]:
    """Return the names of the experiments.

    Examples
    --------
    >>> from kernelstream_lab import experiments
    >>> experiments.names()[0]
    'smd-per-weight'
    """
    return [found.name for found in all_experiments()]


def find(name: str) -> Experiment:
    """Return an experiment by name.

    Examples
    --------
    >>> from kernelstream_lab import experiments
    >>> experiments.find("sog-sinc").figure
    'figure 1'
    """
    return _EXPERIMENTS[one_of("experiment", name, names())]
