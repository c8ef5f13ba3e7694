"""Background subtraction, on pictures made up here."""

import numpy as np
import pytest

import kernelstream as ks

SHAPE = (12, 16)
BOX = (slice(3, 9), slice(4, 10))


pytestmark = pytest.mark.usefixtures("without_compiler")


def scene(light=100, box=False, channels=None, seed=0):
    random = np.random.default_rng(seed)
    frame = light + random.normal(0, 2, size=SHAPE if channels is None else (*SHAPE, channels))
    if box:
        frame[BOX] += 80
    return frame.clip(0, 255).astype(np.uint8)


def box_mask():
    mask = np.zeros(SHAPE, np.uint8)
    mask[BOX] = 255
    return mask


@pytest.mark.parametrize("channels", [None, 3])
def test_what_is_new_is_foreground_and_stays_it(channels):
    subtractor = ks.vision.BackgroundSubtractor(warm_up=12)
    for t in range(20):
        mask = subtractor.apply(scene(seed=t, channels=channels))
    assert mask.shape == SHAPE
    assert mask.dtype == np.uint8
    assert (mask == 0).mean() > 0.97
    for t in range(15):  # somebody stands still
        mask = subtractor.apply(scene(box=True, seed=20 + t, channels=channels))
    np.testing.assert_array_equal(mask[BOX], 255)
    assert (mask == box_mask()).mean() > 0.97
    background = subtractor.background()
    assert background.shape == (SHAPE if channels is None else (*SHAPE, channels))
    np.testing.assert_allclose(background, 100 / 255, atol=0.04)


def test_without_caution_what_stands_still_becomes_background():
    subtractor = ks.vision.BackgroundSubtractor(warm_up=12, caution=1.0)
    for t in range(40):
        mask = subtractor.apply(scene(box=t >= 20, seed=t))
    assert (mask[BOX] == 0).mean() > 0.9


def test_it_recovers_from_a_change_of_light():
    subtractor = ks.vision.BackgroundSubtractor(warm_up=12)
    for t in range(20):
        subtractor.apply(scene(seed=t))
    shares = [(subtractor.apply(scene(light=200, seed=20 + t)) == 255).mean() for t in range(15)]
    assert shares[0] == 1.0
    assert shares[-1] < 0.05


def test_apply_is_opencvs():
    subtractor = ks.vision.BackgroundSubtractor()
    for t in range(5):
        subtractor.apply(scene(seed=t))
    before = subtractor.fleet_.as_records().floats.copy()
    given = np.empty(SHAPE, np.uint8)
    assert subtractor.apply(scene(box=True), given, learningRate=0) is given
    np.testing.assert_array_equal(given[BOX], 255)
    np.testing.assert_array_equal(subtractor.fleet_.as_records().floats, before)
    subtractor.apply(scene(light=200), learningRate=1)  # forgets everything first
    assert subtractor.fleet_.n_seen_.max() == 1
    assert subtractor.familiarity_.shape == SHAPE


def test_floats_and_whole_numbers_are_the_same():
    whole, real = ks.vision.BackgroundSubtractor(), ks.vision.BackgroundSubtractor()
    for t in range(12):
        frame = scene(seed=t, box=t > 9)
        np.testing.assert_array_equal(whole.apply(frame), real.apply(frame / 255.0))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (np.zeros((3, 4, 3, 2)), "shape"),
        (np.zeros((0, 4)), "shape"),
        (np.full((3, 4), 7.0), "from 7.0 to 7.0"),
        (np.full((3, 4), np.nan), "from nan"),
        (np.zeros((5, 5)), "the frames before had"),
    ],
)
def test_what_is_no_frame_is_said(frame, message):
    subtractor = ks.vision.BackgroundSubtractor()
    if frame.shape == (5, 5):
        subtractor.apply(np.zeros((3, 4)))
    with pytest.raises(ValueError, match=message):
        subtractor.apply(frame)


@pytest.mark.parametrize("name", ["threshold", "caution", "changed", "width"])
def test_parameters_are_checked(name):
    with pytest.raises(ValueError, match=name if name != "width" else "width"):
        ks.vision.BackgroundSubtractor(**{name: -1.0})
    with pytest.raises(ValueError, match="no frame"):
        ks.vision.BackgroundSubtractor().background()
