"""`run`, `learn` and `sweep`: reproducible, honest about divergence, and right in the long run."""

import time

import numpy as np
import pytest
import scipy.sparse

import gradtd
from gradtd.compiled.plan import room_for
from gradtd.running.runs import for_each

NEU_FAMILY = {
    "impression_gtd": {"alpha": 1.0, "batch_size": 32},
    "expected_gtd": {"alpha": 2.0, "fill": 100},
    "at_td": {"alpha": 0.5},
    "r1_gtd": {"alpha": 0.5},
    "shrunken_r1_gtd": {"alpha": 0.5},
    "shrunken_at_td": {"alpha": 0.5},
    "direct_gtd": {"alpha": 0.02},
}


@pytest.mark.parametrize("algorithm", ["impression_gtd", "td"])
def test_same_seed_same_bytes_for_1_2_and_4_threads(algorithm):
    def run(threads):
        settings = {"alpha": 0.1, "runs": 9, "steps": 700, "seed": 5, "threads": threads}
        return gradtd.run("random_walk_inverted", algorithm, **settings).thetas.tobytes()

    assert run(1) == run(2) == run(4)


def test_every_algorithm_sees_the_same_experience_at_a_seed_and_run():
    stream = gradtd.sample("random_walk_tabular", 400, seed=3, run=2)
    many = gradtd.run("random_walk_tabular", "td", alpha=0.1, runs=3, steps=400, seed=3)
    alone = gradtd.learn(stream, "td", alpha=0.1)
    np.testing.assert_array_equal(many.thetas[2], alone.thetas)
    other = gradtd.run("random_walk_tabular", "td", alpha=0.1, runs=3, steps=400, seed=4)
    assert not np.array_equal(other.thetas, many.thetas)


def test_a_sweep_is_the_same_as_single_runs():
    grid = {"alpha": [0.5, 1.0], "batch_size": [4, 8]}
    results = gradtd.sweep("boyan_chain", "impression_gtd", grid, runs=3, steps=500)
    assert [(r.hyper["alpha"], r.hyper["batch_size"]) for r in results] == [(0.5, 4), (0.5, 8), (1.0, 4), (1.0, 8)]
    single = gradtd.run("boyan_chain", "impression_gtd", alpha=1.0, batch_size=4, runs=3, steps=500)
    np.testing.assert_array_equal(results[2].thetas, single.thetas)


def test_snapshots_are_taken_after_that_many_steps():
    stream = gradtd.sample("boyan_chain", 100)
    every = gradtd.learn(stream, "td", alpha=0.1, snapshots=1)
    some = gradtd.learn(stream, "td", alpha=0.1, snapshots=[0, 1, 50, 100], theta0=np.ones(4))
    assert every.thetas.shape == (100, 4)
    np.testing.assert_array_equal(some.steps, [0, 1, 50, 100])
    np.testing.assert_array_equal(some.thetas[0], np.ones(4))
    first = stream.steps[0]
    expected = 0.1 * first.reward * stream.features[first.row]
    np.testing.assert_allclose(every.thetas[0], expected, rtol=1e-14)
    assert gradtd.learn(stream, "td", alpha=0.1, snapshots=30).steps.tolist() == [30, 60, 90]


@pytest.mark.parametrize(("problem", "alpha"), [("baird", 0.1), ("two_state", 0.1)])
def test_td_diverges_and_is_reported_while_impression_gtd_converges(problem, alpha):
    steps = 20_000
    td = gradtd.run(problem, "td", alpha=alpha, runs=10, steps=steps, snapshots=[100, steps])
    assert td.diverged == 10
    assert np.isfinite(td.thetas).all()
    assert (td.diverged_at > 100).all()
    step = {"baird": 0.05, "two_state": 0.1}[problem]
    neu = gradtd.run(problem, "impression_gtd", alpha=step, batch_size=10, runs=10, steps=steps, snapshots=[100, steps])
    error = gradtd.measure(neu, "rmsve").mean(axis=0)
    assert neu.diverged == 0
    assert error[1] < error[0] / 2


