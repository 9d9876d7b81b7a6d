"""Independence sampling: what is drawn, when, from where, how uniformly, and what bias it avoids.

The draws are observed from outside: a user's rule copies every batch it receives into arrays of the test.

Error rates: chi-square tests fail below p = 1e-6, comparisons of means beyond 4 standard errors
(probability 6e-5); about 40 of the former and 20 of the latter. Seeds are fixed.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

import gradtd
from gradtd import Algorithm, InputError, Stream
from gradtd.compiled import random as splitmix
from gradtd.compiled.buffers import SPLITS, draw, insert, units
from problems.test_metrics import two_step_episodes

RARE = 1e-6
INDEPENDENT = ("odd-even", "coin", "episode-index")


def keep_batches(state, stream, now, hyper):
    """Copy the two batches."""
    for i in range(now.first.shape[0]):
        state.first[now.seen - 1, i] = now.first[i]
    for i in range(now.second.shape[0]):
        state.second[now.seen - 1, i] = now.second[i]


def keep_side(state, stream, now, hyper):
    """Copy the side of the latest step."""
    state.sides[now.seen - 1] = now.side


def drawn(stream, m1, m2=None, draws="two batches", seed=0, compile=None, **hyper):
    """Batches of every step, shape (steps, m), rows of -1 where learning had not started; the side of every step."""
    m2 = m1 if m2 is None else m2
    first, second = np.full((len(stream), m1), -1), np.full((len(stream), m2), -1)
    sides = np.full(len(stream), -1)
    rule = Algorithm(
        "keep_batches",
        keep_batches,
        init=lambda n_features, hyper: {"first": first, "second": second, "sides": sides},
        observe=keep_side,
        draws=draws,
    )
    sizes = {"m1": m1, "m2": m2} if draws == "two batches" else {"batch_size": m1}
    gradtd.learn(stream, rule, alpha=1.0, seed=seed, snapshots=[len(stream)], compile=compile, **sizes, **hyper)
    return first, second, sides


def log(lengths):
    """A stream whose episodes have these lengths."""
    n = int(np.sum(lengths))
    return Stream.from_arrays(
        features=np.ones((1, 1)), row=[0] * n, next_row=[0] * n, reward=0.0, discount=0.9,
        episode=np.repeat(np.arange(len(lengths)), lengths),
    )  # fmt: skip


def random_lengths(n=150, seed=0):
    return np.random.default_rng(seed).integers(1, 15, n)


def by_hand(side, capacity=None):
    """What the two buffers hold after each step, the slow way."""
    held = ([], [])
    for t, s in enumerate(side):
        held[s].append(t)
        if capacity is not None:
            del held[s][:-capacity]
        yield [list(h) for h in held]


def learning(first):
    return first[:, 0] >= 0


def share_a_unit(first, second, unit):
    """At which steps some pair of the two batches belongs to the same unit."""
    on = learning(first)
    pairs = unit[first[on]][:, :, None] == unit[second[on]][:, None, :]
    return pairs.any(axis=(1, 2))


@pytest.mark.parametrize("split", INDEPENDENT)
@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("capacity", [None, 40])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_pair_of_the_two_batches_ever_shares_an_episode(split, capacity, replacement, seed):
    stream = log(random_lengths())
    first, second, _ = drawn(stream, 6, 4, split=split, seed=seed, capacity=capacity, replacement=replacement)
    assert learning(first).mean() > 0.8
    assert not share_a_unit(first, second, stream.steps.episode).any()


@pytest.mark.parametrize("split", INDEPENDENT)
@pytest.mark.parametrize("name", ["boyan_chain", "random_walk_dependent", "collision"])
def test_no_pair_shares_an_episode_on_sampled_problems(split, name):
    stream = gradtd.sample(name, 2000, seed=3)
    first, second, _ = drawn(stream, 10, split=split)
    assert learning(first).mean() > 0.9
    assert not share_a_unit(first, second, stream.steps.episode).any()


@pytest.mark.parametrize("split", INDEPENDENT)
@pytest.mark.parametrize("block", [1, 7, 50])
def test_no_pair_shares_a_block_of_a_continuing_problem(split, block):
    stream = gradtd.sample("baird", 1500, seed=3)
    first, second, _ = drawn(stream, 5, split=split, block=block)
    assert learning(first).mean() > 0.8
    assert not share_a_unit(first, second, np.arange(1500) // block).any()


def test_a_careless_split_does_share_episodes():
    stream = log(random_lengths())
    first, second, _ = drawn(stream, 6, 4, split="none")
    assert share_a_unit(first, second, stream.steps.episode).mean() > 0.2


def test_odd_episodes_fill_buffer_1_and_even_ones_buffer_2():
    # Algorithm 1 counts episodes from 0; the first batch, of the gradient, comes from buffer 1.
    stream = log(random_lengths())
    first, second, sides = drawn(stream, 3, split="odd-even")
    on, episode = learning(first), stream.steps.episode
    assert (episode[first[on]] % 2 == 1).all()
    assert (episode[second[on]] % 2 == 0).all()
    np.testing.assert_array_equal(sides, np.where(episode % 2 == 1, 0, 1))


def test_coins_are_fair_one_an_episode_and_new_for_every_seed_and_run():
    problem, n = two_step_episodes(), 4000
    deals = []

    def arrays(n_features, hyper):
        deals.append(np.full(2 * n, -1))
        return {"first": np.zeros((2 * n, 1), int), "second": np.zeros((2 * n, 1), int), "sides": deals[-1]}

    rule = Algorithm("keep_batches", keep_batches, init=arrays, observe=keep_side, draws="two batches")
    for seed, runs in ((0, 2), (1, 1)):
        gradtd.run(problem, rule, alpha=1.0, batch_size=1, split="coin", runs=runs, steps=2 * n, seed=seed, threads=1)
    assert len(deals) == 3
    for deal in deals:
        coins = deal.reshape(n, 2)
        assert (coins[:, 0] == coins[:, 1]).all(), "an episode stays in one piece"
        assert stats.binomtest(int(coins[:, 0].sum()), n).pvalue > RARE
    for one, other in itertools.combinations(deals, 2):
        assert stats.binomtest(int((one[::2] == other[::2]).sum()), n).pvalue > RARE


@pytest.mark.parametrize("split", [*INDEPENDENT, "none"])
@pytest.mark.parametrize("replacement", [True, False])
def test_only_steps_already_seen_are_drawn_the_latest_included(split, replacement):
    stream = log(random_lengths())
    first, second, _ = drawn(stream, 6, 4, split=split, replacement=replacement)
    on = learning(first)
    now = np.flatnonzero(on)[:, None]
    both = np.hstack([first[on], second[on]])
    assert (both <= now).all()
    assert (both >= 0).all()
    assert (both == now).any()


@pytest.mark.parametrize("split", ["odd-even", "coin"])
@pytest.mark.parametrize("capacity", [None, 7, 30])
@pytest.mark.parametrize("replacement", [True, False])
def test_batches_come_from_what_their_buffer_holds(split, capacity, replacement):
    stream = log(random_lengths())
    first, second, side = drawn(stream, 5, 3, split=split, capacity=capacity, replacement=replacement)
    for t, held in enumerate(by_hand(side, capacity)):
        if first[t, 0] >= 0:
            assert set(first[t]) <= set(held[0])
            assert set(second[t]) <= set(held[1])


@pytest.mark.parametrize("split", ["episode-index", "none"])
def test_one_buffer_holds_the_last_steps_only(split):
    stream = log(random_lengths())
    first, second, _ = drawn(stream, 5, 3, split=split, capacity=25)
    on = learning(first)
    oldest = np.maximum(np.flatnonzero(on) - 24, 0)[:, None]
    both = np.hstack([first[on], second[on]])
    assert (both >= oldest).all()
    assert (both == oldest).any(), "the oldest one kept is drawn, too"


@pytest.mark.parametrize("split", [*INDEPENDENT, "none"])
@pytest.mark.parametrize("capacity", [None, 20])
def test_without_replacement_no_step_comes_twice_in_a_batch(split, capacity):
    stream = log(random_lengths())
    first, second, _ = drawn(stream, 6, 4, split=split, capacity=capacity, replacement=False)
    on = learning(first)
    assert on.mean() > 0.8
    for batch in (first[on], second[on]):
        ordered = np.sort(batch, axis=1)
        assert (np.diff(ordered, axis=1) > 0).all()
    with_replacement, _, _ = drawn(stream, 6, 4, split=split, capacity=capacity)
    ordered = np.sort(with_replacement[learning(with_replacement)], axis=1)
    assert (np.diff(ordered, axis=1) == 0).any(), "so that the check can fail"


def ranks_in_window(batch, side, buffer, capacity):
    """The place of each drawn step in its buffer, 0 for the oldest; rows of full buffers only."""
    ranks = []
    for t, held in enumerate(by_hand(side, capacity)):
        if batch[t, 0] >= 0 and len(held[buffer]) == capacity:
            ranks.append([held[buffer].index(k) for k in batch[t]])
    return np.array(ranks)


@pytest.mark.parametrize("split", ["odd-even", "coin", "none"])
def test_draws_with_replacement_are_uniform_and_the_batches_independent(split):
    stream, capacity = log([3] * 2500), 5
    first, second, side = drawn(stream, 1, split=split, capacity=capacity, seed=4)
    other = 0 if split == "none" else 1
    on = np.array([min(map(len, (h[0], h[other]))) == capacity for h in by_hand(side, capacity)])[:, None]
    one = ranks_in_window(np.where(on, first, -1), side, 0, capacity)[:, 0]
    two = ranks_in_window(np.where(on, second, -1), side, other, capacity)[:, 0]
    assert len(one) == len(two) > 7000
    assert stats.chisquare(np.bincount(one, minlength=5)).pvalue > RARE
    assert stats.chisquare(np.bincount(two, minlength=5)).pvalue > RARE
    assert stats.chisquare(np.bincount(5 * one + two, minlength=25)).pvalue > RARE
    assert stats.chisquare(np.bincount(5 * one[:-1] + one[1:], minlength=25)).pvalue > RARE, "anew at every step"


@pytest.mark.parametrize("split", ["odd-even", "coin", "none"])
def test_draws_without_replacement_are_uniform_over_subsets(split):
    stream, capacity = log([3] * 2500), 5
    first, second, side = drawn(stream, 2, 3, split=split, capacity=capacity, replacement=False, seed=5)
    for batch, buffer, m in ((first, 0, 2), (second, 0 if split == "none" else 1, 3)):
        ranks = np.sort(ranks_in_window(batch, side, buffer, capacity), axis=1)
        subsets = list(itertools.combinations(range(capacity), m))
        counts = [(ranks == subset).all(axis=1).sum() for subset in subsets]
        assert len(subsets) == 10
        assert sum(counts) == len(ranks) > 7000
        assert stats.chisquare(counts).pvalue > RARE


def test_careless_batches_without_replacement_do_not_depend_on_each_other():
    # Both are drawn from the same places, and what the first took must be there for the second.
    stream, capacity = log([1] * 6000), 4
    first, second, _ = drawn(stream, 2, split="none", capacity=capacity, replacement=False, seed=6)
    on = np.arange(6000) >= capacity
    now = np.arange(6000)[on, None]
    subsets = list(itertools.combinations(range(capacity), 2))
    which = [
        [subsets.index(tuple(ranks)) for ranks in np.sort(batch[on] - now + capacity - 1, axis=1)]
        for batch in (first, second)
    ]
    pairs = np.bincount(6 * np.array(which[0]) + np.array(which[1]), minlength=36)
    assert stats.chisquare(pairs).pvalue > RARE


@pytest.mark.parametrize("split", ["odd-even", "coin", "none"])
def test_a_large_batch_is_uniform_over_an_unbounded_buffer(split):
    stream = log([4, 7, 1, 9, 2, 6, 11, 3, 5, 2])
    n = len(stream)
    first, second, side = drawn(stream, 20_000, split=split, fill=1, start=n - 1, seed=7)
    assert learning(first).sum() == 1
    for batch, buffer in ((first, 0), (second, 0 if split == "none" else 1)):
        counts = np.bincount(batch[-1], minlength=n)
        assert not counts[side != buffer].any()
        assert stats.chisquare(counts[side == buffer]).pvalue > RARE


def test_the_drawing_function_draws_every_subset_alike_whatever_the_size():
    stream, rng = log([6, 1]), splitmix.seeded(8, 0, splitmix.DRAWS)
    buffers = SPLITS["odd-even"].buffers(stream, (0, 0), replacement=False)
    for t in range(len(stream)):
        insert(buffers, t)
    stamp = 0
    for m in (1, 3, 5, 6):
        counts = {}
        batch = np.zeros(m, np.uint32)
        for _ in range(2000):
            stamp += 1
            with np.errstate(over="ignore"):
                draw(buffers, 1, rng, batch, stamp)
            key = tuple(sorted(batch.tolist()))
            counts[key] = counts.get(key, 0) + 1
        assert set(counts) == set(itertools.combinations(range(6), m))
        assert m == 6 or stats.chisquare(list(counts.values())).pvalue > RARE


@pytest.mark.parametrize("replacement", [True, False])
def test_episodes_dealt_anew_are_uniform_in_both_batches_if_they_are_equally_long(replacement):
    # A window of 40 steps over episodes of 5, looked at when it holds 8 whole ones. Draws of one step share
    # their deal, so only one of each batch counts; steps are independent.
    length, capacity = 5, 40
    stream = log([length] * 5000)
    options = {"capacity": capacity, "replacement": replacement, "seed": 9}
    first, second, _ = drawn(stream, 2, split="episode-index", **options)
    whole = np.flatnonzero(np.arange(len(stream)) % length == length - 1)
    whole = whole[whole >= capacity]
    assert learning(first)[whole].all()
    one, two = (batch[whole, 1] - (whole - capacity + 1) for batch in (first, second))
    assert stats.chisquare(np.bincount(one, minlength=capacity)).pvalue > RARE
    assert stats.chisquare(np.bincount(two, minlength=capacity)).pvalue > RARE
    pairs = np.zeros((8, 8), int)
    np.add.at(pairs, (one // length, two // length), 1)
    assert not np.diag(pairs).any()
    assert stats.chisquare(pairs[~np.eye(8, dtype=bool)]).pvalue > RARE


@pytest.mark.parametrize("split", ["odd-even", "coin"])
@pytest.mark.parametrize(("m1", "m2", "fill", "start"), [(4, 4, None, 0), (2, 9, None, 0), (3, 3, 12, 0), (3, 3, 0, 0),
                                                         (4, 4, None, 60), (1, 1, None, 1)])  # fmt: skip
def test_learning_starts_exactly_when_both_buffers_hold_more_than_asked(split, m1, m2, fill, start):
    stream = log([5, 3, 1, 8, 4, 6, 2, 7, 3, 5, 9, 4, 6, 8, 2, 5])
    first, second, side = drawn(stream, m1, m2, split=split, fill=fill, start=start, seed=3)
    wait_1, wait_2 = (m1, m2) if fill is None else (fill, fill)
    expected = [
        len(held[0]) > wait_1 and len(held[1]) > wait_2 and t + 1 > start for t, held in enumerate(by_hand(side))
    ]
    assert any(expected)
    assert not all(expected)
    np.testing.assert_array_equal(learning(first), expected)
    np.testing.assert_array_equal(learning(second), expected)


def test_learning_with_one_buffer_starts_when_it_holds_more_than_a_batch():
    stream = log([3, 9, 2, 30])
    careless, _, _ = drawn(stream, 4, 7, split="none")
    np.testing.assert_array_equal(learning(careless), np.arange(44) + 1 > 7)
    one, _, _ = drawn(stream, 5, draws="one batch")
    np.testing.assert_array_equal(learning(one), np.arange(44) + 1 > 5)


@pytest.mark.parametrize("capacity", [None, 20])
def test_learning_with_dealt_episodes_starts_when_both_batches_fit_and_there_are_two_episodes(capacity):
    stream = log([2, 12, 3, 1, 30, 4, 5])
    first, _, _ = drawn(stream, 3, 2, split="episode-index", capacity=capacity)
    episode = stream.steps.episode
    for t in range(len(stream)):
        held = episode[max(0, t + 1 - (capacity or len(stream))) : t + 1]
        assert learning(first)[t] == (len(held) > 5 and len(set(held)) > 1)


def test_one_batch_is_uniform_over_all_steps_so_far():
    stream = log([4, 7, 1, 9])
    first, _, _ = drawn(stream, 20_000, draws="one batch", fill=1, start=len(stream) - 1)
    assert stats.chisquare(np.bincount(first[-1], minlength=len(stream))).pvalue > RARE


@pytest.mark.parametrize("split", ["odd-even", "coin"])
def test_the_other_batch_comes_from_the_buffer_the_latest_step_is_not_in(split):
    stream = log(random_lengths())
    first, _, side = drawn(stream, 5, draws="other batch", split=split)
    on = learning(first)
    assert on.mean() > 0.8
    assert (side[first[on]] == 1 - side[on][:, None]).all()


@pytest.mark.parametrize("split", [*INDEPENDENT, "none"])
@pytest.mark.parametrize("replacement", [True, False])
def test_interpreted_and_compiled_draws_are_the_same(split, replacement):
    stream = log(random_lengths(40))
    options = {"split": split, "replacement": replacement, "capacity": 30, "seed": 2}
    compiled, interpreted = (drawn(stream, 4, 3, compile=c, **options) for c in (True, False))
    for one, other in zip(compiled, interpreted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_seed_draws_other_batches():
    stream = log(random_lengths(40))
    one, other, again = (drawn(stream, 4, seed=s)[0] for s in (0, 1, 0))
    assert (one != other).any()
    np.testing.assert_array_equal(one, again)


@pytest.mark.parametrize("split", INDEPENDENT)
def test_a_single_episode_is_refused_with_the_advice_to_give_block(split):
    with pytest.raises(InputError, match=r"single episode \(50 steps\).*block=T0"):
        drawn(log([50]), 3, split=split)


@pytest.mark.parametrize("split", INDEPENDENT)
def test_a_block_as_long_as_the_stream_is_refused(split):
    with pytest.raises(InputError, match=r"no more than one block of 50 steps"):
        drawn(log([20, 30]), 3, split=split, block=50)


def test_a_single_episode_is_enough_where_independence_is_not_asked_for():
    assert learning(drawn(log([50]), 3, split="none")[0]).any()
    assert learning(drawn(log([50]), 3, draws="one batch")[0]).any()


@pytest.mark.parametrize("capacity", [4, 5, 8, 9])
@pytest.mark.parametrize("split", [*INDEPENDENT, "none"])
def test_a_capacity_with_which_learning_can_never_start_is_refused(split, capacity):
    # Batches of 4 from buffers that must hold more than 4; where one buffer serves both, more than 8 in it.
    stream, needed = log([2] * 30), 9 if split == "episode-index" else 5
    if capacity < needed:
        with pytest.raises(InputError, match=rf"capacity must be greater than {needed - 1}.*got {capacity}"):
            drawn(stream, 4, split=split, capacity=capacity)
    else:
        assert learning(drawn(stream, 4, split=split, capacity=capacity)[0]).sum() > 30


def test_learning_must_not_start_before_a_batch_fits_without_replacement():
    with pytest.raises(InputError, match=r"fill=2.*batch of 5"):
        drawn(log([5] * 8), 5, fill=2, replacement=False)
    first, second, _ = drawn(log([5] * 8), 5, fill=4, replacement=False)
    for batch in (first, second):
        assert all(len(set(row)) == 5 for row in batch[learning(batch)])


def test_a_rule_of_two_buffers_needs_a_split_in_two():
    for split in ("episode-index", "none"):
        with pytest.raises(InputError, match=f"odd-even or coin, got '{split}'"):
            drawn(log([5] * 8), 3, draws="other batch", split=split)


def test_units_are_episodes_or_blocks():
    stream = log([2, 3, 1])
    np.testing.assert_array_equal(units(stream, None), [0, 0, 1, 1, 1, 2])
    np.testing.assert_array_equal(units(stream, 4), [0, 0, 0, 0, 1, 1])


# The bias. Streams of two episodes of two steps each, and the direction A1'(A2 theta + b2) at a fixed theta.

EPISODES = 2
THETA = np.array([1.0, 1.0])


def step_estimates(problem, steps):
    """rho x y' and rho r x of every step."""
    x = problem.features[steps.row]
    y = steps.discount[:, None] * problem.features[steps.next_row] - x
    return steps.rho[:, None, None] * x[:, :, None] * y[:, None, :], (steps.rho * steps.reward)[:, None] * x


