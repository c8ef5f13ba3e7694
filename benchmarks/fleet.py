"""Fleets: frames per second of video, and rows per second of many models beside a Python loop.

    python benchmarks/fleet.py              the tables
    python benchmarks/fleet.py PLOT.png     the picture of docs/video.md, from office and OpenCV

A frame is a noisy picture with a box that moves, so that some pixels are foreground; frames are
timed when the buffers are full. The loop over single estimators does the same work (a score, then
a step), for 2,000 models, since it is slow; its rows per second do not depend on their number.
Medians of several repetitions.
"""

import sys
import time

import numpy as np

import kernelstream as ks
from kernelstream.budgets import Merge, OldestOut

SIZES = [(120, 160), (480, 640)]
N_MODELS, N_IN_LOOP, N_FEATURES, BUDGET = 100_000, 2_000, 10, 32


def seconds(actions):
    """Median wall time of the actions."""
    times = []
    for action in actions:
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


# --- video ----------------------------------------------------------------------------------------


def frames(shape, n_frames):
    random = np.random.default_rng(0)
    height, width = shape
    still = random.integers(40, 200, size=shape)
    for t in range(n_frames):
        frame = still + random.normal(0, 4, size=shape)
        left = (7 * t) % (width - width // 8)
        frame[height // 4 : height // 2, left : left + width // 8] = 250
        yield frame.clip(0, 255).astype(np.uint8)


def frames_a_second(shape, n_timed=30):
    """Of the subtractor, and of its fleet alone."""
    subtractor = ks.vision.BackgroundSubtractor()
    seen = list(frames(shape, 40 + n_timed))
    for frame in seen[:40]:
        subtractor.apply(frame)
    applied = seconds(lambda f=frame: subtractor.apply(f) for frame in seen[40:])
    pixels = [(frame / 255.0).astype(np.float32).reshape(-1, 1) for frame in seen[40:]]
    learned = seconds(lambda X=X: subtractor.fleet_.learn(X) for X in pixels)
    return 1 / applied, 1 / learned


# --- many models ----------------------------------------------------------------------------------

LEARNERS = {
    "svmd": ("svmd", BUDGET),
    "svmd, norms not corrected": ("svmd", OldestOut(BUDGET, exact=False)),
    "norma": ("norma", BUDGET),
    "silk": ("silk", BUDGET),
}


def rows(n_models, seed):
    """A row for each model, of two overlapping classes."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, n_models)
    X = random.normal(size=(n_models, N_FEATURES)) + 0.5 * y[:, None]
    return X, y


def fleet_rows_a_second(preset, budget, n_before=60, n_timed=7):
    fleet = ks.Fleet(preset, "classifier", N_MODELS, N_FEATURES, classes=[0, 1], budget=budget)
    for t in range(n_before):  # until the budgets are full
        fleet.learn(*rows(N_MODELS, t))
    timed = [rows(N_MODELS, n_before + t) for t in range(n_timed)]
    filled = fleet.n_support_.mean() / BUDGET
    return N_MODELS / seconds(lambda block=b: fleet.learn(*block) for b in timed), filled


def loop_rows_a_second(preset, budget, n_before=60, n_timed=3):
    models = [ks.make(preset, "classifier", budget=budget) for _ in range(N_IN_LOOP)]
    past = [rows(N_IN_LOOP, t) for t in range(n_before)]
    for i, model in enumerate(models):
        X = np.array([block[0][i] for block in past])
        model.partial_fit(X, [block[1][i] for block in past], classes=[0, 1])
    timed = [rows(N_IN_LOOP, n_before + t) for t in range(n_timed)]

    def learn(X, y):
        for model, x, label in zip(models, X, y, strict=True):
            model.predict_one(x)
            model.learn_one(x, label)

    learn(*rows(N_IN_LOOP, 999))
    return N_IN_LOOP / seconds(lambda block=b: learn(*block) for b in timed)


def keyed_ratios(preset="svmd", n_before=40, n_timed=9):
    """Rows a second by key over those of a fleet: by kind of key, rows in order and shuffled."""
    options = {"classes": [0, 1], "budget": BUDGET}
    numbers = np.random.default_rng(1).permutation(N_MODELS) * 7 + 3
    keys = {"integers": numbers, "strings": np.array([f"sensor-{i:09d}" for i in numbers])}
    fleet = ks.Fleet(preset, "classifier", N_MODELS, N_FEATURES, **options)
    keyed = {kind: ks.KeyedFleet(preset, "classifier", **options) for kind in keys}
    for t in range(n_before):
        X, y = rows(N_MODELS, t)
        fleet.learn(X, y)
        for kind, one in keyed.items():
            one.learn(keys[kind], X, y)
    blocks = [rows(N_MODELS, 100 + t) for t in range(n_timed)]
    order = np.random.default_rng(2).permutation(N_MODELS)
    plain = seconds(lambda b=b: fleet.learn(*b) for b in blocks)
    mixed = seconds(lambda b=b: fleet.learn(*b, models=order) for b in blocks)
    for kind, one in keyed.items():
        in_order = seconds(lambda b=b, k=kind, f=one: f.learn(keys[k], *b) for b in blocks)
        shuffled = seconds(lambda b=b, k=kind, f=one: f.learn(keys[k][order], *b) for b in blocks)
        yield kind, plain / in_order, mixed / shuffled


def measure():
    print(
        "| grey pictures, 20 colours per pixel | frames per second, `apply` | `Fleet.learn` alone |"
    )
    print("|---|---|---|")
    for height, width in SIZES:
        applied, learned = frames_a_second((height, width))
        print(f"| {width} x {height} | {applied:.0f} | {learned:.0f} |", flush=True)
    print(f"\n| {N_MODELS:,} models, {N_FEATURES} features, budget {BUDGET} "
          "| rows per second, fleet | Python loop | ratio |\n|---|---|---|---|")  # fmt: skip
    for name, (preset, budget) in LEARNERS.items():
        fast, filled = fleet_rows_a_second(preset, budget)
        slow = loop_rows_a_second(preset, budget)
        print(
            f"| `{name}` (budgets {filled:.0%} full) | {fast:,.0f} | {slow:,.0f} "
            f"| {fast / slow:.0f} |", flush=True,
        )  # fmt: skip
    print("\n| keys | `KeyedFleet` over `Fleet`, rows in order | shuffled |\n|---|---|---|")
    for kind, in_order, shuffled in keyed_ratios():
        print(f"| {kind} | {in_order:.2f} | {shuffled:.2f} |", flush=True)


# --- the picture ----------------------------------------------------------------------------------


def masks_of_office(number):
    """A frame, its truth, and what each subtractor says of it after all frames before."""
    import cv2

    subtractors = {
        "SILK, merging": ks.vision.BackgroundSubtractor(
            budget=Merge(20), C=0.05, regularization=0.001
        ),
        "SILK": ks.vision.BackgroundSubtractor(),
        "OpenCV, KNN": cv2.createBackgroundSubtractorKNN(detectShadows=False),
        "OpenCV, MOG2": cv2.createBackgroundSubtractorMOG2(detectShadows=False),
    }
    video = ks.datasets.load("video-office")
    row = int(np.searchsorted(video.frame_numbers, number))
    pictures = {"frame": video.X[row], "truth": video.masks[video.mask_rows == row][0]}
    for name, subtractor in subtractors.items():
        for frame in video.X[: row + 1]:
            pictures[name] = subtractor.apply(frame)
    return pictures


def draw(path):
    from matplotlib.figure import Figure

    pictures = masks_of_office(1500)
    figure = Figure(figsize=(10, 5), layout="constrained")
    for axes, (name, picture) in zip(figure.subplots(2, 3).flat, pictures.items(), strict=True):
        axes.imshow(picture, cmap="gray")
        axes.set_title(name, fontsize=10)
        axes.set_axis_off()
    figure.savefig(path, dpi=85, facecolor="white")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        draw(sys.argv[1])
    else:
        measure()
