"""100,000 sensors that drift at different times: a model per sensor, a table of alarms, a picture.

    python examples/sensors.py [PICTURE.png]

Every sensor measures temperature and humidity around a level of its own. Some time later one in
five of them drifts to another level. Each has a small novelty detector under its name in one
`KeyedFleet`; when three of the last five readings of a sensor are new to it, that is an alarm. The
rows come in random order, and every sensor sends most of the time, but not always.
"""

import sys
import time

import numpy as np

import kernelstream as ks

N_ROUNDS, FIRST_DRIFT, LAST_DRIFT = 60, 25, 50
PARAMS = {"gamma": 0.1, "budget": 16, "C": 0.02, "regularization": 0.01}


class Sensors:
    """Where the sensors are, and when they drift."""

    def __init__(self, n_sensors, random):
        self.names = np.array([f"sensor-{i:06d}" for i in range(n_sensors)])
        self.level = random.normal([20.0, 50.0], [5.0, 10.0], size=(n_sensors, 2))
        drifts = random.random(n_sensors) < 0.2
        self.drift = np.where(drifts, random.integers(FIRST_DRIFT, LAST_DRIFT, n_sensors), N_ROUNDS)
        angle = random.uniform(0, 2 * np.pi, n_sensors)
        self.shift = 6.0 * np.column_stack([np.cos(angle), np.sin(angle)])

    def measure(self, round, random):
        """Which sensors send in a round, and what."""
        who = random.permutation(len(self.names))[: int(0.95 * len(self.names))]
        has_drifted = (round >= self.drift[who])[:, None]
        readings = self.level[who] + has_drifted * self.shift[who]
        return who, readings + random.normal(size=(len(who), 2))


def watch(sensors, random):
    """Learn all rounds; the round of the first alarm of each sensor, or -1."""
    fleet = ks.KeyedFleet("silk", "novelty", **PARAMS)
    recent = np.zeros((len(sensors.names), 5), dtype=bool)  # which of the last readings were new
    alarm = np.full(len(sensors.names), -1)
    for round in range(N_ROUNDS):
        who, X = sensors.measure(round, random)
        keys = sensors.names[who]
        if round >= 15:  # until then everything is new
            is_new = fleet.predict(keys, X) == -1
            recent[who] = np.column_stack([recent[who, 1:], is_new])
            alarm[(recent.sum(axis=1) >= 3) & (alarm < 0)] = round
        fleet.learn(keys, X)
    return fleet, alarm


def draw(sensors, alarm, picture):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    found = (alarm >= 0) & (sensors.drift < N_ROUNDS)
    left.hexbin(sensors.drift[found], alarm[found], gridsize=25, bins="log", cmap="Blues")
    left.plot([FIRST_DRIFT, LAST_DRIFT], [FIRST_DRIFT, LAST_DRIFT], "k:", linewidth=1)
    left.set(xlabel="round of the drift", ylabel="round of the first alarm",
             title="sensors that drift")  # fmt: skip
    rounds = np.arange(N_ROUNDS + 1)
    right.hist(sensors.drift[sensors.drift < N_ROUNDS], rounds, histtype="step", label="drifts")
    right.hist(alarm[alarm >= 0], rounds, histtype="step", label="first alarms")
    right.set(xlabel="round", ylabel="sensors", title=f"{len(alarm):,} sensors")
    right.legend()
    figure.savefig(picture, dpi=110)


def main(n_sensors=100_000, picture=None):
    """The share of the drifts that were found, and that of false alarms among calm sensors."""
    random = np.random.default_rng(0)
    sensors, start = Sensors(n_sensors, random), time.perf_counter()
    fleet, alarm = watch(sensors, random)
    print(
        f"{len(fleet):,} models of {fleet.bytes_per_model():,} bytes learned {fleet.n_rows_:,} "
        f"rows in {time.perf_counter() - start:.0f} s"
    )
    drifts = sensors.drift < N_ROUNDS
    found, false = (alarm >= sensors.drift) & drifts, (alarm >= 0) & ~drifts
    delay = (alarm - sensors.drift)[found]
    print(
        f"{found.sum():,} of {drifts.sum():,} drifts found, {np.median(delay):.0f} rounds after "
        f"they began (median); {false.sum():,} false alarms of {(~drifts).sum():,} calm sensors"
    )
    table = fleet.to_pandas()
    table["alarm"] = table.index.map(dict(zip(sensors.names.tolist(), alarm, strict=True)))
    alarms = table[table["alarm"] >= 0].sort_values("alarm")
    print(alarms[["alarm", "n_seen", "margin", "n_support", "drift_score"]].head(10))
    if picture is not None:
        draw(sensors, alarm, picture)
    return found.sum() / drifts.sum(), false.sum() / (~drifts).sum()


if __name__ == "__main__":
    main(picture=sys.argv[1] if len(sys.argv) > 1 else "sensors.png")
