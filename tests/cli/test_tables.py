"""Sources of rows as people have them: encodings, quotes, packed files; and columns that wait."""

import gzip
import io
import sys

import numpy as np
import pytest

from kernelstream.tables import SourceError, TableEncoder, open_source, records, text

ROWS = [["1.5", "x", "yes"], ["2.5", "y", "no"], ["3.5", "x", "yes"]]
PLAIN = "a,b,label\n" + "".join(",".join(row) + "\n" for row in ROWS)


def read(path, target="label", block_rows=1000, **options):
    return list(open_source(str(path), target, block_rows, **options))


def whole(path, **options):
    """A source of one block, as lists."""
    (block,) = read(path, **options)
    return block


@pytest.mark.parametrize(
    "content",
    [
        PLAIN.encode(),
        b"\xef\xbb\xbf" + PLAIN.encode(),
        PLAIN.encode("utf-16"),
        b"\n  \n\r\n" + PLAIN.encode(),
        gzip.compress(PLAIN.encode(), mtime=0),  # whatever its name says
        gzip.compress(b"\xef\xbb\xbf\n" + PLAIN.encode(), mtime=0),
        PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.replace("\n", "\n   \n").encode(),
    ],
    ids=["plain", "bom", "utf-16", "blank", "gzip", "gzip and bom", "crlf", "blank between"],
)
@pytest.mark.parametrize("piped", [False, True])
def test_text_is_read_as_people_have_it(tmp_path, monkeypatch, content, piped):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    if piped:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    block = whole("-" if piped else path)
    assert block.columns == ["a", "b"]
    assert block.rows == [row[:2] for row in ROWS]
    assert block.target == [row[2] for row in ROWS]
    assert not block.broken


def test_bytes_that_are_not_utf_8_stay_apart(tmp_path):
    (tmp_path / "t.csv").write_bytes("a,label\n1,é\n2,è\n3,né\n".encode("latin-1"))
    assert whole(tmp_path / "t.csv").target == ["é", "è", "né"]
    (tmp_path / "t.csv").write_bytes("a,label\n1,é\n".encode() + "2,é\n".encode("latin-1"))
    assert whole(tmp_path / "t.csv").target == ["é", "é"]


def test_long_fields(tmp_path):
    (tmp_path / "t.csv").write_text(f'a,b,label\n1,{"x" * 200_000},yes\n2,"{"y" * 200_000}",no\n')
    block = whole(tmp_path / "t.csv")
    assert [len(row[1]) for row in block.rows] == [200_000, 200_000]
    assert not block.broken


@pytest.mark.parametrize(
    "line",
    ['1,"x,yes', '"1,x,yes', '1,x,"yes', '1,"x"y,yes', '1,"x" ,"', '"1","x","yes'],
)
@pytest.mark.parametrize("later", ["", '4,"x, or z",no\n', '"4","x","no"\n', '4,"",no\n'])
def test_a_lost_quote_costs_its_own_row(tmp_path, line, later):
    lines = ["a,b,label", "0,x,yes", line, "2,y,no", "3,x,yes"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n" + later)
    block = whole(tmp_path / "t.csv")
    assert list(block.broken) == [1]
    assert "quote" in block.broken[1]
    assert block.places[:4] == ["line 2", "line 3", "line 4", "line 5"]
    assert [row[0] for row in block.rows] == ["0", "", "2", "3"] + ["4"] * bool(later)
    assert block.target[2:4] == ["no", "yes"]


def test_fields_over_several_lines_are_fine(tmp_path):
    (tmp_path / "t.csv").write_text('a,b,label\n1,"one\ntwo, ""three""\n\nfour",yes\n2,y,no\n')
    block = whole(tmp_path / "t.csv")
    assert block.rows == [["1", 'one\ntwo, "three"\n\nfour'], ["2", "y"]]
    assert block.places == ["line 2", "line 6"]
    assert not block.broken


def test_a_lost_quote_does_not_keep_the_rest_of_the_file_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "_LONGEST_OVER_LINES", 100)
    lines = [f"{i},x,yes" for i in range(500)]
    lines[3] = '3,"x,yes'
    (tmp_path / "t.csv").write_text("a,b,label\n" + "\n".join(lines))
    taken = []
    monkeypatch.setattr(
        records.Lines, "give_back",
        lambda self, keep, real=records.Lines.give_back: (
            taken.append(len(self.taken)), real(self, keep),
        ),
    )  # fmt: skip
    block = whole(tmp_path / "t.csv")
    assert list(block.broken) == [3]
    assert len(block.rows) == 500
    assert max(taken) == 13  # lines: the first, and a hundred characters more


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b'a,"b,label\n1,2,yes\n', "line 1: it has a quote that is not closed"),
        ("t.csv", b"", "is empty"),
        ("t.csv", b"\n \n\n", "is empty"),
        ("t.csv", b"PK\x03\x04\0\0\0\0", "is not text"),
        ("t.csv.gz", gzip.compress(PLAIN.encode(), mtime=0)[:-20], "cut short or damaged"),
        ("t.csv.gz", gzip.compress(PLAIN.encode(), mtime=0)[:3], "cut short or damaged"),
        ("t.csv.gz", b"\x1f\x8b\x08\x00" + bytes(30), "cut short or damaged"),
        ("t.npy", b"", "is not a file of NumPy's"),
        ("t.npy", b"text", "is not a file of NumPy's"),
        ("t.npy", b"\x93NUMPY\x01\x00", "cannot be read as arrays"),
        ("t.svm", PLAIN.encode(), "is it LIBSVM text?"),
        ("t.npz", b"PK\x03\x04 cut short", "cannot be read as arrays"),
        ("t.parquet", b"text", "t.parquet"),
        ("t.parquet.gz", b"text", "while it is packed"),
    ],
)
def test_what_cannot_be_read_says_so(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=message) as error:
        read(tmp_path / name)
    assert name in str(error.value)


