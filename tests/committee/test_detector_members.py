"""Detector members are parts: one is added in one place, and `AutoDetector` takes them by name."""

import itertools
import math
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.metrics import roc_auc_score

import kernelstream as ks
from kernelstream.committee import DetectorMember, DetectorMemberRule
from kernelstream.estimators.files import from_bytes
from kernelstream.files.bytes import FileError, to_bytes
from kernelstream.files.bytes import from_bytes as read_bytes
from kernelstream.parts import Field, names, number, part, rule
from kernelstream.testing import check_part
from tests.committee.test_auto_detector import X, sparse_stream

MEMBERS = ["z-score", "local", "projections", "mahalanobis", "white-local"]


# --- a member of a test's own: features whose last values have all been the same ------------------


class RangesState(NamedTuple):
    low: Any  # (features,): of the rows so far
    high: Any  # (features,)
    oldest: Any  # (points,): the smallest feature of each row of the reservoir


@rule(defaults=DetectorMemberRule)
class RangesRule(NamedTuple):
    """How many features are outside the range of the rows so far, and how new rows were before."""

    slack: float

    def newness(self, own, scratch, history, row):
        scratch[0][0] = 0.0
        for j in range(row.x.shape[0]):
            width = self.slack * (own.high[j] - own.low[j])
            if row.x[j] > own.high[j] + width or row.x[j] < own.low[j] - width:
                scratch[0][0] += 1.0
        return math.log(1.0 + scratch[0][0])

    def trusted_after(self, n_rows):
        return n_rows / (n_rows + 20.0)

    def note_row(self, own, scratch, history, row, weight):
        for j in range(row.x.shape[0]):
            is_first = history.n_rows[0] == 0
            own.low[j] = row.x[j] if is_first else min(own.low[j], row.x[j])
            own.high[j] = row.x[j] if is_first else max(own.high[j], row.x[j])

    def take_in(self, own, scratch, history, row, slot, is_taken):
        least = row.x[0]
        for j in range(row.x.shape[0]):
            least = min(least, row.x[j])
        own.oldest[slot] = least


class RangesScratch(NamedTuple):
    outside: Any


class Ranges(DetectorMember):
    """How many features are outside the range of the rows so far."""

    def __init__(self, slack: float = 0.1):
        self.slack = slack

    def check(self):
        number("slack", self.slack, at_least=0)

    def state(self):
        fields = (Field(("features",), 0.0), Field(("features",), 0.0), Field(("points",), 0.0))
        return RangesState(*fields)

    def scratch(self):
        return RangesScratch(Field((), 0.0))

    def to_rule(self):
        return RangesRule(float(self.slack))


@pytest.fixture
def ranges(own_registry):
    return part("detector_member", "ranges")(Ranges)


def test_a_member_is_added_by_one_class(ranges, tmp_path):
    members = [Ranges(slack=0.0), "z-score", "local"]
    model = ks.AutoDetector(members=members, random_state=1)
    assert "ranges" in names("detector_member")
    assert repr(clone(model)) == repr(model)
    whole = clone(model).partial_fit(X)
    for start, stop in itertools.pairwise([0, 1, 30, 31, 200, 400]):
        model.partial_fit(X[start:stop])
        model.save(tmp_path / "model.ks")
        model = pickle.loads(pickle.dumps(ks.load(tmp_path / "model.ks")))
    assert model.to_bytes() == whole.to_bytes()
    arrays = whole.machine_.to_arrays()
    np.testing.assert_array_equal(arrays["ranges.high"], X.max(axis=0))
    n = whole.machine_.n_points
    np.testing.assert_array_equal(
        np.sort(arrays["ranges.oldest"][:n]), np.sort(arrays["raw"].min(axis=0)[:n])
    )
    far = X[:1].copy()
    far[0, 2] = 2 * X[:, 2].max()
    with_ranges = whole.machine_.scan(far, np.zeros(1), np.empty((1, 0)), learns=False)
    assert with_ranges.said[0, 0] == pytest.approx(-math.log(2.0))
    # a name works as well, and a refused row leaves all members as they were
    named = ks.AutoDetector(members=["ranges", "mahalanobis"]).partial_fit(X[:100])
    before, bad = named.to_bytes(), X[100:].copy()
    bad[40, 2] = 1e200
    with pytest.raises(ValueError, match="row 40"):
        named.partial_fit(bad)
    assert named.to_bytes() == before


def test_a_member_keeps_the_promises_of_parts(ranges):
    check_part(Ranges(slack=0.2))


def test_as_plain_python(ranges, monkeypatch):
    from kernelstream.committee.novelty import machine

    model = ks.AutoDetector(members=["ranges", *MEMBERS])
    compiled = clone(model).partial_fit(X[:120]).score_samples(X)
    monkeypatch.setattr(machine, "entry_point", lambda function, *_: function.py_func)
    with np.errstate(over="ignore"):  # of the random numbers' bits
        plain = model.partial_fit(X[:120]).score_samples(X)
    np.testing.assert_allclose(plain, compiled, rtol=1e-9, atol=1e-9)


# --- members by name ------------------------------------------------------------------------------


def test_the_members_by_default():
    given = ks.AutoDetector(members=MEMBERS).partial_fit(X)
    default = ks.AutoDetector().partial_fit(X)
    np.testing.assert_array_equal(given.score_samples(X), default.score_samples(X))
    wide = np.random.default_rng(0).normal(size=(60, 70))
    few = ks.AutoDetector(members=MEMBERS[:3]).partial_fit(wide).score_samples(wide)
    np.testing.assert_array_equal(ks.AutoDetector().partial_fit(wide).score_samples(wide), few)


