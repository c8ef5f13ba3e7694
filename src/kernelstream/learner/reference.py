"""The specification: SVMD and NORMA one row at a time, in plain NumPy, beside the paper.

Slow and obvious. It shares the loss formulas and the kernels with the fast path and nothing else:
no tiles, no scaled coefficients, no rules. Numbers are equations of the SVMD paper (JMLR 2006), and
the comments (a)-(e) are the steps of its algorithm 2.
"""

import math
from typing import Any

import numpy as np

from kernelstream import budgets, margins, step_sizes, updates
from kernelstream.learner.model import Parts
from kernelstream.updates import LARGEST_DECAY

__all__ = ["DictionaryReference", "PerceptronReference", "Reference"]


def _next_felt(felt: float, correlation: float, objective: float) -> float:
    """The running mean of |<g, v>| over the objective; no row counts more than 0.1."""
    return felt + (min(abs(correlation) / max(objective, 1e-300), 0.1) - felt) / 20


class Reference:
    """A learner whose every quantity is an attribute with the paper's name."""

    def __init__(self, parts: Parts, n_features: int, n_outputs: int):
        self.parts = parts
        self.kernel = parts.kernel.resolve(n_features)
        self.c = parts.regularization
        self.points = np.zeros((0, n_features))
        self.alpha = np.zeros((0, n_outputs))  # f = sum_i alpha_i k(x_i, .)
        self.beta = np.zeros((0, n_outputs))  # v = sum_i beta_i k(x_i, .)
        self.norm2 = 0.0  # ||f||^2
        self.pi = 0.0  # <f, v>
        self.eta = parts.step_size.initial
        self.felt = 0.0  # mean of |<g, v>| over the objective, over the last rows with a gradient
        self.n_capped = 0
        self.b = np.zeros(n_outputs)
        self.eta_b = np.full(n_outputs, float(self.eta))
        self.felt_b = np.zeros(n_outputs)
        self.v_b = np.zeros(n_outputs)
        self.epsilon = self._first_margin()
        self.eta_epsilon = self._first_margin_step()
        self.v_epsilon = 0.0
        self.mean_loss = 0.0
        self.log_level = math.log(self.eta)  # mean of log eta over the last rows
        self.drift = 0.0  # log eta beyond it
        self.t = 0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> np.ndarray:
        """Learn one row; return its scores before that."""
        smd = isinstance(self.parts.step_size, step_sizes.SMD)
        _, lam = self._meta_and_decay("")
        _, lam_b = self._meta_and_decay("intercept_")
        loss = self.parts.loss

        # (a) prediction
        k = self._kernel_values(self.points, x)
        k_xx = self._kernel_values(x[None], x)[0]
        f = self.alpha.T @ k
        v = self.beta.T @ k  # (b)ii, (39)
        scores = f + self.b
        if weight == 0:
            return scores

        # (b) gradients
        xi = np.zeros_like(scores)
        chi = np.zeros_like(scores)
        violated = loss.gradient(scores, y, self.epsilon, xi)
        rho = 0.0
        if loss.is_curved():
            # (43), (44): the curvature times the trace as it is after its decay
            rho = loss.curvature(scores, y, self.epsilon, lam * v + lam_b * self.v_b, chi)
        total_weight = self.parts.loss_weight * weight
        xi, chi, rho = xi * total_weight, chi * total_weight, rho * total_weight
        g_v = self.c * self.pi + xi @ v  # (45)

        # (c) step sizes, traces
        implicit = isinstance(self.parts.update, updates.Implicit)
        unit = self._unit(total_weight * loss.value(scores, y, self.epsilon))
        objective = self.mean_loss + self.c * self.norm2 / 2
        eta, capped = self._adapt_step(g_v / unit, rho, k_xx)
        if xi.any():
            self.felt = _next_felt(self.felt, g_v, objective)
        margin = self.epsilon
        self._adapt_margin(violated, weight)
        keep = 1 / (1 + eta * self.c) if implicit else 1 - eta * self.c
        cross = -keep * (1 - keep) if implicit else -eta * self.c
        pi_without_new = keep**2 * lam * self.pi + keep * cross * self.norm2 if smd else 0.0
        without_new = keep**2 * self.norm2, pi_without_new
        if implicit:
            new = self._implicit(eta, y, margin, total_weight, k_xx, f, v, lam)
            self.norm2 = max(self.norm2, 0.0)
        else:
            if self.parts.fit_intercept:
                limit = 0.5 / rho if rho > 0 and self.parts.update.capped else math.inf
                capped = self._adapt_intercept(xi, chi, unit, objective, limit) or capped
            new = self._explicit(eta, xi, chi, k, k_xx, f, lam)
        self.n_capped += capped
        if not smd:
            self.beta *= 0
            self.pi = 0.0

        # (e) a row with a coefficient becomes a point
        if new[0].any() or (smd and new[1].any()):
            self.points = np.vstack([self.points, x])
            self.alpha = np.vstack([self.alpha, new[0]])
            self.beta = np.vstack([self.beta, new[1] if smd else 0 * xi])
            self._truncate(without_new, smd and self.c > 0 and self.parts.budget.keeps_gram(lam))
        self.t += 1
        return scores

    def _explicit(
        self, eta: float, xi: np.ndarray, chi: np.ndarray, k: np.ndarray, k_xx: float,
        f: np.ndarray, lam: float,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """A gradient step; the new point's coefficients in f and v. chi is decayed already."""
        keep = 1 - eta * self.c
        old_beta = keep * lam * self.beta - eta * self.c * self.alpha  # (42), old points
        new_beta = -eta * (xi + chi)  # (42), the new one

        # (d) incremental quantities
        f_g = self.c * self.norm2 + xi @ f  # (48)
        f_v = keep * lam * self.pi - eta * f_g - eta * (chi @ f)  # (47) with curvature
        v_next = old_beta.T @ k + new_beta * k_xx  # (39)
        self.pi = keep * f_v - eta * (xi @ v_next)  # (46)
        self.norm2 = (
            keep**2 * self.norm2 - 2 * eta * keep * (xi @ f) + eta**2 * k_xx * (xi @ xi)
        )  # (49)
        self.norm2 = max(self.norm2, 0.0)

        # the function itself (32)
        self.alpha = keep * self.alpha
        self.beta = old_beta
        return -eta * xi, new_beta

    def _implicit(
        self, eta: float, y: float, margin: float, weight: float, k_xx: float, f: np.ndarray,
        v: np.ndarray, lam: float,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """A proximal step, and its derivative by log eta (docs/implicit.md)."""
        loss, fitted = self.parts.loss, self.parts.fit_intercept
        keep = 1 / (1 + eta * self.c)  # d keep / d log eta = -keep (1 - keep)
        step = keep * eta * weight * k_xx + (eta * weight if fitted else 0)
        xi, dual = np.zeros_like(f), np.zeros_like(f)
        if step > 0:  # otherwise nothing that is learned at x would change a score
            scores, now, exact = keep * f + self.b, f + self.b, self.parts.update.exact
            loss.proximal(scores, now, y, margin, step, exact, xi, dual)
        new_alpha = -keep * eta * weight * xi  # its derivative with xi held: keep new_alpha
        slope = keep * lam * v - keep * (1 - keep) * f + k_xx * keep * new_alpha
        if fitted:
            slope += lam * self.v_b - eta * weight * xi
        followed = slope.copy()
        traced = isinstance(self.parts.step_size, step_sizes.SMD) and step > 0
        if traced:
            loss.follow(y, margin, step, xi, dual, followed)
        d_xi = (slope - followed) / step if traced else 0 * xi  # d xi / d log eta
        if fitted:
            self.b = self.b - eta * weight * xi
            self.v_b = lam * self.v_b - eta * weight * (xi + d_xi)
            self.eta_b[:] = eta
        new_beta = keep * new_alpha - keep * eta * weight * d_xi
        # inner products of f' = keep f + alpha k and v' = keep lam v - keep (1 - keep) f + beta k
        f_v = keep * lam * self.pi - keep * (1 - keep) * self.norm2 + new_beta @ f  # <f, v'>
        v_next = keep * lam * v - keep * (1 - keep) * f + new_beta * k_xx  # v'(x)
        self.pi = keep * f_v + new_alpha @ v_next
        self.norm2 = (
            keep**2 * self.norm2 + 2 * keep * (new_alpha @ f) + k_xx * (new_alpha @ new_alpha)
        )
        self.beta = keep * lam * self.beta - keep * (1 - keep) * self.alpha
        self.alpha = keep * self.alpha
        return new_alpha, new_beta

    def _measure(self) -> None:
        """||f||^2 and <f, v> by their definitions."""
        gram = self.kernel(self.points) if len(self.points) else np.zeros((0, 0))
        self.norm2 = float(np.sum(self.alpha * (gram @ self.alpha)))
        self.pi = float(np.sum(self.alpha * (gram @ self.beta)))

    def _kernel_values(self, X: np.ndarray, x: np.ndarray) -> np.ndarray:
        return self.kernel(X, x[None])[:, 0] if len(X) else np.zeros(0)

    def _meta_and_decay(self, whose: str) -> tuple[float, float]:
        """mu and lambda of f (""), of the intercepts ("intercept_") or of the margin."""
        rule: Any = self.parts.step_size
        if not isinstance(rule, step_sizes.SMD):
            return 0.0, 0.0
        own = getattr(rule, whose + "meta"), getattr(rule, whose + "decay")
        shared = rule.meta, rule.decay
        mu, lam = (s if o is None else o for o, s in zip(own, shared, strict=True))
        return mu, lam

    def _next_step(
        self, first: float, eta: float, felt: float, mu: float, correlation: float
    ) -> float:
        rule = self.parts.step_size
        if isinstance(rule, step_sizes.Constant):
            return first
        if isinstance(rule, step_sizes.SqrtDecay):
            return first * math.sqrt(rule.tau / (rule.tau + self.t))  # (59)
        asleep = mu > 0 and felt < 0.01 and eta < rule.wake_below * first
        eta *= max(0.5, 1 - mu * correlation) * (1.03 if asleep else 1)
        return min(max(eta, rule.lowest * first), rule.highest * first)

    def _adapt_step(self, correlation: float, rho: float, k_xx: float) -> tuple[float, bool]:
        """The step that is taken, and whether it was cut; what is remembered is self.eta."""
        first, update = self.parts.step_size.initial, self.parts.update
        mu, _ = self._meta_and_decay("")
        wanted = eta = self._next_step(first, self.eta, self.felt, mu, correlation)  # (33)
        if isinstance(update, updates.Explicit) and update.capped:
            room = 0.5 if self.parts.fit_intercept else 1.0
            if eta * (self.c + rho * k_xx) > room:
                eta = room / (self.c + rho * k_xx)
            if eta * self.c > LARGEST_DECAY:
                eta = LARGEST_DECAY / self.c
        self.eta = self._remembered(first, self.eta, wanted, eta)
        self.drift = math.log(self.eta) - self.log_level
        self.log_level += self.drift / min(self.t + 1, 50)
        return eta, eta < wanted * (1 - 1e-12)

    def _remembered(self, first: float, before: float, eta: float, taken: float) -> float:
        """What of a step that was cut becomes the step size: SMD's falls to half at most."""
        rule = self.parts.step_size
        if not isinstance(rule, step_sizes.SMD):
            return eta
        return min(eta, max(taken, before / 2, rule.lowest * first))

    def _unit(self, loss: float) -> float:
        rule = self.parts.step_size
        if not isinstance(rule, step_sizes.SMD):
            return 1.0
        self.mean_loss += (loss - self.mean_loss) / min(self.t + 1, 100)
        return max(self.mean_loss, 1e-300) if rule.normalized else 1.0

    def _adapt_intercept(
        self, xi: np.ndarray, chi: np.ndarray, unit: float, objective: float, limit: float
    ) -> bool:
        """Move the intercepts; whether a step was cut."""
        first, capped = self.parts.step_size.initial, False
        mu, lam = self._meta_and_decay("intercept_")
        for j in range(len(xi)):
            before, correlation = self.eta_b[j], xi[j] * self.v_b[j]
            eta = self._next_step(first, before, self.felt_b[j], mu, correlation / unit)  # (51)
            if xi[j] != 0:
                self.felt_b[j] = _next_felt(self.felt_b[j], correlation, objective)
            taken = min(eta, limit)
            capped = capped or taken < eta * (1 - 1e-12)
            self.b[j] -= taken * xi[j]  # (50)
            self.v_b[j] = lam * self.v_b[j] - taken * (xi[j] + chi[j])  # (52)
            self.eta_b[j] = self._remembered(first, before, eta, taken)
        return capped

    def _first_margin(self) -> float:
        margin: Any = self.parts.margin
        return float(margin.value if isinstance(margin, margins.Fixed) else margin.initial)

    def _first_margin_step(self) -> float:
        margin: Any = self.parts.margin
        if isinstance(margin, margins.Fixed):
            return 0.0
        own = {"relative": 0.3, "paper": 1.0, "linear": self.parts.step_size.initial}
        return float(own[margin.rule] if margin.step is None else margin.step)

    def _adapt_margin(self, violated: bool, weight: float) -> None:
        margin: Any = self.parts.margin
        mu, lam = self._meta_and_decay("margin_")
        if isinstance(margin, margins.Fixed):
            return
        sign = self.parts.loss.margin_direction()
        excess = sign * weight * (float(violated) - margin.nu)
        first = self._first_margin_step()
        if margin.rule == "relative":
            self.epsilon *= math.exp(min(max(first * excess, -50), 50))
        elif margin.rule == "paper":
            g = -self.epsilon * excess  # (54)
            self.eta_epsilon = self._next_step(
                first, self.eta_epsilon, 1.0, mu, g * self.v_epsilon
            )  # (57)
            self.v_epsilon = lam * self.v_epsilon - self.eta_epsilon * g * (
                1 + lam * self.v_epsilon
            )  # (58)
            self.epsilon *= math.exp(min(max(-self.eta_epsilon * g, -50), 50))  # (56)
        else:
            g = -excess
            self.eta_epsilon = self._next_step(
                first, self.eta_epsilon, 1.0, mu, g * self.v_epsilon
            )
            self.v_epsilon = lam * self.v_epsilon - self.eta_epsilon * g
            self.epsilon -= self.eta_epsilon * g
        lowest = -1e9 if margin.rule == "linear" else 1e-9
        self.epsilon = min(max(self.epsilon, lowest * margin.initial), 1e9 * margin.initial)

    def _truncate(self, norms_without_new: tuple[float, float], exact: bool) -> None:
        """Keep the budget. The new point is the last; where it replaces one, it takes its place."""
        budget = self.parts.budget
        n = len(self.points) - 1
        if isinstance(budget, budgets.LeastLoss | budgets.Independent):
            self._project(n)
        elif isinstance(budget, budgets.Merge) and n >= budget.size:
            self._merge()
        elif isinstance(budget, budgets.OldestOut) and n >= budget.size:
            self.points, self.alpha, self.beta = self.points[1:], self.alpha[1:], self.beta[1:]
        elif isinstance(budget, budgets.SmallestOut) and n >= budget.size:
            goes = int(np.argmin(np.sum(self.alpha**2, axis=1)))
            self._remove(goes)
            if goes == n:
                self.norm2, self.pi = norms_without_new
                return
        keeps_norms = isinstance(budget, budgets.LeastLoss | budgets.Independent | budgets.Merge)
        if keeps_norms or (exact and n >= budget.size):
            self._measure()

    def _remove(self, goes: int) -> None:
        """Take a point out; the last one moves to its place."""
        for array in (self.points, self.alpha, self.beta):
            array[goes] = array[-1]
        self.points, self.alpha, self.beta = self.points[:-1], self.alpha[:-1], self.beta[:-1]

    def _merge(self) -> None:
        """Make one point of the one with the smallest coefficients and its cheapest partner."""
        sizes = np.sum(self.alpha**2, axis=1)
        goes = int(np.argmin(sizes))
        kappa = self._kernel_values(self.points, self.points[goes])
        products = self.alpha @ self.alpha[goes]
        costs = []
        for j in range(len(sizes)):
            h = budgets.first_share(sizes[goes], sizes[j], products[j])
            w1, w2 = kappa[j] ** ((1 - h) ** 2), kappa[j] ** (h**2)
            kept = w1 * self.alpha[goes] + w2 * self.alpha[j]
            cost = sizes[goes] + sizes[j] + 2 * kappa[j] * products[j] - kept @ kept
            costs.append(math.inf if j == goes else cost)
        stays = int(np.argmin(costs))
        h = budgets.best_share(kappa[stays], sizes[goes], sizes[stays], products[stays])
        z = h * self.points[goes] + (1 - h) * self.points[stays]
        w1, w2 = self._kernel_values(self.points[[goes, stays]], z)
        self.alpha[stays] = w1 * self.alpha[goes] + w2 * self.alpha[stays]
        self.beta[stays] = w1 * self.beta[goes] + w2 * self.beta[stays]
        self.points[stays] = z
        self._remove(goes)

    def _project(self, n: int) -> None:
        """Replace the point whose projection on the others costs least, if one must go."""
        budget = self.parts.budget
        gram = self.kernel(self.points)
        column, k_xx = gram[:n, n], gram[n, n]
        u = np.linalg.solve(gram[:n, :n], column) if n else column
        if isinstance(budget, budgets.Independent):
            most = max(budget.tolerance, 1e-7 * k_xx)
        else:
            most = budget.tolerance * k_xx
        if k_xx - column @ u <= most:
            goes, weights = n, np.append(u, 0)
        elif budget.size is None or n < budget.size:
            return
        else:
            inverse = np.linalg.inv(gram)
            goes = int(np.argmin(np.sum(self.alpha**2, axis=1) / np.diag(inverse)))
            weights = -inverse[:, goes] / inverse[goes, goes]
            weights[goes] = 0
        self.alpha += np.outer(weights, self.alpha[goes])
        self.beta += np.outer(weights, self.beta[goes])
        self._remove(goes)


class PerceptronReference:
    """The perceptron, Ballseptron and ALMA as their papers state them, norms by their definition.

    With several outputs a row is the difference of its label's part and that of the runner-up.
    """

    def __init__(self, parts: Parts, n_features: int, n_outputs: int):
        self.parts = parts
        self.kernel = parts.kernel.resolve(n_features)
        self.points = np.zeros((0, n_features))
        self.alpha = np.zeros((0, n_outputs))
        self.n_corrections = 0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> np.ndarray:
        """Learn one row; return its scores before that."""
        update = self.parts.update
        k = self.kernel(self.points, x[None])[:, 0] if len(self.points) else np.zeros(0)
        scores = self.alpha.T @ k
        if weight == 0:
            return scores
        weight *= self.parts.loss_weight
        sign = self._signs(scores, y)
        ahead, norm = sign @ scores, math.sqrt(self._norm2())
        if isinstance(update, updates.ALMA):
            length = np.linalg.norm(sign)  # of the row, where k(x, x) = 1
            root_k = math.sqrt(self.n_corrections + 1)
            if ahead / length < (1 - update.alpha) * math.sqrt(8) / update.alpha / root_k:
                self._add(x, weight * math.sqrt(2) / root_k * sign / length)
                self.alpha /= max(1.0, math.sqrt(self._norm2()))
                self._truncate()
        elif isinstance(update, updates.Ballseptron):
            if ahead <= 0:
                self._add(x, weight * sign)
                self._truncate()
            elif ahead <= update.radius * norm:
                self.alpha *= max(0.0, 1 - weight * update.radius / norm)
                self._add(x, weight * sign)
                self._truncate()
        elif ahead <= 0:
            self._add(x, weight * sign)
            self._truncate()
        return scores

    def _signs(self, scores: np.ndarray, y: float) -> np.ndarray:
        if len(scores) == 1:
            return np.array([y])
        sign = np.eye(len(scores))[int(y)]
        rivals = np.where(sign > 0, -np.inf, scores)
        return sign - np.eye(len(scores))[int(rivals.argmax())]

    def _norm2(self) -> float:
        if not len(self.points):
            return 0.0
        return float(np.sum(self.alpha * (self.kernel(self.points) @ self.alpha)))

    def _add(self, x: np.ndarray, coefficients: np.ndarray) -> None:
        self.points = np.vstack([self.points, x])
        self.alpha = np.vstack([self.alpha, coefficients])
        self.n_corrections += 1

    def _truncate(self) -> None:
        budget = self.parts.budget
        if isinstance(budget, budgets.OldestOut) and len(self.points) > budget.size:
            self.points, self.alpha = self.points[1:], self.alpha[1:]


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

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> np.ndarray:
        """Learn one row; return its scores before that."""
        k = self.kernel(self.points, x[None])[:, 0] if len(self.points) else np.zeros(0)
        k_xx = self.kernel(x[None], x[None])[0, 0]
        scores = self.beta.T @ k
        if weight == 0:
            return scores
        budget = self.parts.budget
        K = self.kernel(self.points) if len(self.points) else np.zeros((0, 0))
        a = np.linalg.solve(K + budget.ridge * np.eye(len(K)), k) if len(K) else k  # (3.9)
        delta = k_xx - (k + budget.ridge * a) @ a  # (3.10)
        full = budget.size is not None and len(K) >= budget.size
        if delta > max(budget.tolerance, 1e-7 * k_xx) and not full:
            self.points = np.vstack([self.points, x])
            self.A = np.pad(self.A, ((0, 0), (0, 1)))
            self.beta, self.star, self.plain = (
                np.pad(v, ((0, 1), (0, 0))) for v in (self.beta, self.star, self.plain)
            )
            a = np.eye(len(self.points))[-1]
            K = self.kernel(self.points)
        target = np.array([y]) if len(scores) == 1 else np.eye(len(scores))[int(y)]
        self.A, self.y = np.vstack([self.A, a]), np.vstack([self.y, target])
        self.weights = np.append(self.weights, self.parts.loss_weight * weight)
        if self.parts.update.direction == "newton":
            self._newton(K + budget.ridge * np.eye(len(K)))
        else:
            self._gradient(K)
        return scores

    def _newton(self, K: np.ndarray) -> None:
        """The minimum of C/2 sum (y - f)^2 + c/2 ||f||^2 over the dictionary, f = A K beta."""
        c, A, W = self.parts.regularization, self.A, np.diag(self.weights)
        values = np.linalg.solve(A.T @ W @ A + c * np.linalg.inv(K), A.T @ W @ self.y)
        self.beta = np.linalg.solve(K, values)

    def _gradient(self, K: np.ndarray) -> None:
        """One step of (4.12)."""
        update, A = self.parts.update, self.A
        epsilon = self.parts.margin.value
        g = A.T @ (self.y - A @ K @ self.beta)
        for k in range(self.y.shape[1]):
            if update.step is not None:
                eta = update.step
            else:  # the best step along g, for both vectors together
                bend = g[:, k] @ K @ g[:, k]
                slope = g[:, k] @ np.linalg.solve(A.T @ A, g[:, k])
                eta = 0.5 * slope / bend if bend > 0 else 0.0
            ones = epsilon * A.sum(axis=0)
            self.star[:, k] += eta * (g[:, k] - ones)
            self.plain[:, k] -= eta * (g[:, k] + ones)
            if update.box is not None:  # (4.22)
                self.star[:, k] = np.clip(self.star[:, k], -update.box, update.box)
                self.plain[:, k] = np.clip(self.plain[:, k], -update.box, update.box)
        self.beta = self.star - self.plain
