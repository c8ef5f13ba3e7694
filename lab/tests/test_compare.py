"""`kernelstream compare`."""

import pytest
from typer.testing import CliRunner

from kernelstream import datasets
from kernelstream.cli.app import app

pytestmark = pytest.mark.usefixtures("without_compiler")


def call(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def test_a_table_and_a_plot(tmp_path):
    result = call("--data", "digits", "--learners", "perceptron, lasvm", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    table = (tmp_path / "compare.md").read_text()
    lines = [line for line in table.splitlines() if line.startswith("|")]
    assert [line.split()[1] for line in lines[2:]] == ["perceptron", "lasvm", "SVC"]
    perceptron, lasvm, batch = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]
    )
    assert float(perceptron[1][:-1]) < 15
    assert lasvm[1] == lasvm[2] == "-"
    assert abs(float(lasvm[3][:-1]) - float(batch[3][:-1])) < 1
    assert (tmp_path / "compare.png").read_bytes()[1:4] == b"PNG"
    for line in ("perceptron", "lasvm", "SVC"):
        assert line in result.output


def test_digits_where_usps_is_not_there(tmp_path, monkeypatch):
    def nowhere(name, load=datasets.load):
        if name == "usps":
            raise datasets.DatasetError("usps was not found: put it there")
        return load(name)

    monkeypatch.setattr(datasets, "load", nowhere)
    result = call("--learners", "perceptron", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "put it there" in result.output
    assert (tmp_path / "compare.md").read_text().startswith("digits")


def test_what_cannot_be_compared_is_said(tmp_path):
    for arguments, message in [
        (["--learners", "sog-svr"], "no classifier"),
        (["--learners", "perzeptron"], "preset='perzeptron'"),
        (["--data", "iris"], "usps or digits"),
    ]:
        result = call(*arguments, "--out", tmp_path / "none")
        assert result.exit_code == 1
        assert message in result.output
        assert not (tmp_path / "none").exists()
