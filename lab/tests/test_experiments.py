"""The papers' experiments, in quick runs: that each works and leaves its files."""

import json
from html.parser import HTMLParser

import pytest

from kernelstream.datasets import DatasetError
from kernelstream_lab.cli.reproduce import reproduce
from kernelstream_lab.experiments import (
    Check,
    Outcome,
    Row,
    all_experiments,
    experiment,
    find,
    names,
)
from kernelstream_lab.experiments.files import read_all, write
from kernelstream_lab.experiments.page import write_page
from kernelstream_lab.experiments.papers import SOG
from kernelstream_lab.experiments.setting import Setting

TOLD = {"seed": 0, "quick": True, "seconds": 0.1}


def quickly(name):
    """Return the outcome of a quick run, or skip if there is neither data nor a substitute."""
    try:
        return find(name).run(quick=True)
    except DatasetError as error:
        pytest.skip(str(error))


LONG = ("silk-mnist", "ilk-drift")  # half a minute each, mostly to compile


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.nightly) if n in LONG else n for n in names()],
)
def test_every_experiment_runs_and_leaves_its_files(name, tmp_path, request):
    if name in ("silk-video", "smd-per-weight"):  # little data, and much to compile
        request.getfixturevalue("without_compiler")
    outcome = quickly(name)
    assert outcome.rows
    assert outcome.checks
    write(find(name), outcome, TOLD, tmp_path)
    assert (tmp_path / f"{name}.png").stat().st_size > 8_000
    content = json.loads((tmp_path / f"{name}.json").read_text())
    assert content["parameters"] == find(name).parameters
    assert content["versions"]["kernelstream"]
    text = (tmp_path / f"{name}.md").read_text()
    for row in outcome.rows:
        assert f"| {row.quantity} | {row.paper} | {row.ours} |" in text
    for check in outcome.checks:
        assert check.statement in text


@pytest.mark.parametrize("name", ["ilk-drift", "sog-sinc"])
def test_a_seed_decides_the_numbers(name):
    first, again, other = (find(name).run(quick=True, seed=seed) for seed in (0, 0, 1))
    assert first.series == again.series
    assert first.series != other.series


def test_a_picture_can_be_drawn_from_the_file_alone(tmp_path):
    from matplotlib.figure import Figure

    found = find("ilk-drift")
    write(found, quickly("ilk-drift"), TOLD, tmp_path)
    (report,) = read_all(tmp_path)
    figure = Figure(figsize=found.size, layout="constrained")
    found.draw(figure, report.outcome.series)
    figure.savefig(tmp_path / "again.png", dpi=130, facecolor="white")
    assert (tmp_path / "again.png").read_bytes() == report.picture


class Links(HTMLParser):
    """What a page refers to, and whether its elements are closed."""

    def __init__(self):
        super().__init__()
        self.targets, self.ids, self.open = [], set(), []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.targets += [found[key] for key in ("src", "href") if key in found]
        self.ids.add(found.get("id"))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page_of(folder):
    text = write_page(folder).read_text()
    links = Links()
    links.feed(text)
    return text, links


def test_the_page_has_all_that_is_there_and_needs_nothing_else(tmp_path):
    for name in ("ilk-drift", "sog-sinc"):
        write(find(name), quickly(name), TOLD, tmp_path)
    text, links = page_of(tmp_path)
    assert links.open == []
    assert {"ilk-drift", "sog-sinc"} <= links.ids
    assert "silk-mnist" not in links.ids
    assert "<code>silk-mnist</code>" in text  # among those that were not run
    pictures = [target for target in links.targets if target.startswith("data:image/png;base64,")]
    assert len(pictures) == 2
    for target in set(links.targets) - set(pictures):
        assert target.startswith("#")
        assert target[1:] in links.ids
    assert "<script" not in text


