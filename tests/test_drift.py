"""Events: the loss has risen. The drift score: what the step size says of it."""

import json

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.drift import LossWatch
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

    found = {"loss": np.zeros(3), "adwin": np.zeros(3)}
    for seed in range(10):
        X, y, changes = switching(usps, seed)
        result = ks.prequential(ks.KernelClassifier(RBF, step_size=SMD(0.1, 0.1, 0.99)), X, y)
        detector, alarms = drift.ADWIN(delta=0.05), []  # the best of 0.002, 0.05 and 0.2
        for row, error in enumerate(result.errors):
            detector.update(error)
            if detector.drift_detected:
                alarms.append(row)
        for name, events in (("loss", result.events), ("adwin", alarms)):
            found[name] += [*hits(events, changes), len(changes)]
    (ours, false, n), (theirs, their_false, _) = found.values()
    assert ours / n >= 0.75
    assert ours / (ours + false) >= 0.97
    assert ours > theirs
    assert false <= their_false


def signal(X):
    return np.sin(2 * X[:, 0]) + X[:, 1]


def labels(noise, *borders):
    """Classes by where the noisy signal lies."""
    return lambda f, random: np.digitize(f + noise * random.normal(size=len(f)), borders)


def classifier(loss="hinge"):
    return lambda: ks.KernelClassifier(gamma=0.5, loss=loss)


def regressor():
    return ks.KernelRegressor(gamma=0.5)


STREAMS = {
    "two classes": (classifier(), labels(0.3, 0)),
    "two classes, much noise": (classifier(), labels(1.0, 0)),
    "a rare class": (classifier(), labels(0.3, 2.2)),
    "logistic": (classifier("log_loss"), labels(1.0, 0)),
    "four classes": (classifier(), labels(0.3, -1, 0, 1)),
    "softmax": (classifier("log_loss"), labels(0.3, -1, 0, 1)),
    "numbers": (regressor, lambda f, random: f + 0.3 * random.normal(size=len(f))),
    "numbers with outliers": (
        regressor, lambda f, random: f + 0.3 * random.standard_t(2, size=len(f))
    ),
    "novelty": (lambda: ks.NoveltyDetector(gamma=0.5), lambda f, random: None),
}  # fmt: skip


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_without_changes_has_hardly_any_events(kind):
    """At most one in 10,000 rows, where threshold crossings of the step size had up to 25."""
    make, target = STREAMS[kind]
    for seed in range(3):
        random = np.random.default_rng(seed)
        X = random.normal(size=(20_000, 4))
        events = ks.prequential(make(), X, target(signal(X), random)).events
        assert len(events) <= 2, seed


