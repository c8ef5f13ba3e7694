"""A fleet from a user's side: as the single estimators, many at once."""

import copy
import pickle

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.fleet import record_loop
from kernelstream.label_kernels import Taxonomy

N = 6
SETTINGS = {
    "silk": ("silk", "novelty", {"gamma": 0.5, "budget": 5, "C": 0.3, "regularization": 0.01}),
    "multiclass": ("svmd", "classifier", {"gamma": 0.5, "budget": 7, "fit_intercept": True}),
    "binary": ("norma", "classifier", {"kernel": "poly", "budget": 7}),
    "regressor": ("silk-md", "regressor", {"kernel": "laplacian", "budget": 7}),
}
COMPILED = {
    "test_each_model_is_the_estimator_of_its_rows[multiclass]",
    "test_threads_and_the_order_of_models_change_nothing",
}


@pytest.fixture(autouse=True)
def _nearly_all_without_compiler(request):
    if request.node.name not in COMPILED:
        request.getfixturevalue("without_compiler")


def rows(task, n_frames=40, n_models=N, n_classes=3, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_frames, n_models, 3))
    signal = np.sin(2 * X[..., 0]) + X[..., 1] * np.linspace(0, 1, n_frames)[:, None]
    if task == "classifier":
        return X, np.digitize(signal, [0.0] if n_classes == 2 else [-0.5, 0.5])
    return X, signal if task == "regressor" else None


def frame(y, t):
    return None if y is None else y[t]


