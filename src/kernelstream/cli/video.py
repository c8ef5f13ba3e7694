"""Background subtraction of a whole video, frame by frame, in bounded memory."""

import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kernelstream.cli.outputs import replaced
from kernelstream.progress import progress_bar
from kernelstream.vision import BackgroundSubtractor

__all__ = ["subtract"]

_GIF_FRAMES = 200
_GIF_WIDTH = 320


def subtract(
    source: Path, out: Path, gif: Path | None, key: str | None, subtractor: BackgroundSubtractor
) -> dict[str, Any]:
    """Write the mask of every frame to `out`; return counts and rates for the summary."""
    n_frames, frames = _frames(source, key)
    packed: list[np.ndarray] = []  # one bit per pixel
    shown: list[np.ndarray] = []
    every = max(1, (n_frames or 10 * _GIF_FRAMES) // _GIF_FRAMES)
    shape, seconds = (0, 0), 0.0
    with progress_bar(n_frames or 0, source.name, shown=True) as show:
        for number, frame in enumerate(frames):
            begin = time.perf_counter()
            mask = subtractor.apply(frame)
            seconds += time.perf_counter() - begin
            shape = mask.shape
            packed.append(np.packbits(mask > 0))
            if gif is not None and number % every == 0:
                shown.append(_side_by_side(frame, mask))
            show(number + 1)
    if not packed:
        raise ValueError(f"{source} has no frames.")
    _write_masks(out, packed, shape)
    if gif is not None:
        _write_gif(gif, shown)
    n = len(packed)
    foreground = sum(int(np.unpackbits(bits)[: shape[0] * shape[1]].sum()) for bits in packed)
    return {
        "frames": n, "height": shape[0], "width": shape[1], "frames per second": n / seconds,
        "foreground": foreground / (n * shape[0] * shape[1]),
    }  # fmt: skip


def _frames(source: Path, key: str | None) -> tuple[int | None, Iterator[np.ndarray]]:
    """Return the number of frames, if it is known, and the frames."""
    if not source.exists():
        raise FileNotFoundError(f"{source} is not there.")
    if source.suffix not in (".npy", ".npz"):
        return _decoded(source)
    with source.open("rb") as file:
        if not file.read(6).startswith((b"\x93NUMPY", b"PK")):
            raise ValueError(f"{source} is not a file of NumPy's, .npy or .npz.")
    if source.suffix == ".npy":
        frames = np.load(source, mmap_mode="r", allow_pickle=False)
        return len(frames), iter(frames)
    with np.load(source, allow_pickle=False) as arrays:
        chosen = key or ("frames" if "frames" in arrays else arrays.files[0])
        if chosen not in arrays:
            raise ValueError(
                f"{source} has no array {chosen!r}: choose --key among {', '.join(arrays.files)}."
            )
        frames = arrays[chosen]
    if frames.ndim not in (3, 4):
        raise ValueError(
            f"{chosen!r} in {source} has the shape {frames.shape}: frames are (n, height, width) "
            "or (n, height, width, channels). Choose another array with --key."
        )
    return len(frames), iter(frames)


def _decoded(source: Path) -> tuple[int | None, Iterator[np.ndarray]]:
    """Yield the frames of a video file."""
    try:
        import av
    except ImportError:
        raise ValueError(
            f"{source} is a video file, and reading it needs PyAV: pip install "
            "'kernelstream[video]'; or give the frames as .npz."
        ) from None
    try:
        container = av.open(str(source))
        stream = container.streams.video[0]
    except (av.error.FFmpegError, IndexError) as error:
        raise ValueError(f"{source} cannot be read as a video: {error}") from None
    frames = (frame.to_ndarray(format="rgb24") for frame in container.decode(stream))
    return stream.frames or None, frames


def _write_masks(out: Path, packed: list[np.ndarray], shape: tuple[int, int]) -> None:
    """Write an .npz with the array `masks`, 0 or 255, one frame at a time."""
    n_pixels = shape[0] * shape[1]
    header = {"descr": "|u1", "fortran_order": False, "shape": (len(packed), *shape)}
    with (
        replaced(out) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("masks.npy", "w", force_zip64=True) as file,
    ):
        np.lib.format.write_array_header_2_0(file, header)
        for bits in packed:
            file.write((255 * np.unpackbits(bits)[:n_pixels]).tobytes())


def _side_by_side(frame: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the frame and its mask, small enough for a GIF."""
    step = max(1, frame.shape[1] // _GIF_WIDTH)
    frame = frame[::step, ::step]
    if frame.dtype.kind == "f":
        frame = (255 * frame).astype(np.uint8)
    if frame.ndim == 3:
        frame = frame[..., :3].mean(axis=2).astype(np.uint8)
    return np.hstack([frame, mask[::step, ::step]])


def _write_gif(path: Path, pictures: list[np.ndarray]) -> None:
    from PIL import Image

    first, *others = [Image.fromarray(picture) for picture in pictures]
    with replaced(path) as new:
        first.save(new, format="GIF", save_all=True, append_images=others, duration=80, loop=0)
