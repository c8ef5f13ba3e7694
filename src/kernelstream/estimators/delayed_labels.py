"""Rows that wait for their labels: predicted with an id now, learned by that id later."""

from typing import Any

import numpy as np

from kernelstream.estimators.intake import Intake
from kernelstream.estimators.learned import Encoded, Learned
from kernelstream.estimators.made_with import refuse_changed

__all__ = ["learn_labels", "scores_of_waiting"]


def scores_of_waiting(model: Any, X: Any, ids: Any) -> tuple[np.ndarray, Learned]:
    """Return the scores of rows, which then wait, and what had been learned.

    Columns and means count these rows now, as they come, so that the numbers that wait are those
    that were scored.
    """
    learned = model.known()
    refuse_changed(model)
    rows = Intake(model, learned).take(X)
    with learned.machine.gate:
        scores = learned.machine.scores(rows.X, model.readout())
    room = model.pending_rows()
    room.add(ids, rows.X)
    model.take_in(room)
    model.learned = learned._replace(columns=rows.columns, means=rows.means)
    return scores, learned


def learn_labels(model: Any, ids: Any, y: Any, sample_weight: Any) -> None:
    """Learn the labels of rows that wait under these ids. If that fails, the rows wait on."""
    room = model.pending_rows()
    rows = room.rows_of(ids)
    rows = rows.view(Encoded) if isinstance(rows, np.ndarray) else rows
    model.learn_block(rows, y, None, sample_weight, keep_scores=False)
    room.remove(ids)
