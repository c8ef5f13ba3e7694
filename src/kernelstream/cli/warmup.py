"""Compiles what the Auto estimators need, on all cores, so that their first call starts at once."""

import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import numpy as np

import kernelstream as ks
from kernelstream.compiled import seconds_compiling

__all__ = ["be_quiet", "warm_up"]

_N_ROWS, _N_FEATURES = 130, 4  # enough for tiles, single rows, a metric and a full histogram
_ESTIMATORS = {  # with the numbers of classes for which the code differs; 0: no labels
    "AutoClassifier": (2, 3),
    "AutoRegressor": (0,),
    "AutoDetector": (0,),
}


def warm_up(n_jobs: int | None, tell: Callable[[str, int, int], None]) -> float:
    """Compile members in processes of their own; returns how long this process compiled the rest.

    Numba compiles under one lock per process, so that threads would wait for each other. Where two
    processes kept the same function at the same time one of the results may be lost; the last pass,
    over whole estimators, finds and compiles these.
    """
    pieces = [(*whole, member) for whole in _wholes() for member in _members(whole[0])]
    # one after the other would be as fast on one core, and needs no more processes
    n_jobs = min(n_jobs or os.cpu_count() or 1, len(pieces))
    if n_jobs > 1:
        spawn = multiprocessing.get_context("spawn")  # a fork would share the compiler's locks
        with ProcessPoolExecutor(n_jobs, mp_context=spawn, initializer=be_quiet) as pool:
            waiting = {pool.submit(_learn_some, *piece): piece for piece in pieces}
            for done, future in enumerate(as_completed(waiting)):
                future.result()
                tell(f"{waiting[future][0]}: {waiting[future][2]}", done + 1, len(pieces) + 1)
    begin = seconds_compiling()
    for whole in _wholes():
        _learn_some(*whole)
    tell("all", len(pieces) + 1, len(pieces) + 1)
    return seconds_compiling() - begin


def be_quiet() -> None:
    """That it compiles is no news here."""
    logging.getLogger("kernelstream").setLevel(logging.ERROR)


def _wholes() -> Iterator[tuple[str, int]]:
    for name, classes in _ESTIMATORS.items():
        for n_classes in classes:
            yield name, n_classes


def _members(name: str) -> list[str | None]:
    """The members of a committee, or None for an estimator that is one piece of code."""
    chosen = getattr(getattr(ks, name)(), "chosen", None)
    return [None] if chosen is None else [m.name for m in chosen(_N_FEATURES, False)]


def _learn_some(name: str, n_classes: int, member: str | None = None) -> None:
    """Let an estimator, or one of its members, learn and predict some rows in all ways."""
    model: Any = getattr(ks, name)()
    if member is not None:
        chosen = {m.name: m.model for m in model.chosen(_N_FEATURES, False)}
        model = chosen[member]
    random = np.random.default_rng(0)
    X = random.normal(size=(_N_ROWS, _N_FEATURES))
    y = X[:, 0] if n_classes == 0 else np.arange(_N_ROWS) % n_classes
    if name == "AutoDetector":
        model.partial_fit(X[:-1])
        model.learn_one(X[-1])
    else:
        known = {"classes": np.arange(n_classes)} if n_classes else {}
        model.partial_fit(X[:-1], y[:-1], **known)
        model.learn_one(X[-1], y[-1])
    model.predict(X)
    model.predict_one(X[0])
