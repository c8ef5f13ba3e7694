"""Presets that learn from a stream, with what each is for."""

import kernelstream as ks

IN_STREAMS = [
    (preset, task)
    for preset in ks.presets.names()
    for task in ks.presets.tasks(preset)
    if preset not in ("svrseq", "adatron")  # which work in fit only
]


def with_points(preset, size):
    """Parameters of a budget of points, for presets that keep points."""
    return {} if preset in ("smd-linear", "adagrad", "rls") else {"budget": size}
