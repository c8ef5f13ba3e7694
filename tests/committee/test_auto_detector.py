"""`AutoDetector`: as its reference says, exact in blocks, all or nothing, and whole in files."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import roc_auc_score

import kernelstream as ks
from kernelstream.estimators.files import from_bytes
from kernelstream.files.bytes import FileError, to_bytes
from kernelstream.files.bytes import from_bytes as read_bytes
from tests.committee.novelty_reference import Reference, sketches


def stream(n=400, d=5, seed=0):
    """Correlated features of very different scales, one of them constant for long."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)) @ random.normal(size=(3, d)) + 0.3 * random.normal(size=(n, d))
    X[::17] *= 4.0
    X[45::60] *= 100.0
    X *= 10.0 ** random.integers(-3, 4, d)
    X[: n // 2, 0] = 0.1
    return X


X = stream()


def random_choices(machine):
    """The seed, and the features and weights of the random projections."""
    arrays = machine.to_arrays()
    return int(arrays["seed"][0]), arrays["projections.chosen"], arrays["projections.weight"]


@pytest.mark.parametrize(("n", "d"), [(700, 2), (400, 5), (150, 70)])
def test_it_is_its_reference(n, d):
    X, random = stream(n, d), np.random.default_rng(1)
    weight = random.choice([0.0, 1.0, 1.0, 2.5], n)
    weight[0] = 1.0
    model = ks.AutoDetector(nu=0.1, random_state=3).partial_fit(X[:1])
    witness = Reference(d, 0.1, *random_choices(model.machine_))
    trail = model.machine_.learn(X[1:], np.ones(n - 1), weight[1:])[0]
    expected = np.array([
        (*witness.learn(x, w), len(witness.reservoir)) for x, w in zip(X, weight, strict=True)
    ])  # fmt: skip
    np.testing.assert_allclose(trail.scores[:, 0], expected[1:, 0], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(trail.n_points, expected[1:, 2])
    np.testing.assert_allclose(trail.margin, expected[1:, 1], atol=1e-9)
    assert model.offset_ == pytest.approx(witness.threshold)
    assert model.n_seen_ == np.count_nonzero(weight)
    assert model.machine_.n_points == len(witness.reservoir) > 100


# --- sparse rows ----------------------------------------------------------------------------------


def sparse_stream(n=150, d=300, seed=0):
    """Few entries in every row, of features that appear one after another; rows without any."""
    random = np.random.default_rng(seed)
    rows = random.poisson(3.0 / (1 + np.arange(d)), size=(n, d)) * random.normal(1, 0.3, (n, d))
    rows[::40] = 0.0
    return sparse.csr_array(rows)


WORDS = sparse_stream()


def test_long_sparse_rows_are_seen_as_the_reference_says():
    X = WORDS.toarray()
    model = ks.AutoDetector(random_state=3).partial_fit(WORDS[:1])
    choices = random_choices(model.machine_)
    witness = Reference(64, 0.05, *choices, True)
    weight = np.ones(len(X))
    trail = model.machine_.learn(WORDS[1:], weight[1:], weight[1:])[0]
    expected = [witness.learn(x)[0] for x in sketches(X, choices[0])]
    # but for rows at the edge of a bin, where rounding decides
    assert np.isclose(trail.scores[:, 0], expected[1:], rtol=1e-6, atol=1e-6).mean() > 0.95
    assert np.abs(trail.scores[:, 0] - expected[1:]).max() < 0.05


def test_sparse_rows_in_blocks_one_by_one_and_from_a_file(tmp_path):
    whole = ks.AutoDetector().partial_fit(WORDS)
    pieces = ks.AutoDetector().partial_fit(WORDS[:40])
    for i in range(40, 60):
        pieces.learn_one(WORDS[[i]] if i % 2 else WORDS[[i]].toarray()[0])
    pieces.save(tmp_path / "model.ks")
    pieces = ks.load(tmp_path / "model.ks")
    before, bad = pieces.to_bytes(), WORDS[60:].copy()
    bad.data[bad.indptr[30]] = 1e200
    with pytest.raises(ValueError, match="row 30"):
        pieces.partial_fit(bad)
    assert pieces.to_bytes() == before
    weight = np.ones(150)
    weight[100:] = 0.0
    pieces.partial_fit(WORDS[60:], sample_weight=weight[60:]).partial_fit(WORDS[100:])
    assert pieces.to_bytes() == whole.to_bytes()
    np.testing.assert_array_equal(pieces.score_samples(WORDS), whole.score_samples(WORDS))


def test_long_sparse_rows_may_become_longer():
    wider = sparse.csr_array((WORDS.data, WORDS.indices, WORDS.indptr), shape=(150, 500))
    late = ks.AutoDetector().partial_fit(WORDS[:70])
    late.widen(500)
    late.partial_fit(wider[70:])
    assert late.to_bytes() == ks.AutoDetector().partial_fit(wider).to_bytes()


def test_short_sparse_rows_are_as_dense_ones():
    few = ks.AutoDetector().partial_fit(sparse.csr_array(X))
    np.testing.assert_array_equal(
        few.score_samples(sparse.csr_array(X)), ks.AutoDetector().partial_fit(X).score_samples(X)
    )


def test_strange_words_are_found_among_ten_thousand():
    random = np.random.default_rng(2)
    chance = 1.0 / (np.arange(10_000) + 10)
    words = random.choice(10_000, size=(1500, 30), p=chance / chance.sum())
    odd = np.zeros(1500, bool)
    odd[200::40] = True
    words[odd, :10] = random.integers(5000, 10_000, size=(odd.sum(), 10))
    entries = np.ones(words.size), (np.repeat(np.arange(1500), 30), words.ravel())
    rows = sparse.csr_array(entries, shape=(1500, 10_000))
    scores = ks.prequential(ks.AutoDetector(), rows).scores
    assert roc_auc_score(odd[100:], -scores[100:]) > 0.9


# --- blocks ---------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 400), max_size=5))
def test_any_split_gives_the_same_model(cuts):
    whole = ks.AutoDetector()
    scores = ks.prequential(whole, X).scores
    pieces, found = ks.AutoDetector(), []
    places = [0, *sorted(cuts), 400]
    for start, stop in itertools.pairwise(places):
        if stop > start:
            found.append(ks.prequential(pieces, X[start:stop]).scores)
    np.testing.assert_array_equal(np.concatenate(found), scores)
    assert pieces.to_bytes() == whole.to_bytes()


def test_rows_one_by_one():
    model, whole = ks.AutoDetector(), ks.AutoDetector().partial_fit(X)
    for x in X:
        model.learn_one(x)
    np.testing.assert_array_equal(model.score_samples(X), whole.score_samples(X))
    assert model.score_one(X[3]) == whole.score_samples(X[3:4])[0]
    assert model.predict_one(X[3]) == whole.predict(X[3:4])[0]
    np.testing.assert_allclose(
        whole.decision_function(X), whole.score_samples(X) - whole.offset_, atol=1e-12
    )


def test_rows_without_weight_are_absent():
    weight = np.ones(400)
    weight[::3] = 0.0
    some = ks.AutoDetector().partial_fit(X, sample_weight=weight)
    others = ks.AutoDetector().partial_fit(X[weight > 0.0])
    np.testing.assert_array_equal(some.score_samples(X), others.score_samples(X))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_a_bad_row_changes_nothing(value):
    model = ks.AutoDetector(missing="error").partial_fit(X[:200])
    before, bad = model.to_bytes(), X[200:].copy()
    bad[40, 2] = value
    with pytest.raises(ValueError, match=r"row 40|NaN|infinity"):
        model.partial_fit(bad)
    with pytest.raises(ValueError, match=r"row 0|NaN|infinity"):
        model.learn_one(bad[40])
    assert model.to_bytes() == before
    skips = ks.AutoDetector(missing="error", on_bad_row="skip").partial_fit(X[:200])
    skips.partial_fit(bad)
    assert skips.n_skipped_ == 1
    model.partial_fit(np.delete(bad, 40, axis=0))
    np.testing.assert_array_equal(skips.score_samples(X), model.score_samples(X))


def test_an_interrupted_block_is_undone(monkeypatch):
    model = ks.AutoDetector().partial_fit(X[:100])
    model.partial_fit(X[100:105])  # so that few slots have changed since the last copy
    before = model.to_bytes()

    def interrupt(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(model.machine_), "commit", interrupt)
        for rows in (slice(105, 107), slice(107, 300)):
            with pytest.raises(KeyboardInterrupt):
                model.partial_fit(X[rows])
            assert model.to_bytes() == before
    model.partial_fit(X[105:])
    assert model.to_bytes() == ks.AutoDetector().partial_fit(X).to_bytes()


def test_files_pickles_and_checkpoints(tmp_path):
    whole = ks.AutoDetector(nu=0.1, random_state=4).partial_fit(X)
    model = ks.AutoDetector(nu=0.1, random_state=4).partial_fit(X[:150])
    model.save(tmp_path / "model.ks")
    model = pickle.loads(pickle.dumps(ks.load(tmp_path / "model.ks")))
    with ks.Checkpointer(tmp_path / "run", every_rows=50) as checkpointer:
        assert checkpointer.step(model.partial_fit(X[150:300]), 300)
    model, _ = ks.Checkpointer(tmp_path / "run").resume()
    assert model.partial_fit(X[300:]).to_bytes() == whole.to_bytes()


def test_a_file_that_makes_no_sense_is_refused():
    model = ks.AutoDetector().partial_fit(X)
    for name, place, value in [
        ("projections.chosen", (3, 1), 5), ("projections.bin", (0, 7), 33), ("n_points", 0, 513),
        ("scaled.reach", (0,), -1.0), ("n_rows", 0, 0), ("white.points", (1, 1), np.nan),
        ("renewal", 0, 3), ("mahalanobis.precision", (0, 0), np.inf), ("mixed.calm", 0, -1.0),
    ]:  # fmt: skip
        machine = model.machine_.copy()
        arrays = {key: array.copy() for key, array in machine.to_arrays().items()}
        machine.fill(arrays)
        arrays[name][place] = value
        with pytest.raises(ValueError, match=r"sense|rows"):
            machine.fill(arrays)


def test_a_budget_is_the_size_of_the_sample(tmp_path):
    X = np.random.default_rng(9).normal(size=(400, 3))
    model = ks.AutoDetector(budget=40).partial_fit(X)
    assert model.machine_.n_points == 40
    model.save(tmp_path / "model.ks")
    again = ks.load(tmp_path / "model.ks").partial_fit(X[:50])
    assert again.to_bytes() == model.partial_fit(X[:50]).to_bytes()
    with pytest.raises(ValueError, match=r"budget=8 .*32"):
        ks.AutoDetector(budget=8).partial_fit(X)
    header, arrays = read_bytes(model.to_bytes())
    header["params"]["budget"] = 10**12  # which must not be allocated
    with pytest.raises(FileError, match="sample of 1000000000000 rows"):
        from_bytes(to_bytes(header, arrays))


def test_what_it_refuses():
    with pytest.raises(ValueError, match="nu=2"):
        ks.AutoDetector(nu=2).fit(X)
    with pytest.raises(ValueError, match="5 features"):
        ks.AutoDetector().fit(X).widen(6)


def test_float32_and_other_units():
    single = ks.AutoDetector().partial_fit(X.astype(np.float32))
    np.testing.assert_array_equal(
        single.score_samples(X.astype(np.float32)),
        ks.AutoDetector().partial_fit(X.astype(np.float32).astype(float))
        .score_samples(X.astype(np.float32).astype(float)),
    )  # fmt: skip
    units = 2.0 ** np.array([-30, 40, 0, 3, -9])  # which only move the exponents
    np.testing.assert_allclose(
        ks.AutoDetector().partial_fit(X * units).score_samples(X * units),
        ks.AutoDetector().partial_fit(X).score_samples(X), rtol=1e-9,
    )  # fmt: skip


STATIONARY = {
    "normal": lambda random: random.normal(size=(4000, 3)),
    "heavy": lambda random: random.standard_t(2, size=(4000, 4)),
    "clusters": lambda random: random.normal(size=(4000, 2)) + random.choice([0, 9, 18], (4000, 1)),
    "binary": lambda random: random.integers(0, 2, size=(4000, 6)).astype(float),
    "skewed": lambda random: np.exp(random.normal(size=(4000, 5))),
    "wide": lambda random: random.normal(size=(2000, 70)),
}  # fmt: skip


@pytest.mark.parametrize("name", ["normal", "clusters", "skewed", "wide"])
def test_few_alarms_where_few_are_wanted(name):
    rows = STATIONARY[name](np.random.default_rng(6))
    alarms = ks.prequential(ks.AutoDetector(nu=0.01), rows).errors
    assert 0.01 / 1.5 < alarms.mean() < 1.5 * 0.01


@pytest.mark.parametrize("name", list(STATIONARY))
@pytest.mark.parametrize("nu", [0.05, 0.2])
def test_alarms_at_the_rate_nu(name, nu):
    rows = STATIONARY[name](np.random.default_rng(5))
    model = ks.AutoDetector(nu=nu)
    alarms = ks.prequential(model, rows).errors
    assert nu / 1.5 < alarms.mean() < 1.5 * nu
    assert nu / 2 < alarms[-1000:].mean() < 1.5 * nu


@pytest.mark.parametrize("factor", [10.0, 1000.0, 0.001])
def test_alarms_come_back_after_other_units(factor):
    """Every row is an alarm at first, or none; a thousand rows later it is as before."""
    rows = np.random.default_rng(2).normal(size=(4000, 4))
    rows[2000:] *= factor
    alarms = ks.prequential(ks.AutoDetector(), rows).errors
    assert alarms[2000:2030].mean() > 0.9 or factor < 1.0
    assert 0.05 / 2 < alarms[3000:].mean() < 1.5 * 0.05


def test_kinds_of_anomalies_that_others_miss():
    random = np.random.default_rng(6)
    a = random.normal(size=1500)
    rows = np.column_stack([a, a + 0.1 * random.normal(size=1500), random.normal(size=1500)])
    odd = np.zeros(1500, bool)
    odd[200::50] = True
    rows[odd, 1] *= -1.0  # nothing is unusual about each feature by itself
    scores = ks.prequential(ks.AutoDetector(), rows).scores
    assert roc_auc_score(odd[100:], -scores[100:]) > 0.9
    clusters = 8.0 * random.integers(0, 2, size=(1500, 2)) + random.normal(size=(1500, 2))
    clusters[odd] = 4.0 + 0.5 * random.normal(size=(odd.sum(), 2))  # nearer to the mean than others
    scores = ks.prequential(ks.AutoDetector(), clusters).scores
    assert roc_auc_score(odd[100:], -scores[100:]) > 0.95


def test_a_constant_that_changes_is_an_alarm():
    rows = np.random.default_rng(8).normal(size=(300, 4))
    rows[:, 2] = 0.1
    rows[200, 2] = 0.11
    result = ks.prequential(ks.AutoDetector(), rows)
    assert result.predictions[200] == -1


def test_extremes_stay_finite():
    random = np.random.default_rng(7)
    rows = np.column_stack([
        random.choice([1e100, -1e100, 0.0], 300), random.normal(size=300) * 1e-300,
        np.full(300, 0.1), random.choice([0.0, 1e-320], 300), 1e12 + random.normal(size=300),
    ])  # fmt: skip
    rows[50, 2], rows[150:] = 7.0, rows[150]
    model = ks.AutoDetector()
    assert np.isfinite(ks.prequential(model, rows).scores).all()
    weights = np.full(300, 1e30)
    weights[::2] = 1e-30
    model.partial_fit(rows, sample_weight=weights)
    assert np.isfinite(model.score_samples(rows)).all()
