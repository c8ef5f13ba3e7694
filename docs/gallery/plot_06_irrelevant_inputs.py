"""
Inputs that do not matter
=========================

Of twelve inputs only two matter. A kernel of distances listens to all of them. With
``Renewed(metric=True)`` the model learns from the gradients of its own function which directions
matter, and stretches the space along them.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelstream as ks

random = np.random.default_rng(0)
X = random.normal(size=(3000, 12))
y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * random.normal(size=3000)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for metric in (False, True):
    scaling = ks.scalings.Renewed(metric=metric)
    model = ks.make("sog-svr", "regressor", scaling=scaling, gamma=0.1)
    result = ks.prequential(model, X, y)
    error = np.sqrt(np.convolve(result.errors, np.ones(200) / 200, mode="valid"))
    left.plot(np.arange(200, 3001), error, label="with the metric" if metric else "without")
left.set(xlabel="row", ylabel="root mean squared error", ylim=(0, None))
left.legend()
right.bar(np.arange(12), np.diag(model.metric_))
right.set(xlabel="input", ylabel="weight in the metric")
plt.show()
