"""Careless inputs: every one of them is understood rightly, warned of or refused. What is said stands in messages.txt.

To write the file anew after a message has changed: ``python tests/logs/test_careless.py`` from the root, then read it.
"""

from pathlib import Path

import numpy as np
import pytest

from gradtd.core.checks import InputError
from gradtd.logs import Probabilities
from gradtd.logs.given_policies import read_beside
from gradtd.logs.ratios import ratios

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

MESSAGES = Path(__file__).with_name("messages.txt")
RNG = np.random.default_rng(26)
EPISODES, LENGTH, A = 60, 5, 3
N = EPISODES * LENGTH
OBS = RNG.normal(size=(N, 2))
SCORES = RNG.normal(size=(2, 2, A))
WORDS = np.array(["none", "low", "high"])


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


BEHAVIOUR = softmax(OBS @ SCORES[0])
PI = softmax(OBS @ SCORES[1])
ACTION = np.array([RNG.choice(A, p=p) for p in BEHAVIOUR])
REWARD = RNG.normal(size=N) + ACTION
ROWS = np.arange(N)
BEST = PI.argmax(axis=1)


def policy(seen):
    return softmax(seen @ SCORES[1])


def clean(**changes):
    made = {
        "episode": ROWS // LENGTH,
        "t": ROWS % LENGTH,
        "obs_0": OBS[:, 0],
        "obs_1": OBS[:, 1],
        "action": ACTION,
        "reward": REWARD,
        "terminated": ROWS % LENGTH == LENGTH - 1,
        "action_prob": BEHAVIOUR[ROWS, ACTION],
    }
    return {name: values for name, values in (made | changes).items() if values is not None}


def frame(**changes):
    return pd.DataFrame(clean(**changes))


def binary(**changes):
    """The same with two actions, as a treatment has; the probability of treatment is known."""
    p = BEHAVIOUR[:, 1] / BEHAVIOUR[:, :2].sum(axis=1)
    treated = (np.random.default_rng(3).random(N) < p).astype(int)
    return clean(action=treated, action_prob=np.where(treated == 1, p, 1 - p), **changes), p, treated


def value(log, rho):
    """Per-decision importance sampling, which every reward, ratio, end and order of rows moves."""
    total, factor = 0.0, 1.0
    for k in range(len(log)):
        first = k == 0 or log.episode[k] != log.episode[k - 1]
        factor = rho[k] if first else factor * 0.9 * rho[k]
        total += factor * log.reward[k] * (1 + 0.1 * log.observations[log.next_row[k]].sum())
    return total / log.n_episodes + log.terminated.sum()


def run(source, target, **reading):
    """The estimate, and everything that is said of it."""
    log, policies = read_beside(source, {"target": target}, **reading)
    found = ratios(log, policies["target"])
    return value(log, found.rho), (*log.understood.warnings, *found.notes)


TRUTH, _ = run(clean(), policy)
GREEDY, _ = run(clean(), np.eye(A)[BEST])
CASES = {}


def case(name, truth=None):
    """A case returns what it does to `run`; ``truth`` is what is right where it is not that of `policy`."""

    def add(work):
        assert name not in CASES
        CASES[name] = (work, TRUTH if truth is None else truth)
        return work

    return add


def outcome(name):
    work, truth = CASES[name]
    try:
        found, said = work()
    except InputError as error:
        return f"refused: {error}"
    right = "right" if abs(found - truth) < 1e-9 else "another value"
    return "\n".join([right, *(f"warning: {one}" for one in said)])


# The five rows of the first report.


@case("categories in an order of their own, probabilities in that order")
def _():
    acts = pd.Categorical(WORDS[ACTION], WORDS, ordered=True)
    return run(frame(action=acts), PI)


@case("ordered categories, and a frame with the names as columns, in another order")
def _():
    acts = pd.Categorical(WORDS[ACTION], WORDS, ordered=True)
    return run(frame(action=acts), pd.DataFrame(PI, columns=WORDS)[["low", "high", "none"]])


@case("ordered categories, and columns of the log")
def _():
    acts = pd.Categorical(WORDS[ACTION], WORDS, ordered=True)
    named = {f"pi_{word}": PI[:, k] for k, word in enumerate(WORDS)}
    return run(frame(action=acts, **named), ["pi_none", "pi_low", "pi_high"])


