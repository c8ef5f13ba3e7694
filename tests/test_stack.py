"""Calls that are nested deeply take no memory anew at every turn of a loop."""

import pytest

from kernelstream.stack import with_room


def test_a_function_with_room_is_the_same_function():
    @with_room
    def total(a, *, b=2):
        """The sum."""
        return a + b

    assert total(1) == 3
    assert total(1, b=5) == 6
    assert total.__doc__ == "The sum."
    with pytest.raises(TypeError):
        total()


def loop_at(depth):
    if depth > 0:
        return loop_at(depth - 1)
    for _ in range(1000):
        max((1, 2), key=lambda number: number)
    return depth


@with_room
def loop_at_every_depth():
    """In pieces of 16 KB, some depth is where one ends, and each turn there takes a page."""
    for depth in range(300):
        loop_at(depth)


def test_a_loop_takes_no_memory_at_any_depth():
    resource = pytest.importorskip("resource")
    loop_at_every_depth()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    loop_at_every_depth()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 500
