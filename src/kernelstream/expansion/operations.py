"""What a move does to the kernel expansion, and to the raw scores of the rows still to come.

Every function here changes coefficients and, by the same linear rule, the raw scores of the rows
after row i of the tile. Each also keeps ||f||^2 and <f, v> true where it can. Those that are large
are compiled once and kept, whatever the parts of a model are.
"""

from kernelstream.compile import helper

__all__ = [
    "SMALLEST_SCALE", "add_to_rest", "correct_for_drop", "decay_all", "dot", "dot_on", "drop",
    "give_up", "insert", "make_raw", "measure", "nonzeros", "project", "project_new",
    "put_into_gram", "raw_of_every", "raw_of_touched", "retire", "write_raw_of_every",
    "write_raw_of_touched",
]  # fmt: skip

# The scalars of the decay are folded into the coefficients before they leave this range.
SMALLEST_SCALE = 1e-60


@helper(apart=True, any_order=True)
def dot(x, y):
    """Return inner product of two short vectors, without a call to BLAS."""
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k] * y[k]
    return total


@helper
def dot_on(active, n_active, x, y):
    """Return inner product over the outputs in `active` alone."""
    total = 0.0
    for m in range(n_active):
        total += x[active[m]] * y[active[m]]
    return total


@helper
def nonzeros(alpha, beta, traced, active):
    """Write the outputs that a row touches into `active`; return how many."""
    n_active = 0
    for k in range(alpha.shape[0]):
        active[n_active] = k  # always, and counted if it is one: nobody guesses which ones are
        n_active += int((alpha[k] != 0.0) | (traced & (beta[k] != 0.0)))
    return n_active


@helper
def make_raw(expansion, alpha, beta, coef):
    """Write alpha and beta as raw coefficients: ``a = alpha / p``, ``b = (beta - r a) / q``."""
    p, q, r = expansion.scale[0], expansion.scale[1], expansion.scale[2]
    if q == 0.0:  # every b is zero, so their scale is free
        q = 1.0
        expansion.scale[1] = q
    per_p, per_q = 1.0 / p, 1.0 / q  # to divide by them for every output would take far longer
    for k in range(alpha.shape[0]):
        coef[k, 0] = alpha[k] * per_p
        if coef.shape[1] > 1:
            coef[k, 1] = (beta[k] - r * coef[k, 0]) * per_q


@helper(apart=True, any_order=True)
def raw_of_every(lines, n, k_j):
    """Return raw f and v of one output, its rows of `coef`, at a point with kernel values k_j."""
    raw_f, raw_v = 0.0, 0.0
    if lines.shape[0] == 1:
        for j in range(n):
            raw_f += lines[0, j] * k_j[j]
    else:
        for j in range(n):
            raw_f += lines[0, j] * k_j[j]
            raw_v += lines[1, j] * k_j[j]
    return raw_f, raw_v


@helper(apart=True, any_order=True)
def raw_of_touched(coef, outputs, output, n, k_j):
    """Return the same where lines belong to several outputs."""
    raw_f, raw_v, traced = 0.0, 0.0, coef.shape[1] > 1
    for line in range(coef.shape[0]):
        for j in range(n):
            if outputs[line, j] == output:
                raw_f += coef[line, 0, j] * k_j[j]
                if traced:
                    raw_v += coef[line, 1, j] * k_j[j]
    return raw_f, raw_v


@helper
def write_raw_of_every(coef, function, n, k_x, raw):
    """Write the raw scores of one row, whose kernel values with the points are k_x."""
    for output in range(coef.shape[0]):
        raw[output, function, 0] = dot(coef[output, function, :n], k_x[:n])


@helper
def write_raw_of_touched(coef, outputs, function, n, k_x, raw):
    """Do the same where each row of coefficients belongs to several outputs."""
    for output in range(raw.shape[0]):
        raw[output, function, 0] = 0.0
    for line in range(coef.shape[0]):
        for j in range(n):
            raw[outputs[line, j], function, 0] += coef[line, function, j] * k_x[j]


@helper
def decay_all(expansion, tile, keep, keep_v, cross):
    """Multiply f by `keep`, v by `keep_v`, and add `cross` f to v, by their three scalars."""
    p, q, r = expansion.scale[0], expansion.scale[1], expansion.scale[2]
    if expansion.coef.shape[1] > 1:
        r = keep_v * r + cross * p
        if q != 0.0 and keep_v == 0.0:  # v forgets all of b; from here q is zero, as every b is
            expansion.coef[:, 1] = 0.0
            tile.raw[:, 1] = 0.0
            tile.pending.forget_trace()
            tile.changes.mark_all()
        q = keep_v * q
    p = keep * p
    folds = p < SMALLEST_SCALE or 0.0 < q < SMALLEST_SCALE
    expansion.average.settle_before(expansion, tile, p, folds)
    if folds:
        for k in range(expansion.coef.shape[0]):
            fold(expansion.coef[k], p, q, r)
        for k in range(tile.raw.shape[0]):
            fold(tile.raw[k], p, q, r)
        tile.pending.fold_all(p, q, r)
        for j in range(expansion.size2.shape[0]):
            expansion.size2[j] *= p * p
        tile.changes.mark_all()
        p, q, r = 1.0, 1.0, 0.0
    expansion.scale[0] = p
    expansion.scale[1] = q
    expansion.scale[2] = r


