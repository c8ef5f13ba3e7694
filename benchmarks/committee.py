"""What each member of a committee is worth, how its weight moves, and what probabilities are worth.

    python benchmarks/committee.py classify             # the table: each member left out
    python benchmarks/committee.py regress
    python benchmarks/committee.py classify --streams units,led --pictures docs/images
    python benchmarks/committee.py classify --budgets 64,128,256,512,1024   # time, memory and error

Streams are those of `kernelstream benchmark` for choosing. Every member learns a stream once; what
it said of each row is then mixed without one of the members after the other.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import clone

import kernelstream as ks
from kernelstream_lab.benchmark import STREAMS
from kernelstream_lab.benchmark.passes import by_baseline

WARM_UP = 1100  # rows, after which all is compiled
COMMITTEES = {"classify": ks.AutoClassifier, "regress": ks.AutoRegressor}
DRIFTS = "led", "features change their places at rows 1,667 and 3,333"


def what_members_say(task, X, y):
    """The scores of each member before each row, times its factor, and microseconds per row."""
    said, times = {}, {}
    for member in COMMITTEES[task]().chosen(X.shape[1], False):
        ks.prequential(clone(member.model), X[:WARM_UP], y[:WARM_UP])
        begin = time.process_time()
        scores = ks.prequential(clone(member.model), X, y).scores
        times[member.name] = 1e6 * (time.process_time() - begin) / len(y)
        said[member.name] = member.factor * np.asarray(scores, float).reshape(len(y), -1)
    return said, times


def error_of(task, said, y):
    """The error of the committee of members that said this."""
    mixing = COMMITTEES[task].default_mixing
    scores = np.stack(list(said.values()))
    if task == "regress":
        mixed = mixing.learn(mixing.new_state(len(said), 1), scores, y, np.ones(len(y)))[0][:, 0]
        mean, _ = by_baseline("mean", task, y, y, 1)
        return np.sqrt(np.mean((mixed - y)[1:] ** 2) / np.mean((mean - y)[1:] ** 2))
    labels = np.unique(y, return_inverse=True)[1]
    is_single = scores.shape[2] == 1
    target = 2.0 * labels - 1.0 if is_single else labels.astype(float)
    state = mixing.new_state(len(said), scores.shape[2])
    mixed = mixing.learn(state, scores, target, np.ones(len(y)))[0]
    found = mixed[:, 0] > 0.0 if is_single else mixed.argmax(axis=1)
    return np.mean(found != labels)


def table(task, streams):
    """A line for the committee, and one without each member: the error on each stream."""
    errors, times = {}, {}
    for stream in streams:
        X, y = stream.rows()
        said, taken = what_members_say(task, X, y)
        errors.setdefault("all", []).append(error_of(task, said, y))
        for name in said:
            rest = {other: scores for other, scores in said.items() if other != name}
            errors.setdefault(name, []).append(error_of(task, rest, y))
            times.setdefault(name, []).append(taken[name])
    shown = "{:.1%}" if task == "classify" else "{:.3f}"
    mean = "{:.2%}" if task == "classify" else "{:.4f}"
    print(f"| without | {' | '.join(s.name for s in streams)} | mean | us per row |")
    print("|---|" + "---|" * (len(streams) + 2))
    for name, found in errors.items():
        cells = [*(shown.format(error) for error in found), mean.format(np.mean(found))]
        cost = f"{np.median(times[name]):.0f}" if name in times else ""
        print(f"| {'(none)' if name == 'all' else f'`{name}`'} | {' | '.join(cells)} | {cost} |")


def table_of_budgets(task, streams, budgets):
    """A line for every budget: the mean error, the time per row and the size of the file."""
    print("| budget | mean error | us per row | file, MB |\n|---|---|---|---|")
    for budget in budgets:
        errors, times, sizes = [], [], []
        for stream in streams:
            X, y = stream.rows()
            ks.prequential(COMMITTEES[task](budget=budget), X[:WARM_UP], y[:WARM_UP])
            model, begin = COMMITTEES[task](budget=budget), time.process_time()
            found = ks.prequential(model, X, y).predictions
            times.append(1e6 * (time.process_time() - begin) / len(y))
            sizes.append(len(model.to_bytes()) / 1e6)
            if task == "regress":
                mean, _ = by_baseline("mean", task, y, y, 1)
                errors.append(np.sqrt(np.mean((found - y)[1:] ** 2) / np.mean((mean - y)[1:] ** 2)))
            else:
                errors.append(np.mean(found != y))
        error = f"{np.mean(errors):.2%}" if task == "classify" else f"{np.mean(errors):.4f}"
        print(f"| {budget} | {error} | {np.median(times):.0f} | {np.median(sizes):.1f} |")


def draw(streams, folder):
    """Two pictures: probabilities beside frequencies, and weights over the rows of a drift."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from kernelstream.drawing import BLUE, GREY, tidy

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    left.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--")
    sums = np.zeros((3, 10))
    for stream in streams:
        X, y = stream.rows()
        result = ks.prequential(ks.AutoClassifier(), X, y)
        p = expit(np.abs(result.scores)) if result.scores.ndim == 1 else softmax(result.scores, 1)
        p = p if p.ndim == 1 else p.max(axis=1)
        bins = np.minimum((10 * p).astype(int), 9)
        for line, values in zip(sums, (np.ones(len(p)), p, result.predictions == y), strict=True):
            line += np.bincount(bins, values, 10)
    n, told, true = sums[:, sums[0] >= 50]
    left.plot(told / n, true / n, "o-", color=BLUE)
    left.set(xlabel="probability of the predicted label", ylabel="how often it was right")
    left.set_title(f"{len(streams)} streams, {int(n.sum()):,} rows", fontsize=10)
    X, y = STREAMS[DRIFTS[0]].rows()
    model, rows, weights = ks.AutoClassifier(), [], []
    for start in range(0, len(y), 50):
        model.partial_fit(X[start : start + 50], y[start : start + 50], classes=np.unique(y))
        rows.append(model.n_seen_)
        weights.append(list(model.weights_.values()))
    for name, line in zip(model.weights_, np.transpose(weights), strict=True):
        right.plot(rows, line, lw=1.4, label=name)
    right.set(xlabel="rows", ylabel="weight", title="")
    right.set_title(f"{DRIFTS[0]}: {DRIFTS[1]}", fontsize=10)
    right.legend(frameon=False, fontsize=8, ncols=3)
    tidy(left, right)
    figure.savefig(folder / "committee.png", dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=list(COMMITTEES))
    parser.add_argument("--streams", help="some of those for choosing, separated by commas")
    parser.add_argument("--pictures", type=Path, help="draw instead, into this folder")
    parser.add_argument("--budgets", help="compare these instead, separated by commas")
    options = parser.parse_args()
    wanted = options.streams.split(",") if options.streams else list(STREAMS)
    streams = [
        stream
        for stream in STREAMS.values()
        if stream.task == options.task and stream.half == "choosing" and stream.name in wanted
    ]
    if options.budgets is not None:
        table_of_budgets(options.task, streams, map(int, options.budgets.split(",")))
    elif options.pictures is None:
        table(options.task, streams)
    else:
        draw(streams, options.pictures)


if __name__ == "__main__":
    main()
