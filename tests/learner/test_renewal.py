"""Scales and a metric that are renewed at rows 2, 4, 8, ...: against plain NumPy, and in blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import kernelstream as ks
from kernelstream.budgets import Independent, LeastLoss, Merge, OldestOut, SmallestOut, Unbounded
from kernelstream.kernels import RBF, Bias, Laplacian, Linear, Matern, Scaled, Sum
from kernelstream.learner.renewal import _gradients
from kernelstream.scalings import Renewed
from kernelstream.updates import Dual

WIDTH, PRIOR, TOLERANCE = 0.4, 0.1, 0.003


def kernel(n_features):
    return Sum(Bias(), Scaled(Linear(), 1.0 / n_features), RBF(WIDTH))


def regressor(n_features=3, size=400, **params):
    """As `AutoRegressor` makes its members."""
    params = {"scaling": Renewed(metric=True), "target_scaling": Renewed(), **params}
    budget = Independent(TOLERANCE, size, worth=10.0, relative=True)
    return ks.make(
        "sog-svr", "regressor", kernel=kernel(n_features), regularization=PRIOR, budget=budget,
        fit_intercept=False, **params,
    )  # fmt: skip


def stream(n_rows, seed=0, n_features=3):
    """Units of all sizes, one feature with heavy tails, and one that stays the same at first."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features))
    X[:, 0] = 1e-4 * random.standard_t(4, n_rows)
    X[:, 1] = 1e3 + 20.0 * X[:, 1]
    X[:20, 2] = 0.1
    y = np.sin((X[:, 1] - 1e3) / 10.0) + 3e3 * X[:, 0] + 0.1 * random.normal(size=n_rows)
    return X, 50.0 * y + 1e4


class Witness:
    """The same in plain NumPy, row by row, with raw points and inverses of whole matrices."""

    def __init__(self):
        self.seen, self.targets, self.raw = [], [], []
        self.A = self.moments = None
        self.zero, self.unit = 0.0, None

    def scaled(self, X):
        mean, sd, bend = self.moments
        z = np.where(sd > 0, (X - mean) / np.where(sd > 0, sd, 1.0), 0.0)
        v = np.where(bend > 0, np.arcsinh(bend * z) / np.where(bend > 0, bend, 1.0), z)
        return np.clip(v, -10, 10) @ self.A

    def k(self, U, Z):
        distance = ((U[:, None] - Z[None]) ** 2).sum(axis=2)
        return 1.0 + U @ Z.T / U.shape[1] + np.exp(-WIDTH * distance)

    def predict(self, X):
        a = self.k(self.scaled(X), self.points) @ self.inverse
        return self.zero + self.unit * a @ self.w

    def learn(self, x, y):
        if not self.seen:
            self.moments, self.A = (x, 0.0 * x, 0.0 * x), np.eye(len(x))
            self.raw, self.points = [x], self.scaled(x[None])
            own = self.k(self.points, self.points)[0, 0]
            self.w, self.P = np.zeros(1), np.full((1, 1), 1.0 / (1.0 + PRIOR / own))
            self.inverse = np.full((1, 1), 1.0 / own)
        else:
            self.learn_further(x, (y - self.zero) / self.unit)
        self.seen.append(x)
        self.targets.append(y)
        if (len(self.seen) + 1) & len(self.seen) == 0:
            self.renew()

    def learn_further(self, x, y):
        u = self.scaled(x[None])
        k, own = self.k(self.points, u)[:, 0], self.k(u, u)[0, 0]
        a = self.inverse @ k
        left = own - a @ k
        if left > TOLERANCE * own:
            told = self.P @ a
            self.P = np.block([[self.P, told[:, None]], [told[None], a @ told + left / PRIOR]])
            self.w = np.append(self.w, a @ self.w)
            column = np.append(-a, 1.0)
            self.inverse = np.pad(self.inverse, (0, 1)) + np.outer(column, column) / left
            mean, sd, _ = self.moments
            self.raw.append(np.where(sd > 0, x, mean))  # of what was constant nothing is known
            self.points = np.vstack([self.points, u])
            a = np.append(0.0 * a, 1.0)
        gain = self.P @ a / (1.0 + a @ self.P @ a)
        self.w = self.w + gain * (y - a @ self.w)
        self.P = self.P - np.outer(gain, self.P @ a)

    def renew(self):
        X, y, n = np.array(self.seen), np.array(self.targets), len(self.seen)
        zero, unit = y.mean(), y.std() or 1.0
        if self.unit is not None:
            self.w = (self.zero + self.unit * self.w - zero) / unit
        self.zero, self.unit = zero, unit
        if n >= 127:
            self.A = self.found_metric()
        sd = np.where(np.ptp(X, axis=0) > 0, X.std(axis=0), 0.0)
        bend = np.zeros(X.shape[1])
        if n >= 63:
            kurtosis = ((X - X.mean(axis=0)) ** 4).mean(axis=0) / sd**4 - 3.0
            bend = 0.3 * np.sqrt(np.maximum(kurtosis - 1.0, 0.0))
        self.moments = X.mean(axis=0), sd, bend
        self.points = self.scaled(np.array(self.raw))
        K = self.k(self.points, self.points) + 1e-5 * np.eye(len(self.raw))
        inverse, before = np.linalg.inv(K), np.linalg.inv(self.P)
        self.P = np.linalg.inv(before - PRIOR * self.inverse + PRIOR * inverse)
        self.w, self.inverse = self.P @ before @ self.w, inverse

    def found_metric(self):
        U, d = self.points, self.points.shape[1]
        beta = self.inverse @ self.w
        away = U[:, None] - U[None]
        pull = np.exp(-WIDTH * (away**2).sum(axis=2)) * beta
        gradient = (beta @ U / d - 2.0 * WIDTH * (pull[:, :, None] * away).sum(axis=1)) @ self.A
        root = root_of(gradient.T @ gradient)
        return root_of(0.03 * np.eye(d) + 0.97 * d * root / np.trace(root))


