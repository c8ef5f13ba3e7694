"""The reference has every public name, and links lead somewhere."""

import importlib
import inspect
import pkgutil
import re
from dataclasses import is_dataclass
from pathlib import Path

import pytest

import kernelstream as ks

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("lab/*.md"),
        *ROOT.glob(".github/*/*.md"),
    ]
)
# Importable, but promised to nobody: their names may change.
INTERNAL = {
    "__main__", "arrays", "cli", "compile", "drawing", "elementary",
    "expansion", "files", "learner", "progress",
    "delayed_labels", "stores", "threads",
}  # fmt: skip


def imported(name):
    """A module; None where Spark is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("pyspark", "google"):
            raise
        return None


def public_modules():
    names = [m.name for m in pkgutil.iter_modules(ks.__path__) if m.name not in INTERNAL]
    modules = [imported(f"kernelstream.{name}") for name in names]
    return [ks, *(module for module in modules if module is not None)]


def listed():
    """The names in the pages of the reference, as (module, name), and what they are."""
    found = {}
    for path in sorted((ROOT / "docs/reference").glob("*.rst")):
        module = None
        for line in path.read_text().splitlines():
            if line.startswith(".. currentmodule:: "):
                module = imported(line.split()[-1])
            elif module is not None and re.fullmatch(r"   \w+", line):
                found[module.__name__, line.strip()] = getattr(module, line.strip())
    return found


def test_the_reference_has_every_public_name():
    entries = listed()
    documented = {id(value) for value in entries.values()}
    modules = {id(module) for module in public_modules()}
    missing = [
        f"{module.__name__}.{name}"
        for module in public_modules()
        for name in module.__all__
        if name != "__version__"
        and (module.__name__, name) not in entries
        and id(getattr(module, name)) not in documented | modules
    ]
    assert not missing, f"Add to a page of docs/reference: {missing}"


def test_the_reference_has_no_other_names_and_none_twice():
    promised = {(module.__name__, name) for module in public_modules() for name in module.__all__}
    entries = listed()
    assert len(entries) > 100
    assert set(entries) <= promised
    classes = [value for value in entries.values() if isinstance(value, type)]
    assert len(classes) == len(set(classes))


def is_record(value):
    """A named tuple or a data class: what functions answer with, which their examples show."""
    return isinstance(value, type) and (hasattr(value, "_fields") or is_dataclass(value))


def is_base(value, others):
    """A protocol, or what other public classes are made of, whose examples are theirs."""
    is_class = isinstance(value, type)
    is_protocol = is_class and getattr(value, "_is_protocol", False)
    return is_protocol or (is_class and any(value in other.__mro__[1:] for other in others))


def documented():
    """The functions and classes of the reference, plain, where they are compiled."""
    entries = {name: getattr(value, "py_func", value) for name, value in listed().items()}
    return {name: value for name, value in entries.items() if callable(value)}


def test_every_public_name_says_what_its_parameters_are():
    missing = {}
    for (module, name), value in documented().items():
        text = inspect.getdoc(value) or ""
        if is_base(value, ()) or "Parameters are those of" in text:
            continue
        if isinstance(value, type) and "__init__" not in value.__dict__ and not is_record(value):
            parameters = ()  # those of its base
        else:
            parameters = inspect.signature(value).parameters.values()
        named = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        left = [parameter for parameter in named if not re.search(rf"\b{parameter}\b", text)]
        if left or not text:
            missing[f"{module}.{name}"] = left
    assert not missing


def test_every_public_name_has_an_example():
    """Doctest runs them. Exceptions, bases and records have theirs where they are used."""
    entries, given = documented(), listed()
    classes = [value for value in entries.values() if isinstance(value, type)]
    missing = [
        f"{module}.{name}"
        for (module, name), value in entries.items()
        if ">>>" not in (inspect.getdoc(value) or "")
        and not is_record(value)
        and not is_base(value, classes)
        and not (isinstance(value, type) and issubclass(value, Exception))
        and not hasattr(given[module, name], "py_func")  # whose example would be compiled
    ]
    assert not missing


def test_every_page_of_the_reference_is_in_its_table_of_contents():
    index = (ROOT / "docs/reference/index.md").read_text().splitlines()
    assert {path.stem for path in (ROOT / "docs/reference").glob("*.rst")} <= set(index)


def anchors(path):
    """The anchors of a page's headings, as GitHub and MyST make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower().strip()).replace(" ", "-") for h in headings}


