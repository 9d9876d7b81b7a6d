"""What another processor changes: nothing in compiled code, the last digits where BLAS multiplies."""

import json
import os
import subprocess
import sys

import pytest

CODE = """
import json, sys
import numpy as np, gradtd
rng, n = np.random.default_rng(0), 2000
log = {"episode": np.repeat(np.arange(n // 8), 8), "reward": rng.normal(size=n), "terminated": np.arange(n) % 8 == 7}
log |= {"rho": rng.choice([0.5, 1.5], n), "obs_0": rng.normal(size=n), "obs_1": rng.normal(size=n)}
import pyarrow as pa, pyarrow.parquet as pq
pq.write_table(pa.table(log), sys.argv[1])
told = {"run": gradtd.run("boyan_chain", "td", runs=2, steps=500, alpha=0.1).thetas.tobytes().hex()[:4000]}
for parts in (False, True):
    machine = gradtd.Machine(in_parts=parts, threads=1)
    found = gradtd.evaluate(sys.argv[1], gamma=0.9, machine=machine, progress=False)
    told[str(parts)] = [found.value, *found.interval, found.verdict]
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    place = tmp_path_factory.mktemp("processors")
    found = {}
    for name, said in {
        "this": {},
        "generic": {"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(place / "generic")},
        "other products": {"OPENBLAS_CORETYPE": "Nehalem"},
    }.items():
        environment = os.environ | {"OMP_NUM_THREADS": "1"} | said
        command = [sys.executable, "-c", CODE, str(place / f"{name}.parquet")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found[name] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_compiled_code_has_the_same_bytes_on_a_generic_processor(answers):
    assert answers["generic"] == answers["this"]


@pytest.mark.slow
def test_other_products_move_the_last_digits_of_an_evaluation_alone(answers):
    one, other = answers["this"], answers["other products"]
    assert other["run"] == one["run"]
    for parts in ("False", "True"):
        assert other[parts][:3] == pytest.approx(one[parts][:3], rel=1e-9)
        assert other[parts][3] == one[parts][3]
