"""Labels: Newton steps on the log loss."""

import math
from typing import Any, NamedTuple

import numpy as np

from kernelstream.committee.mixing.base import Mixing, solve_positive
from kernelstream.compile import Call, compiled, helper
from kernelstream.parts import number, parameters, part

__all__ = ["NewtonStacking"]


# Log odds beyond which evidence for or against the members is not counted, so that what has become
# true shows within some hundred rows; and as much of it as a single row may bring.
_MOST_EVIDENCE = 10.0
_MOST_OF_ONE_ROW = 2.0

# Chosen on the streams of the benchmark that are for choosing, and on streams with wrong labels.
# Where all labels are predicted with certainty there is no curvature left: without the second
# constant, a single wrong label turned the weights round (digits: from 0 to 75 % errors).
_LONGEST_STEP = 1.0  # sqrt(g M^-1 g), by which a row moves the weights
_DOUBT = 0.01  # the share of wrong labels that the curvature takes for granted
_LATE = 100.0  # rows after which a class is late
_FEW = 5.0  # rows of a late class, which count half for the weights
_MOST_BEFORE = 500.0  # rows before a late class that are held against it


class NewtonState(NamedTuple):
    """Weights of the members in two mixers, of the two mixers in the third, and their Hessians."""

    weights: Any  # (2, members)
    hessian: Any  # (2, members, members)
    top_weights: Any  # (2,)
    top_hessian: Any  # (2, 2)
    counts: Any  # (classes,): weight of the rows of each class so far, which fades
    expected: (
        Any  # (classes,): the same as the members predicted it, with those before a late class
    )
    late: Any  # (classes,): how late each class came, from 0 to 1
    evidence: Any  # (1,): log odds of the members against the frequencies of the classes


class NewtonWork(NamedTuple):
    """Memory for one row."""

    centred: Any  # (members, classes)
    halves: Any  # (2, classes): what the two mixers say
    mixed: Any  # (classes,)
    said: Any  # (classes,): the same, as far as members are believed
    p: Any  # (classes,)
    rarity: Any  # (classes,): logarithms, see `_rarity`
    expected: Any  # (classes,): p of the mixed scores without it
    mean: Any  # (members,)
    slope: Any  # (members,)
    step: Any  # (members,)
    factor: Any  # (members, members)


@helper
def _centre(scores, limit, out):
    """Write the scores of a row with mean zero over the classes; a single output stands for two.

    Scores far below the largest one are raised. To clip every score by itself would make all large
    ones equal, and then nobody knows which one was the largest.
    """
    n = out.shape[0]
    if scores.shape[0] == 1:
        half = 0.5 * min(max(scores[0], -limit), limit)
        out[0], out[1] = -half, half
        return
    top = scores[0]
    for k in range(n):
        top = max(top, scores[k])
    mean = 0.0
    for k in range(n):
        out[k] = max(scores[k] - top, -limit)
        mean += out[k]
    mean /= n
    for k in range(n):
        out[k] -= mean


@helper
def _combine(weights, scores, n, out):
    for k in range(out.shape[0]):
        out[k] = 0.0
    for e in range(n):
        for k in range(out.shape[0]):
            out[k] += weights[e] * scores[e, k]


@helper
def _softmax(z, p):
    """Write probabilities; return the logarithm of their normalizing sum."""
    top = z[0]
    for k in range(z.shape[0]):
        top = max(top, z[k])
    total = 0.0
    for k in range(z.shape[0]):
        p[k] = math.exp(z[k] - top)
        total += p[k]
    for k in range(z.shape[0]):
        p[k] /= total
    return top + math.log(total)


@helper
def _newton_step(weights, hessian, decay, ridge, scores, n, z, label, weight, work):
    """Take one Newton step of limited length on the log loss: g = S (p - e_y), H = Cov_q(S).

    q is p with a small share of every class.
    """
    n_classes = z.shape[0]
    _softmax(z, work.p)
    for e in range(n):
        mean, plain = 0.0, 0.0
        for k in range(n_classes):
            mean += work.p[k] * scores[e, k]
            plain += scores[e, k]
        work.slope[e] = weight * (mean - scores[e, label])
        work.mean[e] = (1.0 - _DOUBT) * mean + _DOUBT * plain / n_classes
    for k in range(n_classes):
        work.p[k] = (1.0 - _DOUBT) * work.p[k] + _DOUBT / n_classes
    for e in range(n):
        for f in range(e + 1):
            total = 0.0
            for k in range(z.shape[0]):
                total += work.p[k] * scores[e, k] * scores[f, k]
            curvature = weight * (total - work.mean[e] * work.mean[f])
            prior = (1.0 - decay) * ridge if e == f else 0.0
            hessian[e, f] = decay * hessian[e, f] + curvature + prior
            hessian[f, e] = hessian[e, f]
    solve_positive(hessian, 0.0, work.slope[:n], work.factor, work.step)
    length2 = 0.0
    for e in range(n):
        length2 += work.slope[e] * work.step[e]
    part = min(1.0, _LONGEST_STEP / math.sqrt(max(length2, 1e-300)))
    for e in range(n):
        weights[e] -= part * work.step[e]


