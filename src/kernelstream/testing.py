"""Checks that a part works with everything else, for parts that you write yourself.

`check_part` builds small models with a part and raises an `AssertionError` that names the broken
promise. The promises are: parameters survive `clone`, derivatives are right, kernel values do not
depend on the block, a block equals its rows one by one, files resume bit for bit, and a refused row
leaves no trace. The checks take some seconds, most of them to compile the part.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone

from kernelstream import losses
from kernelstream.committee import AutoDetector, DetectorMember
from kernelstream.estimators import KernelClassifier, KernelRegressor, NoveltyDetector
from kernelstream.estimators.files import from_bytes
from kernelstream.kernels import Kernel
from kernelstream.parts import Part, all_parts, named

__all__ = ["check_kernel", "check_loss", "check_models", "check_parameters", "check_part"]

_ESTIMATORS = {
    "classification": KernelClassifier,
    "regression": KernelRegressor,
    "novelty": NoveltyDetector,
}
_N_ROWS, _N_FEATURES = 90, 3


def check_part(part: Any, **companions: Any) -> None:
    """Run every check that fits a part.

    Parameters
    ----------
    part : Part or class
        An object such as ``RBF(0.5)``, or the class of a loss. It must be registered with the
        decorator `part`, or `loss`.
    **companions
        Further parameters of the estimators, for a part that works only together with others,
        such as ``kernel="linear"``.

    Raises
    ------
    AssertionError
        If a promise of its kind is broken. The message says which one, and what was found.

    Examples
    --------
    >>> import kernelstream as ks
    >>> from kernelstream.testing import check_part
    >>> check_part(ks.budgets.SmallestOut(8))
    """
    entries = [entry for entry in losses.all_losses() if part in (type(entry.rule), entry.rule)]
    for entry in entries:
        if not entry.structured:
            check_loss(entry)
            n_labels = 2 if entry.single_output else 3
            check_models(part, "loss", {entry.task: entry.name}, n_labels, **companions)
    if entries:
        return
    kind = _kind_of(part)
    check_parameters(part)
    if isinstance(part, Kernel):
        check_kernel(part)
    if isinstance(part, DetectorMember):
        X = np.random.default_rng(1).normal(size=(_N_ROWS, _N_FEATURES))
        _check_life(_Trial(lambda: AutoDetector(members=[part], missing="error"), X, None))
        return
    check_models(part, kind, dict.fromkeys(_ESTIMATORS, part), **companions)


def check_parameters(part: Part) -> None:
    """Check that a part can be cloned, compared, hashed and printed.

    Parameters
    ----------
    part : Part

    Examples
    --------
    >>> import kernelstream as ks
    >>> from kernelstream.testing import check_parameters
    >>> check_parameters(ks.step_sizes.SMD(0.1))
    """
    name = type(part).__name__
    remedy = f"{name}.__init__ must store its arguments unchanged, and do nothing else"
    try:
        twin = clone(part)
    except RuntimeError as error:
        raise AssertionError(f"{remedy}: {error}") from error
    assert twin == part, f"clone({part!r}) is {twin!r}: {remedy}"
    assert twin is not part
    assert hash(twin) == hash(part), f"equal objects of {name} have different hashes"
    assert repr(twin) == repr(part)
    assert name in repr(part), f"repr is {part!r}: it must name the class"
    part.check()
    assert twin == part, f"{name}.check changes parameters: it may only raise"


def check_kernel(kernel: Kernel) -> None:
    """Check the values of a kernel: symmetric, positive semidefinite, the same in every block.

    Parameters
    ----------
    kernel : Kernel

    Examples
    --------
    >>> import kernelstream as ks
    >>> from kernelstream.testing import check_kernel
    >>> check_kernel(ks.kernels.Polynomial(2, 0.5, 1.0))
    """
    if kernel.feature_store != "fixed":
        return  # its features grow with the stream, and only a model has them
    random = np.random.default_rng(0)
    X = random.normal(size=(40, _N_FEATURES))
    kernel = kernel.resolve(_N_FEATURES)
    values = kernel(X)
    largest = np.abs(values).max()
    _assert_close(values, values.T, 1e-12, f"k(x, z) and k(z, x) of {kernel!r}")
    lowest = np.linalg.eigvalsh(values).min()
    assert lowest > -1e-9 * len(X) * largest, (
        f"{kernel!r} is not positive semidefinite: its Gram matrix has the eigenvalue {lowest:.3g}"
    )
    for j in range(3):
        _assert_close(kernel(X, X[j : j + 1])[:, 0], values[:, j], 1e-10, "a row alone, in a block")
    cache = kernel.row_cache(X)
    diagonal = kernel.diagonal(cache)
    if diagonal is not None:
        found = np.broadcast_to(np.asarray(diagonal), len(X))
        _assert_close(found, np.diag(values), 1e-9, f"{kernel!r}.diagonal and k(x, x)")
    if kernel.has_unit_diagonal:
        _assert_close(np.diag(values), np.ones(len(X)), 1e-9, "k(x, x), has_unit_diagonal")
    if kernel.is_bounded_by_cache:
        bound = max(1.0, float(np.max(kernel.magnitude(cache))))
        assert largest <= bound * (1 + 1e-9), (
            f"{kernel!r} has the value {largest:.3g}, beyond its magnitude of {bound:.3g}: rows "
            "that overflow would be accepted"
        )
    if kernel.compiles():
        X[np.abs(X) < 0.5] = 0.0
        sparse = csr_array(X)
        _assert_close(kernel(sparse, sparse), kernel(X), 1e-9, f"sparse and dense rows, {kernel!r}")
    if kernel.is_smooth:
        _check_gradients(kernel, random.normal(size=(6, _N_FEATURES)))


def _check_gradients(kernel: Kernel, X: np.ndarray) -> None:
    """Compare `gradients` with finite differences."""
    points, coef, h = X[:4], np.array([[1.0, -0.5, 2.0, 0.3]]), 1e-6
    found = kernel.gradients(points, X[4:], coef)
    for j in range(_N_FEATURES):
        step = np.zeros(_N_FEATURES)
        step[j] = h
        change = coef @ (kernel(points, X[4:] + step) - kernel(points, X[4:] - step))
        _assert_close(found[:, :, j], change / (2 * h), 1e-5, f"{kernel!r}.gradients")


def check_loss(entry: losses.LossEntry) -> None:
    """Compare the derivatives of a loss with finite differences, away from its kinks.

    Parameters
    ----------
    entry : LossEntry
        As `kernelstream.losses.find` returns it.

    Examples
    --------
    >>> from kernelstream import losses
    >>> from kernelstream.testing import check_loss
    >>> check_loss(losses.find("regression", "huber", single_output=True))
    """
    random = np.random.default_rng(0)
    n_outputs = 1 if entry.single_output else 4
    for _ in range(200):
        scores = random.uniform(-3, 3, n_outputs)
        margin = float(random.uniform(0.1, 2))
        if not entry.single_output:
            y = float(random.integers(n_outputs))
        else:
            y = float(random.normal() * 2) if entry.task == "regression" else random.choice([-1, 1])
        _check_loss_at(entry, scores, float(y), margin, random.normal(size=n_outputs))
    for huge in (1e100, -1e300):
        xi = _gradient(entry, np.full(n_outputs, huge), 1.0, 1.0)
        assert np.isfinite(xi).all(), f"the gradient of {entry.name} at scores of {huge:g} is {xi}"


def _check_loss_at(
    entry: losses.LossEntry, scores: np.ndarray, y: float, margin: float, direction: np.ndarray
) -> None:
    """Check value, gradient and curvature at one point, unless a kink is near."""
    h, where = 1e-6, f"{entry.name} at scores {scores}, y={y:g}, margin={margin:g}"
    value, xi = entry.rule.value(scores, y, margin), _gradient(entry, scores, y, margin)
    assert value >= 0, f"{where} is {value}: losses are never negative"
    nearby = [
        _gradient(entry, scores + sign * 1e-3 * unit, y, margin)
        for unit in np.eye(len(scores))
        for sign in (-1, 1)
    ]
    if np.abs(np.array(nearby) - xi).max() > 0.2:
        return
    numeric = [
        (entry.rule.value(scores + h * unit, y, margin)
         - entry.rule.value(scores - h * unit, y, margin)) / (2 * h)
        for unit in np.eye(len(scores))
    ]  # fmt: skip
    _assert_close(xi, np.array(numeric), 1e-6, f"gradient and derivative of the value, {where}")
    product = np.zeros(len(scores))
    bound = entry.rule.curvature(scores, y, margin, direction, product)
    ahead, behind = (_gradient(entry, scores + s * h * direction, y, margin) for s in (1, -1))
    _assert_close(product, (ahead - behind) / (2 * h), 1e-5, f"curvature of {where}")
    assert np.linalg.norm(product) <= bound * np.linalg.norm(direction) * (1 + 1e-9) + 1e-12, (
        f"curvature of {where} answers the bound {bound:g}, which its product exceeds"
    )


def _gradient(entry: losses.LossEntry, scores: np.ndarray, y: float, margin: float) -> np.ndarray:
    xi = np.full(len(scores), np.nan)
    entry.rule.gradient(scores, y, margin, xi)
    return xi


class _Trial(NamedTuple):
    """A way to make an untrained model with the part, and rows for it."""

    make: Callable[[], Any]
    X: np.ndarray
    y: np.ndarray | None

    def learn(self, model: Any, start: int, stop: int) -> Any:
        """Let a model learn some of the rows."""
        rows = slice(start, stop)
        if self.y is None:
            return model.partial_fit(self.X[rows])
        if isinstance(model, KernelClassifier) and model.label_structure is None:
            return model.partial_fit(self.X[rows], self.y[rows], classes=np.unique(self.y))
        return model.partial_fit(self.X[rows], self.y[rows])

    def scores(self, model: Any) -> np.ndarray:
        """Return the scores of all rows."""
        if isinstance(model, KernelClassifier):
            return model.label_scores(self.X)
        return model.predict(self.X) if self.y is not None else model.score_samples(self.X)


def check_models(
    part: Any, kind: str, choices: dict[str, Any], n_labels: int = 3, **companions: Any
) -> None:
    """Check models that are built with a part: exact in blocks, saved and resumed, all or nothing.

    Parameters
    ----------
    part : object
        For messages.
    kind : str
        "kernel", "budget" and so on.
    choices : dict
        What each task is given for this kind. A task whose estimator refuses it is left out.
    n_labels : int, default=3
        The number of labels in classification. With two, a model has a single output.
    **companions
        Further parameters of the estimators.

    Examples
    --------
    >>> import kernelstream as ks
    >>> from kernelstream.testing import check_models
    >>> check_models("RBF", "kernel", {"regression": ks.kernels.RBF(0.5)})
    """
    refusals = []
    n_checked = 0
    for task, choice in choices.items():
        trial = _trial(task, {kind: choice, **companions}, n_labels)
        try:
            trial.learn(trial.make(), 0, 5)
        except (TypeError, ValueError) as error:
            refusals.append(f"{task}: {error}")
            continue
        n_checked += 1
        _check_life(trial)
    assert n_checked > 0, (
        f"no estimator accepts {part!r} with {companions}; give check_part the parameters that it "
        "needs beside it. " + " | ".join(refusals)
    )


def _trial(task: str, chosen: dict[str, Any], n_labels: int) -> _Trial:
    """Return models of a task with the chosen parameters, and rows that fit them."""
    random = np.random.default_rng(1)
    X = random.normal(size=(_N_ROWS, _N_FEATURES))
    signal = np.sin(2 * X[:, 0]) + X[:, 1]
    params: dict[str, Any] = {"budget": 12, **chosen}
    if "kernel" not in params:
        params["gamma"] = 0.5
    y: Any = None
    if "label_structure" in params:
        names = np.array(params["label_structure"].label_names())
        y = names[random.integers(len(names), size=_N_ROWS)]
    elif task == "classification":
        y = np.digitize(signal, [-0.5, 0.5][: n_labels - 1])
    elif task == "regression":
        y = signal
    return _Trial(lambda: _ESTIMATORS[task](**params), X, y)


def _check_life(trial: _Trial) -> None:
    for check in (_check_blocks, _check_files, _check_refusals):
        check(trial)


def _check_blocks(trial: _Trial) -> None:
    whole = trial.learn(trial.make(), 0, _N_ROWS)
    for size in (1, 7, 40):
        model = trial.make()
        for start in range(0, _N_ROWS, size):
            trial.learn(model, start, min(start + size, _N_ROWS))
        what = f"{model!r} after one block, and after blocks of {size} rows"
        _assert_close(trial.scores(model), trial.scores(whole), 1e-8, what)


def _check_files(trial: _Trial) -> None:
    model = trial.learn(trial.make(), 0, 50)
    function = getattr(getattr(model, "kernel", None), "function", None)  # which files do not hold
    twin = from_bytes(model.to_bytes(), kernel=function)
    assert twin.to_bytes() == model.to_bytes(), f"{model!r} changes when it is saved and loaded"
    assert twin.get_params() == model.get_params(), f"{model!r} loses parameters in a file"
    for learner in (model, twin):
        trial.learn(learner, 50, _N_ROWS)
    assert twin.to_bytes() == model.to_bytes(), f"{model!r} goes on differently after a file"


def _check_refusals(trial: _Trial) -> None:
    model = trial.learn(trial.make(), 0, 50)
    before = model.to_bytes()
    bad = trial._replace(X=trial.X.copy())
    bad.X[60, 1] = np.nan
    try:
        bad.learn(model, 50, 70)
    except ValueError:
        pass
    else:
        raise AssertionError(f"{model!r} learned a row with NaN")
    assert model.to_bytes() == before, f"{model!r} kept a trace of a block that was refused"


def _kind_of(part: Any) -> str:
    """Return the kind under which a part is registered."""
    kinds = _registered(part)
    assert named(type(part).__name__) is type(part), (
        f"{part!r} is not registered: put the decorator part(kind, name) of kernelstream.parts, or "
        "loss(...) of kernelstream.losses, above its class"
    )
    return next(kinds)


def _registered(part: Any) -> Iterator[str]:
    return (entry.kind for entry in all_parts() if entry.cls is type(part))


def _assert_close(found: np.ndarray, expected: np.ndarray, rtol: float, what: str) -> None:
    """Compare arrays relative to the largest number among them."""
    largest = max(1.0, float(np.abs(expected).max(initial=0.0)))
    gap = float(np.abs(np.asarray(found) - expected).max(initial=0.0))
    assert gap <= rtol * largest, f"{what}: they differ by {gap:.3g}"