def true_direction(problem):
    exact = gradtd.exact(problem)
    return exact.A.T @ (exact.A @ THETA + exact.b)


def careless_direction(problem):
    """E[A1'(A2 theta + b2)] for two draws from one buffer: one pair of episodes in EPISODES is the same twice."""
    mdp, x = problem.mdp, problem.features
    same = np.zeros(2)
    for s, a, s2, a2 in itertools.product((0, 1), (0, 1), (2, 3), (0, 1)):
        p = mdp.start[s] * problem.behaviour[s, a] * mdp.transition[s, a, s2] * problem.behaviour[s2, a2]
        A, b = np.zeros((2, 2)), np.zeros(2)
        for state, action, after, discount in ((s, a, s2, problem.gamma), (s2, a2, 4, 0.0)):
            rho = problem.target[state, action] / problem.behaviour[state, action]
            A += rho * np.outer(x[state], discount * x[after] - x[state]) / 2
            b += rho * mdp.reward[state, action, after] * x[state] / 2
        same += p * A.T @ (A @ THETA + b)
    return (1 - 1 / EPISODES) * true_direction(problem) + same / EPISODES


def in_standard_errors(samples, expected):
    return (samples.mean(axis=0) - expected) / (samples.std(axis=0, ddof=1) / np.sqrt(len(samples)))


