"""The reference has every public name, and links lead somewhere."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import kernelstream as ks

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
# Importable, but promised to nobody: their names may change.
INTERNAL = {
    "__main__", "arrays", "benchmark", "cli", "compiled", "drawing", "expansion", "experiments",
    "files", "learner", "progress", "stores", "waiting",
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


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_internal_links_lead_somewhere(page):
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if name == "examples/index.rst":  # made of docs/gallery by the build
            target = ROOT / "docs/gallery/GALLERY_HEADER.rst"
        assert target.exists(), f"{page.name} links to {link}, which is not there."
        assert not anchor or anchor in anchors(target), f"{page.name}: no heading for {link}."
