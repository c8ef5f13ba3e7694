"""
Features in any units
=====================

One feature varies by hundreds, another one by tenths. A kernel of distances then sees only the
first. With ``scaling="running"`` each row is scaled by the rows before it, so that no pass over the
data is needed beforehand.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.utils import shuffle

import kernelstream as ks

X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
print("standard deviations:", X.std(axis=0).round(2))

figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
for name, scaling in [("as it comes", None), ('scaling="running"', "running")]:
    result = ks.prequential(ks.KernelClassifier(scaling=scaling), X, y)
    axis.plot(100 * result.average_error, label=f"{name}, {result.error_rate:.0%}")
axis.set(xlabel="row", ylabel="error so far, %", ylim=(0, 100))
axis.legend()
plt.show()
