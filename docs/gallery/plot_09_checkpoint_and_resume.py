"""
Checkpoint and resume
=====================

A program that learns a stream is stopped half way. When it starts again it goes on from the last
checkpoint, and ends with the same model, bit for bit, as a program that was never stopped.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np

import kernelstream as ks

X, y = ks.streams.drifting_gaussians(2000, random_state=0)


def learn(folder, until):
    """Learn from where the last run stopped; the rows of each block, and its errors."""
    trace = []
    with ks.Checkpointer(folder, every_rows=300) as checkpoints:
        model, position = checkpoints.resume(lambda: ks.KernelClassifier(gamma=1 / 31250))
        for start in range(position, until, 100):
            block = slice(start, start + 100)
            result = ks.prequential(model, X[block], y[block])
            trace.append((start, 100 * result.error_rate))
            checkpoints.step(model, start + 100)
    return model, np.array(trace).T


folder = tempfile.mkdtemp()
_, first = learn(folder, 1100)  # stopped after 1,100 rows
resumed, second = learn(folder, 2000)
whole, _ = learn(tempfile.mkdtemp(), 2000)
print("resumed at row", int(second[0, 0]))
print("the same model:", np.array_equal(resumed.dual_coef_, whole.dual_coef_))

# %%

figure, axis = plt.subplots(figsize=(7, 3.4), layout="constrained")
axis.plot(*first, marker="o", label="until it was stopped")
axis.plot(*second, marker="x", label="resumed from the checkpoint")
axis.set(xlabel="row", ylabel="error of the block, %", ylim=(0, None))
axis.legend()
plt.show()