@pytest.mark.parametrize("name", SETTINGS)
def test_each_model_is_the_estimator_of_its_rows(name):
    preset, task, params = SETTINGS[name]
    n_classes = 2 if name == "binary" else 3
    X, y = rows(task, n_classes=n_classes)
    options = {"classes": range(n_classes)} if task == "classifier" else {}
    fleet = ks.Fleet(preset, task, N, 3, **options, **params)
    scores = np.array([fleet.learn(X[t], frame(y, t)) for t in range(len(X))])
    for m in range(N):
        alone = ks.make(preset, task, **fleet.params)
        if task == "classifier":
            alone.partial_fit(X[:1, m], y[:1, m], classes=range(n_classes))
            result = ks.prequential(alone, X[1:, m], y[1:, m])
        else:
            result = ks.prequential(alone, X[:, m], None if y is None else y[:, m])
        np.testing.assert_allclose(scores[-len(result.scores) :, m], result.scores, atol=1e-9)
        same = fleet.model(m)
        np.testing.assert_allclose(same.dual_coef_, alone.dual_coef_, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(same.support_vectors_, alone.support_vectors_)
        assert fleet.step_size_[m] == pytest.approx(alone.step_size_, rel=1e-9)
        assert fleet.margin_[m] == pytest.approx(alone.margin_, rel=1e-9)
        assert (fleet.n_seen_[m], fleet.n_support_[m]) == (alone.n_seen_, alone.n_support_)
        predicted = fleet.predict(X[0, :4], models=np.full(4, m))
        np.testing.assert_allclose(predicted, alone.predict(X[0, :4]), rtol=1e-9)
        # a model taken out of the fleet goes on like any other
        further = (X[5, :4],) if y is None else (X[5, :4], y[5, :4])
        same.partial_fit(*further)
        alone.partial_fit(*further)
        np.testing.assert_allclose(same.dual_coef_, alone.dual_coef_, rtol=1e-9, atol=1e-12)


def silk(**options):
    preset, task, params = SETTINGS["silk"]
    return ks.Fleet(preset, task, N, 3, **{**params, **options})


def everything(fleet):
    models = fleet.as_records()
    return models.floats.tobytes() + models.integers.tobytes() + models.points.tobytes()


def test_threads_and_the_order_of_models_change_nothing(monkeypatch):
    monkeypatch.setattr(record_loop, "_BYTES_WORTH_A_PIECE", 10_000)
    X = np.random.default_rng(1).normal(size=(200, 3))
    members = np.random.default_rng(2).integers(0, N, 200)
    one, many, shuffled = silk(n_jobs=1), silk(n_jobs=4), silk()
    expected = one.learn(X, models=members)
    np.testing.assert_array_equal(many.learn(X, models=members), expected)
    order = np.argsort(-members, kind="stable")  # other models first, each one's rows as they were
    np.testing.assert_array_equal(shuffled.learn(X[order], models=members[order]), expected[order])
    assert everything(one) == everything(many) == everything(shuffled)
    assert one.n_seen_.tolist() == np.bincount(members, minlength=N).tolist()


def test_float32_is_close():
    X, _ = rows("novelty")
    double, single = silk(), silk(dtype="float32")
    for t in range(len(X)):
        np.testing.assert_allclose(single.learn(X[t]), double.learn(X[t]), atol=1e-4)
    assert single.as_records().points.dtype == np.float32


def test_subset_add_and_drop():
    X, _ = rows("novelty")
    fleet = silk()
    for t in range(20):
        fleet.learn(X[t])
    before = everything(fleet)
    some = fleet.subset([4, 1])
    np.testing.assert_array_equal(
        some.score_samples(X[0, [4, 1]]), fleet.score_samples(X[0])[[4, 1]]
    )
    some.learn(X[1, :2])
    assert everything(fleet) == before  # a copy
    fleet.add(2)
    assert len(fleet) == N + 2
    assert fleet.n_seen_.tolist() == [20] * N + [0, 0]
    fleet.drop([0, N])
    assert fleet.n_seen_.tolist() == [20] * (N - 1) + [0]
    fleet.add(some)
    assert fleet.n_seen_.tolist() == [20] * (N - 1) + [0, 21, 21]
    assert fleet.learn(np.zeros((N + 2, 3))).shape == (N + 2,)
    with pytest.raises(ValueError, match="not of the kind"):
        fleet.add(silk(C=0.5))


def test_a_fleet_comes_back_from_a_file(tmp_path):
    X, y = rows("classifier")
    preset, task, params = SETTINGS["multiclass"]
    fleet = ks.Fleet(preset, task, N, 3, classes=["a", "b", "c"], **params)
    names = np.array(["a", "b", "c"])
    for t in range(20):
        fleet.learn(X[t], names[y[t]])
    fleet.save(tmp_path / "fleet.ks")
    for twin in (ks.load(tmp_path / "fleet.ks"), pickle.loads(pickle.dumps(fleet)),
                 copy.deepcopy(fleet)):  # fmt: skip
        assert everything(twin) == everything(fleet)
        assert twin.predict(X[0]).tolist() == fleet.predict(X[0]).tolist()
        again = copy.deepcopy(fleet)
        again.learn(X[30], names[y[30]])
        twin.learn(X[30], names[y[30]])
        assert everything(twin) == everything(again)
    content = (tmp_path / "fleet.ks").read_bytes()
    (tmp_path / "cut.ks").write_bytes(content[:-1])
    with pytest.raises(ks.FileError, match="checksum"):
        ks.load(tmp_path / "cut.ks")
    with pytest.raises(ks.FileError, match="max_bytes"):
        ks.load(tmp_path / "fleet.ks", max_bytes=1000)


@pytest.mark.parametrize(
    "name", ["expansion.n_points", "expansion.scale", "points", "expansion.coef"]
)
def test_a_strange_fleet_is_refused(tmp_path, name):
    from kernelstream import persistence

    fleet = silk()
    fleet.learn(np.zeros((N, 3)))
    fleet.save(tmp_path / "fleet.ks")
    header, arrays = persistence.from_bytes((tmp_path / "fleet.ks").read_bytes())
    header.pop("format_version")
    strange = arrays[name].copy()
    strange.reshape(-1)[0] = -1 if strange.dtype.kind == "i" else np.nan
    for bad in (strange, arrays[name][:-1]):
        content = persistence.to_bytes(header, {**arrays, name: bad})
        (tmp_path / "strange.ks").write_bytes(content)
        with pytest.raises(ks.FileError):
            ks.load(tmp_path / "strange.ks")


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_a_bad_row_changes_no_model_or_only_costs_itself(bad):
    X, _ = rows("novelty")
    fleet, skipping = silk(kernel="linear", gamma="auto"), None
    fleet.learn(X[0])
    before = everything(fleet)
    X[1, 2, 0] = bad
    with pytest.raises(ks.BadRow, match="row 2"):
        fleet.learn(X[1])
    assert everything(fleet) == before
    skipping = silk(kernel="linear", gamma="auto", on_bad_row="skip")
    skipping.learn(X[0])
    scores = skipping.learn(X[1])
    assert np.isnan(scores).tolist() == [m == 2 for m in range(N)]
    assert skipping.n_seen_.tolist() == [2, 2, 1, 2, 2, 2]
    assert skipping.n_skipped_ == 1
    good = np.arange(N) != 2
    fleet.learn(X[1, good], models=np.flatnonzero(good))
    assert everything(fleet) == everything(skipping)


def test_a_step_too_large_leaves_its_model_as_it_was():
    fleet = ks.Fleet(
        "norma", "regressor", 2, 3, kernel="linear", budget=7, step_size=1e9, C=1e9,
        loss="epsilon_insensitive", margin=0.0, regularization=1e-6, scaling=None,
    )  # fmt: skip
    X = np.ones((2, 3))
    fleet.learn(X, [1.0, 1.0])
    before = fleet.subset([0])
    with pytest.raises(ks.BadRow, match="row 0 was refused: the step"):
        fleet.learn(np.array([[1e49] * 3, [1.0] * 3]), [1e5, 1.0])
    assert everything(fleet.subset([0])) == everything(before)
    assert fleet.n_seen_.tolist() == [1, 2]


def test_sample_weight_zero_only_scores():
    X, _ = rows("novelty")
    fleet = silk()
    fleet.learn(X[0])
    before = everything(fleet)
    expected = fleet.score_samples(X[1])
    np.testing.assert_array_equal(fleet.learn(X[1], sample_weight=np.zeros(N)), expected)
    assert everything(fleet) == before


def test_classes_of_the_first_rows_and_later_ones():
    X, _ = rows("classifier")
    fleet = ks.Fleet("svmd", "classifier", N, 3, gamma=0.5, budget=7, fit_intercept=True)
    assert not hasattr(fleet, "n_seen_")
    with pytest.raises(ValueError, match="classes"):
        fleet.predict(X[0])
    with pytest.raises(ks.BadRow):
        fleet.learn(np.full((N, 3), np.nan), [0, 1, 0, 1, 0, 1])
    assert not hasattr(fleet, "classes_")
    fleet.learn(X[0], [0, 1, 2, 0, 1, 2])
    assert fleet.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"label .*7.*classes="):
        fleet.learn(X[1], [0, 1, 7, 0, 1, 2])
    assert fleet.n_seen_.tolist() == [1] * N