def root_of(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ np.diag(np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def test_as_in_plain_numpy():
    X, y = stream(300)
    model, witness = regressor(), Witness()
    said = [0.0]
    for i, (row, target) in enumerate(zip(X, y, strict=True)):
        if i > 0:
            said.append(witness.predict(row[None])[0])
        witness.learn(row, target)
    scores = ks.prequential(model, X, y).scores
    lowest, highest = np.minimum.accumulate(y), np.maximum.accumulate(y)
    wider = 0.1 * (highest - lowest)
    said = np.clip(said[1:], (lowest - wider)[:-1], (highest + wider)[:-1])
    np.testing.assert_allclose(scores[1:], said, rtol=0, atol=1e-6 * y.std())
    np.testing.assert_allclose(model.metric_, witness.A @ witness.A, rtol=1e-6, atol=1e-8)
    assert model.n_support_ == len(witness.raw)
    assert model.metric_[1, 1] > 3 * model.metric_[2, 2]  # which y does not depend on


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_blocks_do_not_matter(data):
    X, y = stream(300, data.draw(st.integers(0, 5)))
    weight = np.ones(300)
    weight[data.draw(st.lists(st.integers(0, 299), max_size=9))] = 0.0
    whole = regressor(size=24).partial_fit(X, y, weight)
    cuts = data.draw(st.lists(st.integers(1, 299), max_size=12))
    pieces, start = regressor(size=24), 0
    for stop in sorted({*cuts, 300}):
        pieces.partial_fit(X[start:stop], y[start:stop], weight[start:stop])
        start = stop
    said = whole.predict(X)
    np.testing.assert_allclose(pieces.predict(X), said, rtol=0, atol=1e-9 * np.abs(said).max())
    np.testing.assert_allclose(pieces.metric_, whole.metric_, rtol=0, atol=1e-9)


def test_rows_one_by_one_files_and_undo(tmp_path):
    X, y = stream(260, 1)
    whole, rows = regressor(size=40).partial_fit(X, y), regressor(size=40)
    for i in range(150):
        rows.learn_one(X[i], y[i])
    rows.save(tmp_path / "m.ks")
    loaded = ks.load(tmp_path / "m.ks")
    bad = X[150:].copy()
    bad[109] = np.nan  # the last row, after the renewal at row 256
    before = loaded.to_bytes()
    with pytest.raises(ValueError, match="NaN"):
        loaded.partial_fit(bad, y[150:])
    bad[109] = 1e300
    with pytest.raises(ks.BadRow, match="row 109"):
        loaded.partial_fit(bad, y[150:])
    assert loaded.to_bytes() == before
    for model in (rows, loaded):
        model.partial_fit(X[150:], y[150:])
    assert loaded.to_bytes() == rows.to_bytes()
    np.testing.assert_allclose(loaded.predict(X), whole.predict(X), rtol=1e-9)
    one = loaded.predict_one(X[0])
    assert one == pytest.approx(loaded.predict(X[:1])[0], rel=1e-12)


def test_units_change_nothing():
    X, y = stream(300, 2)
    plain = regressor().partial_fit(X, y)
    other = regressor().partial_fit(X * [1e6, 1e-3, 8.0] + [3.0, 0.0, -1.0], 1e-3 * y - 7.0)
    said = other.predict(X * [1e6, 1e-3, 8.0] + [3.0, 0.0, -1.0])
    np.testing.assert_allclose(1e3 * (said + 7.0), plain.predict(X), rtol=1e-5)


def test_many_features_have_weights():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 70))
    y = 3.0 * X[:, 5] + X[:, 6]
    model = regressor(70).partial_fit(X, y)
    assert model.metric_.shape == (70, 70)
    assert np.count_nonzero(model.metric_ - np.diag(model.metric_.diagonal())) == 0
    assert model.metric_.diagonal().argmax() == 5
    assert model.metric_.trace() == pytest.approx(70.0)
    with pytest.raises(ValueError, match="scaling="):
        model.machine_.widen(71)


