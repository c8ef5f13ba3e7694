"""
A stream of digits that drifts
==============================

The digits come in the order of a decimal counter, so that the share of each label changes all the
time. Every digit is predicted first and then learned. NORMA's step size falls by a fixed schedule;
SVMD adapts its own, and follows the stream.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import kernelstream as ks

X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))
X, y = ks.streams.counting(X[order] / 16, y[order], n_digits=2, n_passes=5)
print(f"{len(X)} digits: {''.join(map(str, y[:24]))}...")

# %%
# Both learners start with the same step size.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for name, step_size in [
    ("SVMD", ks.step_sizes.SMD(initial=1.0)),
    ("NORMA", ks.step_sizes.SqrtDecay(initial=1.0, tau=10)),
]:
    model = ks.KernelClassifier(gamma=0.25, step_size=step_size, budget=256)
    result = ks.prequential(model, X, y)
    left.plot(result.average_error, label=f"{name}, {result.error_rate:.1%}")
    right.plot(result.step_sizes, label=name)
left.set(xlabel="row", ylabel="error so far", ylim=(0, 0.5))
right.set(xlabel="row", ylabel="step size", yscale="log")
left.legend()
right.legend()
plt.show()