def test_labels_in_a_tree():
    tree = Taxonomy.from_paths(["a/x", "a/y", "b/z"])
    X, y = rows("classifier")
    names = np.array(["a/x", "a/y", "b/z"])
    params = {"label_structure": tree, "gamma": 0.5, "budget": 7}
    fleet = ks.Fleet("svmd", "classifier", N, 3, **params)
    for t in range(20):
        fleet.learn(X[t], names[y[t]])
    alone = ks.make("svmd", "classifier", **params).partial_fit(X[:20, 2], names[y[:20, 2]])
    assert fleet.predict(X[30]).shape == (N,)
    np.testing.assert_allclose(fleet.model(2).dual_coef_, alone.dual_coef_, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("ilk", "novelty", 2, 3), {}, "budget=.*has no limit"),
        (("sog-svr", "regressor", 2, 3), {}, "dictionary"),
        (("svmd", "novelty", 2, 3), {"kernel": lambda X, Z: X @ Z.T}, "compiled form"),
        (("svmd", "novelty", 2, 3), {"classes": [0, 1]}, "classifier"),
        (("svmd", "novelty", -1, 3), {}, "n_models=-1"),
        (("svmd", "novelty", 2, 0), {}, "n_features=0"),
        (("svmd", "novelty", 2, 3), {"dtype": "float16"}, "dtype"),
        (("svmd", "novelty", 2, 3), {"n_jobs": 0}, "n_jobs=0"),
        (("smvd", "novelty", 2, 3), {}, "preset='smvd'"),
    ],
)  # fmt: skip
def test_what_a_fleet_cannot_be_is_said(arguments, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ks.Fleet(*arguments, **options)


def test_what_does_not_fit_is_said():
    fleet = silk()
    for call, message in [
        (lambda: fleet.learn(np.zeros((2, 3))), "2 rows for 6 models"),
        (lambda: fleet.learn(np.zeros((N, 2))), "2 features"),
        (lambda: fleet.learn(np.zeros((2, 3)), models=[0, N]), "names models that there are not"),
        (lambda: fleet.learn(np.zeros((2, 3)), models=[0.5, 1.0]), "whole number"),
        (lambda: fleet.learn(np.zeros((N, 3)), sample_weight=[-1.0] * N), "at least 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    regressor = ks.Fleet("norma", "regressor", 2, 3, budget=7)
    with pytest.raises(ValueError, match="y is missing"):
        regressor.learn(np.zeros((2, 3)))
    assert len(ks.Fleet("norma", "regressor", 0, 3, budget=7).learn(np.zeros((0, 3)), [])) == 0
    assert "n_models=2" in repr(regressor)
