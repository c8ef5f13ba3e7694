"""One pass over the 60,000 digits of MNIST: errors, support vectors and processor time.

    python benchmarks/mnist.py

Each digit is predicted before it is learned, and 10,000 new digits are predicted after the pass.
Rows have unit length. The polynomial kernel of degree 9 is that of the SVMD paper; points can be
merged with the RBF kernel only. Needs MNIST: see docs/datasets.md. Times are those of the pass on
one core, after a pass over a few rows has compiled what is new.
"""

import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import kernelstream as ks
from kernelstream.budgets import LeastLoss, Merge, OldestOut, Unbounded
from kernelstream_lab.experiments.curves import unit_rows

DEGREE_9 = ks.kernels.Polynomial(degree=9, gamma=1.0)
RBF = ks.kernels.RBF(gamma=2.0)
LEARNERS = [
    ("pa", DEGREE_9, Unbounded()),
    ("svmd", DEGREE_9, Unbounded()),
    ("svmd", DEGREE_9, OldestOut(4096)),
    ("svmd", DEGREE_9, LeastLoss(1024)),
    ("pa", DEGREE_9, LeastLoss(1024)),
    ("pa", RBF, Merge(1024)),
]


def one_pass(preset, kernel, budget, X, y):
    """The model after the pass, its errors during the pass, and how long it took."""
    for n_rows in (600, len(X)):
        model = ks.make(preset, "classifier", kernel=kernel, budget=budget)
        begin = time.process_time()
        result = ks.prequential(model, X[:n_rows], y[:n_rows])
    return model, result.error_rate, time.process_time() - begin


if __name__ == "__main__":
    data = ks.datasets.load("mnist")
    X, X_new = unit_rows(data.X_train), unit_rows(data.X_test)
    print("| learner | error in the pass | on new digits | support vectors | seconds |")
    print("|---|---|---|---|---|")
    for preset, kernel, budget in LEARNERS:
        model, error, seconds = one_pass(preset, kernel, budget, X, data.y_train)
        new = 1 - model.score(X_new, data.y_test)
        name = f"`{preset}`, {type(kernel).__name__}, `{type(budget).__name__}`"
        cells = [name, f"{error:.2%}", f"{new:.2%}", f"{model.n_support_:,}", f"{seconds:.1f}"]
        print(f"| {' | '.join(cells)} |", flush=True)