@pytest.fixture
def registered(monkeypatch):
    """Register an experiment for the length of a test."""
    from kernelstream_lab.experiments import registry

    monkeypatch.setattr(registry, "_EXPERIMENTS", dict(registry._EXPERIMENTS))

    def register(perform):
        perform.__module__ = "kernelstream_lab.experiments.sog_made_up"
        experiment(
            title="a <b> & c", paper=SOG, figure="figure 0",
            question="Is it?", parameters={"x": 1}, caption="'nothing'",
            draw=lambda figure, series: figure.subplots().plot(series["y"]),
        )(perform)  # fmt: skip
        return find("sog-made-up")

    return register


def test_what_does_not_hold_is_shown(registered, tmp_path, capsys):
    def perform(setting):
        checks = [Check("Pigs fly.", False, "none <did>"), Check("Birds fly.", True, "most do")]
        return Outcome({"y": [1, 2]}, [Row("`q` & a", "-", "3 < 4")], checks, ["note <1>"])

    made_up = registered(perform)
    assert reproduce([made_up], None, tmp_path, seed=3, quick=False)
    assert "does not show: Pigs fly. (none <did>)" in capsys.readouterr().out
    assert "**does not hold**: Pigs fly." in (tmp_path / "sog-made-up.md").read_text()
    text, links = page_of(tmp_path)
    assert links.open == []
    assert "<b>1</b> of 2 checks hold" in text
    assert text.count("✗") == 2  # in the contents and at its place
    assert "<code>q</code> &amp; a" in text
    assert "note &lt;1&gt;" in text
    assert "Seed 3" in text


def test_one_that_fails_does_not_stop_the_others(registered, tmp_path, capsys):
    def perform(setting):
        raise ZeroDivisionError("on purpose")

    made_up = registered(perform)
    assert not reproduce([made_up, find("ilk-drift")], None, tmp_path, seed=0, quick=True)
    assert "on purpose" in capsys.readouterr().out
    assert not (tmp_path / "sog-made-up.json").exists()
    assert [report.experiment.name for report in read_all(tmp_path)] == ["ilk-drift"]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Refuse to download: a test uses only files in a folder."""
    from kernelstream.datasets.openml import OpenML

    def fetch(self):
        raise OSError("no network")

    monkeypatch.setattr(OpenML, "fetch", fetch)


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    """Return an empty folder for the data."""
    monkeypatch.setenv("KERNELSTREAM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("KERNELSTREAM_CACHE", str(tmp_path / "cache"))


def test_without_data_a_quick_run_takes_other_digits_or_is_skipped(no_data, tmp_path, capsys):
    chosen = [find("svmd-counting-novelty"), find("svmd-wipo")]
    assert reproduce(chosen, None, tmp_path, seed=0, quick=True)
    shown = capsys.readouterr().out
    assert "svmd-wipo skipped: data not found" in shown
    assert "wipo_alpha_d_lsa100.npz" in shown  # which file, and where to put it
    (report,) = read_all(tmp_path)
    assert any("scikit-learn's digits" in note for note in report.outcome.notes)


def test_a_quick_run_that_was_told_of_no_folder_fetches_nothing(no_data, monkeypatch):
    monkeypatch.delenv("KERNELSTREAM_DATA")
    setting = Setting(None, 0, quick=True)
    setting.mnist()
    assert "was not looked for: these are scikit-learn's digits" in setting.remarks[-1]
    with pytest.raises(DatasetError, match="--data"):
        setting.load("boston")


def test_without_data_a_full_run_fails(no_data, tmp_path, capsys):
    assert not reproduce([find("svmd-usps-binary")], None, tmp_path, seed=0, quick=False)
    assert "failed: data not found" in capsys.readouterr().out
    assert not (tmp_path / "results.html").exists()


def test_kernels_of_a_stand_in_are_scaled_by_its_pixels(no_data):
    digits = Setting(None, 0, quick=True).usps()
    assert digits.gamma(sigma=8, n_pixels=256) == pytest.approx(4 / 128)
    assert digits.X.min() == -1.0
    assert digits.X.max() == 1.0


def test_names_are_those_of_the_files():
    assert [found.name for found in all_experiments()] == names()
    assert "svmd-usps-binary" in names()
    assert not {"registry", "curves", "page"} & set(names())
    with pytest.raises(ValueError, match=r"experiment='svmd' is unknown: choose one of"):
        find("svmd")