@helper
def fold(raw, p, q, r):
    """Make ``alpha = p a`` and ``beta = q b + r a`` the stored numbers, a and b being lines."""
    for j in range(raw.shape[1]):
        if raw.shape[0] > 1:
            raw[1, j] = q * raw[1, j] + r * raw[0, j]
        raw[0, j] *= p


@helper
def add_to_rest(raw, output, coef, sign, k, line, i):
    """Correct raw f and v of the rows after i, for coefficients that come at a line of k, or go."""
    a = sign * coef[0]
    b = sign * coef[1] if coef.shape[0] > 1 else 0.0
    if a == 0.0 and b == 0.0:
        return
    # from zero on: only then does the compiler see that no index is negative, and takes several
    values, rest = k[line, i + 1 :], raw[output, 0, i + 1 :]
    if b == 0.0:
        for j in range(values.shape[0]):
            rest[j] += a * values[j]
    else:
        rest_v = raw[output, 1, i + 1 :]
        for j in range(values.shape[0]):
            rest[j] += a * values[j]
            rest_v[j] += b * values[j]


# --- points that go ------------------------------------------------------------------------------


@helper
def drop(expansion, tile, slot, i):
    """Take the point in `slot` out of f and v; its share of the sum of all models goes with it.

    Norms have been corrected before, where they are (`correct_for_drop`).
    """
    expansion.average.drop_sum(slot)
    for line in range(expansion.coef.shape[0]):
        output = expansion.outputs.output_of(line, slot)
        add_to_rest(tile.raw, output, expansion.coef[line, :, slot], -1.0, tile.k, slot, i)


@helper
def give_up(expansion, point):
    """Drop the new point itself: the norms are as if it had not come."""
    expansion.norm2[0] = point.norms_without[0]
    expansion.pi[0] = point.norms_without[1]


@helper
def correct_for_drop(expansion, k_j, tile, slot, i, point):
    """Return ||f||^2 and <f, v> without the point in `slot`, with the kernel values k_j."""
    p, q, r = expansion.scale[0], expansion.scale[1], expansion.scale[2]
    n, traced = k_j.shape[0], expansion.coef.shape[1] > 1
    for line in range(expansion.coef.shape[0]):
        a = expansion.coef[line, 0, slot]
        b = expansion.coef[line, 1, slot] if traced else 0.0
        if a == 0.0 and b == 0.0:
            continue
        k = expansion.outputs.output_of(line, slot)
        # ||f - a k_j||^2 = ||f||^2 - 2 a f(x_j) + a^2 k_jj, and likewise for <f, v>
        raw_f, raw_v = expansion.outputs.raw_at(expansion.coef, k, n, k_j)
        f_j, alpha_j = p * raw_f + point.alpha[k] * tile.k[slot, i], p * a
        expansion.norm2[0] += alpha_j * (alpha_j * k_j[slot] - 2.0 * f_j)
        if traced:
            v_j = q * raw_v + r * raw_f + point.beta[k] * tile.k[slot, i]
            beta_j = q * b + r * a
            expansion.pi[0] += alpha_j * beta_j * k_j[slot] - alpha_j * v_j - beta_j * f_j
    expansion.norm2[0] = max(expansion.norm2[0], 0.0)


@helper
def retire(expansion, tile, slot, i, point):
    """Drop a point whose slot stays, without coefficients."""
    tile.gram.correct_norms(expansion, tile, slot, i, point)
    drop(expansion, tile, slot, i)
    expansion.coef[:, :, slot] = 0.0
    expansion.size2[slot] = 0.0
    tile.changes.mark(slot)


# --- points that are projected on the others -----------------------------------------------------


