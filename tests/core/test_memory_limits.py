"""What would not fit into memory is refused in one sentence, before it is taken."""

import gzip

import numpy as np
import pytest

import gradtd
from gradtd import InputError
from gradtd.core import memory_limits
from gradtd.features import from_dict, make_features
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import survey
from gradtd.theory import moments

OBSERVATIONS = np.random.default_rng(0).random((50, 2))


@pytest.fixture(autouse=True)
def small_machine(monkeypatch):
    monkeypatch.setattr(memory_limits, "available", lambda: 2**30)


def test_how_much_is_left_is_known_here():
    assert memory_limits._of_machine() is None or memory_limits._of_machine() > 0


def test_a_group_of_processes_has_its_own_limit(tmp_path):
    assert memory_limits._of_group(tmp_path) is None
    (tmp_path / "memory.max").write_text("max")
    (tmp_path / "memory.current").write_text("300")
    (tmp_path / "memory.stat").write_text("anon 250\ninactive_file 50\n")
    assert memory_limits._of_group(tmp_path) is None
    (tmp_path / "memory.max").write_text("1000")
    assert memory_limits._of_group(tmp_path) == 750


def test_tiles_with_more_cells_than_memory_are_refused():
    with pytest.raises(InputError, match=r"the weights of 1600080001 features would take 47.7 GB of memory, and 1 GB"):
        make_features("tiles", tilings=1, tiles=40_000).fit(OBSERVATIONS)
    with pytest.raises(InputError, match="tilings must be between 1 and 1024, got 65536"):
        make_features("tiles", tilings=65_536)
    few = make_features("tiles", tilings=1024, tiles=2).fit(OBSERVATIONS)
    with pytest.raises(InputError, match=r"1024 tilings of 100000 observations would take 1.53 GB"):
        few.transform(np.tile(OBSERVATIONS, (2000, 1)))


@pytest.mark.parametrize("n_features", [10**11, 10**8])
def test_a_learner_of_too_many_features_is_refused(n_features):
    with pytest.raises(InputError, match=f"what td stores for {n_features} features would take"):
        gradtd.Learner(n_features, "td", alpha=0.1)


def test_a_rule_that_keeps_a_square_of_its_features_is_refused_beyond_memory():
    with pytest.raises(InputError, match=r"what newton_td stores for 20000 features would take 2.98 GB .* use fewer"):
        gradtd.Learner(20_000, "newton_td", alpha=0.1)
    stream = gradtd.Stream.from_arrays(
        features=np.zeros((2, 20_000)), row=[0, 1], next_row=[1, 0], reward=0.0, discount=0.5, episode=[0, 1]
    )
    with pytest.raises(InputError, match="what lstd stores for 20000 features would take"):
        gradtd.learn(stream, "lstd")
    gradtd.learn(stream, "td", alpha=0.1, compile=False)


def test_the_size_of_what_a_rule_keeps_is_found_with_few_features():
    from gradtd.running.session import Session

    for name, hyper in (("td", {"alpha": 0.1}), ("lstd", {}), ("newton_td", {"alpha": 0.1}), ("impression_gtd", {})):
        session = Session(name, hyper, n_steps=10)
        run = session.begin(np.zeros(37), (0, 0))
        assert session.state_bytes(37) == sum(array.nbytes for array in run.state), name


def test_stored_features_of_columns_that_are_not_there_are_refused_at_once():
    stored = make_features("tiles", tilings=2, tiles=4).fit(OBSERVATIONS).to_dict()
    with pytest.raises(InputError, match="low"):
        from_dict(stored | {"n_columns": 10**9})


def test_theory_that_would_take_hours_is_refused(monkeypatch):
    """2001 features over as many rows are 8e9 multiplications; here the limit is lower, and so are they."""
    assert moments.LARGEST_WORK < 2001**3
    monkeypatch.setattr(moments, "LARGEST_WORK", 9000)
    with pytest.raises(InputError, match=r"the exact theory of 21 features over 23 rows takes 1e\+04 multiplications"):
        gradtd.theory.stability_threshold("random_walk_tabular:n=21", 10)


