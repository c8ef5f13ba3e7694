"""
A loss of your own
==================

A loss is a small class: its value, its gradient and, where it is curved, its curvature. The
decorator registers it, and every kernel, step size and budget works with it. This is the
squared hinge.
"""

from typing import NamedTuple

import matplotlib.pyplot as plt

import kernelstream as ks
from kernelstream.losses import loss


@loss(
    "squared_hinge", "classification", single_output=True, accepts_nu=False, accepts_implicit=False
)
class SquaredHinge(NamedTuple):
    """``l = max(0, margin - y f)^2 / 2`` with y = -1 or +1."""

    def value(self, scores, y, margin):
        gap = max(0.0, margin - y * scores[0])
        return 0.5 * gap * gap

    def gradient(self, scores, y, margin, xi):
        gap = max(0.0, margin - y * scores[0])
        xi[0] = -y * gap
        return gap > 0.0  # whether the row is a violation

    def is_curved(self):
        return True

    def curvature(self, scores, y, margin, direction, product):
        rho = 1.0 if y * scores[0] < margin else 0.0
        product[0] = rho * direction[0]
        return rho


# %%
# It is then used by its name.

X, y = ks.streams.drifting_gaussians(2000, random_state=0)
figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
for name in ("hinge", "squared_hinge"):
    result = ks.prequential(ks.KernelClassifier(loss=name, gamma=1 / 31250), X, y)
    axis.plot(100 * result.average_error, label=f"{name}, {result.error_rate:.1%}")
axis.set(xlabel="row", ylabel="error so far, %", ylim=(0, 30))
axis.legend()
plt.show()
