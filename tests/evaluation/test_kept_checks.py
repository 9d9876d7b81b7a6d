"""Folders of sums with right checksums and wrong content: computed again, or refused in one sentence."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd.core.files import read_arrays, write_arrays
from gradtd.evaluation.kept_files import Store
from gradtd.evaluation.kept_sums import _bytes_of, _table_of
from gradtd.evaluation.kept_units import within

pytestmark = pytest.mark.usefixtures("small_units")


def _evaluate(log, folder):
    return gradtd.evaluate(str(log), gamma=0.9, progress=False, threads=1, sums=folder)


@pytest.fixture
def states(tmp_path):
    """A log of four states in two files."""
    rng = np.random.default_rng(0)
    (tmp_path / "log").mkdir()
    for name, first in (("a", 0), ("b", 100)):
        n = 300
        columns = {"episode": first + np.repeat(np.arange(100), 3), "obs": rng.integers(0, 4, n)}
        columns |= {
            "reward": rng.normal(1, 1, n),
            "terminated": np.arange(n) % 3 == 2,
            "rho": rng.choice([0.5, 1.5], n),
        }
        pq.write_table(pa.table(columns), tmp_path / "log" / f"{name}.parquet")
    return tmp_path / "log"


def _change(folder, kind, change):
    """Change the content of files of a kind, and give them the checksum of what they hold then."""
    changed = 0
    for path in folder.rglob("*.npz"):
        own = "rows" if path.name.endswith(".rows.npz") else path.stem if path.stem in ("units", "fitted") else "sums"
        if own == kind:
            header, arrays = read_arrays(path)
            change(header, arrays)
            write_arrays(path, arrays, header)
            changed += 1
    assert changed


def put(where, key, value):
    def change(header, arrays):
        table = header if where == "header" else arrays
        if key in table:
            table[key] = value(table[key]) if callable(value) else value

    return change


def test_ratios_whose_squares_overflow_are_refused_in_parts(three):
    for file in three.iterdir():
        table = pq.read_table(file)
        huge = pa.array(np.full(len(table), 1e200))
        pq.write_table(table.set_column(table.column_names.index("rho"), "rho", huge), file)
    with pytest.raises(gradtd.InputError, match=r"the largest ratio is 1e\+200 in size"):
        gradtd.evaluate(three, gamma=0.9, machine=gradtd.Machine(in_parts=True, threads=1), progress=False)


REFUSED = {
    "lam": ("header", "lam", 9),
    "lam that is a word": ("header", "lam", "much"),
    "no groups": ("header", "groups", 0),
    "many groups": ("header", "groups", 10**12),
    "a yes that is a word": ("header", "complete", "yes"),
    "no headlines": ("header", "headlines", []),
    "another headline": ("header", "headlines", ["nothing"]),
    "named": ("header", "named", lambda was: not was),
    "rows": ("header", "rows", -1),
    "no question": ("header", "question", None),
    "a question without features": ("header", "question", {}),
    "other cosines": ("header", "cosines", {"name": "identity"}),
    "columns": ("arrays", "rungs.0", lambda was: was + 10**9),
    "columns twice": ("arrays", "rungs.0", lambda was: np.r_[was, was]),
    "columns that are no numbers": ("arrays", "rungs.0", lambda was: was.astype(float)),
    "clock": ("arrays", "clock", lambda was: was * np.nan),
    "flat clock": ("arrays", "clock", lambda was: was.ravel()),
    "waves": ("arrays", "waves.phases", lambda was: was[:-1]),
    "no column varies": ("arrays", "cosines.varies", lambda was: was[:0]),
    "a column that is none": ("arrays", "cosines.varies", lambda was: was + 5),
    "knots": ("arrays", "cosines.counts", lambda was: was + 1000),
}
"""Changes of what was fitted, which is never fitted again: files that come later need the same."""


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_what_was_fitted_is_refused(three, tmp_path, change):
    _evaluate(three, tmp_path / "sums")
    _change(tmp_path / "sums", "fitted", put(*change))
    with pytest.raises(
        gradtd.InputError, match=r"fitted to a log, or it is damaged. Give all files|stored .* features"
    ):
        _evaluate(three, tmp_path / "sums")


STATES = {
    "states out of order": ("arrays", "states", lambda was: was[::-1]),
    "pairs": ("arrays", "pairs", lambda was: np.full((1, 2), 10**6)),
    "a table": ("arrays", "table", lambda was: was[:-1]),
    "numbers of a table": ("arrays", "table", lambda was: was * np.nan),
    "indices of a table": ("arrays", "table.indices", lambda was: was + 10**6),
    "begins of a table": ("arrays", "table.indptr", lambda was: was[::-1]),
    "a shape": ("header", "shape", [10**9, 10**9]),
}


@pytest.mark.parametrize("change", STATES.values(), ids=STATES)
def test_what_was_fitted_to_states_is_refused(states, tmp_path, change):
    _evaluate(states, tmp_path / "sums")
    (fitted,) = (tmp_path / "sums").rglob("fitted.npz")
    header, arrays = read_arrays(fitted)
    if change[1] not in (header if change[0] == "header" else arrays):
        pytest.skip("this table is stored in the other way")
    _change(tmp_path / "sums", "fitted", put(*change))
    with pytest.raises(gradtd.InputError, match=r"fitted to a log, or it is damaged\. Give all files"):
        _evaluate(states, tmp_path / "sums")


AGAIN = {
    "a shape": ("sums", "arrays", "moments.C", lambda was: was[:-1]),
    "no number": ("sums", "arrays", "moments.x", lambda was: was * np.nan),
    "a number that is too large": ("sums", "arrays", "moments.x", lambda was: was + 1e200),
    "a reward that is too large": ("sums", "header", "largest", lambda was: was | {"largest_reward": 1e200}),
    "a group": ("sums", "arrays", "groups", lambda was: was + 10**6),
    "groups": ("sums", "header", "groups", 10**9),
    "no steps": ("sums", "header", "numbers", {}),
    "too many steps": ("sums", "header", "numbers", lambda was: was | {"steps": 1e9}),
    "steps that are words": ("sums", "header", "numbers", lambda was: was | {"steps": "many"}),
    "ratios": ("sums", "arrays", "ratios", lambda was: -1 - was),
    "notes": ("sums", "header", "notes", {"x": "y"}),
    "blocks": ("sums", "header", "blocks", 5),
    "blocks that are words": ("sums", "header", "blocks", "x"),
    "a share": ("sums", "header", "unseen", 7),
    "no list of units": ("units", "header", "units", None),
    "units of numbers": ("units", "header", "units", [[1, 2], 3]),
    "a file twice": ("units", "header", "units", lambda was: was + was),
    "rows of other types": ("units", "header", "units", lambda was: [[["x", "1", 2, 3, "y"]]]),
    "changed": ("units", "header", "changed", 9),
    "hashes": ("rows", "arrays", "hashes", lambda was: was[::-1]),
    "fewer hashes": ("rows", "arrays", "hashes", lambda was: was[:1]),
    "begins": ("rows", "arrays", "begins", lambda was: was * 1000),
    "no table": ("rows", "arrays", "rows", lambda was: was[:40]),
    "a table without a column": (
        "rows",
        "arrays",
        "rows",
        lambda was: _bytes_of(_table_of(was).drop_columns("reward")),
    ),
}


@pytest.mark.parametrize("change", AGAIN.values(), ids=AGAIN)
def test_sums_that_do_not_fit_are_made_again(three, tmp_path, change):
    kind, *rest = change
    found = _evaluate(three, tmp_path / "sums")
    _change(tmp_path / "sums", kind, put(*rest))
    assert _evaluate(three, tmp_path / "sums").to_dict() == found.to_dict()


def test_stored_sums_are_read_once(three, tmp_path, monkeypatch):
    found, looked, look = _evaluate(three, tmp_path / "sums"), [], Store.look

    def counted(store, unit, *more):
        looked.append(unit.digest)
        return look(store, unit, *more)

    monkeypatch.setattr(Store, "look", counted)
    assert _evaluate(three, tmp_path / "sums").to_dict() == found.to_dict()
    assert looked
    assert len(looked) == len(set(looked))


NAMES = ["row", "next_row", "starts", "group", "begins", "rho", "discount", "reward", "action"]


@pytest.mark.parametrize("name", NAMES)
def test_steps_that_do_not_fit_are_read_again(states, tmp_path, name):
    found = _evaluate(states, tmp_path / "sums")

    def change(header, arrays):
        key = f"block.0.{name}"
        if key in arrays and name == "action":
            arrays[key] = arrays[key][: len(arrays[key]) // 2]
        elif key in arrays:
            arrays[key] = (
                arrays[key] * -1 - 1 if arrays[key].dtype.kind == "f" and name != "reward" else arrays[key] + 10**6
            )
            if name == "reward":
                arrays[key] = arrays[key] * np.inf

    _change(tmp_path / "sums", "sums", change)
    assert _evaluate(states, tmp_path / "sums").to_dict() == found.to_dict()


def test_limits_beyond_single_precision_are_compared_without_a_warning():
    rewards = np.array([1.0, 3e38], np.float32)
    assert within(rewards, -2e50, 2e50)
    assert not within(rewards, -2e50, 2.0)
