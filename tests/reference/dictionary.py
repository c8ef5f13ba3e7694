"""The specification of dual updates over a dictionary, in plain NumPy, beside the SOG-SVR paper."""

import copy
import math

import numpy as np

from kernelstream.learner.machine import Parts
from kernelstream.parts import SLACK

__all__ = ["DictionaryReference"]


class DictionaryReference:
    """Dual updates over a dictionary, by matrices that hold every row; SOG-SVR paper."""

    def __init__(self, parts: Parts, n_features: int, n_outputs: int):
        self.parts = parts
        self.kernel = parts.kernel.resolve(n_features)
        self.points = np.zeros((0, n_features))
        self.A = np.zeros((0, 0))  # a line for every row so far (4.11)
        self.y = np.zeros((0, n_outputs))
        self.weights = np.zeros(0)
        self.beta = np.zeros((0, n_outputs))  # alpha* - alpha
        self.star = np.zeros((0, n_outputs))
        self.plain = np.zeros((0, n_outputs))
        # what is known of f at the points beside the rows in A, as a Gaussian's precision and its
        # product with the mean: the prior, and what points told that are gone
        self.known = np.zeros((0, 0))
        self.known_mean = np.zeros((0, n_outputs))
        self.n_seen = 0
        self.bar = 0.0  # what the cheapest point of a full dictionary costs

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> np.ndarray:
        """Learn one row; return its scores before that."""
        k, k_xx = self._kernel_values(x)
        scores = self.beta.T @ k
        if weight == 0:
            return scores
        newton = self.parts.update.direction == "newton"
        weight *= self.parts.loss_weight if newton else 1.0
        target = np.array([y]) if len(scores) == 1 else np.eye(len(scores))[int(y)]
        budget = self.parts.budget
        a = self._combination(k)
        delta = k_xx - (k + budget.ridge * a) @ a  # (3.10)
        n = len(self.points)
        joins = delta > max(budget.tolerance, 1e-7 * k_xx) and (newton or n != budget.size)
        if joins and newton and budget.size is not None and n >= budget.size:
            joins = self._worth(x, target, weight) >= 0.25 * (budget.worth - 1.0) * self.bar
        if joins:
            self.join(x)
            a = np.eye(len(self.points))[n]
        self.add(a, target, weight)
        self.n_seen += 1
        if newton:
            if self.n_seen % 64 == 0:
                self._maintain()
            self.newton()
        elif n == 0 and joins:
            self._begin(target / k_xx)
        else:
            self._gradient()
        return scores

    def _kernel_values(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        k = self.kernel(self.points, x[None])[:, 0] if len(self.points) else np.zeros(0)
        return k, self.kernel(x[None], x[None])[0, 0]

    def _gram(self) -> np.ndarray:
        return self.kernel(self.points) if len(self.points) else np.zeros((0, 0))

    def regular(self) -> np.ndarray:
        """K + ridge I, which stands for K in Newton's direction."""
        return self._gram() + self.parts.budget.ridge * np.eye(len(self.points))

    def _combination(self, k: np.ndarray) -> np.ndarray:
        return np.linalg.solve(self.regular(), k) if len(k) else k  # (3.9)

    def join(self, x: np.ndarray) -> None:
        """A new point. Given the others, f there is a . values, give or take delta / c."""
        k, k_xx = self._kernel_values(x)
        a = self._combination(k)
        delta = k_xx + self.parts.budget.ridge - k @ a
        self.points = np.vstack([self.points, x])
        self.A = np.pad(self.A, ((0, 0), (0, 1)))
        self.beta, self.star, self.plain, self.known_mean = (
            np.pad(v, ((0, 1), (0, 0))) for v in (self.beta, self.star, self.plain, self.known_mean)
        )
        self.known = np.pad(self.known, (0, 1))
        off = np.append(-a, 1)
        self.known += self.parts.regularization / delta * np.outer(off, off)  # at last c K^-1

    def add(self, a: np.ndarray, target: np.ndarray, weight: float) -> None:
        """Let a row in."""
        self.A, self.y = np.vstack([self.A, a]), np.vstack([self.y, target])
        self.weights = np.append(self.weights, weight)

    def _worth(self, x: np.ndarray, target: np.ndarray, weight: float) -> float:
        """What it would cost to lose a new point again, once its row is learned."""
        trial = copy.copy(self)
        trial.join(x)
        trial.add(np.eye(len(trial.points))[-1], target, weight)
        K, (known, mean) = trial.regular(), trial.all_known()
        Q = np.linalg.inv(K @ known @ K)
        beta = Q @ (K @ mean)
        return float(np.sum(beta[-1] ** 2) / Q[-1, -1])

    def all_known(self) -> tuple[np.ndarray, np.ndarray]:
        """What prior, points that are gone and rows tell: a precision, and it times the mean."""
        weighted = self.A.T * self.weights
        return self.known + weighted @ self.A, self.known_mean + weighted @ self.y

    def _maintain(self) -> None:
        """What happens after every 64th row: prune the dictionary, and go back to the prior."""
        size, keep = self.parts.budget.size, self.parts.update.forgetting**64
        if size is not None and len(self.points) >= size:
            self._prune(size)
        if keep < 1:
            K, (known, mean) = self.regular(), self.all_known()
            covariance = keep * np.linalg.inv(known)
            covariance += (1 - keep) * K / self.parts.regularization
            values = math.sqrt(keep) * np.linalg.solve(known, mean)
            self._know_only(np.linalg.inv(covariance), np.linalg.solve(covariance, values))
            self.bar *= keep

    def _know_only(self, known: np.ndarray, mean: np.ndarray) -> None:
        """All that is known of f at the points, in place of the rows."""
        self.known, self.known_mean = known, mean
        self.A, self.y = np.zeros((0, len(self.points))), self.y[:0]
        self.weights = self.weights[:0]

    def _prune(self, size: int) -> None:
        """Points go one after the other; what is being minimised then has fewer coefficients.

        Of beta it is ``beta . H beta / 2 - b . beta``. Without point j its minimum is higher by
        ``beta_j^2 / (H^-1)_jj``. Only points whose loss changes ||f|| little are looked at.
        """
        n, K, (known, mean) = len(self.points), self.regular(), self.all_known()
        H, b = K @ known @ K, K @ mean
        worth = np.where(np.arange(n) < size, 1.0, self.parts.budget.worth)
        beta = np.linalg.solve(H, b)
        costs = np.sum(beta**2, axis=1) / np.diag(np.linalg.inv(K)) / worth
        candidates = set(np.argsort(costs, kind="stable")[: n - size + 32])
        stay = np.arange(n)
        while True:
            Q = np.linalg.inv(H[np.ix_(stay, stay)])
            costs = np.sum((Q @ b[stay]) ** 2, axis=1) / np.diag(Q) / worth[stay]
            costs[[j not in candidates for j in stay]] = np.inf
            if len(stay) == size:
                self.bar = costs.min()
                break
            cheapest = np.flatnonzero(costs <= costs.min() * (1 + SLACK))[-1]
            stay = np.delete(stay, cheapest)
        order = np.arange(size)  # the last points take the places that have become free
        order[np.setdiff1d(order, stay)] = stay[stay >= size]
        self.points = self.points[order]
        self.beta, self.star, self.plain = (
            v[order] for v in (self.beta, self.star, self.plain)
        )  # fmt: skip
        inverse = np.linalg.inv(self.regular())
        self._know_only(inverse @ H[np.ix_(order, order)] @ inverse, inverse @ b[order])

    def newton(self) -> None:
        """The minimum of C/2 sum (y - f)^2 + c/2 ||f||^2 over the dictionary, f = A K beta."""
        values = np.linalg.solve(*self.all_known())
        self.beta = np.linalg.solve(self.regular(), values)

    def _begin(self, beta: np.ndarray) -> None:
        """Table 2: the first point takes all of y, with max where a misprint has min."""
        box = math.inf if self.parts.update.box is None else self.parts.update.box
        self.star[0], self.plain[0] = np.clip(beta, 0, box), np.clip(-beta, 0, box)
        self.beta = self.star - self.plain

    def _gradient(self) -> None:
        """One step of (4.12), the best one if none is given; a row of weight w counts as w rows."""
        update, K, A = self.parts.update, self._gram(), self.A
        box = math.inf if update.box is None else update.box
        W = np.diag(self.weights)
        g = A.T @ W @ (self.y - A @ K @ self.beta)
        ones = self.parts.margin.value * (A.T @ self.weights)
        for k in range(self.y.shape[1]):
            at = np.array([self.star[:, k], self.plain[:, k]])
            to = np.array([g[:, k] - ones, -g[:, k] - ones])
            if update.step is not None:
                eta = update.step
            elif update.box is not None:
                rise = np.linalg.solve(A.T @ W @ A, to.T).T  # (4.20)
                eta = _best(np.sum(to * rise), 4 * g[:, k] @ K @ g[:, k], 1e60)
            else:  # of alpha* - alpha, which is all that matters without a box: epsilon cancels
                slope = 0.5 * g[:, k] @ np.linalg.solve(A.T @ W @ A, g[:, k])
                eta = _best(slope, g[:, k] @ K @ g[:, k], 1e60)
            move = np.clip(at + eta * to, -box, box) - at  # (4.22)
            if update.step is None and update.box is not None:  # as far as (4.18) rises on the way
                change = move[0] - move[1]
                move *= _best(np.sum(move * rise), change @ K @ change, 1.0)
            self.star[:, k], self.plain[:, k] = at + move
        self.beta = self.star - self.plain


def _best(slope: float, bend: float, most: float) -> float:
    """Where slope t - bend t^2 / 2 is largest, t from 0 to `most`."""
    if slope <= 0:
        return 0.0
    return most if slope >= most * bend else slope / bend