@compiled
def _mix_labels(state, limit, scores, work, out):
    """Return the mixed scores of rows with the present weights."""
    for i in range(scores.shape[1]):
        _mix_row(state, limit, scores, i, work)
        _write_scores(work.said, out[i])


@helper
def _mix_row(state, limit, scores, i, work):
    """Write what the third mixer says, and that with what the frequencies of the classes say."""
    n = scores.shape[0]
    for e in range(n):
        _centre(scores[e, i], limit, work.centred[e])
    for half in range(2):
        _combine(state.weights[half], work.centred, n, work.mixed)
        _centre(work.mixed, limit, work.halves[half])
    _combine(state.top_weights, work.halves, 2, work.mixed)
    _softmax(work.mixed, work.expected)
    for k in range(work.mixed.shape[0]):
        work.rarity[k] = _rarity(state, k)
        work.mixed[k] += work.rarity[k]
    _softmax(work.mixed, work.p)
    share, total = _share_believed(state.evidence[0]), _total(state.counts)
    for k in range(work.said.shape[0]):
        frequency = (state.counts[k] + 1.0) / total
        of_class = share * work.p[k] + (1.0 - share) * frequency
        work.said[k] = math.log(max(of_class, 1e-300))
    _centre(work.said, np.inf, work.said)


@helper
def _share_believed(evidence):
    """Return how probable it is that members know more than how frequent the classes are."""
    return 1.0 / (1.0 + math.exp(-evidence))


@helper
def _rarity(state, k):
    """Return the logarithm of how often a class comes for each time that the members predict it.

    It is zero at most.

    Without it a class that was seen once has about as many rows as the others: its scores are near
    zero for all of them, while those of the others are small where labels are noisy.
    """
    count = state.counts[k]
    return min(0.0, math.log((count + 2.0 * math.sqrt(count) + 1.0) / (state.expected[k] + 1.0)))


@helper
def _known(state, label):
    """Return the weight of a row: members know nothing yet of a new class."""
    few = _FEW * state.late[label]
    return state.counts[label] / (state.counts[label] + few) if few > 0.0 else 1.0


@helper
def _total(counts):
    """Return the weight of all rows so far, as if each class had come once more."""
    total = 0.0
    for k in range(counts.shape[0]):
        total += counts[k] + 1.0
    return total


@helper
def _write_scores(z, out):
    if out.shape[0] == 1:
        out[0] = z[1] - z[0]
    else:
        for k in range(z.shape[0]):
            out[k] = z[k]


@helper
def _count_class(state, decay, label, log_p, p, weight):
    """Learn how frequent a class is, and whether log p of its label is more than that says."""
    more = log_p - math.log((state.counts[label] + 1.0) / _total(state.counts))
    more = min(max(more, -_MOST_OF_ONE_ROW), _MOST_OF_ONE_ROW)
    evidence = state.evidence[0] + weight * more
    state.evidence[0] = min(max(evidence, -_MOST_EVIDENCE), _MOST_EVIDENCE)
    for k in range(state.counts.shape[0]):
        state.counts[k] *= decay
        state.expected[k] = decay * state.expected[k] + weight * p[k]
    state.counts[label] += weight


@compiled
def _learn_labels(state, decays, top_decay, ridge, limit, scores, y, weight, work, out, loss):
    n, single = scores.shape[0], scores.shape[2] == 1
    for i in range(scores.shape[1]):
        _mix_row(state, limit, scores, i, work)
        _write_scores(work.said, out[i])
        label = int(y[i] > 0.0) if single else int(y[i])
        loss[i] = _softmax(work.said, work.p) - work.said[label]
        if weight[i] == 0.0:
            continue
        log_p = work.mixed[label] - _softmax(work.mixed, work.p)
        counts_for = _known(state, label) * weight[i]
        _count_class(state, decays[1], label, log_p, work.expected, weight[i])
        _newton_step(
            state.top_weights, state.top_hessian, top_decay, ridge, work.halves, 2, work.mixed,
            label, counts_for, work,
        )  # fmt: skip
        for half in range(2):
            _combine(state.weights[half], work.centred, n, work.mixed)
            for k in range(work.mixed.shape[0]):
                work.mixed[k] += work.rarity[k]
            _newton_step(
                state.weights[half], state.hessian[half], decays[half], ridge, work.centred, n,
                work.mixed, label, counts_for, work,
            )  # fmt: skip


def _n_classes(n_outputs: int) -> int:
    """Return how many classes are mixed: a single output has two."""
    return max(n_outputs, 2)


