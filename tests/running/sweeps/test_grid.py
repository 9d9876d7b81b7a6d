"""What is wrong with a sweep is said in one sentence, before anything runs."""

import pytest

import gradtd
from small_sweep import small_sweep


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"problems": []}, "problems must be a list"),
        ({"problems": ["boyan"]}, "did you mean 'boyan_chain'"),
        ({"problems": ["baird", "baird"]}, "given twice"),
        ({"problems": {"baird": 3}}, "must be a table of parameters"),
        ({"algorithms": {}}, "algorithms must be a table"),
        ({"algorithms": {"td": 3}}, "must be a table of hyper-parameters"),
        ({"algorithms": {"td": {"alhpa": 1}}}, "did you mean 'alpha'"),
        ({"algorithms": {"td": {"alpha": []}}}, "empty list"),
        ({"algorithms": ["td"]}, r"algorithms must be a table .* got \['td'\]"),
        ({"algorithms": {"td": []}}, "algorithms.td is an empty list"),
        ({"algorithms": {"td": {"alpha": [[0.1], 0.2]}}}, "must be finite numbers, words"),
        ({"algorithms": {"td": {"alpha": [{"x": 1}, {"x": 2}]}}}, "must be finite numbers, words"),
        ({"algorithms": {"td": {"alpha": float("inf")}}}, "must be finite numbers, words"),
        (
            {"algorithms": {"td": {"alpha": list(range(1000)), "lam": list(range(1000))}}},
            "at most 100000 settings, this one has 1000000",
        ),
        ({"problems": {"garnet": {"states": list(range(1000)), "seed": list(range(1000))}}}, "at most 100000 settings"),
        ({"runs": 10**12}, "at most 1000000 units of work"),
        ({"metrics": []}, "at least one name"),
        ({"metrics": 3}, "metrics must be a list of names"),
        ({"metrics": [["rmsve"]]}, "metrics must be a list of names"),
        ({"at": []}, "at must be a list of steps"),
        ({"at": 0}, "at must be a list of steps"),
        ({"at": "100"}, "at must be a list of steps"),
        ({"metrics": ["rmse"]}, "did you mean"),
        ({"at": [10, 5]}, "increasing order"),
        ({"at": [301]}, "between 0 and 300"),
        ({"fresh_seed": 0}, "must differ from seed"),
        ({"best": "first"}, "best must be one of"),
        ({"runs": 0}, "runs must be at least 1"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(changed, message):
    with pytest.raises(gradtd.InputError, match=message):
        small_sweep(**changed)


def test_what_is_wrong_with_a_setting_is_said_before_anything_runs(tmp_path):
    with pytest.raises(gradtd.InputError, match="alpha must be greater than 0"):
        small_sweep(algorithms={"td": {"alpha": [0.1, -1]}}).run(tmp_path / "x")
    with pytest.raises(gradtd.InputError, match="td needs alpha"):
        small_sweep(algorithms={"td": {}}).run(tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_files_and_folders_that_are_not_ours_are_refused(tmp_path):
    def refused(text, message):
        (tmp_path / "f.toml").write_text(text)
        with pytest.raises(gradtd.InputError, match=message):
            gradtd.Sweep.from_file(tmp_path / "f.toml")

    refused("problems = [", "is not TOML")
    refused('problems = ["baird"]', "has no algorithms")
    refused('problem = ["baird"]', "did you mean 'problems'")
    with pytest.raises(gradtd.InputError, match="there is no file"):
        gradtd.Sweep.from_file(tmp_path / "none.toml")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    with pytest.raises(gradtd.InputError, match="is not empty and was not written by gradtd sweep"):
        small_sweep().run(tmp_path / "full")
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "manifest.json").write_text('{"made_by": "gradtd reproduce", "format": 1}')
    with pytest.raises(gradtd.InputError, match="was written by gradtd reproduce"):
        small_sweep().run(tmp_path / "paper")
