"""What an estimator knows, and the rows that it is about to learn."""

from typing import Any, NamedTuple

import numpy as np

from kernelstream.estimators.labels import Labels
from kernelstream.estimators.missing import Means
from kernelstream.learner.learn import Trail
from kernelstream.tables.columns import Columns

__all__ = ["Block", "Encoded", "Learned", "Rows"]


class Learned(NamedTuple):
    """Everything that an estimator has learned, published in one step."""

    machine: Any  # a `Learner`: a `Machine`, or a committee
    labels: Labels | None = None  # of a classifier
    class_counts: np.ndarray | None = None  # weight of every class so far, where these count
    columns: Columns | None = None  # of the tables that rows come in
    means: Means | None = None  # for values that are missing

    @property
    def row_width(self) -> int:
        """Return the number of columns that the estimator is given."""
        if self.columns is not None:
            return len(self.columns.names)
        return self.machine.n_features - (0 if self.means is None else len(self.means.marked))

    def of_table(self) -> Columns:
        """Return the columns of a model that learns from tables; an error says if it does not."""
        if self.columns is None:
            raise AttributeError(
                "columns_ and unlisted_ are known of models that learn from tables with columns of "
                "categories or dates."
            )
        return self.columns


class Rows(NamedTuple):
    """Checked rows, as a machine learns them."""

    X: Any
    y: np.ndarray
    weight: np.ndarray
    labels: Labels | None = None  # after these rows
    new_outputs: list[int] = []  # noqa: RUF012 (never changed) rows at which a class joins
    class_counts: np.ndarray | None = None  # after these rows
    columns: Columns | None = None
    means: Means | None = None

    def learned_by(self, machine: Any) -> Learned:
        """Return what is known once a machine has learned these rows."""
        return Learned(machine, self.labels, self.class_counts, self.columns, self.means)


class Block(NamedTuple):
    """A block of rows that has been learned."""

    trails: list[Trail]  # several where a new class changed the number of scores
    rows: np.ndarray | None  # which rows were learned; None: all


class Encoded(np.ndarray):
    """Rows that have passed the intake already, when they were predicted."""
