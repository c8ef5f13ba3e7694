"""
In a pipeline of River
======================

`kernelstream.river` has the same learners for rows that are dictionaries. They go into River's
pipelines, and River's metrics and evaluation work with them.
"""

import matplotlib.pyplot as plt
from river import datasets, evaluate, linear_model, metrics, preprocessing

from kernelstream.river import KernelClassifier

figure, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
for name, learner in [
    ("kernelstream, SVMD", KernelClassifier(gamma=2.0)),
    ("River, logistic regression", linear_model.LogisticRegression()),
]:
    model = preprocessing.StandardScaler() | learner
    steps = evaluate.iter_progressive_val_score(
        datasets.Bananas().take(3000), model, metrics.Accuracy(), step=50
    )
    rows, accuracy = zip(*((s["Step"], 100 * s["Accuracy"].get()) for s in steps), strict=True)
    axis.plot(rows, accuracy, label=f"{name}, {accuracy[-1]:.0f} %")
axis.set(xlabel="row", ylabel="accuracy so far, %", ylim=(40, 100))
axis.legend(loc="lower right")
plt.show()
