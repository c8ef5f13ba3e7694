"""A model per key: each is a fleet of one model that learned the rows of its key."""

import copy
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelstream as ks
from kernelstream.fleet import part_of, record_loop

KEYS = ["a", "b", 7, 8, ("a", 1), ("a", ("b", 2))]
# what no fleet can hold: models that are estimators, and such that only `fit` can learn
ESTIMATORS = {
    "sog-svr", "sog-svr-paper", "sog-svc", "lasvm", "averaged-perceptron", "voted-perceptron",
    "smd-linear", "adagrad", "rls",
}  # fmt: skip
FITTED = {"svrseq", "adatron"}
PRESETS = [
    (preset, task)
    for preset in ks.presets.names()
    for task in ks.presets.tasks(preset)
    if preset not in ESTIMATORS | FITTED
]
COMPILED = {"test_compiled_code_and_threads_give_the_same"}


@pytest.fixture(autouse=True)
def _nearly_all_without_compiler(request):
    if request.node.name not in COMPILED:
        request.getfixturevalue("without_compiler")


def rows(task, n, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 2))
    signal = np.sin(2 * X[:, 0]) + X[:, 1]
    if task == "classifier":
        return X, np.digitize(signal, [-0.5, 0.5])
    return X, signal if task == "regressor" else None


def options(task):
    return {"classes": [0, 1, 2]} if task == "classifier" else {}


def contents(fleet):
    """Every model's bytes, by key."""
    return {k: m for keys, models in fleet.chunks() for k, m in zip(keys, models, strict=True)}


def alone(preset, task, keys, X, y, **params):
    """The same by a fleet of one model for each key."""
    found, scores = {}, np.full((len(keys), 3 if task == "classifier" else 1), np.nan)
    for key in dict.fromkeys(keys):
        mine = [i for i, k in enumerate(keys) if k == key]
        fleet = ks.Fleet(preset, task, 1, X.shape[1], **options(task), **params)
        target = None if y is None else y[mine]
        score = fleet.learn(X[mine], target, models=np.zeros(len(mine), int))
        scores[mine] = score.reshape(len(mine), -1)
        found[key] = fleet.packed(np.arange(1))[0]
    return found, scores[:, 0] if scores.shape[1] == 1 else scores


def cut(n, sizes):
    """Blocks of n rows, of these sizes in turn."""
    start, i = 0, 0
    while start < n:
        stop = min(n, start + sizes[i % len(sizes)])
        yield slice(start, stop)
        start, i = stop, i + 1


@settings(max_examples=40)
@given(
    which=st.sampled_from(PRESETS),
    keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=30),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
def test_each_model_is_a_fleet_of_its_own(which, keys, sizes, seed):
    preset, task = which
    X, y = rows(task, len(keys), seed)
    params = {"budget": 3}
    fleet = ks.KeyedFleet(preset, task, **options(task), **params)
    scores = [
        fleet.learn(keys[b], X[b], None if y is None else y[b]) for b in cut(len(keys), sizes)
    ]
    expected, expected_scores = alone(preset, task, keys, X, y, **params)
    assert contents(fleet) == expected
    np.testing.assert_array_equal(np.concatenate(scores), expected_scores)
    assert list(fleet) == list(dict.fromkeys(keys))
    assert len(fleet) == len(expected)


def test_each_model_is_the_estimator_of_its_rows():
    keys = np.array(KEYS[:2])[np.random.default_rng(0).integers(0, 2, 80)]
    X, y = rows("regressor", 80)
    fleet = ks.KeyedFleet("svmd", "regressor", budget=7, gamma=0.5)
    fleet.learn(keys, X, y)
    for key in "ab":
        single = ks.make("svmd", "regressor", **fleet.params)
        single.partial_fit(X[keys == key], y[keys == key])
        np.testing.assert_allclose(fleet.model(key).dual_coef_, single.dual_coef_, rtol=1e-9)
        np.testing.assert_allclose(
            fleet.predict([key] * 5, X[:5]), single.predict(X[:5]), rtol=1e-9, atol=1e-12
        )


def test_compiled_code_and_threads_give_the_same(monkeypatch):
    monkeypatch.setattr(record_loop, "_BYTES_WORTH_A_PIECE", 10_000)
    random = np.random.default_rng(3)
    keys, (X, _) = random.integers(0, 30, 400).tolist(), rows("novelty", 400)
    params = {"gamma": 0.5, "budget": 5, "C": 0.3, "regularization": 0.01}
    fleet = ks.KeyedFleet("silk", "novelty", n_jobs=4, **params)
    scores = np.concatenate([fleet.learn(keys[b], X[b]) for b in cut(400, [90, 7])])
    expected, expected_scores = alone("silk", "novelty", keys, X, None, **params)
    assert contents(fleet) == expected
    np.testing.assert_array_equal(scores, expected_scores)
    every = fleet.score_samples(keys, X)
    np.testing.assert_array_equal(every[:3], [fleet.score_samples([k], X[i : i + 1])[0]
                                              for i, k in enumerate(keys[:3])])  # fmt: skip


