"""
Novelty in the data of a sensor
===============================

A detector learns what is usual while the rows come, without a label and with nothing to tune: about
one row in twenty raises an alarm. Near the end the second reading freezes at a value that is usual
by itself; only the two readings together are new.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelstream as ks

random = np.random.default_rng(0)
angle = random.uniform(0, 2 * np.pi, 3000)
X = np.column_stack([np.sin(angle), np.cos(angle)]) + 0.05 * random.normal(size=(3000, 2))
X[2900:, 1] = 0.0  # the second reading freezes

detector = ks.AutoDetector()
result = ks.prequential(detector, X)
alarm = result.predictions == -1
print(f"alarms: {alarm[1000:2900].mean():.1%} before the fault, {alarm[2900:].mean():.0%} in it")

# %%
# A score below the threshold is an alarm. The detector also learns the rows of the fault.

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.4), width_ratios=[2, 1], layout="constrained"
)
rows = np.arange(2600, 3000)
left.plot(rows, result.scores.ravel()[rows], ".", markersize=4, label="score")
left.plot(rows, result.margins[rows], label="threshold")
left.axvspan(2900, 3000, color="tab:red", alpha=0.15, linewidth=0)
left.set(xlabel="row")
left.legend(loc="upper left")
late = np.arange(3000) >= 2000
right.scatter(*X[late & ~alarm].T, s=5, label="usual")
right.scatter(*X[late & alarm].T, s=12, color="tab:red", label="alarm")
right.set(xlabel="first reading", ylabel="second reading", aspect="equal")
right.legend(loc="upper left")
plt.show()
