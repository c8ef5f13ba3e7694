"""The nu-trick holds nu, in every task and at every scale."""

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.margins import Fixed, Nu

pytestmark = pytest.mark.usefixtures("without_compiler")

random = np.random.default_rng(0)
X = random.normal(size=(6000, 2))


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("rule", ["relative", "linear"])
def test_share_of_alarms(nu, rule):
    model = ks.NoveltyDetector(gamma=0.5, margin=Nu(nu, rule=rule), step_size=0.05)
    share = ks.prequential(model, X).errors[3000:].mean()
    assert share == pytest.approx(nu, rel=0.15)


@pytest.mark.filterwarnings("ignore:most predictions are far larger")  # steps of the size 0.1
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber"])
@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_share_of_residuals_outside_the_zone_at_any_scale(loss, nu, scale):
    y = scale * (np.sin(X[:, 0]) + 0.3 * random.normal(size=len(X)))
    model = ks.KernelRegressor(loss=loss, nu=nu, gamma=0.5)
    result = ks.prequential(model, X, y)
    outside = np.abs(result.predictions - y) > result.margins
    assert outside[3000:].mean() == pytest.approx(nu, rel=0.15)
    assert model.margin_ > 0


def test_share_of_margin_violations_where_the_problem_allows_it():
    y = X[:, 0] > 0
    model = ks.KernelClassifier(gamma=0.5, margin=Nu(0.3), regularization=1e-4, step_size=0.05)
    result = ks.prequential(model, X, y)
    violated = np.where(y, 1, -1) * result.scores < result.margins
    assert violated[3000:].mean() == pytest.approx(0.3, rel=0.15)
    assert result.error_rate < 0.1


def test_no_positive_margin_has_fewer_violations_than_errors():
    y = (X[:, 0] > 0) ^ (random.random(len(X)) < 0.2)  # a fifth of the labels is wrong
    result = ks.prequential(ks.KernelClassifier(nu=0.05, gamma=0.5), X, y)
    violated = np.where(y, 1, -1) * result.scores < result.margins
    assert violated.mean() >= result.error_rate - 1e-3
    assert violated.mean() > 0.15


def test_the_paper_rule_freezes_as_the_margin_shrinks():
    """Why "relative" is the default."""
    alarms = {}
    for rule in ("paper", "relative"):
        smd = ks.step_sizes.SMD(1, 1, 0.95)
        model = ks.NoveltyDetector(gamma=0.5, margin=Nu(0.02, rule=rule), step_size=smd)
        alarms[rule] = ks.prequential(model, X).errors[3000:].mean()
    assert alarms["relative"] == pytest.approx(0.02, rel=0.2)
    assert alarms["paper"] > 1.5 * 0.02


def test_a_margin_without_violations_stays_finite():
    model = ks.KernelClassifier(nu=0.5).partial_fit(X[:3000], np.zeros(3000, int))
    assert model.margin_ == 1e9
    model.partial_fit(X[:3000], (X[:3000, 0] > 0).astype(int))
    assert model.margin_ < 10


def test_nu_is_short_for_a_margin_part():
    y = X[:, 0] > 0
    short = ks.KernelClassifier(nu=0.2).partial_fit(X[:500], y[:500])
    long = ks.KernelClassifier(margin=Nu(0.2)).partial_fit(X[:500], y[:500])
    fixed = ks.KernelClassifier(margin=0.3).partial_fit(X[:500], y[:500])
    part = ks.KernelClassifier(margin=Fixed(0.3)).partial_fit(X[:500], y[:500])
    np.testing.assert_array_equal(short.dual_coef_, long.dual_coef_)
    np.testing.assert_array_equal(fixed.dual_coef_, part.dual_coef_)
    assert short.margin_ == long.margin_ != 1


def test_norma_rules_of_the_paper():
    """One step of each of NORMA's updates, by hand."""
    eta, nu = 0.5, 0.2
    params = {"step_size": eta, "regularization": 0.0, "kernel": "linear", "budget": 512}
    margin = Nu(nu, rule="linear")
    new = ks.KernelRegressor(loss="epsilon_insensitive", margin=margin, **params)
    new.partial_fit([[1.0]], [3.0])  # |delta| > eps
    assert new.dual_coef_[0, 0] == eta
    assert new.margin_ == pytest.approx(1 + eta * (1 - nu))
    new.partial_fit([[1.0]], [0.6])  # inside the zone
    assert new.n_support_ == 1
    assert new.margin_ == pytest.approx(1 + eta * (1 - nu) - eta * nu)
    huber = ks.KernelRegressor(loss="huber", margin=2.0, **params)
    huber.partial_fit([[1.0]], [1.0])
    assert huber.dual_coef_[0, 0] == eta * 1.0 / 2.0
    huber = ks.KernelRegressor(loss="huber", margin=2.0, **params).partial_fit([[1.0]], [-5.0])
    assert huber.dual_coef_[0, 0] == -eta
    squared = ks.KernelRegressor(**params).partial_fit([[1.0]], [3.0])
    assert squared.dual_coef_[0, 0] == eta * 3.0
    novelty = ks.NoveltyDetector(margin=margin, **params).partial_fit([[1.0]])
    assert novelty.dual_coef_[0, 0] == eta
    assert novelty.offset_ == pytest.approx(1 - eta * (1 - nu))
    novelty.partial_fit([[3.0]])  # f(3) = 1.5 is beyond the margin
    assert novelty.n_support_ == 1
    assert novelty.offset_ == pytest.approx(1 - eta * (1 - nu) + eta * nu)
    binary = ks.KernelClassifier(margin=margin, fit_intercept=True, **params)
    binary.partial_fit([[1.0]], [0], classes=[0, 1])
    assert binary.dual_coef_[0, 0] == -eta
    assert binary.intercept_[0] == -eta
    assert binary.margin_ == pytest.approx(1 - eta * (1 - nu))
