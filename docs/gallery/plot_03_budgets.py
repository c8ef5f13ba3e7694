"""
Budgets side by side
====================

A model keeps a limited number of support vectors. When the budget is full, one of them must go: the
oldest one is dropped, or two of them are merged into one. With few support vectors this choice
decides the error. The task is to tell odd digits from even ones.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import kernelstream as ks

X, y = load_digits(return_X_y=True)
X, is_odd = X / 16, y % 2
sizes = [16, 32, 64, 128]

figure, axis = plt.subplots(figsize=(6.5, 4), layout="constrained")
for budget in (ks.budgets.OldestOut, ks.budgets.Merge):
    errors = []
    for size in sizes:
        model = ks.make("pa", "classifier", gamma=0.25, budget=budget(size))
        errors.append(100 * ks.prequential(model, X, is_odd).error_rate)
    axis.plot(sizes, errors, marker="o", label=budget.__name__)
axis.set(xscale="log", xlabel="support vectors", ylabel="error while learning, %", ylim=(0, None))
axis.set_xticks(sizes, [str(size) for size in sizes])
axis.minorticks_off()
axis.legend()
plt.show()
