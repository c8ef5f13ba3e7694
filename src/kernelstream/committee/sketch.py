"""Sparse rows as short dense ones, at the cost of their nonzeros.

An entry is scaled by the root of the mean square that its feature had in the rows so far and this
one, zeros included, and not centred. So it is at most ``sqrt(rows)``, which is what a feature gets
that no row had before. ``asinh`` makes of that nearly the logarithm: where all entries are one,
half of what is known as the inverse document frequency.

Then every feature is added to four of 60 sums, one of each 15, with a sign; which ones and which
signs is random, but the same for all rows (a sparse form of the lemma of Johnson and Lindenstrauss;
Kane and Nelson 2014). Distances, correlations and projections of the sums stand for those of the
rows. Four more numbers come before, and say what sums with random signs blur: the mean square of
the row's entries (which is what the z-score looks at), the largest, how many there are, and how
many of them are of features that no row had before.
"""

import math

from kernelstream.committee.random_numbers import integer
from kernelstream.compile import compiled

__all__ = ["SKETCH_WIDTH", "sketch"]

SKETCH_WIDTH = 64
_N_SUMMARIES = 4
_N_PLACES = 4  # sums that a feature is added to
_N_SUMS = (SKETCH_WIDTH - _N_SUMMARIES) // _N_PLACES  # of which it is one
_WEIGHT = 0.5  # one over their root, so that lengths stay
# Sums of multiples of this have no rounding error. So what cancels is zero, and not the rest that
# rounding leaves, which would be new where all rows had zero.
_UNIT = 2.0**-32


@compiled
def sketch(seed, square, n_rows, indptr, indices, data, weight, learns, out):
    """Write what is made of sparse rows in order, each by those before it; learn them if asked to.

    `square` has the sums of squares of the features, over `n_rows` rows.
    """
    for i in range(out.shape[0]):
        for place in range(out.shape[1]):
            out[i, place] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j, x = indices[e], data[e]
            if x == 0.0:
                continue
            value = math.asinh(x * math.sqrt((n_rows + 1.0) / (square[j] + x * x)))
            value = math.floor(value / _UNIT + 0.5) * _UNIT
            out[i, 0] += value * value  # and divided below
            out[i, 1] = max(out[i, 1], abs(value))
            out[i, 2] += 1.0
            out[i, 3] += 1.0 if square[j] == 0.0 else 0.0
            for k in range(_N_PLACES):
                bits = integer(seed, _N_PLACES * j + k)
                sign = _WEIGHT if bits % 2 == 0 else -_WEIGHT
                out[i, _N_SUMMARIES + k * _N_SUMS + (bits // 2) % _N_SUMS] += sign * value
        out[i, 0] /= max(out[i, 2], 1.0)
        if learns and weight[i] != 0.0:
            for e in range(indptr[i], indptr[i + 1]):
                square[indices[e]] += data[e] * data[e]
            n_rows += 1