@pytest.mark.parametrize("compile", [True, False])
def test_with_many_features_divergence_is_found_a_few_steps_later_and_at_the_end(compile):
    """Weights of 2500 features are looked at every third step, and after the last one."""

    def found_at(d, steps):
        table = np.zeros((1, d))
        table[0, -1] = 1.0
        stream = gradtd.Stream.from_arrays(
            features=table, row=np.zeros(steps, int), next_row=np.zeros(steps, int), reward=1.0, discount=1.0,
            rho=1.0, episode=np.zeros(steps, int),
        )  # fmt: skip
        result = gradtd.learn(stream, "td", alpha=1.0, limit=10.5, snapshots=[steps], compile=compile)
        assert abs(result.theta).max() <= 10.5
        return int(result.diverged_at[0])

    assert [found_at(d, 40) for d in (1, 999, 1000, 2500)] == [11, 11, 12, 12]
    assert [found_at(d, 11) for d in (1, 2500)] == [11, 11]
    assert [found_at(d, 10) for d in (1, 2500)] == [-1, -1]


def test_a_diverged_run_is_frozen_and_the_others_are_not_touched():
    stream = gradtd.sample("boyan_chain", 400)
    wild = gradtd.learn(stream, "td", alpha=10.0, snapshots=1)
    at = int(wild.diverged_at[0])
    assert 0 < at < 400
    assert np.isfinite(wild.thetas).all()
    assert (wild.thetas[at:] == wild.thetas[at]).all()
    assert (np.abs(wild.thetas[: at - 1]) <= 1e12).all()
    calm, _ = gradtd.sweep("boyan_chain", "td", {"alpha": [0.05, 10.0]}, runs=4, steps=400)
    alone = gradtd.run("boyan_chain", "td", alpha=0.05, runs=4, steps=400)
    assert calm.diverged == 0
    np.testing.assert_array_equal(calm.thetas, alone.thetas)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", NEU_FAMILY)
def test_off_policy_the_neu_family_approaches_the_lstd_solution(algorithm):
    """Averaged over the second half of 200 000 steps; the same data, so only the algorithm's own noise is left.

    The bound is a tenth of the distance from the start. A rule with another fixed point would miss it.
    """
    settings = {"runs": 4, "steps": 200_000, "snapshots": [200_000]}
    hyper = NEU_FAMILY[algorithm] | {"average": "tail"}
    problem = gradtd.PROBLEMS["random_walk_dependent"]()
    found = gradtd.run(problem, algorithm, **settings, **hyper).theta
    lstd = gradtd.run(problem, "lstd", **settings).theta
    exact = gradtd.exact(problem).theta_star
    start = np.linalg.norm(problem.theta0 - exact)
    assert (np.linalg.norm(found - lstd, axis=1) < 0.1 * start).all()
    assert (np.linalg.norm(lstd - exact, axis=1) < 0.1 * start).all()


def test_on_policy_td_approaches_the_lstd_solution():
    settings = {"runs": 4, "steps": 50_000, "snapshots": [50_000]}
    td = gradtd.run("boyan_chain", "td", alpha=0.1, average="tail", **settings).theta
    lstd = gradtd.run("boyan_chain", "lstd", **settings).theta
    assert np.abs(td - lstd).max() < 0.5
    assert np.abs(lstd - [-24, -16, -8, 0]).max() < 0.5


def test_both_lstd_solvers_agree():
    stream = gradtd.sample(gradtd.PROBLEMS["garnet"](), 600)
    same = {"ridge": 1e-3, "snapshots": [200, 600], "compile": False}
    recursive, batch = (gradtd.learn(stream, "lstd", solver=solver, **same) for solver in ("recursive", "batch"))
    np.testing.assert_allclose(recursive.thetas, batch.thetas, rtol=1e-8)


def test_a_result_reports_the_step_size_of_the_latest_update():
    settings = {"runs": 2, "steps": 300, "snapshots": [0, 1, 30, 300]}
    decaying = gradtd.run("boyan_chain", "td", alpha=0.1, p=0.5, t0=10.0, **settings)
    expected = 0.1 / np.sqrt(1 + np.array([0, 29, 299]) / 10)
    np.testing.assert_allclose(decaying.alphas[:, 1:], np.tile(expected, (2, 1)), rtol=1e-14)
    assert np.isnan(decaying.alphas[:, 0]).all()
    waiting = gradtd.run("boyan_chain", "impression_gtd", alpha=0.5, **settings)
    np.testing.assert_array_equal(waiting.alphas, np.tile([np.nan, np.nan, np.nan, 0.5], (2, 1)))
    assert np.isnan(gradtd.run("boyan_chain", "lstd", **settings).alphas).all()
    wild = gradtd.learn(gradtd.sample("boyan_chain", 300), "td", alpha=10.0, snapshots=[0, 1, 300])
    np.testing.assert_array_equal(wild.alphas, [np.nan, 10.0, 10.0])