def mean_over_all_pairs(problem, n, pairs_of):
    """For each of n streams the mean of A_i'(A_j theta + b_j) over the pairs (i, j) of steps that can be drawn."""
    per = 2 * EPISODES
    stream = gradtd.sample(problem, per * n, seed=21)
    A, b = step_estimates(problem, stream.steps)
    A, b = A.reshape(n, per, 2, 2), b.reshape(n, per, 2)
    episode = np.arange(per) // 2
    total, count = np.zeros((n, 2)), 0
    for i, j in itertools.product(range(per), repeat=2):
        if pairs_of(episode[i], episode[j]):
            total += np.einsum("nba,nb->na", A[:, i], A[:, j] @ THETA + b[:, j])
            count += 1
    return total / count


def test_pairs_of_different_episodes_give_an_unbiased_direction_and_all_pairs_do_not():
    problem, n = two_step_episodes(), 20_000
    truth, careless = true_direction(problem), careless_direction(problem)
    odd_even = mean_over_all_pairs(problem, n, lambda e1, e2: e1 % 2 == 1 and e2 % 2 == 0)
    different = mean_over_all_pairs(problem, n, lambda e1, e2: e1 != e2)
    everything = mean_over_all_pairs(problem, n, lambda e1, e2: True)
    assert np.abs(in_standard_errors(odd_even, truth)).max() < 4
    assert np.abs(in_standard_errors(different, truth)).max() < 4
    assert np.abs(in_standard_errors(everything, careless)).max() < 4
    assert np.abs(in_standard_errors(everything, truth)).max() > 20


@pytest.mark.parametrize(
    "split",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != "odd-even")) for name in INDEPENDENT] + ["none"],
)
def test_the_updates_of_impression_gtd_have_the_mean_that_their_split_promises(split):
    # One update at the last of four steps, with one step in each batch: theta0 - theta is the direction itself.
    problem, runs, per = two_step_episodes(), 5000, 2 * EPISODES
    result = gradtd.run(
        problem, "impression_gtd", alpha=1.0, batch_size=1, split=split, runs=runs, steps=per, start=per - 1,
        snapshots=[per], theta0=THETA, threads=1, seed=31,
    )  # fmt: skip
    directions = THETA - result.theta
    directions = directions[directions.any(axis=1)]  # a run whose coins all fell alike made no update
    assert len(directions) > 0.4 * runs
    truth, careless = true_direction(problem), careless_direction(problem)
    expected, other = (careless, truth) if split == "none" else (truth, careless)
    assert np.abs(in_standard_errors(directions, expected)).max() < 4
    assert np.abs(in_standard_errors(directions, other)).max() > 6
