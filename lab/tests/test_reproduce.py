"""`kernelstream reproduce`, as a user calls it."""

from tests.cli.test_cli import kernelstream


def test_list():
    run = kernelstream("reproduce", "--list")
    assert run.returncode == 0, run.stderr
    assert "svmd-usps-binary" in run.stdout
    assert "sog-sinc" in run.stdout


def test_a_name_leaves_files_and_a_page(tmp_path):
    run = kernelstream("reproduce", "sog-sinc", "--quick", "--out", "there", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "sog-sinc" in run.stdout
    assert "there/results.html" in run.stdout
    found = {path.name for path in (tmp_path / "there").iterdir()}
    assert found == {"sog-sinc.png", "sog-sinc.md", "sog-sinc.json", "results.html"}


def test_a_name_that_is_unknown_or_missing(tmp_path):
    run = kernelstream("reproduce", "sog-sink", cwd=tmp_path)
    assert run.returncode == 1
    assert "experiment='sog-sink' is unknown" in run.stderr
    assert "'sog-sinc'" in run.stderr
    assert list(tmp_path.iterdir()) == []
    run = kernelstream("reproduce", cwd=tmp_path)
    assert run.returncode == 1
    assert "--list" in run.stderr
