"""The examples run, and do what they say."""

import runpy
from pathlib import Path

from .conftest import shared_file

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_tickets_without_a_download(capsys):
    assert runpy.run_path(str(EXAMPLES / "clinc150.py"))["main"]() > 0.88
    assert "new requests" in capsys.readouterr().out


def test_clinc150(capsys):
    folder = shared_file("clinc150.csv.gz").parent
    assert runpy.run_path(str(EXAMPLES / "clinc150.py"))["main"](folder) > 0.87
    assert "7,500 requests" in capsys.readouterr().out


def test_sensors_that_drift(capsys, tmp_path):
    found, false = runpy.run_path(str(EXAMPLES / "sensors.py"))["main"](1000, tmp_path / "a.png")
    assert found > 0.8
    assert false < 0.02
    assert "sensor-000" in capsys.readouterr().out
    assert (tmp_path / "a.png").exists()
