"""What all estimators share: rows to a machine, and its state to read."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from kernelstream.delayed_labels import PendingRows
from kernelstream.drift import LossWatch
from kernelstream.estimators import delayed_labels, files, learning
from kernelstream.estimators.bad_rows import BadRowPolicy, with_reasons
from kernelstream.estimators.intake import Intake
from kernelstream.estimators.labels import Labels
from kernelstream.estimators.learned import Block, Learned, Rows
from kernelstream.estimators.made_with import look_inside, made_with, note_parameters
from kernelstream.estimators.transaction import restore
from kernelstream.files.parts import SAVEABLE
from kernelstream.files.written import Written
from kernelstream.label_kernels import LabelStructure
from kernelstream.learner.learner import Learner
from kernelstream.learner.rows import BadRow
from kernelstream.parts import integer_at_least

__all__ = ["Learned", "Rows", "StreamEstimator"]


class StreamEstimator(Written, BaseEstimator):
    """Base of all estimators: rows to a machine, all or nothing, and its state to read.

    It has an `Intake`, which rows pass, a `BadRowPolicy`, a `Transaction` around every block, and
    what it learned (`Learned`): a machine and what belongs to it. Subclasses say the task, how
    targets become numbers, and what learns: one machine, or several.
    """

    task: ClassVar[str]
    version: ClassVar[int] = 1  # of what a file says of such an estimator
    # what can be read once something has been learned
    readable: ClassVar[dict[str, Callable[[Any, "Learned"], Any]]] = {
        "n_seen_": lambda model, learned: learned.machine.n_seen,
        "n_skipped_": lambda model, learned: sum(model.__dict__.get("_skipped", {}).values()),
        "skipped_": lambda model, learned: dict(model.__dict__.get("_skipped", {})),
        "n_waiting_": lambda model, learned: len(model.pending_rows()),
        "n_expired_": lambda model, learned: model.pending_rows().n_expired,
        "unlisted_": lambda model, learned: learned.of_table().n_unlisted(),
        "columns_": lambda model, learned: learned.of_table().kinds(),
    }

    precisions: ClassVar[tuple[Any, ...]] = (np.float64, np.float32)  # of rows, as they are learned

    # parameters that not every estimator has
    n_epochs: Any = 1
    random_state: Any = None
    waiting_rows: Any = 10_000
    on_bad_row: Any = "raise"
    missing: Any = "error"
    device: Any = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        SAVEABLE.setdefault(cls.__name__, cls)

    # --- what subclasses say ---------------------------------------------------------------------

    def structure(self) -> LabelStructure | None:
        """Return the label structure, or None."""
        return None

    def checked(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, whole_data: bool = False
    ) -> Rows:
        """Return rows and targets as a machine learns them, or raise; `whole_data`: for `fit`."""
        raise TypeError(f"{type(self).__name__} must say how its targets become numbers.")

    def target_check(self) -> Callable[[Any], str | None]:
        """Return a function that tells what is wrong with a target, if anything is."""
        return lambda y: None

    def may_go_to_device(self, X: Any) -> bool:
        """Return whether an array of NumPy goes to a device as it is, and is checked there."""
        return False  # parts of what learns may be on the host

    def look_before(self, learned: Learned, rows: Rows) -> None:
        """Warn of what a block shows that has not been learned yet."""

    def check_machine(self, machine: Learner, rows: Rows) -> None:
        """Refuse a block that a machine cannot take, before it learns."""

    def decode(self, scores: np.ndarray, margins: np.ndarray) -> np.ndarray:
        """Return predictions from the scores and margins of rows."""
        raise TypeError(f"{type(self).__name__} must say what it predicts.")

    def no_file(self) -> str | None:
        """Return why the model cannot be written to a file, or None."""
        return None

    def per_label(self, outputs: np.ndarray) -> np.ndarray:
        """Return numbers for each label from numbers for each output, a row each."""
        structure = self.structure()
        return outputs if structure is None else structure.label_scores(outputs)

    def new_machine(self, rows: Rows, whole_data: bool) -> Learner:
        """Return an untrained machine; `whole_data`: no other rows will follow."""
        raise TypeError(f"{type(self).__name__} must say what learns.")

    # --- what it has -----------------------------------------------------------------------------

    @property
    def learned(self) -> Learned | None:
        """Return what was learned, published in one assignment; None: nothing yet."""
        return self.__dict__.get("_knowledge")

    @learned.setter
    def learned(self, learned: Learned) -> None:
        self._knowledge = learned

    @property
    def turn(self) -> Any:
        """Return the lock for which learning calls of several threads wait."""
        lock = self.__dict__.get("_lock")
        return self.__dict__.setdefault("_lock", threading.RLock()) if lock is None else lock

    def intake(self) -> Intake:
        """Return what rows pass before the machine."""
        return Intake(self, self.__dict__.get("_knowledge"))

    def skips_bad_rows(self) -> bool:
        """Return whether bad rows are left out, as `on_bad_row` says."""
        return BadRowPolicy(self.on_bad_row).skips

    def row_problems(self, X: Any) -> list[str | None]:
        """Return what is wrong with each row, as far as it shows before the row is learned.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or list of dictionaries

        Returns
        -------
        list of str or None
        """
        return self.intake().problems(X)[1]

    def report(self, bad: list[BadRow]) -> None:
        """Count rows that were left out, and tell whoever wants to know."""
        self._skipped = with_reasons(self.__dict__.get("_skipped", {}), bad)
        BadRowPolicy(self.on_bad_row).tell(bad)

    # --- learning: all or nothing, and never under a reader's eyes --------------------------------

    def learn_block(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None,
        keep_scores: bool = True,
    ) -> Block:  # fmt: skip
        """Learn as `partial_fit` does, and return what happened at each row.

        Parameters
        ----------
        X, y, classes, sample_weight
            As in `partial_fit`.
        keep_scores : bool, default=True
            Whether the trails keep every score, which takes memory.

        Returns
        -------
        Block
            With `trails`, what happened at each row that was learned, and `rows`, which those were.
        """
        return learning.learn_block(self, X, y, classes, sample_weight, keep_scores)

    def _learns_in_place(self, learned: Learned) -> bool:
        """Return whether a row goes to the machine as it is, and counts once."""
        return learned.columns is None

    def _refused(self, error: Exception) -> None:
        """Raise the error of a single row, or count the row."""
        self.report([BadRowPolicy(self.on_bad_row).refused(error)])

    def _fit_all(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit an untrained copy, and take it over in one assignment.

        So others read the model as it was until then, and nothing has changed if it fails.
        """
        with self.turn:
            draft = object.__new__(type(self))
            forgotten = ("_knowledge", "_skipped", "_watch", "_watched", "_waiting", "n_passes_")
            draft.__dict__.update({k: v for k, v in self.__dict__.items() if k not in forgotten})
            learning.learn_all(draft, X, y, sample_weight)
            restore(self, draft.__dict__)
        return self

    def learn_passes(self, machine: Learner, rows: Rows) -> int | None:
        """Run all passes of `fit`; return how many, where a solver decides."""
        X, y, weight = rows.X, rows.y, rows.weight
        for order in self.passes(X.shape[0]):
            try:
                machine.learn(X[order], y[order], weight[order], keep_scores=False)
            except BadRow as bad:  # which counted in the order of the pass
                row = bad.row if isinstance(order, slice) else int(order[bad.row])
                raise BadRow(row, bad.reason) from None
        return None

    def passes(self, n_rows: int) -> Iterator[np.ndarray | slice]:
        """Yield the order of the rows in each pass of `fit`: as given, or shuffled."""
        n_epochs = integer_at_least("n_epochs", self.n_epochs, 1)
        random = None if self.random_state is None else check_random_state(self.random_state)
        for _ in range(n_epochs):
            yield slice(None) if random is None else random.permutation(n_rows)

    def refuse_stream(self) -> None:
        """Refuse to learn from a stream, where that cannot be."""

    def widen(self, n_features: int) -> None:
        """Give rows more features, which are zero in all that was learned; or take those away.

        Parameters
        ----------
        n_features : int
        """
        with self.turn:
            n_waiting = len(self.pending_rows())
            if n_waiting:
                raise ValueError(
                    f"{n_waiting:,} rows wait for their targets, and have fewer features: learn "
                    "these first, by learn_labels."
                )
            machine = self.machine_.copy()
            machine.widen(integer_at_least("n_features", n_features, 1))
            learned = self.known()
            means = None if learned.means is None else learned.means.widened(n_features)
            learned = learned._replace(machine=machine, means=means)
            self.__dict__.update(n_features_in_=n_features, _knowledge=learned)  # in one step

    # --- targets that come late ------------------------------------------------------------------

    def pending_rows(self) -> PendingRows:
        """Return the rows that wait for their targets."""
        room = self.__dict__.get("_waiting")
        if room is not None:
            return room
        n_rows = made_with(self).get("waiting_rows", self.waiting_rows)
        return PendingRows(integer_at_least("waiting_rows", n_rows, 1))

    def learn_labels(self, ids: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the targets of rows that were predicted with these ids.

        The rows are learned in the order of `ids`, and no longer wait. If that fails, they do.

        Parameters
        ----------
        ids : sequence of str or int
            Which rows: those that were given to ``predict(X, ids=...)``.
        y : array-like of shape (n_ids,)
        sample_weight : array-like of shape (n_ids,), default=None

        Returns
        -------
        self

        Examples
        --------
        >>> import kernelstream as ks
        >>> model = ks.KernelRegressor().partial_fit([[0.0], [1.0]], [0.0, 1.0])
        >>> predictions = model.predict([[2.0], [3.0]], ids=["monday", "tuesday"])
        >>> model.learn_labels(["tuesday"], [3.0]).n_seen_, model.n_waiting_
        (3, 1)
        """
        with self.turn:
            self.known()
            delayed_labels.learn_labels(self, ids, y, sample_weight)
        return self

    # --- reading ---------------------------------------------------------------------------------

    def known(self) -> Learned:
        """Return what was learned, or raise an error if that is nothing."""
        learned = self.learned
        if learned is None:
            raise NotFittedError(
                f"This {type(self).__name__} has not learned anything yet: call fit, partial_fit "
                "or learn_one first."
            )
        return learned

    @property
    def machine_(self) -> Any:
        """Return the machine that learns: its parts, state and points."""
        return self.known().machine

    def learns_from_tables(self) -> bool:
        """Return whether rows come as tables, whose columns it encodes."""
        return self.known().columns is not None

    def labels_known(self) -> Labels | None:
        """Return the labels of a classifier, as it knows them."""
        return self.known().labels

    def readout(self) -> str:
        """Return the readout that predicts: the last model."""
        return "last"

    def encoded(self, X: Any) -> Any:
        """Return rows as the numbers that the machine sees, none of which is missing; or an error.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or list of dictionaries

        Returns
        -------
        ndarray or sparse matrix
        """
        return Intake(self, self.known()).ask(X)

    def outputs(self, X: Any) -> np.ndarray:
        """Return the scores of rows, of shape (n_samples, n_outputs of the machine)."""
        return self._read(X)[0]

    def _read(self, X: Any, ids: Any = None) -> tuple[np.ndarray, Learned]:
        """Return the scores of rows, and what had been learned at that moment."""
        if ids is not None:
            with self.turn:
                return delayed_labels.scores_of_waiting(self, X, ids)
        learned = self.known()
        rows = Intake(self, learned).ask(X)
        with learned.machine.gate:
            return learned.machine.scores(rows, self.readout()), learned

    def no_deviations(self) -> str | None:
        """Return why the deviations of targets from predictions are unknown, or None."""
        return self.known().machine.no_deviations()

    def _read_deviations(self, X: Any) -> tuple[np.ndarray, np.ndarray, Learned]:
        """Return scores, deviations of targets, and what had been learned."""
        why_not = self.no_deviations()
        if why_not is not None:
            raise ValueError(why_not)
        learned = self.known()
        rows = Intake(self, learned).ask(X)
        with learned.machine.gate:
            scores, deviations = learned.machine.scores_and_deviations(rows, self.readout())
            return scores, deviations, learned

    def _read_one(self, x: Any) -> tuple[np.ndarray, Learned]:
        """Return the scores of one row, of shape (outputs,), and what had been learned."""
        learned = self.known()
        with learned.machine.gate:
            return self._score_one(learned, x), learned

    def _score_one(self, learned: Learned, x: Any) -> np.ndarray:
        """Return the scores of one row by a machine in whose gate the caller is."""
        return learned.machine.score_row(Intake(self, learned).row(x))

    @property
    def loss_watch(self) -> LossWatch:
        """Return the statistics of the losses, for drift events."""
        return self.__dict__.get("_watch", LossWatch())

    @loss_watch.setter
    def loss_watch(self, watch: LossWatch) -> None:
        self._watch = watch

    # --- files -----------------------------------------------------------------------------------

    def to_bytes(self, beside: dict[str, Any] | None = None) -> bytes:
        """Return the content of the file that `save` writes; `beside` joins its header."""
        return files.content_of(self, self.known(), beside)

    def describe_machine(self, machine: Any, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        """Return what a file's header says of the machine; its arrays join `arrays`."""
        return files.described(machine, arrays)

    def machine_from_file(
        self, header: dict[str, Any], arrays: dict[str, np.ndarray], single_output: bool,
        kernel: Any, max_bytes: int | None,
    ) -> Any:  # fmt: skip
        """Return the machine of a file; `kernel` is the function, where there was one."""
        return files.machine_from_arrays(self, header, arrays, single_output, kernel, max_bytes)

    def take_over(self, learned: Learned, header: dict[str, Any] | None = None) -> None:
        """Take over the model of a file or a fleet."""
        names = (header or {}).get("feature_names")
        files.check_names(names, learned)
        self._knowledge = learned
        note_parameters(self)
        if header and header.get("skipped"):
            self._skipped = {str(reason): int(n) for reason, n in header["skipped"].items()}
        if header and header.get("watch") is not None:
            self.loss_watch = LossWatch.from_json(header["watch"])
        self.n_features_in_ = learned.row_width
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)

    def take_in(self, room: PendingRows) -> None:
        """Let the rows of a file wait for their targets."""
        self._waiting = room

    # --- for scikit-learn ------------------------------------------------------------------------

    def set_params(self, **params: Any) -> Self:
        """Set parameters. Those of a model that has learned take effect when `fit` is called.

        Until then `partial_fit` and `learn_one` raise an error that names the parameter.

        Parameters
        ----------
        **params
            The parameters, also ``part__parameter``.

        Returns
        -------
        self
        """
        super().set_params(**params)
        if any("__" in name for name in params):
            look_inside(self)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return self.learned is not None

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_lock", None)
        state.pop("_watched", None)
        return state

    def __getattr__(self, name: str) -> Any:
        # State is read off the machine. Before there is one these names do not exist, so that
        # hasattr() tells a fitted model from a new one.
        reader, learned = type(self).readable.get(name), self.__dict__.get("_knowledge")
        if reader is None or learned is None:
            return object.__getattribute__(self, name)  # raises, with the original reason
        with learned.machine.gate:
            return reader(self, learned)

    def __dir__(self) -> list[str]:
        readable = [name for name in type(self).readable if hasattr(self, name)]
        return [*super().__dir__(), *readable]