@part("mixing", "newton")
@parameters
class NewtonStacking(Mixing):
    """One weight per member, learned by Newton steps on the log loss of the mixed scores.

    The scores of each member are limited and centred over the classes; ``z = sum_e w_e s_e`` are
    the mixed scores, and ``softmax(z)`` are probabilities. At each row
    ``M <- decay M + Cov_p(s) + (1 - decay) ridge I`` and ``w <- w - M^-1 g``, with the gradient g
    of the log loss. Two mixers forget at different rates, and a third one mixes them. Where nothing
    can be learned, the frequencies of the classes so far are the best that can be said: the
    probabilities p become ``b p + (1 - b) frequency``, where the log odds of b are the sum of
    log p(label) - log frequency(label) over the rows.

    A step is not longer than 1 in the norm of M, and Cov takes one label in a hundred to be wrong,
    so that a few wrong labels move the weights little. A class that members predict more often than
    it comes loses probability in proportion, and a class that comes late begins like that: a label
    that was seen once does not win against frequent ones.

    Parameters
    ----------
    decays : tuple of two floats, default=(0.99, 0.9999)
        How fast the two mixers forget. Frequencies of classes are forgotten as by the second.
    top_decay : float, default=0.999
        How fast the mixer of the two forgets.
    ridge : float, default=4.0
        The curvature before any row has been seen.
    start : float, default=1.0
        The sum of the weights before any row has been seen.
    limit : float, default=20.0
        The largest difference between two scores of a row: lower scores are raised to so much below
        the largest.

    Examples
    --------
    >>> import kernelstream as ks
    >>> ks.committee.NewtonStacking(ridge=1.0)
    NewtonStacking(decays=(0.99, 0.9999), limit=20.0, ridge=1.0, start=1.0, top_decay=0.999)
    """

    decays: Any = (0.99, 0.9999)
    top_decay: float = 0.999
    ridge: float = 4.0
    start: float = 1.0
    limit: float = 20.0

    version = 2
    task = "classification"
    gives_probabilities = True

    def check(self) -> None:
        if len(self.decays) != 2:
            raise ValueError(f"decays={self.decays!r} are not two numbers: give (0.99, 0.9999).")
        for decay in (*self.decays, self.top_decay):
            number("decay", decay, above=0, at_most=1)
        for name in ("ridge", "start", "limit"):
            number(name, getattr(self, name), above=0)

    def new_state(self, n_members: int, n_outputs: int) -> NewtonState:
        ridge = float(self.ridge)
        counts, expected, late = np.zeros((3, _n_classes(n_outputs)))
        return NewtonState(
            np.full((2, n_members), self.start / n_members),
            np.tile(ridge * np.eye(n_members), (2, 1, 1)),
            np.full(2, 0.5),
            ridge * np.eye(2),
            counts,
            expected,
            late,
            np.zeros(1),
        )

    def widened(self, state: NewtonState, n_outputs: int) -> NewtonState:
        n_new = _n_classes(n_outputs) - len(state.counts)
        if n_new == 0:
            return state
        n_rows, n_before = state.counts.sum(), len(state.counts)
        # as if the members had predicted it as often as the others
        expected = np.full(n_new, min(n_rows, _MOST_BEFORE) / n_before)
        return state._replace(
            counts=np.append(state.counts, np.zeros(n_new)),
            expected=np.append(state.expected, expected),
            late=np.append(state.late, np.full(n_new, min(n_rows / _LATE, 1.0))),
        )

    def _work(self, scores: np.ndarray) -> NewtonWork:
        n, classes = max(len(scores), 2), _n_classes(scores.shape[2])
        mixed, said, p, rarity, expected = np.zeros((5, classes))
        mean, slope, step = np.zeros((3, n))
        return NewtonWork(
            np.zeros((n, classes)), np.zeros((2, classes)), mixed, said, p, rarity, expected,
            mean, slope, step, np.zeros((n, n)),
        )  # fmt: skip

    def _arguments(self, state: Any, scores: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Any:
        out, loss = np.empty(scores.shape[1:]), np.empty(scores.shape[1])
        return (
            state, np.array(self.decays, float), float(self.top_decay), float(self.ridge),
            float(self.limit), scores, y, weight, self._work(scores), out, loss,
        )  # fmt: skip

    def learn(self, state, scores, y, weight):
        arguments = self._arguments(state, scores, y, weight)
        _learn_labels(*arguments)
        return arguments[-2:]

    def calls(self, state, scores, y):
        return [Call(_learn_labels, *self._arguments(state, scores, y, np.ones(1)))]

    def mix(self, state, scores):
        out = np.empty(scores.shape[1:])
        _mix_labels(state, float(self.limit), scores, self._work(scores), out)
        return out

    def weights(self, state):
        return _share_believed(state.evidence[0]) * (state.top_weights @ state.weights)