def test_folders_and_standard_input(tmp_path, monkeypatch):
    with pytest.raises(SourceError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(SourceError, match="parquet cannot be read from standard input"):
        read("-", form="parquet")
    monkeypatch.setattr(sys, "stdin", None)  # so it is where it was closed
    with pytest.raises(SourceError, match="standard input is closed: pipe a table into it"):
        read("-")


def test_a_slow_pipe_is_read_as_it_comes():
    class Slow(io.RawIOBase):
        def __init__(self):
            self.pieces = [b"a", b",lab", b"el\n1,yes\n", b"2,no\n"]

        def readable(self):
            return True

        def read(self, n=-1):
            return self.pieces.pop(0) if self.pieces else b""

    slow = Slow()
    _, rejoined = text._looked_at(slow, "-")
    lines = io.TextIOWrapper(io.BufferedReader(rejoined))
    assert lines.readline() == "a,label\n"
    assert lines.readline() == "1,yes\n"
    assert slow.pieces == [b"2,no\n"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.zeros((5, 2)), "y": np.zeros(4)}, r"X has the shape \(5, 2\) and y has \(4,\)"),
        ({"X": np.zeros((5, 2)), "y": np.zeros((5, 2))}, "one target per row"),
        ({"X": np.zeros(5), "y": np.zeros(5)}, "give rows of numbers"),
        ({"X": np.array([["a"]]), "y": np.zeros(1)}, "give rows of numbers"),
        ({"X": np.array([[None]]), "y": np.zeros(1)}, "cannot be read as arrays"),
        ({"X": np.zeros((5, 2))}, "no 'y' among X"),
        ({"Z": np.zeros((5, 2))}, "no X among Z"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, arrays, message):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(SourceError, match=message):
        read(tmp_path / "t.npz", target="y")


def test_a_first_row_with_the_target_s_name_is_a_header(tmp_path):
    (tmp_path / "t.csv").write_text("2019,2020,label\n1,2,yes\n")
    block = whole(tmp_path / "t.csv")
    assert block.columns == ["2019", "2020"]
    assert block.rows == [["1", "2"]]
    (tmp_path / "t.csv").write_text("1,2,yes\n3,4,no\n")
    assert whole(tmp_path / "t.csv", target="2").target == ["yes", "no"]
    with pytest.raises(SourceError, match="The file has no header; a position"):
        read(tmp_path / "t.csv")


def test_delimiters_inside_quotes_do_not_count(tmp_path):
    (tmp_path / "t.csv").write_text('"a;b;c;d",label\n1,yes\n')
    assert whole(tmp_path / "t.csv").columns == ["a;b;c;d"]


@pytest.mark.parametrize(
    ("content", "features", "names", "target"),
    [
        ("1,2\n3,4\n", ["0", "2"], ["0", "2"], None),  # no target; columns go by position
        ("1,yes,2\n3,no,4\n", ["0", "2"], ["0", "2"], ["yes", "no"]),
        (
            "a,b\n1,2\n",
            ["a", "b"],
            ["a", "b"],
            None,
        ),  # not the last column, though `1` is asked for
    ],
)
def test_a_table_to_predict_may_do_without_its_target(tmp_path, content, features, names, target):
    (tmp_path / "t.csv").write_text(content)
    block = whole(tmp_path / "t.csv", target="1", features=features)
    assert block.columns == names
    assert block.target == target


def test_libsvm_lines(tmp_path):
    lines = ["# a comment", ""] * 5 + ["1 1:0.5 3:2 # more", "0", "2:1", "1 2147483648:1", "1 0:1"]
    lines += ["1 2:nan", "1 x", "1 7:1"]
    (tmp_path / "t.svm").write_text("\n".join(lines) + "\n")
    first, second = read(tmp_path / "t.svm", target=None, block_rows=4)
    assert first.target == ["1", "0", "", "1"]  # the third is there to be predicted
    assert first.rows.toarray().tolist() == [[0.5, 0, 2], [0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert list(first.broken) == [3]
    assert "an index above 2147483647: number the features anew" in first.broken[3]
    assert first.places[0] == "line 11"
    assert [second.broken[i].split(" has ")[-1] for i in (0, 1, 2)] == [
        "the index 0: indices count from 1", "a value that is not a finite number",
        "'x' is not index:value",
    ]  # fmt: skip
    assert second.rows.shape == (4, 7)
    (block,) = read(tmp_path / "t.svm", n_features=5)
    assert block.rows.shape[1] == 5
    assert "a feature 7, of 5 (see --features)" in block.broken[7]


def test_nothing_but_a_target(tmp_path):
    (tmp_path / "t.csv").write_text("label\nyes\nno\n")
    with pytest.raises(SourceError, match="no column besides the target"):
        TableEncoder.from_block(whole(tmp_path / "t.csv"))
