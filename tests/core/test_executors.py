"""Threads or the workers of a cluster: the same bytes, also where a worker is lost."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import gradtd
from gradtd.cli.app import app
from gradtd.core import executors
from gradtd.core.executors import ThreadExecutor, open_executor
from gradtd.paper.jobs import LineJob, Store
from gradtd.paper.reproduce import Worker

GRID = {
    "problems": ["boyan_chain"],
    "algorithms": {"td": {"alpha": [0.03125, 0.0625]}, "lstd": {}},
    "runs": 3,
    "steps": 300,
    "block": 1,
}


def _bytes(folder):
    return {name: (folder / name).read_bytes() for name in ("results.parquet", "winners.parquet", "index.html")}


def test_threads_hand_back_every_piece():
    for threads in (1, 3):
        done = dict(ThreadExecutor(threads).each(lambda piece: piece**2, list(range(20))))
        assert done == {k: k**2 for k in range(20)}


def test_an_error_in_a_thread_is_raised():
    def work(piece):
        if piece == 3:
            raise ValueError("three")
        return piece

    with pytest.raises(ValueError, match="three"):
        dict(ThreadExecutor(2).each(work, list(range(8))))


@pytest.mark.parametrize(
    "address", ["local:0", "local:", "local:x", "local:-1", "local:\u00b2", "local:99999", "local"]
)
def test_addresses_that_are_none_are_refused(address):
    pytest.importorskip("distributed")
    with pytest.raises(gradtd.InputError, match="local:2"), open_executor(scheduler=address):
        pass


def test_without_dask_a_scheduler_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(gradtd.InputError, match=r"pip install 'gradtd\[cluster\]'"), open_executor(scheduler="local:2"):
        pass


@pytest.fixture(scope="module")
def cluster():
    """Two processes that listen on this machine alone."""
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'gradtd[cluster]'")
    settings = {"n_workers": 2, "threads_per_worker": 1}
    with executors._started(distributed.LocalCluster, settings | executors.ONLY_HERE) as made:
        yield made


@pytest.mark.slow
def test_a_cluster_takes_ports_that_are_free():
    """A warning that Dask's own port is taken would end it, and leave its sockets open."""
    pytest.importorskip("distributed")
    with socket.socket() as other:
        with contextlib.suppress(OSError):  # somebody else has it, which is as good
            other.bind(("127.0.0.1", 8787))
            other.listen()
        with open_executor(scheduler="local:1") as executor:
            assert dict(executor.each(abs, [-1, -2])) == {0: 1, 1: 2}


ENCRYPTED = """
import distributed, gradtd
from gradtd.core import executors
if __name__ == "__main__":
    settings = {"n_workers": 1, "threads_per_worker": 1, "protocol": "tls://"} | executors.ONLY_HERE
    with executors._started(distributed.LocalCluster, settings) as made:
        with executors.open_executor(scheduler=made.scheduler_address) as executor:
            print(made.scheduler_address[:6], dict(executor.each(abs, [-3])))
        try:
            executors.open_executor(scheduler="tcp" + made.scheduler_address[3:]).__enter__()
        except gradtd.InputError as error:
            print(error)
"""


@pytest.mark.slow
def test_certificates_come_from_the_settings_of_dask(tmp_path):
    pytest.importorskip("distributed")
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    key, cert = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=gradtd", "-keyout", key, "-out", cert]
    subprocess.run(["openssl", *words], check=True, capture_output=True)
    told = {"REQUIRE_ENCRYPTION": "true", "TLS__CA_FILE": cert}
    for who in ("CLIENT", "WORKER", "SCHEDULER"):
        told |= {f"TLS__{who}__CERT": cert, f"TLS__{who}__KEY": key}
    (tmp_path / "script.py").write_text(ENCRYPTED)
    environment = os.environ | {f"DASK_DISTRIBUTED__COMM__{name}": value for name, value in told.items()}
    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "tls:// {0: 3}" in done.stdout, done.stderr
    assert "encryption required by Dask" in done.stdout, done.stdout


