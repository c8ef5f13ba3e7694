"""The pictures of the pages that explain ideas: python docs/images/ideas.py"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import kernelstream as ks

HERE = Path(__file__).parent
plt.rcParams.update({"font.size": 13, "axes.titlesize": 13})


def save(figure, name):
    figure.savefig(HERE / f"idea-{name}.png", dpi=110)
    plt.close(figure)


def rbf(x, z, gamma):
    return np.exp(-gamma * (x - z) ** 2)


def machine():
    """f is a sum of bumps, one per support vector; the budget limits their number."""
    random = np.random.default_rng(2)
    x = random.uniform(0, 6, 200)
    y = np.sin(x) + 0.1 * random.normal(size=200)
    grid = np.linspace(-0.5, 6.5, 300)
    model = ks.make("pa", "regressor", gamma=2.0, budget=ks.budgets.Merge(12), C=0.5)
    figure, axes = plt.subplots(
        1, 3, figsize=(10, 3), sharex=True, sharey=True, layout="constrained"
    )
    seen = 0
    for axis, until in zip(axes, [3, 10, 200], strict=True):
        model.partial_fit(x[seen:until, None], y[seen:until])
        seen = until
        points, coefficients = model.support_vectors_[:, 0], model.dual_coef_.ravel()
        for point, coefficient in zip(points, coefficients, strict=True):
            axis.plot(grid, coefficient * rbf(grid, point, 2.0), color="tab:orange", linewidth=0.7)
        axis.plot(grid, model.predict(grid[:, None]), color="tab:blue", linewidth=2)
        axis.plot(x[:until], y[:until], ".", color="grey", markersize=3, zorder=0)
        axis.set(title=f"{until} rows, {len(points)} support vectors", xlabel="x", ylim=(-1.6, 1.6))
    axes[0].set_ylabel("f (blue) and its terms")
    save(figure, "machine")


def descend(step, n_steps=12):
    """Gradient steps in a narrow valley, from the same start."""
    curvature, place = np.array([0.15, 1.0]), np.array([-4.0, 1.2])
    path = [place]
    for _ in range(n_steps):
        path.append(path[-1] - step * curvature * path[-1])
    return np.array(path)


def svmd():
    """What consecutive gradients say about a step size, and what SMD makes of it."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    a, b = np.meshgrid(np.linspace(-4.5, 1, 80), np.linspace(-2, 2, 80))
    axes[0].contour(a, b, 0.15 * a**2 + b**2, levels=8, colors="lightgrey", linewidths=0.8)
    for step, text in [(0.25, "too small: gradients agree"), (1.9, "too large: they alternate")]:
        axes[0].plot(*descend(step).T, marker="o", markersize=3, linewidth=1, label=text)
    axes[0].legend(loc="upper left", fontsize=10)
    axes[0].set(xticks=[], yticks=[], ylim=(-2, 2.9), title="two step sizes")

    X, y = load_digits(return_X_y=True)
    X, y = ks.streams.switch(X / 16, y, first=(0, 1), then=(2, 3), n_rows=340)
    firsts = [0.01, 0.1, 1.0]
    errors = {"constant": [], "SMD": []}
    for first in firsts:
        smd = ks.step_sizes.SMD(initial=first, meta=0.5, decay=0.95)
        for name, step_size in [("constant", first), ("SMD", smd)]:
            result = ks.prequential(ks.KernelClassifier(gamma=0.25, step_size=step_size), X, y)
            errors[name].append(100 * result.error_rate)
        axes[1].plot(result.step_sizes, label=f"first step {first:g}")
    axes[1].axvline(340, color="lightgrey", linewidth=6, zorder=0)
    axes[1].set(yscale="log", xlabel="row", title="step size of SMD, change at row 340")
    axes[1].legend(fontsize=10)
    for shift, (name, values) in zip((-0.2, 0.2), errors.items(), strict=True):
        axes[2].bar(np.arange(3) + shift, values, width=0.4, label=name)
    axes[2].set_xticks(range(3), [f"{first:g}" for first in firsts])
    axes[2].set(xlabel="first step size", title="error over the stream, %")
    axes[2].legend(fontsize=10)
    save(figure, "svmd")
    return errors


