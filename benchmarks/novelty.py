"""AutoDetector beside a running z-score and NoveltyDetector: the tables of docs/untuned.md.

    python benchmarks/novelty.py

Every stream has a few anomalies among its rows, none among the first hundred (or the first third
of a short stream). Each row is scored before it is learned. The area under the ROC curve leaves
those first rows out.
"""

import time

import numpy as np
from sklearn import datasets
from sklearn.metrics import roc_auc_score

import kernelstream as ks

MEMBERS = ["z-score", "local", "projections", "Mahalanobis", "local, whitened"]


def first_odd(n_rows):
    """Before which row there are no anomalies."""
    return min(100, n_rows // 3)


def scattered(normal, odd, seed, share=0.03):
    """The normal rows in random order, and a share of odd ones among them."""
    random = np.random.default_rng(seed)
    normal = normal[random.permutation(len(normal))]
    odd = odd[random.permutation(len(odd))[: max(10, int(share * len(normal)))]]
    is_odd = np.zeros(len(normal) + len(odd), bool)
    places = np.arange(first_odd(len(is_odd)), len(is_odd))
    is_odd[random.choice(places, len(odd), replace=False)] = True
    X = np.empty((len(is_odd), normal.shape[1]))
    X[is_odd], X[~is_odd] = odd, normal
    return X, is_odd


def permuted(random, X):
    """Every column in an order of its own: nothing is unusual but what goes together."""
    return np.column_stack([random.permutation(column) for column in X.T])


# --- for choosing ---------------------------------------------------------------------------------


def shift(seed=1, n=4000, d=10):
    """One feature is off by five standard deviations; every feature has its own unit."""
    random = np.random.default_rng(seed)
    units, odd = 10.0 ** random.integers(-3, 4, d), random.normal(size=(n // 20, d))
    odd[np.arange(len(odd)), random.integers(0, d, len(odd))] += 5 * random.choice(
        [-1, 1], len(odd)
    )
    return scattered(random.normal(size=(n, d)) * units, odd * units, seed)


def correlation(seed=2, n=4000, d=8):
    """Features that no longer go together."""
    random = np.random.default_rng(seed)
    factors = random.normal(size=(3, d))
    X = random.normal(size=(n + n // 20, 3)) @ factors + 0.3 * random.normal(size=(n + n // 20, d))
    return scattered(X[:n], permuted(random, X[n:]), seed)


def between(seed=3, n=4000, d=4):
    """Half way between two of five clusters."""
    random = np.random.default_rng(seed)
    centres, (i, j) = 5 * random.normal(size=(5, d)), random.integers(0, 5, (2, n // 10))
    odd = (0.5 * (centres[i] + centres[j]))[i != j]
    normal = centres[random.integers(0, 5, n)] + 0.5 * random.normal(size=(n, d))
    return scattered(normal, odd + 0.5 * random.normal(size=odd.shape), seed)


def scale(seed=4, n=4000, d=12):
    """Twice the spread."""
    random = np.random.default_rng(seed)
    return scattered(random.normal(size=(n, d)), 2 * random.normal(size=(n // 20, d)), seed)


def heavy(seed=5, n=4000, d=6):
    """Log-normal features; one too large and another too small."""
    random = np.random.default_rng(seed)
    factor = np.linalg.cholesky(0.5 * np.eye(d) + 0.5)
    odd = random.normal(size=(n // 20, d)) @ factor.T
    odd[:, :2] += 3 * np.array([1, -1])
    return scattered(np.exp(random.normal(size=(n, d)) @ factor.T), np.exp(odd), seed)


def ring(seed=6, n=4000, d=5):
    """Inside a ring."""
    random = np.random.default_rng(seed)

    def around(n, radius):
        angle, X = random.uniform(0, 2 * np.pi, n), 0.3 * random.normal(size=(n, d))
        X[:, :2] += radius * np.column_stack([np.cos(angle), np.sin(angle)])
        return X

    return scattered(around(n, 3.0), around(n // 20, 1.0), seed)


def spikes(seed=11):
    """`correlation`, with one row in a hundred multiplied by a million, which does not count."""
    X, is_odd = correlation(seed)
    random = np.random.default_rng(seed)
    X[(random.uniform(size=len(X)) < 0.01) & ~is_odd] *= 1e6
    return X, is_odd


def drift(seed=12, n=4000, d=6):
    """Another mean and other correlations in the second half."""
    random = np.random.default_rng(seed)
    halves = [
        random.normal(size=(n // 2, 3)) @ random.normal(size=(3, d)) + 4 * k * random.normal(size=d)
        for k in range(2)
    ]
    X = np.vstack(halves) + 0.3 * random.normal(size=(n, d))
    is_odd = np.zeros(n, bool)
    is_odd[random.choice(np.arange(100, n), 120, replace=False)] = True
    X[is_odd] += 2 * random.normal(size=(120, d))
    return X, is_odd


def digits(normal, odd, seed, share):
    X, y = datasets.load_digits(return_X_y=True)
    return scattered(X[np.isin(y, normal)], X[np.isin(y, odd)], seed, share)


def others(digit):
    return [k for k in range(10) if k != digit]


def cancer():
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return scattered(X[y == 1], X[y == 0], 9, 0.1)


def wine():
    X, y = datasets.load_wine(return_X_y=True)
    return scattered(X[y != 2], X[y == 2], 10, 0.1)


CHOOSING = {
    "shift of one feature": shift,
    "broken correlation": correlation,
    "between clusters": between,
    "larger spread": scale,
    "heavy tails": heavy,
    "inside a ring": ring,
    "broken correlation, outliers of 1e6": spikes,
    "drift": drift,
    "digits: 8 among the others": lambda: digits(others(8), [8], 7, 0.05),
    "digits: others among 3": lambda: digits([3], others(3), 8, 0.1),
    "breast cancer: malignant": cancer,
    "wine: the third kind": wine,
}

# --- for reporting --------------------------------------------------------------------------------


def sensor(seed=21, n=5000, d=30):
    """One of thirty correlated features is off."""
    random = np.random.default_rng(seed)
    normal = random.normal(size=(n, 5)) @ random.normal(size=(5, d)) + 0.5 * random.normal(
        size=(n, d)
    )
    odd, feature = normal[random.permutation(n)[:250]], random.integers(0, d, 250)
    odd[np.arange(250), feature] = normal[random.permutation(n)[:250], feature] + 3 * random.choice(
        [-1, 1], 250
    )
    return scattered(normal, odd, seed)


def moons(seed=23, n=4000):
    X, _ = datasets.make_moons(n, noise=0.08, random_state=seed)
    odd = np.random.default_rng(seed).uniform([-1.5, -1.0], [2.5, 1.5], size=(400, 2))
    return scattered(X * np.array([1, 1000.0]), odd * np.array([1, 1000.0]), seed)


def swiss_roll(seed=24, n=4000):
    X, _ = datasets.make_swiss_roll(n, noise=0.3, random_state=seed)
    return scattered(X, permuted(np.random.default_rng(seed), X[:300]), seed)


def student(seed=25, n=4000, d=8):
    """A dense clump at some distance, among rows with very heavy tails."""
    random = np.random.default_rng(seed)
    return scattered(
        random.standard_t(2, size=(n, d)), 3.0 + 0.2 * random.normal(size=(200, d)), seed
    )


def binary(seed=26, n=4000, d=12):
    """Coin tosses among three kinds of binary rows."""
    random = np.random.default_rng(seed)
    chance = random.uniform(0.05, 0.95, (3, d))[random.integers(0, 3, n)]
    normal = (random.uniform(size=(n, d)) < chance).astype(float)
    return scattered(normal, random.integers(0, 2, size=(200, d)).astype(float), seed)


def gamma(seed=30, n=4000):
    """Three ratios that no longer hold between skewed features."""
    random = np.random.default_rng(seed)
    normal = random.gamma(2, size=(n, 3))
    normal = np.hstack([normal, normal * random.lognormal(0, 0.2, size=(n, 3))])
    return scattered(normal, random.gamma(2, size=(200, 6)), seed)


def iris():
    X, y = datasets.load_iris(return_X_y=True)
    return scattered(X[y != 2], X[y == 2], 22, 0.15)


def diabetes():
    X, _ = datasets.load_diabetes(return_X_y=True)
    return scattered(X, permuted(np.random.default_rng(29), X), 29, 0.1)


REPORTING = {
    "one sensor of thirty": sensor,
    "two moons, uniform noise": moons,
    "swiss roll, columns permuted": swiss_roll,
    "a clump in heavy tails": student,
    "binary rows": binary,
    "ratios of skewed features": gamma,
    "digits: others among 7": lambda: digits([7], others(7), 27, 0.1),
    "digits: 1 among the others": lambda: digits(others(1), [1], 28, 0.05),
    "iris: virginica": iris,
    "diabetes, columns permuted": diabetes,
}

# --- what is compared -----------------------------------------------------------------------------


def running_z_score(X):
    """The mean squared z-score of each row, by the rows before it."""
    scores, mean, square = np.zeros(len(X)), np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for i, x in enumerate(X):
        sd = np.sqrt(square / max(i, 1))
        known = sd > 1e-12 * np.abs(mean)
        scores[i] = np.mean(((x - mean)[known] / sd[known]) ** 2) if known.any() else 0.0
        away = x - mean
        mean += away / (i + 1)
        square += away * (x - mean)
    return scores


def standardised(said):
    """What members say by the mean and deviation of what they said before; high means new."""
    n = np.arange(1, len(said) + 1)[:, None]
    mean = np.cumsum(said, axis=0) / n
    sd = np.sqrt(np.maximum(np.cumsum(said**2, axis=0) / n - mean**2, 1e-20))
    z = np.zeros_like(said)
    z[1:] = (mean[:-1] - said[1:]) / sd[:-1]
    trust = n / (n + 150.0)  # in members that need many rows
    z[:, 1:] *= trust
    return z * 2.0 / (1.0 + trust)


def mixed(z, n_highest=2):
    """What `AutoDetector` makes of what some members say."""
    return np.sort(z, axis=1)[:, -n_highest:].mean(axis=1)


def compared(X, is_odd):
    """The area under the curve by name, and microseconds per row."""

    def area(scores):
        first = first_odd(len(is_odd))
        return roc_auc_score(is_odd[first:], scores[first - len(is_odd) :])

    model = ks.AutoDetector().partial_fit(X[:1])  # and compiled
    start = time.process_time()
    found = model.machine_.scan(X[1:], np.ones(len(X) - 1), learns=True)
    microseconds = 1e6 * (time.process_time() - start) / len(X)
    z, detector = standardised(found.said), ks.NoveltyDetector(scaling="running")
    areas = {
        "z-score": area(running_z_score(X)),
        "NoveltyDetector": area(-ks.prequential(detector, X).scores),
        "AutoDetector": area(-found.scores[:, 0]),
        "the highest alone": area(mixed(z, 1)),
        "the mean of all": area(mixed(z, z.shape[1])),
    }
    for e, name in enumerate(MEMBERS):
        areas[f"without {name}"] = area(mixed(np.delete(z, e, axis=1)))
        areas[f"{name} alone"] = area(-found.said[:, e])
    return areas, microseconds


def main():
    means = {}
    for title, streams in {"choosing": CHOOSING, "reporting": REPORTING}.items():
        print(
            f"\n| {title} | rows, features | z-score | NoveltyDetector | AutoDetector | us a row |"
        )
        print("|---|---|---|---|---|---|")
        rows = []
        for name, stream in streams.items():
            X, is_odd = stream()
            areas, microseconds = compared(X, is_odd)
            rows.append(areas)
            shown = " | ".join(f"{value:.3f}" for value in list(areas.values())[:3])
            print(f"| {name} | {X.shape[0]:,}, {X.shape[1]} | {shown} | {microseconds:.0f} |")
        means[title] = {k: np.mean([row[k] for row in rows]) for k in rows[0]}
    print("\n| mean | choosing | reporting |\n|---|---|---|")
    for name, value in means["choosing"].items():
        print(f"| {name} | {value:.4f} | {means['reporting'][name]:.4f} |")


if __name__ == "__main__":
    main()
