"""The specification of machines with a step size per weight, and of recursive least squares.

Slow and obvious, in plain NumPy: every weight at every row. It shares the formulas of losses and
margins with the fast path and nothing else. Numbers are equations of the SVMD paper (JMLR 2006).
"""

from typing import Any

import numpy as np

from kernelstream.learner.plan import Parts, rules_of
from kernelstream.learner.state import mapped

__all__ = ["LeastSquaresReference", "VectorReference"]


class VectorReference:
    """A linear model with a step size per weight; the intercept is the weight of a constant."""

    def __init__(self, parts: Parts, n_features: int, n_outputs: int):
        self.model, self.step_size = rules_of(parts), parts.step_size
        self.fits_intercept = parts.fit_intercept
        shape = n_outputs, n_features + 1
        self.w, self.v = np.zeros(shape), np.zeros(shape)
        self.p = np.full(shape, self.model.step_size.initial)
        self.c = np.full(n_features + 1, self.model.regularization)  # of each weight
        self.c[-1] = 0.0
        self.summed = np.zeros(shape)  # squared gradients
        self.margin = mapped(
            lambda field: np.full(1, field.fill), parts.margin.state(self.model.step_size.initial)
        )
        self.mean_loss, self.t, self.n_capped = 0.0, 0, 0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> np.ndarray:
        """Learn one row; return its scores before that."""
        model, epsilon = self.model, self.margin.epsilon[0]
        x = np.append(x, float(self.fits_intercept)).astype(float)
        scores, lam = self.w @ x, model.step_size.trace_decay()
        if weight == 0:
            return scores
        weight, own_weight = weight * model.loss_weight, weight
        xi, chi, rho = np.zeros_like(scores), np.zeros_like(scores), 0.0
        violated = model.loss.gradient(scores, y, epsilon, xi)
        xi[np.abs(xi) < getattr(self.step_size, "least", 0.0)] = 0.0
        if model.loss.is_curved():
            rho = weight * model.loss.curvature(scores, y, epsilon, self.v @ x, chi)
        g, Hv = weight * np.outer(xi, x), weight * np.outer(chi, x)  # of the loss
        loss = weight * model.loss.value(scores, y, epsilon)
        self.mean_loss += (loss - self.mean_loss) / min(self.t + 1, 100)
        model.margin.adapt_margin(
            self.margin, model.step_size, self.t, model.loss.margin_direction(), violated,
            own_weight,
        )  # fmt: skip
        there = x != 0
        self.p[:, there] = self._adapted(g + self.c * self.w, there)[:, there]
        if model.update.capped:
            length = rho * (self.p * x**2).sum(axis=1, keepdims=True)
            g, Hv = g / np.maximum(length, 1.0), Hv / np.maximum(length, 1.0)
            follows = model.regularization > 0.0 or model.step_size.is_traced()
            self.n_capped += bool((length[follows | (xi != 0.0)] > 1.0 + 1e-12).any())
        g, Hv = g + self.c * self.w, Hv + self.c * self.v
        self.w = self.w - self.p * g  # (1)
        self.v = lam * self.v - self.p * (g + lam * Hv)  # (7)
        if not model.step_size.is_traced():
            self.v[:] = 0.0
        self.t += 1
        return scores

    def _adapted(self, g: np.ndarray, there: np.ndarray) -> np.ndarray:
        """The step sizes after a row with the gradient g, of features that are there."""
        c, given = self.model.regularization, self.step_size
        most = 0.5 / c if c > 0 else np.inf
        if not self.model.step_size.is_traced():  # AdaGrad
            self.summed += np.where(there, g, 0.0) ** 2
            return np.minimum(given.rate / np.sqrt(given.start + self.summed), most)
        unit = max(self.mean_loss, 1e-300) if given.normalized else 1.0
        growth = np.inf if given.growth is None else given.growth
        p = self.p * np.clip(1.0 - given.meta * self.v * g / unit, 0.5, growth)  # (4)
        lowest, highest = given.initial * given.lowest, given.initial * given.highest
        return np.clip(p, lowest, min(highest, most))


class LeastSquaresReference:
    """Ridge regression on all rows so far, each fading: solved afresh at every row."""

    def __init__(self, parts: Parts, n_features: int, n_outputs: int):
        self.parts, self.n = parts, n_features + 1
        self.w = np.zeros((n_outputs, self.n))
        self.P = np.eye(self.n) / parts.regularization

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> np.ndarray:
        """Learn one row; return its scores before that."""
        x = np.append(x, float(self.parts.fit_intercept)).astype(float)
        scores = self.w @ x
        if weight == 0:
            return scores
        a, prior = self.parts.update.forgetting, np.eye(self.n) / self.parts.regularization
        target: Any = y if len(scores) == 1 else np.arange(len(scores)) == y
        precision = np.linalg.inv(self.P)
        seen = precision + self.parts.loss_weight * weight * np.outer(x, x)
        information = self.w @ precision
        information += self.parts.loss_weight * weight * np.outer(target, x)
        self.w = np.sqrt(a) * np.linalg.solve(seen, information.T).T
        self.P = a * np.linalg.inv(seen) + (1 - a) * prior
        return scores
