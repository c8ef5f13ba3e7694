"""
A kernel of your own
====================

Any function of two blocks of rows that is symmetric and positive semidefinite can be a kernel. This
one knows that the input is an angle, so that 359 degrees are close to 1 degree.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelstream as ks


def periodic(X, Z):
    """``exp(2 (cos(x - z) - 1))``, for angles in degrees."""
    return np.exp(2 * (np.cos(np.radians(X - Z.T)) - 1))


random = np.random.default_rng(0)
angle = random.uniform(10, 350, size=(800, 1))  # no row near the jump
y = np.cos(np.radians(angle[:, 0])) + 0.1 * random.normal(size=800)

# %%
# Beyond the rows that were seen, only the periodic kernel knows how to go on.

grid = np.linspace(-60, 420, 300)[:, None]
figure, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
axis.scatter(angle, y, s=5, color="lightgrey")
for name, kernel in [("periodic", periodic), ("RBF", ks.kernels.RBF(gamma=1e-3))]:
    model = ks.KernelRegressor(kernel, budget=128).partial_fit(angle, y)
    axis.plot(grid, model.predict(grid), label=name)
axis.set(xlabel="angle, degrees", ylabel="prediction")
axis.legend()
plt.show()
