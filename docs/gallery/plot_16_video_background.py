"""
The background of a video
=========================

A camera looks at a scene that does not change, but for noise and a lamp that flickers. A disc
moves through it, and from frame 70 on a box stands still. One small novelty detector per pixel
learns what the pixel usually looks like; what it does not know is foreground.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelstream as ks

random = np.random.default_rng(0)
rows, columns = np.mgrid[:60, :90]


def frame_of(number):
    """The frame with this number, and where the disc and the box are."""
    picture = 80 + 0.8 * columns + 15 * np.sin(rows / 6)
    picture[5:15, 70:80] = 230 if number % 3 else 120  # the lamp
    truth = (rows - 35) ** 2 + (columns - number) ** 2 < 60
    if number >= 70:
        truth |= (rows >= 44) & (columns >= 10) & (columns < 22)
    picture = np.where(truth, 40, picture) + random.normal(0, 3, picture.shape)
    return picture.clip(0, 255).astype(np.uint8), truth


subtractor = ks.vision.BackgroundSubtractor()
frames, masks, right = [], [], []
for number in range(-30, 90):  # the first 30 frames show the empty scene
    frame, truth = frame_of(number)
    mask = subtractor.apply(frame) == 255
    if number >= 0:
        frames.append(frame)
        masks.append(mask)
        right.append([np.mean(mask[truth]), np.mean(mask[~truth])])
found, false = np.mean(right, axis=0)
print(f"{found:.0%} of the foreground found, {false:.2%} of the background marked")

# %%
# The lamp has two colours, and a pixel may keep several, so that it is background. The picture of
# the background has the colour that each pixel knows best; the disc and the box are not in it.

figure, axes = plt.subplots(2, 4, figsize=(10, 3.8), layout="constrained")
for axis, number in zip(axes.T, [10, 45, 80], strict=False):
    axis[0].imshow(frames[number], cmap="gray", vmin=0, vmax=255)
    axis[0].set_title(f"frame {number}")
    axis[1].imshow(masks[number], cmap="gray")
axes[0, 3].imshow(subtractor.background(), cmap="gray", vmin=0, vmax=1)
axes[0, 3].set_title("background")
for axis in axes.flat:
    axis.set_axis_off()
plt.show()