def test_a_cluster_that_does_not_start_is_started_again(monkeypatch):
    """Its loop has ten seconds, which a busy machine may not have for it."""
    distributed = pytest.importorskip("distributed")
    tries = []

    def slow(**settings):
        tries.append(settings["host"])
        raise AssertionError

    monkeypatch.setattr(distributed, "LocalCluster", slow)
    with pytest.raises(gradtd.InputError, match="cannot start processes here: AssertionError"):
        open_executor(scheduler="local:1").__enter__()
    assert tries == ["127.0.0.1"] * 3


@pytest.mark.parametrize("address", ["tcp://10.0.0.5:1", "example.org:8786", "tcp://127.0.0.1:1", "tls://10.0.0.5:1"])
def test_an_open_connection_to_another_machine_is_named(address, monkeypatch, caplog):
    distributed = pytest.importorskip("distributed")

    def nobody(*given, **more):
        raise OSError("nobody is there")

    monkeypatch.setattr(distributed, "Client", nobody)
    with (
        pytest.raises(gradtd.InputError, match="nobody is there; an address reads tls"),
        open_executor(scheduler=address),
    ):
        pass
    assert ("is not encrypted" in caplog.text) == (address in ("tcp://10.0.0.5:1", "example.org:8786"))


def _kill_a_worker(cluster, after):
    """A progress function that kills one worker, with SIGKILL, after so many pieces."""
    heard = []

    def report(*told):
        heard.append(told)
        if len(heard) == after:
            os.kill(next(iter(cluster.workers.values())).process.pid, signal.SIGKILL)

    return report, heard


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_sweep_on_a_cluster_has_the_same_bytes_though_a_worker_dies(cluster, tmp_path):
    grid = gradtd.Sweep(**GRID)
    local = grid.run(tmp_path / "local", threads=1)
    report, heard = _kill_a_worker(cluster, 4)
    far = grid.run(tmp_path / "far", scheduler=cluster.scheduler_address, progress=report)
    assert len(heard) == 3 * 3 + 3 * 2
    assert _bytes(far.folder) == _bytes(local.folder)


def _nap(piece):
    """Piece 40 takes long for its kind, and 60 cannot be done."""
    import time

    time.sleep(1.0 if piece == 40 else 0.005)
    if piece == 60:
        raise ValueError("sixty")
    return piece**2, os.getpid()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_short_pieces_travel_together_and_none_is_lost_or_done_twice(cluster, monkeypatch):
    sent = []
    take = executors._Waiting.take
    monkeypatch.setattr(executors._Waiting, "take", lambda *own: sent.append(take(*own)) or sent[-1])
    with open_executor(scheduler=cluster.scheduler_address) as executor:
        pieces = [number for number in range(400) if number != 60]
        found = []
        for number, (square, worker) in executor.each(_nap, pieces):
            found.append((number, square))
            if len(found) == 50:  # in the middle of a task of many pieces
                os.kill(worker, signal.SIGKILL)
        assert sorted(found) == [(number, piece**2) for number, piece in enumerate(pieces)]
        assert max(map(len, sent)) > 4
        assert len([numbers for numbers in sent if numbers]) < 250


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_comes_before_an_error_in_a_task_is_not_lost(cluster, monkeypatch):
    monkeypatch.setattr(
        executors._Waiting, "take", lambda own, _: [own.numbers.popleft() for _ in range(len(own.numbers))]
    )
    with open_executor(scheduler=cluster.scheduler_address) as executor:
        coming = executor.each(_nap, list(range(56, 63)))
        assert [next(coming)[0] for _ in range(4)] == [0, 1, 2, 3]
        with pytest.raises(ValueError, match="sixty"):
            next(coming)


def test_a_task_ends_early_where_its_pieces_take_long(monkeypatch):
    monkeypatch.setattr(executors, "AT_LEAST", 0.5)
    done, longest = executors._some(_nap, [39, 40, 41])
    assert [square for square, _ in done] == [39**2, 40**2]
    assert longest >= 1.0
    waiting = executors._Waiting(400)
    waiting.at_once = 8
    numbers = waiting.take(2)
    assert numbers == list(range(8))
    waiting.put_back(numbers[2:], longest)
    assert waiting.take(2) == [2]


