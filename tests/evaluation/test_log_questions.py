"""Irregular times, episodes that the target was trained on, groups of starts."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import gradtd
from gradtd import Inference, Machine
from gradtd.cli.app import app
from gradtd.logs.log import take_episodes

GIVEN = {"gamma": 0.9, "progress": False, "machine": Machine(threads=1)}
TARGET = np.array([[0.3, 0.7], [0.6, 0.4], [0.5, 0.5]])


def _log(episodes=200, seed=0, real=False):
    """Episodes that end with a chance of .25 after every step, some cut off; with groups, marks and times."""
    rng = np.random.default_rng(seed)
    length = rng.geometric(0.25, episodes)
    episode = np.repeat(np.arange(episodes), length)
    n = len(episode)
    t = np.arange(n) - np.repeat(np.cumsum(length) - length, length)
    last = t == length[episode] - 1
    cut = last & (t > 0) & (rng.random(n) < 0.3)  # one row that is cut off is no step
    state, action = rng.integers(0, 3, n), rng.integers(0, 2, n)
    made = {
        "episode": 10 + 3 * episode,
        "t": t,
        "action": action,
        "reward": rng.normal(state + action, 1),
        "terminated": (last & ~cut).astype(int),
        "truncated": cut.astype(int),
        "action_prob": np.full(n, 0.5),
        "train": (episode % 4 == 0).astype(int),
        "hours": t * 1.0,
        "ward": np.array(["north", "south"])[episode % 2],
    }
    seen = {"obs": state}
    if real:
        seen = {f"obs_{k}": rng.normal(state, 0.3) for k in range(2)}
    return made | seen


def _evaluate(log, target=TARGET, value_function="state", **inference):
    return gradtd.evaluate(log, target, value_function=value_function, inference=Inference(**inference), **GIVEN)


def _same(a, b):
    assert a.value == pytest.approx(b.value, rel=1e-9)
    assert a.interval == pytest.approx(b.interval, rel=1e-9)
    assert (a.verdict, a.steps, a.episodes) == (b.verdict, b.steps, b.episodes)


@pytest.mark.parametrize("value_function", ["state", "action"])
@pytest.mark.parametrize("real", [False, True])
def test_the_others_alone_are_evaluated(value_function, real):
    log = _log(real=real)
    target = "uniform" if real else TARGET
    if real and value_function == "state":
        target = np.tile([0.3, 0.7], (len(log["t"]), 1))
    keep = log["train"] == 0
    alone = {name: values[keep] for name, values in log.items()}
    of_alone = target[keep] if isinstance(target, np.ndarray) and len(target) == len(keep) else target
    left_out = sorted(set(log["episode"][~keep].tolist()))
    made = _evaluate(log, target, value_function, trained_on="train")
    _same(made, _evaluate(alone, of_alone, value_function))
    _same(made, _evaluate(log, target, value_function, trained_on=left_out))
    assert "left out of the evaluation: 50." in " ".join((*made.notes, *made.warnings))


def test_a_log_that_was_read_before_and_estimated_behaviour():
    log = _log()
    read = gradtd.read_log(log, keep=["train"])
    _same(_evaluate(read, trained_on="train"), _evaluate(log, trained_on="train"))
    with pytest.raises(gradtd.InputError, match="by ids needs the table"):
        _evaluate(read, trained_on=range(0, 200, 4))  # numbers of episodes, whose ids are 10, 13, ...
    without = {name: values for name, values in log.items() if name != "action_prob"}
    made = gradtd.evaluate(without, TARGET, behaviour="estimate", inference=Inference(trained_on="train"), **GIVEN)
    assert made.episodes == 150
    assert "model_moves" in made.numbers


def test_some_episodes_are_the_log_of_their_rows():
    log = gradtd.read_log(_log(40))
    part, steps = take_episodes(log, np.arange(40) % 3 == 1)
    rows = np.isin(_log(40)["episode"], 10 + 3 * np.arange(1, 40, 3))
    alone = gradtd.read_log({name: values[rows] for name, values in _log(40).items()})
    assert np.array_equal(part.observations[part.row], alone.observations[alone.row])
    assert np.array_equal(part.observations[part.next_row], alone.observations[alone.next_row])
    for name in ("reward", "action", "terminated", "truncated", "episode", "behaviour"):
        assert np.array_equal(getattr(part, name), getattr(alone, name))
    assert np.array_equal(log.reward[steps], part.reward)


def test_what_was_all_trained_on_is_refused():
    log = _log(20)
    for given, said in (
        (sorted(set(log["episode"].tolist())), "looks better than it is"),
        ([1], "not in the log, such as '1'"),
        ("hours", "must contain 0 and 1"),
        ("nothing", "is not a column of the log"),
        (3, "a list of ids"),
        (iter([10, 13]), "a list of ids"),  # a second evaluation would leave nothing out
        (b"10", "a list of ids"),
    ):
        with pytest.raises(gradtd.InputError, match=said):
            _evaluate(log, trained_on=given)
    by_row = np.tile([0.3, 0.7], (len(log["t"]), 1))
    with pytest.raises(gradtd.InputError, match="given by row"):
        _evaluate(_log(20, real=True), by_row, "action", trained_on="train")
    read = gradtd.read_log(log)
    with pytest.raises(gradtd.InputError, match="read it with"):
        _evaluate(read, trained_on="train")


@pytest.mark.parametrize("value_function", ["state", "action"])
def test_even_times_are_powers_of_gamma(value_function):
    log = _log()
    slow = log | {"hours": 2 * log["t"] + 5.0}
    made = _evaluate(slow, value_function=value_function, time_column="hours")
    _same(made, gradtd.evaluate(log, TARGET, value_function=value_function, **(GIVEN | {"gamma": 0.81})))


def test_discounts_are_gamma_to_the_power_of_the_time_passed():
    log = {
        "episode": [0, 0, 0, 1, 1],
        "obs": [0, 1, 2, 0, 1],
        "reward": [1.0, 1, 1, 1, 1],
        "terminated": [0, 0, 1, 0, 0],
        "truncated": [0, 0, 0, 0, 1],
        "rho": [1.0] * 5,
        "hours": [0.0, 0.5, 3.0, 10.0, 12.0],
    }
    from gradtd.evaluation.designs.base import discounts
    from gradtd.evaluation.log_questions import with_times

    read = gradtd.read_log({name: np.array(values) for name, values in log.items()})
    timed, said = with_times(log, read, "hours")
    assert discounts(timed, 0.9)[:3] == pytest.approx([0.9**0.5, 0.9**2.5, 0.0])
    assert discounts(timed, 0.9)[3] == pytest.approx(0.9**2)
    assert said == ()


def test_a_cut_whose_end_has_no_time_has_the_median():
    from gradtd.evaluation.log_questions import with_times

    log = {
        name: np.array(values)
        for name, values in {
            "episode": [0, 0, 0],
            "obs": [0, 1, 2],
            "next_obs": [1, 2, 0],
            "reward": [1.0, 1, 1],
            "terminated": [0, 0, 0],
            "truncated": [0, 0, 1],
            "rho": [1.0] * 3,
            "hours": [0.0, 1.0, 4.0],
        }.items()
    }
    timed, said = with_times(log, gradtd.read_log(log), "hours")
    assert timed.elapsed.tolist() == [1.0, 3.0, 2.0]
    assert "Truncated steps" in said[0]


def test_times_in_parts_are_those_in_memory(tmp_path, small_units):
    log = _log(300)
    log["hours"] = log["t"] * 1.5 + 0.1 * log["t"] ** 2
    log["pi"] = TARGET[log["obs"], log["action"]]
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(log), path)
    both = [
        gradtd.evaluate(
            str(path), "pi", inference=Inference(time_column="hours"), **(GIVEN | {"machine": Machine(in_parts=way)})
        )
        for way in (True, False)
    ]
    assert both[0].value == pytest.approx(both[1].value, rel=1e-9)
    for name, given in (("time_column", "hours"), ("by", "ward"), ("trained_on", "train"), ("cluster", "ward")):
        with pytest.raises(gradtd.InputError, match=f"{name} cannot be combined with a checkpoint"):
            _in_parts(path, Machine(checkpoint=tmp_path / "sums"), **{name: given})


def _in_parts(path, machine=None, target="pi", **inference):
    machine = Machine(in_parts=True, threads=1) if machine is None else machine
    return gradtd.evaluate(str(path), target, inference=Inference(**inference), **(GIVEN | {"machine": machine}))


def _write(log, path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(log), path, row_group_size=97)
    return path


def _some(log, taken):
    return {name: values[taken] for name, values in log.items()}


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("real", [False, True])
def test_episodes_that_were_trained_on_are_left_out_in_parts(tmp_path, small_parts, real, words):
    log = _log(160, real=real)
    log["pi"] = np.where(log["action"] == 1, 0.7, 0.3)
    taken = log["train"] == 0
    ids = np.unique(log["episode"][~taken]).tolist()
    if words:
        log["episode"] = np.array([f"patient {one}" for one in log["episode"]])
        ids = [f"patient {one}" for one in ids]
    path, others = _write(log, tmp_path / "log.parquet"), _write(_some(log, taken), tmp_path / "others.parquet")
    plain, memory = _in_parts(others), _in_parts(path, Machine(in_parts=False, threads=1), trained_on="train")
    for given in ("train", ids):
        made = _in_parts(path, trained_on=given)
        _same(made, plain)
        assert made.diagnostics.trained_on
        assert any("left out of the evaluation: 40." in note for note in made.notes)
        assert (made.steps, made.episodes) == (memory.steps, memory.episodes)
        if not real:  # features of real observations are fitted to a sample
            assert made.value == pytest.approx(memory.value, rel=1e-9)
    with pytest.raises(gradtd.InputError, match="1 episodes that are not in the log, such as 'nobody'"):
        _in_parts(path, trained_on=[*ids, "nobody"])
    with pytest.raises(gradtd.InputError, match="1 episodes that are not in the log, such as '1_0'"):
        _in_parts(path, trained_on=[*ids, "1_0"])  # Python reads it as the number 10, which is there
    with pytest.raises(gradtd.InputError, match="Keep some episodes out"):
        _in_parts(path, trained_on=np.unique(log["episode"]).tolist())
    with pytest.raises(gradtd.InputError, match="must contain 0 and 1"):
        _in_parts(path, trained_on="ward")
    with pytest.raises(gradtd.InputError, match="'trains' is not a column"):
        _in_parts(path, trained_on="trains")


def test_ids_need_a_column_of_episodes_in_parts(tmp_path):
    log = {name: values for name, values in _log(60).items() if name != "episode"}
    with pytest.raises(gradtd.InputError, match="by ids needs a column of episodes"):
        _in_parts(_write(log, tmp_path / "log.parquet"), target="uniform", trained_on=[1, 2])


@pytest.mark.parametrize(
    ("real", "more"), [(False, {}), (False, {"lam": 0.5}), (True, {}), (True, {"lam": 0.5}), (True, {"action": True})]
)
def test_groups_in_parts_are_those_in_memory(tmp_path, small_parts, ids_apart, real, more):
    log = _log(90, real=real)
    log["episode"] = ids_apart(90)[(log["episode"] - 10) // 3]  # each is a group of its own, so influences are equal
    log["pi"] = np.where(log["action"] == 1, 0.7, 0.3)
    given = {"features": "identity"} if real else {}
    target = "pi"
    if more.pop("action", False):
        target, given["value_function"] = (lambda seen: np.tile([0.3, 0.7], (len(seen), 1))), "action"
    path = _write(log, tmp_path / "log.parquet")
    ours, memory = (
        gradtd.evaluate(
            str(path),
            target,
            inference=Inference(by="ward", **more),
            **(GIVEN | given | {"machine": Machine(in_parts=way, threads=1)}),
        )
        for way in (True, False)
    )
    assert [(one.name, one.episodes) for one in ours.groups] == [(one.name, one.episodes) for one in memory.groups]
    for a, b in zip(ours.groups, memory.groups, strict=True):
        assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high), rel=1e-7)


def test_groups_of_the_episodes_that_are_left(tmp_path, small_parts):
    """A group that the target was trained on altogether is none; rows of an episode may be anywhere."""
    log = _log(120)
    log |= {"pi": np.where(log["action"] == 1, 0.7, 0.3), "train": ((log["episode"] - 10) // 3 % 4 == 0).astype(int)}
    log["ward"] = np.array(["a", "b", "c", "d"])[(log["episode"] - 10) // 3 % 4]
    mixed = _some(log, np.random.default_rng(0).permutation(len(log["t"])))
    path = _write(mixed, tmp_path / "log.parquet")
    made = _in_parts(path, by="ward", trained_on="train")
    memory = _in_parts(path, Machine(in_parts=False, threads=1), by="ward", trained_on="train")
    assert [(one.name, one.episodes) for one in made.groups] == [("b", 30), ("c", 30), ("d", 30)]
    assert [one.name for one in memory.groups] == ["b", "c", "d"]
    assert [one.value for one in made.groups] == pytest.approx([one.value for one in memory.groups], rel=1e-9)
    with pytest.raises(gradtd.InputError, match="by='wards' is not a column"):
        _in_parts(path, by="wards")


def test_times_that_go_back_or_are_text_are_refused():
    log = _log(20)
    with pytest.raises(gradtd.InputError, match="goes back"):
        _evaluate(log | {"hours": -log["hours"]}, time_column="hours")
    with pytest.raises(gradtd.InputError, match="must contain numbers"):
        _evaluate(log, time_column="ward")


@pytest.mark.parametrize("value_function", ["state", "action"])
def test_groups_make_up_the_whole(value_function, tmp_path):
    log = _log()
    made = _evaluate(log, value_function=value_function, by="ward")
    plain = _evaluate(log, value_function=value_function)
    _same(made, plain)
    assert [(one.name, one.episodes) for one in made.groups] == [("north", 100), ("south", 100)]
    assert np.mean([one.value for one in made.groups]) == pytest.approx(made.value, rel=1e-9)
    assert all(one.low < one.value < one.high and not one.fault for one in made.groups)
    assert gradtd.load_evaluation(made.save(tmp_path / "e.npz")).groups == made.groups
    assert made.to_dict()["groups"][0]["name"] == "north"


def test_influences_of_a_group_are_derivatives_by_the_weight_of_an_episode():
    """The naive twin: least squares with weights of the episodes, and the mean over the group's starts."""
    from types import SimpleNamespace

    from gradtd.evaluation.estimators.least_squares import least_squares, start_features
    from gradtd.evaluation.extra_answers import fits_in_memory
    from gradtd.evaluation.fits import Fit
    from gradtd.evaluation.log_questions import Groups

    log = gradtd.read_log(_log(30))
    rho = TARGET[log.observations[log.row], log.action] / 0.5
    discount = np.where(log.terminated, 0.0, 0.9)
    states = log.observations
    stream = gradtd.Stream.from_arrays(
        features=np.eye(3),
        row=states[log.row],
        next_row=states[log.next_row],
        reward=log.reward,
        discount=discount,
        rho=rho,
        episode=log.episode,
    )
    starts = start_features(stream, stream.begins)
    square = least_squares(stream, starts, stream.begins)
    E = len(starts)
    mine = np.arange(E) % 3 == 0
    case = SimpleNamespace(square=square, n_episodes=E, starts=starts, stream=stream, traces=None, begins=stream.begins)
    decision = SimpleNamespace(fit=Fit("", 0.0, np.zeros(E), 0.0, 3))
    name, episodes, fit = fits_in_memory(case, decision, Groups("ward", ("others", "mine"), mine.astype(int)))[1]
    assert (name, episodes) == ("mine", mine.sum())

    def value(weights):
        w = weights[log.episode] * rho
        x, after = np.eye(3)[states[log.row]], np.eye(3)[states[log.next_row]] * discount[:, None]
        theta = np.linalg.solve((x * w[:, None]).T @ (after - x), -(x.T @ (w * log.reward)))
        return weights[mine] @ starts[mine] @ theta / weights[mine].sum()

    assert fit.value == pytest.approx(value(np.ones(E)), rel=1e-9)
    for e in (0, 1, 15):
        weights = np.ones(E)
        weights[e] += 1e-5
        assert fit.psi[e] == pytest.approx(E * (value(weights) - value(np.ones(E))) / 1e-5, rel=1e-3, abs=1e-4)


