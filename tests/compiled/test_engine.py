"""Compiling: cached on disk, never stale, a user's rule like ours, clear words where it fails."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary

import gradtd
from gradtd.compiled import cache, engine
from gradtd.compiled.buffers import NO_BUFFER
from gradtd.compiled.draws import DRAWS
from gradtd.compiled.loop import compile_run
from gradtd.estimates import add_features, td_error

HELPER = "def factor():\n    return {factor}\n"
RULE = """
from gradtd.estimates import add_features, td_error
from my_helper import factor

def rule(state, stream, now, hyper):
    add_features(stream, now.t, factor() * now.alpha * td_error(stream, now.t, state.theta), state.theta)
"""
SCRIPT = """
import json
import gradtd, gradtd.running.session as runner
import my_rule
{rule}
kernels, original = [], runner.compile_run
def keep(*arguments, **options):
    kernels.append(original(*arguments, **options))
    return kernels[-1]
runner.compile_run = keep
stream, told = gradtd.sample("boyan_chain", 300), []
for one in (my_rule.rule, rule):
    kernels.clear()
    result = gradtd.learn(stream, gradtd.Algorithm("mine", one), alpha=0.01, snapshots=[300])
    stats = kernels[0].stats
    told.append([sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), list(result.theta)])
print(json.dumps(told))
"""


def _run(folder, factor):
    """In a new process, a rule of a module and one of the main script; cache hits, misses, and weights of each."""
    (folder / "my_helper.py").write_text(HELPER.format(factor=factor))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(folder)}
    environment.pop("GRADTD_INTERPRET", None)
    output = subprocess.check_output([sys.executable, str(folder / "main.py")], env=environment, text=True)
    return json.loads(output)


@pytest.mark.slow  # four processes, six kernels
def test_an_unedited_rule_is_loaded_and_an_edited_one_compiled_again(tmp_path):
    (tmp_path / "my_rule.py").write_text(RULE)
    (tmp_path / "main.py").write_text(SCRIPT.format(rule=RULE))
    first = _run(tmp_path, 1.0)
    theta = first[0][2]
    loaded = [[1, 0, theta], [1, 0, theta]]
    assert first == [[0, 1, theta], [0, 1, theta]]
    assert _run(tmp_path, 1.0) == loaded
    # The edit is two files away from the compiled loop.
    for hits, misses, changed in _run(tmp_path, 2.0):
        assert (hits, misses) == (0, 1)
        assert not np.allclose(changed, theta)
    assert _run(tmp_path, 1.0) == loaded


def doubling(state, stream, now, hyper):
    """TD with twice the step."""
    add_features(stream, now.t, 2.0 * now.alpha * td_error(stream, now.t, state.theta), state.theta)


def test_a_rule_of_a_test_file_runs_compiled_and_without_reference_counts():
    stream = gradtd.sample("boyan_chain", 500)
    mine = gradtd.learn(stream, gradtd.Algorithm("mine", doubling), alpha=0.02)
    theirs = gradtd.learn(stream, "td", alpha=0.04)
    np.testing.assert_allclose(mine.thetas, theirs.thetas, rtol=1e-12)
    kernel = compile_run(gradtd.Algorithm("mine", doubling), DRAWS["nothing"].drawing(NO_BUFFER))
    assert isinstance(kernel, engine._Kernel)
    assert kernel.lean


def test_a_rule_that_allocates_is_compiled_with_reference_counts():
    def allocating(state, stream, now, hyper):
        before = state.theta.copy()
        add_features(stream, now.t, now.alpha * stream.steps[now.t].rho * td_error(stream, now.t, before), state.theta)

    stream = gradtd.sample("random_walk_dependent", 500)
    mine = gradtd.learn(stream, gradtd.Algorithm("mine", allocating), alpha=0.1)
    np.testing.assert_allclose(mine.thetas, gradtd.learn(stream, "td", alpha=0.1).thetas, rtol=1e-12)


def test_a_rule_that_does_not_compile_says_so():
    def broken(state, stream, now, hyper):
        state.theta[0] = "high"

    with pytest.raises(gradtd.InputError, match="the rule does not compile"):
        gradtd.learn(gradtd.sample("boyan_chain", 10), gradtd.Algorithm("broken", broken), alpha=0.1)


def test_the_fingerprint_sees_code_constants_closures_defaults_and_helpers():
    def rule(c):
        def inner(x):
            return c * x

        return inner

    def other(x):
        return 2 * x

    marks = {engine.fingerprint(rule(1.0)), engine.fingerprint(rule(2.0)), engine.fingerprint(other)}
    assert len(marks) == 3
    assert engine.fingerprint(rule(1.0)) == engine.fingerprint(rule(1.0))


def test_the_environment_asks_for_plain_python(monkeypatch):
    monkeypatch.setenv("GRADTD_INTERPRET", "1")
    kernel = compile_run(gradtd.Algorithm("mine", doubling), DRAWS["nothing"].drawing(NO_BUFFER))
    assert not isinstance(kernel, engine._Kernel)


def test_without_a_place_for_the_cache_it_compiles_and_warns(monkeypatch):
    def refuse(dispatcher, mark):
        raise RuntimeError("cannot cache function: no locator available")

    def fresh(state, stream, now, hyper):
        state.theta[0] += now.alpha

    monkeypatch.setattr(engine, "keep_safely", refuse)
    monkeypatch.setattr(cache, "_said", set())
    with pytest.warns(UserWarning, match="not kept on disk"):
        result = gradtd.learn(gradtd.Stream.from_arrays(
            features=np.eye(2), row=[0, 1], next_row=[1, 0], reward=[1, 1], discount=0.5, episode=[0, 0]
        ), gradtd.Algorithm("fresh", fresh), alpha=0.5)  # fmt: skip
    assert result.theta[0] == 1.0


def test_a_rule_that_assigns_to_the_record_is_told_what_to_write():
    def assigns(state, stream, now, hyper):
        state.theta += now.alpha * stream.features[stream.steps[now.t].row]

    with pytest.raises(gradtd.InputError, match=r"write into the array, state.theta\[:\]"):
        gradtd.learn(gradtd.sample("boyan_chain", 10), gradtd.Algorithm("assigns", assigns), alpha=0.1)


def test_a_misspelt_name_in_a_rule_is_named_with_its_place():
    def misspelt(state, stream, now, hyper):
        state.thta[0] = 1.0

    with pytest.raises(gradtd.InputError, match=r"thta.*test_engine.py"):
        gradtd.learn(gradtd.sample("boyan_chain", 10), gradtd.Algorithm("misspelt", misspelt), alpha=0.1)


def test_only_the_kernel_becomes_machine_code(monkeypatch):
    """What it calls is a piece of it."""
    made = []
    original = JITCodeLibrary._finalize_specific
    monkeypatch.setattr(JITCodeLibrary, "_finalize_specific", lambda self: (made.append(self.name), original(self)))

    def rule(state, stream, now, hyper):
        add_features(stream, now.t, 0.5 * now.alpha * td_error(stream, now.t, state.theta), state.theta)

    stream = gradtd.sample("boyan_chain", 100)
    made.clear()
    found = gradtd.learn(stream, gradtd.Algorithm("mine", rule), alpha=0.01)
    assert [name.rpartition(".")[2] for name in made] == ["drive"]
    assert np.abs(found.theta).max() > 0
