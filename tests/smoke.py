"""What an installed wheel must do, with nothing but the package: ``make dist`` runs this."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import kernelstream as ks


def main():
    home = Path(ks.__file__)
    assert "site-packages" in home.parts, f"This is not an installed package: {home}"
    assert (home.parent / "py.typed").exists()
    X, y = ks.streams.drifting_gaussians(500, random_state=0)
    model = ks.KernelClassifier(gamma=1 / 31250)
    error_rate = ks.prequential(model, X, y).error_rate
    assert error_rate < 0.2, error_rate
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.ks")
        again = ks.load(Path(folder) / "model.ks")
    assert np.array_equal(again.predict(X), model.predict(X))
    # the lab is another distribution: its commands say so
    command = Path(sys.executable).with_name("kernelstream")
    refusal = subprocess.run([command, "reproduce"], capture_output=True, text=True, check=False)
    assert refusal.returncode == 1
    assert "pip install kernelstream-lab" in refusal.stderr
    print(f"kernelstream {ks.__version__}: {error_rate:.1%} error, saved and loaded")


if __name__ == "__main__":
    main()