def implicit():
    """The score of the row after a step, by the step size."""
    eta = np.linspace(0, 4, 200)
    start, target = -0.5, 1.0
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    left.plot(eta, start + eta * (target - start), label="explicit")
    left.plot(eta, (start + eta * target) / (1 + eta), label="implicit")
    left.set(title="squared loss", ylabel="f(x) after the step", ylim=(-1, 4))
    right.plot(eta, start + eta, label="explicit")
    right.plot(eta, np.minimum(start + eta, target), label="implicit")
    right.set(title="hinge loss", ylim=(-1, 4))
    for axis in (left, right):
        axis.axhline(target, color="grey", linestyle=":", zorder=0)
        axis.set(xlabel="step size")
        axis.legend(loc="upper left")
    save(figure, "implicit")


def budget():
    """Two terms that must become one: three ways, and what each leaves of f."""
    grid = np.linspace(-4, 4, 400)
    points, coefficients, gamma = np.array([-0.6, 0.6]), np.array([0.6, 1.0]), 0.5
    f = sum(c * rbf(grid, p, gamma) for p, c in zip(points, coefficients, strict=True))
    overlap = rbf(points[0], points[1], gamma)
    shares = np.linspace(0, 1, 1001)
    places = shares * points[0] + (1 - shares) * points[1]
    sizes = coefficients @ np.array([rbf(places, p, gamma) for p in points])
    best = np.argmax(sizes)  # |f - size k(place, .)|^2 is least where the size is largest
    ways = [
        ("the smaller one is dropped", 1.0, points[1]),
        ("it is projected on the other", 1.0 + 0.6 * overlap, points[1]),
        ("the two are merged", sizes[best], places[best]),
    ]
    figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True, layout="constrained")
    for axis, (title, size, place) in zip(axes, ways, strict=True):
        for point, coefficient in zip(points, coefficients, strict=True):
            axis.plot(grid, coefficient * rbf(grid, point, gamma), color="lightgrey")
        axis.plot(grid, f, "k--", linewidth=1, label="f before")
        axis.plot(grid, size * rbf(grid, place, gamma), color="tab:blue", label="f after")
        axis.set(title=title, xlabel="x")
    axes[0].legend(loc="upper left", fontsize=10)
    save(figure, "budget")


def second_order():
    """All rows so far are fitted at every row, and the band is what is not known of f."""
    random = np.random.default_rng(0)
    x = random.uniform(-10, 10, 200)
    y = np.sinc(x / np.pi) + 0.1 * random.normal(size=200)
    grid = np.linspace(-11, 11, 300)[:, None]
    model = ks.make("sog-svr", "regressor", gamma=0.25, C=10.0)
    figure, axes = plt.subplots(
        1, 3, figsize=(10, 3), sharex=True, sharey=True, layout="constrained"
    )
    seen = 0
    for axis, until in zip(axes, [10, 40, 200], strict=True):
        model.partial_fit(x[seen:until, None], y[seen:until])
        seen = until
        mean, std = model.predict(grid, return_std=True)
        axis.plot(grid[:, 0], np.sinc(grid[:, 0] / np.pi), "k--", linewidth=1)
        axis.plot(grid[:, 0], mean, color="tab:blue")
        axis.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, alpha=0.2)
        axis.plot(x[:until], y[:until], ".", color="grey", markersize=3)
        axis.set(title=f"{until} rows, {model.n_support_} points", xlabel="x", ylim=(-1.2, 1.7))
    save(figure, "second-order")


if __name__ == "__main__":
    machine()
    print(svmd())
    implicit()
    budget()
    second_order()
