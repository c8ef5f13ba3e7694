"""The drift score: what the step size says of a change in the stream."""

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.evaluate import drift_events
from kernelstream.step_sizes import SMD

RBF = ks.kernels.RBF(gamma=1 / 200)


def switching(usps, seed, n_rows=500):
    """Five pairs of digits, one after the other; a change every 500 rows."""
    X, y = usps
    random = np.random.default_rng(seed)
    digits, rows, labels = np.random.default_rng(100 + seed).permutation(10), [], []
    for first, second in digits.reshape(5, 2):
        chosen = random.permutation(np.flatnonzero((y == first) | (y == second)))[:n_rows]
        rows.append(X[chosen])
        labels.append((y[chosen] == second).astype(int))
    return np.concatenate(rows), np.concatenate(labels), np.arange(1, 5) * n_rows


def hits(events, changes, window=200):
    """Changes that were noticed within the window, and alarms that no change explains."""
    near = [[c for c in changes if c <= event < c + window] for event in events]
    return len({c[-1] for c in near if c}), sum(not c for c in near)


def test_changes_are_noticed_better_than_by_watching_the_error(usps):
    from river import drift

    found = {"step size": np.zeros(3), "adwin": np.zeros(3)}
    for seed in range(10):
        X, y, changes = switching(usps, seed)
        result = ks.prequential(ks.KernelClassifier(RBF, step_size=SMD(0.1, 0.1, 0.99)), X, y)
        detector, alarms = drift.ADWIN(delta=0.05), []  # the best of 0.002, 0.05 and 0.2
        for row, error in enumerate(result.errors):
            detector.update(error)
            if detector.drift_detected:
                alarms.append(row)
        for name, events in (("step size", result.events), ("adwin", alarms)):
            found[name] += [*hits(events, changes), len(changes)]
    (ours, false, n), (theirs, their_false, _) = found.values()
    assert ours / n >= 0.7
    assert ours / (ours + false) >= 0.9
    assert ours > theirs
    assert false <= their_false


def test_the_step_size_rises_after_a_switch(usps):
    """ISSPA figures 1 and 2: 0 against 1, then 2 against 3."""
    X, y = usps
    rows = np.concatenate([np.flatnonzero(np.isin(y, pair))[:500] for pair in ((0, 1), (2, 3))])
    model = ks.KernelClassifier(RBF, step_size=SMD(1.0, 0.1, 0.99))
    result = ks.prequential(model, X[rows], np.isin(y[rows], (1, 3)))
    assert [event for event in result.events if event < 500] == []
    assert any(500 <= event < 600 for event in result.events)
    assert result.drift_scores[500:600].max() > 0.3 > abs(result.drift_scores[400:500]).max()


def test_it_has_no_units():
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 2))
    y = np.where(np.arange(600) < 300, X[:, 0], -X[:, 0])
    scores = [
        ks.prequential(ks.KernelRegressor(gamma=0.5), X, scale * y).drift_scores
        for scale in (1.0, 1000.0)
    ]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)
    assert scores[0][300:350].max() > 0.3
    model = ks.KernelRegressor(gamma=0.5).partial_fit(X, y)
    assert model.drift_score_ == pytest.approx(scores[0][-1])


def test_a_constant_step_says_nothing():
    X = np.random.default_rng(0).normal(size=(300, 2))
    result = ks.prequential(ks.KernelRegressor(step_size=0.1), X, X[:, 0])
    assert not result.drift_scores.any()
    assert not result.events.size


def test_events_are_counted_once():
    scores = np.array([0.0, 0.4, 0.5, 0.2, 0.4, 0.1, 0.31, 0.0, 0.29])
    assert drift_events(scores, n_seen=1000).tolist() == [1, 6]
    assert drift_events(scores, n_seen=1000, armed=False).tolist() == [1, 6]
    assert drift_events(scores[1:], n_seen=1000, armed=False).tolist() == [5]
    assert drift_events(scores, n_seen=195).tolist() == [6]
    assert drift_events(np.full(5, 0.5), n_seen=198).tolist() == []  # it rose while it was young
    assert drift_events(np.zeros(0), n_seen=0).tolist() == []


def test_a_stream_cut_into_blocks_has_the_same_events(usps):
    X, y, _ = switching(usps, 0)
    whole = ks.prequential(ks.KernelClassifier(RBF), X, y).events
    model, found = ks.KernelClassifier(RBF), []
    for start in range(0, len(X), 100):
        rows = slice(start, start + 100)
        result = ks.prequential(model, X[rows], y[rows])
        found += (start + result.events).tolist()
    assert found == whole.tolist()