@case("events sorted by time, users interleaved")
def _():
    order = np.lexsort((ROWS // LENGTH, ROWS % LENGTH))
    table = frame(episode=None, t=None, terminated=None, user_id=ROWS // LENGTH, done=clean()["terminated"])
    table["timestamp"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(ROWS % LENGTH * 60 + ROWS // LENGTH, "s")
    return run(table.iloc[order].reset_index(drop=True), policy)


@case("a Series as target, the frame shuffled")
def _():
    order = np.random.default_rng(1).permutation(N)
    return run(frame().iloc[order], pd.Series(PI[ROWS, ACTION]))


@case("done only, and a limit of steps")
def _():
    lengths = [10 if k % 3 else 4 for k in range(30)]
    done = np.zeros(sum(lengths), bool)
    done[np.cumsum(lengths) - 1] = True
    part = {name: values[: len(done)] for name, values in clean(episode=None, t=None, terminated=None).items()}
    return run(part | {"done": done}, policy)


@case("0 and 1 by row, as model.predict(X) gives them", GREEDY)
def _():
    table, _, _ = binary()
    found, said = run(table, (OBS[:, 0] > 0).astype(int))
    wanted, _ = run(table, lambda seen: (seen[:, 0] > 0).astype(int))
    return found - wanted + GREEDY, said


# Order and alignment.


@case("text actions, probabilities by position")
def _():
    return run(clean(action=WORDS[ACTION]), PI)


@case("text actions, probabilities by position, the order said")
def _():
    return run(clean(action=WORDS[ACTION]), PI, actions=["none", "low", "high"])


@case("polars Enum, and a polars frame of probabilities in another order")
def _():
    table = pl.DataFrame(clean(action=WORDS[ACTION])).with_columns(pl.col("action").cast(pl.Enum(list(WORDS))))
    return run(table, pl.DataFrame(PI, schema=list(WORDS)).select("high", "none", "low"))


@case("columns of a frame are numbers in another order")
def _():
    return run(frame(), pd.DataFrame(PI[:, [2, 0, 1]], columns=[2, 0, 1]))


@case("a Series with the index of another frame")
def _():
    return run(frame(), pd.Series(PI[ROWS, ACTION], index=ROWS + 1000))


@case("a filtered frame, and the Series of all rows")
def _():
    table = frame()
    kept = table[table["episode"] >= 0].iloc[LENGTH:]  # the first episode is filtered out
    found, said = run(kept, pd.Series(PI[ROWS, ACTION]))
    wanted, _ = run(kept.reset_index(drop=True), PI[LENGTH:])
    return found - wanted + TRUTH, said


@case("labels of the target's actions by row", GREEDY)
def _():
    return run(clean(action=WORDS[ACTION]), list(WORDS[BEST]))


@case("labels in a Series, the frame shuffled", GREEDY)
def _():
    order = np.random.default_rng(1).permutation(N)
    return run(frame(action=WORDS[ACTION]).iloc[order], pd.Series(WORDS[BEST]))


@case("a column of the log with the target's labels", GREEDY)
def _():
    return run(frame(action=WORDS[ACTION], new=WORDS[BEST]), "new")


@case("a column of the log with the target's numbers", GREEDY)
def _():
    return run(frame(new=BEST), "new")


@case("a label that no action has")
def _():
    return run(clean(action=WORDS[ACTION]), ["stop"] * N)


@case("0.0 and 1.0 by row, two actions")
def _():
    return run(binary()[0], (OBS[:, 0] > 0).astype(float))


@case("0.0 and 1.0 by row, two actions, said to be probabilities", GREEDY)
def _():
    table, _, treated = binary()
    agrees = ((OBS[:, 0] > 0) == treated).astype(float)
    found, said = run(table, Probabilities(agrees))
    wanted, _ = run(table, lambda seen: (seen[:, 0] > 0).astype(int))
    return found - wanted + GREEDY, said


@case("truth values by row, three actions")
def _():
    return run(clean(), BEST == ACTION)


@case("percent")
def _():
    return run(clean(), np.full(N, 33))


@case("probabilities of treatment in every row, as the target")
def _():
    return run(binary()[0], 0.7 + 0.2 * (OBS[:, 0] > 0))


@case("numbers by row that may be of the action taken or of action 1")
def _():
    return run(binary()[0], 0.4 + 0.2 * (OBS[:, 0] > 0))


@case("a propensity score as the behaviour")
def _():
    p = 0.2 + 0.1 * (OBS[:, 0] > 0)
    treated = (np.random.default_rng(4).random(N) < p).astype(int)
    return run(clean(action=treated, action_prob=None, propensity_score=p), "uniform")


@case("an array in the order of the table beside a log that was sorted")
def _():
    order = np.random.default_rng(1).permutation(N)
    table = {name: values[order] for name, values in clean().items()}
    from gradtd.logs import read_log

    return run(read_log(table), PI[ROWS, ACTION][order])


# Episodes, ends and time.


@case("ids of devices in a column that is not known")
def _():
    done = clean()["terminated"]
    return run(frame(episode=None, t=None, terminated=None, done=done, device_id=ROWS // LENGTH), policy)


@case("episode and t in the index")
def _():
    return run(frame().set_index(["episode", "t"]), policy)


@case("ends as words")
def _():
    return run(clean(terminated=np.where(clean()["terminated"], "yes", "no")), policy)


@case("ends as other words")
def _():
    return run(clean(terminated=np.where(clean()["terminated"], "goal", "running")), policy)


@case("two workers that both number their episodes from 0")
def _():
    return run(clean(episode=ROWS // LENGTH % (EPISODES // 2)), policy)


@case("two workers that both number their episodes from 0, without t")
def _():
    return run(clean(episode=ROWS // LENGTH % (EPISODES // 2), t=None), policy)


@case("rows shuffled, no t")
def _():
    order = np.random.default_rng(1).permutation(N)
    return run({name: values[order] for name, values in clean(t=None).items()}, policy)


@case("t is a clock in seconds")
def _():
    return run(clean(t=None, time=1_700_000_000 + ROWS * 7 + RNG.integers(0, 4, N)), policy)


@case("t is a clock in seconds, said")
def _():
    table = clean(t=None, time=1_700_000_000 + ROWS * 7 + RNG.integers(0, 4, N))
    return run(table, policy, columns={"timestamp": "time"})


@case("dates as a German writes them")
def _():
    return run(clean(t=None, timestamp=[f"{1 + k % LENGTH}.5.2024" for k in ROWS]), policy)


@case("terminated and done")
def _():
    done = clean()["terminated"]
    return run(clean(done=done), policy)


@case("no end is marked, and no episode is numbered")
def _():
    return run(clean(episode=None, terminated=None), policy)


# Columns and values.


@case("a body weight")
def _():
    return run(clean(weight=70 + OBS[:, 0], action_prob=None), None)


@case("a column called target that holds labels")
def _():
    return run(clean(target=BEST), None)


@case("reward and r")
def _():
    return run(clean(r=REWARD), policy)


@case("missing values as -999")
def _():
    return run(clean(obs_1=np.where(ROWS % 17 == 3, -999.0, OBS[:, 1])), policy)


@case("missing rewards")
def _():
    return run(clean(reward=np.where(ROWS % 17 == 3, np.nan, REWARD)), policy)


@case("the reward among the observations")
def _():
    reading = {"columns": {"observation": ["obs_0", "obs_1", "reward"], "reward": "reward"}}
    return run(clean(), lambda seen: policy(seen[:, :2]), **reading)


@case("labels that differ in case")
def _():
    acts = WORDS[ACTION].astype(object)
    acts[::9] = [one.title() for one in acts[::9]]
    return run(clean(action=acts), "uniform")


@case("doses .5, 1 and 1.5")
def _():
    return run(clean(action=0.5 + 0.5 * ACTION), PI)


@case("doses .5, 1 and 1.5, said to be actions")
def _():
    return run(clean(action=0.5 + 0.5 * ACTION), PI, actions=[0.5, 1, 1.5])


@case("logarithms in a column of probabilities")
def _():
    return run(clean(action_prob=np.log(BEHAVIOUR[ROWS, ACTION])), policy)


@case("several faults at once")
def _():
    table = clean(reward=["much"] * N, terminated=ROWS % LENGTH, action_prob=np.full(N, 50.0))
    return run(table | {"obs_1": np.where(ROWS % 9, OBS[:, 1], np.nan)}, policy)


# A second look, with a fresh mind.


@case("two frames one after the other, with an index that repeats")
def _():
    parts = [frame().iloc[: N // 2], frame().iloc[N // 2 :].reset_index(drop=True)]
    table = pd.concat(parts).assign(pi=PI[ROWS, ACTION])
    return run(table, table["pi"])


@case("actions from 1, probabilities of three actions")
def _():
    return run(clean(action=ACTION + 1), PI)


@case("actions from 1, a function that returns argmax")
def _():
    return run(clean(action=ACTION + 1), lambda s: policy(s).argmax(axis=1))


@case("a number of the row as the episode")
def _():
    return run(clean(episode=ROWS, t=None), policy)


@case("next observations that are copies")
def _():
    return run(clean(next_obs_0=OBS[:, 0], next_obs_1=OBS[:, 1]), policy)


@case("the mapping turned round")
def _():
    table = clean(reward=None, gain=REWARD)
    return run(table, policy, columns={"gain": "reward"})


@case("done at the row after the end")
def _():
    first = ROWS % LENGTH == 0
    return run(clean(episode=None, t=None, terminated=None, done=first), policy)


@case("lists as text, as in a CSV file")
def _():
    return run(clean(obs_0=None, obs_1=None, obs=[str(row.tolist()) for row in OBS]), policy)


@case("numbers as text")
def _():
    return run(clean(obs_1=OBS[:, 1].astype(str)), policy)


@case("actions 2, 9 and 10 as text, probabilities in that order")
def _():
    return run(clean(action=np.array(["2", "9", "10"])[ACTION]), PI)


@case("the same probabilities everywhere, as a list")
def _():
    return run(clean(), [0.2, 0.3, 0.5])


@case("an environment that resets itself after a cut")
def _():
    cut = ROWS % LENGTH == LENGTH - 1
    after = np.roll(OBS, -1, axis=0)
    return run(clean(terminated=ROWS < 0, truncated=cut, next_obs_0=after[:, 0], next_obs_1=after[:, 1]), policy)


@case("episodes that are filled up to one length")
def _():
    done = (np.arange(LENGTH) >= 2) & np.ones((EPISODES, 1), bool)
    stacked = {"obs": OBS.reshape(EPISODES, LENGTH, 2), "reward": REWARD.reshape(EPISODES, LENGTH), "done": done}
    return run(stacked, "behaviour")


@case("columns in two levels")
def _():
    table = frame().rename(columns={"obs_0": ("obs", "x"), "obs_1": ("obs", "v")})
    return run(table, policy)


@case("columns of several lengths")
def _():
    return run(clean(reward=REWARD[:-1]), policy)


@case("decimal commas")
def _():
    return run(clean(reward=[f"{one:.3f}".replace(".", ",") for one in REWARD]), policy)


@case("the policy in place of the log")
def _():
    return run(policy, clean())


@case("probabilities by action in place of states")
def _():
    return run(clean(action=WORDS[ACTION]), {"none": 0.2, "low": 0.3, "high": 0.5})


@case("behavior", run(clean(), "behaviour")[0])
def _():
    return run(clean(), "behavior")


@case("one number for all episodes")
def _():
    return run(clean(episode=0 * ROWS, t=None), policy)


@case("two agents in one episode")
def _():
    return run(clean(episode=ROWS // (2 * LENGTH), agent=ROWS // LENGTH % 2), policy)


@case("a last row without an action")
def _():
    last = ROWS % LENGTH == LENGTH - 1
    return run(clean(action=np.where(last, np.nan, ACTION), reward=np.where(last, np.nan, REWARD)), policy)


@case("rows that were filtered out in the middle of episodes")
def _():
    kept = frame()[np.random.default_rng(2).random(N) < 0.8]
    return run(kept, policy)


def shown():
    """All cases with what becomes of them, as the file has it."""
    return "\n".join(f"## {name}\n{outcome(name)}\n" for name in CASES)


def golden(section):
    """What the file says, by case."""
    text = MESSAGES.read_text().split(f"# {section}\n")[1].split("\n# ")[0]
    parts = [part.partition("\n") for part in text.split("## ")[1:]]
    return {name: rest.strip() for name, _, rest in parts}


@pytest.mark.parametrize("name", CASES)
def test_careless_inputs(name):
    found = outcome(name)
    assert found == golden("Careless inputs")[name]
    assert found == "right" or "warning: " in found or found.startswith("refused: ")


def test_there_are_sixty_of_them_beside_the_first_report():
    assert len(CASES) >= 67
    assert list(golden("Careless inputs")) == list(CASES)


if __name__ == "__main__":
    print(shown())
