"""Committees as estimators: exact in blocks, all or nothing, and whole in files."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import kernelstream as ks
from kernelstream.committee import NewtonStacking, RidgeStacking
from kernelstream.committee.machine import CommitteeMachine
from kernelstream.estimators.files import from_bytes
from kernelstream.files.bytes import FileError, to_bytes
from kernelstream.files.bytes import from_bytes as read_bytes
from kernelstream.learner.machine import Machine

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(200, 3))
LABELS = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + np.sin(2 * X[:, 1]), [-0.7, 0.7])]
NUMBERS = X[:, 0] + np.sin(2 * X[:, 1])
TARGETS = {"classifier": LABELS, "regressor": NUMBERS, "novelty": None}
MEMBERS = ["svmd", "linear-pa"]


def committee(task, **params):
    members = ["svmd", "norma"] if task == "novelty" else MEMBERS
    return ks.Committee(members, task, **params)


def learn(model, task, rows):
    y = TARGETS[task]
    return model.partial_fit(X[rows], None if y is None else y[rows])


def said(model, task):
    read = model.predict if task == "regressor" else model.decision_function
    return read(X)


@pytest.mark.parametrize("task", list(TARGETS))
def test_blocks_rows_files_and_undo(task, tmp_path):
    whole = learn(committee(task), task, slice(None))
    pieces = committee(task, n_jobs=2)
    for i in range(30):
        pieces.learn_one(X[i], None if TARGETS[task] is None else TARGETS[task][i])
    learn(pieces, task, slice(30, 111))
    pieces.save(tmp_path / "model.ks")
    pieces = pickle.loads(pickle.dumps(ks.load(tmp_path / "model.ks")))
    before = pieces.to_bytes()
    bad = X[111:].copy()
    bad[40] = 1e300
    y = TARGETS[task]
    with pytest.raises(ValueError, match="row 40"):
        pieces.partial_fit(bad, None if y is None else y[111:])
    assert pieces.to_bytes() == before
    learn(pieces, task, slice(111, None))
    np.testing.assert_allclose(said(pieces, task), said(whole, task), atol=1e-9)
    assert pieces.n_seen_ == 200
    if task != "novelty":
        assert list(pieces.weights_) == MEMBERS
        assert pieces.weights_ == pytest.approx(whole.weights_)
        one = pieces.predict_one(X[0])
        assert one == (pytest.approx(whole.predict(X[:1])[0]) if task == "regressor"
                       else whole.predict(X[:1])[0])  # fmt: skip


@pytest.mark.parametrize("when", [10, 11, 60])
def test_a_row_that_fails_half_way_leaves_no_trace(when, monkeypatch):
    """Members that have learned it go back, and learn the rows since they could again.

    The second member is made to refuse it, and takes the longer way, which fails. The rows that it
    learns again take the way that they took.
    """
    monkeypatch.setattr("kernelstream.committee.machine._ROWS_AGAIN", 11)
    model, twin = (ks.Committee(MEMBERS, "regressor") for _ in range(2))
    for one in (model, twin):
        one.partial_fit(X[:5], NUMBERS[:5])
    calls = []

    def fails(self, *row):
        calls.append(row)
        first.replace(1, largest)
        if self.parts.budget.is_folded and len(calls) in (1, 5):  # and once while it goes back
            raise KeyboardInterrupt
        return learn_row(self, *row)

    for i in range(5, 90):
        if i == when:
            before = model.to_bytes()
            with monkeypatch.context() as patch:
                learn_row = Machine.learn_row
                patch.setattr(Machine, "learn_row", fails)
                first, *_ = model.machine_.members[1].row_path().calls()
                largest = first.arguments[1]
                first.replace(1, -1.0)
                with pytest.raises(KeyboardInterrupt):
                    model.learn_one(X[i], NUMBERS[i])
            assert model.to_bytes() == before
            assert len(calls) > 0
            with pytest.raises(ValueError, match="x has the shape"):
                model.learn_one(X[i, :1], NUMBERS[i])
            with pytest.raises(ValueError, match="NaN"):  # in a block, before it begins
                model.partial_fit(X[:2], [0.0, np.nan])
            assert model.to_bytes() == before
        for one in (model, twin):
            one.learn_one(X[i], NUMBERS[i])
    assert model.to_bytes() == twin.to_bytes()


def test_probabilities_and_late_classes():
    early = np.where(LABELS == "c", "b", LABELS)
    y = np.where(np.arange(200) < 90, early, LABELS)
    model = ks.Committee(MEMBERS, "classifier").partial_fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert p.shape == (200, 3)
    rows = ks.Committee(MEMBERS, "classifier")
    for i in range(200):
        rows.learn_one(X[i], y[i])
    np.testing.assert_allclose(rows.predict_proba(X), p, atol=1e-9)


def test_it_is_not_worse_than_its_best_member():
    random = np.random.default_rng(1)
    X = random.normal(size=(3000, 4))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)  # which no linear model can learn
    alone = ks.prequential(ks.make("svmd", "classifier"), X, y).error_rate
    linear = ks.prequential(ks.make("linear-pa", "classifier"), X, y).error_rate
    both = ks.prequential(ks.Committee(MEMBERS, "classifier"), X, y)
    assert linear > 0.4
    assert both.error_rate < alone + 0.01
    assert both.scores.shape == (3000,)


def test_bad_rows_are_skipped_and_parameters_checked():
    model = ks.Committee(MEMBERS, "regressor", on_bad_row="skip")
    bad = X.copy()
    bad[5] = np.inf
    model.partial_fit(bad, NUMBERS)
    assert model.n_skipped_ == 1
    alone = ks.Committee(MEMBERS, "regressor")
    alone.partial_fit(np.delete(X, 5, axis=0), np.delete(NUMBERS, 5))
    np.testing.assert_allclose(model.predict(X), alone.predict(X), atol=1e-9)
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(ValueError, match="members"):
        ks.Committee([], "classifier").partial_fit(X, LABELS)
    with pytest.raises(TypeError, match="cannot be a member"):
        ks.Committee([ks.KernelRegressor()], "classifier").partial_fit(X, LABELS)
    with pytest.raises(TypeError, match="mixing"):
        ks.Committee(MEMBERS, "classifier", RidgeStacking()).partial_fit(X, LABELS)
    with pytest.raises(ValueError, match="preset"):
        ks.Committee(["nobody"], "classifier").partial_fit(X, LABELS)
    named = ks.Committee({"x": "svmd", "y": "svmd"}, "classifier", NewtonStacking(ridge=1.0))
    assert list(named.partial_fit(X, LABELS).weights_) == ["x", "y"]
    twice = ks.Committee(["svmd", "svmd"], "classifier").partial_fit(X, LABELS)
    assert list(twice.weights_) == ["svmd-1", "svmd-2"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("task", list(TARGETS))
def test_single_rows_of_float32(task):
    whole = committee(task).partial_fit(X.astype(np.float32), TARGETS[task])
    rows, y = committee(task), TARGETS[task]
    for i in range(200):
        rows.learn_one(X[i].astype(np.float32), None if y is None else y[i])
    np.testing.assert_allclose(said(rows, task), said(whole, task), atol=1e-4)
    before, far = rows.to_bytes(), np.full(3, 1e30, np.float32)  # whose norm is not a float32
    with pytest.raises(ValueError, match="large"):
        rows.learn_one(far, None if y is None else y[0])
    assert rows.to_bytes() == before


def test_a_file_says_which_members_and_mixing_it_has(monkeypatch):
    """So that a version with other members, presets or constants goes on with those of the file."""
    X, y = np.random.default_rng(3).normal(size=(120, 3)), np.arange(120) % 3
    model = ks.AutoClassifier(members={"one": "linear-pa", "two": "perceptron"}).partial_fit(X, y)
    names, expected = list(model.weights_), model.to_bytes()
    monkeypatch.setattr(ks.AutoClassifier, "default_mixing", NewtonStacking(ridge=9.0))
    monkeypatch.setattr(ks.AutoClassifier, "chosen", lambda *_: pytest.fail("members are chosen"))
    again = from_bytes(expected)
    assert list(again.weights_) == names
    assert again.machine_.mixing == NewtonStacking()
    assert again.to_bytes() == expected
    assert again.partial_fit(X, y).to_bytes() == model.partial_fit(X, y).to_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"mixing": {"part": "RidgeStacking", "version": RidgeStacking.version, "params": {}}},
            "which is not for classification",
        ),
        ({"mixing": 3}, "the mixing 3"),
        ({"members": []}, "does not describe a model"),
        ({"factor": "2"}, "factor='2'"),
        ({"name": 3}, "the name 3"),
        (
            {"model": {"estimator": "AutoClassifier", "version": 1, "params": {}}},
            "describe a model: 'members'",
        ),
        (
            {"model": {"estimator": "KernelRegressor", "version": 1, "params": {}}},
            "cannot be a member",
        ),
    ],
)
def test_files_with_strange_members_are_refused(change, message):
    X, y = np.random.default_rng(3).normal(size=(60, 3)), np.arange(60) % 3
    model = ks.Committee(["linear-pa", "perceptron"], "classifier").partial_fit(X, y)
    header, arrays = read_bytes(model.to_bytes())
    for name, value in change.items():
        (header if name in header else header["members"][0])[name] = value
    with pytest.raises(FileError, match=message):
        from_bytes(to_bytes(header, arrays))


def test_members_without_room_are_not_asked_again_for_every_row(monkeypatch):
    joins, join = [], CommitteeMachine._join
    monkeypatch.setattr(CommitteeMachine, "_join", lambda self: joins.append(join(self)))
    growing = ks.make("pa", "regressor", budget=ks.budgets.Unbounded())
    model = ks.Committee([growing, "smd-linear"], "regressor")
    rows = np.random.default_rng(0).normal(size=(255, 2))
    model.partial_fit(rows, 10.0 * np.arange(255))
    member = model.machine_.members[0]
    n_points, n_slots = member.n_points, member.n_slots
    assert n_slots - n_points < 3
    for x in rows[:60]:  # which learn nothing from a row that is as they said
        model.learn_one(x, float(member.score_row(x[None])[0]))
    assert member.n_points == n_points
    assert len(joins) == 1
    assert member.n_slots > n_slots