def test_progress_is_reported_for_every_run():
    seen = []
    gradtd.run(
        "boyan_chain", "td", alpha=0.1, runs=5, steps=10, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(k, 5) for k in range(1, 6)]


def test_a_result_says_what_is_needed_to_run_it_again():
    result = gradtd.run("boyan_chain", "impression_gtd", alpha=2, batch_size=4, runs=2, steps=200, seed=9)
    again = gradtd.run(result.problem, result.algorithm, runs=2, steps=200, seed=result.seed, **result.hyper)
    np.testing.assert_array_equal(result.thetas, again.thetas)
    assert set(result.versions) == {"gradtd", "numpy", "numba"}
    assert "alpha=2" in repr(result)


BAD = [
    ({"alpha": 0}, "alpha must be greater than 0, got 0"),
    ({"alpha": -1.5}, "alpha must be greater than 0, got -1.5"),
    ({"alpha": np.nan}, "alpha must be finite, got nan"),
    ({"alpha": "fast"}, "alpha must be a number above 0 or 'auto', got 'fast'"),
    ({"alpha": None}, "alpha must be a number, got None"),
    ({"alpha": "auto", "similarity": min}, "alpha='auto' does not support a kernel as similarity"),
    ({"alpha": 1, "form": "matrix"}, "unknown hyper-parameter of impression_gtd 'form'"),
    ({}, "needs 75 pairs of batches before its first update, and boyan_chain with its 100 steps has"),
    ({"steps": 1000, "start": 950}, "needs 75 pairs of batches .* 1000 steps has 50: take more steps"),
    ({"steps": 40}, "buffer . gets only .* of the 40 steps"),
    ({"alpha": 1, "batch_size": 0}, "batch_size must be at least 1, got 0"),
    ({"alpha": 1, "m1": 0}, "m1 must be at least 1, got 0"),
    ({"alpha": 1, "batch_size": 2.5}, "batch_size must be a whole number, at least 1; got 2.5"),
    ({"alpha": 1, "alhpa": 2}, "did you mean 'alpha'"),
    ({"alpha": 1, "split": "odd"}, "split must be one of"),
    ({"alpha": 1, "directions": "up"}, "directions must be one of one, both, averaged; got 'up'"),
    ({"alpha": 1, "capacity": 4}, "capacity must be greater than 32"),
    ({"alpha": 1, "fill": 3, "replacement": False}, "without replacement"),
    ({"alpha": 1, "replacement": "maybe"}, "replacement must be True or False"),
    ({"alpha": 1, "p": -1}, "p must be at least 0, got -1"),
    ({"alpha": 1, "similarity": [[1, 2], [3, 4]]}, "symmetric and positive definite"),
    ({"alpha": 1, "similarity": [[1.0]]}, r"needs shape \(4, 4\), got \(1, 1\)"),
    ({"alpha": 1, "runs": 0}, "runs must be at least 1, got 0"),
    ({"alpha": 1, "steps": 0}, "steps must be at least 1, got 0"),
    ({"alpha": 1, "seed": -1}, "seed must be between 0 and .*, got -1"),
    ({"alpha": 1, "threads": 0}, "threads must be at least 1, got 0"),
    ({"alpha": 1, "snapshots": [5, 3]}, "increasing order"),
    ({"alpha": 1, "snapshots": [500]}, "between 0 and 100, got 500"),
    ({"alpha": 1, "snapshots": []}, "increasing order"),
    ({"alpha": 1, "theta0": [1, 2]}, "theta0 needs 4 entries, got 2"),
]


@pytest.mark.parametrize(("settings", "message"), BAD)
def test_bad_settings_get_one_clear_sentence(settings, message):
    settings = {"runs": 1, "steps": 100} | settings
    with pytest.raises(gradtd.InputError, match=message):
        gradtd.run("boyan_chain", "impression_gtd", **settings)


