"""What all estimators share: rows to a machine, and its state to read."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from kernelstream.delayed_labels import PendingRows
from kernelstream.drift import LossWatch
from kernelstream.estimators.intake import Encoded, Intake, Learned, Rows
from kernelstream.estimators.labels import Labels
from kernelstream.estimators.made_with import MadeWith
from kernelstream.label_kernels import LabelStructure
from kernelstream.learner.learn import Trail
from kernelstream.learner.learner import Learner
from kernelstream.learner.rows import BadRow
from kernelstream.parts import integer_at_least
from kernelstream.tables.columns import Columns
from kernelstream.threads import between_steps

__all__ = ["Block", "Learned", "Rows", "StreamEstimator"]


class Block(NamedTuple):
    """A block of rows that has been learned."""

    trails: list[Trail]  # several where a new class changed the number of scores
    rows: np.ndarray | None  # which rows were learned; None: all


class StreamEstimator(Intake, MadeWith):
    """What all estimators share: rows to a machine, all or nothing, and its state to read.

    Subclasses say the task, how targets become numbers, and what learns: one machine, or several.
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
        "unlisted_": lambda model, learned: _of_table(learned).n_unlisted(),
        "columns_": lambda model, learned: _of_table(learned).kinds(),
    }

    n_epochs: Any = 1
    random_state: Any = None
    waiting_rows: Any = 10_000

    # --- what subclasses say ---------------------------------------------------------------------

    def structure(self) -> LabelStructure | None:
        """The structure of the labels, where there is one."""
        return None

    def _checked(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, whole_data: bool = False
    ) -> Rows:
        """Rows and targets as a machine learns them, or an error; `whole_data`: for `fit`."""
        raise TypeError(f"{type(self).__name__} must say how its targets become numbers.")

    def _look_before(self, learned: Learned, rows: Rows) -> None:
        """Warn of what a block shows that has not been learned yet."""

    def _check_machine(self, machine: Learner, rows: Rows) -> None:
        """Refuse a block that a machine cannot take, before it learns."""

    def _check_learned(self, rows: Rows, n_seen: int, whole_data: bool = False) -> None:
        """Warn of what a block has shown."""

    def decode(self, scores: np.ndarray, margins: np.ndarray) -> np.ndarray:
        """Predictions from the scores of labels, a row each, and the margins at these rows."""
        raise TypeError(f"{type(self).__name__} must say what it predicts.")

    def no_file(self) -> str | None:
        """Why it cannot be written to a file, if so."""
        return None

    def per_label(self, outputs: np.ndarray) -> np.ndarray:
        """Numbers for each label from numbers for each output, a row each."""
        structure = self.structure()
        return outputs if structure is None else structure.label_scores(outputs)

    def new_machine(self, rows: Rows, whole_data: bool) -> Learner:
        """A machine that has learned nothing; `whole_data`: these are all rows there will be."""
        raise TypeError(f"{type(self).__name__} must say what learns.")

    # --- learning: all or nothing, and never under a reader's eyes --------------------------------

    @property
    def _turn(self) -> Any:
        """The lock for which learning calls of several threads wait."""
        lock = self.__dict__.get("_lock")
        return self.__dict__.setdefault("_lock", threading.RLock()) if lock is None else lock

    def learn_block(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None,
        keep_scores: bool = True,
    ) -> Block:  # fmt: skip
        """`partial_fit`, and what happened at each row.

        Where no other thread exists, nobody can read meanwhile: the machine changes in place, and
        is put back after an error. Otherwise a draft of it learns, while others read the machine as
        it was; then the draft takes its place, in one step.

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
        self._refuse_stream()
        with self._turn:
            if self._learned is not None:
                self._refuse_changed()
            sifted = self._sifted(X, y, sample_weight) if self.skips_bad_rows() else None
            trails: list[Trail] = []
            readout = self.readout() if keep_scores else "last"
            while sifted is None or sifted.kept.size:
                if sifted is not None:
                    X, y, sample_weight = sifted.sound()
                before, machine = dict(self.__dict__), None
                try:
                    rows = self._checked(X, y, classes, sample_weight)
                    if self._learned is None:
                        self.pending_rows()  # checks `waiting_rows`
                        machine = self._maker().new_machine(rows, whole_data=False).as_draft()
                    else:
                        self._look_before(self._learned, rows)
                        machine = self._learned.machine
                        alone = rows.are_one() and not keep_scores
                        if alone and _learns_in_place(machine, rows.X, rows.y[0]):
                            break
                        between_steps()
                        machine = machine.changeable()
                    self._check_machine(machine, rows)
                    between_steps()
                    with machine.gate.for_writing():
                        machine.begin()
                        trails = machine.learn(
                            rows.X,
                            rows.y,
                            rows.weight,
                            rows.new_outputs,
                            keep_scores,
                            readout=readout,
                        )
                        self._knowledge = rows.learned_by(machine)
                        machine.commit()
                except BaseException as error:
                    if machine is None or machine.roll_back():
                        self._restore(before)
                    if sifted is None or not isinstance(error, BadRow):
                        raise
                    sifted.leave_out(error)
                    continue
                between_steps()
                self._check_learned(rows, machine.n_seen)
                break
            if sifted is not None:
                self._report(sifted.bad)
            return Block(trails, None if sifted is None else sifted.kept)

    def _restore(self, before: dict[str, Any]) -> None:
        self.__dict__.update(before)
        for name in set(self.__dict__) - set(before):
            del self.__dict__[name]

    def _learn_row(self, learned: Learned, x: Any, y: float) -> None:
        """Learn one row after what has been learned, all or nothing."""
        self._refuse_changed()
        row, means = self._counted_row(x, learned)
        machine, labels, counts, columns, _ = learned
        if means is None:
            if _learns_in_place(machine, row, y):
                return
        elif machine.gate.is_free():  # nobody sees one without the other
            n_before = machine.n_seen
            self._knowledge = Learned(machine, labels, counts, columns, means)
            try:
                if _learns_in_place(machine, row, y):
                    return
                self._knowledge = learned
            except BaseException:
                if machine.n_seen == n_before:  # it was not learned
                    self._knowledge = learned
                raise
        machine = machine.changeable()
        with machine.gate.for_writing():
            try:
                machine.begin()
                machine.learn_row(row, y)
                self._knowledge = learned._replace(machine=machine, means=means)
                machine.commit()
            except BaseException:
                if machine.roll_back():
                    self._knowledge = learned
                raise

    def _fit_all(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """`fit` on a model that has learned nothing; then this one becomes it, in one step.

        So others read the model as it was until then, and nothing has changed if it fails.
        """
        with self._turn:
            draft = object.__new__(type(self))
            forgotten = ("_knowledge", "_skipped", "_watch", "_watched", "_waiting", "n_passes_")
            draft.__dict__.update({k: v for k, v in self.__dict__.items() if k not in forgotten})
            draft.learn_all(X, y, sample_weight)
            self._restore(draft.__dict__)
        return self

    def learn_all(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Learn all of X in the passes of `fit`, as a model that has learned nothing."""
        sifted = None
        if self.skips_bad_rows():
            sifted = self._sifted(X, y, sample_weight)
        while True:
            if sifted is not None:
                if not sifted.kept.size:
                    raise ValueError("no row of X can be learned: there is nothing to fit.")
                X, y, sample_weight = sifted.sound()
            try:
                rows = self._checked(X, y, None, sample_weight, whole_data=True)
                self.pending_rows()  # checks `waiting_rows`
                machine = self._maker().new_machine(rows, whole_data=True)
                n_passes = self._learn_epochs(machine, rows)
                break
            except BadRow as refused:
                if sifted is None:
                    raise
                sifted.leave_out(refused)
        if n_passes is not None:
            self.n_passes_ = n_passes
        self._knowledge = rows.learned_by(machine)
        self._check_learned(rows, machine.n_seen, whole_data=True)
        if sifted is not None:
            self._report(sifted.bad)

    def _learn_epochs(self, machine: Learner, rows: Rows) -> int | None:
        """All the passes of `fit`; how many there were, where a solver decides."""
        X, y, weight = rows.X, rows.y, rows.weight
        for order in self._epochs(X.shape[0]):
            try:
                machine.learn(X[order], y[order], weight[order], keep_scores=False)
            except BadRow as bad:  # which counted in the order of the pass
                row = bad.row if isinstance(order, slice) else int(order[bad.row])
                raise BadRow(row, bad.reason) from None
        return None

    def _epochs(self, n_rows: int) -> Iterator[np.ndarray | slice]:
        """The order of the rows in each pass of `fit`: as given, or shuffled by random_state."""
        n_epochs = integer_at_least("n_epochs", self.n_epochs, 1)
        random = None if self.random_state is None else check_random_state(self.random_state)
        for _ in range(n_epochs):
            yield slice(None) if random is None else random.permutation(n_rows)

    def _refuse_stream(self) -> None:
        """Refuse to learn from a stream, where that cannot be."""

    def widen(self, n_features: int) -> None:
        """Give rows more features, which are zero in all that was learned; or take those away.

        Parameters
        ----------
        n_features : int
        """
        with self._turn:
            n_waiting = len(self.pending_rows())
            if n_waiting:
                raise ValueError(
                    f"{n_waiting:,} rows wait for their targets, and have fewer features: learn "
                    "these first, by learn_labels."
                )
            machine = self.machine_.copy()
            machine.widen(integer_at_least("n_features", n_features, 1))
            learned = self._known()
            means = None if learned.means is None else learned.means.widened(n_features)
            learned = learned._replace(machine=machine, means=means)
            self.__dict__.update(n_features_in_=n_features, _knowledge=learned)  # in one step

    # --- targets that come late ------------------------------------------------------------------

    def pending_rows(self) -> PendingRows:
        """The rows that wait for their targets."""
        room = self.__dict__.get("_waiting")
        if room is not None:
            return room
        n_rows = self.made_with().get("waiting_rows", self.waiting_rows)
        return PendingRows(integer_at_least("waiting_rows", n_rows, 1))

    def _read_waiting(self, X: Any, ids: Any) -> tuple[np.ndarray, Learned]:
        """`_read`, after which the rows wait for their targets.

        Columns and means count these rows now, as they come, so that what waits are the numbers
        that were scored.
        """
        with self._turn:
            learned = self._known()
            rows = self._taken(X, "no_validation", None, False)
            with learned.machine.gate:
                scores = learned.machine.scores(rows.X, self.readout())
            room = self.pending_rows()
            room.add(ids, rows.X)
            self._waiting = room
            self._knowledge = learned._replace(columns=rows.columns, means=rows.means)
            return scores, learned

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
        with self._turn:
            self._known()
            room = self.pending_rows()
            rows = room.rows_of(ids)
            rows = rows.view(Encoded) if isinstance(rows, np.ndarray) else rows
            self.learn_block(rows, y, None, sample_weight, keep_scores=False)
            room.remove(ids)
        return self

    # --- reading ---------------------------------------------------------------------------------

    def _known(self) -> Learned:
        """What has been learned so far, or an error where that is nothing."""
        learned = self._learned
        if learned is None:
            raise NotFittedError(
                f"This {type(self).__name__} has not learned anything yet: call fit, partial_fit "
                "or learn_one first."
            )
        return learned

    @property
    def machine_(self) -> Any:
        """The machine that learns: its parts, state and points."""
        return self._known().machine

    def learns_from_tables(self) -> bool:
        """Whether rows come as tables, whose columns it encodes."""
        return self._known().columns is not None

    def labels_known(self) -> Labels | None:
        """The labels of a classifier, as it knows them."""
        return self._known().labels

    def readout(self) -> str:
        """What predicts: the model as it is."""
        return "last"

    def encoded(self, X: Any) -> Any:
        """Rows as the numbers that the machine sees, none of which is missing; or an error.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or list of dictionaries

        Returns
        -------
        ndarray or sparse matrix
        """
        return self._asked(X, self._known())

    def outputs(self, X: Any) -> np.ndarray:
        """The scores of rows, one for every output of the machine.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
        """
        return self._read(X)[0]

    def _read(self, X: Any, ids: Any = None) -> tuple[np.ndarray, Learned]:
        """The scores of rows, and what had been learned at that moment."""
        if ids is not None:
            return self._read_waiting(X, ids)
        learned = self._known()
        rows = self._asked(X, learned)
        with learned.machine.gate:
            return learned.machine.scores(rows, self.readout()), learned

    def no_deviations(self) -> str | None:
        """Why nothing is known of how far targets lie from predictions, if so."""
        return self._known().machine.no_deviations()

    def _read_deviations(self, X: Any) -> tuple[np.ndarray, np.ndarray, Learned]:
        """The scores of rows, the deviations of targets from them, and what had been learned."""
        why_not = self.no_deviations()
        if why_not is not None:
            raise ValueError(why_not)
        learned = self._known()
        rows = self._asked(X, learned)
        with learned.machine.gate:
            scores, deviations = learned.machine.scores_and_deviations(rows, self.readout())
            return scores, deviations, learned

    def _read_one(self, x: Any) -> tuple[np.ndarray, Learned]:
        """The scores of one row, of shape (outputs,), and what had been learned at that moment."""
        learned = self._known()
        with learned.machine.gate:
            return self._score_one(learned, x), learned

    def _score_one(self, learned: Learned, x: Any) -> np.ndarray:
        """The scores of one row by a machine in whose gate the caller is."""
        return learned.machine.score_row(self._row(x, learned))

    @property
    def loss_watch(self) -> LossWatch:
        """What is known of the losses that `prequential` has seen, for its events."""
        return self.__dict__.get("_watch", LossWatch())

    @loss_watch.setter
    def loss_watch(self, watch: LossWatch) -> None:
        self._watch = watch

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return self._learned is not None

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


def _of_table(learned: Learned) -> Columns:
    if learned.columns is None:
        raise AttributeError(
            "columns_ and unlisted_ are known of models that learn from tables with columns of "
            "categories or dates."
        )
    return learned.columns


def _learns_in_place(machine: Learner, row: Any, y: float) -> bool:
    """Learn a row if it takes a single call of compiled code, and nobody reads; whether so."""
    with machine.gate.lock:  # for which new readers wait, as long as one row takes
        return not machine.gate.readers and machine.learn_at_once(row, y)
