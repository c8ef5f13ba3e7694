"""The specification: SVMD and NORMA one row at a time, in plain NumPy, beside the paper.

Slow and obvious. It shares the loss formulas and the kernels with the fast path and nothing else:
no tiles, no scaled coefficients, no rules. Numbers are equations of the SVMD paper (JMLR 2006), and
the comments (a)-(e) are the steps of its algorithm 2.
"""

import copy
import math
from typing import Any

import numpy as np

from kernelstream.budgets.merging import best_share, cost_of_merging
from kernelstream.learner.machine import Parts
from kernelstream.parts import SLACK, named
from kernelstream.updates.explicit import LARGEST_DECAY

__all__ = ["ActiveReference", "DictionaryReference", "PerceptronReference", "Reference"]


def is_named(part: Any, *names: str) -> bool:
    """Whether a part is one of those whose specification is written here."""
    return any(named(name) is type(part) for name in names)


def _next_felt(felt: float, correlation: float, objective: float) -> float:
    """The running mean of |<g, v>| over the objective; no row counts more than 0.1."""
    return felt + (min(abs(correlation) / max(objective, 1e-300), 0.1) - felt) / 20


class Reference:
    """A learner whose every quantity is an attribute with the paper's name."""

    _PER_POINT = ("points", "alpha", "beta", "summed", "born", "since", "touched")

    def __init__(self, parts: Parts, n_features: int, n_outputs: int):
        self.parts = parts
        self.kernel = parts.kernel.resolve(n_features)
        self.c = parts.regularization
        self.points = np.zeros((0, n_features))
        self.alpha = np.zeros((0, n_outputs))  # f = sum_i alpha_i k(x_i, .)
        self.beta = np.zeros((0, n_outputs))  # v = sum_i beta_i k(x_i, .)
        self.summed = np.zeros((0, n_outputs))  # alpha, summed over the models after each row
        self.summed_b = np.zeros(n_outputs)
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
        self.born = np.zeros(0)  # t of every point
        self.lost = 0.0  # NORMA, proposition 1: what was dropped amounts to this at most
        self.n_competitions = 0  # rows that wanted a place in a full budget
        self.since = np.zeros(0)  # how many there had been when each point came
        self.touched = np.zeros(0)  # and when something was last merged with it

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> np.ndarray:
        """Learn one row; return its scores before that."""
        smd = self.parts.step_size.to_rule().is_traced()
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
        implicit = is_named(self.parts.update, "Implicit")
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
        equal_norms = self.parts.kernel.has_unit_diagonal
        exact = smd and self.c > 0 and self.parts.budget.keeps_gram(lam, equal_norms)
        self.lost *= keep
        if new[0].any() or (smd and new[1].any()):
            self.points = np.vstack([self.points, x])
            self.born, self.since = np.append(self.born, self.t), np.append(self.since, 0)
            self.touched = np.append(self.touched, 0)
            self.alpha = np.vstack([self.alpha, new[0]])
            self.beta = np.vstack([self.beta, new[1] if smd else 0 * xi])
            self.summed = np.vstack([self.summed, 0 * xi])
            self._expire(1, exact)
            self._truncate(without_new, exact)
        else:
            self._expire(0, exact)
        self.summed += self.alpha
        self.summed_b += self.b
        self.t += 1
        return scores

    def average(self, X: np.ndarray) -> np.ndarray:
        """The scores of rows by the average of the models after each row (ILK, section 3.2).

        A point that goes takes its share away, or hands it on by the rule by which it hands on its
        coefficients.
        """
        return (self.kernel(X, self.points) @ self.summed + self.summed_b) / self.t

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
        traced = self.parts.step_size.to_rule().is_traced() and step > 0
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
        if not is_named(rule, "SMD"):
            return 0.0, 0.0
        own = getattr(rule, whose + "meta"), getattr(rule, whose + "decay")
        shared = rule.meta, rule.decay
        mu, lam = (s if o is None else o for o, s in zip(own, shared, strict=True))
        return mu, lam

    def _next_step(
        self, first: float, eta: float, felt: float, mu: float, correlation: float
    ) -> float:
        rule = self.parts.step_size
        if is_named(rule, "Constant"):
            return first
        if is_named(rule, "SqrtDecay"):
            return first * math.sqrt(rule.tau / (rule.tau + self.t))  # (59)
        if is_named(rule, "InverseDecay"):
            return first * rule.tau / (rule.tau + self.t)
        if not is_named(rule, "SMD"):  # which has no specification but its own rule
            return rule.to_rule().next_step(first, eta, felt, self.t, correlation)
        asleep = mu > 0 and felt < 0.01 and eta < rule.wake_below * first
        eta *= max(0.5, 1 - mu * correlation) * (1.03 if asleep else 1)
        return min(max(eta, rule.lowest * first), rule.highest * first)

    def _adapt_step(self, correlation: float, rho: float, k_xx: float) -> tuple[float, bool]:
        """The step that is taken, and whether it was cut; what is remembered is self.eta."""
        first, update = self.parts.step_size.initial, self.parts.update
        mu, _ = self._meta_and_decay("")
        wanted = eta = self._next_step(first, self.eta, self.felt, mu, correlation)  # (33)
        if is_named(update, "Explicit") and update.capped:
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
        if not is_named(rule, "SMD"):
            return eta
        return min(eta, max(taken, before / 2, rule.lowest * first))

    def _unit(self, loss: float) -> float:
        rule = self.parts.step_size
        if not is_named(rule, "SMD"):
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
        return float(margin.value if is_named(margin, "Fixed") else margin.initial)

    def _first_margin_step(self) -> float:
        margin: Any = self.parts.margin
        if is_named(margin, "Fixed"):
            return 0.0
        own = {"relative": 0.3, "paper": 1.0, "linear": self.parts.step_size.initial}
        return float(own[margin.rule] if margin.step is None else margin.step)

    def _adapt_margin(self, violated: bool, weight: float) -> None:
        margin: Any = self.parts.margin
        mu, lam = self._meta_and_decay("margin_")
        if is_named(margin, "Fixed"):
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
            self.eta_epsilon = self._next_step(first, self.eta_epsilon, 1.0, mu, g * self.v_epsilon)
            self.v_epsilon = lam * self.v_epsilon - self.eta_epsilon * g
            self.epsilon -= self.eta_epsilon * g
        lowest = -1e9 if margin.rule == "linear" else 1e-9
        self.epsilon = min(max(self.epsilon, lowest * margin.initial), 1e9 * margin.initial)

    def _truncate(self, norms_without_new: tuple[float, float], exact: bool) -> None:
        """Keep the budget. The new point is the last; where it replaces one, it takes its place."""
        budget = self.parts.budget
        n = len(self.points) - 1
        places = budget.first_limit()
        if is_named(budget, "Merge"):  # may grow by K places for every 24 rows that found none
            grown = self.n_competitions * self.alpha.shape[1] // 24
            places = min(budget.limit(), max(places, grown))
        if budget.fades() and n >= places:
            self.n_competitions += 1
        self.since[-1] = self.touched[-1] = self.n_competitions
        if is_named(budget, "LeastLoss", "Independent"):
            self._project(n)
        elif is_named(budget, "Merge") and n >= places:
            self._merge()
        elif is_named(budget, "OldestOut") and n >= places:
            self._drop_oldest()
        elif is_named(budget, "SmallestOut") and n >= places:
            sizes = np.sum(self.alpha**2, axis=1)
            if budget.half_life is not None:
                sizes = sizes * self._fading(budget.half_life) ** 2
            goes = int(np.argmin(sizes))
            self._remove(goes)
            if goes == n:
                self.norm2, self.pi = norms_without_new
                return
        keeps_norms = is_named(budget, "LeastLoss", "Independent", "Merge")
        if keeps_norms or (exact and n >= budget.size):
            self._measure()

    def _remove(self, goes: int) -> None:
        """Take a point out; the last one moves to its place."""
        for name in self._PER_POINT:
            array = getattr(self, name)
            array[goes] = array[-1]
        self._keep(slice(None, -1))

    def _keep(self, points: slice) -> None:
        """Only these points stay."""
        for name in self._PER_POINT:
            setattr(self, name, getattr(self, name)[points])

    def _drop_oldest(self) -> None:
        self.lost += self._term()
        self._keep(slice(1, None))

    def _term(self) -> float:
        """The norm of the oldest point's part of f."""
        k = self._kernel_values(self.points[:1], self.points[0])[0]
        return float(np.linalg.norm(self.alpha[0]) * math.sqrt(k))

    def _expire(self, n_new: int, exact: bool) -> None:
        """Drop points that are too old, or that with all that were dropped amount to little.

        The last `n_new` have just come.
        """
        budget = self.parts.budget
        if not budget.expires:
            return
        while len(self.points) > n_new:
            too_old = budget.max_age is not None and self.t - self.born[0] > budget.max_age
            error = math.inf if budget.max_error is None else self.lost + self._term()
            if not (too_old or error <= (budget.max_error or 0.0)):
                return
            self._drop_oldest()
            if exact:
                self._measure()

    def _fading(self, half_life: int) -> np.ndarray:
        """What is left of every point's coefficients in the competition for its place."""
        count = (self.n_competitions - self.since) / half_life
        if is_named(self.parts.budget, "Merge"):  # an idle point fades eight times as fast
            count = count + 8 * (self.n_competitions - self.touched) / half_life
        return 0.5 ** np.floor(count)

    def _merge(self) -> None:
        """Make one point of the one with the smallest coefficients and its cheapest partner."""
        sizes = np.sum(self.alpha**2, axis=1)
        fade = self._fading(self.parts.budget.to_rule().half_life)
        goes = int(np.argmin(sizes * fade**2))
        kappa = self._kernel_values(self.points, self.points[goes])
        size, products = sizes[goes] * fade[goes] ** 2, self.alpha @ self.alpha[goes] * fade[goes]
        costs = [
            cost_of_merging(kappa[j], size, sizes[j], products[j])
            if j != goes and kappa[j] >= 1e-9
            else math.inf
            for j in range(len(sizes))
        ]
        stays = int(np.argmin(costs))
        if not np.isfinite(costs[stays]):
            self._remove(goes)
            return
        h = best_share(kappa[stays], size, sizes[stays], products[stays])
        share = math.sqrt(size) / (math.sqrt(size) + math.sqrt(sizes[stays]))
        self.touched[stays] = self.n_competitions
        self.since[stays] = share * self.since[goes] + (1 - share) * self.since[stays]
        z = h * self.points[goes] + (1 - h) * self.points[stays]
        w1, w2 = self._kernel_values(self.points[[goes, stays]], z)
        self.alpha[stays] = w1 * self.alpha[goes] + w2 * self.alpha[stays]
        self.beta[stays] = w1 * self.beta[goes] + w2 * self.beta[stays]
        self.summed[stays] = w1 * self.summed[goes] + w2 * self.summed[stays]
        self.points[stays] = z
        self._remove(goes)

    def _project(self, n: int) -> None:
        """Replace the point whose projection on the others costs least, if one must go."""
        budget = self.parts.budget
        gram = self.kernel(self.points)
        column, k_xx = gram[:n, n], gram[n, n]
        u = np.linalg.solve(gram[:n, :n], column) if n else column
        if is_named(budget, "Independent"):
            most, share = max(budget.tolerance, 1e-7 * k_xx), 1e-7
        else:
            most, share = budget.tolerance * k_xx, budget.tolerance
        if k_xx - column @ u <= most:
            goes, weights = n, np.append(u, 0)
        else:
            inverse = np.linalg.inv(gram)
            squared_distance = 1 / np.diag(inverse)  # of each point from the span of the others
            costs = np.sum(self.alpha**2, axis=1) * squared_distance
            close = squared_distance <= share * np.diag(gram)
            close[n] = False  # which has been asked already
            if not close.any() and (budget.size is None or n < budget.size):
                return
            if close.any():
                costs[:n][~close[:n]] = math.inf
            goes = int(np.argmin(costs))
            weights = -inverse[:, goes] / inverse[goes, goes]
            weights[goes] = 0
        self.alpha += np.outer(weights, self.alpha[goes])
        self.beta += np.outer(weights, self.beta[goes])
        self.summed += np.outer(weights, self.summed[goes])
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
        if is_named(update, "ALMA"):
            length = np.linalg.norm(sign)  # of the row, where k(x, x) = 1
            root_k = math.sqrt(self.n_corrections + 1)
            if ahead / length < (1 - update.alpha) * math.sqrt(8) / update.alpha / root_k:
                self._add(x, weight * math.sqrt(2) / root_k * sign / length)
                self.alpha /= max(1.0, math.sqrt(self._norm2()))
                self._truncate()
        elif is_named(update, "Ballseptron"):
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
        if is_named(budget, "OldestOut") and len(self.points) > budget.size:
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
