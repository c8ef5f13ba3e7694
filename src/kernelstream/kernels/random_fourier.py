"""Random Fourier features: a kernel of distances as an inner product of explicit features."""

import math
from typing import Any

import numpy as np

from kernelstream.kernels.base import check_gamma
from kernelstream.kernels.explicit import FeatureMap
from kernelstream.kernels.laplacian import Laplacian
from kernelstream.kernels.rbf import RBF
from kernelstream.parts import integer_at_least, one_of, parameters, part

__all__ = ["RandomFourier"]


@part("kernel", "random_fourier")
@parameters
class RandomFourier(FeatureMap):
    """Cosines and sines of random projections, whose inner product is nearly a kernel.

    ``phi(x) = sqrt(2 / n_features) [cos(w_i . x), sin(w_i . x)]`` with ``n_features / 2`` random
    frequencies ``w_i`` (Rahimi and Recht, 2007), so that ``<phi(x), phi(z)>`` is
    ``exp(-gamma |x - z|^2)`` on average, and its error falls as one over the root of
    ``n_features``. The model is one weight per feature: memory and time do not grow with the
    stream.

    Parameters
    ----------
    n_features : int, default=512
        How many explicit features there are, an even number.
    gamma : float or "auto", default="auto"
        As of the kernel; "auto" is one over the number of features of a row.
    approximates : {"rbf", "laplacian"}, default="rbf"
        The kernel. For the RBF kernel frequencies are drawn in orthogonal blocks, which lowers the
        error (Yu and others, 2016); for the Laplacian they are independent Cauchy numbers.
    random_state : int, default=0
        Seed of the random generator, from which the frequencies follow.

    Examples
    --------
    >>> from kernelstream.kernels import RBF, RandomFourier
    >>> nearly = RandomFourier(4096, gamma=0.5)([[0.0, 0.0]], [[1.0, 1.0]])
    >>> bool(abs(nearly - RBF(0.5)([[0.0, 0.0]], [[1.0, 1.0]])) < 0.05)
    True
    """

    n_features: int = 512
    gamma: Any = "auto"
    approximates: str = "rbf"
    random_state: int = 0

    has_unit_diagonal = True

    def check(self) -> None:
        if integer_at_least("n_features", self.n_features, 2) % 2:
            raise ValueError(
                f"n_features={self.n_features} is odd: features are pairs of a cosine and a sine, "
                f"so give {self.n_features + 1}, say."
            )
        check_gamma(self.gamma)
        one_of("approximates", self.approximates, ["rbf", "laplacian"])
        integer_at_least("random_state", self.random_state, 0)

    def auto_gamma(self, n_features: int, fineness: float | None) -> float:
        approximated = {"rbf": RBF, "laplacian": Laplacian}[self.approximates]
        return approximated().auto_gamma(n_features, fineness)

    def n_explicit(self, n_features):
        return int(self.n_features)

    def diagonal(self, x):
        return np.ones_like(x)

    def new_projection(self, n_inputs: int) -> np.ndarray:
        """Return the frequencies, of shape (inputs, n_features / 2)."""
        random = np.random.default_rng([int(self.random_state), n_inputs])
        n = self.n_features // 2
        if self.approximates == "laplacian":
            # Cauchy numbers are the Fourier transform of exp(-gamma |x - z|) in one feature
            return self.gamma * random.standard_cauchy((n_inputs, n))
        blocks = []
        for _ in range(math.ceil(n / n_inputs)):
            draws = random.standard_normal((n_inputs, n_inputs))
            directions, _ = np.linalg.qr(random.standard_normal((n_inputs, n_inputs)))
            blocks.append(directions * np.linalg.norm(draws, axis=0))
        return math.sqrt(2.0 * self.gamma) * np.hstack(blocks)[:, :n]

    def features(self, X, x):
        n = self.n_features // 2
        angles = np.asarray(X @ self.projection(X.shape[1], X.dtype))
        phi = np.empty((X.shape[0], 2 * n), X.dtype)
        np.cos(angles, out=phi[:, :n])
        np.sin(angles, out=phi[:, n:])
        phi *= phi.dtype.type(math.sqrt(1.0 / n))
        return phi
