"""`AutoDetector`, one row at a time in plain NumPy: slow, and as its documentation says it."""

import math

import numpy as np
from scipy.stats import norm

K = 15


class Moments:
    """Running mean and standard deviation of some numbers, with weights."""

    def __init__(self):
        self.values, self.weights = [], []

    def add(self, value, weight):
        self.values.append(np.array(value, float))
        self.weights.append(weight)

    def standardised(self, value):
        if not self.values:
            return np.zeros_like(np.asarray(value, float))
        mean = np.average(self.values, axis=0, weights=self.weights)
        var = np.average((np.array(self.values) - mean) ** 2, axis=0, weights=self.weights)
        sd, away = np.sqrt(var), value - mean
        farthest = np.where(abs(away) > 1e-12 * abs(mean), np.sqrt(sum(self.weights)), 0.0)
        return np.where(sd > 1e-12, away / np.where(sd > 0, sd, 1.0), np.sign(away) * farthest)


def integer(seed, counter):
    """Splitmix64 with Python's integers."""
    mask = 2**64 - 1
    bits = (seed + counter * 0x9E3779B97F4A7C15) & mask
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & mask
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & mask
    return (bits ^ (bits >> 31)) >> 11


def uniform(seed, row):
    return integer(seed, row) / 2**53


def sketches(rows, seed):
    """What is made of long sparse rows, which are dense here."""
    n, d = rows.shape
    signs = np.zeros((d, 60))
    for j in range(d):
        for k in range(4):
            bits = integer(seed, 4 * j + k)
            signs[j, 15 * k + (bits // 2) % 15] = 0.5 if bits % 2 == 0 else -0.5
    out = np.zeros((n, 64))
    for i, x in enumerate(rows):
        size = np.sqrt((rows[: i + 1] ** 2).mean(axis=0))  # with the row itself
        a = np.round(np.arcsinh(x / np.where(size > 0, size, 1.0)) * 2.0**32) / 2.0**32
        here = x != 0
        unseen = here & ~(rows[:i] != 0).any(axis=0)
        mean_square = (a**2).sum() / max(here.sum(), 1)
        out[i, :4] = mean_square, np.abs(a).max(), here.sum(), unseen.sum()
        out[i, 4:] = a @ signs
    return out


def reaches(points):
    """The distance of every point to its K-th neighbour among the others."""
    apart = np.sqrt(((points[:, None] - points[None]) ** 2).mean(axis=2))
    np.fill_diagonal(apart, np.inf)
    k = min(K, len(points) - 1)
    return np.sort(apart, axis=1)[:, k - 1] if k else np.zeros(1)


def local(points, reach, x, power):
    apart = np.sqrt(((points - x) ** 2).mean(axis=1))
    near = np.argsort(apart, kind="stable")[:K]
    said = math.log((apart[near].mean() + 0.01) / (reach[near].mean() + 0.01) ** power)
    return said, apart[near[-1]]


def bends(scaled):
    """How much each feature of some rows is compressed."""
    away = scaled - scaled.mean(axis=0)
    second, fourth = (away**2).mean(axis=0), (away**4).mean(axis=0)
    kurtosis = fourth / np.where(second > 0, second**2, 1.0) - 3.0
    return 0.3 * np.sqrt(np.maximum(kurtosis - 1.0, 0.0)) * (len(scaled) >= 33)


def bent(z, bend):
    return np.where(bend > 0, np.arcsinh(bend * z) / np.where(bend > 0, bend, 1.0), z)


class Reference:
    def __init__(self, n_features, nu, seed, chosen, weights, sees_sketches=False):
        self.sees_sketches = sees_sketches
        self.d, self.nu, self.seed = n_features, nu, seed
        self.chosen, self.weights = chosen, weights  # of the projections
        self.full = n_features <= 64
        self.size = min(512, max(256, 16384 // n_features))
        self.rows, self.row_weights = np.zeros((0, n_features)), np.zeros(0)  # as counted
        self.reservoir = np.zeros((0, n_features))
        self.n_offered, self.renewal = 0, 1
        self.members, self.gate, self.bend = Moments(), -1.0, np.zeros(n_features)
        self.start = self.threshold = 1.2 * norm.ppf(nu)
        self.count = self.calm = 0.0

    # --- scaling ---

    def statistics(self):
        mean = np.average(self.rows, axis=0, weights=self.row_weights)
        away = self.rows - mean
        cov = (away * self.row_weights[:, None]).T @ away / self.row_weights.sum()
        sd = np.sqrt(np.diag(cov))
        sd = np.where(sd > 1e-12 * np.abs(mean), sd, 0.0)
        safe = np.where(sd > 0, sd, 1.0)
        C = np.where(np.outer(sd, sd) > 0, cov / np.outer(safe, safe), 0.0)
        np.fill_diagonal(C, 1.0)
        return mean, sd, C

    def counted(self, x):
        """What the statistics see of a row."""
        if len(self.rows) < 20:
            return x
        mean, sd, _ = self.statistics()
        return np.where(sd > 0, np.clip(x, mean - 10 * sd, mean + 10 * sd), x)

    def z(self, x):
        mean, sd, _ = self.statistics()
        limit = math.sqrt(len(self.rows))
        new = np.sign(x - mean) * limit * (np.abs(x - mean) > 1e-12 * np.abs(mean))
        z = np.where(sd > 0, (x - mean) / np.where(sd > 0, sd, 1.0), new)
        return bent(np.clip(z, -limit, limit), self.bend)

    def scale(self, x):
        mean, scale, limit = self.frozen
        return bent(np.clip((x - mean) * scale, -limit, limit), self.bend)

    def white(self, scaled):
        return scaled @ self.L.T if self.full else scaled

    def renew(self):
        n = len(self.rows)
        mean, sd, C = self.statistics()
        scale = np.where(sd > 0, 1.0 / np.where(sd > 0, sd, 1.0), 0.0)
        self.frozen = mean, scale, math.sqrt(n)
        C = C if self.full else np.eye(self.d)

        def ridged(ridge):
            return (C + ridge * np.eye(self.d)) / (1 + ridge)

        self.Ci = np.linalg.inv(ridged(0.01 + self.d / n))
        self.L = np.linalg.inv(np.linalg.cholesky(ridged(0.1 + self.d / n)))
        self.bend = np.zeros(self.d)
        self.bend = bends(self.scale(self.reservoir))
        self.scaled = self.scale(self.reservoir)
        self.whitened = self.white(self.scaled)
        self.reach, self.white_reach = reaches(self.scaled), reaches(self.whitened)
        values = self.project(self.whitened)
        self.low, self.high = values.min(axis=0), values.max(axis=0)
        self.bins = np.minimum(self.bin(self.whitened), 31)
        self.renewal = max(n + 1, int(1.2 * n))

    # --- members ---

    def project(self, rows):
        return np.stack([rows[:, c] @ w for c, w in zip(self.chosen, self.weights, strict=True)], 1)

    def bin(self, rows):
        values, width = self.project(rows), (self.high - self.low) / 32
        place = np.floor((values - self.low) / np.where(width > 0, width, 1.0))
        place = np.clip(place, 0, 31).astype(int)
        return np.where((values < self.low) | (values > self.high), 32, place)

    def say(self, x):
        z = self.z(x)
        mahalanobis = math.log(z @ self.Ci @ z / self.d + 0.1)
        z_score = math.log((x[0] if self.sees_sketches else np.mean(z**2)) + 0.1)
        scaled = self.scale(x)
        white = self.white(scaled)
        near, own = local(self.scaled, self.reach, scaled, 0.75)
        white_near, white_own = local(self.whitened, self.white_reach, white, 1.0)
        bins = self.bin(white[None])[0]
        n = len(self.reservoir)
        counts = (self.bins == bins).sum(axis=0) * (bins < 32)
        rare = -np.mean(np.log((counts + 0.5) / (n + 16)))
        said = [z_score, near, rare, mahalanobis, white_near]
        return np.array(said if self.full else said[:3]), own, white_own

    # --- learning ---

    def learn(self, x, weight=1.0):
        """The score, and the threshold, before the row was learned."""
        t, score, let_in, own = len(self.rows), 0.0, True, (0.0, 0.0)
        threshold = self.threshold
        if t:
            said, *own = self.say(x)
            standardised = self.members.standardised(said)
            trust = t / (t + 150)
            standardised[1:] *= trust
            standardised *= 2 / (1 + trust)
            score = -np.sort(standardised)[-2:].mean()
        if weight == 0.0:
            return score, threshold
        if t >= 10:
            is_low = score < self.gate
            let_in = t + 1 < 33 or not is_low or uniform(self.seed + 1, t) < 0.03
            self.gate += 0.02 * (0.2 - is_low)
            self.members.add(said, weight)
            self.move_threshold(score)
            self.count += weight
        self.rows = np.vstack([self.rows, self.counted(x)])
        self.row_weights = np.append(self.row_weights, weight)
        if let_in:
            self.offer(x, *own)
        if t + 1 == self.renewal:
            self.renew()
        return score, threshold

    def move_threshold(self, score):
        step = min(0.5, max(0.001, 0.5 / (300 + self.count)) / self.nu)
        alarm = score < self.threshold
        self.calm = 0 if alarm else self.calm + 1
        move, missed = step * (self.nu - alarm), self.nu * self.calm
        if missed > 4.0:
            move = max(move, min((missed / 4.0) ** 2 * move, self.start / 2 - self.threshold))
        self.threshold += move

    def offer(self, x, own, white_own):
        self.n_offered += 1
        slot = len(self.reservoir)
        if slot == self.size:
            slot = int(uniform(self.seed, len(self.rows) - 1) * self.n_offered)
            if slot >= self.size:
                return
        elif slot:
            self.bins = np.vstack([self.bins, self.bins[:1]])
            self.scaled, self.whitened = (
                np.vstack([rows, rows[:1]]) for rows in (self.scaled, self.whitened)
            )
            self.reach, self.white_reach = (
                np.append(reach, 0.0) for reach in (self.reach, self.white_reach)
            )
        if slot == len(self.reservoir):
            self.reservoir = np.vstack([self.reservoir, x])
            if not slot:
                return  # the renewal that follows does the rest
        self.reservoir[slot], self.scaled[slot] = x, self.scale(x)
        self.whitened[slot] = self.white(self.scaled[slot])
        self.bins[slot] = self.bin(self.whitened[slot][None])[0]
        self.reach[slot], self.white_reach[slot] = own, white_own
