"""A sweep on a Slurm cluster, by dask-jobqueue. Start it on a login node, or in a small job of its own:

    pip install 'gradtd[cluster]' dask-jobqueue
    python slurm.py grid.toml --out /shared/grid --jobs 100 --queue normal

Every job is one worker with one core. Jobs that end or are killed lose the unit they were at; Slurm starts the rest as
room comes. Kill this script at any time and start it again: finished units are kept. ``--here`` starts the jobs as
processes of this machine, to try the file without Slurm.
"""

import argparse

from distributed import Client

import gradtd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="the sweep, as TOML")
    parser.add_argument("--out", required=True, help="a folder that this machine can write to")
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--queue")
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--time", default="04:00:00")
    parser.add_argument("--interface", help="the network between the nodes, for example ib0")
    parser.add_argument("--here", action="store_true", help="processes of this machine in place of Slurm jobs")
    given = parser.parse_args()
    if given.here:
        from dask_jobqueue.local import LocalCluster as Cluster

        more = {"scheduler_options": {"host": "127.0.0.1"}}
    else:
        from dask_jobqueue import SLURMCluster as Cluster

        more = {"queue": given.queue, "walltime": given.time, "interface": given.interface}
    settings = {"cores": 1, "processes": 1, "memory": given.memory}
    with Cluster(**settings, **{name: value for name, value in more.items() if value}) as cluster, Client(cluster):
        cluster.scale(jobs=given.jobs)
        found = gradtd.Sweep.from_file(given.file).run(given.out, scheduler=cluster.scheduler_address)
    print(found.table().text())


if __name__ == "__main__":
    main()
