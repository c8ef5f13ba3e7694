"""The specification: SVMD and NORMA one row at a time, in plain NumPy, beside the paper.

Slow and obvious. It shares the loss formulas and the kernels with the fast path and nothing else:
no tiles, no scaled coefficients, no rules. Numbers are equations of the SVMD paper (JMLR 2006), and
the comments (a)-(e) are the steps of its algorithm 2.
"""

import math
from typing import Any

import numpy as np

from kernelstream.budgets.merging import best_share, cost_of_merging
from kernelstream.learner.machine import Parts
from kernelstream.updates.explicit import LARGEST_DECAY
from tests.reference.parts import is_named

__all__ = ["Reference"]


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
        """Return the scores of rows by the average of the models after each row (ILK, section 3.2).

        A point that goes hands its share on by the rule by which it hands on its coefficients; one
        that is dropped takes it away. So estimators accept only budgets that project or merge.
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
