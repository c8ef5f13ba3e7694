"""Output files: never an input, never each other, and the old one until the new one is whole."""

import os

import numpy as np
import pytest
from typer.testing import CliRunner

import kernelstream as ks
from kernelstream.cli import run_options
from kernelstream.cli.app import app

pytestmark = pytest.mark.usefixtures("without_compiler")
X = np.round(np.random.default_rng(0).normal(size=(40, 2)), 3)


@pytest.fixture
def folder(tmp_path):
    lines = [f"{a},{b},{a - b:.3f}" for a, b in X]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    model = ["--model", str(tmp_path / "m.ks"), "--algorithm", "linear-pa"]
    call("run", tmp_path / "t.csv", "--target", "y", "--task", "regress", *model)
    return tmp_path


def call(*arguments, code=0):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize("way", ["itself", "link", "hard link", "dots"])
def test_a_prediction_does_not_replace_its_model_or_its_table(folder, way):
    for name, what in (("m.ks", "the model itself"), ("t.csv", "the table itself")):
        out = folder / {"itself": name, "dots": f"../{folder.name}/{name}"}.get(
            way, f"other-{name}"
        )
        if way == "link":
            out.symlink_to(folder / name)
        elif way == "hard link":
            os.link(folder / name, out)
        before = (folder / name).read_bytes()
        refused = call("predict", folder / "m.ks", folder / "t.csv", "--out", out, code=1)
        assert what in refused.stderr
        assert (folder / name).read_bytes() == before


def test_a_prediction_does_not_replace_a_checkpoint_of_the_folder_it_reads(folder):
    how = ["--algorithm", "linear-pa", "--checkpoint", folder / "c", "--task", "regress"]
    call("run", folder / "t.csv", "--target", "y", *how)
    (file,) = (folder / "c").glob("*.ks")
    refused = call("predict", folder / "c", folder / "t.csv", "--out", file, code=1)
    assert "is the model itself" in refused.stderr
    assert ks.load(file).n_seen_ == 40


@pytest.mark.parametrize(
    ("first", "second"),
    [("--model", "--plot"), ("--model", "--metrics"), ("--metrics", "--bad-rows"),
     ("--plot", "--bad-rows")],
)  # fmt: skip
@pytest.mark.parametrize("linked", [False, True])
def test_two_outputs_are_two_files(folder, first, second, linked):
    one = folder / "one.png"
    other = folder / "other.png" if linked else one
    if linked:
        other.symlink_to(one)
    arguments = ["--target", "y", first, one, second, other]
    refused = call("run", folder / "t.csv", *arguments, code=1)
    assert "are the same file" in refused.stderr
    assert not one.exists()


def test_an_output_is_no_input_of_a_run(folder):
    for option in ("--model", "--metrics", "--bad-rows", "--plot"):
        refused = call("run", folder / "t.csv", "--target", "y", option, folder / "t.csv", code=1)
        assert "is the table itself" in refused.stderr


def test_the_old_prediction_stays_until_the_new_one_is_whole(folder):
    out = folder / "out.csv"
    call("predict", folder / "m.ks", folder / "t.csv", "--out", out)
    before = out.read_text()
    (folder / "bad.csv").write_text("a,c\n1,2\n")  # a column is missing
    call("predict", folder / "m.ks", folder / "bad.csv", "--out", out, code=1)
    assert out.read_text() == before
    assert sorted(p.name for p in folder.iterdir()) == ["bad.csv", "m.ks", "out.csv", "t.csv"]
    (folder / "link.csv").symlink_to(out)
    call("predict", folder / "m.ks", folder / "t.csv", "--out", folder / "link.csv")
    assert (folder / "link.csv").is_symlink()  # what it leads to was replaced
    assert call("predict", folder / "m.ks", folder / "t.csv", "--out", "/dev/null").exit_code == 0


def test_what_a_run_remembers_of_its_past_is_bounded(monkeypatch):
    monkeypatch.setattr(run_options, "_MOST_LINES", 20)
    progress = run_options.Progress()
    for block in range(1000):
        progress.n_rows = block
        progress.note(None)
    rows = [line[0] for line in progress.series]
    assert len(rows) <= 20
    assert rows[-1] == 999
    assert len(set(np.diff(rows[:-1]))) == 1  # they lie evenly