def test_the_factor_for_all_groups_is_that_of_the_largest_of_normal_numbers():
    from gradtd.evaluation.extra_answers import together

    psi = np.kron(np.eye(5), np.ones(200))  # five groups that share no episode
    assert together(psi, 0.95, 0) == pytest.approx(2.569 / 1.96, rel=0.03)  # quantile of the largest of five |N(0, 1)|
    same = np.ones((5, 100))
    assert together(same, 0.95, 0) == pytest.approx(1.0, abs=0.05)


def test_groups_that_cannot_be_told_apart_are_refused():
    log = _log(100)
    with pytest.raises(gradtd.InputError, match="100 groups of episodes"):
        _evaluate(log | {"ward": log["episode"]}, by="ward")
    with pytest.raises(gradtd.InputError, match="1 groups"):
        _evaluate(log | {"ward": np.zeros(len(log["t"]))}, by="ward")
    with pytest.raises(gradtd.InputError, match="block_length cuts"):
        _evaluate(log, by="ward", block_length=5)
    with pytest.raises(gradtd.InputError, match="name of a column"):
        _evaluate(log, by=3)
    with pytest.raises(gradtd.InputError, match="by needs the influences"):
        gradtd.evaluate(log, TARGET, algorithm="wis", inference=Inference(by="ward"), **GIVEN)


def test_the_command_line_has_them_all(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(_log()), path)
    given = ["evaluate", str(path), "--gamma", ".9", "--target", "uniform", "--threads", "1", "--by", "ward"]
    given += ["--trained-on", "train", "--time-column", "hours"]
    outcome = CliRunner().invoke(app, given)
    assert outcome.exit_code == 0, outcome.output
    assert "north, 50 episodes" in outcome.output
    told = json.loads(CliRunner().invoke(app, [*given, "--json"]).output)
    assert [group["episodes"] for group in told["groups"]] == [50, 100]