def links(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    found = re.findall(r"\]\(([^()\s]+)\)", text)
    return [link for link in found if not link.startswith(("http://", "https://", "mailto:"))]


# Pages that the build makes, and what it makes them of.
DOCS = ROOT / "docs"
MADE_OF = {
    DOCS / "examples/index.rst": DOCS / "gallery/GALLERY_HEADER.rst",
    DOCS / "reference/command_line.md": DOCS / "_ext/command_line.py",
    DOCS / "reference/http_api.md": DOCS / "_ext/http_api.py",
    **{DOCS / f"examples/{path.stem}.rst": path for path in DOCS.glob("gallery/plot_*.py")},
}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_internal_links_lead_somewhere(page):
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        target = target if target.exists() else MADE_OF.get(target, target)
        assert target.exists(), f"{page.name} links to {link}, which is not there."
        assert not anchor or anchor in anchors(target), f"{page.name}: no heading for {link}."


# What newcomers ask, and words of the page that answers.
QUESTIONS = {
    "My columns have different units.": ("unscaled.md", 'scaling="running"'),
    "My table has categories and gaps.": ("tables.md", 'missing="mean"'),
    "Which learner, and which gamma?": ("choosing.md", "AutoClassifier"),
    "How likely is a label, and when do I raise an alarm?": ("probabilities.md", "predict_proba"),
    "One class is very rare.": ("rare_classes.md", 'class_weight="balanced"'),
    "Labels come weeks later.": ("late_labels.md", "learn_labels"),
    "Has the stream changed?": ("drift.md", "result.events"),
    "I need a model per customer.": ("keyed.md", "KeyedFleet"),
    "My rows are texts.": ("text.md", "HashingVectorizer"),
    "My rows are frames of a video.": ("video.md", "BackgroundSubtractor"),
    "I have a GPU.": ("gpu.md", 'device="cuda"'),
    "One machine is not enough.": ("scale.md", "learn_stream"),
    "Other programs ask over HTTP.": ("service.md", "kernelstream serve"),
    "The program may crash.": ("production.md", "Checkpointer"),
    "I use scikit-learn's pipelines.": ("pipelines.md", "make_pipeline"),
    "I use River's pipelines.": ("pipelines.md", "kernelstream.river"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_is_two_clicks_from_the_front_page(question):
    page, words = QUESTIONS[question]
    assert words in (ROOT / "docs" / page).read_text()
    first = {link.partition("#")[0] for link in links(ROOT / "docs/index.md")}
    listed_by_question = {link.partition("#")[0] for link in links(ROOT / "docs/how_to.md")}
    assert "how_to.md" in first
    assert page in listed_by_question


def contents_of(page):
    """The pages in the tables of contents of a page."""
    text = page.read_text()
    tables = re.findall(r"^```\{toctree\}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line.strip() for table in tables for line in table.splitlines()]
    names = [re.sub(r".*<(.*)>", r"\1", line) for line in lines if line and line[0] != ":"]
    found = [(page.parent / f"{name}.{kind}").resolve() for name in names for kind in ("md", "rst")]
    return {path for path in found if path.exists()}


def test_every_page_is_two_clicks_from_the_front_page():
    docs = ROOT / "docs"
    first = contents_of(docs / "index.md")
    second = {page for door in first if door.suffix == ".md" for page in contents_of(door)}
    written = {*docs.glob("*.md"), *docs.glob("compare/*.md"), *docs.glob("reference/*.rst")}
    lost = written - {docs / "index.md"} - first - second
    assert len(first) >= 6
    assert not lost, f"Add to a table of contents: {sorted(path.name for path in lost)}"