def test_numbers_that_no_float_holds_are_refused():
    learner = gradtd.Learner(2, "td", alpha=0.1, compile=False)
    for bad in ({"reward": 10**400}, {"rho": 10**400}, {"discount": 10**400}, {"phi": [10**400, 0]}):
        with pytest.raises(InputError):
            learner.update(**{"phi": [1, 0], "reward": 1.0, "phi_next": [0, 1], "discount": 0.5} | bad)
    assert learner.seen == 0


def test_a_rule_that_divides_by_zero_says_so():
    def divides(state, stream, now, hyper):
        state.theta[0] = now.alpha / (now.seen - 2)

    rule = gradtd.Algorithm("divides", divides)
    with pytest.raises(InputError, match="divides divided by zero"):
        gradtd.learn(gradtd.sample("boyan_chain", 5), rule, alpha=0.1)


def test_actions_too_large_to_be_codes_are_real_numbers():
    log = gradtd.read_log(
        {"episode": [0, 0], "obs": [1, 2], "action": [1.0, 1e300], "reward": [0, 1], "terminated": [0, 1]}
    )
    assert not log.discrete_actions
    assert log.action.tolist() == [1.0, 1e300]


def test_rewards_of_1e300_are_refused_or_diverge_without_a_warning():
    stream = gradtd.sample("boyan_chain", 60)
    steps = stream.steps.copy()
    steps["reward"] = 1e300
    large = stream.with_steps(steps)
    for name, hyper in (("td", {"alpha": 0.1}), ("lstd", {}), ("impression_gtd", {"alpha": 0.1, "batch_size": 2})):
        assert gradtd.learn(large, name, **hyper).diverged == 1, name
    log = {"episode": [0, 0, 1], "obs": [1, 2, 1], "reward": [1e300] * 3, "terminated": [0, 1, 1], "rho": [1.0] * 3}
    with pytest.raises(InputError, match=r"the largest reward is 1e\+300 in size"):
        gradtd.evaluate(log, gamma=0.9)


def packed_log(path, rows):
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = {name: np.zeros(rows) for name in ("obs", "reward")} | {"episode": np.zeros(rows, int)}
    pq.write_table(pa.table(made | {"terminated": np.zeros(rows, bool)}), path, row_group_size=rows)
    return path


def test_a_small_file_of_many_equal_rows_is_refused_by_its_number_of_rows(tmp_path, monkeypatch):
    path = packed_log(tmp_path / "log.parquet", 3_000_000)
    assert path.stat().st_size < 2**16
    monkeypatch.setattr(memory_limits, "available", lambda: 2**26)
    monkeypatch.setattr("gradtd.logs.files.ParquetTable.pieces", None)  # nothing of it is read
    with pytest.raises(InputError, match=r"'log.parquet', 12,000,000 numbers or more, would .* in_parts=True"):
        gradtd.read_log(path)


def test_a_long_episode_of_a_small_file_is_refused_in_parts(tmp_path, monkeypatch):
    path = packed_log(tmp_path / "log.parquet", 3_000_000)
    monkeypatch.setattr(memory_limits, "available", lambda: 2**26)
    (part,) = survey(ParquetTable("log", [path]), "episode").parts()
    with pytest.raises(InputError, match="an episode, or a sample of episodes, of 3,000,000 rows would take"):
        next(part.chunks(["episode", "obs", "reward", "terminated"]))


def test_a_packed_csv_is_refused_while_it_is_read(tmp_path, monkeypatch):
    rows = b"episode,obs_0,obs_1,obs_2,reward,terminated\n" + b"0,0,0,0,0,0\n" * 2_000_000
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(rows, 1))
    monkeypatch.setattr(memory_limits, "available", lambda: 2**26)
    with pytest.raises(InputError, match=r"'log.csv.gz', [\d,]+ numbers or more, would take"):
        gradtd.read_log(tmp_path / "log.csv.gz")


def test_lists_count_all_their_numbers(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"obs": [[0.0] * 50] * 8, "reward": [0.0] * 8}), tmp_path / "log.parquet")
    assert ParquetTable("log", [tmp_path / "log.parquet"]).entries(["obs", "reward"]) == 8 * 51