@helper(apart=True)
def project(expansion, tile, weights, slot, gap, i, point):
    """Replace the point in `slot` by a combination of the others, row i among them.

    `gap` is the squared distance that remains; the last of the weights is that of row i.
    """
    p, q, r = expansion.scale[0], expansion.scale[1], expansion.scale[2]
    n, traced = expansion.n_points[0], expansion.coef.shape[1] > 1
    expansion.average.project_sum(expansion, weights, slot)
    for k in range(expansion.coef.shape[0]):
        a = expansion.coef[k, 0, slot]
        b = expansion.coef[k, 1, slot] if traced else 0.0
        expansion.norm2[0] -= p * a * p * a * gap
        expansion.pi[0] -= p * a * (q * b + r * a) * gap
        for s in range(expansion.coef.shape[1]):
            amount = expansion.coef[k, s, slot]
            spread(expansion.coef[k, s], amount, weights, n)
            point.coef[k, s] += weights[n] * amount
    for k in range(point.active.shape[0]):  # any output may have a coefficient now
        point.active[k] = k
    point.n_active[0] = point.active.shape[0]
    combine_at_rest(tile, weights, n, i, point.rest)
    difference = point.rest  # of the combination and the point, at the rows to come
    for j in range(i + 1, tile.raw.shape[2]):
        difference[j] -= tile.k[slot, j]
    add_combination(tile.raw, expansion.coef[:, :, slot], difference, i)
    measure(expansion, n)
    tile.changes.mark_all()


@helper(apart=True)
def project_new(expansion, tile, weights, gap, i, point):
    """Project row i on the points; it becomes none itself."""
    n = expansion.n_points[0]
    expansion.norm2[0] = max(expansion.norm2[0] - dot(point.alpha, point.alpha) * gap, 0.0)
    if expansion.coef.shape[1] > 1:
        expansion.pi[0] -= dot(point.alpha, point.beta) * gap
    expansion.average.project_new(expansion, weights, point)
    for k in range(expansion.coef.shape[0]):
        for s in range(expansion.coef.shape[1]):
            spread(expansion.coef[k, s], point.coef[k, s], weights, n)
    combine_at_rest(tile, weights, n, i, point.rest)
    add_combination(tile.raw, point.coef, point.rest, i)
    measure(expansion, n)
    tile.changes.mark_all()


@helper
def combine_at_rest(tile, weights, n, i, rest):
    """Write the kernel values of a combination of the points with the rows after i."""
    n_rows = tile.raw.shape[2]
    for j in range(i + 1, n_rows):
        rest[j] = 0.0
    for m in range(n):
        if weights[m] != 0.0:
            for j in range(i + 1, n_rows):
                rest[j] += weights[m] * tile.k[m, j]


@helper
def add_combination(raw, coef, rest, i):
    """Correct the raw scores of the rows after i, for coefficients at a combination of points."""
    for k in range(raw.shape[0]):
        for s in range(raw.shape[1]):
            own, amount, values = raw[k, s, i + 1 :], coef[k, s], rest[i + 1 :]
            for j in range(own.shape[0]):
                own[j] += amount * values[j]


@helper
def spread(coefficients, amount, weights, n):
    """Give the points `amount` times the weights."""
    if amount != 0.0:
        for m in range(n):
            coefficients[m] += amount * weights[m]


@helper
def measure(expansion, n):
    """Compute the squared norm of every point's raw coefficients."""
    expansion.size2[:n] = 0.0
    for k in range(expansion.coef.shape[0]):
        for m in range(n):
            expansion.size2[m] += expansion.coef[k, 0, m] * expansion.coef[k, 0, m]


# --- points that come ----------------------------------------------------------------------------


@helper
def insert(expansion, tile, slot, i, point):
    """Make row i the point in `slot`."""
    line_of_row = tile.n_points + i
    tile.gram.put_point(tile, slot, i, expansion.n_points[0])
    expansion.coef[:, :, slot] = 0.0
    expansion.size2[slot] = 0.0
    for m in range(point.n_active[0]):
        output = point.active[m]
        line = expansion.outputs.line_for(m, output, slot)
        expansion.size2[slot] += point.coef[output, 0] * point.coef[output, 0]
        expansion.average.insert_sum(line, slot, point.coef[output, 0])
        add_to_rest(tile.raw, output, point.coef[output], 1.0, tile.k, line_of_row, i)
        for s in range(expansion.coef.shape[1]):
            expansion.coef[line, s, slot] = point.coef[output, s]
    # The line of slot now holds the new point. Where slots are still free, that line is the one of
    # a row of the tile that has had its turn, since a tile has at least as many rows as new points.
    own, values = tile.k[slot, i + 1 :], tile.k[line_of_row, i + 1 :]
    for j in range(own.shape[0]):
        own[j] = values[j]
    tile.changes.mark(slot)


@helper
def put_into_gram(gram, tile, slot, i, n):
    """Write the kernel values of row i, now the point in `slot`, with all n points."""
    for j in range(n):
        value = tile.k[j, i]
        gram[slot, j] = value
        gram[j, slot] = value
    gram[slot, slot] = tile.k[tile.n_points + i, i]
