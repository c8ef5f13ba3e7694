"""
How certain a regression is
===========================

A second-order learner knows how certain it is: it fits all rows so far by least squares on a
small dictionary of points. Where no row was seen, the band is wide.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelstream as ks

random = np.random.default_rng(0)
x = random.uniform(-10, 10, 400)
x = x[(x < 2) | (x > 6)]  # a gap
y = np.sinc(x / np.pi) + 0.1 * random.normal(size=len(x))

model = ks.make("sog-svr", "regressor", gamma=0.5, C=10.0)
model.partial_fit(x[:, None], y)
print(f"{model.n_support_} points in the dictionary, of {model.n_seen_} rows")

# %%

grid = np.linspace(-12, 12, 300)
mean, std = model.predict(grid[:, None], return_std=True)
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
axis.scatter(x, y, s=6, color="grey", label="rows")
axis.plot(grid, np.sinc(grid / np.pi), "k--", linewidth=1, label="sinc")
axis.plot(grid, mean, label="prediction")
axis.fill_between(grid, mean - 2 * std, mean + 2 * std, alpha=0.2, label="two standard deviations")
axis.set(ylim=(-1.5, 2.2))
axis.legend(loc="upper left")
plt.show()
