"""What a first call need not import is imported when it is used, and is then what it always is."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from kernelstream.imports import put_off


def said_by(code):
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that says when it is imported."""
    (tmp_path / "seldom_used.py").write_text("print('imported')\nvalue = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "seldom_used"
    sys.modules.pop("seldom_used", None)


def test_learning_and_predicting_import_neither_pandas_nor_statistics():
    code = (
        "import sys, numpy as np, kernelstream as ks\n"
        "X = np.eye(3)\n"
        "ks.KernelClassifier().partial_fit(X, [0, 1, 2]).predict(X)\n"
        "print({'pandas', 'scipy.stats'} & set(sys.modules))"
    )
    assert said_by(code) == "set()"


def test_scikit_learn_finds_what_was_put_off():
    pytest.importorskip("pandas")
    code = (
        "import kernelstream as ks\n"
        "ks.KernelClassifier\n"
        "import sklearn.utils.fixes as fixes, pandas, scipy.stats\n"
        "print(fixes.pd.DataFrame is pandas.DataFrame, fixes.scipy.stats is scipy.stats)"
    )
    assert said_by(code) == "True True"


def test_a_module_is_imported_when_something_of_it_is_used(module, capsys):
    with put_off(module):
        import seldom_used as kept
    assert capsys.readouterr().out == ""
    assert module not in sys.modules
    assert kept.value == 3
    assert capsys.readouterr().out == "imported\n"
    import seldom_used

    assert kept.value is seldom_used.value
    assert capsys.readouterr().out == ""


def test_a_name_of_a_module_is_imported_at_once(module, capsys):
    with put_off(module):
        from seldom_used import value
    assert value == 3
    assert capsys.readouterr().out == "imported\n"
    assert sys.modules[module].value == 3


def test_a_module_can_be_found_meanwhile(module):
    with put_off(module):
        import seldom_used

        found = find_spec(module)
        assert found.origin == seldom_used.__file__


def test_modules_that_are_imported_already_or_do_not_exist_are_left_alone():
    before = sys.modules["pytest"]
    with put_off("pytest", "no_such_module"):
        assert sys.modules["pytest"] is before
        with pytest.raises(ModuleNotFoundError):
            import no_such_module  # noqa: F401
    assert sys.modules["pytest"] is before


def test_nothing_stands_in_for_a_module_after_an_error(module, capsys):
    with pytest.raises(RuntimeError), put_off(module):
        raise RuntimeError
    import seldom_used

    assert seldom_used.value == 3
    assert capsys.readouterr().out == "imported\n"
