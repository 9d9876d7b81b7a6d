"""Numbers of twenty digits on the command line: one sentence, no traceback."""

import pytest
from typer.testing import CliRunner

import gradtd
from gradtd.cli.app import app
from gradtd.core.checks import InputError, seed_number, whole_number

HUGE = "99999999999999999999"
COMMANDS = (
    ("run boyan_chain td --alpha .1 --steps", HUGE),
    ("run boyan_chain td --alpha .1 --steps 10 --runs", HUGE),
    ("run boyan_chain:n=33333333333333333333 td --alpha .1 --steps", "10"),
    ("run garnet td --alpha .1 --threads", HUGE),
    ("demo --steps", HUGE),
    ("demo --runs", HUGE),
    ("reproduce --runs", HUGE),
    ("sample-log random_walk_tabular --out log.parquet --episodes", HUGE),
    ("sample-log two_state --out log.parquet --steps", HUGE),
    ("theory boyan_chain --batch-size", HUGE),
)


@pytest.mark.parametrize(("words", "number"), COMMANDS, ids=lambda words: words.split()[-1])
def test_a_number_of_twenty_digits_is_refused_in_one_sentence(words, number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = CliRunner().invoke(app, [*words.split(), number])
    assert isinstance(outcome.exception, InputError), outcome.exception
    assert "got " in str(outcome.exception)


def test_block_length_is_checked():
    log = gradtd.sample_log("random_walk_tabular", 20)
    with pytest.raises(InputError, match="block_length must be at most"):
        gradtd.evaluate(log, gamma=1.0, inference=gradtd.Inference(block_length=int(HUGE)))


def test_numbers_too_long_to_write_are_refused():
    for check in (lambda: whole_number("n", 10**5000, 1), lambda: seed_number(10**5000)):
        with pytest.raises(InputError, match="a number of 16610 bits"):
            check()


def test_seeds_may_have_128_bits():
    """NumPy's own entropy has as many."""
    assert seed_number(2**128 - 1) == 2**128 - 1
    gradtd.run("boyan_chain", "td", alpha=0.1, runs=1, steps=5, seed=2**100)
