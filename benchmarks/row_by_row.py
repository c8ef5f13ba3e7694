"""The time per row of learners of three libraries, each by the same three protocols.

    python benchmarks/row_by_row.py

"Row by row": a row is predicted, then learned, before the next one is seen. "Blocks of 10" and
"blocks of 1,000": that many rows are predicted together, then learned together, so that labels come
later and the caller has a block at hand. River's learners here take only single rows, and
scikit-learn's are called with blocks. Every learner passes over the first 2,000 rows of those
streams of the benchmark that are only reported and whose labels are not delayed (kernelstream-lab
has them). A figure is the median over the streams of the processor time per row in microseconds, on
one core, without compiling, and as a multiple of the Auto estimator's time row by row.
"""

import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from kernelstream_lab.benchmark import CONTESTANTS, STREAMS
from kernelstream_lab.benchmark.passes import by_river, by_scikit_learn

N_ROWS, N_WARM = 2_000, 1_100

LEARNERS = {
    "classify": [
        "AutoClassifier", "KernelClassifier", "logistic regression", "nearest neighbours", "ARF",
        "SRP", "SGD", "Nystroem + SGD",
    ],
    "regress": [
        "AutoRegressor", "KernelRegressor", "linear regression", "nearest neighbours", "ARF", "SRP",
        "SGD", "Nystroem + SGD",
    ],
    "novelty": ["AutoDetector", "NoveltyDetector", "LODA", "half-space trees"],
}  # fmt: skip


def by_rows(model, task, X, y):
    """Predict and learn one row at a time. Returns the seconds of processor time."""
    begin = time.process_time()
    if task == "novelty":
        model.learn_one(X[0])
        for x in X[1:]:
            model.score_one(x)
            model.learn_one(x)
    else:
        model.learn_one(X[0], y[0])
        for x, target in zip(X[1:], y[1:], strict=True):
            model.predict_one(x)
            model.learn_one(x, target)
    return time.process_time() - begin


def by_blocks(model, task, X, y, size):
    """Predict and learn blocks. Returns the seconds of processor time."""
    begin = time.process_time()
    known = {"classes": np.unique(y)} if task == "classify" else {}
    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        if start and task == "novelty":
            model.score_samples(X[rows])
        elif start:
            model.predict(X[rows])
        if task == "novelty":
            model.partial_fit(X[rows])
        else:
            model.partial_fit(X[rows], y[rows], **known)
        known = {}
    return time.process_time() - begin


def of_ours(new, task, X, y):
    """The seconds of each protocol, after a pass that compiles."""
    for follow in (by_rows, lambda *a: by_blocks(*a, 10), lambda *a: by_blocks(*a, 1000)):
        follow(new(), task, X[:N_WARM], y[:N_WARM])
    return {
        "row by row": by_rows(new(), task, X, y),
        "blocks of 10": by_blocks(new(), task, X, y, 10),
        "blocks of 1,000": by_blocks(new(), task, X, y, 1000),
    }


def microseconds(stream, name):
    """The time per row of a learner by each protocol that suits it."""
    contestant = CONTESTANTS[stream.task][name]
    X, y = (part[:N_ROWS] for part in stream.rows())
    n_classes = len(np.unique(y)) if stream.task == "classify" else 0

    def new():
        return contestant.make(n_classes)

    if contestant.library == "River":
        found = {"row by row": by_river(new(), stream.task, X, y, 1)[1]}
    elif contestant.library == "scikit-learn":
        found = {"blocks of 10": by_scikit_learn(new(), stream.task, X, y, 1)[1]}
    else:
        found = of_ours(new, stream.task, X, y)
    return {protocol: 1e6 * seconds / len(X) for protocol, seconds in found.items()}


def main():
    for task, names in LEARNERS.items():
        streams = [
            stream
            for stream in STREAMS.values()
            if (stream.task, stream.half, stream.wait) == (task, "reporting", 1)
        ]
        print(f"\n{task}: {len(streams)} streams, {N_ROWS:,} rows each\n")
        print("| learner | protocol | microseconds per row | multiple |\n|---|---|---:|---:|")
        first = None
        for name in names:
            found = [microseconds(stream, name) for stream in streams]
            if first is None:
                first = np.array([each["row by row"] for each in found])
            for protocol in found[0]:
                values = np.array([each[protocol] for each in found])
                ratio = np.median(values / first)
                print(
                    f"| {name} | {protocol} | {np.median(values):,.0f} | {ratio:.2f} |", flush=True
                )


if __name__ == "__main__":
    with warnings.catch_warnings(), threadpool_limits(1), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        main()
