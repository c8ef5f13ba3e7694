"""Mixings against plain NumPy."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from kernelstream.committee import HighestMean, NewtonStacking, RidgeStacking


def softmax(z):
    p = np.exp(z - z.max())
    return p / p.sum()


class NewtonReference:
    """The formulas of `NewtonStacking`, as they are written."""

    def __init__(self, n, decay, ridge=4.0, total=1.0):
        self.w = np.full(n, total / n)
        self.M, self.decay, self.ridge = ridge * np.eye(n), decay, ridge

    def step(self, S, label, weight, rarity):
        p = softmax(self.w @ S + rarity)
        g = weight * (S @ p - S[:, label])
        q = 0.99 * p + 0.01 / len(p)
        H = weight * ((S * q) @ S.T - np.outer(S @ q, S @ q))
        self.M = self.decay * self.M + H + (1 - self.decay) * self.ridge * np.eye(len(g))
        step = np.linalg.solve(self.M, g)
        self.w = self.w - step * min(1.0, 1.0 / np.sqrt(max(g @ step, 1e-300)))


def centred(s):
    if len(s) == 1:
        s = np.clip(np.array([-s[0] / 2, s[0] / 2]), -10, 10)
    s = np.maximum(s, s.max() - 20)
    return s - s.mean()


@pytest.mark.parametrize("n_classes", [1, 2, 5])
def test_newton_stacking(n_classes):
    random = np.random.default_rng(n_classes)
    scores = random.normal(size=(4, 80, n_classes)) * np.array([1, 3, 0.1, 30])[:, None, None]
    y = random.integers(0, n_classes, 80).astype(float) if n_classes > 1 else None
    if y is None:
        y = random.choice([-1.0, 1.0], 80)
    weight = random.choice([0.0, 1.0, 2.0], 80)
    halves = [NewtonReference(4, decay) for decay in (0.99, 0.9999)]
    top, counts, evidence = NewtonReference(2, 0.999), np.zeros(max(n_classes, 2)), 0.0
    expected_counts = np.zeros(max(n_classes, 2))
    expected = []
    for i in range(80):
        S = np.array([centred(s) for s in scores[:, i]])
        two = np.array([centred(half.w @ S) for half in halves])
        z = top.w @ two
        rarity = np.log((counts + 2.0 * np.sqrt(counts) + 1.0) / (expected_counts + 1.0))
        rarity = np.minimum(rarity, 0.0)
        p, frequency = softmax(z + rarity), (counts + 1.0) / (counts + 1.0).sum()
        believed = 1.0 / (1.0 + np.exp(-evidence))
        said = np.log(believed * p + (1.0 - believed) * frequency)
        said -= said.mean()
        expected.append([said[1] - said[0]] if n_classes == 1 else said)
        label = int(y[i] > 0) if n_classes == 1 else int(y[i])
        if weight[i]:
            more = np.clip(np.log(p[label] / frequency[label]), -2.0, 2.0)
            evidence = np.clip(evidence + weight[i] * more, -10.0, 10.0)
            counts *= 0.9999
            counts[label] += weight[i]
            expected_counts = 0.9999 * expected_counts + weight[i] * softmax(z)
            top.step(two, label, weight[i], rarity)
            for half in halves:
                half.step(S, label, weight[i], rarity)
    mixing = NewtonStacking()
    state = mixing.new_state(4, 1)  # classes may come late
    state = mixing.widened(state, n_classes)
    found, loss = mixing.learn(state, scores, y, weight)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(state.weights, [half.w for half in halves], rtol=1e-8)
    believed = 1.0 / (1.0 + np.exp(-evidence))
    np.testing.assert_allclose(mixing.weights(state), believed * top.w @ state.weights, rtol=1e-8)
    if n_classes > 1:
        log_p = logsumexp(found, axis=1) - found[np.arange(80), y.astype(int)]
        np.testing.assert_allclose(loss, log_p, rtol=1e-9, atol=1e-9)
    # it mixes as it would at the next row
    again = mixing.mix(state, scores[:, :1])
    np.testing.assert_allclose(
        again, mixing.learn(state, scores[:, :1], y[:1], np.zeros(1))[0], rtol=1e-12
    )


def test_large_scores_keep_their_order():
    """Two scores beyond the limit were made equal, and the first of the two labels won."""
    random = np.random.default_rng(0)
    y = random.integers(0, 4, 400).astype(float)
    scores = 40.0 * random.normal(size=(2, 400, 4))
    scores[:, np.arange(400), y.astype(int)] = scores.max(axis=2) + 10.0
    mixing = NewtonStacking()
    found, _ = mixing.learn(mixing.new_state(2, 4), scores, y, np.ones(400))
    np.testing.assert_array_equal(found.argmax(axis=1), y)


def test_one_wrong_label_after_many_certain_ones_moves_the_weights_little():
    """With no curvature left, such a step turned the weights round."""
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 2001).astype(float)
    scores = random.normal(size=(4, 2001, 3))
    scores[:, np.arange(2001), y.astype(int)] += 12.0
    y[-1] = (y[-1] + 1) % 3
    mixing = NewtonStacking()
    state = mixing.new_state(4, 3)
    mixing.learn(state, scores[:, :-1], y[:-1], np.ones(2000))
    before = mixing.weights(state)
    mixing.learn(state, scores[:, -1:], y[-1:], np.ones(1))
    assert abs(mixing.weights(state) - before).max() < 0.3 * before.sum()
    assert (mixing.mix(state, scores[:, :-1]).argmax(axis=1) == y[:-1]).all()


def test_a_late_class_that_was_seen_once_does_not_win_against_frequent_ones():
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 3000).astype(float)
    scores = 0.5 * random.normal(size=(3, 3000, 3))  # of noisy labels: near those of the new class
    scores[:, np.arange(3000), y.astype(int)] += 0.3
    scores[:, :, 2] = 0.0
    mixing = NewtonStacking()
    state = mixing.new_state(3, 2)
    mixing.learn(state, np.ascontiguousarray(scores[:, :2000, :2]), y[:2000], np.ones(2000))
    state = mixing.widened(state, 3)
    mixing.learn(state, scores[:, :1], np.array([2.0]), np.ones(1))
    assert (mixing.mix(state, scores[:, 2000:]).argmax(axis=1) != 2).all()
    # where it comes again and again, it is predicted
    scores[:, 2000:, 2] += 3.0
    y[2000:2050] = 2.0
    mixing.learn(state, scores[:, 2000:2050], y[2000:2050], np.ones(50))
    assert (mixing.mix(state, scores[:, 2050:]).argmax(axis=1) == 2).mean() > 0.9


class RidgeReference:
    def __init__(self, n, decay, ridge=30.0):
        self.n, self.decay, self.ridge = n, decay, ridge
        self.mse, self.own, self.count, self.is_first = None, 0.0, 0.0, True
        self.A, self.b = np.zeros((n, n)), np.zeros(n)

    def predict(self, f):
        mse = self.mse
        q = np.full(self.n, 1.0 / self.n) if mse is None else mse**-2.0 / (mse**-2.0).sum()
        self.q, self.centre = q, q @ f
        self.h = f - self.centre
        if mse is None:
            return self.centre
        coef = np.linalg.solve(self.A + self.ridge * self.own * np.eye(self.n), self.b)
        width = np.ptp(f)
        return np.clip(self.centre + coef @ self.h, f.min() - width, f.max() + width)

    def learn(self, f, said, y, weight):
        if self.is_first:
            self.is_first = False
            return
        self.count += weight
        rate, before = weight / min(self.count, 300.0), 0.0 if self.mse is None else self.mse
        self.mse = (1.0 - rate) * before + rate * (y - f) ** 2
        self.own = (1.0 - rate) * self.own + rate * (y - said) ** 2
        self.A = self.decay * self.A + weight * np.outer(self.h, self.h)
        self.b = self.decay * self.b + weight * self.h * (y - self.centre)

    def limited(self, said, y, n_far, sd):
        """The target as it is learned, and how many in succession were limited."""
        if self.count < 16:
            return y, n_far
        most = max(5.0 * np.sqrt(self.own) * 1.5**n_far, sd)
        if abs(y - said) <= most:
            return y, max(0.5 * n_far - 1.0, 0.0)
        return said + np.copysign(most, y - said), n_far + 1.0


class CautionReference:
    """The formula at the head of `kernelstream.committee.caution`, from all rows so far."""

    def __init__(self):
        self.y, self.d, self.away, self.errors, self.weights = [], [], [], [], []

    def mean(self):
        return np.average(self.y, weights=self.weights) if self.y else 0.0

    def share(self):
        weight = np.array(self.weights[1:])
        if not weight.size:
            return 1.0
        error = min(
            np.average(np.square(errors[1:]), weights=weight) for errors in (self.errors, self.away)
        )
        past = weight * 0.999 ** np.arange(len(weight))[::-1]
        square = past @ np.square(self.d[1:]) + error
        share = (past @ np.multiply(self.d[1:], self.away[1:]) + error) / square
        return np.clip(share + np.sqrt(error / square), 0.0, 1.0)

    def limited(self, away):
        weights = np.array(self.weights)
        if weights.sum() < 16:
            return away
        most = 10.0 * np.sqrt(np.average(np.square(self.away[1:]), weights=weights[1:]))
        return np.clip(away, -most, most)

    def learn(self, mixed, error, y, weight):
        mean = self.mean()
        away = self.limited(y - mean)
        self.d.append(self.limited(mixed - mean))
        self.away.append(away)
        self.errors.append(error)
        self.y.append(mean + away)
        self.weights.append(weight)


@pytest.mark.parametrize("sizes", [(0.1, 0.5, 2.0), (40.0, 50.0, 60.0)], ids=["good", "noise"])
def test_ridge_stacking(sizes):
    random = np.random.default_rng(0)
    y = random.normal(size=120)
    noise = np.array(sizes)[:, None] * random.normal(size=(3, 120))
    scores = (y + noise)[:, :, None]
    outliers = np.arange(60, 120, 20)
    y[outliers] += 9.0
    weight = random.choice([0.0, 1.0, 2.0], 120)
    levels = [RidgeReference(3, 1.0), RidgeReference(3, 0.995), RidgeReference(2, 0.999)]
    expected, caution, seen, n_far, n_limited = [], CautionReference(), [], 0.0, 0
    for i in range(120):
        f = scores[:, i, 0]
        two = np.array([level.predict(f) for level in levels[:2]])
        said = levels[2].predict(two)
        expected.append(caution.mean() + caution.share() * (said - caution.mean()))
        if weight[i]:
            top = levels[2]
            sd = np.std(seen) if seen else np.inf
            target, n_far = top.limited(expected[-1], y[i], n_far, sd)
            n_limited += target != y[i]
            seen.append(y[i])
            caution.learn(said, target - expected[-1], target, weight[i])
            top.learn(two, said, target, weight[i])
            for level, one in zip(levels, two, strict=False):
                level.learn(f, one, target, weight[i])
    mixing = RidgeStacking()
    state = mixing.new_state(3, 1)
    found, loss = mixing.learn(state, scores, y, weight)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(loss, 0.5 * (y - found[:, 0]) ** 2)
    calm = np.setdiff1d(np.arange(20, 120), outliers)
    squared, weights = np.mean((y - found[:, 0])[calm] ** 2), mixing.weights(state)
    np.testing.assert_allclose(weights.sum(), caution.share())
    assert (n_limited > 0) == (sizes[0] < 1.0)  # else they are within five times the error
    if sizes[0] < 1.0:  # it is as good as the best member, whose weight is the largest
        assert squared < 0.05
        assert weights.argmax() == 0
        assert caution.share() > 0.95
    else:  # it is nearly as good as the mean, which none of the members is
        assert squared < 1.2 * y[calm].var()
        assert caution.share() < 0.1


class DeviationReference:
    """The formulas at the head of `kernelstream.committee.deviations`."""

    def __init__(self):
        self.E, self.S, self.b, self.H, self.n = 0.0, 0.0, 0.0, 10.0, 0.0

    def f(self, s2):
        return np.log((s2 + 0.05 * self.S) / (1.05 * self.S)) if self.S else 0.0

    def variance(self, s2):
        return self.E * np.exp(self.b * self.f(s2)) + max(0.0, s2 - 9.0 * self.S)

    def learn(self, s2, e, weight):
        f = self.f(s2)
        g = np.exp(self.b * f)
        if self.E:
            self.H = 0.99 * self.H + weight * f**2 / 2
            step = weight * f * (min(e**2 / (self.E * g), 9.0) - 1.0) / 2 / self.H
            self.b = np.clip(self.b + step, 0.0, 1.5)
        self.n = 0.99 * self.n + weight
        self.E += weight / self.n * (e**2 / g - self.E)
        self.S += weight / self.n * (s2 - self.S)


def test_deviations():
    random = np.random.default_rng(1)
    n, y = 400, random.normal(size=400)
    size = np.exp(random.normal(size=n))  # of the noise of all members, at each row
    scores = (y + size * random.normal(size=(3, n)))[:, :, None]
    weight = random.choice([0.0, 1.0, 2.0], n)
    mixing, reference, level = RidgeStacking(), DeviationReference(), RidgeReference(3, 1.0)
    state, is_first, seen = mixing.new_state(3, 1), True, []
    for i in range(n):
        one = scores[:, i : i + 1]
        f = one[:, 0, 0]
        first = level.predict(f)
        s2 = level.q @ level.h**2
        known = reference.n > 0.0
        expected = np.sqrt(reference.variance(s2)) if known else np.inf
        assert mixing.deviations(state, one)[0] == pytest.approx(expected, rel=1e-8)
        top = RidgeReference(2, 0.999)
        top.count, top.own, n_far = state.top.count[0], state.top.own_error[0], state.n_far[0]
        mixed, _ = mixing.learn(state, one, y[i : i + 1], weight[i : i + 1])
        if weight[i]:
            target, _ = top.limited(mixed[0, 0], y[i], n_far, np.std(seen) if seen else np.inf)
            seen.append(y[i])
            if not is_first:  # whose target nobody could know
                reference.learn(s2, target - mixed[0, 0], weight[i])
            is_first = False
            level.learn(f, first, target, weight[i])
    assert 0.2 < reference.b < 1.4
    assert mixing.deviations(state, 100.0 * scores).mean() > 30.0


def test_a_perfect_member_is_followed():
    y = np.random.default_rng(0).normal(size=50)
    scores = np.stack([y, -y])[:, :, None]
    mixing = RidgeStacking()
    found, _ = mixing.learn(mixing.new_state(2, 1), scores, y, np.ones(50))
    np.testing.assert_allclose(found[5:, 0], y[5:], rtol=0.02)


def test_highest_mean():
    random = np.random.default_rng(0)
    scores = random.normal(size=(3, 4000, 1)) * np.array([1.0, 5.0, 0.1])[:, None, None] + 7.0
    mixing = HighestMean(nu=0.1)
    state = mixing.new_state(3, 1)
    found, _ = mixing.learn(state, scores, np.zeros(4000), np.ones(4000))
    mean, sd = scores[:, :3999].mean(axis=1), scores[:, :3999].std(axis=1)
    expected = np.sort((scores[:, 3999] - mean) / sd, axis=0)[:2].mean()
    np.testing.assert_allclose(found[3999, 0], expected, rtol=1e-9)
    alarms = found[2000:, 0] < mixing.threshold(state)
    assert 0.07 < alarms.mean() < 0.14


class ThresholdReference:
    """The rule of the threshold of `HighestMean`, as it is written."""

    def __init__(self, nu):
        self.nu, self.start, self.n, self.calm = nu, norm.ppf(nu), 0, 0
        self.t = self.start

    def learn(self, score):
        step = min(0.5, max(0.001, 0.5 / (1 + self.n)) / self.nu)
        alarm = score < self.t
        self.n, self.calm = self.n + 1, 0 if alarm else self.calm + 1
        missed = self.nu * self.calm
        rise = step * (self.nu - alarm)
        if missed > 4:
            rise = max(rise, min((missed / 4) ** 2 * rise, self.start / 2 - self.t))
        self.t += rise


def test_the_threshold_comes_back_after_a_burst_of_alarms():
    random = np.random.default_rng(3)
    scores = random.normal(size=(2, 3000, 1))
    scores[:, 1000:1300] -= 300.0  # a sudden change, after which the scores are as before
    mixing = HighestMean(nu=0.1)
    state, reference, alarms = mixing.new_state(2, 1), ThresholdReference(0.1), []
    for i in range(3000):
        said, _ = mixing.learn(state, scores[:, i : i + 1], np.zeros(1), np.ones(1))
        alarms.append(said[0, 0] < reference.t)
        reference.learn(said[0, 0])
        assert mixing.threshold(state) == pytest.approx(reference.t, abs=1e-9)
    assert np.mean(alarms[1000:1020]) > 0.9
    assert reference.t > 0.5 * reference.start - 0.1


@pytest.mark.parametrize("shares", [[0.6, 0.4], [0.4, 0.3, 0.2, 0.1]])
def test_where_members_know_nothing_the_frequent_class_is_said(shares):
    random = np.random.default_rng(4)
    n, n_classes = 4000, len(shares)
    scores = random.normal(size=(5, n, n_classes))
    y = random.choice(n_classes, n, p=shares)
    mixing = NewtonStacking()
    state = mixing.new_state(5, n_classes)
    said, loss = mixing.learn(state, scores, y.astype(float), np.ones(n))
    wrong, of_majority = said.argmax(axis=1) != y, y != np.argmax(shares)
    assert wrong.mean() < of_majority.mean() + 0.005
    assert wrong[:500].mean() < of_majority[:500].mean() + 0.02
    assert loss[500:].mean() < -np.dot(shares, np.log(shares)) + 0.01


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="two numbers"):
        NewtonStacking(decays=(0.9,))
    with pytest.raises(ValueError, match="ridge"):
        RidgeStacking(ridge=0.0)