@pytest.mark.parametrize("kind", ["two classes", "four classes", "softmax", "numbers"])
def test_changes_of_other_streams_are_noticed_too(kind):
    make, target = STREAMS[kind]
    noticed, false, changes = 0, 0, np.arange(2000, 12_000, 2000)
    for seed in range(3):
        random = np.random.default_rng(seed)
        X = random.normal(size=(12_000, 4))
        other = X[:, 2] - np.sin(2 * X[:, 3])
        f = np.where(np.arange(len(X)) // 2000 % 2, other, signal(X))
        result = ks.prequential(make(), X, target(f, random))
        found = hits(result.events, changes)
        noticed, false = noticed + found[0], false + found[1]
    assert noticed >= 10  # of 15
    assert false <= 4  # in 36,000 rows


LOSSES = {
    "one": lambda random, n: np.ones(n),
    "uniform": lambda random, n: random.random(n),
    "squares": lambda random, n: random.normal(size=n) ** 2,
    "rare": lambda random, n: (random.random(n) < 0.002).astype(float),
    "rare and uneven": lambda random, n: (random.random(n) < 0.01) * random.exponential(size=n),
    "heavy tails": lambda random, n: random.standard_t(2, size=n) ** 2,
    "without a mean": lambda random, n: np.abs(random.standard_cauchy(n)),
    "zero": lambda random, n: np.zeros(n),
}


@pytest.mark.parametrize("kind", LOSSES)
def test_losses_of_any_distribution_that_stays_have_hardly_any_events(kind):
    losses = LOSSES[kind](np.random.default_rng(0), 100_000)
    assert len(LossWatch().look(losses)[1]) <= 2


@pytest.mark.parametrize("kind", ["one", "uniform", "squares", "rare and uneven"])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_a_loss_that_rises_is_one_event_in_any_unit(kind, unit):
    losses = unit * LOSSES[kind](np.random.default_rng(1), 3000)
    losses[2000:] += 2 * losses[:2000].mean()  # and stays there
    (event,) = LossWatch().look(losses)[1]
    assert 2000 < event < 2060
    assert not LossWatch().look(losses[::-1])[1].size  # a loss that falls is no event


@pytest.mark.parametrize("half", [250, 600, 5000])
@pytest.mark.parametrize("shape", ["steps", "waves"])
def test_a_loss_that_rises_regularly_is_soon_no_event(half, shape):
    """Forty cycles: without the memory of levels 33 to 86 events."""
    for seed in range(2):
        random, rows = np.random.default_rng(seed), np.arange(80 * half)
        scale = np.where(rows // half % 2, 1.0, 0.1)
        if shape == "waves":
            scale = 0.1 + 0.9 * np.maximum(np.sin(np.pi * rows / half), 0)
        losses = scale * random.exponential(size=len(rows))
        watch, events = LossWatch().look(losses)
        assert len(events) <= 10, seed
        assert (events < 40 * half).sum() >= len(events) - 3
        # a change is one all the same: the loss is higher than it regularly was
        changed = 3.0 * losses[: 2 * half]
        assert len(watch.look(changed)[1]) >= 1


def test_noise_that_alternates_has_few_events():
    random = np.random.default_rng(0)
    n = 62 * 500
    X = random.normal(size=(n, 4))
    noise = np.where(np.arange(n) // 250 % 2, 0.8, 0.2)
    y = signal(X) + noise * random.normal(size=n)
    assert len(ks.prequential(regressor(), X, y).events) <= 6  # of 62 cycles; 31 without memory


def test_no_single_row_is_an_event():
    losses = np.ones(2000)
    losses[1000] = 1e9
    assert not LossWatch().look(losses)[1].size


def test_losses_can_be_looked_at_in_pieces():
    random = np.random.default_rng(0)
    losses = random.exponential(size=3000) * np.where(np.arange(3000) // 700 % 2, 4.0, 1.0)
    watch, found = LossWatch().look(losses)
    assert found.size > 1
    for size in (1, 7, 1000):
        again, events = LossWatch(), []
        for start in range(0, 3000, size):
            again, at = again.look(losses[start : start + size])
            events += (start + at).tolist()
        assert events == found.tolist()
        assert again == watch
    saved = json.loads(json.dumps(watch))
    assert LossWatch.from_json(saved) == watch
    wrong_entries = [(0, float("nan")), (1, -1.0), (2, [1.0]), (2, "abc"), (3, -1), (6, 99),
                     (4, [1.0] * 129), (4, [float("inf")]), (7, 50)]  # fmt: skip
    wrongs = [[1, 2], *([*saved[:i], entry, *saved[i + 1 :]] for i, entry in wrong_entries)]
    for wrong in wrongs:
        with pytest.raises((TypeError, ValueError)):
            LossWatch.from_json(wrong)


def test_the_step_size_rises_after_a_switch(usps):
    """ISSPA figures 1 and 2: 0 against 1, then 2 against 3. The loss rises, too."""
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


def test_a_stream_cut_into_blocks_has_the_same_events(usps, tmp_path):
    X, y, _ = switching(usps, 0)
    whole = ks.prequential(ks.KernelClassifier(RBF), X, y).events
    model, found = ks.KernelClassifier(RBF), []
    for start in range(0, len(X), 100):
        rows = slice(start, start + 100)
        result = ks.prequential(model, X[rows], y[rows])
        found += (start + result.events).tolist()
        if start == 1000:  # a file keeps what is known of the losses
            model.save(tmp_path / "model.ks")
            model = ks.load(tmp_path / "model.ks")
    assert found == whole.tolist()
    assert whole.size
    model.fit(X[:300], y[:300])  # which forgets everything
    assert "_watch" not in model.__dict__
