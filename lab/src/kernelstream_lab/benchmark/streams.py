"""The streams of the benchmark: name, task, half, seed and length of each."""

import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kernelstream_lab.benchmark import anomalies, classes, numbers

__all__ = ["STREAMS", "TASKS", "Rows", "Stream"]

# What is measured in each task; lower is better in all of them.
TASKS = {
    "classify": "share of rows with a wrong label",
    "regress": "root mean squared error over that of the running mean",
    "novelty": "one minus the area under the ROC curve of the score",
}


class Rows(NamedTuple):
    """The rows of a stream: features, and labels, numbers or, for novelty, 1 for an anomaly."""

    X: np.ndarray
    y: np.ndarray

    def checksum(self) -> str:
        """Return a number that changes with the rows."""
        found = zlib.crc32(np.ascontiguousarray(self.X, dtype=float).tobytes())
        return f"{zlib.crc32(np.ascontiguousarray(self.y, dtype=float).tobytes(), found):08x}"


class Stream(NamedTuple):
    """A stream with a fixed seed and length.

    Attributes
    ----------
    name : str
    task : {"classify", "regress", "novelty"}
    half : {"choosing", "reporting"}
        Whether methods may be chosen by this stream, or are only reported on it. Decided before any
        method was run.
    make : callable
        Takes a random generator and the number of rows; returns X and y.
    n_rows : int
    wait : int
        Labels arrive together after so many rows; 1 means after each row.
    about : str
        A description in one line.
    """

    name: str
    task: str
    half: str
    make: Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
    n_rows: int
    about: str
    wait: int = 1

    @property
    def seed(self) -> int:
        """Return the seed of the random generator, which follows from the name."""
        return zlib.crc32(self.name.encode())

    def rows(self) -> Rows:
        """Return the rows, the same at every call."""
        return _rows(self)


@lru_cache(maxsize=2)  # contestants follow each other on the same stream
def _rows(stream: Stream) -> Rows:
    X, y = stream.make(np.random.default_rng(stream.seed), stream.n_rows)
    return Rows(np.ascontiguousarray(X, dtype=float), np.asarray(y))


# The halves were fixed before any learner was run on these streams. Where two are alike, each half
# has one of them.
_TABLE: list[tuple[str, str, list[tuple]]] = [
    ("classify", "choosing", [
        ("digits-counting", classes.digits_counting, 1600, "scikit-learn's digits, counting"),
        ("image-segments", classes.image_segments, 2310, "River's image segments, 7 classes"),
        ("yeast", classes.yeast, 2417, "River's yeast, 103 features, the second label"),
        ("sea", classes.sea, 8000, "SEA, four concepts, 10 % noise"),
        ("hyperplane", classes.hyperplane, 8000, "a hyperplane that turns slowly, 5 % noise"),
        ("led", classes.led, 5000, "LED digits, 7 of 24 bits count, and change their places"),
        ("random-tree", classes.random_tree, 8000, "3 classes, by a random tree of depth 6"),
        ("new-classes", classes.new_classes, 8000, "20 classes that appear one after another"),
        ("units", classes.units, 5000, "a quadratic concept in units from 1e-6 to 1e6"),
    ]),
    ("classify", "reporting", [
        ("digits-switching", classes.digits_switching, 1797, "five pairs of digits, one by one"),
        ("bananas", classes.bananas, 5300, "River's bananas"),
        ("phishing", classes.phishing, 1250, "River's phishing"),
        ("agrawal", classes.agrawal, 8000, "Agrawal's loans, three functions, 5 % noise"),
        ("rbf-drift", classes.rbf_drift, 10000, "RandomRBF, 50 moving centres, 5 classes"),
        ("waveform", classes.waveform, 5000, "three waveforms, 21 features and 19 of noise"),
        ("checkerboard", classes.checkerboard, 8000, "a checkerboard that rotates"),
        ("outliers", classes.outliers, 5000, "two moons; 1 % of the rows times 1e6"),
        ("late-labels", classes.late_labels, 6000, "RandomRBF; labels come after 200 rows", 200),
    ]),
    ("regress", "choosing", [
        ("friedman-drift", numbers.friedman_drift, 9000, "Friedman; features change their roles"),
        ("robot-arm", numbers.robot_arm, 8000, "distance reached by an arm of four joints"),
        ("flipping-weights", numbers.flipping, 5000, "linear; weights change their signs"),
        ("water-flow", numbers.water_flow, 1244, "River's water flow, from the last 24 hours"),
        ("units-regress", numbers.units, 5000, "Friedman in units from 1e-6 to 1e6"),
        ("heavy-tails", numbers.heavy_tails, 5000, "lognormal features, noise of Student's t"),
        ("many-features", numbers.many_features, 4000, "50 features, of which 5 count"),
    ]),
    ("regress", "reporting", [
        ("planes", numbers.planes, 5000, "Breiman's two planes, 10 discrete features"),
        ("mackey-glass", numbers.mackey_glass, 5000, "a chaotic series, 6 steps ahead"),
        ("trump-approval", numbers.trump_approval, 1001, "River's approval ratings"),
        ("sp500", numbers.sp500, 1257, "River's stocks: tomorrow's return, nearly pure noise"),
        ("outliers-regress", numbers.outliers, 5000, "Friedman; 1 % of the rows times 1e6"),
        ("late-numbers", numbers.late_numbers, 6000, "a drifting wave; y after 100 rows", 100),
        ("steps", numbers.steps, 6000, "constant on the leaves of a random tree"),
    ]),
    ("novelty", "choosing", [
        ("ring", anomalies.ring, 5000, "a ring; anomalies in its middle"),
        ("correlated", anomalies.correlated, 5000, "anomalies break the correlation"),
        ("strange-segments", anomalies.strange_segments, 1360, "River's segments; 3 % sky, grass"),
        ("subspace", anomalies.subspace, 5000, "heavy tails; anomalies in 2 of 20 features"),
        ("sine", anomalies.sine, 5000, "windows of a wave; anomalies out of phase"),
    ]),
    ("novelty", "reporting", [
        ("shuttle", anomalies.shuttle, 10000, "River's shuttle, 7 % anomalies"),
        ("clusters", anomalies.clusters, 5000, "eight clusters; anomalies between them"),
        ("strange-digits", anomalies.strange_digits, 1250, "digits 0 to 6; 5 % are 7, 8, 9"),
        ("drifting-clusters", anomalies.drifting_clusters, 8000, "clusters that move"),
        ("units-novelty", anomalies.units, 5000, "units from 1e-6 to 1e6; anomalies of 4 sd"),
    ]),
]  # fmt: skip

STREAMS = {
    row[0]: Stream(row[0], task, half, *row[1:])
    for task, half, rows in _TABLE
    for row in rows
}  # fmt: skip
