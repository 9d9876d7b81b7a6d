"""Tests of the extra ``deep``, where it is installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("jax") and find_spec("optax") else ["test_*.py"]