def learned(n=60, **more):
    """A fleet of regressors with a few keys."""
    keys = [KEYS[i] for i in np.random.default_rng(1).integers(0, len(KEYS), n)]
    X, y = rows("regressor", n)
    fleet = ks.KeyedFleet("svmd", "regressor", budget=4, **more)
    fleet.learn(keys, X, y)
    return fleet, keys, X, y


def test_keys_of_any_origin_are_the_same_keys():
    pandas = pytest.importorskip("pandas")
    X, y = rows("regressor", 3)
    fleet = ks.KeyedFleet("norma", "regressor", budget=4)
    fleet.learn(np.array([1, 2, 1]), X, y)
    fleet.learn([1, 2, np.int32(1)], X, y)
    fleet.learn(np.array([1, 2, 1], dtype=np.uint8), X, y)
    fleet.learn(pandas.Series([1, 2, 1]), X, y)
    assert list(fleet) == [1, 2]
    assert fleet.model(1).n_seen_ == 8
    fleet.learn(pandas.Series(["1", "2", "1"]), X, y)
    fleet.learn(np.array(["1", "2", "1"]), X, y)
    fleet.learn(pandas.Series(["1", "2", "1"], dtype="category"), X, y)
    assert list(fleet) == [1, 2, "1", "2"]
    fleet.learn(pandas.DataFrame({"shop": ["x", "y", "x"], "till": [1, 2, 1]}), X, y)
    assert list(fleet)[4:] == [("x", 1), ("y", 2)]
    assert ("x", np.int64(1)) in fleet
    assert ("x", 3) not in fleet
    assert None not in fleet


@pytest.mark.parametrize("key", [None, float("nan"), 1.5, True, b"a", ("a", None), (), ["a"]])
def test_keys_that_are_none_are_refused_or_counted(key):
    X, y = rows("regressor", 3)
    fleet = ks.KeyedFleet("norma", "regressor", budget=4)
    with pytest.raises(ks.BadRow, match=r"row 1.*key"):
        fleet.learn(["a", key, "b"], X, y)
    assert len(fleet) == 0
    skipping = ks.KeyedFleet("norma", "regressor", budget=4, on_bad_row="skip")
    scores = skipping.learn(["a", key, "b"], X, y)
    assert np.isnan(scores).tolist() == [False, True, False]
    fleet.learn(["a", "b"], X[[0, 2]], y[[0, 2]])
    assert contents(skipping) == contents(fleet)
    assert skipping.n_skipped_ == 1
    with pytest.raises(ks.BadRow, match=r"row 1.*key"):
        fleet.predict(["a", key], X[:2])


def test_bad_rows_leave_every_model_as_if_they_had_not_come():
    fleet, keys, X, y = learned(on_bad_row="skip")
    good = contents(fleet)
    twin, *_ = learned()
    bad = X.copy()
    bad[5] = np.nan
    with pytest.raises(ValueError, match=r"NaN|finite"):
        twin.learn(keys, bad, y)
    assert contents(twin) == good
    with pytest.raises(ValueError, match="3 features"):
        twin.learn(["a"], [[1.0, 2.0, 3.0]], [0.0])
    with pytest.raises(ValueError, match="entries"):
        twin.learn(["a"], X, y)
    # rows of another width, no numbers, no targets, and a new key whose only row is bad
    ragged = [[1.0, 2.0], [1.0], ["x", 2.0], [1.0, 2.0], [np.nan, 1.0]]
    scores = fleet.learn(["a", "a", "b", "b", "new"], ragged, [1.0, 1.0, 1.0, np.nan, 1.0])
    assert np.isnan(scores).tolist() == [False, True, True, True, True]
    twin.learn(["a"], [[1.0, 2.0]], [1.0])
    assert contents(fleet) == contents(twin)
    assert "new" not in fleet
    assert fleet.n_skipped_ == 4
    assert sum(fleet.skipped_.values()) == 4
    seen = []
    calling, *_ = learned(on_bad_row=seen.append)
    calling.learn(["a", None], [[np.inf, 0.0], [0.0, 0.0]], [1.0, 1.0])
    assert [bad.row for bad in seen] == [0, 1]


