"""The published bounds where the target moves: what NORMA and ILK promise against any sequence
of functions g_1, ..., g_T with ||g_t|| <= B, sum ||g_t - g_(t+1)|| <= D1 and sum of squares <= D2.

Streams are linear, so that the norms of the g_t are those of their weights. NORMA's bounds in this
form are those of Kivinen, Smola, Williamson: Online Learning with Kernels, IEEE Transactions on
Signal Processing 52, 2004; ILK's is theorem 2 of the paper.
"""

import math

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.step_sizes import Constant, SqrtDecay
from kernelstream.updates import Implicit


def turning(seed, n_rows, angle, gap, noise):
    """Rows of length at most one, labels by a weight vector that turns by `angle` in all, which
    separates those without noise by `gap`; and the weights at every row."""
    random = np.random.default_rng(seed)
    phi = random.uniform(0, 2 * np.pi) + np.linspace(0, angle, n_rows)
    weights = np.column_stack([np.cos(phi), np.sin(phi), np.zeros(n_rows)])
    X = random.uniform(-1, 1, size=(n_rows, 3)) / math.sqrt(3)
    along = (X * weights).sum(axis=1)
    side = np.where(along > 0, 1, -1)
    wanted = np.where(np.abs(along) < gap, side * gap, along)
    X += (wanted - along)[:, None] * weights
    X /= np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]
    return X, np.where(random.random(n_rows) < noise, -side, side), weights


def lengths(g):
    """B, D1 and D2 of a sequence."""
    moves = np.linalg.norm(np.diff(g, axis=0), axis=1)
    return np.linalg.norm(g, axis=1).max(), moves.sum(), (moves**2).sum()


def mistakes_allowed(K, S):
    """K + 2 S + 2 sqrt(S (K + S)), for a reference margin of one."""
    return K + 2 * S + 2 * math.sqrt(S * (K + S))


@pytest.mark.parametrize("angle", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("learner", ["norma", "ilk"])
def test_mistakes_while_the_target_moves(learner, noise, angle):
    """With eta c = sqrt(D2 / T) / B. The bound is the minimum of
    (4 S + 2 theta K) / (theta (2 - theta)) over theta = X^2 times the length of a step on a
    mistake, and is reached with theta = 1 - K / bound."""
    n_rows, X2 = 3000, 1.0
    for seed in range(3):
        X, y, weights = turning(seed, n_rows, angle, 0.35, noise)
        for gap in (0.2, 0.3):
            g = weights / gap  # so that rows beyond the gap have no loss
            B, D1, D2 = lengths(g)
            K = np.maximum(0, 1 - y * (X * g).sum(axis=1)).sum()
            S = X2 / 4 * (B**2 + B * D1 + B * math.sqrt(n_rows * D2))
            allowed = mistakes_allowed(K, S)
            assert allowed < n_rows / 4  # else it would say nothing
            shrink, theta = math.sqrt(D2 / n_rows) / B, 1 - K / allowed
            if learner == "norma":  # which shrinks by 1 - eta c
                step = {"step_size": Constant(theta / X2), "loss": "perceptron"}
                weights_of = {"regularization": shrink * X2 / theta}
            else:  # by 1 - tau = 1 / (1 + eta c); steps up to (1 - tau) C
                step = {"step_size": Constant(1.0), "update": Implicit(exact=False)}
                weights_of = {"regularization": shrink, "C": theta * (1 + shrink) / X2}
            model = ks.KernelClassifier("linear", budget=None, **step, **weights_of)
            result = ks.prequential(model, X, y)
            assert 0 < (y * result.scores <= 0).sum() <= allowed  # a score of zero is a mistake


@pytest.mark.parametrize("angle", [0.0, 4.0])
@pytest.mark.parametrize("schedule", ["constant", "sqrt"])
@pytest.mark.parametrize("update", ["explicit", "implicit"])
def test_risk_while_the_target_moves(update, schedule, angle):
    """sum R(f_t) <= sum R(g_t) + drift / (2 eta) + 2 eta C^2 X^2 T with a constant step, drift =
    B^2 + 2 (U + B) D1 + D2 and U = C X / c; and a sqrt(T) + b, a = 4 eta C^2 X^2 + 2 U^2 / eta +
    (4 U D1 + D2) / (2 eta), b = U^2 / (2 eta), with eta / sqrt(t) (theorem 3, and NORMA's 4)."""
    n_rows, c, C, X2 = 3000, 0.1, 0.5, 1.0
    U, eta = C / c, 0.04 if schedule == "constant" else 1.0
    step = Constant(eta) if schedule == "constant" else SqrtDecay(eta, tau=1)
    for seed in range(2):
        X, y, weights = turning(seed, n_rows, angle, 0.3, 0.05)
        model = ks.KernelClassifier(
            "linear", update=update, step_size=step, budget=None, C=C, regularization=c
        )
        model.partial_fit(X[:1], y[:1], classes=[-1, 1], sample_weight=[0])
        risk = 0.0
        for x, label in zip(X, y, strict=True):
            norm2 = float(model.machine_.state.expansion.norm2[0])
            assert norm2 <= (1 + 1e-9) * U**2
            score = model.decision_function(x[None])[0]
            risk += 0.5 * c * norm2 + C * max(0.0, 1 - label * score)
            model.learn_one(x, label)
        for scale in (0.0, 4.0, 2.0):
            g = scale * weights
            B, D1, D2 = lengths(g)
            losses = np.maximum(0, 1 - y * (X * g).sum(axis=1))
            best = 0.5 * c * (g**2).sum() + C * losses.sum()
            if schedule == "constant":
                regret = (B**2 + 2 * (U + B) * D1 + D2) / (2 * eta) + 2 * eta * C**2 * X2 * n_rows
            else:
                a = 4 * eta * C**2 * X2 + 2 * U**2 / eta + (4 * U * D1 + D2) / (2 * eta)
                regret = a * math.sqrt(n_rows) + U**2 / (2 * eta)
            assert risk <= best + regret
        if schedule == "constant" and angle == 0:  # a model that learned nothing would fail
            assert best + regret < 0.9 * n_rows * C
