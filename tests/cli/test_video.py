"""`kernelstream video`."""

import numpy as np
import pytest
from typer.testing import CliRunner

from kernelstream.cli.app import app

pytestmark = pytest.mark.usefixtures("without_compiler")


def frames(n=30):
    random = np.random.default_rng(0)
    video = random.normal(100, 2, size=(n, 16, 32)).clip(0, 255).astype(np.uint8)
    video[-5:, 4:10, 8:20] = 220
    return video


def call(*arguments):
    return CliRunner().invoke(app, ["video", *map(str, arguments)])


def test_masks_and_a_gif_from_frames(tmp_path):
    np.savez(tmp_path / "in.npz", frames=frames())
    result = call(tmp_path / "in.npz", "--out", tmp_path / "m.npz", "--gif", tmp_path / "m.gif")
    assert result.exit_code == 0, result.output
    assert "30 frames of 32 x 16" in result.output
    assert "per second" in result.output
    masks = np.load(tmp_path / "m.npz")["masks"]
    assert masks.shape == (30, 16, 32)
    assert set(np.unique(masks)) == {0, 255}
    assert (masks[-1, 4:10, 8:20] == 255).all()
    assert (masks[20] == 255).mean() < 0.05
    from PIL import Image

    with Image.open(tmp_path / "m.gif") as picture:
        assert picture.size == (64, 16)
        assert picture.n_frames > 1


def test_frames_of_a_video_file(tmp_path):
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "in.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 16, "yuv420p"
        for frame in frames():
            picture = av.VideoFrame.from_ndarray(np.repeat(frame[..., None], 3, 2), format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
    result = call(tmp_path / "in.mp4", "--out", tmp_path / "m.npz")
    assert result.exit_code == 0, result.output
    masks = np.load(tmp_path / "m.npz")["masks"]
    assert masks.shape == (30, 16, 32)
    assert (masks[-1, 5:9, 9:19] == 255).all()


def test_what_is_no_video_is_said(tmp_path):
    (tmp_path / "text.mp4").write_text("no video")
    np.savez(tmp_path / "flat.npz", frames=np.zeros((3, 4)))
    np.save(tmp_path / "none.npy", np.zeros((0, 4, 4), np.uint8))
    for source, options, message in [
        ("missing.npz", [], "is not there"),
        ("text.mp4", [], "cannot be read as a video"),
        ("flat.npz", [], "--key"),
        ("flat.npz", ["--key", "pictures"], "no array 'pictures'"),
        ("none.npy", [], "has no frames"),
    ]:
        result = call(tmp_path / source, "--out", tmp_path / "m.npz", *options)
        assert result.exit_code == 1
        assert message in result.output
        assert not (tmp_path / "m.npz").exists()