def test_labels_that_are_unknown_are_refused_or_counted():
    X, _ = rows("classifier", 6)
    fleet = ks.KeyedFleet("svmd", "classifier", classes=[0, 1, 2], budget=4, on_bad_row="skip")
    fleet.learn(["a"] * 6, X, [0, 1, 9, 2, None, 1])
    assert fleet.n_skipped_ == 2
    strict = ks.KeyedFleet("svmd", "classifier", classes=[0, 1, 2], budget=4)
    with pytest.raises(ValueError, match="label 9"):
        strict.learn(["a"] * 6, X, [0, 1, 9, 2, 0, 1])
    assert len(strict) == 0
    assert fleet.predict(["a", "b", "a"], X[:3]).tolist()[1] is None
    assert fleet.n_skipped_ == 2  # to predict is not to learn
    assert fleet.classes_.tolist() == [0, 1, 2]


def test_unknown_keys_are_refused_or_counted():
    fleet, _, X, _ = learned()
    with pytest.raises(ks.BadRow, match=r"row 1.*'nobody' is unknown"):
        fleet.predict(["a", "nobody"], X[:2])
    with pytest.raises(KeyError, match="nobody"):
        fleet.model("nobody")
    skipping, *_ = learned(on_bad_row="skip")
    found = skipping.predict(["a", "nobody"], X[:2])
    assert np.isnan(found).tolist() == [False, True]
    assert found[0] == fleet.predict(["a"], X[:1])[0]
    assert skipping.n_skipped_ == 0  # to predict is not to learn
    new = ks.KeyedFleet("svmd", "regressor", budget=4)
    with pytest.raises(ks.BadRow, match="unknown"):
        new.predict(["a"], X[:1])


def test_a_row_without_weight_is_scored_only():
    fleet, _, X, y = learned()
    before = contents(fleet)
    scores = fleet.learn(["a", "new"], X[:2], y[:2], sample_weight=[0.0, 0.0])
    assert contents(fleet) == before
    assert scores[0] == fleet.score_samples(["a"], X[:1])[0]
    assert scores[1] == 0.0


@given(n=st.integers(1, 5))
@settings(max_examples=5)
def test_split_and_join(n):
    fleet, _, X, y = learned()
    fleet.predict(["a", "b"], X[:2], ids=["first", "second"])
    parts = fleet.split(n)
    assert len(parts) == n
    for p, part in enumerate(parts):
        assert all(part_of(key, n) == p for key in part)
        assert all(part.model(key).n_seen_ == fleet.model(key).n_seen_ for key in part)
    together = {}
    for part in parts:
        together |= contents(part)
    assert together == contents(fleet)
    whole = ks.KeyedFleet("svmd", "regressor", budget=4).join(*parts)
    assert contents(whole) == contents(fleet)
    for one in (whole, fleet):
        one.learn_labels(["second", "first"], y[:2])
    assert contents(whole) == contents(fleet)
    with pytest.raises(ValueError, match="key"):
        whole.join(fleet)
    with pytest.raises(ValueError, match="kind"):
        whole.join(ks.KeyedFleet("svmd", "regressor", budget=5))


def test_fleets_come_back_from_bytes_and_files(tmp_path):
    fleet, keys, X, y = learned(max_waiting=3)
    fleet.predict(["a", ("a", 1)], X[:2], ids=[5, "six"])
    fleet.save(tmp_path / "fleet.ks")
    twins = [
        ks.load(tmp_path / "fleet.ks"), ks.KeyedFleet.from_bytes(fleet.to_bytes()),
        pickle.loads(pickle.dumps(fleet)), copy.deepcopy(fleet),
    ]  # fmt: skip
    content = fleet.to_bytes()
    fleet.learn([*keys, "new"], [*X, X[0]], [*y, 0.0])
    fleet.learn_labels(["six", 5], [1.0, 2.0])
    for twin in twins:
        assert twin.to_bytes() == content
        twin.learn([*keys, "new"], [*X, X[0]], [*y, 0.0])
        assert twin.n_waiting_ == 2
        twin.learn_labels(["six", 5], [1.0, 2.0])
        assert contents(twin) == contents(fleet)
        assert twin.n_rows_ == fleet.n_rows_
    nothing = ks.KeyedFleet("svmd", "classifier", classes=["x", "y"], budget=4)
    nothing.learn(["a"], X[:1], ["x"], sample_weight=[0.0])  # its fleet has no model
    back = ks.KeyedFleet.from_bytes(nothing.to_bytes())
    for one in (nothing, back):
        one.learn(["a", "b"], X[:2], ["y", "x"])
    assert contents(back) == contents(nothing)
    empty = ks.KeyedFleet("silk", "novelty", budget=4, on_bad_row="skip")
    assert ks.KeyedFleet.from_bytes(empty.to_bytes()).to_bytes() == empty.to_bytes()


