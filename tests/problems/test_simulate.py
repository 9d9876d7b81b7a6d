"""The simulator and its random numbers: the same bytes for the same seed, and the right law."""

import numpy as np
import pytest
from scipy import stats

import gradtd
from gradtd import InputError
from gradtd.compiled import random as splitmix
from gradtd.problems import garnet
from gradtd.problems.simulate import _alias_table, outcome_tables, sampler

PROBLEMS = {name: make() for name, make in gradtd.PROBLEMS.items()} | {"garnet_9": garnet(states=9, seed=9)}
RARE = 1e-6  # a chi-square test with a fresh seed fails with this probability


@pytest.mark.parametrize("name", PROBLEMS)
def test_interpreted_and_compiled_samples_are_the_same_bytes(name):
    compiled = sampler(PROBLEMS[name], compile=True)(700, 5, 2)
    interpreted = sampler(PROBLEMS[name], compile=False)(700, 5, 2)
    assert compiled.steps.tobytes() == interpreted.steps.tobytes()


def test_same_seed_and_run_same_bytes_and_any_other_different():
    again = [gradtd.sample("garnet", 500, seed=3, run=1).steps.tobytes() for _ in range(2)]
    assert again[0] == again[1]
    others = {
        gradtd.sample("garnet", 500, seed=s, run=r).steps.tobytes() for s, r in ((3, 0), (3, 1), (3, 2), (4, 1), (1, 3))
    }
    assert len(others) == 5


def test_a_shorter_sample_is_the_beginning_of_a_longer_one():
    long, short = gradtd.sample("collision", 300, seed=1), gradtd.sample("collision", 100, seed=1)
    assert long.steps[:100].tobytes() == short.steps.tobytes()


def test_an_algorithm_sees_the_sample_of_its_seed_and_run():
    theta = gradtd.run("boyan_chain", "td", alpha=0.1, runs=2, steps=200, seed=6, snapshots=[200]).theta
    for r in range(2):
        stream = gradtd.sample("boyan_chain", 200, seed=6, run=r)
        np.testing.assert_array_equal(gradtd.learn(stream, "td", alpha=0.1, snapshots=[200]).theta, theta[r])


def test_a_problem_can_be_given_by_name_or_as_itself():
    by_name, itself = gradtd.sample("baird", 50, seed=2), gradtd.sample(PROBLEMS["baird"], 50, seed=2)
    assert by_name.steps.tobytes() == itself.steps.tobytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("boyan", 10), ["boyan", "boyan_chain"]),
        ((3, 10), ["problem", "int"]),
        (("baird", 0), ["steps", "at least 1", "0"]),
        (("baird", 2.5), ["steps", "2.5"]),
        (("baird", 10, -1), ["seed", "-1"]),
        (("baird", 10, 0, -1), ["run", "-1"]),
    ],
)
def test_bad_arguments_of_sample_are_named(arguments, words):
    with pytest.raises(InputError) as caught:
        gradtd.sample(*arguments)
    for word in words:
        assert word in str(caught.value)


def reconstructed(keep, alias):
    """The probability of each outcome: what cells keep of their own, and what others give away."""
    n = len(keep)
    law = np.zeros(n)
    for k in range(n):
        law[k] += keep[k] / n
        law[alias[k]] += (1 - keep[k]) / n
    return law


@pytest.mark.parametrize("name", PROBLEMS)
def test_alias_tables_of_a_problem_reproduce_its_probabilities(name):
    problem, mdp = PROBLEMS[name], PROBLEMS[name].mdp
    tables = outcome_tables(problem)
    assert len(tables.begin) == mdp.n_states + 2
    for s in range(mdp.n_states + 1):
        begin, end = tables.begin[s : s + 2]
        assert ((tables.alias[begin:end] >= begin) & (tables.alias[begin:end] < end)).all()
        law = reconstructed(tables.keep[begin:end], tables.alias[begin:end] - begin)
        found = np.zeros(mdp.n_states)
        np.add.at(found, tables.next_state[begin:end], law)
        expected = mdp.start if s == mdp.n_states else problem.behaviour[s] @ mdp.transition[s]
        np.testing.assert_allclose(found, expected, atol=1e-15)
        if s < mdp.n_states:
            np.testing.assert_allclose((law * tables.rho[begin:end]).sum(), 1.0, atol=1e-14)
            np.testing.assert_array_equal(tables.ends[begin:end], mdp.terminal[tables.next_state[begin:end]])


@pytest.mark.parametrize("n", [1, 2, 3, 7, 100])
def test_an_alias_table_reproduces_any_law(n):
    rng = np.random.default_rng(n)
    for law in (np.full(n, 1 / n), rng.dirichlet(np.ones(n)), rng.dirichlet(np.full(n, 0.05))):
        keep, alias = _alias_table(law)
        assert ((keep >= 0) & (keep <= 1)).all()
        np.testing.assert_allclose(reconstructed(keep, alias), law, atol=1e-15)


def split_mix_64(state):
    """SplitMix64 as published (Steele, Lea and Flood 2014; Vigna's splitmix64.c), in Python's integers."""
    mask = 2**64 - 1
    while True:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield z ^ (z >> 31)


def words(seed, n):
    rng = np.array([seed], np.uint64)
    with np.errstate(over="ignore"):
        return [int(splitmix.next_word(rng)) for _ in range(n)]


def test_the_first_words_of_seed_zero_are_the_published_ones():
    assert words(0, 3) == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1, 0xDEADBEEF])
def test_words_are_those_of_split_mix_64(seed):
    reference = split_mix_64(seed)
    assert words(seed, 200) == [next(reference) for _ in range(200)]


def test_unit_numbers_are_the_top_53_bits():
    rng, reference = np.array([9], np.uint64), split_mix_64(9)
    with np.errstate(over="ignore"):
        units = [splitmix.next_unit(rng) for _ in range(200)]
    assert units == [(next(reference) >> 11) * 2.0**-53 for _ in range(200)]
    assert all(0 <= u < 1 for u in units)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 1000])
def test_indices_below_n_are_uniform(n):
    rng = np.array([splitmix.seeded(1, 0, 0)[0]], np.uint64)
    with np.errstate(over="ignore"):
        counts = np.bincount([int(splitmix.next_below(rng, n)) for _ in range(20_000)], minlength=n)
    assert len(counts) == n
    if n > 1:
        assert stats.chisquare(counts).pvalue > RARE


def test_every_seed_run_and_purpose_has_its_own_sequence():
    starts = {int(splitmix.seeded(s, r, p)[0]) for s in range(5) for r in range(20) for p in range(3)}
    assert len(starts) == 5 * 20 * 3
