"""
A model for every sensor
========================

A `KeyedFleet` keeps a small model per key. A model is born with the first row of its key, and keys
do not influence each other. Here 200 sensors have a level of their own, and some of them drift.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelstream as ks

random = np.random.default_rng(0)
names = np.array([f"sensor-{i:03d}" for i in range(200)])
level = random.normal(20, 5, size=200)
drifts_at = np.where(random.random(200) < 0.1, random.integers(60, 90, 200), 1000)

fleet = ks.KeyedFleet("silk", "novelty", gamma=0.5, budget=16, C=0.02, regularization=0.01)
alarms = np.zeros((200, 120), dtype=bool)
for hour in range(120):
    reading = level + 5.0 * (hour >= drifts_at) + 0.5 * random.normal(size=200)
    if hour >= 20:  # until then everything is new
        alarms[:, hour] = fleet.predict(names, reading[:, None]) == -1
    fleet.learn(names, reading[:, None])
print(f"{len(fleet)} models, {fleet.bytes_per_model()} bytes each")

# %%
# Each line is a sensor that drifts; alarms are dark. After a while the new level is usual.

drifting = np.flatnonzero(drifts_at < 1000)
drifting = drifting[np.argsort(drifts_at[drifting])]
figure, axis = plt.subplots(figsize=(8, 3.6), layout="constrained")
axis.imshow(alarms[drifting], aspect="auto", cmap="Greys", interpolation="none")
axis.plot(drifts_at[drifting] - 0.5, np.arange(len(drifting)), "r|", markersize=8, label="drift")
axis.set(xlabel="hour", ylabel="sensors that drift")
axis.legend(loc="lower left")
plt.show()