def test_changed_bytes_are_refused():
    fleet, *_ = learned()
    content = fleet.to_bytes()
    for place in np.random.default_rng(0).integers(0, len(content), 60):
        changed = bytearray(content)
        changed[place] ^= 1 << int(place) % 8
        with pytest.raises(ks.FileError):
            ks.KeyedFleet.from_bytes(bytes(changed))
    with pytest.raises(ks.FileError, match=r"checksum|cut short"):
        ks.KeyedFleet.from_bytes(content[:-3])
    with pytest.raises(ks.FileError, match="not a KeyedFleet"):
        ks.KeyedFleet.from_bytes(ks.Fleet("silk", "novelty", 1, 1, budget=2).to_bytes())


def test_newer_versions_and_strange_files_are_refused():
    from kernelstream.files.bytes import from_bytes, to_bytes

    header, arrays = from_bytes(learned()[0].to_bytes())
    strange = [
        ({"keyed_version": 3}, {}, "install a newer"),
        ({"n_rows": 3}, {}, "later rows"),
        ({}, {"keys": arrays["keys"][:-1]}, "describe"),
        ({}, {"last": arrays["last"][:-1]}, "keys for"),
        ({"max_models": 0}, {}, "max_models"),
        ({}, {"expansion.n_points": arrays["expansion.n_points"] + 99}, "points"),
    ]
    for entries, changed, message in strange:
        content = to_bytes({**header, **entries}, {**arrays, **changed})
        with pytest.raises(ks.FileError, match=message):
            ks.KeyedFleet.from_bytes(content)


def test_targets_that_come_later():
    fleet, _, X, y = learned(max_waiting=2)
    twin, *_ = learned()
    found = fleet.predict(["a", "new", 7], X[:3], ids=["x", "y", "z"])
    assert np.isnan(found).tolist() == [False, True, False]
    assert fleet.n_waiting_ == 2  # the first one had to go
    before = contents(fleet)
    assert before == contents(twin)
    with pytest.raises(ValueError, match="'x'"):
        fleet.learn_labels(["x", "y"], y[:2])
    with pytest.raises(ValueError, match=r"finite|NaN"):
        fleet.learn_labels(["y"], [np.nan])
    assert contents(fleet) == before
    assert fleet.n_waiting_ == 2
    fleet.learn_labels(["z", "y"], y[[2, 1]])
    twin.learn([7, "new"], X[[2, 1]], y[[2, 1]])
    assert contents(fleet) == contents(twin)
    assert fleet.n_waiting_ == 0
    new = ks.KeyedFleet("svmd", "regressor", budget=4)
    for bad in ([[np.nan, 0.0]], [1.0, 2.0]):
        with pytest.raises(ValueError, match=r"NaN|shape"):
            new.predict(["a"] * len(bad), bad, ids=list(range(len(bad))))
    new.predict(["a"], X[:1], ids=["first"])  # before anything was learned
    with pytest.raises(ValueError, match="rows of 2"):
        new.predict(["a"], [[1.0, 2.0, 3.0]], ids=["second"])
    back = ks.KeyedFleet.from_bytes(new.to_bytes())
    back.learn_labels(["first"], y[:1])
    assert len(back) == 1
    with pytest.raises(ValueError, match="without targets"):
        ks.KeyedFleet("silk", "novelty", budget=4).predict(["a"], [[1.0]], ids=[1])


def test_the_table_tells_of_every_model():
    pytest.importorskip("pandas")
    fleet, keys, *_ = learned()
    table = fleet.to_pandas()
    assert table.index.tolist() == list(fleet)
    for key in fleet:
        line, model = table.loc[[key]].iloc[0], fleet.model(key)
        assert line.n_seen == keys.count(key) == model.n_seen_
        assert line.drift_score == model.drift_score_
        assert line.n_support == model.n_support_
        assert not line.moved_out
    assert len(ks.KeyedFleet("svmd", "regressor", budget=4).to_pandas()) == 0