def test_outliers_do_little_harm():
    X, y = stream(400, 3)
    wild, wrong = X.copy(), y.copy()
    wild[100::50] *= 1e6
    wrong[125::50] += 1e8
    model = regressor().partial_fit(wild, wrong)
    error = np.sqrt(np.mean((model.predict(X) - y) ** 2))
    assert error < 0.8 * y.std()


@pytest.mark.parametrize("chosen", [RBF(0.7), Matern(0.7), kernel(3), 0.3 * Matern(2.0) + Bias()])
def test_gradients_of_kernels(chosen):
    random = np.random.default_rng(0)
    P, X, coef = (random.normal(size=shape) for shape in ((7, 3), (4, 3), (2, 7)))
    step, found = 1e-6, chosen.gradients(P, X, coef)
    for j in range(3):
        shift = step * np.eye(3)[j]
        expected = coef @ (chosen(P, X + shift) - chosen(P, X - shift)) / (2.0 * step)
        np.testing.assert_allclose(found[:, :, j], expected, atol=1e-7)


# --- learners of the first order ------------------------------------------------------------------


def first_order(preset="svmd", **params):
    params = {"kernel": RBF(WIDTH), "scaling": Renewed(metric=True), "budget": 60, **params}
    return ks.make(preset, "classifier", **params)


def labelled(n_rows, seed=0):
    X, y = stream(n_rows, seed)
    return X, (y > 1e4).astype(int)


@pytest.mark.parametrize("budget", [OldestOut(60, exact=True), SmallestOut(60), Unbounded()])
def test_first_order_norms_are_those_of_the_new_points(budget):
    X, y = labelled(255)
    model = first_order(budget=budget, regularization=1e-3).partial_fit(X, y, classes=[0, 1])
    assert model.machine_.state.scaling.found[0] == 255  # a renewal was the last thing to happen
    machine = model.machine_
    rows, n = machine.store.stored(machine.n_points), machine.n_points
    K = machine.kernel(rows)
    p, q, r = machine.state.expansion.scale
    a, b = machine.state.expansion.coef[0, :, :n]
    alpha, beta = p * a, q * b + r * a
    assert machine.state.expansion.norm2[0] == pytest.approx(alpha @ K @ alpha, rel=1e-9)
    assert machine.state.expansion.pi[0] == pytest.approx(beta @ K @ alpha, rel=1e-9, abs=1e-12)
    # the points are rows of the stream, scaled by the numbers of all 255
    scale = machine.parts.scaling.raw(machine.state.scaling, rows)
    nearest = np.abs((X[None] - scale[:, None]) / X.std(axis=0)).max(axis=2).min(axis=1)
    assert np.count_nonzero(nearest > 1e-6) <= 20  # feature 2 was constant at first


KEEPING = [Merge(40), LeastLoss(40), Independent(0.01, 40)]