@pytest.mark.parametrize("name", MEMBERS)
def test_each_member_works_alone_and_in_blocks(name):
    whole = ks.AutoDetector(members=[name]).partial_fit(X)
    pieces = ks.AutoDetector(members=[name])
    for start, stop in itertools.pairwise([0, 1, 7, 150, 400]):
        pieces.partial_fit(X[start:stop])
    assert pieces.to_bytes() == whole.to_bytes()
    assert from_bytes(whole.to_bytes()).to_bytes() == whole.to_bytes()
    far = np.vstack([X[-1], 1e4 * np.abs(X).max(axis=0)])
    usual, new = whole.score_samples(far)
    assert new < usual


def test_arrays_without_use_take_no_memory():
    arrays = ks.AutoDetector(members=["z-score", "local"]).partial_fit(X).machine_.to_arrays()
    assert not {"products", "whitening", "white.points"} & set(arrays)


def test_a_member_may_stand_twice():
    model = ks.AutoDetector(members=["projections", "projections"]).partial_fit(X)
    arrays = model.machine_.to_arrays()
    assert not np.array_equal(arrays["projections-1.chosen"], arrays["projections-2.chosen"])
    assert from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


def test_members_that_do_not_work_are_refused():
    wide = np.zeros((3, 70))
    for members, rows, error, text in [
        (["nobody"], X, ValueError, r"'nobody'.*'z-score'"),
        ("local", X, TypeError, r"'local'.*\['z-score'"),
        ([], X, ValueError, r"members=\[\].*'z-score'"),
        (["mahalanobis"], wide, ValueError, r"Mahalanobis\(\).*64 features.*70.*leave"),
        ([ks.NoveltyDetector()], X, TypeError, r"NoveltyDetector.*Committee"),
        (["local", 3], X, TypeError, r"3 cannot be a member"),
    ]:
        with pytest.raises(error, match=text):
            ks.AutoDetector(members=members).partial_fit(rows)


def test_a_file_that_lacks_a_member_is_refused():
    header, arrays = read_bytes(ks.AutoDetector(members=["z-score"]).partial_fit(X).to_bytes())
    header["params"]["members"] = {"list": ["projections"]}
    with pytest.raises(FileError, match=r"projections"):
        from_bytes(to_bytes(header, arrays))


# --- detectors of other libraries -----------------------------------------------------------------


class Spread(OutlierMixin, BaseEstimator):
    """The distance from the mean, in the manner of scikit-learn."""

    def partial_fit(self, X, y=None):
        if X[0, 1] == 123.0:
            raise ValueError("not this one")
        self.rows_ = [*getattr(self, "rows_", []), *X]
        return self

    def score_samples(self, X):
        return -np.abs(X - np.mean(self.rows_, axis=0)).sum(axis=1)


class Nearest:
    """The distance to the nearest row, in the manner of River."""

    def __init__(self):
        self.rows = []

    def learn_one(self, x):
        self.rows.append(list(x.values()))

    def score_one(self, x):
        return np.abs(np.array(self.rows) - list(x.values())).sum(axis=1).min()


def test_detectors_of_other_libraries():
    random = np.random.default_rng(3)
    rows, odd = random.normal(size=(300, 2)), np.zeros(300, bool)
    odd[50::20] = True
    rows[odd] *= 6.0
    model = ks.AutoDetector(members=["z-score", Spread(), "local", Nearest()])
    result = ks.prequential(clone(model), rows)
    assert roc_auc_score(odd[30:], -result.scores[30:]) > 0.9
    pieces = clone(model)
    scores = [ks.prequential(pieces, rows[a:b]).scores for a, b in [(0, 1), (1, 90), (90, 300)]]
    np.testing.assert_array_equal(np.concatenate(scores), result.scores)
    single = clone(model)
    for row in rows:
        single.learn_one(row)
    np.testing.assert_array_equal(single.score_samples(rows), pieces.score_samples(rows))
    again = pickle.loads(pickle.dumps(pieces))
    np.testing.assert_array_equal(again.score_samples(rows), pieces.score_samples(rows))
    with pytest.raises(ValueError, match=r"cannot be saved.*Spread.*pickle"):
        model.partial_fit(rows).to_bytes()


def test_a_row_that_another_library_refuses_changes_nothing():
    random = np.random.default_rng(3)
    rows = random.normal(size=(120, 2))
    model = ks.AutoDetector(members=["local", Nearest(), Spread()]).partial_fit(rows[:50])
    before, bad = model.score_samples(rows), rows[50:].copy()
    bad[30, 1] = 123.0
    with pytest.raises(ValueError, match=r"row 30.*not this one"):
        model.partial_fit(bad)
    np.testing.assert_array_equal(model.score_samples(rows), before)
    skips = clone(model).set_params(on_bad_row="skip").partial_fit(rows[:50]).partial_fit(bad)
    model.partial_fit(np.delete(bad, 30, axis=0))
    np.testing.assert_array_equal(skips.score_samples(rows), model.score_samples(rows))


def test_sparse_rows():
    words = sparse_stream()
    whole = ks.AutoDetector(members=["local", "z-score"]).partial_fit(words)
    pieces = ks.AutoDetector(members=["local", "z-score"]).partial_fit(words[:50])
    assert pieces.partial_fit(words[50:]).to_bytes() == whole.to_bytes()
