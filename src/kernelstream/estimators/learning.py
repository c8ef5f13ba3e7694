"""How an estimator learns blocks, single rows and whole data sets, all or nothing."""

from typing import Any

from kernelstream.estimators.bad_rows import BadRowPolicy, Sifted
from kernelstream.estimators.intake import Intake
from kernelstream.estimators.learned import Block, Learned, Rows
from kernelstream.estimators.made_with import maker, refuse_changed
from kernelstream.estimators.transaction import Transaction
from kernelstream.learner.learn import Trail
from kernelstream.learner.learner import Learner
from kernelstream.learner.rows import BadRow
from kernelstream.threads import between_steps

__all__ = ["learn_all", "learn_block", "learn_row"]


def learn_block(
    model: Any, X: Any, y: Any, classes: Any, sample_weight: Any, keep_scores: bool = True,
    sifts: bool = True,
) -> Block:  # fmt: skip
    """Learn a block of rows, or raise an error and change nothing.

    Where no other thread exists, nobody can read meanwhile: the machine changes in place, and is
    put back after an error. Otherwise a draft of it learns, while others read the machine as it
    was; then the draft takes its place, in one step. `sifts`: leave out rows that cannot be
    learned, if `on_bad_row` says so.
    """
    if sifts and model.on_bad_row != "raise" and BadRowPolicy(model.on_bad_row).skips:
        return _learn_sound(model, X, y, classes, sample_weight, keep_scores)
    model.refuse_stream()
    readout = model.readout() if keep_scores else "last"
    with model.turn:
        learned, rows = model.learned, None
        if learned is not None:  # then checks change nothing
            refuse_changed(model)
            rows = model.checked(X, y, classes, sample_weight)
            model.look_before(learned, rows)
            alone = not keep_scores and _is_one(rows)
            if alone and _learns_in_place(learned.machine, rows.X, rows.y[0]):
                return Block([], None)
        with Transaction(model) as transaction:
            if rows is None:
                rows = model.checked(X, y, classes, sample_weight)
                model.pending_rows()  # checks `waiting_rows`
                machine = maker(model).new_machine(rows, whole_data=False).as_draft()
            else:
                between_steps()
                machine = learned.machine.changeable()
            transaction.machine = machine
            model.check_machine(machine, rows)
            between_steps()
            with machine.gate.for_writing():
                machine.begin()
                trails = machine.learn(
                    rows.X, rows.y, rows.weight, rows.new_outputs, keep_scores, readout=readout
                )
                model.learned = rows.learned_by(machine)
                machine.commit()
        between_steps()
        return Block(trails, None)


def _learn_sound(
    model: Any, X: Any, y: Any, classes: Any, sample_weight: Any, keep_scores: bool
) -> Block:
    """Learn the rows of a block that can be learned, and count the others."""
    trails: list[Trail] = []
    model.refuse_stream()
    with model.turn:
        sifted = _sifted(model, X, y, sample_weight)
        while sifted.kept.size:
            X, y, sample_weight = sifted.sound()
            try:
                block = learn_block(model, X, y, classes, sample_weight, keep_scores, sifts=False)
                trails = block.trails
                break
            except BadRow as refused:
                sifted.leave_out(refused)
        model.report(sifted.bad)
        return Block(trails, sifted.kept)


def _sifted(model: Any, X: Any, y: Any, sample_weight: Any) -> Sifted:
    """Return the rows that look sound, and the others."""
    return Sifted(X, y, sample_weight, model.intake().problems, model.target_check())


def _is_one(rows: Rows) -> bool:
    """Return whether this is one row of weight one that changes nothing but the machine."""
    return (
        rows.X.shape[0] == 1
        and rows.weight[0] == 1.0
        and not rows.new_outputs
        and rows.class_counts is None
        and rows.columns is None
        and rows.means is None
    )


def _learns_in_place(machine: Learner, row: Any, y: float) -> bool:
    """Learn a row if it takes a single call of compiled code, and nobody reads; return whether."""
    with machine.gate.lock:  # for which new readers wait, as long as one row takes
        return not machine.gate.readers and machine.learn_at_once(row, y)


def learn_row(model: Any, learned: Learned, x: Any, y: float) -> None:
    """Learn one row after what has been learned, all or nothing."""
    refuse_changed(model)
    row, means = Intake(model, learned).counted_row(x)
    machine = learned.machine
    if means is None:
        if _learns_in_place(machine, row, y):
            return
    elif machine.gate.is_free():  # nobody sees one without the other
        n_before = machine.n_seen
        model.learned = learned._replace(means=means)
        try:
            if _learns_in_place(machine, row, y):
                return
            model.learned = learned
        except BaseException:
            if machine.n_seen == n_before:  # it was not learned
                model.learned = learned
            raise
    with Transaction(model) as transaction:
        machine = transaction.machine = machine.changeable()
        with machine.gate.for_writing():
            machine.begin()
            machine.learn_row(row, y)
            model.learned = learned._replace(machine=machine, means=means)
            machine.commit()


def learn_all(model: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Learn all of X in the passes of `fit`, as a model that has learned nothing."""
    skips = BadRowPolicy(model.on_bad_row).skips
    sifted = _sifted(model, X, y, sample_weight) if skips else None
    while True:
        if sifted is not None:
            if not sifted.kept.size:
                raise ValueError("no row of X can be learned: there is nothing to fit.")
            X, y, sample_weight = sifted.sound()
        try:
            rows = model.checked(X, y, None, sample_weight, whole_data=True)
            model.pending_rows()  # checks `waiting_rows`
            machine = maker(model).new_machine(rows, whole_data=True)
            n_passes = model.learn_passes(machine, rows)
            break
        except BadRow as refused:
            if sifted is None:
                raise
            sifted.leave_out(refused)
    if n_passes is not None:
        model.n_passes_ = n_passes
    model.learned = rows.learned_by(machine)
    if sifted is not None:
        model.report(sifted.bad)