def test_the_last_tasks_are_small():
    waiting = executors._Waiting(100)
    waiting.at_once = 64
    sizes = []
    while numbers := waiting.take(2):
        sizes.append(len(numbers))
    assert sum(sizes) == 100
    assert sizes[0] == 25
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-4:] == [1, 1, 1, 1]


def test_the_longest_units_are_done_first(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADTD_INTERPRET", "1")
    heard = []
    grid = GRID | {"steps": 60, "algorithms": {"td": {"alpha": 0.03125}, "impression_gtd": {"alpha": 1.0}}}
    gradtd.Sweep(**grid).run(tmp_path / "x", threads=1, progress=lambda what, done, total: heard.append((what, done)))
    work = np.diff([0.0, *(done for what, done in heard if what == "sweep")])
    assert work[0] > work[-1]
    assert (np.diff(work) <= 0).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_evaluation_on_a_cluster_has_the_same_bytes_though_a_worker_dies(cluster, tmp_path, monkeypatch):
    from threadpoolctl import threadpool_limits

    from gradtd.evaluation import part_sums
    from gradtd.logs import parts

    monkeypatch.setattr(part_sums, "NUMBERS", 10**6)
    monkeypatch.setattr(parts.Survey.parts, "__defaults__", (150,))
    rng = np.random.default_rng(0)
    n = 1500
    ends = rng.random(n) < 0.05
    log = {
        "episode": np.cumsum(np.r_[0, ends[:-1]]),
        "obs_0": rng.normal(size=n),
        "obs_1": rng.normal(size=n),
        "reward": rng.normal(1, 1, n),
        "terminated": ends,
        "rho": rng.choice([0.5, 1.5], n),
    }
    file = str(gradtd.write_log(gradtd.read_log(log), tmp_path / "log.parquet"))
    settings = {"gamma": 0.9, "features": "identity"}
    report, heard = _kill_a_worker(cluster, 4)
    with threadpool_limits(1):  # as Dask gives its workers: other sums of products round in another way
        local = gradtd.evaluate(file, machine=gradtd.Machine(in_parts=True, threads=1), **settings)
        far = gradtd.evaluate(
            file, progress=report, machine=gradtd.Machine(scheduler=cluster.scheduler_address), **settings
        )
    assert sum(what == "reading" for what, *_ in heard) > 8
    assert far.theta.tobytes() == local.theta.tobytes()
    assert far.to_dict() == local.to_dict()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_jobs_of_a_reproduction_on_a_cluster_have_the_same_bytes(cluster, tmp_path):
    jobs = [LineJob("boyan_chain", 2, rule, {"alpha": 0.05}) for rule in ("td", "vtrace")]
    with open_executor(scheduler=cluster.scheduler_address) as executor:
        Worker(Store(tmp_path / "far"), 1, executor=executor).ahead(jobs)
    for job in jobs:
        far, near = Store(tmp_path / "far").look(job.key()), job.compute(1)
        assert {name: a.tobytes() for name, a in far.arrays.items()} == {n: a.tobytes() for n, a in near.arrays.items()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_worker_with_an_error_ends_the_sweep_with_it(cluster, tmp_path):
    def broken(state, stream, now, hyper):
        """Reads what is not there."""
        state.theta[0] += hyper.nothing

    grid = gradtd.Sweep(**(GRID | {"algorithms": {"mine": {"alpha": 0.1}}, "own": [gradtd.Algorithm("mine", broken)]}))
    with pytest.raises(gradtd.InputError, match="does not compile"):
        grid.run(tmp_path / "x", scheduler=cluster.scheduler_address)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_command_starts_a_cluster_of_its_own(cluster, tmp_path):
    file = tmp_path / "grid.toml"
    file.write_text('problems = ["boyan_chain"]\nruns = 2\nsteps = 100\n[algorithms.td]\nalpha = 0.1\n')
    command = [sys.executable, "-m", "gradtd", "sweep", str(file), "--out", str(tmp_path / "out"), "--scheduler"]
    done = subprocess.run([*command, "local:1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "results.parquet").exists()
    refused = CliRunner().invoke(app, [*command[3:], "local:none"])
    assert "scheduler must be 'local:' and a number of processes" in str(refused.exception)
