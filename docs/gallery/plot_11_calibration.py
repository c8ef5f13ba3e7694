"""
Calibrated probabilities
========================

Of the rows that were predicted with a probability of 80 %, about 80 % should be right. A committee
mixes its members by the log loss, so that its probabilities are calibrated without another step.
`AutoClassifier` is such a committee, with more members than this one.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelstream as ks

random = np.random.default_rng(0)
X = random.normal(size=(4000, 2))
chance = 1 / (1 + np.exp(-3 * X[:, 0] * X[:, 1]))
y = random.random(4000) < chance

model = ks.Committee(["smd-linear", "svmd"], "classifier")
model.partial_fit(X[:100], y[:100], classes=[False, True])
predicted = []
for start in range(100, 4000, 100):  # each block is predicted, then learned
    block = slice(start, start + 100)
    predicted.append(model.predict_proba(X[block])[:, 1])
    model.partial_fit(X[block], y[block])
predicted, happened = np.concatenate(predicted), y[100:]

# %%

edges = np.linspace(0, 1, 11)
bins = np.digitize(predicted, edges[1:-1])
figure, axis = plt.subplots(figsize=(4.5, 4.5), layout="constrained")
axis.plot([0, 1], [0, 1], color="lightgrey")
axis.plot(
    [predicted[bins == b].mean() for b in range(10)],
    [happened[bins == b].mean() for b in range(10)],
    marker="o",
)
axis.set(xlabel="predicted probability", ylabel="share of rows in which it happened")
plt.show()
