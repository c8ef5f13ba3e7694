"""
A committee that changes its mind
=================================

Two machines learn side by side, and the weight of each is learned from the stream. Here a linear
problem becomes a problem that no linear model can solve.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelstream as ks

random = np.random.default_rng(0)
X = random.normal(size=(3000, 2))
is_positive = np.where(np.arange(3000) < 1500, X[:, 0] > X[:, 1], X[:, 0] * X[:, 1] > 0)
y = np.where(is_positive, "yes", "no")

model = ks.Committee(["smd-linear", "svmd"], "classifier")
errors, weights = [], []
for start in range(0, 3000, 50):
    block = slice(start, start + 50)
    result = ks.prequential(model, X[block], y[block])
    errors.append(100 * result.error_rate)
    weights.append(model.weights_)

# %%

rows = 50 * (1 + np.arange(len(errors)))
figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 4.5), sharex=True, layout="constrained")
top.plot(rows, errors, color="black")
for name in weights[0]:
    bottom.plot(rows, [w[name] for w in weights], label=name)
top.axvline(1500, color="lightgrey", zorder=0, linewidth=6)
bottom.axvline(1500, color="lightgrey", zorder=0, linewidth=6)
top.set(ylabel="error, %", ylim=(0, None))
bottom.set(xlabel="row", ylabel="weight")
bottom.legend(loc="upper right")
plt.show()