def test_unknown_names_get_the_nearest_spelling():
    with pytest.raises(gradtd.InputError, match="unknown problem 'boyan_chian': did you mean 'boyan_chain'"):
        gradtd.run("boyan_chian", "td", alpha=1)
    with pytest.raises(gradtd.InputError, match="unknown algorithm 'tdrcc': did you mean 'tdrc'"):
        gradtd.run("boyan_chain", "tdrcc", alpha=1)
    result = gradtd.run("boyan_chain", "td", alpha=0.1, runs=1, steps=10)
    with pytest.raises(gradtd.InputError, match="unknown metric 'rmse': did you mean 'rmsve'"):
        gradtd.measure(result, "rmse")
    with pytest.raises(gradtd.InputError, match="stream must be a Stream"):
        gradtd.learn("boyan_chain", "td", alpha=1)
    with pytest.raises(gradtd.InputError, match="problem must be a Problem or a name, got int"):
        gradtd.run(3, "td", alpha=1)


def test_a_kernel_needs_dense_features():
    import scipy.sparse

    stream = gradtd.sample("boyan_chain", 300)
    sparse = gradtd.Stream(scipy.sparse.csr_array(stream.features), stream.steps)
    with pytest.raises(gradtd.InputError, match="dense features"):
        gradtd.learn(sparse, "impression_gtd", alpha=0.1, similarity=lambda a, b: a[0] * b[0])


@pytest.mark.parametrize("steps", [7, 100, 350, 2999])
def test_the_default_snapshots_end_at_the_last_step(steps):
    stream = gradtd.sample("boyan_chain", steps)
    at = gradtd.learn(stream, "lstd").steps
    assert at[-1] == steps
    assert len(at) == min(steps, 100)
    assert (np.diff(at) > 0).all()


@pytest.mark.parametrize(
    ("grid", "more", "message"),
    [
        ([0.1, 0.2], {}, "grid must map names to lists"),
        ({"alpha": 0.1}, {}, r"grid\['alpha'\] must be a list of values, got 0.1"),
        ({"alpha": []}, {}, "must be a list of values"),
        ({"alpha": [0.1]}, {"alpha": 0.2}, "alpha is given twice"),
    ],
)
def test_a_bad_grid_gets_a_sentence(grid, more, message):
    with pytest.raises(gradtd.InputError, match=message):
        gradtd.sweep("boyan_chain", "td", grid, runs=1, steps=10, **more)


def test_measure_and_empirical_neu_refuse_what_they_cannot_read():
    stream = gradtd.sample("random_walk_tabular", 1000)
    mask = stream.steps["episode"] % 2 == 0
    theta = np.full(5, 0.3)
    by_mask = gradtd.empirical_neu(stream, mask, ~mask, theta)
    assert by_mask == gradtd.empirical_neu(stream, np.flatnonzero(mask), np.flatnonzero(~mask), theta) != 0
    for call, message in [
        (lambda: gradtd.measure([1, 2]), "one Result of gradtd.run, got list"),
        (lambda: gradtd.empirical_neu("baird", [0], [1], theta), "needs a Stream, got str"),
        (lambda: gradtd.empirical_neu(stream, [0], [1], [1.0]), "thetas need 5 numbers"),
        (lambda: gradtd.empirical_neu(stream, [True, False], [1], theta), "got truth values"),
    ]:
        with pytest.raises(gradtd.InputError, match=message):
            call()


def test_an_error_stops_the_runs_that_wait():
    done = []

    def work(r):
        if r == 1:
            raise KeyboardInterrupt
        time.sleep(0.005)  # so that there is something left to stop
        done.append(r)

    with pytest.raises(KeyboardInterrupt):
        for_each(work, 400, 2, None)
    assert 0 < len(done) < 398


def test_more_sparse_columns_than_memory_has_room_for_are_refused_before_the_weights_are_made():
    wide = scipy.sparse.csr_array(([1.0, 2.0], ([0, 1], [0, 2**44])), shape=(2, 2**44 + 1))
    columns = {"row": [0], "next_row": [1], "reward": [1.0], "discount": [0.9], "rho": [1.0], "episode": [0]}
    stream = gradtd.Stream.from_arrays(features=wide, **columns)
    with pytest.raises(gradtd.InputError, match=r"what td stores .* of memory"):
        gradtd.learn(stream, "td", alpha=0.1)
    with pytest.raises(gradtd.InputError, match="1000 snapshots of 4194304000 weights would take"):
        room_for(np.arange(1000), 4_194_304_000)
