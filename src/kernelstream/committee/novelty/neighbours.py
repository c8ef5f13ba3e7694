"""The nearest rows of the reservoir, in the units of the features or after whitening."""

import math
from typing import Any, NamedTuple

from kernelstream.compile import helper
from kernelstream.parts import Field

__all__ = ["Neighbourhood", "Space", "distances_to_last", "relative_distance", "search"]

_N_NEIGHBOURS = 15


class Space(NamedTuple):
    """The rows of the reservoir as they lie in one space."""

    points: Any  # (features, points)
    reach: Any  # (points,): the distance to the last neighbour

    @staticmethod
    def declared(axis: str) -> "Space":
        """Return the declaration of the arrays; `axis` names the number of features."""
        return Space(Field((axis, "points"), 0.0), Field(("points",), 0.0, least=0.0))


class Neighbourhood(NamedTuple):
    """Where a row lies in a `Space`: memory that every row overwrites."""

    x: Any  # (features,): the row
    distance: Any  # (points,): squared distances
    near: Any  # (neighbours,): the smallest of them, in order
    slot: Any  # (neighbours,): the slots of these points
    n_found: Any
    reach: Any  # the distance to the last neighbour

    @staticmethod
    def declared(axis: str) -> "Neighbourhood":
        """Return the declaration of the arrays; `axis` names the number of features."""
        return Neighbourhood(
            x=Field((axis,), 0.0),
            distance=Field(("points",), 0.0),
            near=Field(("neighbours",), 0.0),
            slot=Field(("neighbours",), 0, int),
            n_found=Field((), 0, int),
            reach=Field((), 0.0),
        )

    @staticmethod
    def axes() -> dict[str, int]:
        """Return the lengths of the axes that only a neighbourhood has."""
        return {"neighbours": _N_NEIGHBOURS}


@helper(apart=True)
def _distances(points, n_points, x, out):
    """Write the squared distances of x from the first points, two features at a time."""
    n = x.shape[0]
    for s in range(n_points):
        out[s] = 0.0
    for j in range(0, n - 1, 2):
        first, second = x[j], x[j + 1]
        for s in range(n_points):
            a, b = first - points[j, s], second - points[j + 1, s]
            out[s] += a * a + b * b
    if n % 2 == 1:
        for s in range(n_points):
            a = x[n - 1] - points[n - 1, s]
            out[s] += a * a


@helper(apart=True)
def _nearest(distance, n_points, itself, near, slot):
    """Write the smallest distances in order, and the slots; return how many there are."""
    found = 0
    for s in range(n_points):
        if (found == near.shape[0] and distance[s] >= near[found - 1]) or s == itself:
            continue
        place = found if found < near.shape[0] else found - 1
        found = place + 1
        while place > 0 and near[place - 1] > distance[s]:
            near[place], slot[place] = near[place - 1], slot[place - 1]
            place -= 1
        near[place], slot[place] = distance[s], s
    return found


@helper
def _reach(found, near, n_features):
    """Return the distance to the last of the neighbours, per feature."""
    return math.sqrt(near[found - 1] / n_features) if found > 0 else 0.0


@helper
def search(space, n_points, hood):
    """Find the neighbours of the row in `hood`."""
    _distances(space.points, n_points, hood.x, hood.distance)
    hood.n_found[0] = _nearest(hood.distance, n_points, -1, hood.near, hood.slot)
    hood.reach[0] = _reach(hood.n_found[0], hood.near, hood.x.shape[0])


@helper(apart=True)
def distances_to_last(points, n_points, x, distance, near, slot, out):
    """Write the distance to its last neighbour of every row of the reservoir."""
    for s in range(n_points):
        for j in range(x.shape[0]):
            x[j] = points[j, s]
        _distances(points, n_points, x, distance)
        found = _nearest(distance, n_points, s, near, slot)
        out[s] = _reach(found, near, x.shape[0])


@helper
def relative_distance(space, hood, power):
    """Return ``log((A + 0.01) / (D + 0.01)^power)``.

    A is the mean distance to the neighbours, and D their mean distance to their own last neighbour.
    """
    away, others = 0.0, 0.0
    for i in range(hood.n_found[0]):
        away += math.sqrt(hood.near[i] / hood.x.shape[0])
        others += space.reach[hood.slot[i]]
    n = hood.n_found[0]
    return math.log(away / n + 0.01) - power * math.log(others / n + 0.01)