@pytest.mark.parametrize("budget", KEEPING)
def test_budgets_take_the_kernel_values_of_the_new_points(budget):
    X, y = labelled(255)
    model = first_order("pa", budget=budget).partial_fit(X, y, classes=[0, 1])
    machine, n = model.machine_, model.machine_.n_points
    assert n == 40
    K, kept = machine.kernel(machine.store.stored(n)), machine.state.budget
    np.testing.assert_allclose(kept.gram[:n, :n], K, atol=1e-12)
    if hasattr(kept, "inverse"):
        np.testing.assert_allclose(kept.inverse[:n, :n] @ K, np.eye(n), atol=1e-6)


def test_the_metric_sees_every_label_by_itself():
    """Also where a point keeps coefficients for the few of many labels that its row touched."""
    random = np.random.default_rng(0)
    X = random.normal(size=(126, 3))
    model = first_order("svmd", budget=SmallestOut(400))
    model.partial_fit(X, random.integers(0, 120, 126), classes=np.arange(120))
    machine = model.machine_
    rows = machine.store.stored(machine.n_points)
    assert machine.state.expansion.coef.shape[0] < 120  # lines are not labels
    expected = machine.kernel.gradients(rows, rows, model.dual_coef_[::2])
    found = machine.state.expansion.scale[0] * _gradients(machine, rows)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("budget", [OldestOut(60), *KEEPING])
def test_first_order_blocks_do_not_matter(budget):
    def new():
        return first_order("svmd" if isinstance(budget, OldestOut) else "pa", budget=budget)

    X, y = labelled(300, 1)
    whole = new().partial_fit(X, y, classes=[0, 1])
    pieces, rows, start = new(), new(), 0
    for stop in (1, 2, 5, 64, 127, 128, 200, 300):
        pieces.partial_fit(X[start:stop], y[start:stop], classes=[0, 1])
        start = stop
    rows.partial_fit(X[:1], y[:1], classes=[0, 1])
    for x, target in zip(X[1:], y[1:], strict=True):
        rows.learn_one(x, target)
    said = whole.decision_function(X)
    for model in (pieces, rows):
        np.testing.assert_allclose(model.decision_function(X), said, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("budget", [OldestOut(60), *KEEPING])
def test_first_order_undo_and_files(tmp_path, budget):
    X, y = labelled(260, 2)
    model = first_order(budget=budget).partial_fit(X[:150], y[:150], classes=[0, 1])
    before, bad = model.to_bytes(), X[150:].copy()
    bad[109] = 1e300  # after the renewal at row 256
    with pytest.raises(ks.BadRow, match="row 109"):
        model.partial_fit(bad, y[150:])
    assert model.to_bytes() == before
    model.save(tmp_path / "m.ks")
    loaded = ks.load(tmp_path / "m.ks").partial_fit(X[150:], y[150:])
    assert loaded.to_bytes() == model.partial_fit(X[150:], y[150:]).to_bytes()


def test_first_order_finds_what_matters():
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 8)) * 10.0 ** np.arange(-4, 4)
    y = (np.sin(2e4 * X[:, 0]) > 0).astype(int)
    model = first_order(kernel=RBF(0.5), budget=200).partial_fit(X, y)
    assert model.metric_.diagonal().argmax() == 0
    assert model.metric_[0, 0] > 3.0
    plain = first_order(kernel=RBF(0.5), budget=200, scaling="running").partial_fit(X, y)
    assert model.score(X, y) > plain.score(X, y) + 0.05


def test_what_it_does_not_go_with():
    X, y = stream(20)
    with pytest.raises(ValueError, match="what was dropped"):
        ks.KernelRegressor(scaling="renewed", budget=OldestOut(9, max_age=5)).partial_fit(X, y)
    with pytest.raises(ValueError, match="that keep points"):
        ks.KernelRegressor("linear", scaling="renewed").partial_fit(X, y)
    with pytest.raises(ValueError, match="fleet"):
        ks.Fleet("svmd", "classifier", n_models=2, n_features=3, scaling="renewed")
    with pytest.raises(ValueError, match="second order"):
        ks.KernelRegressor(target_scaling="renewed").partial_fit(X, y)
    with pytest.raises(ValueError, match="dense"):
        regressor().partial_fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="gradients"):
        ks.KernelRegressor(
            Laplacian(1.0), update=Dual(), budget=Independent(0.1), scaling=Renewed(metric=True)
        ).partial_fit(X, y)
    with pytest.raises(TypeError, match="metric"):
        Renewed(metric=1)
    with pytest.raises(AttributeError, match="Renewed"):
        ks.KernelRegressor().partial_fit(X, y).metric_  # noqa: B018
