"""Videos with true masks, and how well a subtractor finds what moves in them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import auc

from kernelstream.vision import BackgroundSubtractor
from kernelstream_lab.experiments.curves import numbers, spaced
from kernelstream_lab.experiments.setting import Setting

__all__ = [
    "FEW",
    "Alarms",
    "Tally",
    "Video",
    "judge",
    "judge_masks",
    "lines_of",
    "load_video",
    "mask_of",
]

FEW = 0.01  # an acceptable rate of false alarms; the axis of the paper's figure ends at 0.006


class Video(NamedTuple):
    """Frames, and the true masks of some of them."""

    frames: np.ndarray
    frame_numbers: np.ndarray
    masks: np.ndarray
    scored: np.ndarray
    mask_rows: np.ndarray

    def between(self, first: int, last: int) -> "Video":
        """Return the frames from number `first` to number `last`, both included."""
        begin, end = np.searchsorted(self.frame_numbers, [first, last + 1])
        known = (self.mask_rows >= begin) & (self.mask_rows < end)
        return Video(
            self.frames[begin:end], self.frame_numbers[begin:end], self.masks[known],
            self.scored[known], self.mask_rows[known] - begin,
        )  # fmt: skip

    def truth_of(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the pixels of a frame whose truth is known, and those that are foreground."""
        place = np.flatnonzero(self.mask_rows == row)
        known, truth = (
            found[place].max(axis=0, initial=False) for found in (self.scored, self.masks)
        )
        return known, truth

    def window(self, top: int, left: int, size: int = 40, step: int = 4) -> "Video":
        """Return some pixels of a square of every frame."""
        lines, columns = slice(top, top + size, step), slice(left, left + size, step)
        cut = {
            name: getattr(self, name)[:, lines, columns] for name in ("frames", "masks", "scored")
        }
        return self._replace(**cut)


def load_video(
    setting: Setting, name: str, full: tuple[int, int], quick: tuple[int, int],
    corner: tuple[int, int],
) -> Video:  # fmt: skip
    """Load a range of frames; a quick run has fewer frames, and a small part of each."""
    data = setting.load(name)
    video = Video(data.X, data.frame_numbers, data.masks, data.scored, data.mask_rows)
    return video.between(*quick).window(*corner) if setting.quick else video.between(*full)


def _f_measure(hits: Any, n_alarms: Any, n_true: Any) -> Any:
    return 2 * hits / np.maximum(1, n_alarms + n_true)


class Tally:
    """Counts of pixels by their score, separately for foreground and background.

    Scores are not negative, and the order of such floats is the order of their bits. The leading
    bits therefore form a logarithmic scale, which separates the small scores of foreground.
    """

    _DROPPED_BITS = 14  # leaves a precision of 0.2 %
    _N_LEVELS = 1 << 17

    def __init__(self) -> None:
        self.counts = np.zeros((2, self._N_LEVELS), np.int64)

    def add(self, familiarity: np.ndarray, truth: np.ndarray) -> None:
        """Count pixels."""
        scores = np.maximum(familiarity, 0).astype(np.float32)
        levels = scores.view(np.uint32) >> self._DROPPED_BITS
        for is_foreground in (0, 1):
            chosen = levels[truth == is_foreground]
            self.counts[is_foreground] += np.bincount(chosen, minlength=self._N_LEVELS)

    def summary(self) -> dict[str, Any]:
        """Return the ROC curve, the areas under it, and the best F-measure over all thresholds."""
        used = np.flatnonzero(self.counts.any(axis=0))
        false, true = np.cumsum(self.counts[:, used], axis=1)
        false_rate, true_rate = (
            np.concatenate([[0.0], found / max(1, found[-1])]) for found in (false, true)
        )
        few = np.linspace(0, FEW, 501)
        shown = np.unique(np.concatenate([spaced(len(used), 400), _first_above(false_rate, few)]))
        return {
            "false_rate": numbers(false_rate[shown]),
            "true_rate": numbers(true_rate[shown]),
            "area": float(auc(false_rate, true_rate)),
            "area_of_few": float(auc(few, np.interp(few, false_rate, true_rate)) / FEW),
            "best_f": float(_f_measure(true, true + false, true[-1]).max()),
        }


def _first_above(rates: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return np.minimum(np.searchsorted(rates, wanted), len(rates) - 1)


class Alarms:
    """Counts of alarms and true foreground over frames."""

    def __init__(self) -> None:
        self.hits = self.n_alarms = self.n_true = self.n_pixels = 0

    def add(self, mask: np.ndarray, truth: np.ndarray) -> None:
        """Count pixels."""
        self.hits += int((mask & truth).sum())
        self.n_alarms += int(mask.sum())
        self.n_true += int(truth.sum())
        self.n_pixels += truth.size

    def summary(self) -> dict[str, float]:
        """Return the F-measure, and the rates of hits and false alarms."""
        return {
            "f": float(_f_measure(self.hits, self.n_alarms, self.n_true)),
            "hit_rate": self.hits / max(1, self.n_true),
            "false_alarm_rate": (self.n_alarms - self.hits) / max(1, self.n_pixels - self.n_true),
        }


def _masks(video: Video, subtractor: Any) -> Iterator[tuple[int, np.ndarray]]:
    for row, frame in enumerate(video.frames):
        yield row, subtractor.apply(frame) == 255  # OpenCV marks shadows with another value


def judge(video: Video, subtractor: BackgroundSubtractor, shown: int) -> dict[str, Any]:
    """Compare masks and scores with the truth; the result has the mask of one frame."""
    alarms, tally, shares = Alarms(), Tally(), []
    for row, mask in _masks(video, subtractor):
        scored, truth = video.truth_of(row)
        alarms.add(mask[scored], truth[scored])
        tally.add(subtractor.familiarity_[scored], truth[scored])
        shares.append(mask.mean())
        if row == shown:
            lines = lines_of(mask)
    return {**tally.summary(), **alarms.summary(), "shares": numbers(shares), "mask": lines}


def judge_masks(video: Video, subtractor: Any) -> dict[str, float]:
    """Compare the masks of a subtractor without scores with the truth."""
    alarms = Alarms()
    for row, mask in _masks(video, subtractor):
        scored, truth = video.truth_of(row)
        alarms.add(mask[scored], truth[scored])
    return alarms.summary()


def lines_of(mask: np.ndarray) -> list[str]:
    """Return a mask as text, such as "0011" for each of its rows."""
    return ["".join(line) for line in mask.astype(int).astype(str)]


def mask_of(lines: list[str]) -> np.ndarray:
    """Return the mask of such a text."""
    return np.array([list(line) for line in lines]).astype(int)
