"""Presets that learn from a stream, with what each is for."""

import kernelstream as ks

IN_STREAMS = [
    (preset, task)
    for preset in ks.presets.names()
    for task in ks.presets.tasks(preset)
    if preset not in ("svrseq", "adatron")  # which work in fit only
]