def test_bytes_per_model_are_known_before():
    fleet = ks.KeyedFleet("svmd", "regressor", budget=4)
    expected = fleet.bytes_per_model(2)
    with pytest.raises(ValueError, match="n_features"):
        fleet.bytes_per_model()
    fleet, *_ = learned()
    assert fleet.bytes_per_model() == expected
    assert {len(content) for content in contents(fleet).values()} == {expected}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_models": 3}, "store"),
        ({"idle_rows": 0}, "idle_rows"),
        ({"budget": None}, "budget"),
        ({"n_features": 0}, "n_features"),
        ({"on_bad_row": "ignore"}, "on_bad_row"),
        ({"gama": 1.0}, "gama"),
        ({"classes": [0, 1]}, "classes"),
    ],
)
def test_parameters_are_checked_at_once(params, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ks.KeyedFleet("svmd", "regressor", **{"budget": 4, **params})


@pytest.mark.parametrize("preset", sorted(ESTIMATORS))
def test_models_that_are_no_records_are_the_estimators_of_their_rows(preset):
    task = ks.presets.tasks(preset)[0]
    params = {} if preset in ("smd-linear", "adagrad", "rls", "lasvm") else {"budget": 4}
    keys = [KEYS[i] for i in np.random.default_rng(1).integers(0, 3, 40)]
    X, y = rows(task, 40)
    fleet = ks.KeyedFleet(preset, task, **options(task), **params)
    for block in cut(40, [7, 12]):
        fleet.learn(keys[block], X[block], y[block])
    for key in KEYS[:3]:
        mine = [i for i, k in enumerate(keys) if k == key]
        single = ks.make(preset, task, **fleet.params).partial_fit(
            X[mine], y[mine], **options(task)
        )
        found, expected = fleet.predict([key] * 9, X[:9]), single.predict(X[:9])
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        assert fleet.model(key).n_seen_ == len(mine)


def test_committees_per_key(tmp_path):
    committee = ks.Committee(["svmd", "norma"], "regressor")
    keys = [KEYS[i] for i in np.random.default_rng(1).integers(0, 4, 60)]
    X, y = rows("regressor", 60)
    store = ks.ModelStore(tmp_path / "models.db")
    fleet = ks.KeyedFleet(committee, "regressor", max_models=2, store=store)
    plain = ks.KeyedFleet(committee, "regressor")
    assert plain.bytes_per_model(2) > 10_000
    found = []
    for block in cut(60, [11]):
        fleet.learn(keys[block], X[block], y[block])
        found.append(plain.learn(keys[block], X[block], y[block]))
    scores = np.concatenate(found)
    assert contents(fleet) == contents(plain)
    assert len(store) == 2
    single = ks.Committee(["svmd", "norma"], "regressor")
    mine = [i for i, k in enumerate(keys) if k == 7]
    result = ks.prequential(single, X[mine], y[mine])
    np.testing.assert_allclose(scores[mine], result.scores, atol=1e-9)
    np.testing.assert_allclose(fleet.predict([7] * 5, X[:5]), single.predict(X[:5]), atol=1e-9)
    twin = ks.KeyedFleet.from_bytes(plain.to_bytes())
    for one in (twin, plain):
        one.learn(keys, X, y)
    assert contents(twin) == contents(plain)
    parts = [ks.KeyedFleet.from_bytes(part.to_bytes()) for part in plain.split(2)]
    assert contents(parts[0].join(parts[1])) == contents(plain)
    before = contents(plain)
    with pytest.raises(ValueError, match="infinity"):
        plain.learn(["a", 7], [[1.0, 2.0], [np.inf, 0.0]], [1.0, 1.0])
    assert contents(plain) == before
    assert plain.to_pandas().n_seen.sum() == 120
    with pytest.raises(ValueError, match="estimator itself"):
        ks.KeyedFleet(committee, "regressor", budget=5)
    with pytest.raises(TypeError, match="task='novelty'"):
        ks.KeyedFleet(committee, "novelty")


def test_readers_see_one_moment_while_models_come_and_go(tmp_path):
    store = ks.ModelStore(tmp_path / "models.db")
    fleet = ks.KeyedFleet("svmd", "regressor", budget=3, max_models=2, store=store)
    X, y = rows("regressor", 300)
    calm = ["calm 1", "calm 2", "calm 3"]
    fleet.learn(calm, X[:3], y[:3])
    expected, problems, done = fleet.predict(calm, X[:3]), [], threading.Event()

    def read():
        while not done.is_set():
            found = fleet.predict(calm, X[:3])
            if not (found == expected).all():
                problems.append(found)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for i in range(0, 300, 5):
            fleet.learn([f"key {i % 7 + k}" for k in range(5)], X[i : i + 5], y[i : i + 5])
    finally:
        done.set()
        reader.join()
    assert not problems
