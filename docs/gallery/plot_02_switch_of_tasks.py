"""
The task changes suddenly
=========================

For 340 rows the labels mean "0 or 1"; then they mean "2 or 3". The loss rises, the step size
follows it, and `prequential` reports the row at which the stream had changed.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import kernelstream as ks

X, y = load_digits(return_X_y=True)
X, y = ks.streams.switch(X / 16, y, first=(0, 1), then=(2, 3), n_rows=340)
model = ks.KernelClassifier(gamma=0.25, step_size=ks.step_sizes.SMD(initial=0.1))
result = ks.prequential(model, X, y)
print(f"{result.error_rate:.1%} error; the stream changed before rows {result.events.tolist()}")

# %%
# The dotted line is the event.

figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 4.5), sharex=True, layout="constrained")
top.plot(np.convolve(result.losses, np.ones(20) / 20, mode="same"))
bottom.plot(result.step_sizes, color="tab:orange")
for axis in (top, bottom):
    axis.axvline(340, color="lightgrey", linewidth=6, zorder=0)
    for event in result.events:
        axis.axvline(event, color="black", linestyle=":")
top.set(ylabel="loss, mean of 20 rows")
bottom.set(ylabel="step size", xlabel="row")
plt.show()
