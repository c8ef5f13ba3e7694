"""The specification of LASVM, in plain NumPy, beside its paper."""

from typing import Any

import numpy as np

from kernelstream.parts import SLACK

__all__ = ["ActiveReference"]


class ActiveReference:
    """LASVM on a stream, with all gradients computed again whenever they are needed.

    Bordes, Ertekin, Weston, Bottou, JMLR 6, 2005: PROCESS and REPROCESS at every row, FINISHING on
    demand. Where the budget has a size, the coefficients of the point that goes move to others.
    """

    def __init__(self, parts: Any, n_features: int, n_outputs: int):
        self.parts = parts
        self.kernel = parts.kernel.resolve(n_features)
        self.points = np.zeros((0, n_features))
        self.y, self.limit, self.came = np.zeros(0), np.zeros(0), np.zeros(0)
        self.alpha = np.zeros((0, n_outputs))
        self.b = np.zeros(n_outputs)
        self.n_seen = 0

    def _signs(self, k: int) -> np.ndarray:
        if self.alpha.shape[1] == 1 and (self.y != 0).all():
            return self.y
        return np.where(self.y == k, 1.0, -1.0)

    def gradient(self, k: int) -> np.ndarray:
        """Of the dual objective of an output, at all points."""
        f = self.kernel(self.points) @ self.alpha[:, k] if len(self.y) else np.zeros(0)
        return self.parts.margin.value * self._signs(k) - f

    def _extremes(self, k: int) -> tuple[int | None, int | None]:
        g, alpha, limit = self.gradient(k), self.alpha[:, k], self.limit * self._signs(k)
        grows = np.where(alpha < np.maximum(limit, 0), g, -np.inf)
        shrinks = np.where(alpha > np.minimum(limit, 0), -g, -np.inf)
        return self._first_largest(grows), self._first_largest(shrinks)

    @staticmethod
    def _first_largest(g: np.ndarray) -> int | None:
        """Near-ties, which every step makes, go to the first."""
        largest = g.max(initial=-np.inf)
        if largest == -np.inf:
            return None
        return int((g >= largest - SLACK * (1 + abs(largest))).argmax())

    def _step(self, k: int, up: int | None, down: int | None) -> float:
        """The step of a pair, if it violates the tolerance; by how much it did."""
        if up is None or down is None:
            return 0.0
        g, alpha, limit = self.gradient(k), self.alpha[:, k], self.limit * self._signs(k)
        gap = float(g[up] - g[down])
        if gap > self.parts.update.tolerance:
            K = self.kernel(self.points[[up, down]])
            high, low = max(limit[up], 0), min(limit[down], 0)
            length = gap / max(K[0, 0] + K[1, 1] - 2 * K[0, 1], 1e-12)
            length = min(length, high - alpha[up], alpha[down] - low)
            self._change(alpha, up, high, length)
            self._change(alpha, down, low, -length)
        return gap

    @staticmethod
    def _change(alpha: np.ndarray, i: int, end: float, change: float) -> None:
        """A coefficient at its bound is there exactly."""
        near = abs(alpha[i] + change - end) <= SLACK * abs(change)
        alpha[i] = end if near else alpha[i] + change

    def _remove(self, slot: int) -> None:
        """The last point takes the place of the one that goes."""
        for name in ("points", "y", "limit", "came", "alpha"):
            values = getattr(self, name).copy()
            values[slot] = values[-1]
            setattr(self, name, values[:-1])

    def _make_room(self) -> None:
        size, oldest = (self.alpha**2).sum(axis=1), self.parts.budget.to_rule().drops_oldest()
        if (size == 0).any():  # those without a coefficient, the oldest of them
            goes = int(np.where(size == 0, self.came, np.inf).argmin())
        elif oldest:
            goes = int(self.came.argmin())
        else:
            goes = int((size <= size.min() * (1 + SLACK)).argmax())
        K = self.kernel(self.points)
        bend = K[goes, goes] + np.diag(K) - 2 * K[goes]
        for k in range(self.alpha.shape[1]):
            alpha, limit = self.alpha[:, k], self.limit * self._signs(k)
            while alpha[goes] != 0:
                g, way = self.gradient(k), np.sign(alpha[goes])
                room = np.maximum(way * limit, 0) - way * alpha
                length = np.minimum(abs(alpha[goes]), room)
                gain = way * (g - g[goes]) - 0.5 * length * bend
                gain[(room <= 0) | (np.arange(len(g)) == goes)] = -np.inf
                best = int(gain.argmax())
                if gain[best] == -np.inf:
                    break
                self._change(alpha, goes, 0.0, -way * length[best])
                self._change(alpha, best, way * max(way * limit[best], 0), way * length[best])
        self._remove(goes)

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> np.ndarray:
        """Learn one row; return its scores before that."""
        k_x = self.kernel(self.points, x[None])[:, 0] if len(self.y) else np.zeros(0)
        scores = self.alpha.T @ k_x + self.b
        if weight == 0:
            return scores
        tolerance, outputs = self.parts.update.tolerance, range(self.alpha.shape[1])
        limit, size = self.parts.loss_weight * weight, self.parts.budget.limit()
        limit /= self.parts.regularization
        wanted = len(self.y) < 10 and len(self.y) != size
        for k in outputs:
            up, down = self._extremes(k)
            sign = y if len(outputs) == 1 and y != 0 else (1.0 if y == k else -1.0)
            g = self.parts.margin.value * sign - self.alpha[:, k] @ k_x
            against = down if sign > 0 else up
            gap = -np.inf if against is None else sign * (g - self.gradient(k)[against])
            wanted = wanted or gap > tolerance
        if wanted:
            if len(self.y) == size:
                self._make_room()
            self.points, self.y = np.vstack([self.points, x]), np.append(self.y, y)
            self.limit, self.came = np.append(self.limit, limit), np.append(self.came, self.n_seen)
            self.alpha = np.pad(self.alpha, ((0, 1), (0, 0)))
            slot = len(self.y) - 1
            for k in outputs:  # PROCESS
                up, down = self._extremes(k)
                self._step(k, *((slot, down) if self._signs(k)[slot] > 0 else (up, slot)))
        violated = [self._step(k, *self._extremes(k)) > tolerance for k in outputs]  # REPROCESS
        if any(violated):
            self._drop_idle()
        self.b = np.array([self._intercept(k) for k in outputs])
        self.n_seen += 1
        return scores

    def finish(self) -> None:
        """REPROCESS until no pair violates more than the tolerance."""
        for k in range(self.alpha.shape[1]):
            while self._step(k, *self._extremes(k)) > self.parts.update.tolerance:
                self._drop_idle()
                self.b[k] = self._intercept(k)

    def _intercept(self, k: int) -> float:
        ends = [end for end in self._extremes(k) if end is not None]
        return float(self.gradient(k)[ends].mean()) if ends else 0.0

    def _drop_idle(self) -> None:
        idle = (self.alpha == 0).all(axis=1)
        for k in range(self.alpha.shape[1]):
            up, down = self._extremes(k)
            if up is not None and down is not None:
                g, signs = self.gradient(k), self._signs(k)
                idle &= np.where(signs > 0, g <= g[down], g >= g[up])
        for slot in np.flatnonzero(idle)[::-1]:
            self._remove(slot)
