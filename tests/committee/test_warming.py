"""Members are compiled side by side, once."""

import logging
import sys

import pytest

from kernelstream.cli import warmup
from kernelstream.committee import warming
from kernelstream.committee.warming import Piece


@pytest.fixture
def compiled_pieces(monkeypatch, tmp_path):
    """What is compiled in this process, and nothing is."""
    pieces = []
    monkeypatch.setattr(warming, "learn_some", lambda piece, *_: pieces.append(piece))
    monkeypatch.setattr(warmup, "learn_some", lambda piece, *_: pieces.append(piece))
    monkeypatch.setattr(warming, "note", lambda name: tmp_path / name)
    monkeypatch.setattr(warming, "n_cores", lambda: 2)
    return pieces


def test_a_committee_is_its_members_and_their_mixing():
    pieces = warming.pieces_of(Piece("AutoRegressor", 0))
    # another one of its machines differs from "narrow" in numbers alone
    assert {piece.member for piece in pieces} == {
        "matern", "narrow", "forest", "smd-linear", "adagrad", "rls", "mixing",
    }  # fmt: skip
    assert pieces[0].member == "matern"  # which takes longest
    assert warming.pieces_of(Piece("AutoDetector", 0)) == [Piece("AutoDetector", 0)]


def test_pieces_learn_rows_in_all_ways():
    for member in ("mixing", "smd-linear"):
        for is_sparse in (False, True):
            warming.learn_some(Piece("AutoRegressor", 0, is_sparse, member=member))
    warming.learn_some(Piece("AutoClassifier", 3, member="mixing"))


def test_another_process_takes_its_share():
    pieces, told = [Piece("AutoRegressor", 0, member="mixing")] * 12, []
    warming.compile_side_by_side([], 2, told.append)
    assert not told
    waiting = warming.deque(pieces)  # this process takes none
    warming._hand_out(waiting, told.append, False)
    assert told == pieces
    assert not waiting


def test_a_process_that_fails_leaves_its_piece(compiled_pieces, monkeypatch):
    monkeypatch.setattr(sys, "executable", "python-that-is-not-there")
    pieces = [Piece("AutoClassifier", 2, member=name) for name in "abc"]
    warming.compile_side_by_side(pieces, 4, lambda piece: None)
    assert compiled_pieces == pieces
    monkeypatch.undo()
    told, nonsense = [], [Piece("NoSuchClassifier", 2), Piece("AutoRegressor", 0, member="mixing")]
    waiting = warming.deque(nonsense)
    warming._hand_out(waiting, told.append, False)
    assert not told
    assert list(waiting) == nonsense[1:]


def test_it_is_done_once_and_said(compiled_pieces, monkeypatch, caplog):
    monkeypatch.setattr(warming, "_hand_out", lambda *_: None)
    whole = Piece("AutoClassifier", 2)
    with caplog.at_level(logging.WARNING, "kernelstream"):
        warming.compile_once(whole)
        warming.compile_once(whole)
    assert sorted(compiled_pieces) == sorted(warming.pieces_of(whole))
    assert [record.message for record in caplog.records] == [
        "kernelstream compiles the members of AutoClassifier on 2 cores, which takes some 10 "
        "seconds. The result is kept; `kernelstream warmup` does it beforehand."
    ]


def test_not_within_another_program(compiled_pieces, monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    warming.compile_once(Piece("AutoClassifier", 2))
    monkeypatch.delattr(sys, "frozen")
    monkeypatch.setattr(sys, "executable", "/usr/bin/an-application")
    warming.compile_once(Piece("AutoClassifier", 2))
    monkeypatch.undo()
    assert not compiled_pieces


def test_one_core_compiles_as_it_learns(compiled_pieces, monkeypatch):
    monkeypatch.setattr(warming, "n_cores", lambda: 1)
    warming.compile_once(Piece("AutoClassifier", 2))
    assert not compiled_pieces


def test_the_command_compiles_all_committees_and_tells_how_far_it_is(compiled_pieces, monkeypatch):
    told = []
    warmup.warm_up(1, lambda *progress: told.append(progress))
    wholes = [
        Piece("AutoClassifier", 2), Piece("AutoClassifier", 3), Piece("AutoRegressor", 0),
        Piece("AutoDetector", 0),
    ]  # fmt: skip
    pieces = [piece for whole in wholes for piece in warming.pieces_of(whole)]
    assert compiled_pieces == pieces + wholes
    assert [done for _, done, _ in told] == list(range(1, len(pieces) + 2))
    assert told[-1][0] == "all"
    compiled_pieces.clear()
    warming.compile_once(Piece("AutoClassifier", 3))  # which has been done
    assert not compiled_pieces
