"""What ARCHITECTURE.md promises of the shape of the code."""

import ast
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import kernelstream as ks
from kernelstream.learner import machine
from kernelstream.parts import all_parts

SOURCE = Path(ks.__file__).parent
PACKAGES = ["kernels", "losses", "margins", "step_sizes", "updates", "budgets", "label_kernels"]
# What is read from top to bottom: the loops, their specification, and a command with its options.
LONG = {"learn_rows", "learn_dictionary", "learn", "run"}


def trees():
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE), ast.parse(path.read_text())


def names_in(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {
        n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)
    }


def test_nobody_asks_for_the_class_of_a_part_outside_its_package():
    home = {
        entry.cls.__name__: entry.cls.__module__.split(".")[1]
        for entry in all_parts()
        if entry.cls.__module__.startswith("kernelstream.")
    }
    assert {"RBF", "SMD", "Merge", "Dual", "Nu", "Hinge", "Taxonomy"} <= set(home)
    for path, tree in trees():
        for node in ast.walk(tree):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name) and called.id in ("isinstance", "issubclass"):
                here = path.parts[0]
                foreign = {n for n in names_in(node.args[1]) if home.get(n, here) != here}
                assert not foreign, f"{path}:{node.lineno} asks for {foreign}"


def test_a_row_passes_at_most_six_functions_on_its_way_to_the_loop(monkeypatch):
    depths = []

    def entry_point(function, *_):
        def loop(*arguments):
            frame, names = sys._getframe(1), []
            while frame is not None:
                names.append(frame.f_code.co_name)
                if names[-1] == "partial_fit":
                    break
                frame = frame.f_back
            depths.append(names)
            return function.py_func(*arguments)

        return loop

    monkeypatch.setattr(machine, "entry_point", entry_point)
    X = np.random.default_rng(0).normal(size=(20, 2))
    ks.KernelClassifier().partial_fit(X, X[:, 0] > 0)
    ks.KernelRegressor().partial_fit(X, X[:, 0])
    ks.NoveltyDetector().partial_fit(X)
    ks.make("sog-svr", "regressor").partial_fit(X, X[:, 0])
    assert len(depths) >= 4
    for names in depths:
        assert names[-1] == "partial_fit"
        assert len(names) <= 6, names


def test_functions_are_short_except_for_the_loops():
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name not in LONG:
                text = ast.get_docstring(node, clean=False) or ""
                n_lines = node.end_lineno - node.lineno - text.count("\n")
                assert n_lines <= 65, f"{path}: {node.name} has {n_lines} lines"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_part_is_registered_in_its_own_package(package):
    kinds = {"kernels": "kernel", "losses": "loss", "margins": "margin", "step_sizes": "step_size",
             "updates": "update", "budgets": "budget",
             "label_kernels": "label_structure"}  # fmt: skip
    modules = {
        entry.cls.__module__.split(".")[1]
        for entry in all_parts(kinds[package])
        if entry.cls.__module__.startswith("kernelstream.")
    }
    assert modules == {package}


# --- the map --------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[1]


def test_the_map_is_short_and_names_files_that_exist():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert len(text.split()) <= 1200
    named = re.findall(r"`([\w./]+(?:/|\.py))`", text)
    assert len(named) > 30
    known = [path.as_posix() for top in ("src", "lab", "tests") for path in (ROOT / top).rglob("*")]
    ends = {path.removeprefix(ROOT.as_posix()) for path in known}
    lost = [name for name in named if not any(end.endswith(f"/{name.rstrip('/')}") for end in ends)]
    lost = [name for name in lost if not (ROOT / name).exists()]
    assert not lost, f"ARCHITECTURE.md names {lost}, which are not there."
