"""`kernelstream warmup`: what it compiles is what the estimators need."""

import kernelstream as ks
from kernelstream.cli import warmup


def test_it_names_every_member_and_tells_how_far_it_is(monkeypatch):
    learned, told = [], []
    monkeypatch.setattr(warmup, "_learn_some", lambda *piece: learned.append(piece))
    warmup.warm_up(1, lambda *progress: told.append(progress))
    assert learned == [
        ("AutoClassifier", 2), ("AutoClassifier", 3), ("AutoRegressor", 0), ("AutoDetector", 0)
    ]  # fmt: skip
    names = [member.name for member in ks.AutoRegressor().chosen(4, False)]
    assert warmup._members("AutoRegressor") == names
    assert warmup._members("AutoDetector") == [None]
    assert told == [("all", 20, 20)]


def test_it_learns_rows_in_all_ways():
    warmup._learn_some("AutoDetector", 0)
    warmup._learn_some("AutoRegressor", 0, "smd-linear")
