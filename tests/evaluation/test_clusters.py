"""Errors clustered by a column: influences are summed by cluster before the variance."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd import Inference, InputError, LogFormat, Machine, evaluate
from gradtd.evaluation import folder

ONE, ROWS = Machine(threads=1), LogFormat(one_step=True)


def hospitals(count=40, each=10, seed=0):
    """One visit per row; the mean reward of a hospital varies by .5. The target is worth .5 x .2 + .5 x .8 = .5."""
    rng = np.random.default_rng(seed)
    n = count * each
    place, action = np.repeat(np.arange(count), each), rng.integers(0, 2, n)
    shift = 0.5 * rng.standard_normal(count)
    reward = np.where(action == 1, 0.8, 0.2) + shift[place] + 0.2 * rng.standard_normal(n)
    log = {"obs_0": rng.normal(size=n), "action": action, "reward": reward, "action_prob": np.full(n, 0.5)}
    return log | {"hospital": np.char.add("h", place.astype(str))}


def found(log, cluster=None, **more):
    how = Inference(cluster=cluster)
    return evaluate(log, "uniform", 0.0, features="identity", inference=how, log_format=ROWS, machine=ONE, **more)


def test_the_error_is_that_of_sums_by_cluster():
    """The naive twin: the influences of single episodes, added up by hospital with a loop."""
    log = hospitals()
    plain, clustered = found(log), found(log, "hospital")
    assert clustered.value == plain.value
    sums = {}
    for place, psi in zip(log["hospital"], plain.influences, strict=True):
        sums[place] = sums.get(place, 0.0) + psi
    G, E = len(sums), len(log["reward"])
    variance = sum((one * G / E) ** 2 for one in sums.values()) / (G * (G - 1))
    assert clustered.estimates[0].error == pytest.approx(np.sqrt(variance), rel=1e-9)
    assert len(clustered.influences) == clustered.episodes == 40
    assert np.diff(clustered.interval) > 1.5 * np.diff(plain.interval)
    assert any("Errors are clustered by 'hospital': 40 clusters of 400 episodes." in one for one in clustered.warnings)


def test_clusters_of_one_episode_change_nothing():
    log = hospitals(each=1)
    plain, clustered = found(log), found(log, "hospital")
    assert clustered.interval == pytest.approx(plain.interval, rel=1e-9)


def test_few_clusters_are_not_usable():
    few = found(hospitals(count=8, each=50), "hospital")
    assert few.verdict == "not usable"
    assert any("8 independent" in reason for reason in few.reasons)


def test_differences_are_clustered_too():
    log = hospitals()
    targets = {"one": np.array([[0.1, 0.9]]), "zero": np.array([[0.9, 0.1]])}
    plain, clustered = (
        evaluate(
            log | {"obs": np.zeros(400, int)},
            targets,
            0.0,
            features="one-hot",
            inference=Inference(cluster=name),
            log_format=LogFormat(one_step=True, columns={"observation": "obs"}),
            machine=ONE,
        ).compare()
        for name in (None, "hospital")
    )
    assert plain.differences[0].value == pytest.approx(clustered.differences[0].value)
    assert plain.differences[0].error != clustered.differences[0].error


def wards(kind, episodes=240, seed=0):
    """Episodes of 3 steps; those of a ward have a reward in common, and come one after another only by chance."""
    rng = np.random.default_rng(seed)
    n, episode = 3 * episodes, np.repeat(np.arange(episodes), 3)
    ward = rng.integers(0, 30, episodes)
    seen = {"obs": rng.integers(0, 3, n)} if kind == "states" else {"obs_0": rng.normal(size=n)}
    reward = 1 + 0.5 * rng.standard_normal(30)[ward][episode] + rng.standard_normal(n)
    ends = {"terminated": np.arange(n) % 3 == 2, "rho": rng.choice([0.5, 1.5], n)}
    return {"episode": episode, "reward": reward, **seen, **ends, "ward": np.char.add("w", ward.astype(str))[episode]}


@pytest.mark.parametrize("kind", ["states", "real observations"])
def test_in_parts_they_are_those_of_memory(tmp_path, kind, small_parts, same_behaviour):
    """The episodes of a cluster are in several files and parts."""
    log = wards(kind)
    for k, (low, high) in enumerate([(0, 250), (250, 600), (600, 720)]):
        pq.write_table(pa.table({name: column[low:high] for name, column in log.items()}), tmp_path / f"{k}.parquet")
    features = "one-hot" if kind == "states" else "identity"

    def run(in_parts, **how):
        machine = Machine(threads=1, in_parts=in_parts)
        return evaluate(str(tmp_path), None, 0.9, features=features, inference=Inference(**how), machine=machine)

    ours, memory, plain = run(True, cluster="ward"), run(False, cluster="ward"), run(True)
    assert ours.value == pytest.approx(memory.value, rel=1e-9) == plain.value
    assert ours.interval == pytest.approx(memory.interval, rel=1e-7)
    np.testing.assert_allclose(ours.influences, memory.influences, rtol=1e-6, atol=1e-8)
    assert ours.episodes == memory.episodes == 30
    same_behaviour(ours, memory)
    assert np.diff(ours.interval) > 1.1 * np.diff(plain.interval)
    assert any(note == "Errors are clustered by 'ward': 30 clusters of 240 episodes." for note in ours.notes)
    assert any("30 groups of whole clusters" in note for note in ours.notes)
    held = {"cluster": "ward", "trained_on": [str(k) for k in range(100)]}
    assert run(True, **held).interval == pytest.approx(run(False, **held).interval, rel=1e-7)


def test_more_clusters_than_groups_share_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "MOST_GROUPS", 10)
    pq.write_table(pa.table(wards("states")), tmp_path / "log.parquet")
    given = {"features": "one-hot", "inference": Inference(cluster="ward")}
    found = evaluate(str(tmp_path), None, 0.9, machine=Machine(threads=1, in_parts=True), **given)
    assert len(found.influences) == 10
    assert found.episodes == 30


def test_what_is_refused_in_parts(tmp_path):
    log = wards("states")
    for name, column, message in (
        ("ward", np.full(720, "one"), "cluster='ward' has the same value in all rows"),
        ("ward", np.where(np.arange(720) == 400, "other", log["ward"]), "cluster='ward' changes within episode 133"),
        ("place", log["ward"], "cluster='ward' is not a column of the log"),
    ):
        table = {other: values for other, values in log.items() if other != "ward"} | {name: column}
        for k, some in enumerate((slice(0, 400), slice(400, 720))):
            pq.write_table(pa.table({one: values[some] for one, values in table.items()}), tmp_path / f"{k}.parquet")
        machine = Machine(threads=1, in_parts=True)
        with pytest.raises(InputError, match=message):
            evaluate(str(tmp_path), None, 0.9, inference=Inference(cluster="ward"), machine=machine)
    machine = Machine(threads=1, checkpoint=tmp_path / "sums")
    with pytest.raises(InputError, match="cluster cannot be combined with a checkpoint"):
        evaluate(str(tmp_path), None, 0.9, inference=Inference(cluster="place"), machine=machine)


@pytest.mark.slow
def test_clustered_intervals_cover():
    """60 logs: 95 % of intervals hold .5, 50 or fewer with a chance of 1 in 1000. Without clusters far fewer do."""
    held = {None: 0, "hospital": 0}
    for seed in range(60):
        for name in held:
            low, high = found(hospitals(seed=seed), name).interval
            held[name] += low < 0.5 < high
    assert held["hospital"] > 50
    assert held[None] < 50


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"inference": Inference(cluster="ward")}, "cluster='ward' is not a column of the log"),
        ({"inference": Inference(cluster=3)}, "cluster must be the name of a column, got int"),
        ({"inference": Inference(cluster="hospital"), "algorithm": "lstd"}, "cluster needs algorithm='auto'"),
        ({"inference": Inference(cluster="hospital", block_length=5)}, "cluster and block_length"),
        ({"inference": Inference(cluster="hospital", anytime=True)}, "anytime=True needs independent episodes"),
    ],
)
def test_what_is_refused(more, message):
    with pytest.raises(InputError, match=message):
        evaluate(hospitals(), "uniform", 0.0, log_format=ROWS, machine=ONE, **more)


def test_a_cluster_is_made_of_whole_episodes():
    log = hospitals()
    log |= {"episode": np.arange(400) // 20, "terminated": np.arange(400) % 20 == 19}
    with pytest.raises(InputError, match="cluster='hospital' changes within episode 0"):
        evaluate(log, "uniform", 0.9, inference=Inference(cluster="hospital"), machine=ONE)


def test_on_the_command_line(tmp_path):
    import pandas
    from typer.testing import CliRunner

    from gradtd.cli.app import app

    pandas.DataFrame(hospitals()).to_csv(tmp_path / "log.csv", index=False)
    asked = ["evaluate", str(tmp_path / "log.csv"), "--gamma", "0", "--target", "uniform", "--one-step"]
    done = CliRunner().invoke(app, [*asked, "--cluster", "hospital", "--observation", "obs_0", "--threads", "1"])
    assert done.exit_code == 0, done.output
    assert "Errors are clustered by 'hospital': 40 clusters of 400 episodes." in done.stdout
    assert gradtd.Inference(cluster="hospital").cluster == "hospital"
