"""Background subtraction with one novelty detector per pixel."""

from typing import Any

import numpy as np

from kernelstream.fleet import Fleet
from kernelstream.parts import integer_at_least, number

__all__ = ["BackgroundSubtractor"]


class BackgroundSubtractor:
    """Find what moves in front of a static camera, with one novelty detector per pixel.

    The detector of a pixel learns the colours that the pixel has shown; a colour that it does not
    know is foreground (SILK, section 4). Foreground is learned with a small weight only, so that a
    person who stands still does not become background too soon. If most of the picture is
    foreground, the light has changed, and every pixel is learned with full weight.

    Parameters
    ----------
    preset : str, default="silk"
        The learner, one of ``kernelstream.presets.names()``.
    budget : int or budget part, default=20
        The number of colours that are stored per pixel.
    width : float, default=0.05
        The width sigma of the RBF kernel, for colours from 0 to 1.
    threshold : float in (0, 1), default=0.5
        A pixel is foreground if its score is below this share of the margin.
    caution : float in [0, 1], default=0.02
        The weight with which foreground is learned.
    warm_up : int, default=20
        The number of first frames in which every pixel is learned with full weight.
    changed : float in (0, 1], default=0.5
        If more than this share of the picture is foreground, every pixel is learned with full
        weight.
    dtype, n_jobs
        As in `Fleet`.
    **params
        Parameters of `NoveltyDetector`. The defaults of "silk" are ``margin=1, C=0.1,
        regularization=0.001``.

    Attributes
    ----------
    fleet_ : Fleet
        The detectors, in the order of the pixels, row by row.
    familiarity_ : ndarray of shape (height, width)
        Scores of the last frame, divided by the margin: near one for background, near zero for
        foreground.
    n_frames_ : int
        The number of frames so far.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelstream.vision import BackgroundSubtractor
    >>> random = np.random.default_rng(0)
    >>> subtractor = BackgroundSubtractor()
    >>> for _ in range(30):
    ...     frame = random.normal(100, 3, size=(24, 32)).astype(np.uint8)
    ...     mask = subtractor.apply(frame)
    >>> frame[5:10, 5:10] = 200
    >>> int((subtractor.apply(frame)[5:10, 5:10] == 255).sum())
    25
    """

    def __init__(
        self, preset: str = "silk", *, budget: Any = 20, width: float = 0.05,
        threshold: float = 0.5, caution: float = 0.02, warm_up: int = 20, changed: float = 0.5,
        dtype: Any = "float64", n_jobs: int | None = None, **params: Any,
    ):  # fmt: skip
        self.preset = preset
        self.threshold = number("threshold", threshold, above=0, below=1)
        self.caution = number("caution", caution, at_least=0, at_most=1)
        self.warm_up = integer_at_least("warm_up", warm_up, 0)
        self.changed = number("changed", changed, above=0, at_most=1)
        self.dtype = dtype
        self.n_jobs = n_jobs
        own = {"C": 0.1, "regularization": 1e-3} if preset == "silk" else {}
        gamma = 0.5 / number("width", width, above=0) ** 2
        self.params = {"gamma": gamma, "margin": 1.0, "budget": budget, **own, **params}
        self.n_frames_ = 0
        self._shape: tuple[int, ...] | None = None

    def apply(self, frame: Any, fgmask: Any = None, learningRate: float = -1) -> np.ndarray:
        """Find the foreground of a frame, then learn the frame, like `apply` of OpenCV.

        Parameters
        ----------
        frame : array-like of shape (height, width) or (height, width, channels)
            The frame: integers from 0 to the largest value of their dtype, or floats from 0 to 1.
        fgmask : ndarray of shape (height, width), default=None
            The array to write the mask to; None means a new array.
        learningRate : float, default=-1
            The weight of the frame. A negative value means the default, 0 that the frame is not
            learned, and 1 that all earlier frames are forgotten first.

        Returns
        -------
        ndarray of shape (height, width) and dtype uint8
            255 for foreground, 0 for background.
        """
        pixels = self._pixels(frame)
        rate = number("learningRate", learningRate, at_most=1)
        if self._shape is None or rate == 1:
            self._begin(np.shape(frame), pixels.shape[1])
        fleet = self.fleet_
        scores = fleet.score_samples(pixels) / fleet.margin_
        foreground = scores < self.threshold
        if rate != 0:
            weight = np.full(len(pixels), rate if rate > 0 else 1.0)
            if self.n_frames_ >= self.warm_up and foreground.mean() <= self.changed:
                weight[foreground] *= self.caution
            fleet.learn(pixels, sample_weight=weight)
        self.n_frames_ += 1
        self.familiarity_ = scores.reshape(np.shape(frame)[:2])
        mask = np.zeros(np.shape(frame)[:2], np.uint8) if fgmask is None else fgmask
        mask[...] = np.where(foreground, 255, 0).reshape(mask.shape)
        return mask

    def background(self) -> np.ndarray:
        """Return the background: for every pixel the stored colour with the largest coefficient.

        Returns
        -------
        ndarray of floats from 0 to 1, with the shape of a frame
        """
        if self._shape is None:
            raise ValueError("no frame has come yet: call apply first.")
        models = self.fleet_.as_records()
        most = models.view("expansion.size2").argmax(axis=1)
        return models.points[np.arange(len(models)), :, most].reshape(self._shape)

    def _begin(self, shape: tuple[int, ...], n_channels: int) -> None:
        self._shape = shape
        n_pixels = shape[0] * shape[1]
        self.fleet_ = Fleet(
            self.preset, "novelty", n_pixels, n_channels, dtype=self.dtype, n_jobs=self.n_jobs,
            **self.params,
        )  # fmt: skip
        self.n_frames_ = 0

    def _pixels(self, frame: Any) -> np.ndarray:
        """Return one row per pixel, with values from 0 to 1."""
        frame = np.asarray(frame)
        if frame.ndim not in (2, 3) or frame.size == 0:
            raise ValueError(
                f"frame has the shape {frame.shape}: give (height, width) or (height, width, "
                "channels)."
            )
        if self._shape is not None and frame.shape != self._shape:
            raise ValueError(
                f"frame has the shape {frame.shape}, the frames before had {self._shape}: make a "
                "new subtractor for another picture."
            )
        pixels = frame.astype(self.dtype)
        if frame.dtype.kind in "iu":
            pixels /= np.iinfo(frame.dtype).max
        if not (pixels.min() >= 0 and pixels.max() <= 1):
            raise ValueError(
                f"frame has values from {pixels.min()} to {pixels.max()}: floats must be from 0 to "
                "1, whole numbers not negative. Divide them, or convert them to uint8."
            )
        return pixels.reshape(frame.shape[0] * frame.shape[1], -1)
